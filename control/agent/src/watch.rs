//! The sequential test over back-to-back windows: path evidence in, alarms out.
//!
//! [`crate::core`] gives it every window's sums and tests. A path fails when its test alarms, and
//! starts again; it is healthy once as many packets have passed without an alarm as the target
//! rate needs for one; before that the test abstains and says what it would have seen. Only links
//! on a path that has alarmed can be named, so that looking after every window costs no error.

use std::collections::BTreeMap;

use detector::sequential::WINDOWS_PER_HORIZON;
use detector::{
    AbstainReason, Alarm, Link, Localization, Nanos, Path, PathState, PathSums, PathTest, Rules,
    Sequential, VoidReason,
};

use crate::core::NEWS_P;

/// One test per path, and what it has seen.
pub struct Watch {
    sequential: Sequential,
    /// Packets after which a path without an alarm is healthy.
    needed: Option<u64>,
    /// Packets since the test began, or since the latest alarm, by path.
    passed: BTreeMap<Path, u64>,
    /// The latest alarm, by path.
    alarmed: BTreeMap<Path, Alarm>,
    alarms: u64,
    /// What can be seen within so many packets.
    visible: BTreeMap<u64, Option<f64>>,
    horizon: Nanos,
}

impl Watch {
    /// A watch over all paths of the rules' fabric, whose healthy paths alarm as seldom as
    /// [`Sequential::new`] says.
    pub fn new(rules: &Rules) -> Watch {
        let sequential = Sequential::new(rules, WINDOWS_PER_HORIZON);
        Watch {
            needed: sequential.packets_needed(rules.target_rate),
            sequential,
            passed: BTreeMap::new(),
            alarmed: BTreeMap::new(),
            alarms: 0,
            visible: BTreeMap::new(),
            horizon: rules.localization().horizon,
        }
    }

    /// Looks at one path of one window and says in `test` what that comes to.
    pub fn look(&mut self, sums: &PathSums, test: &mut PathTest) -> Option<Alarm> {
        if let PathState::Void(reason) = test.state {
            // What the path was is not what it is.
            if reason == VoidReason::LinkChanged {
                self.sequential.forget(sums.path);
                self.passed.remove(&sums.path);
            }
            return None;
        }
        let sent = sums.sent?;
        let arrived = sums.received + sums.congestion_dropped;
        let lost = sent.saturating_sub(arrived);
        let alarm = self.sequential.add(sums.path, sent, lost, sums.closed_ns);
        let passed = self.passed.entry(sums.path).or_default();
        *passed += sent;
        let seen = *passed;
        test.min_detectable_rate = self.visible(seen);
        test.state = if let Some(alarm) = alarm {
            self.alarms += 1;
            self.alarmed.insert(sums.path, alarm);
            self.passed.remove(&sums.path);
            PathState::Failed
        } else if self.needed.is_some_and(|needed| seen >= needed) {
            PathState::Healthy
        } else {
            PathState::Abstained(AbstainReason::TooFewPackets)
        };
        alarm
    }

    /// What is seen within `packets`, or a little fewer: numbers with two leading bits are looked
    /// up, for this is asked for every window.
    fn visible(&mut self, packets: u64) -> Option<f64> {
        let shift = 63u32
            .saturating_sub(packets.leading_zeros())
            .saturating_sub(1);
        let rounded = packets >> shift << shift;
        let sequential = &self.sequential;
        *self
            .visible
            .entry(rounded)
            .or_insert_with(|| sequential.min_detectable_rate(rounded))
    }

    /// Whether such a test may complete a conviction that `found` does not have yet.
    pub fn may_convict(&self, test: &PathTest, found: &Localization) -> bool {
        let links = [test.path.uplink(), test.path.downlink()];
        test.p_value <= NEWS_P
            && !found.convicted.iter().any(|c| links.contains(&c.link))
            && self
                .alarmed
                .keys()
                .any(|path| path.spine == test.path.spine)
    }

    /// Keeps of `found` what lies on a path that has alarmed within the horizon before `now`.
    pub fn confirm(&mut self, found: &mut Localization, now: Nanos) {
        let oldest = now.0.saturating_sub(self.horizon.0);
        self.alarmed.retain(|_, alarm| alarm.at_ns.0 >= oldest);
        let is_accused = |link: Link| {
            let accuses = |path: &Path| path.uplink() == link || path.downlink() == link;
            self.alarmed.keys().any(accuses)
        };
        found.convicted.retain(|c| is_accused(c.link));
        found.suspects.retain(|s| is_accused(s.link));
    }

    /// Mean windows of a healthy path to a false alarm, at least.
    pub fn run_length_min(&self) -> f64 {
        self.sequential.run_length_min()
    }

    /// Alarms so far.
    pub fn alarms(&self) -> u64 {
        self.alarms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use detector::{
        Aggregator, Epoch, Fabric, Judge, LeafId, Qpn, SpineId, Window, window::EndReason,
    };

    fn rules() -> Rules {
        Rules {
            p_min: 1,
            ..Rules::new(Fabric {
                leaves: 8,
                spines: 8,
            })
        }
    }

    /// Looks at a window of 64 packets of one path of which `lost` are missing.
    fn look(watch: &mut Watch, lost: u64, void: bool) -> (PathState, Option<Alarm>) {
        let window = Window {
            src: LeafId(0),
            dst: LeafId(1),
            qpn: Qpn(1),
            epoch: Epoch(1),
            announced: 64,
            marked: Some(64),
            usable: vec![SpineId(0)],
            counts: vec![64 - lost],
            sent: Some(vec![64]),
            congestion_dropped: vec![0],
            hops: None,
            void: void
                .then_some((SpineId(0), VoidReason::LinkChanged))
                .into_iter()
                .collect(),
            end: EndReason::Close,
            first_marked_ns: Nanos(1),
            closed_ns: Nanos(2),
        };
        let aggregate = Aggregator::new(rules()).add(&window).unwrap();
        let mut test = Judge::new(rules()).judge(&aggregate).remove(0);
        let alarm = watch.look(&aggregate.paths[0], &mut test);
        (test.state, alarm)
    }

    /// Goal: too few packets abstain, enough make a path healthy, an alarm fails it and it starts
    /// again.
    #[test]
    fn a_path_is_healthy_only_after_enough_packets() {
        let mut watch = Watch::new(&rules());
        let windows = watch.needed.unwrap().div_ceil(64);
        let too_few = PathState::Abstained(AbstainReason::TooFewPackets);
        for _ in 1..windows {
            assert_eq!(look(&mut watch, 0, false).0, too_few);
        }
        assert_eq!(look(&mut watch, 0, false).0, PathState::Healthy);
        let (state, alarm) = look(&mut watch, 4, false);
        assert_eq!((state, alarm.map(|a| a.lost)), (PathState::Failed, Some(4)));
        assert_eq!((look(&mut watch, 0, false).0, watch.alarms()), (too_few, 1));
    }

    /// Goal: a link that changed is another path: two losses before and two after are no alarm.
    #[test]
    fn a_changed_link_is_a_new_path() {
        let mut watch = Watch::new(&rules());
        assert_eq!(look(&mut watch, 2, false).1, None);
        let (state, alarm) = look(&mut watch, 60, true);
        assert_eq!(state, PathState::Void(VoidReason::LinkChanged));
        assert!(alarm.is_none() && look(&mut watch, 2, false).1.is_none());
        assert!(
            look(&mut watch, 2, false).1.is_some(),
            "without a change they are"
        );
    }
}
