//! Edges of a measurement: memory (E17), thresholds that come late (E18), coverage (E19), lost tails
//! (E21), flows added up (E22), the largest fabric (E23), and what is forgotten (E24).

use std::collections::{BTreeMap, BTreeSet};

use config::fabric::Fabric;
use config::{Bytes, Change, FaultList, LinkList, SimConfig, TestbedConfig, Tie, Time, Workload};
use config::{Preset, TestbedLayer, Traffic};
use detector::LeafId;
use serde_json::json;

use super::catalog::{WAYS, cell, plain};
use super::claim::Claim;
use super::trial::{Setup, Trial, run};
use super::{Cell, Kind, Settings};
use crate::build::SimError;
use crate::engine::{Engine, Status};
use crate::frame::Frame;
use crate::report::Ending;

const MTU: u64 = 4_096;
/// The paper's bound of counters for 32 spines (4), and the spines.
const PAPER_BYTES: f64 = 2048.0;
const PAPER_SPINES: u16 = 32;
/// Packets that may come behind later ones (paper 5.3): as many may be lost at a tail.
const BEHIND: f64 = 100.0;
/// Control is so late: later than the whole flow.
const LATE_NS: u64 = 1_000_000_000;
/// Simulated seconds after which nothing of an earlier flow is known (paper 4: one minute).
const FORGOTTEN_NS: u64 = 62_000_000_000;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edge {
    /// Bytes of a leaf's state.
    Memory(Preset),
    /// Thresholds come after the flow.
    Late,
    /// Every pair of leaves is measured, one flow of a leaf at a time.
    Coverage,
    /// The last packets of a flow are lost, the messages at its end with them.
    Tail,
    /// The largest fabric.
    Largest,
    /// A connection that is used again after a minute.
    Lifetime,
}

pub(super) fn cells(settings: &Settings) -> Vec<Cell> {
    let mut cells = Vec::new();
    let seeds = if settings.quick { 2 } else { 20 };
    let rows: [(&str, Edge, &str, Claim, u32); 7] = [
        (
            "E17, preset paper",
            Edge::Memory(Preset::Paper),
            "counters of 32 spines take less than 2 KB (4)",
            Claim::AtMost(PAPER_BYTES, "bytes of a leaf, all state of measuring"),
            1,
        ),
        (
            "E17, default",
            Edge::Memory(Preset::Default),
            "counters of 32 spines take less than 2 KB (4)",
            Claim::AtMost(PAPER_BYTES, "bytes of a leaf, all state of measuring"),
            1,
        ),
        (
            "E18",
            Edge::Late,
            "packets count before the threshold is known (3.4)",
            Claim::Always("the same verdicts with thresholds after the flow"),
            seeds,
        ),
        (
            "E19",
            Edge::Coverage,
            "every pair of leaves in turn, one flow of a leaf at a time (3.3)",
            Claim::Always("all pairs in the first round, never two at once"),
            seeds,
        ),
        (
            "E21",
            Edge::Tail,
            "a lost tail is negligible (3.5)",
            Claim::AtMost(
                BEHIND,
                "packets of a path unaccounted for, all windows closed",
            ),
            seeds,
        ),
        (
            "E23",
            Edge::Largest,
            "8 x 8 fitted into a Tofino (5.1)",
            Claim::Always("128 x 128: all flows done, all packets accounted for,"),
            1,
        ),
        (
            "E24",
            Edge::Lifetime,
            "what is older than a minute is forgotten (4)",
            Claim::Always("a bad link of the minute before is not held against"),
            seeds.min(4),
        ),
    ];
    for (index, (word, edge, claimed, claim, seeds)) in rows.into_iter().enumerate() {
        let parameters = [("edge", json!(word))];
        let place = ("edges", index as f64);
        cells.push(plain(
            &parameters,
            claimed,
            claim,
            seeds,
            place,
            Kind::Edge(edge),
        ));
    }
    // E22: as many packets in one flow, in four and in sixteen.
    let packets = if settings.quick { 7_000 } else { 20_000 };
    for parts in [1, 4, 16] {
        let setup = Setup {
            drop: if settings.quick { 0.015 } else { 0.01 },
            faults: 1,
            parts,
            ..Setup::new(8, packets, settings.load.unwrap_or(0.97))
        };
        for way in WAYS {
            let claimed = "flows added up find what one as long does (3.5)";
            let (claim, x) = (Claim::Separable, f64::from(parts));
            let mut cell = cell(way, setup.clone(), claimed, claim, seeds, x);
            cell.parameters.insert("edge".into(), json!("E22"));
            cell.parameters.insert("flows".into(), json!(parts));
            cells.push(cell);
        }
    }
    cells
}

type Watch<'a> = &'a mut dyn FnMut(&Status) -> Option<Ending>;

impl Edge {
    pub(crate) fn run(
        self,
        seed: u64,
        watch: &mut dyn FnMut(&Status) -> Option<Ending>,
    ) -> Result<Option<Trial>, SimError> {
        let ran = match self {
            Edge::Memory(preset) => Some((memory(preset)?, 0)),
            Edge::Late => late(seed, watch)?,
            Edge::Coverage => coverage(seed, watch)?,
            Edge::Tail => tail(seed, watch)?,
            Edge::Largest => largest(seed, watch)?,
            Edge::Lifetime => lifetime(seed, watch)?,
        };
        Ok(ran.map(|(figure, hops)| Trial {
            hops,
            figures: vec![figure],
            ..Trial::default()
        }))
    }
}

/// A figure, and the hops that it took; `None` if it was stopped.
type Ran = Result<Option<(f64, u64)>, SimError>;

fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn memory(preset: Preset) -> Result<f64, SimError> {
    let layer = TestbedLayer {
        preset: Some(preset),
        leaves: Some(PAPER_SPINES),
        spines: Some(PAPER_SPINES),
        counter_bits: Some(if preset == Preset::Paper { 16 } else { 32 }),
        ..SimConfig::base()
    };
    let config = TestbedConfig::resolve(None, layer)?;
    let fabric = Fabric::new(&config)?;
    let leaf = pipeline::Switch::<Frame>::new(&fabric.switches[0].config);
    Ok(leaf.measurement_bytes() as f64)
}

/// A pair with a bad link, and its verdicts as text.
fn pair(seed: u64) -> Result<SimConfig, SimError> {
    Setup {
        drop: 0.02,
        faults: 1,
        tie: Tie::FewestMeasured,
        ..Setup::new(8, 2_500, 0.5)
    }
    .config(seed)
}

fn late(seed: u64, watch: Watch<'_>) -> Ran {
    let config = pair(seed)?;
    let mut told = Vec::new();
    let mut hops = 0;
    for delay_ns in [0, LATE_NS] {
        let mut engine = Engine::new(&config)?;
        engine.control_delay_ns = delay_ns;
        if engine.run(watch) != Ending::Done {
            return Ok(None);
        }
        engine.end();
        hops += engine.hops();
        let verdicts = engine.core().verdicts().iter();
        let verdicts = verdicts.map(|v| (v.window.clone(), v.tests.clone()));
        told.push(format!("{:?}", verdicts.collect::<Vec<_>>()));
    }
    Ok(Some((
        yes(told[0] == told[1] && told[0].contains("Failed")),
        hops,
    )))
}

fn coverage(seed: u64, watch: Watch<'_>) -> Ran {
    const LEAVES: u16 = 8;
    let base = TestbedConfig::resolve(None, SimConfig::base())?;
    let config = TestbedConfig {
        leaves: LEAVES,
        spines: 4,
        workload: Workload::AllToAll,
        bytes: Bytes::new(400 * MTU),
        iterations: 4,
        qps: 1,
        seed,
        ..base
    };
    let Some(engine) = run(&SimConfig::of(config), watch)? else {
        return Ok(None);
    };
    let mut of_leaf: BTreeMap<LeafId, Vec<_>> = BTreeMap::new();
    for verdict in engine.core().verdicts() {
        let window = &verdict.window;
        of_leaf.entry(window.src).or_default().push(window);
    }
    let mut is_covered = of_leaf.len() == usize::from(LEAVES);
    for windows in of_leaf.values_mut() {
        windows.sort_by_key(|window| window.epoch.0);
        let first = windows.iter().take(usize::from(LEAVES) - 1);
        let first: BTreeSet<LeafId> = first.map(|window| window.dst).collect();
        is_covered &= first.len() == usize::from(LEAVES) - 1;
        // The next one's first packet is sent after the last of the one before.
        is_covered &= windows.is_sorted_by_key(|window| window.first_marked_ns.0);
        let epochs: BTreeSet<u32> = windows.iter().map(|window| window.epoch.0).collect();
        is_covered &= epochs.len() == windows.len();
    }
    Ok(Some((yes(is_covered), engine.hops())))
}

fn tail(seed: u64, watch: Watch<'_>) -> Ran {
    let healthy = Setup {
        tie: Tie::FewestMeasured,
        ..Setup::new(8, 1_000, 0.5)
    };
    let config = healthy.config(seed)?;
    let Some(whole) = run(&config, watch)? else {
        return Ok(None);
    };
    // The same run, but for the microseconds round the end of leaf 0's flow.
    let ended_ns = whole.ended_ns().first().copied().unwrap_or(0);
    let links = |text: &str| LinkList::read([text]).map(|list| list.0);
    let wrong =
        |error: config::fault::FaultError| config::ConfigError::new("faults", error.to_string());
    let mut changes = Vec::new();
    for spine in 0..8 {
        let name = format!("leaf0>spine{spine}");
        let fault = FaultList::read([format!("{name}:drop=1").as_str()]).map_err(wrong)?;
        let at = |ns: u64| Time::new(ended_ns.saturating_sub(12_000) + ns);
        changes.push((at(0), Change::Fail(fault)));
        changes.push((at(20_000), Change::Clear(links(&name).map_err(wrong)?)));
    }
    changes.sort_by_key(|(time, _)| time.nanos());
    let cut = SimConfig { changes, ..config };
    let Some(engine) = run(&cut, watch)? else {
        return Ok(None);
    };
    let mut worst = 0.0f64;
    let mut windows = 0;
    for verdict in engine.core().verdicts() {
        let window = &verdict.window;
        if window.src == LeafId(0) {
            windows += 1;
            let lacks = window
                .counts
                .iter()
                .map(|&count| verdict.lambda - count as f64);
            worst = lacks.fold(worst, f64::max);
        }
    }
    let figure = if windows > 0 { worst } else { f64::MAX };
    Ok(Some((figure, whole.hops() + engine.hops())))
}

fn largest(seed: u64, watch: Watch<'_>) -> Ran {
    let base = TestbedConfig::resolve(None, SimConfig::base())?;
    let config = TestbedConfig {
        leaves: 128,
        spines: 128,
        workload: Workload::Pairs,
        bytes: Bytes::new(256 << 10),
        seed,
        ..base
    };
    let flows = 128 * u64::from(config.qps);
    let Some(engine) = run(&SimConfig::of(config), watch)? else {
        return Ok(None);
    };
    let done = engine.account().flows.completed == flows;
    Ok(Some((yes(done), engine.hops())))
}

/// A flow over a bad link; the link is mended, and after a minute the same leaves have another.
fn lifetime(seed: u64, watch: Watch<'_>) -> Ran {
    let mut config = pair(seed)?;
    let wrong =
        |error: config::fault::FaultError| config::ConfigError::new("faults", error.to_string());
    let bad = LinkList::read(["leaf0>spine0"]).map_err(wrong)?.0;
    let traffic = Traffic {
        workload: Workload::Pairs,
        bytes: config.testbed.bytes,
        qps: 1,
        iterations: 1,
        announced: true,
    };
    // Below P_min: without forgetting, the two flows would be added up.
    config.testbed.p_min = Some(4_000);
    config.changes = vec![
        (Time::new(1_000_000_000), Change::Clear(bad)),
        (Time::new(FORGOTTEN_NS), Change::Start(traffic)),
    ];
    let Some(engine) = run(&config, watch)? else {
        return Ok(None);
    };
    let verdicts = engine.core().verdicts();
    let later = verdicts
        .iter()
        .filter(|v| v.window.first_marked_ns.0 >= FORGOTTEN_NS);
    let tests: Vec<_> = later.flat_map(|verdict| &verdict.tests).collect();
    let is_clean = tests.iter().all(|test| test.lost < 1.0);
    Ok(Some((yes(!tests.is_empty() && is_clean), engine.hops())))
}
