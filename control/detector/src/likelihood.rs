//! Loss rates of the links at one spine, by maximum likelihood.
//!
//! Paths via different spines share no link, so each spine is a problem of its
//! own: uplinks into it and downlinks out of it. Observation t saw y_t losses of
//! S_t packets over one or two of these links,
//!
//! ```text
//! y_t ~ Poisson(b_t + S_t * (sum of its links' rates)),   rates >= 0
//! ```
//!
//! with b_t the losses that are tolerated. Noise of variance V is shifted Poisson
//! noise: y and b both grow by V, which has the right mean and variance and an
//! upper tail heavier than the normal one (so it errs towards silence).
//!
//! The log-likelihood is concave in the rates, being a sum of logarithms of
//! affine functions, so climbing one rate at a time reaches the maximum; each
//! step is exact, so the likelihood never falls. The localizer calls this file;
//! everything here is deterministic.

/// One observation: losses of packets over one link or two.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// Index of its first link, if the loss could be there.
    pub up: Option<usize>,
    /// Index of its second link, if the loss could be there.
    pub down: Option<usize>,
    /// S, packets.
    pub sent: f64,
    /// y, losses (plus the noise variance), at least 0.
    pub lost: f64,
    /// b, losses that are no failure (plus the noise variance), above 0.
    pub background: f64,
}

/// All observations at one spine.
#[derive(Clone, Debug)]
pub struct Model {
    terms: Vec<Term>,
    /// Per link the indices of its terms.
    by_link: Vec<Vec<usize>>,
}

/// A maximum of the likelihood.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Loss rate per link, beyond what is tolerated.
    pub rates: Vec<f64>,
    /// Log-likelihood, up to a constant of the model.
    pub log_likelihood: f64,
    /// Whether the climb ended by itself. If not, the maximum may be higher.
    pub converged: bool,
}

/// Sweeps over all rates before a climb is given up. An 8x8 fabric with all pairs
/// seen needs about 10; long chains of pairs need most.
const SWEEPS_MAX: usize = 1_000;

/// A climb ends when no sweep moves more losses than this from one link to
/// another; its square is about what the log-likelihood may still gain.
const MOVED_LOSSES_MIN: f64 = 1e-3;

impl Model {
    /// A model over links `0..links`.
    ///
    /// # Panics
    /// If a term names a link outside, or has no background.
    pub fn new(links: usize, terms: Vec<Term>) -> Model {
        let mut by_link = vec![Vec::new(); links];
        for (t, term) in terms.iter().enumerate() {
            assert!(
                term.background > 0.0 && term.lost >= 0.0,
                "a term without background: {term:?}"
            );
            for link in [term.up, term.down].into_iter().flatten() {
                by_link[link].push(t);
            }
        }
        Model { terms, by_link }
    }

    /// Its observations.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Indices of the observations that saw `link`.
    pub fn terms_of(&self, link: usize) -> &[usize] {
        &self.by_link[link]
    }

    /// Expected losses of an observation.
    pub fn mean(&self, term: &Term, rates: &[f64]) -> f64 {
        let rate = |link: Option<usize>| link.map_or(0.0, |link| rates[link]);
        term.background + term.sent * (rate(term.up) + rate(term.down))
    }

    /// Log-likelihood of these rates, up to a constant.
    pub fn log_likelihood(&self, rates: &[f64]) -> f64 {
        self.terms
            .iter()
            .map(|term| log_poisson(term.lost, self.mean(term, rates)))
            .sum()
    }

    /// How much the log-likelihood changes if `link` alone moves to `rate`: never
    /// more than after the other links have adapted.
    pub fn change(&self, rates: &[f64], link: usize, rate: f64) -> f64 {
        let moved = |t: &usize| {
            let term = &self.terms[*t];
            let mean = self.mean(term, rates);
            let new = mean + term.sent * (rate - rates[link]);
            log_poisson(term.lost, new.max(f64::MIN_POSITIVE)) - log_poisson(term.lost, mean)
        };
        self.by_link[link].iter().map(moved).sum()
    }

    /// Curvature of the log-likelihood along one link's rate: the inverse of the
    /// variance of its estimate if the others were known.
    pub fn information(&self, rates: &[f64], link: usize) -> f64 {
        let square = |t: &usize| {
            let term = &self.terms[*t];
            term.sent * term.sent / self.mean(term, rates)
        };
        self.by_link[link].iter().map(square).sum()
    }

    /// Climbs to the maximum from `start`, with one link's rate held if asked.
    pub fn fit(&self, start: &[f64], held: Option<(usize, f64)>) -> Fit {
        let mut rates = start.to_vec();
        if let Some((link, rate)) = held {
            rates[link] = rate;
        }
        let mut converged = false;
        for _ in 0..SWEEPS_MAX {
            let mut moved_most: f64 = 0.0;
            for link in 0..rates.len() {
                if self.by_link[link].is_empty() || held.is_some_and(|(held, _)| held == link) {
                    continue;
                }
                let (rate, sent) = self.best_rate(&rates, link);
                moved_most = moved_most.max((rate - rates[link]).abs() * sent);
                rates[link] = rate;
            }
            if moved_most < MOVED_LOSSES_MIN {
                converged = true;
                break;
            }
        }
        let log_likelihood = self.log_likelihood(&rates);
        Fit {
            rates,
            log_likelihood,
            converged,
        }
    }

    /// The best rate of one link with all others held, and the packets sent over
    /// it. The slope is convex and falls with the rate, so Newton's steps from the
    /// left of its root never overshoot, and one from the right lands on the left.
    fn best_rate(&self, rates: &[f64], link: usize) -> (f64, f64) {
        let slope = |rate: f64| {
            let (mut slope, mut curvature) = (0.0, 0.0);
            for &t in &self.by_link[link] {
                let term = &self.terms[t];
                let mean = self.mean(term, rates) + term.sent * (rate - rates[link]);
                let per_loss = term.sent / mean.max(f64::MIN_POSITIVE);
                slope += term.lost * per_loss - term.sent;
                curvature += term.lost * per_loss * per_loss;
            }
            (slope, curvature)
        };
        let sent: f64 = self.by_link[link].iter().map(|&t| self.terms[t].sent).sum();
        if slope(0.0).0 <= 0.0 {
            return (0.0, sent);
        }
        let mut rate = rates[link];
        for _ in 0..60 {
            let (slope, curvature) = slope(rate);
            let next = (rate + slope / curvature).clamp(0.0, 1.0);
            let step = (next - rate).abs();
            rate = next;
            if step * sent < 0.1 * MOVED_LOSSES_MIN {
                break;
            }
        }
        (rate, sent)
    }
}

/// ln of the Poisson probability without its factorial.
fn log_poisson(count: f64, mean: f64) -> f64 {
    if count > 0.0 {
        count * mean.ln() - mean
    } else {
        -mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(up: usize, down: usize, sent: f64, lost: f64) -> Term {
        Term {
            up: Some(up),
            down: Some(down),
            sent,
            lost,
            background: 1e-6 * sent,
        }
    }

    /// Goal: by hand: 3 sources, 3 destinations; uplink 0 loses 1 %, downlink 1
    /// (link 4) loses 2 %, and the estimate is exactly that.
    #[test]
    fn exact_losses_give_exact_rates() {
        let truth = [0.01, 0.0, 0.0, 0.0, 0.02, 0.0];
        let mut terms = Vec::new();
        for up in 0..3 {
            for down in 3..6 {
                if up + 3 != down {
                    let lost = 1000.0 * (truth[up] + truth[down]) + 1e-3;
                    terms.push(Term {
                        background: 1e-3,
                        ..term(up, down, 1000.0, lost)
                    });
                }
            }
        }
        let fit = Model::new(6, terms).fit(&[0.0; 6], None);
        assert!(fit.converged);
        for (link, (found, true_rate)) in fit.rates.iter().zip(truth).enumerate() {
            assert!(
                (found - true_rate).abs() < 1e-5,
                "link {link}: {found} not {true_rate}"
            );
        }
    }

    /// Goal: with one observation over one link the estimate is (y - b)/S.
    #[test]
    fn a_single_link_by_hand() {
        let alone = Term {
            up: Some(0),
            down: None,
            sent: 1000.0,
            lost: 12.0,
            background: 2.0,
        };
        let fit = Model::new(1, vec![alone]).fit(&[0.0], None);
        assert!((fit.rates[0] - 0.01).abs() < 1e-6, "{}", fit.rates[0]);
    }

    /// Goal: a climb never lowers the likelihood, and where it starts does not
    /// change where it ends.
    #[test]
    fn the_maximum_is_the_same_from_any_start() {
        let mut terms = Vec::new();
        for up in 0..8 {
            for down in 8..16 {
                if up + 8 != down {
                    terms.push(Term {
                        background: 0.2,
                        ..term(up, down, 4096.0, ((up * 7 + down * 5) % 11) as f64)
                    });
                }
            }
        }
        let model = Model::new(16, terms);
        let low = model.fit(&[0.0; 16], None);
        let high = model.fit(&[0.5; 16], None);
        assert!(low.converged && high.converged);
        let gap = (low.log_likelihood - high.log_likelihood).abs();
        assert!(gap < 1e-3, "the two climbs end {gap} apart");
    }
}
