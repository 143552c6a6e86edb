//! The state of one link over time, with the hysteresis that keeps a flapping link from ringing all night.
//!
//! ```text
//! unknown <-> healthy <-> suspect -> convicted -> cleared -> healthy
//! ```
//!
//! A conviction counts at once: the localizer has its own error rate. Going back takes evidence: a convicted
//! link is cleared when packets have passed it for a while that refuse the loss it was convicted of, and the
//! while doubles with every conviction of the last hours. So a link that is good and bad by turns is convicted
//! a number of times that grows with the logarithm of the night, and a link that no packet passes any more
//! (it was taken out of routing) stays convicted: silence clears nobody.

use detector::{Nanos, tails};
use serde::{Deserialize, Serialize};

/// Where a link stands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not measured lately, or too coarsely.
    #[default]
    Unknown,
    /// Measured, and no worse than tolerated.
    Healthy,
    /// It may lose packets; something is missing to say so.
    Suspect,
    /// It loses packets.
    Convicted,
    /// It was convicted, and has since been seen to be good.
    Cleared,
}

impl State {
    /// All states, the worst last.
    pub const ALL: [State; 5] = [
        State::Unknown,
        State::Healthy,
        State::Cleared,
        State::Suspect,
        State::Convicted,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            State::Unknown => "unknown",
            State::Healthy => "healthy",
            State::Suspect => "suspect",
            State::Convicted => "convicted",
            State::Cleared => "cleared",
        }
    }
}

/// How slowly states go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hysteresis {
    /// Clean for so long, a convicted link is cleared; doubled for each earlier conviction in `memory`.
    pub clear_after: Nanos,
    /// The longest that this grows to.
    pub clear_after_max: Nanos,
    /// Without accusation for so long, a suspect is one no more.
    pub suspect_for: Nanos,
    /// Cleared and clean for so long, a link is healthy.
    pub calm_after: Nanos,
    /// Convictions older than this are forgotten.
    pub memory: Nanos,
    /// Not measured for so long, a link is unknown.
    pub stale_after: Nanos,
}

/// Seconds, as nanoseconds.
const S: u64 = 1_000_000_000;

impl Default for Hysteresis {
    fn default() -> Hysteresis {
        Hysteresis {
            clear_after: Nanos(60 * S),
            clear_after_max: Nanos(3600 * S),
            suspect_for: Nanos(60 * S),
            calm_after: Nanos(600 * S),
            memory: Nanos(6 * 3600 * S),
            stale_after: Nanos(120 * S),
        }
    }
}

/// Clearing errs with at most this probability: that so few losses are seen at the lower end of the interval
/// that the link was convicted with.
const CLEAR_P: f64 = 1e-3;
/// Convictions that are remembered; the doubling has reached its end long before.
const REMEMBERED_MAX: usize = 12;

/// What an evaluation found about a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    /// The localizer convicts it.
    Convicted {
        /// Estimated loss rate.
        rate: f64,
        /// Its 95 % interval.
        ci95: [f64; 2],
    },
    /// The localizer suspects it.
    Suspect {
        /// Loss rate of the worst path over it.
        rate: f64,
    },
    /// It is not accused.
    Nothing,
}

/// Packets over a link since it was last looked at, by the paths over it. Their losses may be another link's,
/// which only delays a clearing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Passed {
    /// Marked packets sent.
    pub sent: f64,
    /// Of these, lost.
    pub lost: f64,
}

/// What is known of the link's measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// When it was last measured.
    pub last: Option<Nanos>,
    /// Whether finely enough to call it healthy.
    pub is_fine: bool,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The state before.
    pub from: State,
    /// The state now.
    pub to: State,
}

/// Who has seen a conviction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// Who.
    pub by: String,
    /// What was said.
    pub note: String,
    /// When.
    pub at: Nanos,
}

/// One link's state and what decides how it goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The state.
    pub state: State,
    /// Since when.
    pub since: Nanos,
    /// Loss rate: of the conviction or suspicion.
    pub rate: f64,
    /// 95 % interval of a conviction.
    pub ci95: [f64; 2],
    /// When it was last accused.
    pub accused: Nanos,
    /// Times of the convictions that are remembered.
    pub convictions: Vec<Nanos>,
    /// Who has seen the conviction; gone when it is cleared.
    pub acknowledged: Option<Acknowledgement>,
    /// Since when the link has been clean, and what passed since.
    #[serde(skip)]
    clean: Option<(Nanos, Passed)>,
}

impl Passed {
    fn add(&mut self, more: Passed) {
        self.sent += more.sent;
        self.lost += more.lost;
    }
}

impl Standing {
    /// Looks at the link at `now`: what was found, what passed since the last look, how it is measured.
    pub fn look(
        &mut self,
        now: Nanos,
        finding: Finding,
        passed: Passed,
        measured: Measured,
        rules: &Hysteresis,
    ) -> Option<Change> {
        let oldest = Nanos(now.0.saturating_sub(rules.memory.0));
        self.convictions.retain(|&at| at >= oldest);
        let to = match finding {
            Finding::Convicted { rate, ci95 } => {
                (self.rate, self.ci95) = (rate, ci95);
                (self.accused, self.clean) = (now, None);
                State::Convicted
            }
            Finding::Suspect { rate } => {
                (self.accused, self.clean) = (now, None);
                if self.state == State::Convicted {
                    State::Convicted
                } else {
                    self.rate = rate;
                    State::Suspect
                }
            }
            Finding::Nothing => self.unaccused(now, passed, measured, rules),
        };
        self.go(now, to)
    }

    /// The clean time that a conviction needs now.
    pub fn clear_after(&self, rules: &Hysteresis) -> Nanos {
        let earlier = self.convictions.len().saturating_sub(1).min(32) as u32;
        let grown = rules.clear_after.0.saturating_mul(1 << earlier.min(20));
        Nanos(grown.min(rules.clear_after_max.0.max(rules.clear_after.0)))
    }

    fn unaccused(
        &mut self,
        now: Nanos,
        passed: Passed,
        measured: Measured,
        rules: &Hysteresis,
    ) -> State {
        let (since, clean) = self.clean.get_or_insert((now, Passed::default()));
        if *since < now {
            clean.add(passed);
        }
        let (clean_for, clean) = (now.0.saturating_sub(since.0), *clean);
        let is_fresh = (measured.last).is_some_and(|at| now.0 <= at.0 + rules.stale_after.0);
        let rest = if is_fresh && measured.is_fine {
            State::Healthy
        } else {
            State::Unknown
        };
        match self.state {
            State::Convicted => {
                let is_over = clean_for >= self.clear_after(rules).0;
                if is_over && is_refused(self.ci95[0], clean) {
                    State::Cleared
                } else {
                    State::Convicted
                }
            }
            State::Cleared if clean_for < rules.calm_after.0 => State::Cleared,
            State::Suspect if clean_for < rules.suspect_for.0 => State::Suspect,
            // A link that was healthy stays so until it is not measured for long.
            State::Healthy if is_fresh => State::Healthy,
            State::Unknown | State::Healthy | State::Suspect | State::Cleared => rest,
        }
    }

    fn go(&mut self, now: Nanos, to: State) -> Option<Change> {
        let from = self.state;
        if from == to {
            return None;
        }
        (self.state, self.since) = (to, now);
        match to {
            State::Convicted => {
                if self.convictions.len() == REMEMBERED_MAX {
                    self.convictions.remove(0);
                }
                self.convictions.push(now);
            }
            State::Cleared => self.acknowledged = None,
            State::Unknown | State::Healthy => (self.rate, self.ci95) = (0.0, [0.0; 2]),
            State::Suspect => {}
        }
        Some(Change { from, to })
    }
}

/// Whether such losses are improbable on a link that loses `rate`.
fn is_refused(rate: f64, clean: Passed) -> bool {
    let mean = rate * clean.sent;
    // P(at most y) = 1 - P(at least y + 1).
    mean > 0.0 && 1.0 - tails::poisson_at_least(clean.lost.max(0.0).floor() + 1.0, mean) <= CLEAR_P
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
