//! What control knows and decides: thresholds for windows that open, verdicts on windows that end.
//!
//! Pure: the control thread feeds it, and a test or a simulator may do so as well.

use std::collections::{BTreeMap, VecDeque};

use detector::{
    Aggregate, Aggregator, EndReason, Intersection, Judge, Localization, Localizer, Nanos,
    NoiseStats, OutsideFabric, PathState, PathTest, Reference, Rules, VoidReason, Window,
    threshold,
};
use pipeline::report::{Command, Opened, OwnDrop, WindowReport};

use crate::evidence::window_of;
use crate::watch::Watch;

/// Judged windows that are kept for reports; older ones are counted only.
pub const VERDICTS_MAX: usize = 1 << 16;

/// A path's loss that is this improbable may complete a conviction with what was there before.
pub(crate) const NEWS_P: f64 = 0.01;

/// Drops that are kept until their window ends.
const DROPS_MAX: usize = 4096;
/// Thresholds that are remembered; all are forgotten when there are more.
const THRESHOLDS_MAX: usize = 1024;
/// Changes that are remembered.
const CHANGES_MAX: usize = 256;

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

/// Who names links.
enum Namer {
    Likelihood(Localizer),
    /// With the paper's rules, the paper's way.
    Intersection(Intersection),
}

impl Namer {
    fn add(&mut self, test: &PathTest) -> Result<(), OutsideFabric> {
        match self {
            Namer::Likelihood(localizer) => localizer.add(test),
            Namer::Intersection(intersection) => intersection.add(test),
        }
    }

    fn locate(&mut self, now: Nanos) -> Localization {
        match self {
            Namer::Likelihood(localizer) => localizer.locate(now),
            Namer::Intersection(intersection) => intersection.locate(now),
        }
    }
}

/// How paths are tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Test {
    /// Once P_min packets are there.
    #[default]
    Fixed,
    /// After every window; an alarm is a verdict at once.
    Sequential,
}

impl From<config::PathTest> for Test {
    fn from(test: config::PathTest) -> Test {
        match test {
            config::PathTest::Fixed => Test::Fixed,
            config::PathTest::Sequential => Test::Sequential,
        }
    }
}

/// A change while switches run: when, in their time, and what.
pub type Changed = (Nanos, String);

/// The state of control over one fabric, or over one switch of it.
pub struct Core {
    rules: Rules,
    aggregator: Aggregator,
    judge: Judge,
    namer: Namer,
    /// With the sequential test.
    watch: Option<Watch>,
    /// Drops that were told of windows that have not ended (preset `paper`).
    dropped: VecDeque<OwnDrop>,
    noise: NoiseStats,
    verdicts: Vec<Verdict>,
    counters: AgentCounters,
    latest: Nanos,
    /// What was named when it was last looked at.
    found: Localization,
    /// Tests that have not been told; `None` unless somebody takes them.
    untold: Option<VecDeque<Vec<PathTest>>>,
    /// Thresholds by packets and spines of a window.
    thresholds: BTreeMap<(u64, usize), u32>,
    /// The latest [`CHANGES_MAX`].
    changes: VecDeque<Changed>,
}

impl Core {
    /// Control by such rules.
    pub fn new(rules: Rules) -> Core {
        Core::with_test(rules, Test::Fixed)
    }

    /// The same with another test.
    pub fn with_test(rules: Rules, test: Test) -> Core {
        let watch = (test == Test::Sequential).then(|| Watch::new(&rules));
        // The sequential test adds up by itself.
        let p_min = if watch.is_some() { 1 } else { rules.p_min };
        let is_paper = rules.reference == Reference::Announced;
        Core {
            rules,
            aggregator: Aggregator::new(Rules { p_min, ..rules }),
            judge: Judge::new(rules),
            namer: if is_paper {
                Namer::Intersection(Intersection::new(rules.localization()))
            } else {
                Namer::Likelihood(Localizer::new(rules.localization()))
            },
            watch,
            dropped: VecDeque::new(),
            noise: NoiseStats::default(),
            verdicts: Vec::new(),
            counters: AgentCounters::default(),
            latest: Nanos(0),
            found: Localization::default(),
            untold: None,
            thresholds: BTreeMap::new(),
            changes: VecDeque::new(),
        }
    }

    /// From now on each window's tests are kept until [`Core::next_untold`] takes them.
    pub fn begin_telling(&mut self) {
        self.untold.get_or_insert_default();
    }

    /// The tests of the earliest window that have not been told.
    pub fn next_untold(&mut self) -> Option<Vec<PathTest>> {
        self.untold.as_mut()?.pop_front()
    }

    /// Keeps tests to be told. Taken after every round, so there are as many as a round has windows.
    fn keep_untold(&mut self, tests: &[PathTest]) {
        if let Some(untold) = self.untold.as_mut().filter(|_| !tests.is_empty()) {
            untold.push_back(tests.to_vec());
        }
    }

    /// Judges by other rules from now on. Counts that wait for more are void, for they were gathered
    /// for other rules, and what is named is found anew. Verdicts, their counters and the noise stay.
    pub fn configure(&mut self, rules: Rules, test: Test) {
        if (self.rules, self.test()) == (rules, test) {
            return;
        }
        for aggregate in self.aggregator.drain() {
            let mut tests = self.judge.judge(&aggregate);
            for test in &mut tests {
                test.state = PathState::Void(VoidReason::Reconfigured);
                self.take(test);
            }
            self.keep_untold(&tests);
            self.add_to_last(&aggregate, tests);
        }
        let before = std::mem::replace(self, Core::with_test(rules, test));
        self.noise = before.noise;
        self.verdicts = before.verdicts;
        self.counters = before.counters;
        self.latest = before.latest;
        self.untold = before.untold;
        self.changes = before.changes;
    }

    /// Remembers what has changed.
    pub fn note_change(&mut self, at: Nanos, what: String) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back((at, what));
    }

    /// What has changed while switches ran, the latest last.
    pub fn changes(&self) -> impl Iterator<Item = &Changed> {
        self.changes.iter()
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
        let evidence = detector::Evidence::ReceiveOnly;
        let rules = Rules {
            evidence,
            ..self.rules
        };
        let allowed = threshold::threshold(&rules, evidence, lambda, 1).allowed_loss;
        let least = (lambda - allowed).ceil().clamp(0.0, f64::from(u32::MAX)) as u32;
        self.thresholds.insert((packets, k), least);
        least
    }

    /// Judges a window that has ended.
    pub fn on_window(&mut self, report: &WindowReport) {
        self.counters.ended += 1;
        let Some(mut window) = window_of(report) else {
            self.counters.without_messages += 1;
            return;
        };
        self.take_drops(report, &mut window);
        let Ok(aggregate) = self.aggregator.add(&window) else {
            self.counters.contradictory += 1;
            return;
        };
        self.latest = self.latest.max(window.closed_ns);
        let mut tests = self.judge.judge(&aggregate);
        if self.take_all(&aggregate, &mut tests) {
            window.end = EndReason::Alarm;
        }
        self.keep_untold(&tests);
        let k = window.usable.len() as f64;
        let lambda = window.marked.unwrap_or(window.announced) as f64 / k;
        if self.verdicts.len() == VERDICTS_MAX {
            // Many at once: moving the others for each window would cost more than judging it.
            self.verdicts.drain(..VERDICTS_MAX / 4);
            self.counters.forgotten += VERDICTS_MAX as u64 / 4;
        }
        self.verdicts.push(Verdict {
            window,
            lambda,
            threshold: report.threshold,
            tests,
        });
    }

    /// A switch has dropped a marked packet of a window in its own queue.
    pub fn on_dropped(&mut self, dropped: OwnDrop) {
        if self.dropped.len() == DROPS_MAX {
            self.dropped.pop_front();
        }
        self.dropped.push_back(dropped);
    }

    /// Gives a window the drops that were told of it; how many there were nobody knows.
    fn take_drops(&mut self, report: &WindowReport, window: &mut Window) {
        let is_of = |told: &OwnDrop| {
            (told.source, told.destination) == (report.source, report.destination)
                && told.qpn == report.key.qpn
                && told.first_psn.is_none_or(|first| first == report.first_psn)
        };
        for told in self.dropped.iter().filter(|told| is_of(told)) {
            let place = window.usable.iter().position(|x| x.0 == told.spine.0);
            if let Some(place) = place {
                window.congestion_dropped[place] = window.congestion_dropped[place].max(1);
            }
        }
        self.dropped.retain(|told| !is_of(told));
    }

    /// Takes tests in; true when the sequential test has raised an alarm.
    fn take_all(&mut self, aggregate: &Aggregate, tests: &mut [PathTest]) -> bool {
        let mut is_alarm = false;
        for (sums, test) in aggregate.paths.iter().zip(tests.iter_mut()) {
            if let Some(watch) = &mut self.watch {
                is_alarm |= watch.look(sums, test).is_some();
            }
            self.take(test);
            self.noise.add(sums, test);
        }
        // Looked at as soon as a path loses on its own, so that a conviction has the time at which
        // its evidence was complete. Nothing can be convicted before.
        let is_news = match &self.watch {
            Some(watch) => {
                is_alarm || (tests.iter()).any(|test| watch.may_convict(test, &self.found))
            }
            None => tests.iter().any(|test| test.p_value <= NEWS_P),
        };
        if is_news {
            self.found = self.locate();
        }
        is_alarm
    }

    fn take(&mut self, test: &PathTest) {
        match test.state {
            PathState::Healthy => self.counters.healthy += 1,
            PathState::Failed => self.counters.failed += 1,
            PathState::Void(_) => self.counters.void += 1,
            PathState::Abstained(_) => self.counters.abstained += 1,
        }
        // The judge makes paths of this fabric only, so there is none to refuse.
        if self.namer.add(test).is_err() {
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
            let mut tests = self.judge.judge(&aggregate);
            self.take_all(&aggregate, &mut tests);
            self.keep_untold(&tests);
            self.add_to_last(&aggregate, tests);
        }
    }

    /// Tests of counts that waited stand with the last window of their leaf pair.
    fn add_to_last(&mut self, aggregate: &Aggregate, tests: Vec<PathTest>) {
        let of_pair = |verdict: &&mut Verdict| {
            verdict.window.src == aggregate.src && verdict.window.dst == aggregate.dst
        };
        if let Some(last) = self.verdicts.iter_mut().rev().find(of_pair) {
            last.tests.extend(tests);
        }
    }

    /// The links that the evidence names.
    pub fn locate(&mut self) -> Localization {
        let mut found = self.namer.locate(self.latest);
        if let Some(watch) = &mut self.watch {
            watch.confirm(&mut found, self.latest);
        }
        found
    }

    /// Alarms of the sequential test, 0 without one.
    pub fn alarms(&self) -> u64 {
        self.watch.as_ref().map_or(0, Watch::alarms)
    }

    /// How paths are tested.
    pub fn test(&self) -> Test {
        match self.watch {
            Some(_) => Test::Sequential,
            None => Test::Fixed,
        }
    }

    /// Path tests made so far, void ones not counted.
    pub fn path_tests(&self) -> u64 {
        self.counters.healthy + self.counters.failed + self.counters.abstained
    }

    /// False alarms that the whole fabric would raise in a day that goes on like the `run_ns` so
    /// far, if every path lost exactly what is tolerated: an upper bound. A fixed test of a path
    /// errs with probability alpha per path; a window of a path that is watched once in the mean run
    /// length of the sequential test, or more seldom.
    pub fn expected_false_alarms_per_day(&self, run_ns: u64) -> f64 {
        if run_ns == 0 {
            return 0.0;
        }
        let tests_per_day = self.path_tests() as f64 * 86_400e9 / run_ns as f64;
        match &self.watch {
            Some(watch) => tests_per_day / watch.run_length_min(),
            None => {
                let rounds = tests_per_day / self.rules.fabric.paths() as f64;
                self.rules.expected_false_alarms_per_day(rounds)
            }
        }
    }

    /// The windows judged so far, less the oldest [`AgentCounters::forgotten`].
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
