//! What measuring costs the others (E13, paper 5.6): how much of an uplink the measured flow has, and
//! how much longer the same flows take with one of them measured than with none.

use detector::Nanos;
use serde_json::json;

use super::catalog::{Way, cell, loads, spines};
use super::claim::Claim;
use super::trial::{Setup, Trial, run as run_one};
use super::{Cell, Kind, Settings};
use crate::build::SimError;
use crate::engine::{Engine, Status};
use crate::report::Ending;

/// Bytes of a packet on the wire: payload, headers, preamble, FCS and gap.
const PACKET_BYTES: f64 = 4154.0 + 24.0;
/// Slower by so much is what the paper calls negligible, we assume: its figure we do not know.
const SLOWER: f64 = 0.02;

pub(super) fn cells(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds) = if settings.quick { (500, 2) } else { (4096, 20) };
    let mut cells = Vec::new();
    for k in spines(settings, &[8, 64], &[8]) {
        for load in loads(settings, k, &[0.5, 0.9]) {
            for way in [Way::Paper, Way::Ours] {
                let hosts = if load * f64::from(k) < 1.5 { 1 } else { 2 };
                let setup = Setup {
                    hosts,
                    ..Setup::new(k, packets, load)
                };
                let share = load / f64::from(hosts);
                let mut of = |figure: &str, claimed: &str, claim| {
                    let mut cell = cell(way, setup.clone(), claimed, claim, seeds, load);
                    cell.parameters.insert("figure".into(), json!(figure));
                    if let Kind::Paths(setup) = &cell.kind {
                        cell.kind = Kind::Cost(setup.clone());
                    }
                    cells.push(cell);
                };
                if hosts == 1 {
                    // One host at an uplink's rate, over 64 of them: 1.56 %.
                    let claimed = "1/k of a port: 1.56 % of each of 64 (5.6)";
                    of(
                        "share",
                        claimed,
                        Claim::AtMost(1.05 * share, "of an uplink"),
                    );
                } else {
                    let claimed = "others are hardly slowed (5.6); 2 % is our bound";
                    of("slowdown", claimed, Claim::AtMost(SLOWER, "longer"));
                }
            }
        }
    }
    cells
}

/// One trial: the first figure is the share of an uplink with one host a leaf, and with two by how
/// much the last flow of any host ends later than without measuring.
pub(super) fn run(
    setup: &Setup,
    seed: u64,
    watch: &mut dyn FnMut(&Status) -> Option<Ending>,
) -> Result<Option<Trial>, SimError> {
    let Some(measured) = run_one(&setup.config(seed)?, watch)? else {
        return Ok(None);
    };
    let mut trial = Trial {
        hops: measured.hops(),
        ..Trial::default()
    };
    if setup.hosts == 1 {
        trial.figures = vec![share(&measured)];
        return Ok(Some(trial));
    }
    let without = Setup {
        is_announced: false,
        ..setup.clone()
    };
    let Some(without) = run_one(&without.config(seed)?, watch)? else {
        return Ok(None);
    };
    trial.hops += without.hops();
    let ended = measured.ended_ns().into_iter().zip(without.ended_ns());
    let slower = ended.map(|(with, without)| with as f64 / without.max(1) as f64 - 1.0);
    trial.figures = vec![slower.fold(0.0, f64::max)];
    Ok(Some(trial))
}

/// The most of any uplink's rate that the packets of a window have taken.
fn share(engine: &Engine) -> f64 {
    let rate = engine.config.testbed.link_rate.bits_per_second() as f64;
    let verdicts = engine.core().verdicts().iter();
    let shares = verdicts.map(|verdict| {
        let Nanos(first) = verdict.window.first_marked_ns;
        let ns = verdict.window.closed_ns.0.saturating_sub(first).max(1);
        let most = verdict.window.counts.iter().max().copied().unwrap_or(0);
        most as f64 * PACKET_BYTES * 8e9 / (ns as f64 * rate)
    });
    shares.fold(0.0, f64::max)
}
