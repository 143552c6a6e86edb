//! Room beyond a queue's limit for messages between switches.
//!
//! A message waits in the queue of the packets that it tells about, behind the last of them. At the tail of
//! a full queue it would be dropped as they are, and its path would look like a link that loses
//! everything. So messages have a reserve: bytes beyond each queue's limit, and slots beyond those
//! of the switch. No host can use it, for host ports refuse messages of switches. Where even
//! the reserve is full a message ends as [`DropReason::ReserveFull`].

use packet::message::{FLAG_COUNTS, FLAG_HOP_ROOM, FLAG_SWITCH, message_len};
use packet::{ethernet, ip};

use super::egress::at;
use super::{PRIORITIES, Queues};
use crate::config::SwitchConfig;
use crate::drop::DropReason;

/// Windows of each leaf whose messages may wait in a switch at once. A leaf has one open at a time, and a
/// colour rests until what told of it has left the queues: two of a flow, and as many of the next.
const WINDOWS: u32 = 4;
/// Messages of a window on a path: two opens, two closes, the close's repetition ([`crate::speak`]).
const MESSAGES: u32 = 5;
/// Link states that may wait on each link.
const LINK_STATES: u32 = 4;

/// Room that messages have beyond what packets have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// Beyond each queue's limit, in bytes.
    pub bytes: u64,
    /// Beyond the packets that the whole switch may hold.
    pub packets: u32,
}

impl Reserve {
    /// Of a switch: the messages of four windows of each leaf (through a spine), or over each
    /// spine (at a leaf), all in one queue, each as long as a close is.
    pub fn of(config: &SwitchConfig) -> Reserve {
        let peers = config.leaves.max(config.spines);
        let message = message_len(
            usize::from(peers),
            FLAG_SWITCH | FLAG_COUNTS | FLAG_HOP_ROOM,
        );
        let headers = ethernet::HEADER_LEN
            + ethernet::TAGS_MAX * ethernet::TAG_LEN
            + ip::V6_HEADER_LEN
            + ip::UDP_HEADER_LEN;
        let packets = u32::from(peers) * (WINDOWS * MESSAGES + LINK_STATES);
        Reserve {
            bytes: u64::from(packets) * (headers + message) as u64,
            packets,
        }
    }
}

impl<T> Queues<T> {
    /// Puts a message between switches, of `len` bytes, into a queue or into the reserve behind it, or
    /// gives it back with the reason. On a port of another lcore, which may be choked, it waits here.
    pub(crate) fn enqueue_message(
        &mut self,
        port: usize,
        priority: u8,
        token: T,
        len: u32,
    ) -> Result<(), (T, DropReason)> {
        let egress = &self.ports[port];
        let queue = usize::from(priority) & (PRIORITIES - 1);
        if !egress.up || len > egress.link_max_bytes {
            return Err((token, egress.refusal(len)));
        }
        let depth = egress.bytes[at(queue)] + u64::from(len);
        if depth > self.limit_bytes + self.reserve_bytes {
            return Err((token, DropReason::ReserveFull));
        }
        self.door(port)
            .append_message(queue, token, len)
            .map_err(|token| (token, DropReason::ReserveFull))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::queues;
    use super::*;
    use crate::types::Nanos;

    /// Goal: where packets find no bytes or no slots, messages find room up to the reserve, stay in
    /// their order behind the packets, and leave the room of packets as it was.
    #[test]
    fn messages_find_room_where_packets_do_not() {
        // A reserve of 200 bytes and two slots.
        for (limit_bytes, packets_max) in [(1_000, 64), (10_000, 2)] {
            let mut q = queues(limit_bytes, packets_max, 1_000_000);
            q.enqueue(0, 3, 1, 500).unwrap();
            q.enqueue(0, 3, 2, 500).unwrap();
            let refused = q.enqueue(0, 3, 9, 100).unwrap_err().1;
            assert!([DropReason::TailDrop, DropReason::QueueMemory].contains(&refused));
            q.enqueue_message(0, 3, 3, 100).unwrap();
            q.enqueue_message(0, 3, 4, 90).unwrap();
            assert_eq!(
                q.enqueue_message(0, 3, 5, 20),
                Err((5, DropReason::ReserveFull))
            );
            assert!(q.enqueue(0, 3, 9, 100).is_err() && q.is_conserved());
            let mut out = Vec::new();
            assert_eq!(q.dequeue(Nanos(1_000_000), 0, 9, &mut out), 4);
            assert_eq!(out, [1, 2, 3, 4]);
            q.enqueue(0, 3, 6, 500).unwrap();
            q.enqueue(0, 3, 7, 500).unwrap();
            assert!(q.enqueue(0, 3, 8, 100).is_err() && q.is_conserved());
        }
    }

    /// Goal: a dead link takes no message, a choked one does, and none is longer than the link's
    /// frames.
    #[test]
    fn messages_wait_for_another_lcore_and_for_no_dead_link() {
        let mut q = queues(1_000, 64, 0);
        q.set_choked(0, true);
        assert_eq!(q.enqueue(0, 3, 1, 100), Err((1, DropReason::HandOffFull)));
        q.enqueue_message(0, 3, 2, 100).unwrap();
        assert_eq!(q.take_staged(0), Some((2, 3, 100)));
        assert_eq!(
            q.enqueue_message(1, 3, 3, 1_001),
            Err((3, DropReason::Oversize))
        );
        q.set_up(1, false);
        assert_eq!(
            q.enqueue_message(1, 3, 4, 100),
            Err((4, DropReason::LinkDown))
        );
    }
}
