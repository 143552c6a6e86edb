//! What is true of a trial, and whether control has said anything else.

use std::collections::{BTreeMap, BTreeSet};

use agent::core::Verdict;
use config::{Evidence, TestbedConfig};
use detector::{LeafId, Link, PathState, PathTest};

use crate::draw::{DETECTABLE, Episode, Trial, What, clumps, needed};

/// A packet that was on its way when a link was repaired may still be missed so much later.
const ON_ITS_WAY_NS: u64 = 2_000_000;

/// What control said of an episode that it had to find, or might find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There was nothing to find, and nothing was said.
    Silent,
    /// It loses less than must be found, shares its spine with another, or the evidence is receive-only.
    NotHeld {
        /// It was named all the same.
        is_named: bool,
    },
    /// It had too few packets while it lasted.
    TooFew {
        /// It was named all the same.
        is_named: bool,
    },
    /// It had to be found, and was named by then: this long after the fault had come.
    InTime { after_ns: u64 },
    /// It had to be found at that time, and was not.
    Missed { due_ns: u64 },
}

/// When a link was named first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    /// The time of the latest evidence, as control says it.
    pub(crate) at_ns: u64,
    /// Verdicts that were known at that look.
    pub(crate) known: usize,
}

/// What looks at control have seen, one after the other.
#[derive(Default)]
pub(crate) struct Looks {
    /// Verdicts that were known at each.
    pub(crate) known: Vec<usize>,
    pub(crate) named: BTreeMap<Link, Named>,
}

impl Looks {
    /// Verdicts that were known at the first look after the verdict of such a number: the next one, if it was
    /// looked at every verdict.
    fn first_with(&self, number: usize) -> usize {
        let first = self.known.iter().find(|&&known| known > number);
        *first.expect("there is a look at all verdicts")
    }
}

/// What is true of a trial.
pub(crate) struct Oracle<'a> {
    trial: &'a Trial,
    testbed: &'a TestbedConfig,
}

impl Episode {
    fn loss(&self) -> Option<f64> {
        match self.what {
            What::Loss(rate, _) => Some(rate),
            What::Harmless(_) | What::Down | What::Disabled => None,
        }
    }
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(trial: &'a Trial) -> Oracle<'a> {
        Oracle {
            trial,
            testbed: &trial.config.testbed,
        }
    }

    /// Whether a link has lost packets before a time: only such may be named.
    pub(crate) fn is_guilty(&self, link: Link, now_ns: u64) -> bool {
        let of_link = |episode: &&Episode| episode.link == link && episode.loss().is_some();
        let mut episodes = self.trial.episodes.iter().filter(of_link);
        episodes.any(|episode| episode.from_ns <= now_ns)
    }

    /// Failed path tests whose path has lost nothing while their packets went over it.
    pub(crate) fn false_paths<'v>(&self, verdicts: &'v [Verdict]) -> Vec<&'v PathTest> {
        let tests = verdicts.iter().flat_map(|verdict| &verdict.tests);
        let failed = tests.filter(|test| test.state == PathState::Failed);
        let is_false = |test: &&PathTest| {
            let links = [
                Link::Up {
                    leaf: test.path.src,
                    spine: test.path.spine,
                },
                Link::Down {
                    spine: test.path.spine,
                    leaf: test.path.dst,
                },
            ];
            !self.trial.episodes.iter().any(|episode| {
                links.contains(&episode.link)
                    && episode.loss().is_some()
                    && episode.from_ns <= test.at_ns.0
                    && test.first_marked_ns.0 <= episode.to_ns + ON_ITS_WAY_NS
            })
        };
        failed.filter(is_false).collect()
    }

    /// What was to be said of an episode by these looks at what is named, and was.
    pub(crate) fn judge(&self, episode: &Episode, verdicts: &[Verdict], looks: &Looks) -> Found {
        let Some(rate) = episode.loss() else {
            return Found::Silent;
        };
        let named = looks.named.get(&episode.link);
        let is_named = named.is_some();
        let shares_spine = self.trial.episodes.iter().any(|other| {
            other.link != episode.link
                && other.link.spine() == episode.link.spine()
                && other.loss().is_some()
        });
        let is_receive_only = self.testbed.evidence == Evidence::ReceiveOnly;
        if rate < DETECTABLE || shares_spine || is_receive_only {
            return Found::NotHeld { is_named };
        }
        let Some(due) = self.due(episode, rate, verdicts) else {
            return Found::TooFew { is_named };
        };
        match named {
            Some(named) if named.known <= looks.first_with(due) => Found::InTime {
                after_ns: named.at_ns.saturating_sub(episode.from_ns),
            },
            _ => Found::Missed {
                due_ns: verdicts[due].window.closed_ns.0,
            },
        }
    }

    /// With which verdict an episode's link must be named: with the test that completes, on a second
    /// path over it, the packets on which its rate is judged. They are those of windows that lie within the
    /// episode and have been tested. Losses must also stand out of what the path's earlier packets
    /// were allowed to lose: six standard deviations of that are asked for on top. And the far end's own link
    /// must have been cleared of it, by tests of as many packets to or from another leaf meanwhile: at an
    /// incast's only receiver every uplink of the spine may be as bad as its downlink.
    fn due(&self, episode: &Episode, rate: f64, verdicts: &[Verdict]) -> Option<usize> {
        let mut paths: BTreeMap<(LeafId, LeafId), Sent> = BTreeMap::new();
        let mut cleared: BTreeMap<LeafId, f64> = BTreeMap::new();
        let mut ready: BTreeSet<LeafId> = BTreeSet::new();
        let spine = episode.link.spine();
        for (number, verdict) in verdicts.iter().enumerate() {
            let window = &verdict.window;
            let (is_over, far) = match episode.link {
                Link::Up { leaf, .. } => (leaf == window.src, window.dst),
                Link::Down { leaf, .. } => (leaf == window.dst, window.src),
            };
            let path = paths.entry((window.src, window.dst)).or_default();
            let place = window.usable.iter().position(|&usable| usable == spine);
            let is_void = window.void.iter().any(|&(void, _)| void == spine);
            if let (Some(place), Some(sent), false) = (place, &window.sent, is_void) {
                let sent = sent[place] as f64;
                path.ever += sent;
                // Of what clears a link it does not matter whether the fault was repaired meanwhile.
                if episode.from_ns <= window.first_marked_ns.0
                    && (!is_over || window.closed_ns.0 <= episode.to_ns)
                {
                    path.waiting += sent;
                }
            }
            // A void test is of its window alone: what waits for more goes on waiting.
            let is_told = |test: &PathTest| {
                test.path.spine == spine && !matches!(test.state, PathState::Void(_))
            };
            let told = match verdict.tests.iter().any(is_told) {
                true => std::mem::take(&mut path.waiting),
                false => 0.0,
            };
            if !is_over {
                *cleared.entry(far).or_default() += told;
                continue;
            }
            path.tested += told;
            let needed = needed(rate, clumps(&episode.what), self.testbed, path.ever);
            if path.tested >= needed {
                ready.insert(far);
            }
            let is_cleared =
                |far: &&LeafId| cleared.get(far).is_some_and(|&packets| packets >= needed);
            if ready.iter().filter(is_cleared).count() >= 2 {
                return Some(number);
            }
        }
        None
    }
}

/// What went over a path, in packets.
#[derive(Default)]
struct Sent {
    /// All of it.
    ever: f64,
    /// What counts for an episode and waits for a test.
    waiting: f64,
    /// What counts for it and has been tested.
    tested: f64,
}
