//! The InfiniBand Base Transport Header: opcode, destination QP, PSN, and our mark.
//!
//! IBTA volume 1, 9.2. The mark and the colour live in byte 4 (FECN, BECN and six reserved bits),
//! which the RoCEv2 ICRC reads as ones (annex A17), so setting them needs no new ICRC. Byte 8 has
//! reserved bits as well, but those are covered: a receiver drops every frame that has one set.

use crate::be;

/// Length of the header.
pub const HEADER_LEN: usize = 12;
/// Opcode, one byte.
pub const OPCODE: usize = 0;
/// Solicited event, migration, pad count (2 bits at 4), transport version (4 bits at 0).
pub const FLAGS: usize = 1;
/// Partition key, two bytes.
pub const P_KEY: usize = 2;
/// FECN (0x80), BECN (0x40) and six reserved bits, of which two are ours.
pub const RESV8A: usize = 4;
/// Destination QP, three bytes.
pub const DESTINATION_QP: usize = 5;
/// AckReq (0x80) and seven reserved bits that the ICRC covers.
pub const ACK_REQ: usize = 8;
/// Packet sequence number, three bytes.
pub const PSN: usize = 9;
/// Length of the trailing ICRC.
pub const ICRC_LEN: usize = 4;
/// Length of the RDMA extended header (virtual address, key, length).
pub const RETH_LEN: usize = 16;
/// Length of the acknowledge extended header (syndrome, MSN).
pub const AETH_LEN: usize = 4;
/// Length of the immediate data header.
pub const IMMEDIATE_LEN: usize = 4;

/// The mark: a packet that the measurement counts. Lowest bit of [`RESV8A`].
pub const MARK: u8 = 0x01;
/// The colour of its window: the bit above the mark (parity of the epoch; RFC 9341's idea).
pub const COLOUR: u8 = 0x02;

/// A queue pair number, 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Qpn(pub u32);

/// A packet sequence number: 24 bits that wrap, compared by serial arithmetic (RFC 1982).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Psn(u32);

impl Psn {
    /// How many PSNs there are.
    pub const COUNT: u32 = 1 << 24;

    /// The PSN of the low 24 bits of `number`.
    #[inline(always)]
    pub const fn new(number: u32) -> Psn {
        Psn(number & 0x00ff_ffff)
    }

    /// The number, below 2^24.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The PSN `packets` later.
    #[inline(always)]
    pub const fn plus(self, packets: u32) -> Psn {
        Psn::new(self.0.wrapping_add(packets))
    }

    /// How far `self` is ahead of `other`: -2^23 ..= 2^23 - 1, negative when it is behind.
    #[inline(always)]
    pub const fn ahead_of(self, other: Psn) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }
}

/// The two PSN sequences that one (source, destination, destination QP) carries: a responder
/// echoes the requester's numbers, which lie anywhere beside its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Space {
    /// SEND, WRITE, READ request, atomics: the sender's own numbers.
    Requests,
    /// READ response, ACK, NAK, atomic ACK: the peer's numbers.
    Responses,
}

/// An opcode byte; every value is one, reserved ones included.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

const COUNTED: u8 = 1;
const RESPONSE: u8 = 2;
const SPRAYED: u8 = 4;
const RESERVED: u8 = 8;

/// What the switch has to know of each opcode, one load instead of a chain of compares.
static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0u8; 256];
    let mut code = 0;
    while code < 256 {
        let transport = code as u8 >> 5;
        let low = code as u8 & 0x1f;
        let reliable = transport == 0 || transport == 5; // RC and XRC
        let mut class = 0;
        if reliable {
            class |= SPRAYED;
            // SEND and WRITE in all their forms, with and without immediate or invalidate.
            if low <= 0x0b || low == 0x16 || low == 0x17 {
                class |= COUNTED;
            }
            // READ response First, Middle, Last, Only.
            if low >= 0x0d && low <= 0x10 {
                class |= COUNTED | RESPONSE;
            }
            // ACK and atomic ACK.
            if low == 0x11 || low == 0x12 {
                class |= RESPONSE;
            }
            if low == 0x15 || low > 0x17 {
                class |= RESERVED;
            }
        }
        // UC and UD have no more than the RC codes below READ request; RD has its own set; 4 is
        // CNP alone; 6 and 7 are for manufacturers.
        if transport == 1 && low > 0x0b || transport == 3 && low != 4 && low != 5 {
            class |= RESERVED;
        }
        if transport == 4 && code as u8 != Opcode::CNP.0 {
            class |= RESERVED;
        }
        table[code] = class;
        code += 1;
    }
    table
}

impl Opcode {
    /// RC SEND Only.
    pub const SEND_ONLY: Opcode = Opcode(0x04);
    /// RC RDMA WRITE First.
    pub const WRITE_FIRST: Opcode = Opcode(0x06);
    /// RC RDMA WRITE Middle.
    pub const WRITE_MIDDLE: Opcode = Opcode(0x07);
    /// RC RDMA WRITE Last.
    pub const WRITE_LAST: Opcode = Opcode(0x08);
    /// RC RDMA WRITE Only.
    pub const WRITE_ONLY: Opcode = Opcode(0x0a);
    /// RC RDMA READ request.
    pub const READ_REQUEST: Opcode = Opcode(0x0c);
    /// RC ACK (and NAK, by its AETH).
    pub const ACK: Opcode = Opcode(0x11);
    /// Congestion notification packet (annex A17).
    pub const CNP: Opcode = Opcode(0x81);

    /// A data packet, which the measurement counts: SEND, WRITE, READ response of RC or XRC.
    /// Acknowledgements, requests and atomics are not: hosts coalesce or repeat them at will.
    #[inline(always)]
    pub fn is_counted(self) -> bool {
        CLASS[self.0 as usize] & COUNTED != 0
    }

    /// Sprayed over the uplinks: RC and XRC, whose receivers place out of order.
    #[inline(always)]
    pub fn is_sprayed(self) -> bool {
        CLASS[self.0 as usize] & SPRAYED != 0
    }

    /// No operation that the IBTA defines (forwarded all the same, and counted).
    #[inline(always)]
    pub fn is_reserved(self) -> bool {
        CLASS[self.0 as usize] & RESERVED != 0
    }

    /// A READ response, ACK, NAK or atomic ACK.
    #[inline(always)]
    pub fn is_response(self) -> bool {
        CLASS[self.0 as usize] & RESPONSE != 0
    }

    /// Which PSN sequence its PSN belongs to.
    #[inline(always)]
    pub fn space(self) -> Space {
        if self.is_response() {
            Space::Responses
        } else {
            Space::Requests
        }
    }
}

impl std::fmt::Debug for Opcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Opcode({:#04x})", self.0)
    }
}

/// Opcode of the BTH at `at`.
#[inline(always)]
pub fn opcode(frame: &[u8], at: usize) -> Opcode {
    Opcode(frame[at + OPCODE])
}

/// Destination QP of the BTH at `at`.
#[inline(always)]
pub fn destination_qp(frame: &[u8], at: usize) -> Qpn {
    Qpn(be::get32(frame, at + RESV8A) & 0x00ff_ffff)
}

/// PSN of the BTH at `at`.
#[inline(always)]
pub fn psn(frame: &[u8], at: usize) -> Psn {
    Psn::new(be::get32(frame, at + ACK_REQ))
}

/// Transport header version of the BTH at `at` (0 is the only one defined).
#[inline(always)]
pub fn version(frame: &[u8], at: usize) -> u8 {
    frame[at + FLAGS] & 0x0f
}

/// What the switch reads of a BTH, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// Operation.
    pub opcode: Opcode,
    /// Transport header version (0 is the only one defined).
    pub version: u8,
    /// The byte of mark and colour, [`RESV8A`].
    pub flags: u8,
    /// Destination QP.
    pub destination_qp: Qpn,
    /// Sequence number.
    pub psn: Psn,
}

impl Default for Bth {
    fn default() -> Bth {
        Bth::read(&[0; HEADER_LEN], 0)
    }
}

impl Bth {
    /// Reads the BTH at `at`; the caller has checked the length.
    #[inline(always)]
    pub fn read(frame: &[u8], at: usize) -> Bth {
        let word = be::get32(frame, at + RESV8A);
        Bth {
            opcode: opcode(frame, at),
            version: version(frame, at),
            flags: (word >> 24) as u8,
            destination_qp: Qpn(word & 0x00ff_ffff),
            psn: psn(frame, at),
        }
    }
}

/// What [`write()`] puts into a BTH.
#[derive(Clone, Copy, Debug)]
pub struct BthFields {
    /// Operation.
    pub opcode: Opcode,
    /// Destination QP.
    pub destination_qp: Qpn,
    /// Sequence number.
    pub psn: Psn,
    /// Whether the receiver must acknowledge.
    pub ack_req: bool,
    /// Payload bytes added to reach a multiple of four, 0 to 3.
    pub pad: u8,
}

/// Writes a BTH at the start of `out`: default partition, migration state Migrated as real
/// adapters send it, transport version 0.
pub fn write(out: &mut [u8], fields: &BthFields) {
    out[OPCODE] = fields.opcode.0;
    out[FLAGS] = 0x40 | (fields.pad & 3) << 4;
    out[P_KEY..P_KEY + 2].fill(0xff);
    out[RESV8A..RESV8A + 4].copy_from_slice(&(fields.destination_qp.0 & 0x00ff_ffff).to_be_bytes());
    let ack = if fields.ack_req { 1 << 31 } else { 0 };
    out[ACK_REQ..ACK_REQ + 4].copy_from_slice(&(ack | fields.psn.0).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn psns_wrap_by_serial_arithmetic() {
        let first = Psn::new(0x00ff_fffa);
        assert_eq!(first.plus(10).number(), 4);
        assert_eq!(first.plus(10).ahead_of(first), 10);
        assert_eq!(first.ahead_of(first.plus(10)), -10);
        assert_eq!(Psn::new(1 << 23).ahead_of(Psn::new(0)), -(1 << 23));
        assert_eq!(Psn::new((1 << 23) - 1).ahead_of(Psn::new(0)), (1 << 23) - 1);
    }

    proptest! {
        #[test]
        fn distance_undoes_plus(start: u32, step in 0u32..(1 << 23)) {
            let psn = Psn::new(start);
            prop_assert_eq!(psn.plus(step).ahead_of(psn), step as i32);
        }

        #[test]
        fn a_header_reads_back(code: u8, qp in 0u32..(1 << 24), number in 0u32..(1 << 24), ack: bool, pad in 0u8..4) {
            let mut bytes = [0xaa; HEADER_LEN];
            write(&mut bytes, &BthFields {
                opcode: Opcode(code), destination_qp: Qpn(qp), psn: Psn::new(number), ack_req: ack, pad,
            });
            prop_assert_eq!(opcode(&bytes, 0), Opcode(code));
            prop_assert_eq!(destination_qp(&bytes, 0), Qpn(qp));
            prop_assert_eq!(psn(&bytes, 0).number(), number);
            prop_assert_eq!(bytes[ACK_REQ], if ack { 0x80 } else { 0 });
            prop_assert_eq!((bytes[FLAGS] >> 4 & 3, version(&bytes, 0), bytes[RESV8A]), (pad, 0, 0));
        }
    }

    #[test]
    fn opcodes_fall_into_their_classes() {
        let counted: Vec<u8> = (0..=255).filter(|&c| Opcode(c).is_counted()).collect();
        let rc: Vec<u8> = (0x00..=0x0b)
            .chain(0x0d..=0x10)
            .chain(0x16..=0x17)
            .collect();
        let xrc = rc.iter().map(|c| c | 0xa0);
        assert_eq!(counted, rc.iter().copied().chain(xrc).collect::<Vec<_>>());
        assert!(!Opcode::ACK.is_counted() && Opcode::ACK.is_sprayed());
        assert_eq!(Opcode::ACK.space(), Space::Responses);
        assert_eq!(Opcode::READ_REQUEST.space(), Space::Requests);
        assert!(!Opcode::READ_REQUEST.is_counted());
        assert!(!Opcode::CNP.is_sprayed() && !Opcode::CNP.is_reserved());
        assert!(
            Opcode(0x1f).is_reserved() && !Opcode(0x64).is_reserved() && !Opcode(0x64).is_sprayed()
        );
    }
}
