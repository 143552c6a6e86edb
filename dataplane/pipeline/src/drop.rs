//! Every way in which a packet ends before the wire, each with a name and a counter.

use packet::ParseError;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why a packet was dropped. The name is what metrics, captures and documents show.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum DropReason { $($(#[doc = $doc])+ $variant,)+ }

        impl DropReason {
            /// All reasons, in the order of their counters.
            pub const ALL: &[DropReason] = &[$(DropReason::$variant,)+];

            /// The name, as in `tail-drop`.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)+ }
            }

            /// What it means, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(DropReason::$variant => concat!($($doc,)+),)+ }
            }
        }
    };
}

// The list is the one place: enum, names and meanings cannot drift apart.
reasons! {
    /// Shorter than its Ethernet header and VLAN tags.
    Runt = "runt",
    /// In more than one buffer: larger than the port's packet memory was made for.
    MultiSegment = "multi-segment",
    /// Longer than the egress port's MTU allows.
    Oversize = "oversize",
    /// Damaged on the link (a NIC drops such a frame by its FCS; injected on vdevs).
    BadFcs = "bad-fcs",
    /// Neither IPv4, IPv6 nor ARP.
    UnknownEthertype = "unknown-ethertype",
    /// RoCE version 1, which has no IP header to route by.
    RoceV1 = "roce-v1",
    /// IP header cut, or of a wrong version or length.
    BadIpHeader = "bad-ip-header",
    /// The datagram claims more bytes than the frame has.
    Truncated = "truncated",
    /// UDP header cut, or its length does not fit the datagram.
    BadUdpLength = "bad-udp-length",
    /// A RoCEv2 packet that ends inside its transport header or ICRC.
    BthCut = "bth-cut",
    /// More IPv6 extension headers than are walked.
    TooManyExtensions = "too-many-extensions",
    /// The destination MAC address is not this port's.
    NotForUs = "not-for-us",
    /// Broadcast or multicast, which does not enter the fabric.
    Multicast = "multicast",
    /// An ARP packet that is malformed, asks for nothing here, or came over a fabric port.
    ArpIgnored = "arp-ignored",
    /// Neighbour discovery that is malformed, or asks for nothing that is answered here.
    DiscoveryIgnored = "discovery-ignored",
    /// From a host port with a source address that is not of that port.
    SpoofedSource = "spoofed-source",
    /// Addressed to this switch itself, which answers echo requests alone.
    NoService = "no-service",
    /// No route to the destination.
    NoRoute = "no-route",
    /// From a fabric port towards a fabric port of a leaf: a loop.
    Transit = "transit",
    /// The destination host's MAC address is neither configured nor learned; it is asked for.
    UnresolvedNeighbor = "unresolved-neighbor",
    /// TTL or hop limit used up.
    TtlExpired = "ttl-expired",
    /// No usable uplink to the destination leaf.
    NoUplink = "no-uplink",
    /// The egress link is down, or went down with the packet queued.
    LinkDown = "link-down",
    /// The egress queue is full.
    TailDrop = "tail-drop",
    /// A message between switches: the egress queue is full, and the reserve for messages behind it.
    ReserveFull = "reserve-full",
    /// The switch holds as many packets as it was configured to.
    QueueMemory = "queue-memory",
    /// Too many packets wait for the lcore that owns the egress port.
    HandOffFull = "hand-off-full",
    /// Too many packets wait for the lcore that their addresses belong to.
    SpreadFull = "spread-full",
    /// A spraycheck message that is malformed, or that this switch does not expect.
    BadMessage = "bad-message",
    /// A spraycheck message between switches that came from a host or a wrong neighbour.
    ForgedMessage = "forged-message",
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = DropReason::ALL.len();

    /// Its place among the counters.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl From<ParseError> for DropReason {
    fn from(error: ParseError) -> DropReason {
        match error {
            ParseError::Runt => DropReason::Runt,
            ParseError::UnknownEthertype => DropReason::UnknownEthertype,
            ParseError::RoceV1 => DropReason::RoceV1,
            ParseError::BadIpHeader => DropReason::BadIpHeader,
            ParseError::Truncated => DropReason::Truncated,
            ParseError::BadUdpLength => DropReason::BadUdpLength,
            ParseError::BthCut => DropReason::BthCut,
            ParseError::TooManyExtensions => DropReason::TooManyExtensions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_in_order() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert!(!reason.meaning().is_empty());
            assert_eq!(
                DropReason::ALL
                    .iter()
                    .filter(|r| r.name() == reason.name())
                    .count(),
                1
            );
        }
    }
}
