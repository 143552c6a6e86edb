//! The poll loop adds nothing of its own: the calls it made on an lcore, made again without DPDK,
//! give the same packets, the same reports and the same counters. Made once more with the
//! simulator's frames, which are headers alone, they do so as well.

use std::collections::VecDeque;

use config::{FaultList, LinkList, Preset, TestbedConfig, Workload};
use dpdk::test_support;
use lcore::plan::Plan;
use lcore::testbed;
use lcore::trace::Call;
use pipeline::{DropReason, Nanos, PortId, Report, Sink, Switch, Token, WindowReport};

/// A packet without DPDK.
struct Frame(Vec<u8>);

impl Token for Frame {
    fn header(&self) -> &[u8] {
        &self.0
    }
    fn header_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn wire_len(&self) -> u32 {
        self.0.len() as u32
    }
}

/// What the simulator keeps of a frame: of a data packet its headers, of a message all.
fn header_of(frame: &[u8]) -> &[u8] {
    &frame[..if frame.len() > 600 { 70 } else { frame.len() }]
}

/// A run replayed with tokens of one kind.
struct Replay<T> {
    switches: Vec<Switch<T>>,
    sinks: Vec<Recorder<T>>,
    out: u64,
}

/// Makes the recorded calls again and compares every packet that leaves.
fn replay<T: Token>(
    fabric: &config::Fabric,
    trace: &[(usize, Nanos, Call)],
    make: fn(&[u8]) -> T,
    is_whole: bool,
) -> Replay<T> {
    let mut switches: Vec<Switch<T>> = fabric
        .switches
        .iter()
        .map(|switch| Switch::new(&switch.config))
        .collect();
    let mut sinks: Vec<Recorder<T>> = switches
        .iter()
        .map(|_| Recorder {
            windows: Vec::new(),
            make,
        })
        .collect();
    let mut out = 0;
    for (number, (index, now, call)) in trace.iter().enumerate() {
        let (index, now) = (*index, *now);
        let (switch, sink) = (&mut switches[index], &mut sinks[index]);
        match call {
            Call::Ingress(port, frame) => switch.ingress(now, *port, make(frame), sink),
            Call::Damaged(port, frame) => switch.ingress_damaged(*port, make(frame), sink),
            Call::Egress(port, frame) => {
                let ours = switch.egress(now, *port);
                let ours = ours
                    .as_ref()
                    .map(|token| (token.header(), token.wire_len()));
                let kept = if is_whole { frame } else { header_of(frame) };
                assert_eq!(
                    ours,
                    Some((kept, frame.len() as u32)),
                    "call {number}: egress of port {port:?} of switch {index}"
                );
                out += 1;
            }
            Call::Tick => switch.tick(now, sink),
            Call::Link(port, up) => switch.set_link(now, *port, *up, sink),
            Call::Command(command) => switch.apply(now, *command, sink),
        }
    }
    Replay {
        switches,
        sinks,
        out,
    }
}

struct Recorder<T> {
    windows: Vec<WindowReport>,
    make: fn(&[u8]) -> T,
}

impl<T> Sink<T> for Recorder<T> {
    fn alloc(&mut self, len: usize) -> Option<T> {
        Some((self.make)(&vec![0; len]))
    }
    fn discard(&mut self, _token: T, _reason: DropReason) {}
    fn consume(&mut self, _token: T) {}
    fn report(&mut self, report: Report<'_>) -> bool {
        if let Report::Window(window) = report {
            self.windows.push(*window);
        }
        true
    }
}

#[test]
fn a_recorded_run_replays_to_the_same_packets_reports_and_counters() {
    let config = TestbedConfig {
        leaves: 3,
        spines: 3,
        workload: Workload::AllToAll,
        bytes: config::Bytes::new(1 << 20),
        mtu: 1024,
        qps: 2,
        faults: FaultList::read([
            "leaf1>spine2:drop=0.02",
            "spine0>leaf2:corrupt=0.01",
            "leaf2>spine1:flap=3ms,100us",
        ])
        .expect("faults"),
        disabled: LinkList::read(["spine1>leaf0"]).expect("link"),
        link_state: config::Time::new(1_000_000),
        ..TestbedConfig::preset(Preset::Default)
    };
    let plan = Plan { config: &config };
    let (fabric, outcome, core) =
        testbed::run_in(test_support::eal(), &plan, true).expect("the run starts");
    let trace = outcome.trace.expect("it was recorded");
    assert!(
        outcome.flows.completed > 0 && outcome.flows.failed == 0,
        "{:?}",
        outcome.flows
    );

    let run = replay(&fabric, &trace.calls, |frame| Frame(frame.to_vec()), true);
    let simulated = replay(
        &fabric,
        &trace.calls,
        |frame| fabric::frame::Frame::of(header_of(frame), frame.len() as u32),
        false,
    );
    let (switches, sinks, out) = (run.switches, run.sinks, run.out);
    assert_eq!(simulated.out, out);
    for (index, (whole, headers)) in switches.iter().zip(&simulated.switches).enumerate() {
        assert_eq!(
            whole.counters(),
            headers.counters(),
            "headers alone make a difference in switch {index}"
        );
    }
    for (whole, headers) in sinks.iter().zip(&simulated.sinks) {
        assert_eq!(whole.windows, headers.windows, "the same windows");
    }
    assert!(out > 5_000, "{out} packets left switches");
    for (index, switch) in switches.iter().enumerate() {
        let (counters, ports, holds) = &outcome.switches[index];
        assert_eq!(switch.counters(), counters, "counters of switch {index}");
        assert!(
            switch.is_conserved() && *holds,
            "conservation in switch {index}"
        );
        for (port, theirs) in ports.iter().enumerate() {
            assert_eq!(
                switch.port_counters(PortId(port as u16)),
                *theirs,
                "port {port} of switch {index}"
            );
        }
    }
    // Control has judged the windows that the replay reports: the same, and as many.
    let replayed: usize = sinks.iter().map(|sink| sink.windows.len()).sum();
    assert_eq!(replayed as u64, core.counters().ended);
    let mut judged: VecDeque<_> = core
        .verdicts()
        .iter()
        .map(|verdict| &verdict.window)
        .collect();
    let mut matched = 0;
    for window in sinks
        .iter()
        .flat_map(|sink| &sink.windows)
        .filter(|window| !window.usable.is_empty())
    {
        let ours = agent::evidence::window_of(window).expect("its spines are known");
        let place = judged.iter().position(|theirs| **theirs == ours);
        assert!(place.is_some(), "no verdict on {ours:?}");
        judged.remove(place.unwrap_or(0));
        matched += 1;
    }
    assert!(
        matched > 5 && judged.is_empty(),
        "{matched} matched, {} left",
        judged.len()
    );
}
