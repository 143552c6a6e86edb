//! Whose turn a window is. `tests/loom` goes through all orders in which lcores can claim it; it has
//! atomics of its own in place of `super::atomic`.

use crossbeam::utils::CachePadded;
use pipeline::Claim;

use super::atomic::{AtomicU64, Ordering};

/// The one window of a leaf, over all lcores.
///
/// A word: the lcore that has it (0: nobody, else its number and 1), who had it last, the epoch.
#[derive(Debug, Default)]
pub struct Slot {
    word: CachePadded<AtomicU64>,
    /// Lcores that asked while another had it.
    waiting: CachePadded<AtomicU64>,
}

const HOLDER: u64 = 0xff;
const LAST_SHIFT: u32 = 8;
const EPOCH_SHIFT: u32 = 32;

impl Slot {
    /// Claims it for `lcore`. Who had it last lets those go first who asked meanwhile.
    pub fn claim(&self, lcore: usize) -> Claim {
        let me = lcore as u64 + 1;
        let word = self.word.load(Ordering::Acquire);
        let own_bit = 1u64 << (lcore & 63);
        let others = self.waiting.load(Ordering::Relaxed) & !own_bit;
        let was_last = word >> LAST_SHIFT & HOLDER == me;
        if word & HOLDER != 0 || was_last && others != 0 {
            if word & HOLDER != me {
                self.waiting.fetch_or(own_bit, Ordering::Relaxed);
            }
            return Claim::Taken;
        }
        let taken = word | me;
        let result = self
            .word
            .compare_exchange(word, taken, Ordering::AcqRel, Ordering::Relaxed);
        if result.is_err() {
            self.waiting.fetch_or(own_bit, Ordering::Relaxed);
            return Claim::Taken;
        }
        self.waiting.fetch_and(!own_bit, Ordering::Relaxed);
        Claim::Granted {
            epoch: (word >> EPOCH_SHIFT) as u32,
        }
    }

    /// An lcore that ends waits no more.
    #[cfg(test)]
    pub(super) fn leave(&self, lcore: usize) {
        self.waiting
            .fetch_and(!(1 << (lcore & 63)), Ordering::Relaxed);
    }

    /// Gives it back, its latest window being `epoch`.
    pub fn release(&self, lcore: usize, epoch: u32) {
        let word = u64::from(epoch) << EPOCH_SHIFT | (lcore as u64 + 1) << LAST_SHIFT;
        self.word.store(word, Ordering::Release);
    }
}
