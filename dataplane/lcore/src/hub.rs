//! What the lcores of one process share: whose turn a window is, what one has heard for all, how deep
//! the queues of others are. Atomics and bounded queues; nobody waits for anybody.

mod depths;
mod slot;

use crossbeam::queue::ArrayQueue;
use pipeline::Notice;

pub use depths::Depths;
pub use slot::Slot;

/// Notices that may wait for an lcore. A lost one comes again: link state at its interval, a
/// neighbour when it is asked for.
const NOTICES_MAX: usize = 1024;

/// What [`slot`] and [`depths`] are made of.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

/// Everything that lcores share.
#[derive(Debug)]
pub struct Hub {
    /// The window of each switch.
    pub slots: Vec<Slot>,
    /// Per switch and port.
    pub depths: Vec<Vec<Depths>>,
    /// Per lcore: the switch, and what was heard.
    notices: Vec<ArrayQueue<(u16, Notice)>>,
}

impl Hub {
    /// For switches of so many ports each, on so many lcores.
    pub fn new(ports: impl Iterator<Item = usize>, lcores: usize) -> Hub {
        let depths: Vec<Vec<Depths>> = ports
            .map(|count| (0..count).map(|_| Depths::new(lcores)).collect())
            .collect();
        Hub {
            slots: depths.iter().map(|_| Slot::default()).collect(),
            depths,
            notices: (0..lcores).map(|_| ArrayQueue::new(NOTICES_MAX)).collect(),
        }
    }

    /// Tells all lcores but `from` what it has heard for a switch.
    pub fn tell(&self, from: usize, switch: usize, notice: Notice) {
        for (lcore, queue) in self.notices.iter().enumerate() {
            if lcore != from {
                // A full queue loses it, and it comes again.
                let _ = queue.push((switch as u16, notice));
            }
        }
    }

    /// The next that `lcore` has not taken.
    #[inline]
    pub fn hear(&self, lcore: usize) -> Option<(usize, Notice)> {
        let (switch, notice) = self.notices[lcore].pop()?;
        Some((usize::from(switch), notice))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use pipeline::Claim;
    use pipeline::port::PRIORITIES;

    use super::*;

    /// Goal: one has it at a time, epochs go on over all, and who waited goes before who had it.
    #[test]
    fn the_slot_goes_round() {
        let slot = Slot::default();
        assert_eq!(slot.claim(0), Claim::Granted { epoch: 0 });
        assert_eq!((slot.claim(1), slot.claim(0)), (Claim::Taken, Claim::Taken));
        slot.release(0, 1);
        assert_eq!(slot.claim(0), Claim::Taken, "lcore 1 waits");
        assert_eq!(slot.claim(1), Claim::Granted { epoch: 1 });
        slot.release(1, 2);
        assert_eq!(slot.claim(0), Claim::Granted { epoch: 2 });
        slot.release(0, 2);
        assert_eq!(slot.claim(0), Claim::Granted { epoch: 2 }, "nobody waits");
    }

    /// Goal: with many threads nobody ever has it beside another, and no epoch is used twice.
    #[test]
    fn windows_of_many_lcores_have_epochs_of_their_own() {
        let slot = Slot::default();
        let inside = AtomicU64::new(0);
        let epochs = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for lcore in 0..3 {
                let (slot, inside, epochs) = (&slot, &inside, &epochs);
                scope.spawn(move || {
                    let mut had = 0;
                    while had < 200 {
                        let Claim::Granted { epoch } = slot.claim(lcore) else {
                            std::thread::yield_now();
                            continue;
                        };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        assert_eq!(epochs.fetch_add(1, Ordering::SeqCst), u64::from(epoch));
                        had += 1;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        slot.release(lcore, epoch + 1);
                    }
                    // Nobody may wait for one that is gone.
                    slot.leave(lcore);
                });
            }
        });
        assert_eq!(epochs.load(Ordering::SeqCst), 600);
    }

    /// Goal: what is on its way counts as ahead until the owner has it.
    #[test]
    fn bytes_on_their_way_are_ahead() {
        let depths = Depths::new(2);
        let at = |queue: usize, bytes: u64| {
            let mut all = [0; PRIORITIES];
            all[queue] = bytes;
            all
        };
        assert_eq!(depths.beyond(1, &at(3, 500)), at(3, 500));
        depths.publish(&at(3, 700), &[at(3, 400), at(3, 300)]);
        assert_eq!(depths.beyond(1, &at(3, 500)), at(3, 900));
        assert_eq!(depths.beyond(0, &at(3, 400)), at(3, 700));
        assert_eq!(depths.version(), 1);
    }

    /// Goal: all others hear, the speaker does not.
    #[test]
    fn notices_reach_the_others() {
        let hub = Hub::new([4].into_iter(), 3);
        let notice = Notice::LinkState {
            spine: pipeline::SpineId(2),
            reaches: pipeline::LeafSet::first(4),
        };
        hub.tell(1, 0, notice);
        assert_eq!(hub.hear(0), Some((0, notice)));
        assert_eq!((hub.hear(1), hub.hear(2)), (None, Some((0, notice))));
        assert_eq!(hub.hear(0), None);
    }
}
