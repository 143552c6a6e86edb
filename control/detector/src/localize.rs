//! Names links from the path tests of all leaves.
//!
//! The monitor (and the testbed) gives every [`PathTest`] to [`Localizer::add`]
//! and asks [`Localizer::locate`] as often as it likes. Healthy, failed and
//! abstained tests all count, by their packets and losses; void ones change
//! nothing. The order of evidence does not matter, but for which tests are the latest.
//! Memory: one cell of about 100 bytes per (path, part) with evidence inside the
//! horizon; a 128x128 fabric in which every pair of leaves was measured takes about
//! 300 MB, a 64x64 one 40 MB; and 100 KB per spine for its latest tests.
//!
//! A link is **convicted** if
//! 1. the observations at its spine are improbable without it: the likelihood,
//!    maximized over the rates of all other links, falls by at least
//!    ln(links/alpha) when this link's rate is held at what is tolerated; and
//! 2. two paths over it that differ in the far leaf lose on their own (p <= 1e-3), and
//!    one fault can be what both saw: they may have gone bad at the same time, and
//!    while it must have lasted no path over the link shows less than a quarter of its
//!    rate; or hop counts blame the link directly at alpha/links.
//!
//! The link with the strongest evidence comes first, and what went over it counts no
//! more when the others are looked at.
//!
//! The first rule is exoneration and intersection in one. Two bad uplinks into a
//! spine explain every failed path of its downlinks, so no downlink is convicted;
//! and a bad link that slips through one of its tests (at power 0.99 each, one of
//! its 7 paths looks healthy in 7 % of the cases) is not cleared by that, since
//! all its paths count together. For a link whose background is known,
//! P(ratio >= ln(1/a)) <= a is Chernoff's bound for Poisson losses, so the false
//! convictions over all links of the fabric are at most alpha per horizon; with
//! estimated neighbours it holds in the tests by simulation.
//!
//! Rates of links change: they break, and are repaired. Sums of a horizon are thinned
//! by what was sent before a link went bad, and what clears other links may lie
//! before that. Hence the second half of rule 2, and the order. And where a failed
//! path stays unexplained, the same is asked of the tests since it began to fail
//! (`recent.rs`), at a fifth of alpha for each of at most four times.
//!
//! A link is **suspect** if a failed path over it is not explained by convicted
//! links, and the likelihood does not refuse the path's rate for this link (by the
//! same ln(links/alpha), so that a bad link is let off with probability at most
//! about alpha/links). The answer says what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::judge::{LinkTest, PathState, PathTest};
use crate::recent::{ONSETS_MAX, Recent, Seen};
use crate::rules::Rules;
use crate::spine::View;
use crate::tally::{Cell, Tally, slot_index};
use crate::types::{Fabric, LeafId, Link, Nanos, OutsideFabric, Path, SpineId};

/// How the localizer decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalizerRules {
    /// Size of the fabric.
    pub fabric: Fabric,
    /// Loss rate per link that is no failure.
    pub p0: f64,
    /// Probability of any false conviction per horizon.
    pub alpha: f64,
    /// Evidence older than this is forgotten, in steps of half of it.
    pub horizon: Nanos,
}

/// Default horizon: the paper's minute (section 4).
pub const DEFAULT_HORIZON: Nanos = Nanos(60_000_000_000);

/// A link that loses packets. Rates are probabilities per packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Conviction {
    /// The link.
    pub link: Link,
    /// Estimated loss rate.
    pub drop_rate: f64,
    /// Its 95 % interval by profile likelihood (the other links' rates adapt).
    pub ci95: [f64; 2],
    /// Paths over the link that lose on their own, differing in the far leaf.
    pub paths: u32,
    /// Marked packets sent over those paths.
    pub packets: u64,
    /// Packets per path when the link was first convicted.
    pub packets_per_spine: u64,
    /// First marked packet of the evidence, as far back as the horizon.
    pub first_marked_ns: Nanos,
    /// Time of the latest evidence at its spine when the link was first convicted.
    pub at_ns: Nanos,
    /// Fall of the log-likelihood without this link.
    pub log_likelihood_ratio: f64,
}

/// What would turn a suspicion into a conviction or an acquittal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Missing {
    /// An uplink was seen losing towards one destination leaf only.
    #[serde(rename = "second destination")]
    SecondDestination,
    /// A downlink was seen losing from one source leaf only.
    #[serde(rename = "second source")]
    SecondSource,
    /// There are victims enough, but other links explain them as well.
    #[serde(rename = "a path that tells it from other suspects")]
    Separation,
    /// Other paths over both links of the failed path are healthy: nothing that
    /// happens on one link explains it.
    #[serde(rename = "agreement with healthy paths over it")]
    Agreement,
}

/// A link that may be the one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Suspect {
    /// The link.
    pub link: Link,
    /// What is missing.
    pub missing: Missing,
    /// Loss rate of the worst unexplained path over it.
    pub drop_rate: f64,
    /// Marked packets sent over that path.
    pub packets: u64,
}

/// A link that was examined and not found guilty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cleared {
    /// The link.
    pub link: Link,
    /// Largest loss rate that the evidence does not refuse; a link that loses
    /// more is cleared with probability at most about alpha/links.
    pub below_rate: f64,
    /// Marked packets that passed it.
    pub packets: u64,
}

/// The answer, each list in the order of [`Link`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Localization {
    /// Links that lose packets.
    pub convicted: Vec<Conviction>,
    /// Links that may.
    pub suspects: Vec<Suspect>,
}

/// Where on a path an observation saw the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Whole,
    Up,
    Down,
}

/// Everything known about one spine.
#[derive(Clone, Debug, Default)]
struct Spine {
    cells: BTreeMap<(LeafId, LeafId, Part), Cell>,
    recent: Recent,
    /// Answer for the cells at slot `.0`; `None` after new evidence.
    answer: Option<(u64, Localization)>,
}

/// Collects path tests and names links, see the file's comment.
#[derive(Clone, Debug)]
pub struct Localizer {
    rules: LocalizerRules,
    spines: Vec<Spine>,
    /// (time, packets per path) of the first of an unbroken run of convictions.
    first: BTreeMap<Link, (Nanos, u64)>,
}

impl Spine {
    fn view<'a>(&'a self, rules: &'a LocalizerRules, spine: SpineId, index: u64) -> View<'a> {
        View::new(rules, spine, &self.cells, (&self.recent, Nanos(0)), index)
    }

    fn locate(&self, rules: &LocalizerRules, spine: SpineId, index: u64) -> Localization {
        let view = self.view(rules, spine, index);
        let mut answer = view.locate();
        if answer.suspects.is_empty() {
            return answer;
        }
        let later = self.ask_later(rules, spine, index, &answer.convicted);
        let is_new = |found: &&Conviction| answer.convicted.iter().all(|c| c.link != found.link);
        let later: Vec<Conviction> = later.iter().filter(is_new).copied().collect();
        if !later.is_empty() {
            let links = later.iter().map(|found| &found.link);
            answer.suspects = view.suspects_beside(&answer.convicted, links);
            answer.convicted.extend(later);
        }
        answer
    }

    /// The links that tests since a path began to fail convict, of paths over none of the `convicted`.
    fn ask_later(
        &self,
        rules: &LocalizerRules,
        spine: SpineId,
        index: u64,
        convicted: &[Conviction],
    ) -> Vec<Conviction> {
        // Each time that is tried has its share of the probability of a mistake.
        let strict = LocalizerRules {
            alpha: rules.alpha / (ONSETS_MAX + 1) as f64,
            ..*rules
        };
        let is_open = |src, dst| {
            let path = Path { src, spine, dst };
            let is_over =
                |found: &Conviction| [path.uplink(), path.downlink()].contains(&found.link);
            !convicted.iter().any(is_over)
        };
        let mut later: BTreeMap<Link, Conviction> = BTreeMap::new();
        for since in self.recent.onsets(is_open) {
            let cells = self.recent.since(since, rules.horizon);
            let view = View::new(&strict, spine, &cells, (&self.recent, since), index);
            for found in view.locate().convicted {
                let best = later.entry(found.link).or_insert(found);
                if found.log_likelihood_ratio > best.log_likelihood_ratio {
                    *best = found;
                }
            }
        }
        later.into_values().collect()
    }
}

impl Rules {
    /// The localizer's rules that go with these.
    pub fn localization(&self) -> LocalizerRules {
        LocalizerRules {
            fabric: self.fabric,
            p0: self.p0,
            alpha: self.alpha,
            horizon: DEFAULT_HORIZON,
        }
    }
}

impl Localizer {
    /// A localizer without evidence.
    pub fn new(rules: LocalizerRules) -> Localizer {
        let spines = vec![Spine::default(); usize::from(rules.fabric.spines)];
        Localizer {
            rules,
            spines,
            first: BTreeMap::new(),
        }
    }

    /// Adds a test. Void tests and tests without packets change nothing.
    ///
    /// # Errors
    /// A path outside the fabric; nothing is added.
    pub fn add(&mut self, test: &PathTest) -> Result<(), OutsideFabric> {
        let fabric = self.rules.fabric;
        if !fabric.contains(test.path) {
            return Err(OutsideFabric {
                path: test.path,
                fabric,
            });
        }
        let finite = test.expected.is_finite() && test.lost.is_finite();
        if matches!(test.state, PathState::Void(_)) || !finite || test.expected <= 0.0 {
            return Ok(());
        }
        let index = slot_index(test.at_ns, self.rules.horizon);
        let spine = &mut self.spines[usize::from(test.path.spine.0)];
        // The halves say all that the whole says, so only one of them is kept.
        let seen = test
            .links
            .map_or(Seen::Whole(Tally::whole(test)), |halves| {
                Seen::Halves(halves.map(|link: LinkTest| {
                    let lost = link.sent.saturating_sub(link.received);
                    Tally::new(link.sent as f64, lost as f64, 0.0)
                }))
            });
        let (src, dst) = (test.path.src, test.path.dst);
        for (part, tally) in seen.parts() {
            let cell = spine.cells.entry((src, dst, part)).or_default();
            cell.add(index, tally, test.first_marked_ns, test.at_ns);
        }
        let times = (test.first_marked_ns, test.at_ns);
        spine.recent.add((src, dst), times, seen, test.state);
        spine.answer = None;
        Ok(())
    }

    /// The links named by the evidence of the horizon before `now`. Spines
    /// without news are not computed again.
    pub fn locate(&mut self, now: Nanos) -> Localization {
        let index = slot_index(now, self.rules.horizon);
        let mut all = Localization::default();
        for (x, spine) in self.spines.iter_mut().enumerate() {
            if spine.answer.as_ref().is_none_or(|(at, _)| *at != index) {
                spine.cells.retain(|_, cell| cell.sum(index).is_some());
                let answer = spine.locate(&self.rules, SpineId(x as u16), index);
                spine.answer = Some((index, answer));
            }
            if let Some((_, answer)) = &spine.answer {
                all.convicted.extend_from_slice(&answer.convicted);
                all.suspects.extend_from_slice(&answer.suspects);
            }
        }
        all.convicted.sort_by_key(|found| found.link);
        all.suspects.sort_by_key(|found| found.link);
        let standing: BTreeSet<Link> = all.convicted.iter().map(|found| found.link).collect();
        self.first.retain(|link, _| standing.contains(link));
        for found in &mut all.convicted {
            let new = (found.at_ns, found.packets_per_spine);
            let (at_ns, packets) = *self.first.entry(found.link).or_insert(new);
            (found.at_ns, found.packets_per_spine) = (at_ns, packets);
        }
        all
    }

    /// For each link with evidence that is neither convicted nor suspect, the
    /// loss rate below which it must lie. Links in no list were not seen. Costs
    /// several fits per link: for reports, not for every window.
    pub fn cleared(&mut self, now: Nanos) -> Vec<Cleared> {
        let named = self.locate(now);
        let index = slot_index(now, self.rules.horizon);
        let mut accused: BTreeSet<Link> = named.convicted.iter().map(|found| found.link).collect();
        accused.extend(named.suspects.iter().map(|found| found.link));
        let mut all = Vec::new();
        for (x, spine) in self.spines.iter().enumerate() {
            let view = spine.view(&self.rules, SpineId(x as u16), index);
            all.extend(
                view.cleared()
                    .into_iter()
                    .filter(|found| !accused.contains(&found.link)),
            );
        }
        all.sort_by_key(|found| found.link);
        all
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Missing::SecondDestination => "second destination",
            Missing::SecondSource => "second source",
            Missing::Separation => "a path that tells it from other suspects",
            Missing::Agreement => "agreement with healthy paths over it",
        })
    }
}
