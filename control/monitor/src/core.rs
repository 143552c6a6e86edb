//! The monitor as a value: verdicts in, states of links out. No clock, no I/O.
//!
//! Paths over different spines share no link, so each spine has a localizer of its own and is looked at by
//! itself: [`Core::evaluate`] looks at the few whose turn it is, so that no look takes long whatever the
//! fabric's size. The same verdicts give the same answer in any order.

mod check;
mod event;
mod look;
mod row;

use std::collections::BTreeMap;

use agent::verdict::{Outcome, WindowVerdict};
use detector::localize::{Conviction, LocalizerRules, Missing};
use detector::{Fabric, LeafId, Link, Localizer, Nanos};
use serde::Serialize;

use crate::coverage::Coverage;
use crate::series::Series;
use crate::standing::{Acknowledgement, Hysteresis, Passed, Standing, State};

pub use check::{Refusal, check};
pub use event::{Event, Kind};
pub use row::Row;

/// How the monitor decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Fabric, tolerated loss, error rate and horizon of localization.
    pub localization: LocalizerRules,
    /// A link is healthy if a loss of this rate would have been seen.
    pub target_rate: f64,
    /// How states go back.
    pub hysteresis: Hysteresis,
}

impl Rules {
    /// The defaults for a fabric: those of the switches.
    pub fn new(fabric: Fabric) -> Rules {
        let rules = detector::Rules::new(fabric);
        Rules {
            localization: rules.localization(),
            target_rate: rules.target_rate,
            hysteresis: Hysteresis::default(),
        }
    }
}

/// A verdict from the future by more than this is taken for now: clocks agree to about a second.
const AHEAD_NS: u64 = 2_000_000_000;

/// All that is kept of a link.
#[derive(Clone, Debug, Default)]
struct Record {
    standing: Standing,
    coverage: Coverage,
    passed: Passed,
    series: Series,
    conviction: Option<Conviction>,
    missing: Option<Missing>,
}

/// One spine's links in the making.
#[derive(Clone, Debug)]
struct Spine {
    localizer: Localizer,
    /// When a path over it last failed by a sequential test.
    alarmed: BTreeMap<(LeafId, LeafId), Nanos>,
    is_sequential: bool,
    has_news: bool,
    looked: Nanos,
}

/// What the monitor knows.
#[derive(Clone, Debug)]
pub struct Core {
    rules: Rules,
    spines: Vec<Spine>,
    links: Vec<Record>,
    /// The latest verdict of each leaf pair.
    latest: BTreeMap<(LeafId, LeafId), WindowVerdict>,
    counts: Counts,
    /// Links that may look different since they were last asked for; their coverage changes with every verdict.
    changed: Vec<bool>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Verdicts taken.
    pub verdicts: u64,
    /// Their paths.
    pub paths: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Void ones.
    pub void: u64,
    /// Verdicts that were no verdicts of this fabric.
    pub refused: u64,
    /// Verdicts from the future, taken as of now.
    pub ahead: u64,
}

impl Core {
    /// Nothing known.
    pub fn new(rules: Rules) -> Core {
        let fabric = rules.localization.fabric;
        let spine = Spine {
            localizer: Localizer::new(rules.localization),
            alarmed: BTreeMap::new(),
            is_sequential: false,
            has_news: false,
            looked: Nanos(0),
        };
        let links = fabric.links() as usize;
        Core {
            rules,
            spines: vec![spine; usize::from(fabric.spines)],
            links: vec![Record::default(); links],
            latest: BTreeMap::new(),
            counts: Counts::default(),
            changed: vec![true; links],
        }
    }

    /// How it decides.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether a verdict is one of this fabric.
    ///
    /// # Errors
    /// What it contradicts.
    pub fn check(&self, verdict: &WindowVerdict) -> Result<(), Refusal> {
        check(self.rules.localization.fabric, verdict)
    }

    /// Forgets what was counted: what a history gave back was counted before.
    pub fn begin_counting(&mut self) {
        self.counts = Counts::default();
    }

    /// Takes a verdict that was checked, at `now`.
    pub fn take(&mut self, mut verdict: WindowVerdict, now: Nanos) {
        if verdict.at_ns > now.0 + AHEAD_NS {
            self.counts.ahead += 1;
            verdict.at_ns = now.0;
        }
        self.counts.verdicts += 1;
        let horizon = self.rules.localization.horizon;
        let at = Nanos(verdict.at_ns);
        for path in &verdict.paths {
            self.counts.paths += 1;
            let test = verdict.test(path);
            let spine = &mut self.spines[usize::from(path.spine)];
            spine.has_news = true;
            spine.is_sequential |= verdict.sequential;
            if path.outcome.is_void() {
                self.counts.void += 1;
                continue;
            }
            if path.outcome == Outcome::Failed {
                self.counts.failed += 1;
                spine.alarmed.insert((verdict.src, verdict.dst), at);
            }
            // Checked before: the path is one of this fabric.
            if spine.localizer.add(&test).is_err() {
                self.counts.refused += 1;
            }
            let of_link = |half: usize| match test.links {
                Some(links) => {
                    let lost = links[half].sent.saturating_sub(links[half].received);
                    (links[half].sent as f64, lost as f64)
                }
                None => (test.expected, test.lost),
            };
            let ends = [
                (test.path.uplink(), verdict.dst, of_link(0)),
                (test.path.downlink(), verdict.src, of_link(1)),
            ];
            for (link, far, (sent, lost)) in ends {
                let index = index_of(self.rules.localization.fabric, link);
                let record = &mut self.links[index];
                (record.coverage).add(at, horizon, far, path.visible, sent, lost);
                record.passed.sent += sent;
                record.passed.lost += lost;
                record.series.add(at, sent, lost);
            }
        }
        let pair = (verdict.src, verdict.dst);
        let is_newer = (self.latest.get(&pair)).is_none_or(|old| old.at_ns <= verdict.at_ns);
        if is_newer {
            self.latest.insert(pair, verdict);
        }
    }

    /// Writes down that somebody has seen a conviction.
    ///
    /// # Errors
    /// When the link is not convicted, or is not of this fabric.
    pub fn acknowledge(
        &mut self,
        link: Link,
        by: &str,
        note: &str,
        now: Nanos,
    ) -> Result<Event, String> {
        let index = self.index(link)?;
        let standing = &mut self.links[index].standing;
        if standing.state != State::Convicted {
            return Err(format!(
                "{link} is {}; only a convicted link can be acknowledged",
                standing.state.name()
            ));
        }
        standing.acknowledged = Some(Acknowledgement {
            by: by.to_owned(),
            note: note.to_owned(),
            at: now,
        });
        self.changed[index] = true;
        Ok(Event {
            id: 0,
            at_ns: now.0,
            kind: Kind::Acknowledged,
            link,
            from: State::Convicted,
            to: State::Convicted,
            drop_rate: standing.rate,
            ci95: Some(standing.ci95),
            text: match note {
                "" => by.to_owned(),
                note => format!("{by}: {note}"),
            },
        })
    }

    /// What a history keeps of a link.
    ///
    /// # Errors
    /// A link that the fabric does not have.
    pub fn standing(&self, link: Link) -> Result<&Standing, String> {
        Ok(&self.links[self.index(link)?].standing)
    }

    /// Puts back what a history has kept of a link.
    ///
    /// # Errors
    /// A link that the fabric does not have.
    pub fn restore(&mut self, link: Link, standing: Standing) -> Result<(), String> {
        let index = self.index(link)?;
        self.links[index].standing = standing;
        Ok(())
    }

    fn index(&self, link: Link) -> Result<usize, String> {
        let fabric = self.rules.localization.fabric;
        if link.leaf().0 >= fabric.leaves || link.spine().0 >= fabric.spines {
            return Err(format!(
                "{link} is no link of a fabric of {} leaves and {} spines",
                fabric.leaves, fabric.spines
            ));
        }
        Ok(index_of(fabric, link))
    }
}

/// Place of a link: [`Link`]'s order.
fn index_of(fabric: Fabric, link: Link) -> usize {
    let (leaves, spines) = (usize::from(fabric.leaves), usize::from(fabric.spines));
    match link {
        Link::Up { leaf, spine } => usize::from(leaf.0) * spines + usize::from(spine.0),
        Link::Down { spine, leaf } => {
            leaves * spines + usize::from(spine.0) * leaves + usize::from(leaf.0)
        }
    }
}

#[cfg(test)]
mod tests;
