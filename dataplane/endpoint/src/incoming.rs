//! A received frame, read once: what it asks of which connection, or why it is refused.
//!
//! Called by [`Host::receive`](crate::Host::receive). Nothing here knows a connection; lengths are
//! compared with the bytes at hand before they are believed.

use packet::parse::{Parsed, parse_common};
use packet::{Address, Kind, Opcode, Psn, Qpn, be, bth, icrc, parse};

use crate::config::HostConfig;
use crate::frame::Reth;
use crate::verb::{Class, Shape, shape};

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
    /// SEND or WRITE.
    Data(Data<'a>),
    /// READ request.
    Request(Reth),
    /// READ response.
    Response {
        len: u32,
        payload: Option<&'a [u8]>,
    },
    Ack {
        syndrome: u8,
    },
    Cnp,
}

/// A SEND or WRITE packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data<'a> {
    pub(crate) shape: Shape,
    pub(crate) len: u32,
    pub(crate) ack_req: bool,
    pub(crate) reth: Option<Reth>,
    pub(crate) immediate: u32,
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
    // Nearly all frames are of the common shape; the walk over any other is out of line.
    match parse_common(frame, wire_len) {
        Some(parsed) => read_roce::<WHOLE>(frame, &parsed, config),
        None => read_any::<WHOLE>(frame, wire_len, config),
    }
}

#[inline(never)]
fn read_any<'a, const WHOLE: bool>(
    frame: &'a [u8],
    wire_len: usize,
    config: &HostConfig,
) -> Result<Incoming<'a>, Refusal> {
    let parsed = parse(frame, wire_len, config.message_port).map_err(|_| Refusal::BadFrame)?;
    match parsed.kind {
        Kind::Roce => read_roce::<WHOLE>(frame, &parsed, config),
        Kind::Message => Err(Refusal::Message),
        Kind::Arp | Kind::Fragment | Kind::Plain | Kind::Ports => Err(Refusal::NotRoce),
    }
}

#[inline(always)]
fn read_roce<'a, const WHOLE: bool>(
    frame: &'a [u8],
    parsed: &Parsed,
    config: &HostConfig,
) -> Result<Incoming<'a>, Refusal> {
    if parsed.destination != config.address {
        return Err(Refusal::NotOurs);
    }
    // The end of RoCE is the end of UDP, which may lie before that of IP; parse has compared them.
    let udp = usize::from(parsed.transport);
    let end = udp + usize::from(be::get16(frame, udp + 4));
    let at = usize::from(parsed.payload);
    if WHOLE && config.check_icrc && frame.len() >= end {
        let network = usize::from(parsed.network);
        if !icrc::is_right(&frame[network..end], udp - network) {
            return Err(Refusal::BadIcrc);
        }
    }
    let header = parsed.bth;
    if header.version != 0 {
        return Err(Refusal::BadOpcode);
    }
    let body = if header.opcode == Opcode::CNP {
        Body::Cnp
    } else {
        read_body::<WHOLE>(frame, at, end - bth::ICRC_LEN, header.opcode, config)?
    };
    Ok(Incoming {
        source: parsed.source,
        destination_qp: header.destination_qp,
        psn: header.psn,
        is_ce_marked: parsed.traffic_class & 3 == 3,
        body,
    })
}

/// Reads what stands behind the BTH at `at`, up to `end`.
#[inline(always)]
fn read_body<'a, const WHOLE: bool>(
    frame: &'a [u8],
    at: usize,
    end: usize,
    opcode: Opcode,
    config: &HostConfig,
) -> Result<Body<'a>, Refusal> {
    let shape = shape(opcode);
    let mut begin = at + bth::HEADER_LEN;
    let reth = if shape.reth {
        let header = frame.get(begin..begin + bth::RETH_LEN);
        let header = header.ok_or(Refusal::BadLength)?;
        begin += bth::RETH_LEN;
        Some(read_reth(header))
    } else {
        None
    };
    let mut syndrome = 0;
    if shape.aeth {
        syndrome = *frame.get(begin).ok_or(Refusal::BadLength)?;
        begin += bth::AETH_LEN;
    }
    let mut immediate = 0;
    if shape.immediate {
        if frame.len() < begin + bth::IMMEDIATE_LEN {
            return Err(Refusal::BadLength);
        }
        immediate = be::get32(frame, begin);
        begin += bth::IMMEDIATE_LEN;
    }
    let pad = usize::from(frame[at + bth::FLAGS] >> 4 & 3);
    let len = end.checked_sub(begin + pad).ok_or(Refusal::BadLength)?;
    match (shape.class, reth) {
        (Class::Write | Class::Send, _) => {}
        (Class::Response, _) => {}
        (Class::Ack, _) if len + pad == 0 => return Ok(Body::Ack { syndrome }),
        (Class::Request, Some(reth)) if len + pad == 0 => return Ok(Body::Request(reth)),
        (Class::Ack | Class::Request, _) => return Err(Refusal::BadLength),
        (Class::Other, _) => return Err(Refusal::BadOpcode),
    }
    let mtu = config.mtu.bytes() as usize;
    // Full in the middle of a message, never empty at the end of a longer one (IBTA 9.7.4.1.5).
    let is_right = match (shape.begins, shape.ends) {
        (_, false) => len == mtu,
        (true, true) => len <= mtu,
        (false, true) => len <= mtu && len > 0,
    };
    let agrees = match reth {
        None => true,
        Some(reth) if shape.ends => reth.message_bytes as usize == len,
        Some(reth) => reth.message_bytes as usize > mtu,
    };
    if !is_right || !agrees || (len + pad) & 3 != 0 {
        return Err(Refusal::BadLength);
    }
    let payload = if WHOLE && frame.len() >= end + bth::ICRC_LEN {
        frame.get(begin..begin + len)
    } else {
        None
    };
    let len = len as u32;
    if shape.class == Class::Response {
        return Ok(Body::Response { len, payload });
    }
    Ok(Body::Data(Data {
        shape,
        len,
        ack_req: frame[at + bth::ACK_REQ] & 0x80 != 0,
        reth,
        immediate,
        payload,
    }))
}

#[inline]
fn read_reth(header: &[u8]) -> Reth {
    Reth {
        address: u64::from(be::get32(header, 0)) << 32 | u64::from(be::get32(header, 4)),
        message_bytes: be::get32(header, 12),
    }
}
