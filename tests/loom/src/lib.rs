//! The seams between lcores, and between lcores and control, that are our own code: the product's
//! sources, with loom's atomics in place of the machine's. All other seams are queues of crossbeam, or
//! single words.
//!
//! ```text
//! cargo test --release --manifest-path tests/loom/Cargo.toml
//! ```

mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
    pub(crate) use std::hint::spin_loop;
}
#[path = "../../../dataplane/lcore/src/hub/depths.rs"]
mod depths;
#[path = "../../../dataplane/lcore/src/hub/slot.rs"]
mod slot;
#[path = "../../../control/agent/src/published/versioned.rs"]
mod versioned;

#[cfg(test)]
mod tests {
    use loom::model;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::thread;
    use pipeline::Claim;

    use crate::depths::Depths;
    use crate::slot::Slot;
    use crate::versioned::Versioned;

    /// Goal: two words that are written together are read together, or not at all.
    #[test]
    fn words_are_never_torn() {
        model(|| {
            let words = Arc::new(Versioned::new(2));
            let writer = thread::spawn({
                let words = Arc::clone(&words);
                move || (1..3).for_each(|n| words.write([n, n].into_iter()))
            });
            for _ in 0..2 {
                if let Some((one, other)) = words.look(|word| (word(0), word(1))) {
                    assert_eq!(one, other);
                }
            }
            writer.join().expect("it ends");
            assert_eq!(words.look(|word| word(0)), Some(2));
        });
    }

    /// Goal: bytes on their way to a queue are counted where they are, or twice, and never not at all:
    /// a queue never looks shorter than it is.
    #[test]
    fn no_queue_looks_shorter_than_it_is() {
        model(|| {
            let depths = Arc::new(Depths::<1>::new(1));
            let owner = thread::spawn({
                let depths = Arc::clone(&depths);
                move || {
                    depths.publish(&[100], &[[100]]);
                    depths.publish(&[150], &[[150]]);
                }
            });
            let beyond = depths.beyond(0, &[150])[0];
            assert!((150..=300).contains(&beyond), "{beyond} of 150 bytes");
            owner.join().expect("it ends");
            assert_eq!((depths.beyond(0, &[150]), depths.version()), ([150], 2));
        });
    }

    /// Lcores that claim a window meet: one has it at a time, and its number is nobody else's.
    fn claim_a_window(lcores: usize) {
        let slot = Arc::new(Slot::default());
        let (inside, had) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let claim = |lcore: usize, slot: &Slot, inside: &AtomicU64, had: &AtomicU64| {
            if let Claim::Granted { epoch } = slot.claim(lcore) {
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two at once");
                assert_eq!(had.fetch_add(1, Ordering::Relaxed), u64::from(epoch));
                inside.fetch_sub(1, Ordering::Relaxed);
                slot.release(lcore, epoch + 1);
            }
        };
        let others: Vec<_> = (1..lcores)
            .map(|lcore| {
                let (slot, inside, had) =
                    (Arc::clone(&slot), Arc::clone(&inside), Arc::clone(&had));
                thread::spawn(move || claim(lcore, &slot, &inside, &had))
            })
            .collect();
        claim(0, &slot, &inside, &had);
        others
            .into_iter()
            .for_each(|other| other.join().expect("it ends"));
        assert!(had.load(Ordering::Relaxed) >= 1, "somebody had it");
    }

    /// Goal: a window is one lcore's, in all orders of two.
    #[test]
    fn a_window_is_one_of_two_lcores() {
        model(|| claim_a_window(2));
    }

    /// Goal: the same of three, which meet in too many ways for all of them: those in which an lcore is
    /// interrupted between two of its steps twice at most.
    #[test]
    fn a_window_is_one_of_three_lcores() {
        let mut some = loom::model::Builder::new();
        some.preemption_bound = Some(2);
        some.check(|| claim_a_window(3));
    }
}
