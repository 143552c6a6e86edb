//! Words that belong together: one writer, who never waits, and readers who look again.
//!
//! The writer makes a version odd, writes, and makes it even; a reader that finds an odd version, or
//! another one afterwards, has seen halves of two. `tests/loom` goes through all orders in which two
//! threads can do so; it has atomics of its own in place of `super::atomic`.

use super::atomic::{AtomicU64, Ordering, fence, spin_loop};

/// Looks after which a reader gives up: a writer is done within microseconds, every 10 ms.
const LOOKS_MAX: usize = 64;

/// The words.
#[derive(Debug)]
pub(super) struct Versioned {
    version: AtomicU64,
    words: Vec<AtomicU64>,
}

impl Versioned {
    /// So many words, all 0.
    pub(super) fn new(words: usize) -> Versioned {
        let words = std::iter::repeat_with(|| AtomicU64::new(0)).take(words);
        Versioned {
            version: AtomicU64::new(0),
            words: words.collect(),
        }
    }

    /// Writes the first words; the others keep what they have. Called by one thread alone.
    pub(super) fn write(&self, words: impl Iterator<Item = u64>) {
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        // No word is written before the odd version is.
        fence(Ordering::Release);
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }

    /// What `look` makes of the words, which it gets by index; `None` when a writer came between every
    /// time. What it makes of halves of two is thrown away.
    pub(super) fn read<T>(&self, look: impl Fn(&dyn Fn(usize) -> u64) -> T) -> Option<T> {
        for _ in 0..LOOKS_MAX {
            let seen = self.look(&look);
            if seen.is_some() {
                return seen;
            }
            spin_loop();
        }
        None
    }

    /// One look.
    pub(super) fn look<T>(&self, look: impl Fn(&dyn Fn(usize) -> u64) -> T) -> Option<T> {
        let before = self.version.load(Ordering::Acquire);
        let seen = look(&|index| self.words[index].load(Ordering::Relaxed));
        // No word is read after the version is looked at again.
        fence(Ordering::Acquire);
        let is_whole = before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before;
        is_whole.then_some(seen)
    }
}
