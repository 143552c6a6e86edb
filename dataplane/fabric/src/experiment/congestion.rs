//! An incast of two leaves to a third under ECN, with hosts that heed it by each of three DCQCN
//! settings, or not at all (E10, paper App. A).

use config::Dcqcn;
use serde_json::json;

use super::catalog::{WAYS, cell, drops, spines};
use super::claim::Claim;
use super::trial::Setup;
use super::{Cell, Settings};

pub(super) fn cells(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds) = if settings.quick {
        (7_000, 2)
    } else {
        (20_000, 20)
    };
    let presets = [
        (None, "none"),
        (Some(Dcqcn::Paper), "paper"),
        (Some(Dcqcn::Hpcc), "hpcc"),
        (Some(Dcqcn::Vendor), "vendor"),
    ];
    let mut cells = Vec::new();
    for drop in drops(settings, &[0.01], &[0.015]) {
        for k in spines(settings, &[8], &[8]) {
            for (index, (dcqcn, word)) in presets.into_iter().enumerate() {
                let load = settings.load.unwrap_or(0.97);
                let setup = Setup {
                    drop,
                    faults: 1,
                    senders: 2,
                    dcqcn,
                    ..Setup::new(k, packets, load)
                };
                let claimed = "as without congestion, whatever the rate (App. A)";
                for way in WAYS {
                    let (claim, x) = (Claim::Separable, index as f64);
                    let mut cell = cell(way, setup.clone(), claimed, claim, seeds, x);
                    cell.parameters.insert("dcqcn".into(), json!(word));
                    cells.push(cell);
                }
            }
        }
    }
    cells
}
