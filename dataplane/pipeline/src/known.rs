//! What was found out about a flow, so that its next packet need not ask again.
//!
//! For packets of the common shape ([`packet::head`]) everything but the spray, the window and the
//! queues depends on few header words and on what was configured: whether the source belongs to
//! the port, where the destination is, the priority. The first packet of a flow takes the whole
//! way through [`crate::forward`] and leaves here what was found; a later one with the same words
//! takes it from here. What stands here is never more than the whole way would say: a change
//! of routes forgets all, an age bounds what was learned, and a port whose neighbours have other MAC addresses
//! now counts its version up, which costs no other port anything.
//!
//! Direct-mapped: a flow whose place another one has goes the whole way, and takes the place.

use packet::head::{Head, HeadBytes};

use crate::types::{LeafId, Nanos};

/// Places, of one cache line each. A power of two.
const PLACES: usize = 1024;

/// Where packets of a flow go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Toward {
    /// From a host of this leaf to another leaf, over a spine.
    Leaf(LeafId),
    /// Out of a port, with these MAC addresses: destination, source.
    Port(u16, [u8; 12]),
}

/// A flow's row of the destination leaf's table, where it was last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowHint {
    pub(crate) row: u32,
    pub(crate) generation: u32,
    /// Of the PSN space of responses.
    pub(crate) responses: bool,
}

/// What is known of a flow on the ports of one scope.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Flow {
    addresses: u64,
    /// The head's `flow` below, the ports' scope above.
    flow: u64,
    /// Until when it holds.
    pub(crate) until: Nanos,
    pub(crate) toward: Toward,
    pub(crate) priority: u8,
    /// Of the port's neighbours, if it is out of a port.
    pub(crate) version: u32,
    /// The number of the leaf or spine that it goes to next.
    pub(crate) peer: u16,
    pub(crate) hint: RowHint,
}

/// What the whole way has found.
pub(crate) struct Found {
    pub(crate) toward: Toward,
    pub(crate) priority: u8,
    /// Until when it holds.
    pub(crate) until: Nanos,
    /// Of the port's neighbours.
    pub(crate) version: u32,
    /// The leaf or spine that it goes to next.
    pub(crate) peer: u16,
}

/// No row has it.
const NO_ROW: RowHint = RowHint {
    row: u32::MAX,
    generation: 0,
    responses: false,
};

/// No flow.
const NOTHING: Flow = Flow {
    addresses: 0,
    flow: 0,
    // The words of no packet are excluded by time: it never holds.
    until: Nanos(0),
    toward: Toward::Leaf(LeafId(0)),
    priority: 0,
    version: 0,
    peer: 0,
    hint: NO_ROW,
};

/// The table.
pub(crate) struct Known {
    flows: Box<[Flow; PLACES]>,
}

impl Known {
    /// An empty one.
    pub(crate) fn new() -> Known {
        let flows = vec![NOTHING; PLACES].into_boxed_slice();
        Known {
            flows: flows
                .try_into()
                .unwrap_or_else(|_| unreachable!("it has that length")),
        }
    }

    /// Forgets all flows.
    pub(crate) fn forget(&mut self) {
        self.flows.fill(NOTHING);
    }

    #[inline(always)]
    fn place(addresses: u64, flow: u32) -> usize {
        // One multiplication carries what differs, wherever it stands, to the top (Knuth 6.4).
        let words = addresses ^ (u64::from(flow) << 17);
        let spread = (words ^ words >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> (64 - PLACES.trailing_zeros())) as usize & (PLACES - 1)
    }

    #[inline(always)]
    fn words(head: &Head, scope: u32) -> (u64, u64) {
        (
            head.addresses,
            u64::from(head.flow) | u64::from(scope) << 32,
        )
    }

    /// Asks the CPU for the place of the flow of a packet that begins so, and tells it.
    #[inline(always)]
    pub(crate) fn foresee(&self, bytes: &HeadBytes) -> usize {
        let (addresses, flow) = packet::head::flow_words(bytes);
        let place = Known::place(addresses, flow);
        prefetch::line(&self.flows[place]);
        place
    }

    /// Where packets of the flow at a place go, and which leaf or spine is next.
    #[inline(always)]
    pub(crate) fn toward(&self, place: usize) -> (Toward, u16) {
        let flow = &self.flows[place & (PLACES - 1)];
        (flow.toward, flow.peer)
    }

    /// What is known of such a packet on a port of `scope`.
    #[inline(always)]
    pub(crate) fn find(&mut self, now: Nanos, head: &Head, scope: u32) -> Option<&mut Flow> {
        let (addresses, flow) = Known::words(head, scope);
        let place = Known::place(head.addresses, head.flow);
        let found = &mut self.flows[place];
        let differs = (found.addresses ^ addresses) | (found.flow ^ flow);
        (differs == 0 && now < found.until).then_some(found)
    }

    /// Remembers where such packets go.
    pub(crate) fn learn(&mut self, head: &Head, scope: u32, found: Found) {
        let (addresses, flow) = Known::words(head, scope);
        let place = Known::place(head.addresses, head.flow);
        self.flows[place] = Flow {
            addresses,
            flow,
            until: found.until,
            toward: found.toward,
            priority: found.priority,
            version: found.version,
            peer: found.peer,
            hint: NO_ROW,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Opcode;

    fn head(addresses: u64, flow: u32) -> Head {
        Head {
            link: 0,
            addresses,
            flow,
            opcode: Opcode::ACK,
            flags: 0,
            ttl: 64,
        }
    }

    #[test]
    fn a_flow_is_known_by_its_words_its_ports_and_its_time() {
        let mut known = Known::new();
        let now = Nanos(5);
        assert!(known.find(now, &head(0, 0), 0).is_none(), "of nothing");
        for flow in 0..100 {
            let found = Found {
                toward: Toward::Leaf(LeafId(flow as u16)),
                priority: 2,
                until: Nanos(10),
                version: 0,
                peer: 0,
            };
            known.learn(&head(7, flow), 3, found);
        }
        let mut found = 0;
        for flow in 0..100 {
            let Some(entry) = known.find(now, &head(7, flow), 3) else {
                continue;
            };
            found += 1;
            assert_eq!(entry.toward, Toward::Leaf(LeafId(flow as u16)));
            assert!(known.find(now, &head(8, flow), 3).is_none());
            assert!(known.find(now, &head(7, flow), 4).is_none());
            assert!(known.find(now, &head(7, flow | 1 << 24), 3).is_none());
            assert!(known.find(Nanos(10), &head(7, flow), 3).is_none());
        }
        assert!(found > 80, "few of 100 flows share one of 1024 places");
    }

    #[test]
    fn a_flow_takes_one_cache_line() {
        assert_eq!(size_of::<Flow>(), 64);
    }
}
