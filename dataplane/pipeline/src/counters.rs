//! Counters of a switch and its ports: plain `u64`, never reset, owned by the switch's lcore.
//!
//! Conservation, which every run checks:
//! per switch `rx + generated == tx + consumed + drops + queued`;
//! per port `enqueued == tx + flushed + queued`.

use crate::drop::DropReason;

macro_rules! notes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Something worth counting that is no drop.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Note { $($(#[doc = $doc])+ $variant,)+ }

        impl Note {
            /// All notes, in the order of their counters.
            pub const ALL: &[Note] = &[$(Note::$variant,)+];

            /// The name, as in `marks-cleared`.
            pub const fn name(self) -> &'static str {
                match self { $(Note::$variant => $name,)+ }
            }
        }
    };
}

notes! {
    /// RoCEv2 packets received.
    Roce = "roce",
    /// Reserved opcode, or an unknown transport version: forwarded all the same.
    ReservedOpcode = "reserved-opcode",
    /// IP fragments: forwarded, never measured.
    Fragments = "fragments",
    /// A mark or colour from a host, cleared.
    MarksCleared = "marks-cleared",
    /// Packets marked by this source leaf.
    Marked = "marked",
    /// Packets of the measured flow that were no first copy.
    LaterCopies = "later-copies",
    /// Packets of the measured flow with a PSN outside its window; one beyond the last ends it.
    PsnOutside = "psn-outside",
    /// PSNs of the measured flow that had not come when a later one did: lost before this leaf, or
    /// late; or the announcement was.
    PsnsSkipped = "psns-skipped",
    /// Marked packets counted by this destination leaf.
    Counted = "counted",
    /// Marked packets that came after their window had ended.
    CountedLate = "counted-late",
    /// Marked packets that found no free row in the flow table.
    FlowTableFull = "flow-table-full",
    /// Announcements taken from hosts.
    Announced = "announced",
    /// Announcements that took the place of one that had not begun.
    AnnouncementReplaced = "announcement-replaced",
    /// Announcements that say nothing measurable (no packets, no MTU, a local destination).
    AnnouncementUseless = "announcement-useless",
    /// Withdrawals that named a known flow.
    Withdrawn = "withdrawn",
    /// Busy flows that this leaf has found by itself.
    FlowsFound = "flows-found",
    /// Windows opened.
    WindowsOpened = "windows-opened",
    /// Windows closed at the source.
    WindowsClosed = "windows-closed",
    /// Windows closed whose PSNs ran over 2^24, once or more often.
    WindowsWrapped = "windows-wrapped",
    /// Windows ended by the cap in time, or by silence.
    WindowsCapped = "windows-capped",
    /// Windows reported to control by this destination leaf.
    WindowsReported = "windows-reported",
    /// Windows reported that a close has ended and not their last PSN: it was lost, or the window was
    /// cut short.
    LastMissing = "last-missing",
    /// Windows reported without a close, outside the paper's protocol: no verdict but on N.
    WithoutClose = "without-close",
    /// Windows reported of which begin or end is not known, since a leaf was restarted or a message is
    /// missing: no verdict.
    WindowsPartial = "windows-partial",
    /// Thresholds of control that came when their window was over.
    ThresholdsLate = "thresholds-late",
    /// Copies of an open or close that had been seen before.
    MessagesRepeated = "messages-repeated",
    /// Two windows of one colour met in a row: the older was ended early.
    ColourClash = "colour-clash",
    /// Closes of a window of which nothing was counted, or no longer: no verdict.
    ClosesUnknown = "closes-unknown",
    /// Windows of which neither open nor close came before the next one: no verdict.
    WindowsUnnamed = "windows-unnamed",
    /// Windows longer than a 16-bit counter: no verdict.
    CounterOverflow = "counter-overflow",
    /// Rows that expired without a verdict.
    RowsExpired = "rows-expired",
    /// Reports that control's full ring refused.
    ReportsLost = "reports-lost",
    /// Messages that could not be sent: no packet memory.
    MessagesUnsent = "messages-unsent",
    /// Spines that fell silent or came back.
    LinkStateChanges = "link-state-changes",
    /// ARP requests answered.
    ArpAnswered = "arp-answered",
    /// IPv6 neighbour solicitations answered.
    DiscoveryAnswered = "discovery-answered",
    /// IPv6 router solicitations, which are not answered: hosts are configured.
    RouterSolicitations = "router-solicitations",
    /// Neighbours asked for: ARP requests and neighbour solicitations of this switch.
    NeighborsAsked = "neighbors-asked",
    /// Neighbours not learned: their port's part of the table is full of others in use.
    NeighborsFull = "neighbors-full",
    /// Echo requests to this switch answered.
    EchoAnswered = "echo-answered",
    /// ICMP errors sent about packets that were dropped.
    IcmpErrorsSent = "icmp-errors-sent",
    /// Echo replies and ICMP errors not sent: more than the configured rate.
    IcmpRateLimited = "icmp-rate-limited",
    /// Echo replies and ICMP errors not sent: no way back, or no packet memory.
    IcmpUnsent = "icmp-unsent",
    /// Packets marked as having experienced congestion in a queue of this switch.
    EcnMarked = "ecn-marked",
    /// Packets queued on an uplink that went down, sent over another.
    Resprayed = "resprayed",
}

impl Note {
    /// How many notes there are.
    pub const COUNT: usize = Note::ALL.len();
}

/// Counters of one switch.
#[derive(Clone, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
pub struct Counters {
    /// Packets received.
    pub rx: u64,
    /// Packets handed to the driver for the wire.
    pub tx: u64,
    /// Packets in its queues now.
    pub queued: u64,
    /// Notes, in the order of [`Note::ALL`].
    pub notes: [u64; Note::COUNT],
    /// Drops by [`DropReason::index`].
    pub drops: [u64; DropReason::COUNT],
    /// Packets that the switch made.
    pub generated: u64,
    /// Packets addressed to the switch.
    pub consumed: u64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            rx: 0,
            generated: 0,
            tx: 0,
            consumed: 0,
            queued: 0,
            drops: [0; DropReason::COUNT],
            notes: [0; Note::COUNT],
        }
    }
}

impl Counters {
    /// Counts `note` once.
    #[inline(always)]
    pub(crate) fn note(&mut self, note: Note) {
        self.notes[note as usize] += 1;
    }

    /// Counts `note` so often.
    pub(crate) fn note_times(&mut self, note: Note, times: u64) {
        self.notes[note as usize] += times;
    }

    /// Adds what another instance of the same switch has counted.
    pub fn add(&mut self, other: &Counters) {
        self.rx += other.rx;
        self.generated += other.generated;
        self.tx += other.tx;
        self.consumed += other.consumed;
        self.queued += other.queued;
        let mine = self.drops.iter_mut().chain(&mut self.notes);
        for (sum, count) in mine.zip(other.drops.iter().chain(&other.notes)) {
            *sum += count;
        }
    }

    /// How often `note` was counted.
    pub fn noted(&self, note: Note) -> u64 {
        self.notes[note as usize]
    }

    /// Drops for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason.index()]
    }

    /// Drops for all reasons.
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// The conservation law of the switch.
    pub fn is_conserved(&self) -> bool {
        self.rx + self.generated == self.tx + self.consumed + self.dropped_total() + self.queued
    }
}

/// Counters of one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets put into a queue.
    pub enqueued: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets thrown out of the queues because the link went down.
    pub flushed: u64,
    /// Most bytes that stood in the queues at once.
    pub backlog_bytes_max: u64,
    /// Packets that a full queue refused, by priority.
    pub tail_drops: [u64; 8],
    /// How often a queue has starved, by priority ([`crate::port::serve::STARVED_NS`]).
    pub starved: [u64; 8],
}

impl PortCounters {
    /// Counts a packet that a queue has refused, if that is counted by queue.
    #[cold]
    pub(crate) fn refused(&mut self, queue: usize, reason: DropReason) {
        if reason == DropReason::TailDrop {
            self.tail_drops[queue] += 1;
        }
    }

    /// Adds what another instance of the same switch has counted for the port.
    pub fn add(&mut self, other: &PortCounters) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.enqueued += other.enqueued;
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.flushed += other.flushed;
        self.backlog_bytes_max = self.backlog_bytes_max.max(other.backlog_bytes_max);
        let mine = self.tail_drops.iter_mut().chain(&mut self.starved);
        for (sum, count) in mine.zip(other.tail_drops.iter().chain(&other.starved)) {
            *sum += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_packet_breaks_conservation() {
        let mut counters = Counters {
            rx: 3,
            tx: 1,
            queued: 1,
            ..Counters::default()
        };
        assert!(!counters.is_conserved());
        counters.drops[DropReason::NoRoute.index()] = 1;
        assert!(counters.is_conserved() && counters.dropped(DropReason::NoRoute) == 1);
    }
}
