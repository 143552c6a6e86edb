//! What control knows and decides: thresholds for windows that open, verdicts on windows that end.
//!
//! Pure: the control thread feeds it, and a test or a simulator may do so as well.

use std::collections::BTreeMap;

use detector::{
    Aggregate, Aggregator, Judge, Localization, Localizer, Nanos, NoiseStats, PathState, PathTest,
    Rules, VICTIM_P, Window, threshold,
};
use pipeline::report::{Command, Opened, WindowReport};

use crate::evidence::window_of;

/// Judged windows that are kept for reports; older ones are counted only.
pub const VERDICTS_MAX: usize = 1 << 16;

/// Thresholds that are remembered; all are forgotten when there are more.
const THRESHOLDS_MAX: usize = 1024;

/// A window and what was found in it.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The window.
    pub window: Window,
    /// Its reference count and the threshold, in packets, as the data plane had them.
    pub lambda: f64,
    /// The threshold that the data plane compared with, if it had one in time.
    pub threshold: Option<u32>,
    /// Tests that this window completed; empty while its counts wait for more.
    pub tests: Vec<PathTest>,
}

/// What was counted on the way to verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounters {
    /// Windows that opened.
    pub opened: u64,
    /// Windows that ended.
    pub ended: u64,
    /// Windows of which neither open nor close came.
    pub without_messages: u64,
    /// Windows that contradict themselves or the fabric.
    pub contradictory: u64,
    /// Path tests by outcome.
    pub healthy: u64,
    /// Path tests that failed.
    pub failed: u64,
    /// Path tests that are void.
    pub void: u64,
    /// Path tests that abstained.
    pub abstained: u64,
    /// Windows no longer kept.
    pub forgotten: u64,
}

/// The state of control over one fabric, or over one switch of it.
pub struct Core {
    rules: Rules,
    aggregator: Aggregator,
    judge: Judge,
    localizer: Localizer,
    noise: NoiseStats,
    verdicts: Vec<Verdict>,
    counters: AgentCounters,
    latest: Nanos,
    /// Thresholds by packets and spines of a window.
    thresholds: BTreeMap<(u64, usize), u32>,
}

impl Core {
    /// Control by such rules.
    pub fn new(rules: Rules) -> Core {
        Core {
            rules,
            aggregator: Aggregator::new(rules),
            judge: Judge::new(rules),
            localizer: Localizer::new(rules.localization()),
            noise: NoiseStats::default(),
            verdicts: Vec::new(),
            counters: AgentCounters::default(),
            latest: Nanos(0),
            thresholds: BTreeMap::new(),
        }
    }

    /// The rules it judges by.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The threshold of a window that has opened, for the data plane to compare with at its end:
    /// the receive-only one, since nothing else is known before.
    pub fn on_opened(&mut self, opened: &Opened) -> Option<Command> {
        self.counters.opened += 1;
        let k = opened.usable.len();
        if k == 0 || opened.packets == 0 {
            return None;
        }
        Some(Command::Threshold {
            row: opened.row,
            generation: opened.generation,
            epoch: opened.epoch,
            threshold: self.threshold(opened.packets, k),
        })
    }

    /// The fewest packets that none of `k` spines may fall below when `packets` were announced.
    /// Windows of a workload are alike, and the exact tails take longer than a window's packets.
    fn threshold(&mut self, packets: u64, k: usize) -> u32 {
        if let Some(&known) = self.thresholds.get(&(packets, k)) {
            return known;
        }
        if self.thresholds.len() >= THRESHOLDS_MAX {
            self.thresholds.clear();
        }
        let lambda = packets as f64 / k as f64;
        let rules = self.rules.with_evidence(detector::Evidence::ReceiveOnly);
        let allowed =
            threshold::threshold(&rules, detector::Evidence::ReceiveOnly, lambda, 1).allowed_loss;
        let least = (lambda - allowed).ceil().clamp(0.0, f64::from(u32::MAX)) as u32;
        self.thresholds.insert((packets, k), least);
        least
    }

    /// Judges a window that has ended.
    pub fn on_window(&mut self, report: &WindowReport) {
        self.counters.ended += 1;
        let Some(window) = window_of(report) else {
            self.counters.without_messages += 1;
            return;
        };
        let Ok(aggregate) = self.aggregator.add(&window) else {
            self.counters.contradictory += 1;
            return;
        };
        self.latest = self.latest.max(window.closed_ns);
        let tests = self.judge.judge(&aggregate);
        self.take_all(&aggregate, &tests);
        let k = window.usable.len() as f64;
        let lambda = window.marked.unwrap_or(window.announced) as f64 / k;
        if self.verdicts.len() < VERDICTS_MAX {
            self.verdicts.push(Verdict {
                window,
                lambda,
                threshold: report.threshold,
                tests,
            });
        } else {
            self.counters.forgotten += 1;
        }
    }

    fn take_all(&mut self, aggregate: &Aggregate, tests: &[PathTest]) {
        for (sums, test) in aggregate.paths.iter().zip(tests) {
            self.take(test);
            self.noise.add(sums, test);
        }
        // Looked at as soon as a path loses on its own, so that a conviction has the time at which
        // its evidence was complete. Nothing can be convicted before.
        if tests.iter().any(|test| test.p_value <= VICTIM_P) {
            self.localizer.locate(self.latest);
        }
    }

    fn take(&mut self, test: &PathTest) {
        match test.state {
            PathState::Healthy => self.counters.healthy += 1,
            PathState::Failed => self.counters.failed += 1,
            PathState::Void(_) => self.counters.void += 1,
            PathState::Abstained(_) => self.counters.abstained += 1,
        }
        // The judge makes paths of this fabric only, so there is none to refuse.
        if self.localizer.add(test).is_err() {
            self.counters.contradictory += 1;
        }
    }

    /// Gives up what got too old.
    pub fn expire(&mut self, now: Nanos) {
        self.aggregator.expire(now);
    }

    /// Judges the counts that still wait for P_min: at the end of a run there will be no more. Their
    /// tests stand with the last window of their leaf pair.
    pub fn finish(&mut self) {
        for aggregate in self.aggregator.drain() {
            let tests = self.judge.judge(&aggregate);
            self.take_all(&aggregate, &tests);
            let of_pair = |verdict: &&mut Verdict| {
                verdict.window.src == aggregate.src && verdict.window.dst == aggregate.dst
            };
            if let Some(last) = self.verdicts.iter_mut().rev().find(of_pair) {
                last.tests.extend(tests);
            }
        }
    }

    /// The links that the evidence names.
    pub fn locate(&mut self) -> Localization {
        self.localizer.locate(self.latest)
    }

    /// The windows judged so far.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The noise of the spray, over healthy paths.
    pub fn noise(&self) -> detector::stats::NoiseReport {
        self.noise.report()
    }

    /// What was counted.
    pub fn counters(&self) -> &AgentCounters {
        &self.counters
    }
}
