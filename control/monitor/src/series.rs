//! A link's measurements over time, for the picture of its interval: a bounded ring of points.

use std::collections::VecDeque;

use detector::{Nanos, tails};
use serde::Serialize;

/// Points that are kept for a link; 8,192 links of 48 take 16 MB.
const POINTS_MAX: usize = 48;
/// Time that one point stands for.
const POINT_NS: u64 = 15_000_000_000;

/// One stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// When it begins, in nanoseconds since 1970.
    pub at_ns: u64,
    /// Marked packets that should have passed, of all paths over the link.
    pub sent: u64,
    /// Of these, lost; on any link of those paths.
    pub lost: u64,
    /// Loss rate of those paths, and its 95 % interval.
    pub paths: [f64; 3],
    /// Loss rate of the link and its 95 % interval, while it was convicted.
    pub link: Option<[f64; 3]>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Kept {
    index: u32,
    sent: f32,
    lost: f32,
    estimate: Option<[f32; 3]>,
}

/// The points of one link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series(VecDeque<Kept>);

impl Series {
    /// Packets of a path over the link.
    pub fn add(&mut self, at: Nanos, sent: f64, lost: f64) {
        if let Some(kept) = self.kept(at) {
            kept.sent += sent as f32;
            kept.lost += lost as f32;
        }
    }

    /// The link's own rate, as found at `at`.
    pub fn estimate(&mut self, at: Nanos, rate: f64, ci95: [f64; 2]) {
        if let Some(kept) = self.kept(at) {
            kept.estimate = Some([rate as f32, ci95[0] as f32, ci95[1] as f32]);
        }
    }

    /// The points, oldest first.
    pub fn points(&self) -> Vec<Point> {
        let point = |kept: &Kept| {
            let sent = kept.sent.max(0.0).round() as u64;
            let lost = (kept.lost.max(0.0).round() as u64).min(sent);
            let [low, high] = match sent {
                0 => [0.0, 1.0],
                sent => tails::clopper_pearson(lost, sent, 0.95),
            };
            Point {
                at_ns: u64::from(kept.index) * POINT_NS,
                sent,
                lost,
                paths: [lost as f64 / sent.max(1) as f64, low, high],
                link: kept.estimate.map(|numbers| numbers.map(f64::from)),
            }
        };
        self.0.iter().map(point).collect()
    }

    /// The point of a moment; `None` if it is too old.
    fn kept(&mut self, at: Nanos) -> Option<&mut Kept> {
        let index = u32::try_from(at.0 / POINT_NS).ok()?;
        let place = match self.0.binary_search_by_key(&index, |kept| kept.index) {
            Ok(place) => place,
            Err(place) => {
                let new = Kept {
                    index,
                    sent: 0.0,
                    lost: 0.0,
                    estimate: None,
                };
                if self.0.len() < POINTS_MAX {
                    self.0.insert(place, new);
                    place
                } else if place == 0 {
                    return None;
                } else {
                    self.0.pop_front();
                    self.0.insert(place - 1, new);
                    place - 1
                }
            }
        };
        self.0.get_mut(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: points are in order, add up, and the oldest go.
    #[test]
    fn the_oldest_points_go() {
        let mut series = Series::default();
        let at = |point: u64| Nanos(point * POINT_NS + 7);
        for point in (100..200).rev().chain(100..200) {
            series.add(at(point), 1000.0, 10.0);
        }
        series.estimate(at(199), 0.01, [0.005, 0.02]);
        let points = series.points();
        assert_eq!(points.len(), POINTS_MAX);
        assert!(points.is_sorted_by(|a, b| a.at_ns + POINT_NS == b.at_ns));
        let last = points[POINTS_MAX - 1];
        assert_eq!(last.at_ns, 199 * POINT_NS);
        assert!(last.link.is_some() && last.paths[1] < 0.01 && last.paths[2] > 0.01);
        assert!(series.kept(at(100)).is_none());
    }
}
