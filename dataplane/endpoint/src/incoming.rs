//! Frames that a host reads: from bytes to a checked transport packet, or the reason to refuse it.
//!
//! Called by [`Host::receive`](crate::Host::receive). Nothing here knows a connection; lengths are
//! compared with the bytes at hand before they are believed.

use packet::{Address, Kind, Opcode, Psn, Qpn, bth, icrc, parse};

use crate::config::HostConfig;
use crate::frame::Reth;

/// A frame that is no packet for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    BadFrame,
    NotOurs,
    NotRoce,
    Message,
    BadIcrc,
    BadOpcode,
    BadLength,
}

/// A packet of the reliable transport.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) source: Address,
    pub(crate) destination_qp: Qpn,
    pub(crate) psn: Psn,
    pub(crate) is_ce_marked: bool,
    pub(crate) body: Body<'a>,
}

/// What it carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'a> {
    Write(Write<'a>),
    Ack { syndrome: u8 },
    Cnp,
}

/// A WRITE packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) len: u32,
    pub(crate) ends_message: bool,
    pub(crate) ack_req: bool,
    pub(crate) reth: Option<Reth>,
    /// `None` in the simulator's form, which has no payload.
    pub(crate) payload: Option<&'a [u8]>,
}

/// Reads a frame of which `wire_len` bytes were on the wire.
#[inline]
pub(crate) fn read<'a, const WHOLE: bool>(
    frame: &'a [u8],
    wire_len: usize,
    config: &HostConfig,
) -> Result<Incoming<'a>, Refusal> {
    let parsed = parse(frame, wire_len, config.message_port).map_err(|_| Refusal::BadFrame)?;
    match parsed.kind {
        Kind::Roce => {}
        Kind::Message => return Err(Refusal::Message),
        Kind::Arp | Kind::Fragment | Kind::Plain | Kind::Ports => return Err(Refusal::NotRoce),
    }
    if parsed.destination != config.address {
        return Err(Refusal::NotOurs);
    }
    // The end of RoCE is the end of UDP, which may lie before that of IP; parse has compared them.
    let udp = usize::from(parsed.transport);
    let end = udp + usize::from(u16::from_be_bytes([frame[udp + 4], frame[udp + 5]]));
    let at = usize::from(parsed.payload);
    if WHOLE && config.check_icrc && frame.len() >= end {
        let network = usize::from(parsed.network);
        if !icrc::is_right(&frame[network..end], udp - network) {
            return Err(Refusal::BadIcrc);
        }
    }
    if bth::version(frame, at) != 0 {
        return Err(Refusal::BadOpcode);
    }
    let body_end = end - bth::ICRC_LEN;
    let body = match bth::opcode(frame, at) {
        Opcode::CNP => Body::Cnp,
        Opcode::ACK => {
            let aeth = at + bth::HEADER_LEN;
            if body_end != aeth + bth::AETH_LEN || frame.len() < body_end {
                return Err(Refusal::BadLength);
            }
            Body::Ack {
                syndrome: frame[aeth],
            }
        }
        opcode @ (Opcode::WRITE_FIRST
        | Opcode::WRITE_MIDDLE
        | Opcode::WRITE_LAST
        | Opcode::WRITE_ONLY) => {
            Body::Write(read_write::<WHOLE>(frame, at, body_end, opcode, config)?)
        }
        _ => return Err(Refusal::BadOpcode),
    };
    Ok(Incoming {
        source: parsed.source,
        destination_qp: bth::destination_qp(frame, at),
        psn: bth::psn(frame, at),
        is_ce_marked: parsed.traffic_class & 3 == 3,
        body,
    })
}

#[inline]
fn read_write<'a, const WHOLE: bool>(
    frame: &'a [u8],
    at: usize,
    end: usize,
    opcode: Opcode,
    config: &HostConfig,
) -> Result<Write<'a>, Refusal> {
    let begins = opcode == Opcode::WRITE_FIRST || opcode == Opcode::WRITE_ONLY;
    let ends = opcode == Opcode::WRITE_LAST || opcode == Opcode::WRITE_ONLY;
    let mut begin = at + bth::HEADER_LEN;
    let reth = if begins {
        let header = frame.get(begin..begin + bth::RETH_LEN);
        let header = header.ok_or(Refusal::BadLength)?;
        begin += bth::RETH_LEN;
        Some(read_reth(header))
    } else {
        None
    };
    let pad = usize::from(frame[at + bth::FLAGS] >> 4 & 3);
    let len = end.checked_sub(begin + pad).ok_or(Refusal::BadLength)?;
    let mtu = config.mtu.bytes() as usize;
    // Full in the middle of a message, never empty at the end of a longer one (IBTA 9.7.4.1.5).
    let is_right = match (begins, ends) {
        (_, false) => len == mtu,
        (true, true) => len <= mtu,
        (false, true) => len <= mtu && len > 0,
    };
    let is_aligned = (len + pad).is_multiple_of(4);
    let agrees = match (reth, begins && ends) {
        (Some(reth), true) => reth.message_bytes as usize == len,
        (Some(reth), false) => reth.message_bytes as usize > mtu,
        (None, _) => true,
    };
    if !is_right || !is_aligned || !agrees {
        return Err(Refusal::BadLength);
    }
    Ok(Write {
        len: len as u32,
        ends_message: ends,
        ack_req: frame[at + bth::ACK_REQ] & 0x80 != 0,
        reth,
        payload: if WHOLE {
            frame.get(begin..begin + len)
        } else {
            None
        },
    })
}

fn read_reth(header: &[u8]) -> Reth {
    let mut address = [0; 8];
    address.copy_from_slice(&header[..8]);
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[12..]);
    Reth {
        address: u64::from_be_bytes(address),
        message_bytes: u32::from_be_bytes(bytes),
    }
}
