//! A flow cut into messages and packets.
//!
//! A sender keeps the message that it is in and nothing per packet: the next packet follows from
//! it by arithmetic without a division, and a repaired one from a message that is looked up again.

use packet::Opcode;

use crate::units::PathMtu;
use crate::verb::Verb;

/// A message: packets `first..end` of its connection. A READ request takes as many PSNs as its
/// answer has packets (IBTA volume 1, 9.7.3), so its row is just as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) verb: Verb,
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// Its length, up to 2^31.
    pub(crate) bytes: u64,
    /// Where it begins in the connection's stream.
    pub(crate) stream_byte: u64,
    /// Whether it begins a flow that is announced.
    pub(crate) is_announced: bool,
}

/// One packet of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) opcode: Opcode,
    /// Payload bytes.
    pub(crate) len: u32,
    pub(crate) begins: bool,
    pub(crate) ends: bool,
}

impl Message {
    /// No packets: the end of what is posted.
    pub(crate) const fn none(at: u64) -> Message {
        Message {
            verb: Verb::Write,
            first: at,
            end: at,
            bytes: 0,
            stream_byte: 0,
            is_announced: false,
        }
    }

    /// Packet `index` of the connection, in `first..end`, of a verb other than READ.
    #[inline]
    pub(crate) fn segment(&self, index: u64, mtu: PathMtu) -> Segment {
        let begins = index == self.first;
        let ends = index + 1 == self.end;
        let offset = mtu.times(index - self.first);
        let len = (self.bytes - offset).min(u64::from(mtu.bytes()));
        Segment {
            opcode: self.verb.opcode(begins, ends),
            len: len as u32,
            begins,
            ends,
        }
    }

    /// Bytes of packets `index..end` of it.
    #[inline]
    pub(crate) fn bytes_of(&self, index: u64, end: u64, mtu: PathMtu) -> u64 {
        let begin = mtu.times(index - self.first);
        mtu.times(end - self.first).min(self.bytes) - begin
    }
}
