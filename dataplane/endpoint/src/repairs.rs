//! Packets that a selective-repeat sender has been asked for: a small bounded table.
//!
//! Keeps each packet once however often it is requested, so that a storm of NAKs costs a look
//! at the table, and one retransmission per `gap` and packet at most.

/// Packets that can be under repair at a time; further requests are for the receiver to repeat.
const REPAIRS_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Repair {
    index: u64,
    times: u32,
    /// When it was last sent again; `None` while it waits to be.
    sent_ns: Option<u64>,
}

/// Packets under repair, in the order of their requests.
#[derive(Debug)]
pub(crate) struct Repairs {
    table: Vec<Repair>,
    waiting: usize,
}

impl Repairs {
    pub(crate) fn new() -> Repairs {
        Repairs {
            table: Vec::with_capacity(REPAIRS_MAX),
            waiting: 0,
        }
    }

    /// Whether a packet waits to be sent again.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether packet `index` was asked for and is not acknowledged yet.
    pub(crate) fn knows(&self, index: u64) -> bool {
        self.table.iter().any(|repair| repair.index == index)
    }

    /// Wants packet `index` sent again unless that is so already, or was done less than `gap_ns`
    /// ago. False when nothing changes.
    pub(crate) fn request(&mut self, index: u64, now: u64, gap_ns: u64) -> bool {
        let is_full = self.table.len() == REPAIRS_MAX;
        match self.table.iter_mut().find(|repair| repair.index == index) {
            Some(repair) => match repair.sent_ns {
                Some(sent) if now >= sent.saturating_add(gap_ns) => repair.sent_ns = None,
                _ => return false,
            },
            None if is_full => return false,
            None => self.table.push(Repair {
                index,
                times: 0,
                sent_ns: None,
            }),
        }
        self.waiting += 1;
        true
    }

    /// Wants packet `index` sent again whatever was done before; another one gives way if need be.
    pub(crate) fn insist(&mut self, index: u64, now: u64) {
        if !self.knows(index)
            && self.table.len() == REPAIRS_MAX
            && let Some(last) = self.table.pop()
        {
            self.waiting -= usize::from(last.sent_ns.is_none());
        }
        self.request(index, now, 0);
    }

    /// Takes the packet that has waited longest: its index, and how often it has been sent again
    /// before.
    pub(crate) fn take(&mut self, now: u64) -> Option<(u64, u32)> {
        if self.waiting == 0 {
            return None;
        }
        let repair = self.table.iter_mut().find(|r| r.sent_ns.is_none())?;
        repair.sent_ns = Some(now);
        repair.times += 1;
        self.waiting -= 1;
        Some((repair.index, repair.times - 1))
    }

    /// Forgets these packets: they have arrived.
    pub(crate) fn forget(&mut self, row: std::ops::Range<u64>) {
        if !self.table.is_empty() {
            self.table.retain(|repair| !row.contains(&repair.index));
            self.waiting = self.table.iter().filter(|r| r.sent_ns.is_none()).count();
        }
    }

    /// Forgets what is acknowledged: all before `una`.
    #[inline]
    pub(crate) fn acknowledge(&mut self, una: u64) {
        if !self.table.is_empty() {
            self.table.retain(|repair| repair.index >= una);
            self.waiting = self.table.iter().filter(|r| r.sent_ns.is_none()).count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a storm of requests resends each packet once a gap, and the table stays bounded.
    #[test]
    fn a_storm_is_one_resend_a_gap() {
        let mut repairs = Repairs::new();
        let mut sent = 0;
        for now in 0..1000u64 {
            repairs.request(7, now, 100);
            sent += u32::from(repairs.take(now).is_some());
        }
        assert_eq!(sent, 10, "1,000 ns at one per 100 ns");
        for index in 0..1000 {
            repairs.request(index, 1000, 100);
        }
        assert_eq!(repairs.table.len(), REPAIRS_MAX);
        repairs.acknowledge(1000);
        assert!(!repairs.is_waiting() && repairs.table.is_empty());
    }
}
