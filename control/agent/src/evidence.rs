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
        void: report
            .usable
            .and(report.disturbed)
            .iter()
            .map(|spine| (SpineId(spine as u16), void_reason(report)))
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
