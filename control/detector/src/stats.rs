//! Figures for reports: the measured noise of the spray.
//!
//! The agent gives every path test to [`NoiseStats::add`]; the testbed prints the
//! result under `noise`, so that each verdict stands beside the noise that it was
//! made with.

use serde::Serialize;

use crate::aggregate::PathSums;
use crate::judge::{PathState, PathTest};

/// Running sums of healthy deviations; small enough to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NoiseStats {
    paths: u64,
    sum_of_squares: f64,
    deficit_max: f64,
}

/// The noise as printed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NoiseReport {
    /// Root mean square of (X - lambda)/sqrt(lambda) over the paths; 0 without any.
    pub sigma_over_sqrt_lambda: f64,
    /// Paths in it.
    pub paths: u64,
    /// Largest deficit lambda - X of a path that was not failed, packets.
    pub deficit_max_packets: f64,
}

impl NoiseStats {
    /// Counts the path if its test found no failure: what was received plus own
    /// drops plus real losses (known with S) is what the spray sent that way.
    pub fn add(&mut self, sums: &PathSums, test: &PathTest) {
        let healthy = matches!(test.state, PathState::Healthy | PathState::Abstained(_));
        if !healthy || sums.windows == 0 || sums.lambda <= 0.0 {
            return;
        }
        let accounted = sums.received + sums.congestion_dropped;
        let sprayed = sums.sent.unwrap_or(accounted) as f64;
        let deficit = sums.lambda - sprayed;
        // The mean is known to be lambda, so no degree of freedom is lost to it.
        self.sum_of_squares += deficit * deficit / sums.lambda;
        self.deficit_max = self.deficit_max.max(deficit);
        self.paths += 1;
    }

    /// The report so far.
    pub fn report(&self) -> NoiseReport {
        let mean_square = self.sum_of_squares / self.paths.max(1) as f64;
        NoiseReport {
            sigma_over_sqrt_lambda: mean_square.sqrt(),
            paths: self.paths,
            deficit_max_packets: self.deficit_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Aggregator;
    use crate::judge::Judge;
    use crate::rules::{Evidence, Rules};
    use crate::types::{Epoch, Fabric, LeafId, Nanos, Qpn, SpineId};
    use crate::window::{EndReason, Window};

    /// Goal: by hand: lambda = 10,000; counts 30 above and 30 below give sigma 0.3;
    /// a failed path (500 missing) is not noise.
    #[test]
    fn sigma_by_hand() {
        let rules = Rules {
            evidence: Evidence::ReceiveOnly,
            noise: crate::Noise {
                additive_packets: 40.0,
                decay_packets: 0.0,
                sigma: 0.0,
            },
            p_min: 1,
            ..Rules::new(Fabric {
                leaves: 2,
                spines: 3,
            })
        };
        let window = Window {
            src: LeafId(0),
            dst: LeafId(1),
            qpn: Qpn(1),
            epoch: Epoch(1),
            announced: 30_000,
            marked: Some(30_000),
            usable: (0..3).map(SpineId).collect(),
            counts: vec![10_030, 9_970, 9_500],
            sent: None,
            congestion_dropped: vec![0; 3],
            hops: None,
            void: Vec::new(),
            end: EndReason::LastPsn,
            first_marked_ns: Nanos(1),
            closed_ns: Nanos(2),
        };
        let aggregate = Aggregator::new(rules).add(&window).expect("a window");
        let tests = Judge::new(rules).judge(&aggregate);
        let mut noise = NoiseStats::default();
        for (sums, test) in aggregate.paths.iter().zip(&tests) {
            noise.add(sums, test);
        }
        let report = noise.report();
        assert!(
            (report.sigma_over_sqrt_lambda - 0.3).abs() < 1e-12,
            "{report:?}"
        );
        assert_eq!((report.paths, report.deficit_max_packets), (2, 30.0));
    }
}
