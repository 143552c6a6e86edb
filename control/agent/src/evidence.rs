//! From what a data plane reports to what the detector judges.

use detector::{Epoch, HopRecord, LeafId, Nanos, Qpn, SpineId, VoidReason, Window};
use pipeline::report::{EndReason, WindowReport};

/// The window of a report; `None` when neither its open nor its close came, so that not even its
/// spines are known.
pub fn window_of(report: &WindowReport) -> Option<Window> {
    if report.usable.is_empty() {
        return None;
    }
    let usable: Vec<usize> = report.usable.iter().collect();
    let by_spine =
        |of: &dyn Fn(usize) -> u64| usable.iter().map(|&spine| of(spine)).collect::<Vec<u64>>();
    // Only a spine itself knows what its own queues have dropped.
    let hop = |spine: usize| report.hops_filled.has(spine).then(|| report.hops[spine]);
    Some(Window {
        src: LeafId(report.source.0),
        dst: LeafId(report.destination.0),
        qpn: Qpn(report.key.qpn.0),
        epoch: Epoch(report.epoch),
        announced: report.packets,
        marked: report.marked,
        counts: by_spine(&|spine| u64::from(report.counts[spine])),
        sent: report
            .marked
            .map(|_| by_spine(&|spine| u64::from(report.sent[spine]))),
        congestion_dropped: by_spine(&|spine| hop(spine).map_or(0, |hop| u64::from(hop.dropped))),
        hops: report.marked.map(|_| {
            let record = |&spine: &usize| {
                let hop = hop(spine);
                HopRecord {
                    received: hop.map(|hop| u64::from(hop.received)),
                    sent: hop.map(|hop| u64::from(hop.sent)),
                    dropped: hop.map(|hop| u64::from(hop.dropped)),
                }
            };
            usable.iter().map(record).collect()
        }),
        void: usable
            .iter()
            .filter_map(|&spine| Some((SpineId(spine as u16), void(report, spine)?)))
            .collect(),
        usable: usable.iter().map(|&spine| SpineId(spine as u16)).collect(),
        end: match report.reason {
            EndReason::LastPsn => detector::EndReason::LastPsn,
            EndReason::Close => detector::EndReason::Close,
            EndReason::Superseded | EndReason::Timeout => detector::EndReason::Timeout,
        },
        first_marked_ns: Nanos(report.first_marked_at.0),
        closed_ns: Nanos(report.ended_at.0),
    })
}

/// Why a path's counts say nothing, if so.
fn void(report: &WindowReport, spine: usize) -> Option<VoidReason> {
    if report.disturbed.has(spine) {
        return Some(void_reason(report));
    }
    // Messages have room behind full queues, so what lacks is lost on the link, and packets with it. One case
    // is left: where no close came, what is missing may still stand in the spine's queue, for classes
    // above can keep one from being served for longer than a verdict waits. Whether queues are that
    // full the other spines tell; where nothing came at all, the path is a black hole.
    let (sent, counted) = (report.sent[spine], report.counts[spine]);
    let is_told = report.marked.is_none() || report.flushed.has(spine);
    let is_congested = || {
        let told = report.usable.and(report.hops_filled);
        told.iter().any(|other| report.hops[other].dropped > 0)
    };
    let is_missing = counted > 0 && counted < sent;
    (!is_told && is_missing && is_congested()).then_some(VoidReason::NoRecord)
}

/// A path is disturbed because its links changed, or, when all are, because two windows of one
/// colour met.
fn void_reason(report: &WindowReport) -> VoidReason {
    if report.is_changed {
        VoidReason::Reconfigured
    } else if report.disturbed.len() > report.usable.len()
        || report.usable.without(report.disturbed).is_empty()
    {
        VoidReason::ColourClash
    } else {
        VoidReason::LinkChanged
    }
}

#[cfg(test)]
mod tests {
    use packet::message::Hop;
    use packet::{Address, Psn, Qpn as FlowQpn, Space};
    use pipeline::types::FANOUT_MAX;
    use pipeline::{FlowKey, LeafId as Leaf, Nanos as Time, SpineSet};

    use super::*;

    /// Goal: among spines that drop packets, a path that misses some and has no close is void, for they may
    /// stand in its spine's queue; with a close, with or without a record, without a single packet, or
    /// where no spine tells of a drop, it is judged: a link that loses nine tenths loses its messages as well.
    #[test]
    fn a_path_without_a_close_is_void_among_drops_and_a_black_hole_fails() {
        let (mut sent, mut counts) = ([0; FANOUT_MAX], [0; FANOUT_MAX]);
        sent[..5].fill(100);
        counts[..5].copy_from_slice(&[60, 60, 0, 100, 60]);
        // No close came over spines 0 and 2, and one without a record over the last.
        let mut flushed = SpineSet::first(5);
        flushed.remove(0);
        flushed.remove(2);
        let mut hops_filled = SpineSet::EMPTY;
        hops_filled.insert(1);
        let mut hops = [Hop::default(); FANOUT_MAX];
        hops[1].dropped = 1;
        let report = WindowReport {
            key: FlowKey {
                source: Address::v4(1),
                destination: Address::v4(2),
                qpn: FlowQpn(7),
                space: Space::Requests,
            },
            source: Leaf(0),
            destination: Leaf(1),
            epoch: 1,
            packets: 400,
            first_psn: Psn::new(0),
            marked: Some(400),
            usable: SpineSet::first(5),
            disturbed: SpineSet::EMPTY,
            is_changed: false,
            flushed,
            counts,
            sent,
            hops_filled,
            hops,
            threshold: None,
            failed: SpineSet::EMPTY,
            reason: EndReason::Close,
            first_marked_at: Time(1),
            ended_at: Time(2),
        };
        let window = window_of(&report).expect("its spines are known");
        assert_eq!(window.void, [(SpineId(0), VoidReason::NoRecord)]);
        let judged = [
            WindowReport {
                hops: [Hop::default(); FANOUT_MAX],
                ..report
            },
            WindowReport {
                flushed: SpineSet::first(5),
                ..report
            },
            WindowReport {
                marked: None,
                ..report
            },
        ];
        for report in judged {
            assert_eq!(window_of(&report).expect("as before").void, []);
        }
    }
}
