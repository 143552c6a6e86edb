//! Frames that a host writes: WRITE packets, acknowledgements, flow announcements.
//!
//! Called by [`Host::transmit`](crate::Host::transmit). A frame is written whole, with its ICRC,
//! when the caller's room holds it, else its headers alone: a simulator carries no payload.

use packet::bth::{self, BthFields};
use packet::ip::{self, UDP_HEADER_LEN};
use packet::message::{self, FIXED_LEN};
use packet::{Opcode, Psn, Qpn, ROCE_PORT, ethernet, icrc};

use crate::pattern;
use crate::route::Route;

/// Room that [`Host::transmit`](crate::Host::transmit) needs in any case: the longest headers,
/// those of an announcement over IPv6.
pub const HEADER_ROOM: usize =
    ethernet::HEADER_LEN + ip::V6_HEADER_LEN + UDP_HEADER_LEN + FIXED_LEN;

/// AETH syndrome of an ACK: no credit count (IBTA volume 1, 9.7.5.1.2).
pub(crate) const SYNDROME_ACK: u8 = 0x1f;
/// AETH syndrome of a NAK for a PSN sequence error (table 58).
pub(crate) const SYNDROME_NAK_SEQUENCE: u8 = 0x60;
/// The key of the one memory region that there is.
const REMOTE_KEY: u32 = 0x5350_434b;

/// A frame that was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Emitted {
    /// Bytes of its headers; that many are in the caller's room in any case.
    pub header_len: u32,
    /// Bytes of the whole frame, Ethernet header to ICRC, without FCS. They are all written if
    /// the room holds them.
    pub wire_len: u32,
}

/// The RDMA extended header of a WRITE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reth {
    /// Byte of the connection's stream at which the message begins.
    pub(crate) address: u64,
    /// Length of the message.
    pub(crate) message_bytes: u32,
}

/// Writes a data packet, number `index` of its connection, with `len` bytes of payload.
#[inline]
pub(crate) fn write_data<const WHOLE: bool>(
    frame: &mut [u8],
    route: &mut Route,
    fields: &BthFields,
    reth: Option<Reth>,
    index: u64,
    len: usize,
) -> Emitted {
    let extension = if reth.is_some() { bth::RETH_LEN } else { 0 };
    let pad = usize::from(fields.pad);
    let udp_len = bth::HEADER_LEN + extension + len + pad + bth::ICRC_LEN;
    let at = route.write(frame, ROCE_PORT, udp_len);
    bth::write(&mut frame[at..], fields);
    let mut header_len = at + bth::HEADER_LEN;
    if let Some(reth) = reth {
        let out = &mut frame[header_len..header_len + bth::RETH_LEN];
        out[..8].copy_from_slice(&reth.address.to_be_bytes());
        out[8..12].copy_from_slice(&REMOTE_KEY.to_be_bytes());
        out[12..].copy_from_slice(&reth.message_bytes.to_be_bytes());
        header_len += bth::RETH_LEN;
    }
    let end = header_len + len + pad;
    if WHOLE && frame.len() >= end + bth::ICRC_LEN {
        let payload = pattern::payload(fields.destination_qp, index, len);
        frame[header_len..header_len + len].copy_from_slice(payload);
        frame[end - pad..end].fill(0);
        seal(frame, at, end);
    }
    Emitted {
        header_len: header_len as u32,
        wire_len: (end + bth::ICRC_LEN) as u32,
    }
}

/// Writes an ACK or, by its syndrome, a NAK. `messages` is the MSN, 24 bits.
pub(crate) fn write_ack<const WHOLE: bool>(
    frame: &mut [u8],
    route: &mut Route,
    destination_qp: Qpn,
    psn: Psn,
    syndrome: u8,
    messages: u32,
) -> Emitted {
    let udp_len = bth::HEADER_LEN + bth::AETH_LEN + bth::ICRC_LEN;
    let at = route.write(frame, ROCE_PORT, udp_len);
    let fields = BthFields {
        opcode: Opcode::ACK,
        destination_qp,
        psn,
        ack_req: false,
        pad: 0,
    };
    bth::write(&mut frame[at..], &fields);
    let aeth = at + bth::HEADER_LEN;
    let word = u32::from(syndrome) << 24 | (messages & 0x00ff_ffff);
    frame[aeth..aeth + bth::AETH_LEN].copy_from_slice(&word.to_be_bytes());
    let end = aeth + bth::AETH_LEN;
    if WHOLE {
        seal(frame, at, end);
    }
    Emitted {
        header_len: end as u32,
        wire_len: (end + bth::ICRC_LEN) as u32,
    }
}

/// Writes a message of spraycheck's own.
pub(crate) fn write_message(
    frame: &mut [u8],
    route: &mut Route,
    port: u16,
    header: &message::Header,
) -> Emitted {
    let at = route.write(frame, port, FIXED_LEN);
    let len = message::write(&mut frame[at..], header, |_| false, |_| 0);
    Emitted {
        header_len: (at + len) as u32,
        wire_len: (at + len) as u32,
    }
}

/// Puts the ICRC at `end`; the BTH is at `bth_at`.
#[inline]
fn seal(frame: &mut [u8], bth_at: usize, end: usize) {
    let udp_at = bth_at - UDP_HEADER_LEN - ethernet::HEADER_LEN;
    // Headers of our own making always have one.
    if let Some(crc) = icrc::icrc(&frame[ethernet::HEADER_LEN..end], udp_at) {
        frame[end..end + bth::ICRC_LEN].copy_from_slice(&crc);
    }
}
