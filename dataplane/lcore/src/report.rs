//! From what a testbed run left behind to its result.

use agent::core::Core;
use agent::result::TestbedResult;
use config::fabric::Fabric;

use crate::fabric::Outcome;
use crate::plan::Plan;

pub use ::fabric::report::{of_switch, of_switches};

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
