//! What a person sees of simulations under way, and how they end early: a signal, or the limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fabric::Status;
use fabric::report::Ending;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::{ENVIRONMENT, Failure};
use crate::number::significant;
use crate::progress::Progress;

/// How often progress is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Shared by the runs and the one that shows them.
pub(crate) struct Watch {
    /// A first signal ends all runs with what they have; a second one kills.
    pub(crate) stop: Arc<AtomicBool>,
    begun: Instant,
    limit: Option<Duration>,
    hops: AtomicU64,
    /// Simulated time of the run that was looked at last.
    now_ns: AtomicU64,
    /// Runs done, in thousandths.
    done: AtomicU64,
    runs: u64,
}

impl Watch {
    pub(crate) fn new(runs: usize, limit: Option<Duration>) -> Result<Watch, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the second signal finds the flag set.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
                .map_err(|error| {
                    Failure::new(ENVIRONMENT, format!("cannot take signals: {error}"))
                })?;
        }
        Ok(Watch {
            stop,
            begun: Instant::now(),
            limit,
            hops: AtomicU64::new(0),
            now_ns: AtomicU64::new(0),
            done: AtomicU64::new(0),
            runs: runs.max(1) as u64,
        })
    }

    /// What a run asks now and then: takes note of how far it is, and tells whether to stop.
    pub(crate) fn look(&self, run: &mut Seen, status: &Status) -> Option<Ending> {
        self.hops
            .fetch_add(status.hops - run.hops, Ordering::Relaxed);
        self.now_ns.store(status.now_ns, Ordering::Relaxed);
        let (ended, all) = status.flows;
        // Never all of it: the last verdicts are still to come.
        let part = (1000 * ended).checked_div(all).unwrap_or(0).min(999);
        self.done
            .fetch_add(part.saturating_sub(run.done), Ordering::Relaxed);
        *run = Seen {
            hops: status.hops,
            done: part.max(run.done),
        };
        if self.stop.load(Ordering::Relaxed) {
            return Some(Ending::Stopped);
        }
        let is_late = self.limit.is_some_and(|limit| self.begun.elapsed() > limit);
        is_late.then_some(Ending::Limit)
    }

    /// A run is over.
    pub(crate) fn ended(&self, run: &Seen, hops: u64) {
        self.hops.fetch_add(hops - run.hops, Ordering::Relaxed);
        self.done.fetch_add(1000 - run.done, Ordering::Relaxed);
    }

    /// Time so far on the clock on the wall.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Hops so far, of all runs.
    pub(crate) fn hops(&self) -> u64 {
        self.hops.load(Ordering::Relaxed)
    }

    /// Does `work`, and shows meanwhile how far it is.
    pub(crate) fn show_while<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let working = scope.spawn(work);
            let mut progress = Progress::new();
            let mut shown = Instant::now();
            let mut was_told = false;
            while !working.is_finished() {
                std::thread::sleep(Duration::from_millis(5));
                if self.stop.load(Ordering::Relaxed) && !was_told {
                    progress.say("ending with what was found so far; once more kills at once");
                    was_told = true;
                }
                if shown.elapsed() >= SHOWN_EVERY {
                    shown = Instant::now();
                    let (percent, text) = self.line();
                    progress.show(percent, &text);
                }
            }
            drop(progress);
            match working.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn line(&self) -> (f64, String) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let part = self.done.load(Ordering::Relaxed) as f64 / (1000 * self.runs) as f64;
        let rate = self.hops() as f64 / seconds / 1e6;
        let left = match part > 0.0 {
            true => format!("{} s left", (seconds / part - seconds).ceil()),
            false => "time left unknown".to_owned(),
        };
        let now_ms = self.now_ns.load(Ordering::Relaxed) as f64 / 1e6;
        let now = significant(now_ms);
        let text = format!("at {now} ms, {rate:.2} M packet hops/s, {left}");
        (100.0 * part, text)
    }
}

/// What of a run is in the sums.
#[derive(Default)]
pub(crate) struct Seen {
    hops: u64,
    done: u64,
}
