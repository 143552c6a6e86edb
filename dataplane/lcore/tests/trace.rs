//! The poll loop adds nothing of its own: the calls it made on an lcore, made again without DPDK,
//! give the same packets, the same reports and the same counters.

use std::collections::VecDeque;

use config::{FaultList, LinkList, Preset, TestbedConfig, Workload};
use dpdk::test_support;
use lcore::plan::Plan;
use lcore::testbed;
use lcore::trace::Call;
use pipeline::{DropReason, PortId, Report, Sink, Switch, Token, WindowReport};

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

#[derive(Default)]
struct Recorder {
    windows: Vec<WindowReport>,
}

impl Sink<Frame> for Recorder {
    fn alloc(&mut self, len: usize) -> Option<Frame> {
        Some(Frame(vec![0; len]))
    }
    fn discard(&mut self, _token: Frame, _reason: DropReason) {}
    fn consume(&mut self, _token: Frame) {}
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

    let mut switches: Vec<Switch<Frame>> = fabric
        .switches
        .iter()
        .map(|switch| Switch::new(&switch.config))
        .collect();
    let mut sinks: Vec<Recorder> = switches.iter().map(|_| Recorder::default()).collect();
    let mut out = 0;
    for (number, (index, now, call)) in trace.calls.into_iter().enumerate() {
        let (switch, sink) = (&mut switches[index], &mut sinks[index]);
        match call {
            Call::Ingress(port, frame) => switch.ingress(now, port, Frame(frame), sink),
            Call::Damaged(port, frame) => switch.ingress_damaged(port, Frame(frame), sink),
            Call::Egress(port, frame) => {
                let ours = switch.egress(now, port).map(|frame| frame.0);
                assert_eq!(
                    ours.as_ref(),
                    Some(&frame),
                    "call {number}: egress of port {port:?} of switch {index}"
                );
                out += 1;
            }
            Call::Tick => switch.tick(now, sink),
            Call::Link(port, up) => switch.set_link(now, port, up, sink),
            Call::Command(command) => switch.apply(now, command, sink),
        }
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
                theirs,
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
        matched > 10 && judged.is_empty(),
        "{matched} matched, {} left",
        judged.len()
    );
}
