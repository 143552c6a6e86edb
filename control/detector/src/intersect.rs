//! The paper's localizer: the plain intersection of failed paths (section 3.6).
//!
//! A failed path blames both of its links. A link is named when it lies on failed paths that differ
//! in a leaf: an uplink by two destinations, a downlink by two sources. Healthy paths say nothing,
//! so two bad uplinks into one spine name the downlinks behind them as well; that is the method.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::{PathState, PathTest};
use crate::localize::{Conviction, Localization, LocalizerRules, Missing, Suspect};
use crate::tails::clopper_pearson;
use crate::types::{Link, Nanos, OutsideFabric, Path};

/// What the latest failed test of a path has told.
#[derive(Clone, Copy, Debug)]
struct Failed {
    expected: f64,
    lost: f64,
    first_marked_ns: Nanos,
    at_ns: Nanos,
}

/// Collects failed paths and names links, see the file's comment. Memory: one entry of about 50
/// bytes per failed path.
#[derive(Clone, Debug)]
pub struct Intersection {
    rules: LocalizerRules,
    failed: BTreeMap<Path, Failed>,
}

impl Intersection {
    /// One without evidence.
    pub fn new(rules: LocalizerRules) -> Intersection {
        Intersection {
            rules,
            failed: BTreeMap::new(),
        }
    }

    /// Adds a test: a failed one blames its links, any later verdict on the same path takes its
    /// place, and a void one changes nothing.
    ///
    /// # Errors
    /// A path outside the fabric; nothing is added.
    pub fn add(&mut self, test: &PathTest) -> Result<(), OutsideFabric> {
        let (fabric, path) = (self.rules.fabric, test.path);
        if !fabric.contains(path) {
            return Err(OutsideFabric { path, fabric });
        }
        match test.state {
            PathState::Void(_) | PathState::Abstained(_) => {}
            PathState::Healthy => {
                self.failed.remove(&path);
            }
            PathState::Failed => {
                let failed = Failed {
                    expected: test.expected,
                    lost: test.lost.max(0.0),
                    first_marked_ns: test.first_marked_ns,
                    at_ns: test.at_ns,
                };
                self.failed.insert(path, failed);
            }
        }
        Ok(())
    }

    /// The links that the failed paths of the horizon before `now` have in common.
    pub fn locate(&mut self, now: Nanos) -> Localization {
        let oldest = now.0.saturating_sub(self.rules.horizon.0);
        self.failed.retain(|_, failed| failed.at_ns.0 >= oldest);
        let mut blamed: BTreeMap<Link, Vec<Failed>> = BTreeMap::new();
        for (path, failed) in &self.failed {
            for link in [path.uplink(), path.downlink()] {
                blamed.entry(link).or_default().push(*failed);
            }
        }
        let mut found = Localization::default();
        for (&link, failed) in &blamed {
            if failed.len() >= 2 {
                found.convicted.push(conviction(link, failed));
            }
        }
        let convicted: BTreeSet<Link> = found.convicted.iter().map(|c| c.link).collect();
        for (path, failed) in &self.failed {
            let links = [path.uplink(), path.downlink()];
            if links.iter().any(|link| convicted.contains(link)) {
                continue;
            }
            for link in links {
                found.suspects.push(Suspect {
                    link,
                    missing: match link {
                        Link::Up { .. } => Missing::SecondDestination,
                        Link::Down { .. } => Missing::SecondSource,
                    },
                    drop_rate: failed.lost / failed.expected,
                    packets: failed.expected.round() as u64,
                });
            }
        }
        found.suspects.sort_by_key(|suspect| suspect.link);
        found
    }
}

/// The rate over all failed paths of the link. A path is two links, so it is an upper bound.
fn conviction(link: Link, failed: &[Failed]) -> Conviction {
    let packets = failed.iter().map(|f| f.expected).sum::<f64>();
    let lost = failed.iter().map(|f| f.lost).sum::<f64>().min(packets);
    let times = |of: fn(&Failed) -> Nanos| failed.iter().map(of);
    // The second report is the one that names the link.
    let mut by_time: Vec<Nanos> = times(|f| f.at_ns).collect();
    by_time.sort_unstable();
    Conviction {
        link,
        drop_rate: lost / packets,
        ci95: clopper_pearson(lost.round() as u64, packets.round() as u64, 0.95),
        paths: failed.len() as u32,
        packets: packets.round() as u64,
        packets_per_spine: (packets / failed.len() as f64).round() as u64,
        first_marked_ns: times(|f| f.first_marked_ns).min().unwrap_or_default(),
        at_ns: by_time.get(1).copied().unwrap_or_default(),
        log_likelihood_ratio: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Evidence, Rules};
    use crate::types::{Epoch, Fabric, LeafId, Qpn, SpineId};

    fn test(src: u16, spine: u16, dst: u16, state: PathState) -> PathTest {
        PathTest {
            path: Path {
                src: LeafId(src),
                spine: SpineId(spine),
                dst: LeafId(dst),
            },
            qpn: Qpn(1),
            epoch: Epoch(0),
            evidence: Evidence::ReceiveOnly,
            windows: 1,
            expected: 60_000.0,
            observed: 59_700,
            sent: None,
            congestion_dropped: 0,
            lost: 300.0,
            noise_variance: 0.0,
            threshold: 59_841.0,
            p_value: 0.0,
            state,
            rate: 0.005,
            ci95: [0.004, 0.006],
            min_detectable_rate: None,
            links: None,
            first_marked_ns: Nanos(1),
            at_ns: Nanos(2),
        }
    }

    fn located(tests: &[PathTest]) -> (Vec<String>, Vec<String>) {
        let fabric = Fabric {
            leaves: 8,
            spines: 8,
        };
        let mut all = Intersection::new(Rules::paper(fabric).localization());
        for test in tests {
            all.add(test).expect("of the fabric");
        }
        let found = all.locate(Nanos(3));
        let names = |links: &mut dyn Iterator<Item = Link>| links.map(|l| l.to_string()).collect();
        (
            names(&mut found.convicted.iter().map(|c| c.link)),
            names(&mut found.suspects.iter().map(|s| s.link)),
        )
    }

    /// Goal: the paper's Fig. 5: two sources that report the same spine to one leaf name the
    /// downlink; one report alone names nobody, and says so.
    #[test]
    fn two_reports_that_differ_in_a_leaf_name_the_link() {
        let one = [test(3, 5, 1, PathState::Failed)];
        assert_eq!(located(&one).1, ["leaf3>spine5", "spine5>leaf1"]);
        let two = [
            test(3, 5, 1, PathState::Failed),
            test(4, 5, 1, PathState::Failed),
        ];
        assert_eq!(located(&two), (vec!["spine5>leaf1".into()], vec![]));
        let up = [
            test(3, 5, 1, PathState::Failed),
            test(3, 5, 2, PathState::Failed),
        ];
        assert_eq!(located(&up), (vec!["leaf3>spine5".into()], vec![]));
    }

    /// Goal: a path that is healthy again is no report any more, and a void test leaves it.
    #[test]
    fn the_latest_verdict_on_a_path_counts() {
        let failed = test(3, 5, 1, PathState::Failed);
        let void = PathState::Void(crate::VoidReason::KnownDrops);
        let tests = [
            failed.clone(),
            test(4, 5, 1, PathState::Failed),
            test(4, 5, 1, void),
        ];
        assert_eq!(located(&tests).0, ["spine5>leaf1"]);
        let healthy = [
            failed,
            test(4, 5, 1, PathState::Failed),
            test(4, 5, 1, PathState::Healthy),
        ];
        assert_eq!(located(&healthy).0, Vec::<String>::new());
    }
}
