//! Many independent runs on several threads, their results in the order of the runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does `work` for `0..count` on so many threads, until `stop` is set. The results come in order,
/// `None` for what was not begun any more; they do not depend on the number of threads.
pub fn run_all<T: Send>(
    jobs: usize,
    count: usize,
    stop: &AtomicBool,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(
        std::iter::repeat_with(|| None)
            .take(count)
            .collect::<Vec<_>>(),
    );
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results[index] = Some(result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: results are in order whatever the threads do, and a stop leaves the rest out.
    #[test]
    fn results_are_in_order() {
        let stop = AtomicBool::new(false);
        for jobs in [1, 2, 7] {
            let results = run_all(jobs, 100, &stop, |index| index * index);
            let wanted: Vec<_> = (0..100).map(|index| Some(index * index)).collect();
            assert_eq!(results, wanted, "{jobs} jobs");
        }
        let results = run_all(1, 10, &stop, |index| {
            stop.store(index == 3, Ordering::Relaxed);
            index
        });
        let done = results.iter().flatten().count();
        assert_eq!((done, results[4]), (4, None));
    }
}
