//! Judges the links of one spine; the rules stand in [`localize`](crate::localize).
//!
//! The localizer builds a [`View`] of a spine with news and asks it. Everything
//! here is a function of that spine's sums; fits that did not converge are always
//! read in favour of "not known".

use std::collections::{BTreeMap, BTreeSet};

use crate::likelihood::{Fit, Model, Term};
use crate::localize::{Cleared, Conviction, Localization, LocalizerRules, Missing, Part, Suspect};
use crate::tails::{poisson_at_least, poisson_interval};
use crate::tally::{Cell, Sum};
use crate::types::{LeafId, Link, SpineId};

/// A path counts as a victim if its loss has at most this probability without the
/// link in question. That the link is bad is shown by the likelihood of all paths
/// together; this only asks that it does not rest on one path alone.
pub const VICTIM_P: f64 = 0.01;

/// Losses of a term's background at least, so that p0 = 0 has a likelihood.
const BACKGROUND_MIN: f64 = 1e-9;

/// One spine's evidence, laid out for the likelihood: link i < leaves is the
/// uplink of leaf i, link leaves + j the downlink to leaf j.
pub(crate) struct View<'a> {
    rules: &'a LocalizerRules,
    spine: SpineId,
    keys: Vec<(LeafId, LeafId, Part)>,
    sums: Vec<Sum>,
    model: Model,
    fit: Fit,
}

impl<'a> View<'a> {
    pub(crate) fn new(
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

    pub(crate) fn locate(&self) -> Localization {
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

struct Victims {
    leaves: BTreeSet<LeafId>,
    packets: u64,
}
