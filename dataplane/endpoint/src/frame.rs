//! Frames that a host writes: packets of data, requests, acknowledgements, notifications, flow
//! announcements.
//!
//! Called by [`Host::transmit`](crate::Host::transmit). A frame is written whole, with its ICRC,
//! when the caller's room holds it, else its headers alone: a simulator carries no payload.

use packet::bth::{self, BthFields};
use packet::ip::{self, UDP_HEADER_LEN};
use packet::message::{self, FIXED_LEN};
use packet::{Opcode, Psn, Qpn, ROCE_PORT, ethernet, icrc};

use crate::pattern;
use crate::route::{self, Route};

/// Room that [`Host::transmit`](crate::Host::transmit) needs in any case: the longest headers,
/// those of an announcement over IPv6.
pub const HEADER_ROOM: usize =
    ethernet::HEADER_LEN + ip::V6_HEADER_LEN + UDP_HEADER_LEN + FIXED_LEN;

/// AETH syndrome of an ACK: no credit count (IBTA volume 1, 9.7.5.1.2).
pub(crate) const SYNDROME_ACK: u8 = 0x1f;
/// AETH syndrome of a receiver-not-ready NAK; the timer code stands in the low five bits.
pub(crate) const SYNDROME_NOT_READY: u8 = 0x20;
/// AETH syndrome of a NAK for a PSN sequence error (table 58).
pub(crate) const SYNDROME_NAK_SEQUENCE: u8 = 0x60;
/// The key of the one memory region that there is.
const REMOTE_KEY: u32 = 0x5350_434b;
/// BECN, in the byte of the mark: set in a congestion notification (annex A17.9.3).
const BECN: u8 = 0x40;
/// Reserved bytes behind the BTH of a congestion notification (annex A17.9.3).
const CNP_RESERVED: usize = 16;

/// A frame that was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Emitted {
    /// Bytes of its headers; that many are in the caller's room in any case.
    pub header_len: u32,
    /// Bytes of the whole frame, Ethernet header to ICRC, without FCS. They are all written if
    /// the room holds them.
    pub wire_len: u32,
}

/// The RDMA extended header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reth {
    /// Byte of the connection's stream at which the message begins.
    pub(crate) address: u64,
    /// Length of the message.
    pub(crate) message_bytes: u32,
}

/// Everything of a RoCE packet but its route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) bth: BthFields,
    pub(crate) reth: Option<Reth>,
    /// Syndrome and message sequence number, 24 bits.
    pub(crate) aeth: Option<(u8, u32)>,
    pub(crate) immediate: Option<u32>,
    /// Which payload, as [`pattern::payload`] has it, and its length.
    pub(crate) place: u64,
    pub(crate) len: usize,
}

/// Writes a RoCE packet.
#[inline]
pub(crate) fn write_packet<const WHOLE: bool>(
    frame: &mut [u8],
    route: &mut Route,
    head: &Head,
) -> Emitted {
    let mut extension = 0;
    if head.reth.is_some() {
        extension += bth::RETH_LEN;
    }
    if head.aeth.is_some() {
        extension += bth::AETH_LEN;
    }
    if head.immediate.is_some() {
        extension += bth::IMMEDIATE_LEN;
    }
    let pad = usize::from(head.bth.pad);
    let udp_len = bth::HEADER_LEN + extension + head.len + pad + bth::ICRC_LEN;
    let at = route.write(frame, ROCE_PORT, udp_len);
    let header_len = at + bth::HEADER_LEN + extension;
    let header = &mut frame[at..header_len];
    bth::write(header, &head.bth);
    if extension > 0 {
        write_extension(&mut header[bth::HEADER_LEN..], head);
    }
    let to = head.bth.destination_qp;
    finish::<WHOLE>(frame, at, header_len, to, head.place, head.len, pad)
}

/// Puts payload, padding and ICRC behind headers, where they have room. The BTH is at `bth_at`;
/// `place` and `len` are those of [`Head`].
#[inline]
pub(crate) fn finish<const WHOLE: bool>(
    frame: &mut [u8],
    bth_at: usize,
    header_len: usize,
    destination_qp: Qpn,
    place: u64,
    len: usize,
    pad: usize,
) -> Emitted {
    let end = header_len + len + pad;
    if WHOLE && frame.len() >= end + bth::ICRC_LEN {
        let payload = pattern::payload(destination_qp, place, len);
        frame[header_len..header_len + len].copy_from_slice(payload);
        frame[end - pad..end].fill(0);
        seal(frame, bth_at, end);
    }
    Emitted {
        header_len: header_len as u32,
        wire_len: (end + bth::ICRC_LEN) as u32,
    }
}

/// Writes what stands between BTH and payload: RETH, AETH, immediate data (IBTA volume 1, 9.2).
fn write_extension(out: &mut [u8], head: &Head) {
    let mut at = 0;
    if let Some(reth) = head.reth {
        out[..8].copy_from_slice(&reth.address.to_be_bytes());
        out[8..12].copy_from_slice(&REMOTE_KEY.to_be_bytes());
        out[12..16].copy_from_slice(&reth.message_bytes.to_be_bytes());
        at += bth::RETH_LEN;
    }
    if let Some((syndrome, messages)) = head.aeth {
        let word = u32::from(syndrome) << 24 | (messages & 0x00ff_ffff);
        out[at..at + bth::AETH_LEN].copy_from_slice(&word.to_be_bytes());
        at += bth::AETH_LEN;
    }
    if let Some(immediate) = head.immediate {
        out[at..at + bth::IMMEDIATE_LEN].copy_from_slice(&immediate.to_be_bytes());
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
    let head = Head {
        bth: BthFields {
            opcode: Opcode::ACK,
            destination_qp,
            psn,
            ack_req: false,
            pad: 0,
        },
        reth: None,
        aeth: Some((syndrome, messages)),
        immediate: None,
        place: 0,
        len: 0,
    };
    write_packet::<WHOLE>(frame, route, &head)
}

/// Writes a congestion notification.
pub(crate) fn write_cnp<const WHOLE: bool>(
    frame: &mut [u8],
    route: &mut Route,
    destination_qp: Qpn,
    dscp: u8,
) -> Emitted {
    let udp_len = bth::HEADER_LEN + CNP_RESERVED + bth::ICRC_LEN;
    let at = route.write_as(frame, ROCE_PORT, udp_len, dscp << 2 | route::ECT0);
    let end = at + bth::HEADER_LEN + CNP_RESERVED;
    let fields = BthFields {
        opcode: Opcode::CNP,
        destination_qp,
        psn: Psn::new(0),
        ack_req: false,
        pad: 0,
    };
    bth::write(&mut frame[at..end], &fields);
    frame[at + bth::RESV8A] |= BECN;
    frame[at + bth::HEADER_LEN..end].fill(0);
    if WHOLE && frame.len() >= end + bth::ICRC_LEN {
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
