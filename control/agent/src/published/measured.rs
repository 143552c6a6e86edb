//! The window that a leaf counts, published as a whole.
//!
//! Its numbers belong together, so a reader must not get half of one window and half of the next
//! ([`super::versioned`]).

use pipeline::destination::Counting;
use pipeline::types::{FANOUT_MAX, Set};
use pipeline::{LeafId, SpineSet};

use super::versioned::Versioned;

/// Words before the counts.
const HEAD: usize = 10;
/// What the first word says.
const NONE: u64 = 0;
const OPEN: u64 = 1;
const ENDED: u64 = 2;

/// A window that is being counted, or was the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Whether it still runs.
    pub is_open: bool,
    /// Leaf that marks.
    pub source: LeafId,
    /// Its number at that leaf.
    pub epoch: u32,
    /// N, packets announced; 0 if not known yet.
    pub packets: u64,
    /// Spines that the source leaf uses.
    pub usable: SpineSet,
    /// Spines whose path changed meanwhile.
    pub disturbed: SpineSet,
    /// The data plane's threshold, in packets of a spine.
    pub threshold: Option<u32>,
    /// Marked packets counted so far, by spine.
    pub counts: Vec<u64>,
}

/// The place where one part of a switch publishes it.
#[derive(Debug)]
pub(super) struct Place(Versioned);

impl Place {
    pub(super) fn new() -> Place {
        Place(Versioned::new(HEAD + FANOUT_MAX))
    }

    /// Called by the one lcore that owns the switch's part.
    pub(super) fn publish(&self, counting: Option<Counting<'_>>) {
        let Some(counting) = counting else {
            // Nothing was there before either, but for a row that went to another flow.
            self.0.write([NONE].into_iter());
            return;
        };
        let halves = |set: SpineSet| [set.0 as u64, (set.0 >> 64) as u64];
        let head = [
            if counting.is_open { OPEN } else { ENDED },
            u64::from(counting.source.0),
            u64::from(counting.epoch),
            counting.packets,
            counting.threshold.map_or(0, |t| 1 + u64::from(t)),
            counting.counts.len() as u64,
        ];
        let sets = [counting.usable, counting.disturbed];
        let words = head.into_iter().chain(sets.into_iter().flat_map(halves));
        self.0
            .write(words.chain(counting.counts.iter().map(|&count| u64::from(count))));
    }

    /// What was published last; `None` if there is no window, or a writer stopped in the middle.
    pub(super) fn read(&self) -> Option<Measured> {
        self.0.read(measured).flatten()
    }
}

/// What the words say.
fn measured(word: &dyn Fn(usize) -> u64) -> Option<Measured> {
    let state = word(0);
    if state == NONE {
        return None;
    }
    let set = |at: usize| Set(u128::from(word(at)) | u128::from(word(at + 1)) << 64);
    // Words of two windows may be seen here; they are thrown away, but must not be out of bounds.
    let spines = (word(5) as usize).min(FANOUT_MAX);
    Some(Measured {
        is_open: state == OPEN,
        source: LeafId(word(1) as u16),
        epoch: word(2) as u32,
        packets: word(3),
        threshold: word(4).checked_sub(1).map(|t| t as u32),
        usable: set(6),
        disturbed: set(8),
        counts: (0..spines).map(|spine| word(HEAD + spine)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn counting(epoch: u32, counts: &[u32]) -> Counting<'_> {
        Counting {
            is_open: true,
            source: LeafId(3),
            epoch,
            packets: u64::from(epoch),
            usable: Set(u128::from(epoch) << 60),
            disturbed: Set(1 << 127),
            threshold: epoch.is_multiple_of(2).then_some(epoch),
            counts,
        }
    }

    /// Goal: what is published is read again, and nothing is read before and after.
    #[test]
    fn a_window_is_read_as_it_was_published() {
        let place = Place::new();
        assert_eq!(place.read(), None);
        place.publish(Some(counting(4, &[7, 8, 9])));
        let read = place.read().expect("a window");
        assert_eq!((read.source, read.epoch, read.packets), (LeafId(3), 4, 4));
        assert_eq!((read.usable, read.disturbed), (Set(4 << 60), Set(1 << 127)));
        assert_eq!((read.threshold, read.counts), (Some(4), vec![7, 8, 9]));
        place.publish(Some(counting(5, &[0; 2])));
        assert_eq!(place.read().expect("a window").threshold, None);
        place.publish(None);
        assert_eq!(place.read(), None);
    }

    /// Goal: a reader never sees numbers of two windows, however often they change.
    #[test]
    fn a_window_is_never_torn() {
        // Miri pauses a thread so often that no look at all of them would ever be whole.
        let spines = if cfg!(miri) { 2 } else { FANOUT_MAX };
        let (place, stop) = (Arc::new(Place::new()), Arc::new(AtomicBool::new(false)));
        let writer = std::thread::spawn({
            let (place, stop) = (Arc::clone(&place), Arc::clone(&stop));
            move || {
                for epoch in 0.. {
                    place.publish(Some(counting(epoch, &vec![epoch; spines])));
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
        let mut seen = 0;
        while seen < if cfg!(miri) { 5 } else { 2_000 } {
            // A writer that never rests may outrun all looks.
            let Some(read) = place.read() else { continue };
            seen += 1;
            assert!(
                read.counts
                    .iter()
                    .all(|&count| count == u64::from(read.epoch))
            );
            assert_eq!(read.packets, u64::from(read.epoch));
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("the writer ends");
    }
}
