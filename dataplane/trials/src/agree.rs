//! Whether two runs of one fabric agree: the DPDK testbed and the simulator, say.
//!
//! Both must name the same links, and these must be the ones that lost packets. Of each path the
//! share X_x/S_x of marked packets that arrived must be the same but for chance: given all losses of
//! a path in both runs, those of one run are binomial with its part of the packets.

use std::collections::{BTreeMap, BTreeSet};

use agent::result::TestbedResult;
use detector::tails::binomial_at_least;
use detector::{LeafId, Link, Path, SpineId};

/// Marked packets of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// S_x, over all windows.
    pub sent: u64,
    /// S_x - X_x, less what own queues have dropped.
    pub lost: u64,
}

/// What two runs have in common, and where they differ.
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    /// Paths that were compared.
    pub paths: usize,
    /// All paths over links that lost packets, of either run.
    pub failed: [Share; 2],
    /// What is not alike; empty if they agree.
    pub differences: Vec<String>,
}

/// Compares two runs. `alpha` is the probability that runs which are alike are told apart, split
/// over all paths.
pub fn agree(one: &TestbedResult, other: &TestbedResult, alpha: f64) -> Agreement {
    let mut agreement = Agreement::default();
    let mut differs = |what: String| agreement.differences.push(what);
    let bad = injected(one);
    if bad != injected(other) {
        differs("the runs have different faults".to_owned());
    }
    for (result, number) in [(one, 1), (other, 2)] {
        let named: BTreeSet<Link> = result.convicted.iter().map(|c| c.link).collect();
        if named != bad {
            let list = |links: &BTreeSet<Link>| {
                let words: Vec<String> = links.iter().map(Link::to_string).collect();
                words.join(", ")
            };
            differs(format!(
                "run {number} has named [{}] and not [{}]",
                list(&named),
                list(&bad)
            ));
        }
    }
    let (ours, theirs) = (shares(one), shares(other));
    if ours.keys().ne(theirs.keys()) {
        differs("the runs have measured different paths".to_owned());
    }
    let pairs: Vec<(Path, Share, Share)> = (ours.into_iter())
        .filter_map(|(path, share)| Some((path, share, *theirs.get(&path)?)))
        .collect();
    for &(path, a, b) in &pairs {
        let p = chance(a, b);
        if p < alpha / pairs.len() as f64 {
            differs(format!(
                "{}>{}>{}: {} of {} lost, and {} of {}; by chance with probability {p:.1e}",
                path.src, path.spine, path.dst, a.lost, a.sent, b.lost, b.sent
            ));
        }
        if bad.contains(&path.uplink()) || bad.contains(&path.downlink()) {
            for (sum, share) in agreement.failed.iter_mut().zip([a, b]) {
                sum.sent += share.sent;
                sum.lost += share.lost;
            }
        }
    }
    agreement.paths = pairs.len();
    agreement
}

/// Two-sided probability of so uneven a split of the losses, or a more uneven one.
fn chance(a: Share, b: Share) -> f64 {
    let (lost, sent) = (a.lost + b.lost, a.sent + b.sent);
    if lost == 0 || sent == 0 {
        return 1.0;
    }
    let part = a.sent as f64 / sent as f64;
    let at_least = binomial_at_least(lost, a.lost, part);
    let at_most = 1.0 - binomial_at_least(lost, a.lost + 1, part);
    (2.0 * at_least.min(at_most)).min(1.0)
}

fn injected(result: &TestbedResult) -> BTreeSet<Link> {
    let lossy = result.injected.iter().filter(|i| i.packets_dropped > 0);
    lossy.map(|injected| injected.link).collect()
}

fn shares(result: &TestbedResult) -> BTreeMap<Path, Share> {
    let mut shares: BTreeMap<Path, Share> = BTreeMap::new();
    for test in &result.tests {
        let Some(sent) = &test.sent else { continue };
        for (index, &spine) in test.usable.iter().enumerate() {
            let spine = SpineId(spine);
            if test.void.contains(&spine) {
                continue;
            }
            let (src, dst): (LeafId, LeafId) = (test.src, test.dst);
            let share = shares.entry(Path { src, spine, dst }).or_default();
            let arrived = test.counts[index] + test.congestion_dropped[index];
            share.sent += sent[index];
            share.lost += sent[index].saturating_sub(arrived);
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: by hand. 40 losses of which each run expects half: P(X >= 31) = 3.4e-4, two-sided
    /// 6.8e-4. One loss proves nothing; equal shares of unequal numbers of packets are alike.
    #[test]
    fn uneven_losses_are_told_from_chance() {
        let share = |sent, lost| Share { sent, lost };
        let p = chance(share(4_000, 31), share(4_000, 9));
        assert!((p - 6.8e-4).abs() < 0.2e-4, "{p}");
        assert_eq!(chance(share(4_000, 0), share(4_000, 0)), 1.0);
        assert!(chance(share(4_000, 1), share(4_000, 0)) >= 0.99);
        assert!(chance(share(8_000, 40), share(4_000, 20)) > 0.9);
        assert!(chance(share(8_000, 20), share(4_000, 40)) < 1e-6);
    }
}
