//! How a packet's uplink is chosen and its queue entered: decided for a whole run, and compiled into
//! it.

use packet::head::{BTH_AT, Head, HeadBytes};
use packet::ip;

use super::LeafWay;
use crate::counters::Counters;
use crate::port::{Door, MEASURED, Queues};
use crate::spray::{Depths, OfTwo, Uplink, flow_hash};
use crate::switch::Exit;
use crate::token::{Sink, Token};

/// A way from a leaf's host port to its uplinks' queues.
pub(super) trait Ways<T: Token>: Copy {
    /// What stands before an uplink's queues.
    type Gate<'a>: Gate<T>
    where
        T: 'a;

    /// The uplink.
    fn uplink(self, way: &mut LeafWay<'_, T>, bytes: &HeadBytes, priority: u8) -> Uplink;

    /// Before its queues.
    fn gate<'a>(self, exit: &'a mut Exit<T>, uplink: Uplink) -> Self::Gate<'a>;
}

/// The way into an uplink's queues.
pub(super) trait Gate<T: Token> {
    /// The MAC addresses of frames there.
    fn macs(&self) -> &[u8; 12];

    /// Queues a packet of `len` bytes. True when it is queued; if not, that is counted.
    fn put<S: Sink<T>>(
        self,
        priority: u8,
        token: T,
        len: u32,
        counters: &mut Counters,
        sink: &mut S,
    ) -> bool;
}

/// The shorter of two queues, without ECN.
#[derive(Clone, Copy)]
pub(super) struct ShorterOfTwo {
    pub(super) of_two: OfTwo,
    /// Where the depths stand.
    pub(super) place: usize,
}

impl<T: Token> Ways<T> for ShorterOfTwo {
    type Gate<'a>
        = Door<'a, T>
    where
        T: 'a;

    #[inline(always)]
    fn uplink(self, way: &mut LeafWay<'_, T>, _bytes: &HeadBytes, _priority: u8) -> Uplink {
        let depths = Waiting {
            queues: &way.exit.queues,
            place: self.place,
        };
        way.choice.shorter_of_two(self.of_two, &depths)
    }

    #[inline(always)]
    fn gate<'a>(self, exit: &'a mut Exit<T>, uplink: Uplink) -> Door<'a, T> {
        exit.queues.door(uplink.port())
    }
}

impl<T: Token> Gate<T> for Door<'_, T> {
    #[inline(always)]
    fn macs(&self) -> &[u8; 12] {
        Door::macs(self)
    }

    #[inline(always)]
    fn put<S: Sink<T>>(
        self,
        priority: u8,
        token: T,
        len: u32,
        counters: &mut Counters,
        sink: &mut S,
    ) -> bool {
        match Door::put(self, priority, token, len) {
            Ok(()) => true,
            Err(refused) => Exit::drop(refused, counters, sink),
        }
    }
}

/// Any policy, and any queue.
#[derive(Clone, Copy)]
pub(super) struct AnyWay;

impl<T: Token> Ways<T> for AnyWay {
    type Gate<'a>
        = AnyGate<'a, T>
    where
        T: 'a;

    #[inline(never)]
    fn uplink(self, way: &mut LeafWay<'_, T>, bytes: &HeadBytes, priority: u8) -> Uplink {
        let queues = &way.exit.queues;
        let depths = |uplink: Uplink| queues.depth_bytes(uplink.port(), priority);
        let hash = || hash_of_head(bytes, &way.run.head);
        way.choice.any(priority == MEASURED, hash, depths)
    }

    #[inline(always)]
    fn gate<'a>(self, exit: &'a mut Exit<T>, uplink: Uplink) -> AnyGate<'a, T> {
        let port = uplink.port();
        AnyGate { exit, port }
    }
}

/// Before queues that may mark congestion.
pub(super) struct AnyGate<'a, T> {
    exit: &'a mut Exit<T>,
    port: usize,
}

impl<T: Token> Gate<T> for AnyGate<'_, T> {
    #[inline(always)]
    fn macs(&self) -> &[u8; 12] {
        self.exit.queues.macs(self.port)
    }

    #[inline(never)]
    fn put<S: Sink<T>>(
        self,
        priority: u8,
        token: T,
        len: u32,
        counters: &mut Counters,
        sink: &mut S,
    ) -> bool {
        let place = (self.port, priority);
        self.exit.enqueue(place, token, len, counters, sink)
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
