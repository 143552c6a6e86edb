//! The loss rates that the DPDK data plane tells apart beside those of the simulator (E5, Fig. 8).
//!
//! This crate knows no DPDK: a trial on the data plane is a configuration for whoever can run it, and
//! what that run came to is read here, as a run of the simulator is.

use agent::result::TestbedResult;
use config::{TestbedConfig, Time};
use detector::SpineId;
use serde_json::json;

use super::catalog::{Way, cell, fig_8, loads, spines};
use super::claim::Claim;
use super::trial::{Paths, Setup, Trial};
use super::{Cell, Kind, Settings};
use crate::build::SimError;

/// Time on the clock on the wall after which a run is given up: hundreds of times what it takes.
const LIMIT: Time = Time::new(3_600_000_000_000);

pub(super) fn cells(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds, rates) = fig_8(settings);
    let mut cells = Vec::new();
    for k in spines(settings, &[8], &[8]) {
        // At the load of one host at the rate of an uplink nothing queues, here or there.
        let load = loads(settings, k, &[0.97]).pop().unwrap_or(0.97);
        for &drop in &rates {
            let setup = Setup {
                drop,
                faults: 1,
                ..Setup::new(k, packets, load)
            };
            for way in [Way::Paper, Way::Ours] {
                // Of less than 0.4 % the paper claims nothing of its testbed that ours could confirm.
                let (claimed, claim) = match way {
                    Way::Paper if drop < 0.004 => ("no error-free s (Fig. 8)", Claim::Inseparable),
                    Way::Paper => ("perfect from 0.4 % on (Fig. 8)", Claim::Separable),
                    _ => ("perfect where the paper's way is not", Claim::Separable),
                };
                for on in ["simulator", "data plane"] {
                    let mut cell = cell(way, setup.clone(), claimed, claim, seeds, drop);
                    cell.series = format!("{}, {on}", way.name());
                    cell.parameters.insert("on".into(), json!(on));
                    if let ("data plane", Kind::Paths(setup)) = (on, &cell.kind) {
                        cell.kind = Kind::DataPlane(setup.clone());
                    }
                    cells.push(cell);
                }
            }
        }
    }
    cells
}

/// What the data plane is to run: the two leaves alone, and each packet sent on before the next one
/// comes in, as links of hardware do it.
pub(super) fn config(setup: &Setup, seed: u64) -> Result<TestbedConfig, SimError> {
    Ok(TestbedConfig {
        leaves: 2,
        interleave: true,
        limit: LIMIT,
        ..setup.config(seed)?.testbed
    })
}

/// What it came to; `None` if it was ended before its work was done.
///
/// # Panics
/// When packets are unaccounted for: as a trial of the simulator, it ends the command.
pub(super) fn read(setup: &Setup, result: &TestbedResult) -> Option<Trial> {
    if result.partial {
        return None;
    }
    let account = &result.conservation;
    assert!(
        account.ok && result.flows.host_errors == 0,
        "packets are unaccounted for, seed {} on the data plane: {account:?}",
        result.seed
    );
    let mut paths = Paths::default();
    for test in &result.tests {
        for (place, (&spine, &count)) in test.usable.iter().zip(&test.counts).enumerate() {
            let sent = test.sent.as_ref().map(|sent| sent[place]);
            paths.add(
                setup,
                (test.src, SpineId(spine), test.dst),
                (test.lambda, sent, test.congestion_dropped[place]),
                count,
            );
        }
    }
    let mut trial = Trial {
        hops: result.packet_hops,
        behind_max: result.flows.out_of_order_max,
        retransmitted: result.flows.retransmitted,
        ..Trial::default()
    };
    paths.tell(setup, &mut trial);
    Some(trial)
}
