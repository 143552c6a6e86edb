//! From what a testbed run left behind to its result.

use std::time::Duration;

use agent::control::DeviceCount;
use agent::core::Core;
use agent::result::{DeviceCounter, ReplayPort, ReplayResult, TestbedResult};
use config::SwitchSet;
use config::fabric::Fabric;
use pipeline::{Counters, split};

use crate::fabric::Outcome;
use crate::plan::Plan;
use crate::worker::Worker;

use ::fabric::report::replay_result;
pub use ::fabric::report::{message_cost, of_switch};

/// The result of a testbed run.
pub fn result(
    plan: &Plan<'_>,
    fabric: &Fabric,
    outcome: &Outcome,
    core: &mut Core,
) -> TestbedResult {
    let run = ::fabric::report::Run {
        ending: outcome.ending,
        switches: &outcome.switches,
        links: &outcome.links,
        links_conserved: outcome.links_conserved,
        in_flight: outcome.in_flight,
        link_injected: outcome.link_injected,
        flows: outcome.flows,
        host_errors: outcome.host_errors,
        packet_hops: outcome.packet_hops,
        now: outcome.now,
        elapsed: outcome.elapsed,
        leaked: outcome.leaked,
    };
    ::fabric::report::result(plan, fabric, &run, core)
}

/// What went through the switches of a process, over all its lcores. Names of ports have their
/// switch before them where there are several.
pub fn of_workers(
    set: &SwitchSet,
    workers: &[Worker],
    devices: &[DeviceCount],
    elapsed: Duration,
) -> ReplayResult {
    let mut ports = Vec::new();
    let mut all = Counters::default();
    let mut conservation_ok = true;
    for (index, spec) in set.switches.iter().enumerate() {
        let parts = workers.iter().map(|worker| &worker.parts()[index].switch);
        let whole = split::sum(parts);
        conservation_ok &= whole.is_conserved();
        all.add(&whole.counters);
        for (name, (counters, _)) in spec.port_names.iter().zip(&whole.ports) {
            ports.push(ReplayPort {
                name: match set.switches.len() {
                    1 => name.clone(),
                    _ => format!("{}.{name}", spec.name),
                },
                rx: counters.rx_packets,
                tx: counters.tx_packets,
            });
        }
    }
    let devices = devices.iter().filter(|(_, _, packets)| *packets > 0);
    ReplayResult {
        devices: devices
            .map(|(device, counter, packets)| DeviceCounter {
                device: device.clone(),
                counter: (*counter).to_owned(),
                packets: *packets,
            })
            .collect(),
        ..replay_result(ports, &all, conservation_ok, elapsed)
    }
}
