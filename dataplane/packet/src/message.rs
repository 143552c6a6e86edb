//! spraycheck's own messages: open, close, withdraw, link state (UDP, port 48791 by default).
//!
//! Hosts announce flows with `open` and `withdraw`, flags 0. Everything with [`FLAG_SWITCH`] is
//! between switches and believed from fabric ports only. All numbers are big-endian:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `SPCK` |
//! | 4 | 1 | version 1 |
//! | 5 | 1 | kind |
//! | 6 | 2 | total length |
//! | 8 | 4 | flags |
//! | 12 | 4 | destination QPN |
//! | 16 | 4 | first PSN |
//! | 20 | 4 | path MTU in bytes |
//! | 24 | 8 | N packets; in a close M, packets marked |
//! | 32 | 8 | bytes |
//! | 40 | 8 | flow id |
//! | 48 | 2 | f: spines of the fabric (link state: leaves) |
//! | 50 | 2 | repetition |
//! | 52 | 4 | epoch |
//! | 56 | 4*ceil(f/32) | bitmap, spine 0 = lowest bit of the first byte |
//! | then | 4*f | [`FLAG_COUNTS`]: marked packets sent per spine |
//! | then | 16 | [`FLAG_HOP_ROOM`]: spine (2), reserved (2), received (4), sent (4), dropped (4) |

use crate::be;
use crate::bth::{Psn, Qpn};

/// UDP port when the configuration names none.
pub const DEFAULT_PORT: u16 = 48791;
/// First four bytes of every message.
pub const MAGIC: [u8; 4] = *b"SPCK";
/// The one version there is.
pub const VERSION: u8 = 1;
/// Length of the fixed part; a host's message is just that long.
pub const FIXED_LEN: usize = 56;
/// Length of the hop record.
pub const HOP_LEN: usize = 16;
/// Most spines (or leaves, in link state) that a message can list.
pub const FANOUT_MAX: usize = 128;
/// Longest message.
pub const LEN_MAX: usize = FIXED_LEN + FANOUT_MAX / 8 + 4 * FANOUT_MAX + HOP_LEN;

/// Sent by a switch.
pub const FLAG_SWITCH: u32 = 1 << 0;
/// Per-spine counts follow the bitmap.
pub const FLAG_COUNTS: u32 = 1 << 1;
/// Room for a hop record ends the message.
pub const FLAG_HOP_ROOM: u32 = 1 << 2;
/// The flow's packets are READ responses.
pub const FLAG_RESPONSES: u32 = 1 << 3;
/// The first PSN is not known.
pub const FLAG_FIRST_UNKNOWN: u32 = 1 << 4;
/// A spine has filled the hop record.
pub const FLAG_HOP_FILLED: u32 = 1 << 5;

/// What a host may say of its flow. Any other bit of a host is refused: it would travel on in the
/// switches' own messages (a hop record that claims to be filled keeps the spine's out).
pub const FLAGS_OF_HOSTS: u32 = FLAG_RESPONSES | FLAG_FIRST_UNKNOWN;

/// What a message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageKind {
    /// A flow (from a host) or a window (from a leaf) begins.
    Open,
    /// A window is over.
    Close,
    /// A host takes its announcement back.
    Withdraw,
    /// A spine tells which leaves it reaches.
    LinkState,
}

impl MessageKind {
    fn code(self) -> u8 {
        match self {
            MessageKind::Open => 1,
            MessageKind::Close => 2,
            MessageKind::Withdraw => 3,
            MessageKind::LinkState => 4,
        }
    }

    fn of(code: u8) -> Option<MessageKind> {
        match code {
            1 => Some(MessageKind::Open),
            2 => Some(MessageKind::Close),
            3 => Some(MessageKind::Withdraw),
            4 => Some(MessageKind::LinkState),
            _ => None,
        }
    }
}

/// The fixed part of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it says.
    pub kind: MessageKind,
    /// `FLAG_*` bits.
    pub flags: u32,
    /// Destination QP of the flow.
    pub destination_qp: Qpn,
    /// First PSN, unless [`FLAG_FIRST_UNKNOWN`].
    pub first_psn: Psn,
    /// Path MTU in bytes.
    pub mtu_bytes: u32,
    /// N, or M in a close.
    pub packets: u64,
    /// Bytes of the flow, 0 when announced by packets.
    pub bytes: u64,
    /// The sender's name for the flow.
    pub flow_id: u64,
    /// Entries of the bitmap and of the counts.
    pub fanout: u16,
    /// Which copy in time this is, from 0.
    pub repetition: u16,
    /// Window number of the source leaf; link state: sequence number.
    pub epoch: u32,
}

impl Header {
    /// Packets that the flow will have: N as said, or one message's `ceil(bytes / MTU)`.
    ///
    /// 0 when neither is given or the MTU is missing.
    pub fn expected_packets(&self) -> u64 {
        if self.packets > 0 {
            self.packets
        } else if self.mtu_bytes > 0 {
            self.bytes.div_ceil(u64::from(self.mtu_bytes))
        } else {
            0
        }
    }
}

/// What a spine writes into a passing close: its own counts of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hop {
    /// The spine's index.
    pub spine: u16,
    /// Marked packets that arrived from the source leaf.
    pub received: u32,
    /// Marked packets queued towards the destination leaf.
    pub sent: u32,
    /// Marked packets dropped in the spine's own queues.
    pub dropped: u32,
}

/// A checked message in a frame.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its fixed part.
    pub header: Header,
    bytes: &'a [u8],
}

const fn bitmap_len(fanout: usize) -> usize {
    fanout.div_ceil(32) * 4
}

/// Length of a message of `fanout` entries with such flags.
pub const fn message_len(fanout: usize, flags: u32) -> usize {
    let counts = if flags & FLAG_COUNTS != 0 {
        4 * fanout
    } else {
        0
    };
    let hop = if flags & FLAG_HOP_ROOM != 0 {
        HOP_LEN
    } else {
        0
    };
    let bitmap = if flags & FLAG_SWITCH != 0 {
        bitmap_len(fanout)
    } else {
        0
    };
    FIXED_LEN + bitmap + counts + hop
}

impl<'a> Message<'a> {
    /// Reads a UDP payload. `None` when magic, version, kind or any length is not right, or when a
    /// host's message carries more than the fixed part or other flags than [`FLAGS_OF_HOSTS`].
    pub fn read(payload: &'a [u8]) -> Option<Message<'a>> {
        if payload.len() < FIXED_LEN || payload[..4] != MAGIC || payload[4] != VERSION {
            return None;
        }
        let kind = MessageKind::of(payload[5])?;
        let long =
            |at| u64::from(be::get32(payload, at)) << 32 | u64::from(be::get32(payload, at + 4));
        let header = Header {
            kind,
            flags: be::get32(payload, 8),
            destination_qp: Qpn(be::get32(payload, 12) & 0x00ff_ffff),
            first_psn: Psn::new(be::get32(payload, 16)),
            mtu_bytes: be::get32(payload, 20),
            packets: long(24),
            bytes: long(32),
            flow_id: long(40),
            fanout: be::get16(payload, 48),
            repetition: be::get16(payload, 50),
            epoch: be::get32(payload, 52),
        };
        let fanout = usize::from(header.fanout);
        let is_of_host = header.flags & FLAG_SWITCH == 0;
        if fanout > FANOUT_MAX || is_of_host && header.flags & !FLAGS_OF_HOSTS != 0 {
            return None;
        }
        let len = message_len(fanout, header.flags);
        if usize::from(be::get16(payload, 6)) != len || payload.len() < len {
            return None;
        }
        Some(Message {
            header,
            bytes: &payload[..len],
        })
    }

    /// Whether entry `index` of the bitmap is set; false beyond the fanout.
    pub fn is_set(&self, index: usize) -> bool {
        index < usize::from(self.header.fanout)
            && self.header.flags & FLAG_SWITCH != 0
            && self.bytes[FIXED_LEN + index / 8] >> (index % 8) & 1 == 1
    }

    /// Count of entry `index`, if the message has counts and the entry.
    pub fn count(&self, index: usize) -> Option<u32> {
        let fanout = usize::from(self.header.fanout);
        let wanted = FLAG_COUNTS | FLAG_SWITCH;
        if index >= fanout || self.header.flags & wanted != wanted {
            return None;
        }
        Some(be::get32(
            self.bytes,
            FIXED_LEN + bitmap_len(fanout) + 4 * index,
        ))
    }

    /// The hop record, if a spine has filled it.
    pub fn hop(&self) -> Option<Hop> {
        let wanted = FLAG_HOP_ROOM | FLAG_HOP_FILLED;
        if self.header.flags & wanted != wanted {
            return None;
        }
        let at = self.bytes.len() - HOP_LEN;
        Some(Hop {
            spine: be::get16(self.bytes, at),
            received: be::get32(self.bytes, at + 4),
            sent: be::get32(self.bytes, at + 8),
            dropped: be::get32(self.bytes, at + 12),
        })
    }
}

/// Writes a message and returns its length. `out` must hold [`message_len`] bytes; entries of
/// `is_set` and `count` are asked for `0..fanout`.
///
/// Bitmap, counts and hop room are written as the flags say; a hop record starts empty.
pub fn write(
    out: &mut [u8],
    header: &Header,
    is_set: impl Fn(usize) -> bool,
    count: impl Fn(usize) -> u32,
) -> usize {
    let fanout = usize::from(header.fanout).min(FANOUT_MAX);
    let len = message_len(fanout, header.flags);
    let out = &mut out[..len];
    out.fill(0);
    out[..4].copy_from_slice(&MAGIC);
    out[4] = VERSION;
    out[5] = header.kind.code();
    out[6..8].copy_from_slice(&(len as u16).to_be_bytes());
    out[8..12].copy_from_slice(&header.flags.to_be_bytes());
    out[12..16].copy_from_slice(&header.destination_qp.0.to_be_bytes());
    out[16..20].copy_from_slice(&header.first_psn.number().to_be_bytes());
    out[20..24].copy_from_slice(&header.mtu_bytes.to_be_bytes());
    out[24..32].copy_from_slice(&header.packets.to_be_bytes());
    out[32..40].copy_from_slice(&header.bytes.to_be_bytes());
    out[40..48].copy_from_slice(&header.flow_id.to_be_bytes());
    out[48..50].copy_from_slice(&(fanout as u16).to_be_bytes());
    out[50..52].copy_from_slice(&header.repetition.to_be_bytes());
    out[52..56].copy_from_slice(&header.epoch.to_be_bytes());
    if header.flags & FLAG_SWITCH == 0 {
        return len;
    }
    for index in (0..fanout).filter(|&index| is_set(index)) {
        out[FIXED_LEN + index / 8] |= 1 << (index % 8);
    }
    if header.flags & FLAG_COUNTS != 0 {
        let counts = FIXED_LEN + bitmap_len(fanout);
        for index in 0..fanout {
            out[counts + 4 * index..counts + 4 * index + 4]
                .copy_from_slice(&count(index).to_be_bytes());
        }
    }
    len
}

/// Fills the hop record of the message in `payload`, which [`Message::read`] has accepted.
///
/// Returns false, and changes nothing, when the message has no room for one or it is filled.
pub fn fill_hop(payload: &mut [u8], hop: &Hop) -> bool {
    let flags = be::get32(payload, 8);
    let len = usize::from(be::get16(payload, 6));
    if flags & FLAG_HOP_ROOM == 0
        || flags & FLAG_HOP_FILLED != 0
        || payload.len() < len
        || len < FIXED_LEN + HOP_LEN
    {
        return false;
    }
    payload[8..12].copy_from_slice(&(flags | FLAG_HOP_FILLED).to_be_bytes());
    let record = &mut payload[len - HOP_LEN..len];
    record[..2].copy_from_slice(&hop.spine.to_be_bytes());
    record[4..8].copy_from_slice(&hop.received.to_be_bytes());
    record[8..12].copy_from_slice(&hop.sent.to_be_bytes());
    record[12..16].copy_from_slice(&hop.dropped.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(kind: MessageKind, flags: u32, fanout: u16) -> Header {
        Header {
            kind,
            flags,
            destination_qp: Qpn(0x12),
            first_psn: Psn::new(0xff_fffe),
            mtu_bytes: 4096,
            packets: 8192,
            bytes: 0,
            flow_id: 7,
            fanout,
            repetition: 1,
            epoch: 9,
        }
    }

    proptest! {
        #[test]
        fn a_close_reads_back(fanout in 0u16..=128, set: u128, seed: u32) {
            let mut bytes = [0u8; LEN_MAX];
            let said = header(MessageKind::Close, FLAG_SWITCH | FLAG_COUNTS | FLAG_HOP_ROOM, fanout);
            let len = write(&mut bytes, &said, |i| set >> i & 1 == 1, |i| seed ^ i as u32);
            let read = Message::read(&bytes[..len]).unwrap();
            prop_assert_eq!(read.header, said);
            prop_assert_eq!(read.hop(), None);
            for i in 0..usize::from(fanout) {
                prop_assert_eq!(read.is_set(i), set >> i & 1 == 1);
                prop_assert_eq!(read.count(i), Some(seed ^ i as u32));
            }
            prop_assert!(!read.is_set(usize::from(fanout)) && read.count(usize::from(fanout)).is_none());
            let hop = Hop { spine: 3, received: 100, sent: 99, dropped: 1 };
            prop_assert!(fill_hop(&mut bytes[..len], &hop));
            prop_assert!(!fill_hop(&mut bytes[..len], &Hop::default()), "filled once");
            prop_assert_eq!(Message::read(&bytes[..len]).unwrap().hop(), Some(hop));
            for cut in 0..len {
                prop_assert!(Message::read(&bytes[..cut]).is_none());
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), fix: bool) {
            if fix && bytes.len() >= 6 {
                bytes[..5].copy_from_slice(b"SPCK\x01");
                bytes[5] = bytes[5] % 4 + 1;
            }
            if let Some(message) = Message::read(&bytes) {
                for i in 0..200 { let _ = (message.is_set(i), message.count(i)); }
                let _ = message.hop();
            }
        }
    }

    #[test]
    fn a_host_message_is_the_fixed_part() {
        let mut bytes = [0u8; LEN_MAX];
        let len = write(
            &mut bytes,
            &header(MessageKind::Open, 0, 0),
            |_| true,
            |_| 1,
        );
        assert_eq!(len, FIXED_LEN);
        let read = Message::read(&bytes[..len]).unwrap();
        assert!(!read.is_set(0) && read.count(0).is_none() && read.hop().is_none());
        for bit in (0..32).filter(|bit| FLAGS_OF_HOSTS >> bit & 1 == 0) {
            let flags = 1 << bit;
            let len = write(
                &mut bytes,
                &header(MessageKind::Open, flags, 0),
                |_| true,
                |_| 1,
            );
            let is_read = Message::read(&bytes[..len]).is_some();
            assert_eq!(is_read, flags == FLAG_SWITCH, "flag bit {bit} of a host");
        }
        write(
            &mut bytes,
            &header(MessageKind::Open, 0, 0),
            |_| true,
            |_| 1,
        );
        let read = Message::read(&bytes[..FIXED_LEN]).unwrap();
        let by_bytes = Header {
            packets: 0,
            bytes: 4097,
            ..read.header
        };
        assert_eq!(by_bytes.expected_packets(), 2);
        assert_eq!(
            Header {
                mtu_bytes: 0,
                ..by_bytes
            }
            .expected_packets(),
            0
        );
    }
}
