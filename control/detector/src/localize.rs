//! Names links from the path tests of all leaves.
//!
//! The monitor (and the testbed) gives every [`PathTest`] to [`Localizer::add`]
//! and asks [`Localizer::locate`] as often as it likes. Healthy, failed and
//! abstained tests all count, by their packets and losses; void ones change
//! nothing. The order of evidence does not matter. Memory: one cell of about
//! 100 bytes per (path, part) with evidence inside the horizon; a 128x128 fabric
//! in which every pair of leaves was measured takes about 250 MB, a 64x64 one
//! 30 MB.
//!
//! A link is **convicted** if
//! 1. the observations at its spine are improbable without it: the likelihood,
//!    maximized over the rates of all other links, falls by at least
//!    ln(links/alpha) when this link's rate is held at what is tolerated; and
//! 2. two paths over it that differ in the far leaf lose on their own (p <= 0.01),
//!    or hop counts blame the link directly at alpha/links.
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
//! A link is **suspect** if a failed path over it is not explained by convicted
//! links, and the likelihood does not refuse the path's rate for this link (by the
//! same ln(links/alpha), so that a bad link is let off with probability at most
//! about alpha/links). The answer says what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::judge::{LinkTest, PathState, PathTest};
use crate::likelihood::{Fit, Model, Term};
use crate::rules::Rules;
use crate::tails::{poisson_at_least, poisson_interval};
use crate::tally::{Cell, Sum, Tally, slot_index};
use crate::types::{Fabric, LeafId, Link, Nanos, OutsideFabric, SpineId};

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

/// A path counts as a victim if its loss has at most this probability without the
/// link in question. That the link is bad is shown by the likelihood of all paths
/// together; this only asks that it does not rest on one path alone.
pub const VICTIM_P: f64 = 0.01;

/// Losses of a term's background at least, so that p0 = 0 has a likelihood.
const BACKGROUND_MIN: f64 = 1e-9;

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
    /// Time of the latest evidence when the link was first convicted.
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
enum Part {
    Whole,
    Up,
    Down,
}

/// Everything known about one spine.
#[derive(Clone, Debug, Default)]
struct Spine {
    cells: BTreeMap<(LeafId, LeafId, Part), Cell>,
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
        let mut put = |part, tally| {
            let cell = spine
                .cells
                .entry((test.path.src, test.path.dst, part))
                .or_default();
            cell.add(index, tally, test.first_marked_ns, test.at_ns);
        };
        // The halves say all that the whole says, so only one of them is kept.
        if let Some([up, down]) = test.links {
            let tally = |link: LinkTest| {
                let lost = link.sent.saturating_sub(link.received);
                Tally::new(link.sent as f64, lost as f64, 0.0)
            };
            put(Part::Up, tally(up));
            put(Part::Down, tally(down));
        } else {
            put(Part::Whole, Tally::whole(test));
        }
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
                let view = View::new(&self.rules, SpineId(x as u16), &spine.cells, index);
                spine.answer = Some((index, view.locate()));
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
            let view = View::new(&self.rules, SpineId(x as u16), &spine.cells, index);
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

/// One spine's evidence, laid out for the likelihood: link i < leaves is the
/// uplink of leaf i, link leaves + j the downlink to leaf j.
struct View<'a> {
    rules: &'a LocalizerRules,
    spine: SpineId,
    keys: Vec<(LeafId, LeafId, Part)>,
    sums: Vec<Sum>,
    model: Model,
    fit: Fit,
}

impl<'a> View<'a> {
    fn new(
        rules: &'a LocalizerRules,
        spine: SpineId,
        cells: &BTreeMap<(LeafId, LeafId, Part), Cell>,
        index: u64,
    ) -> View<'a> {
        let leaves = usize::from(rules.fabric.leaves);
        let (mut keys, mut sums, mut terms) = (Vec::new(), Vec::new(), Vec::new());
        for (&key, cell) in cells {
            let Some(sum) = cell.sum(index).filter(|sum| sum.sent > 0.0) else {
                continue;
            };
            let (src, dst, part) = key;
            let links = if part == Part::Whole { 2.0 } else { 1.0 };
            let noise = sum.noise_variance;
            terms.push(Term {
                up: (part != Part::Down).then_some(usize::from(src.0)),
                down: (part != Part::Up).then_some(leaves + usize::from(dst.0)),
                sent: sum.sent,
                lost: (sum.lost + noise).max(0.0),
                background: (links * rules.p0 * sum.sent + noise).max(BACKGROUND_MIN),
            });
            keys.push(key);
            sums.push(sum);
        }
        let model = Model::new(2 * leaves, terms);
        let fit = model.fit(&vec![0.0; 2 * leaves], None);
        View {
            rules,
            spine,
            keys,
            sums,
            model,
            fit,
        }
    }

    fn link(&self, i: usize) -> Link {
        let leaves = usize::from(self.rules.fabric.leaves);
        let spine = self.spine;
        if i < leaves {
            Link::Up {
                leaf: LeafId(i as u16),
                spine,
            }
        } else {
            Link::Down {
                spine,
                leaf: LeafId((i - leaves) as u16),
            }
        }
    }

    /// The fall of the log-likelihood that counts as proof, see the file's comment.
    fn proof(&self) -> f64 {
        (self.rules.fabric.links() as f64 / self.rules.alpha).ln()
    }

    fn locate(&self) -> Localization {
        let links = self.fit.rates.len();
        let convicted: Vec<(usize, Conviction)> = (0..links)
            .filter_map(|i| Some((i, self.convict(i)?)))
            .collect();
        let mut rates = vec![0.0; links];
        for &(i, _) in &convicted {
            rates[i] = self.fit.rates[i];
        }
        let suspects = self.suspects(&rates);
        Localization {
            convicted: convicted.into_iter().map(|(_, found)| found).collect(),
            suspects,
        }
    }

    fn convict(&self, i: usize) -> Option<Conviction> {
        let rate = self.fit.rates[i];
        // With the others held, the fall is at least as deep as with them adapting.
        if rate <= 0.0 || -self.model.change(&self.fit.rates, i, 0.0) < self.proof() {
            return None;
        }
        let without = self.model.fit(&self.fit.rates, Some((i, 0.0)));
        let ratio = self.fit.log_likelihood - without.log_likelihood;
        // A climb that did not end may have left likelihood without this link.
        if ratio < self.proof() || !without.converged {
            return None;
        }
        let victims = self.victims(i);
        if victims.leaves.len() < 2 && !self.blamed_by_hops(i) {
            return None;
        }
        let paths = victims.leaves.len() as u32;
        let of_link = || self.model.terms_of(i).iter().map(|&t| self.sums[t]);
        let whole_rate = |rate: f64| (rate + self.rules.p0).clamp(0.0, 1.0);
        let [low, high] = self.interval(i);
        Some(Conviction {
            link: self.link(i),
            drop_rate: whole_rate(rate),
            ci95: [whole_rate(low), whole_rate(high)],
            paths,
            packets: victims.packets,
            packets_per_spine: victims.packets / u64::from(paths.max(1)),
            first_marked_ns: of_link().map(|sum| sum.first_ns).min().unwrap_or_default(),
            at_ns: of_link().map(|sum| sum.last_ns).max().unwrap_or_default(),
            log_likelihood_ratio: ratio,
        })
    }

    /// Paths over link `i` whose loss the other links' rates do not explain.
    fn victims(&self, i: usize) -> Victims {
        let mut victims = Victims {
            leaves: BTreeSet::new(),
            packets: 0,
        };
        for &t in self.model.terms_of(i) {
            let term = &self.model.terms()[t];
            let others = self.model.mean(term, &self.fit.rates) - term.sent * self.fit.rates[i];
            if poisson_at_least(term.lost, others.max(term.background)) <= VICTIM_P {
                let (src, dst, _) = self.keys[t];
                let far = if term.up == Some(i) { dst } else { src };
                victims.leaves.insert(far);
                victims.packets += term.sent.round() as u64;
            }
        }
        victims
    }

    /// Whether the observations of link `i` alone, by hop counts, are improbable.
    fn blamed_by_hops(&self, i: usize) -> bool {
        let (mut lost, mut background) = (0.0, 0.0);
        for &t in self.model.terms_of(i) {
            let term = &self.model.terms()[t];
            if self.keys[t].2 != Part::Whole {
                lost += term.lost;
                background += term.background;
            }
        }
        poisson_at_least(lost, background) <= self.rules.alpha / self.rules.fabric.links() as f64
    }

    /// 95 % interval of a rate: where the profile likelihood has fallen by half of
    /// the 0.95 quantile of chi-square with one degree of freedom (Wilks).
    fn interval(&self, i: usize) -> [f64; 2] {
        const Z: f64 = 1.959_964;
        [self.profile_limit(i, -Z), self.profile_limit(i, Z)]
    }

    /// The rate on the side of `z`'s sign at which the log-likelihood, maximized
    /// over the other links, has fallen by z^2/2. The root of twice the fall is
    /// nearly linear in the rate, so a few secant steps find it.
    fn profile_limit(&self, i: usize, z: f64) -> f64 {
        let best = self.fit.rates[i];
        let mut step = z / self.model.information(&self.fit.rates, i).sqrt();
        for _ in 0..6 {
            let rate = (best + step).clamp(0.0, 1.0);
            let held = self.model.fit(&self.fit.rates, Some((i, rate)));
            let fall = (self.fit.log_likelihood - held.log_likelihood).max(0.0);
            let reached = (2.0 * fall).sqrt();
            let at_edge = rate != best + step;
            if at_edge && reached < z.abs() {
                return rate;
            }
            let next = (rate - best) * (z.abs() / reached.max(0.05)).clamp(0.2, 5.0);
            let settled = (next - step).abs() < 1e-3 * step.abs();
            step = next;
            if settled {
                break;
            }
        }
        (best + step).clamp(0.0, 1.0)
    }

    /// Links of failed paths that the convicted `rates` leave unexplained.
    fn suspects(&self, rates: &[f64]) -> Vec<Suspect> {
        let alpha = self.rules.alpha / self.rules.fabric.paths() as f64;
        // Per link, the failed observations over it: (lowest and estimated rate).
        let mut accused: BTreeMap<usize, (f64, f64, f64)> = BTreeMap::new();
        let mut failed = Vec::new();
        for (t, term) in self.model.terms().iter().enumerate() {
            let mean = self.model.mean(term, rates);
            // Losses come in bursts, so a path over a convicted link is explained
            // up to twice the estimate.
            let explained = mean + (mean - term.background);
            if term.lost <= explained || poisson_at_least(term.lost, explained) > alpha {
                continue;
            }
            failed.push(t);
            let [low, _] = poisson_interval(term.lost, 0.95);
            let low = ((low - mean) / term.sent).clamp(0.0, 1.0);
            let rate = ((term.lost - mean) / term.sent).clamp(0.0, 1.0);
            for i in [term.up, term.down]
                .into_iter()
                .flatten()
                .filter(|&i| rates[i] == 0.0)
            {
                let entry = accused.entry(i).or_insert((low, rate, term.sent));
                entry.0 = entry.0.min(low);
                if rate > entry.1 {
                    (entry.1, entry.2) = (rate, term.sent);
                }
            }
        }
        let mut suspects: BTreeMap<usize, Missing> = BTreeMap::new();
        for (&i, &(low, ..)) in &accused {
            if !self.refuses(i, low) {
                suspects.insert(i, self.missing(i));
            }
        }
        for t in failed {
            let term = &self.model.terms()[t];
            let links = || [term.up, term.down].into_iter().flatten();
            if links().all(|i| rates[i] == 0.0 && !suspects.contains_key(&i)) {
                suspects.extend(links().map(|i| (i, Missing::Agreement)));
            }
        }
        let suspect = |(i, missing)| {
            let (_, drop_rate, packets) = accused[&i];
            Suspect {
                link: self.link(i),
                missing,
                drop_rate,
                packets: packets.round() as u64,
            }
        };
        suspects.into_iter().map(suspect).collect()
    }

    /// Whether the evidence excludes that link `i` loses `rate` or more.
    fn refuses(&self, i: usize, rate: f64) -> bool {
        if rate <= self.fit.rates[i] {
            return false;
        }
        -self.model.change(&self.fit.rates, i, rate) > self.proof() && {
            let held = self.model.fit(&self.fit.rates, Some((i, rate)));
            held.converged && self.fit.log_likelihood - held.log_likelihood > self.proof()
        }
    }

    fn missing(&self, i: usize) -> Missing {
        let zero = vec![0.0; self.fit.rates.len()];
        let losing = |t: &&usize| {
            let term = &self.model.terms()[**t];
            poisson_at_least(term.lost, self.model.mean(term, &zero)) <= VICTIM_P
        };
        let victims = self.model.terms_of(i).iter().filter(losing).count();
        if victims >= 2 {
            return Missing::Separation;
        }
        match self.link(i) {
            Link::Up { .. } => Missing::SecondDestination,
            Link::Down { .. } => Missing::SecondSource,
        }
    }

    fn cleared(&self) -> Vec<Cleared> {
        let z = (2.0 * self.proof()).sqrt();
        let clear = |i: usize| {
            let terms = self.model.terms_of(i);
            let packets: f64 = terms.iter().map(|&t| self.model.terms()[t].sent).sum();
            (!terms.is_empty()).then(|| Cleared {
                link: self.link(i),
                below_rate: (self.profile_limit(i, z) + self.rules.p0).min(1.0),
                packets: packets.round() as u64,
            })
        };
        (0..self.fit.rates.len()).filter_map(clear).collect()
    }
}

struct Victims {
    leaves: BTreeSet<LeafId>,
    packets: u64,
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
