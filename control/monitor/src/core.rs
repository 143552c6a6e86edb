//! The monitor as a value: verdicts in, states of links out. No clock, no I/O.
//!
//! Paths over different spines share no link, so each spine has a localizer of its own and is looked at by
//! itself: [`Core::evaluate`] looks at the few whose turn it is, so that no look takes long whatever the
//! fabric's size. The same verdicts give the same answer in any order.

mod check;
mod event;

use std::collections::BTreeMap;

use agent::verdict::{Outcome, WindowVerdict};
use detector::localize::{Conviction, LocalizerRules, Missing};
use detector::{Fabric, LeafId, Link, Localizer, Nanos, SpineId};
use serde::Serialize;

use crate::coverage::{Coverage, Covered};
use crate::series::{Point, Series};
use crate::standing::{
    Acknowledgement, Change, Finding, Hysteresis, Measured, Passed, Standing, State,
};

pub use check::{Refusal, check};
pub use event::{Event, Kind};

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

/// Spines that nobody has news of are looked at this often, for what time alone causes.
const LOOK_NS: u64 = 2_000_000_000;
/// A spine with news is looked at this often at most: under load every verdict is news.
const NEWS_NS: u64 = 1_000_000_000;
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
    /// Links whose row has changed since they were last asked for.
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

/// A link as people see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The link.
    pub link: Link,
    /// Its state.
    pub state: State,
    /// Since when, in nanoseconds since 1970.
    pub since_ns: u64,
    /// Loss rate, if accused.
    pub drop_rate: f64,
    /// Its 95 % interval, of a conviction.
    pub ci95: Option<[f64; 2]>,
    /// What a suspicion lacks.
    pub missing: Option<Missing>,
    /// Failed paths of a conviction.
    pub paths: u32,
    /// Its measuring.
    pub covered: Covered,
    /// Convictions that are remembered.
    pub convictions: usize,
    /// Who has seen the conviction.
    pub acknowledged: Option<Acknowledgement>,
}

impl Spine {
    fn is_due(&self, now: Nanos) -> bool {
        let wait = if self.has_news { NEWS_NS } else { LOOK_NS };
        now.0 >= self.looked.0.saturating_add(wait)
    }
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
                self.changed[index] = true;
            }
        }
        let pair = (verdict.src, verdict.dst);
        let is_newer = (self.latest.get(&pair)).is_none_or(|old| old.at_ns <= verdict.at_ns);
        if is_newer {
            self.latest.insert(pair, verdict);
        }
    }

    /// Looks at up to `spines` spines whose turn it is: first those with news that have waited longest.
    /// Returns what changed.
    pub fn evaluate(&mut self, now: Nanos, spines: usize) -> Vec<Event> {
        let mut due: Vec<usize> = (0..self.spines.len())
            .filter(|&x| self.spines[x].is_due(now))
            .collect();
        due.sort_by_key(|&x| self.spines[x].looked);
        let mut events = Vec::new();
        for &x in due.iter().take(spines) {
            self.look_at(x, now, &mut events);
        }
        events
    }

    /// Whether it is a spine's turn.
    pub fn is_due(&self, now: Nanos) -> bool {
        self.spines.iter().any(|spine| spine.is_due(now))
    }

    fn look_at(&mut self, x: usize, now: Nanos, events: &mut Vec<Event>) {
        let Rules {
            localization: LocalizerRules {
                fabric, horizon, ..
            },
            ..
        } = self.rules;
        let spine = &mut self.spines[x];
        (spine.has_news, spine.looked) = (false, now);
        let mut found = spine.localizer.locate(now);
        let oldest = now.0.saturating_sub(horizon.0);
        spine.alarmed.retain(|_, at| at.0 >= oldest);
        if spine.is_sequential {
            let alarmed = &spine.alarmed;
            let is_accused = |link: Link| match link {
                Link::Up { leaf, .. } => alarmed.keys().any(|(src, _)| *src == leaf),
                Link::Down { leaf, .. } => alarmed.keys().any(|(_, dst)| *dst == leaf),
            };
            found.convicted.retain(|c| is_accused(c.link));
            found.suspects.retain(|s| is_accused(s.link));
        }
        for link in links_of(fabric, SpineId(x as u16)) {
            let convicted = found.convicted.iter().find(|c| c.link == link).copied();
            let suspect = found.suspects.iter().find(|s| s.link == link).copied();
            let finding = match (convicted, suspect) {
                (Some(c), _) => Finding::Convicted {
                    rate: c.drop_rate,
                    ci95: c.ci95,
                },
                (None, Some(s)) => Finding::Suspect { rate: s.drop_rate },
                (None, None) => Finding::Nothing,
            };
            let index = index_of(fabric, link);
            let record = &mut self.links[index];
            let covered = record.coverage.at(now, horizon);
            let measured = Measured {
                last: record.coverage.last(),
                is_fine: (covered.watched_from).is_some_and(|rate| rate <= self.rules.target_rate),
            };
            let passed = std::mem::take(&mut record.passed);
            if let Some(c) = convicted {
                record.conviction = Some(c);
                record.series.estimate(now, c.drop_rate, c.ci95);
                self.changed[index] = true;
            }
            record.missing = suspect.map(|s| s.missing);
            let rules = &self.rules.hysteresis;
            if let Some(change) = record.standing.look(now, finding, passed, measured, rules) {
                self.changed[index] = true;
                events.extend(event_of(now, link, change, record));
            }
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

    /// A link as people see it.
    ///
    /// # Errors
    /// A link that the fabric does not have.
    pub fn row(&self, link: Link, now: Nanos) -> Result<Row, String> {
        let record = &self.links[self.index(link)?];
        let standing = &record.standing;
        let is_convicted = standing.state == State::Convicted;
        let missing = record.missing.filter(|_| standing.state == State::Suspect);
        Ok(Row {
            link,
            state: standing.state,
            since_ns: standing.since.0,
            drop_rate: standing.rate,
            ci95: is_convicted.then_some(standing.ci95),
            missing,
            paths: (record.conviction)
                .filter(|_| is_convicted)
                .map_or(0, |c| c.paths),
            covered: (record.coverage).at(now, self.rules.localization.horizon),
            convictions: standing.convictions.len(),
            acknowledged: standing.acknowledged.clone(),
        })
    }

    /// All links, in [`Link`]'s order.
    pub fn rows(&self, now: Nanos) -> Vec<Row> {
        let links = self.rules.localization.fabric.all_links();
        links.filter_map(|link| self.row(link, now).ok()).collect()
    }

    /// The links whose rows have changed since this was last called.
    pub fn take_changed(&mut self) -> Vec<Link> {
        let links = self.rules.localization.fabric.all_links();
        let changed = links
            .zip(&self.changed)
            .filter(|(_, is)| **is)
            .map(|(link, _)| link)
            .collect();
        self.changed.fill(false);
        changed
    }

    /// Counts a link among those whose rows have changed.
    pub fn touch(&mut self, link: Link) {
        if let Ok(index) = self.index(link) {
            self.changed[index] = true;
        }
    }

    /// A link's measurements over time, oldest first.
    ///
    /// # Errors
    /// A link that the fabric does not have.
    pub fn series(&self, link: Link) -> Result<Vec<Point>, String> {
        Ok(self.links[self.index(link)?].series.points())
    }

    /// The latest verdicts of the leaf pairs whose paths lead over the link, by its far leaf.
    pub fn evidence(&self, link: Link) -> Vec<&WindowVerdict> {
        let is_over = |pair: &(LeafId, LeafId)| match link {
            Link::Up { leaf, .. } => pair.0 == leaf,
            Link::Down { leaf, .. } => pair.1 == leaf,
        };
        (self.latest.iter())
            .filter(|(pair, _)| is_over(pair))
            .map(|(_, verdict)| verdict)
            .collect()
    }

    /// How many links are in each state, in the order of [`State::ALL`].
    pub fn states(&self) -> [(State, u64); 5] {
        State::ALL.map(|state| {
            let is = |record: &&Record| record.standing.state == state;
            (state, self.links.iter().filter(is).count() as u64)
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

/// What is told of a change; that a link is measured, or no more, is its state and no event.
fn event_of(now: Nanos, link: Link, change: Change, record: &Record) -> Option<Event> {
    let kind = match (change.from, change.to) {
        (_, State::Convicted) => Kind::Convicted,
        (_, State::Suspect) => Kind::Suspected,
        (_, State::Cleared) | (State::Suspect, _) => Kind::Cleared,
        (State::Cleared, _) => Kind::Healthy,
        _ => return None,
    };
    let standing = &record.standing;
    let text = match (kind, record.missing) {
        (Kind::Suspected, Some(missing)) => format!("missing: {missing}"),
        _ => String::new(),
    };
    Some(Event {
        id: 0,
        at_ns: now.0,
        kind,
        link,
        from: change.from,
        to: change.to,
        drop_rate: standing.rate,
        ci95: (kind == Kind::Convicted).then_some(standing.ci95),
        text,
    })
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

/// The links at a spine.
fn links_of(fabric: Fabric, spine: SpineId) -> impl Iterator<Item = Link> {
    let up = move |leaf| Link::Up {
        leaf: LeafId(leaf),
        spine,
    };
    let down = move |leaf| Link::Down {
        spine,
        leaf: LeafId(leaf),
    };
    (0..fabric.leaves)
        .map(up)
        .chain((0..fabric.leaves).map(down))
}

#[cfg(test)]
mod tests;
