//! How a packet's uplink is chosen: decided for a whole run, and compiled into it.

use packet::head::{BTH_AT, Head, HeadBytes};
use packet::ip;

use super::leaf_way::LeafWay;
use crate::port::{MEASURED, Queues};
use crate::spray::{Depths, OfTwo, Uplink, flow_hash};
use crate::token::Token;

/// How the uplinks of a run's packets are chosen.
pub(super) trait Ways<T: Token>: Copy {
    /// The uplink of a packet.
    fn uplink(self, way: &mut LeafWay<'_, T>, bytes: &HeadBytes, priority: u8) -> Uplink;
}

/// The shorter of two queues.
#[derive(Clone, Copy)]
pub(super) struct ShorterOfTwo {
    pub(super) of_two: OfTwo,
    /// Where the depths stand.
    pub(super) place: usize,
}

impl<T: Token> Ways<T> for ShorterOfTwo {
    #[inline(always)]
    fn uplink(self, way: &mut LeafWay<'_, T>, _bytes: &HeadBytes, _priority: u8) -> Uplink {
        let depths = Waiting {
            queues: &way.exit.queues,
            place: self.place,
        };
        way.choice.shorter_of_two(self.of_two, &depths)
    }
}

/// Any policy.
#[derive(Clone, Copy)]
pub(super) struct AnyWay;

impl<T: Token> Ways<T> for AnyWay {
    #[inline(never)]
    fn uplink(self, way: &mut LeafWay<'_, T>, bytes: &HeadBytes, priority: u8) -> Uplink {
        let queues = &way.exit.queues;
        let depths = |uplink: Uplink| queues.depth_bytes(uplink.port(), priority);
        let hash = || hash_of_head(bytes, &way.run.head);
        way.choice.any(priority == MEASURED, hash, depths)
    }
}

/// What waits at uplinks, in the sums at one place.
struct Waiting<'a, T> {
    queues: &'a Queues<T>,
    place: usize,
}

impl<T> Depths for Waiting<'_, T> {
    #[inline(always)]
    fn depth_bytes(&self, uplink: Uplink) -> u64 {
        self.queues.depth_at(uplink.port(), self.place)
    }
}

/// As [`crate::forward::hash_of`].
#[inline(never)]
fn hash_of_head(bytes: &HeadBytes, head: &Head) -> u64 {
    let (source, destination) = head.ends();
    let ports = packet::be::get32(bytes, BTH_AT - ip::UDP_HEADER_LEN);
    let rest = u64::from(ports) << 24 | u64::from(head.qpn().0);
    flow_hash(source.0, destination.0, rest ^ u64::from(ip::UDP) << 56)
}
