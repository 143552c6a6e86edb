//! Judges the links of one spine; the rules stand in [`localize`](crate::localize).
//!
//! The localizer builds a [`View`] of a spine with news and asks it. Everything
//! here is a function of that spine's sums; fits that did not converge are always
//! read in favour of "not known".

use std::collections::{BTreeMap, BTreeSet};

use crate::likelihood::{Fit, Model, Term};
use crate::localize::{Cleared, Conviction, Localization, LocalizerRules, Missing, Part, Suspect};
use crate::recent::Recent;
use crate::spells::{Spell, within};
use crate::tails::{poisson_at_least, poisson_interval};
use crate::tally::{Cell, Sum, Tally};
use crate::types::{LeafId, Link, Nanos, SpineId};

/// A path counts as a victim if its loss has at most this probability without the
/// link in question. That the link is bad is shown by the likelihood of all paths
/// together; this asks that it does not rest on one path alone, also not on one and
/// on a chance loss of one of the many others.
const VICTIM_P: f64 = 1e-3;

/// Part of a link's rate that each path over it must be able to have. Losses come in bursts, and paths
/// are tested at different times.
const AGREES_FROM: f64 = 0.25;

/// Losses of a term's background at least, so that p0 = 0 has a likelihood.
const BACKGROUND_MIN: f64 = 1e-9;

/// The latest tests of a spine that are evidence: those since a time.
pub(crate) type Since<'a> = (&'a Recent, Nanos);

/// One spine's evidence, laid out for the likelihood: link i < leaves is the
/// uplink of leaf i, link leaves + j the downlink to leaf j.
pub(crate) struct View<'a> {
    rules: &'a LocalizerRules,
    spine: SpineId,
    keys: Vec<(LeafId, LeafId, Part)>,
    sums: Vec<Sum>,
    since: Since<'a>,
    model: Model,
    fit: Fit,
}

impl<'a> View<'a> {
    pub(crate) fn new(
        rules: &'a LocalizerRules,
        spine: SpineId,
        cells: &BTreeMap<(LeafId, LeafId, Part), Cell>,
        since: Since<'a>,
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
        View::of((rules, spine, since), keys, sums, terms)
    }

    fn of(
        (rules, spine, since): (&'a LocalizerRules, SpineId, Since<'a>),
        keys: Vec<(LeafId, LeafId, Part)>,
        sums: Vec<Sum>,
        terms: Vec<Term>,
    ) -> View<'a> {
        let links = 2 * usize::from(rules.fabric.leaves);
        let model = Model::new(links, terms);
        let fit = model.fit(&vec![0.0; links], None);
        View {
            rules,
            spine,
            keys,
            sums,
            since,
            model,
            fit,
        }
    }

    /// The same without what went over these links.
    fn without(&self, explained: &BTreeSet<usize>) -> View<'a> {
        let stays = |term: &Term| !links_of(term).any(|i| explained.contains(&i));
        let terms = self.model.terms().iter();
        let rest = (terms.zip(&self.keys).zip(&self.sums)).filter(|((term, _), _)| stays(term));
        let (mut keys, mut sums, mut terms) = (Vec::new(), Vec::new(), Vec::new());
        for ((term, key), sum) in rest {
            terms.push(*term);
            keys.push(*key);
            sums.push(*sum);
        }
        View::of((self.rules, self.spine, self.since), keys, sums, terms)
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

    /// Convicts link by link, the one with the strongest evidence first. What goes over a convicted link is
    /// explained and counts no more: how much such a link takes of each path depends on when that was
    /// tested, and the others must not be blamed for the difference.
    pub(crate) fn locate(&self) -> Localization {
        let mut convicted: Vec<Conviction> = Vec::new();
        let mut explained: BTreeSet<usize> = BTreeSet::new();
        let mut rest: Option<View<'_>> = None;
        loop {
            let view = rest.as_ref().unwrap_or(self);
            let links = (0..view.fit.rates.len()).filter(|i| !explained.contains(i));
            let found = links.filter_map(|i| Some((i, view.convict(i)?)));
            let strongest = found
                .max_by(|(_, a), (_, b)| a.log_likelihood_ratio.total_cmp(&b.log_likelihood_ratio));
            let Some((i, found)) = strongest else { break };
            convicted.push(found);
            explained.insert(i);
            if !self.has_victims(&explained) {
                break;
            }
            rest = Some(self.without(&explained));
        }
        Localization {
            suspects: self.suspects_beside(&convicted, std::iter::empty()),
            convicted,
        }
    }

    /// Whether anything that went over none of these links may make a link guilty. Most of what is known of a
    /// spine has lost nothing, and another fit would say no more.
    fn has_victims(&self, explained: &BTreeSet<usize>) -> bool {
        let mut terms = self.model.terms().iter().zip(&self.keys);
        terms.any(|(term, (_, _, part))| {
            term.lost > 0.0
                && !links_of(term).any(|i| explained.contains(&i))
                && (*part != Part::Whole
                    || poisson_at_least(term.lost, term.background) <= VICTIM_P)
        })
    }

    /// Links of failed paths that neither the `convicted` links with their rates explain, nor `others` at
    /// all.
    pub(crate) fn suspects_beside<'l>(
        &self,
        convicted: &[Conviction],
        others: impl Iterator<Item = &'l Link>,
    ) -> Vec<Suspect> {
        let mut rates = vec![0.0; self.fit.rates.len()];
        for found in convicted {
            let i = self.place(found.link);
            rates[i] = self.fit.rates[i];
        }
        let others: BTreeSet<usize> = others.map(|&link| self.place(link)).collect();
        self.suspects(&rates, &others)
    }

    /// The number of a link of this spine.
    fn place(&self, link: Link) -> usize {
        match link {
            Link::Up { leaf, .. } => usize::from(leaf.0),
            Link::Down { leaf, .. } => usize::from(self.rules.fabric.leaves) + usize::from(leaf.0),
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
        let is_seen = victims.leaves.len() >= 2 && self.is_one_fault(i, &victims);
        if !is_seen && !self.blamed_by_hops(i) {
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
            // What clears others is evidence against it as well.
            at_ns: (self.sums.iter().map(|sum| sum.last_ns).max()).unwrap_or_default(),
            log_likelihood_ratio: ratio,
        })
    }

    /// Paths over link `i` whose loss the other links' rates do not explain.
    fn victims(&self, i: usize) -> Victims {
        let mut victims = Victims {
            leaves: BTreeMap::new(),
            packets: 0,
        };
        for &t in self.model.terms_of(i) {
            let term = &self.model.terms()[t];
            let others = self.model.mean(term, &self.fit.rates) - term.sent * self.fit.rates[i];
            if poisson_at_least(term.lost, others.max(term.background)) <= VICTIM_P {
                let (src, dst, _) = self.keys[t];
                let far = if term.up == Some(i) { dst } else { src };
                victims.leaves.entry(far).or_insert((src, dst));
                victims.packets += term.sent.round() as u64;
            }
        }
        victims
    }

    /// Whether one fault of link `i` can be what two of its victims saw: both may have gone bad at the same
    /// time, and no path over the link was too healthy for it while it must have lasted. If not,
    /// they are two faults, and what cleared their other links may lie before those.
    fn is_one_fault(&self, i: usize, victims: &Victims) -> bool {
        let rate = self.fit.rates[i];
        let terms = self.model.terms_of(i).iter();
        let paths: BTreeSet<_> = terms.map(|&t| (self.keys[t].0, self.keys[t].1)).collect();
        let (recent, since) = self.since;
        let tests = recent.of(|path| paths.contains(&path), since);
        let spells = |path| match tests.get(path).map(|tests| Spell::all(tests, rate)) {
            Some(spells) if !spells.is_empty() => spells,
            // Its tests are no longer kept.
            _ => vec![Spell::UNKNOWN],
        };
        let spells: Vec<Vec<Spell>> = victims.leaves.values().map(spells).collect();
        let pairs = spells.iter().enumerate().flat_map(|(place, a)| {
            let others = spells[..place].iter().flatten();
            others.flat_map(|b| a.iter().map(move |a| (a, b)))
        });
        // Many pairs have the same.
        let shared: BTreeSet<_> = pairs.filter_map(|(a, b)| a.shared(b)).collect();
        let alpha = self.rules.alpha / self.rules.fabric.paths() as f64;
        let least = 2.0 * self.rules.p0 + rate * AGREES_FROM;
        let is_too_healthy = |seen: Tally| seen.at_most(seen.sent() * least) < alpha;
        let agree = |time| {
            !tests
                .values()
                .any(|tests| is_too_healthy(within(tests, time)))
        };
        shared.into_iter().any(agree)
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

    /// Links of failed paths that the convicted `rates` leave unexplained, and that go over none of
    /// `others`.
    fn suspects(&self, rates: &[f64], others: &BTreeSet<usize>) -> Vec<Suspect> {
        let alpha = self.rules.alpha / self.rules.fabric.paths() as f64;
        // Per link, the failed observations over it: (lowest and estimated rate).
        let mut accused: BTreeMap<usize, (f64, f64, f64)> = BTreeMap::new();
        let mut failed = Vec::new();
        for (t, term) in self.model.terms().iter().enumerate() {
            if links_of(term).any(|i| others.contains(&i)) {
                continue;
            }
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
            for i in links_of(term).filter(|&i| rates[i] == 0.0) {
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
            if links_of(term).all(|i| rates[i] == 0.0 && !suspects.contains_key(&i)) {
                suspects.extend(links_of(term).map(|i| (i, Missing::Agreement)));
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

    pub(crate) fn cleared(&self) -> Vec<Cleared> {
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

/// The links over which an observation went.
fn links_of(term: &Term) -> impl Iterator<Item = usize> {
    [term.up, term.down].into_iter().flatten()
}

struct Victims {
    /// The path by the far leaf.
    leaves: BTreeMap<LeafId, (LeafId, LeafId)>,
    packets: u64,
}
