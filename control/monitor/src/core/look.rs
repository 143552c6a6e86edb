//! Looking at spines in turn: what the localizer finds becomes the state of links, and what changed is told.

use detector::localize::LocalizerRules;
use detector::{Fabric, LeafId, Link, Nanos, SpineId};

use super::{Core, Event, Kind, Record, Rules, Spine, index_of};
use crate::standing::{Change, Finding, Measured, State};

/// Spines that nobody has news of are looked at this often, for what time alone causes.
const LOOK_NS: u64 = 2_000_000_000;
/// A spine with news is looked at this often at most: under load every verdict is news.
const NEWS_NS: u64 = 1_000_000_000;

impl Spine {
    fn is_due(&self, now: Nanos) -> bool {
        let wait = if self.has_news { NEWS_NS } else { LOOK_NS };
        now.0 >= self.looked.0.saturating_add(wait)
    }
}

impl Core {
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
            }
            let missing = suspect.map(|s| s.missing);
            let is_news = std::mem::replace(&mut record.missing, missing) != missing;
            let rules = &self.rules.hysteresis;
            let change = record.standing.look(now, finding, passed, measured, rules);
            self.changed[index] |= is_news || change.is_some() || finding != Finding::Nothing;
            if let Some(change) = change {
                events.extend(event_of(now, link, change, record));
            }
        }
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
