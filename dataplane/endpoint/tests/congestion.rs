//! DCQCN between hosts: marks become notifications, notifications become a rate.

mod wire;

use endpoint::dcqcn::{DcqcnConfig, DcqcnPreset};
use endpoint::{BitRate, Event, Flow, HostConfig, QpId, RateControl, Verb};
use wire::{Wire, in_order};

const LINK: u64 = 100_000_000_000;

fn flow(verb: Verb, bytes: u64) -> Flow {
    Flow {
        verb,
        flow_id: 1,
        bytes,
        message_bytes: 1 << 20,
        announce: false,
    }
}

fn control(preset: DcqcnPreset) -> RateControl {
    RateControl::Dcqcn(DcqcnConfig::preset(preset, LINK))
}

const PRESETS: [DcqcnPreset; 3] = [DcqcnPreset::Paper, DcqcnPreset::Hpcc, DcqcnPreset::Vendor];

/// Runs one flow through a queue that drains at `drain_bps` and marks beyond 400 kB; returns when
/// it ended and the longest the queue was, in bytes.
fn bottleneck(control: RateControl, verb: Verb, bytes: u64, drain_bps: u64) -> (Wire, u64, u64) {
    let (mut wire, qp) = Wire::pair(
        |c: &mut HostConfig| {
            c.rate_control = control;
            c.window_packets = 2048;
            c.receive_window_packets = 4096;
        },
        0,
    );
    wire.hosts[0].post(0, qp, flow(verb, bytes)).unwrap();
    let loaded = if verb == Verb::Read { 1 } else { 0 };
    let (mut free_at, mut longest) = (0u64, 0);
    let mut ended = 0;
    while wire.now < 1_000_000_000 {
        let mut marks = Vec::new();
        let mut rule = |frame: &wire::Frame<'_>| {
            if frame.from != loaded || frame.bytes.len() < 200 {
                return [Some(1000), None];
            }
            free_at = free_at.max(frame.now) + frame.bytes.len() as u64 * 8_000_000_000 / drain_bps;
            let queue = (free_at - frame.now) * (drain_bps / 1_000_000) / 8000;
            longest = longest.max(queue);
            marks.push(queue > 400_000);
            [Some(1000 + free_at - frame.now), None]
        };
        let mut on_event = |_: &mut endpoint::Host, _, event, now| {
            if let Event::SendComplete { .. } = event {
                ended = now;
            }
        };
        let goes_on = wire.step(&mut rule, &mut on_event);
        for is_marked in marks {
            if is_marked {
                wire.mark_last();
            }
        }
        if !goes_on {
            break;
        }
    }
    (wire, ended, longest)
}

/// Goal: with each preset a sender at four times a bottleneck's rate comes down to it, so that its
/// queue stays far below what it is without; marks are told by notifications, no more often than
/// the interval allows, and nothing is repeated. Both for data sent and data read.
#[test]
fn a_bottleneck_is_found() {
    for verb in [Verb::Write, Verb::Read] {
        let (_, ended, free) = bottleneck(RateControl::Off, verb, 64 << 20, LINK / 4);
        for preset in PRESETS {
            let (wire, later, longest) = bottleneck(control(preset), verb, 64 << 20, LINK / 4);
            let (from, to) = if verb == Verb::Read { (1, 0) } else { (0, 1) };
            let (sender, receiver) = (wire.counters(from), wire.counters(to));
            let what = format!(
                "{verb:?} {preset:?}: queue {longest} of {free}, {later} ns\n{sender:?}\n{receiver:?}"
            );
            assert!(ended > 0 && later >= ended && later < 40 * ended, "{what}");
            assert!(longest < free / 2, "{what}");
            assert!(receiver.cnps_sent > 2 && sender.rate_cuts > 2, "{what}");
            assert_eq!(sender.cnps_received, receiver.cnps_sent, "{what}");
            let RateControl::Dcqcn(config) = control(preset) else {
                unreachable!()
            };
            let most = later / config.cnp_interval_ns + 1;
            assert!(receiver.cnps_sent <= most, "{what}");
            assert!(receiver.ce_marked >= receiver.cnps_sent, "{what}");
            assert_eq!((sender.retransmitted, receiver.spurious), (0, 0), "{what}");
        }
    }
}

/// Goal: without marks DCQCN costs nothing, and a fixed rate is that rate.
#[test]
fn unmarked_traffic_has_the_link() {
    let mut ends = Vec::new();
    let fixed = RateControl::Fixed(BitRate::gbps(20));
    let controls = [RateControl::Off, control(DcqcnPreset::Paper), fixed];
    for rate_control in controls {
        let (mut wire, qp) = Wire::pair(
            |c| {
                c.rate_control = rate_control;
                c.slack_ns = 500;
            },
            0,
        );
        wire.hosts[0]
            .post(0, qp, flow(Verb::Write, 8 << 20))
            .unwrap();
        for event in wire.run(1_000_000_000, in_order) {
            if let (0, Event::SendComplete { ended_ns, .. }) = event {
                ends.push(ended_ns);
            }
        }
    }
    assert_eq!(ends[0], ends[1]);
    // 2,048 packets of 4,178 bytes on the link at 20 Gbit/s.
    let wanted = 2048 * 4178 * 8 / 20;
    assert!(
        ends[2].abs_diff(wanted) < wanted / 100,
        "{ends:?}, wanted {wanted}"
    );
    let (wire, qp) = Wire::pair(|c| c.rate_control = fixed, 0);
    assert_eq!(wire.hosts[0].rate_of(qp), Some(20_000_000_000));
    assert_eq!(wire.hosts[0].rate_of(QpId(9)), None);
}
