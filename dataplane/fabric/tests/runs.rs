//! Whole runs of the simulator: they end, they account for every frame, they name the link, and
//! they depend on nothing but their configuration.

use std::time::Duration;

use agent::result::TestbedResult;
use config::{
    Announce, Bytes, Change, Evidence, FaultList, LinkList, PathTest, Preset, Probability,
    SimConfig, TestbedConfig, Tie, Time, Workload,
};
use detector::LeafId;
use fabric::Engine;
use fabric::report::Ending;

fn testbed(leaves: u16, spines: u16, workload: Workload) -> TestbedConfig {
    let layer = SimConfig::base();
    let base = TestbedConfig::resolve(None, layer).expect("the defaults are right");
    TestbedConfig {
        leaves,
        spines,
        workload,
        bytes: Bytes::new(4 << 20),
        ..base
    }
}

fn run(config: &SimConfig) -> TestbedResult {
    let mut engine = Engine::new(config).expect("it can be built");
    let ending = engine.run(&mut |_| None);
    let result = engine.finish(ending, Duration::ZERO);
    assert_eq!(ending, Ending::Done, "{result:?}");
    assert!(result.conservation.ok, "{:?}", result.conservation);
    result
}

/// Goal: every flow completes, all is accounted for, nothing is sent twice on a healthy fabric.
#[test]
fn a_healthy_fabric_delivers_and_convicts_nobody() {
    for workload in [Workload::AllToAll, Workload::RingAllreduce, Workload::Pairs] {
        let result = run(&SimConfig::of(testbed(4, 4, workload)));
        let flows = &result.flows;
        assert!(
            flows.completed > 0 && flows.failed == 0,
            "{workload}: {flows:?}"
        );
        assert_eq!(flows.retransmitted, 0, "{workload}");
        assert!(
            result.convicted.is_empty(),
            "{workload}: {:?}",
            result.convicted
        );
        assert!(
            flows.measured > 0 && result.packet_hops > 10_000,
            "{workload}: {flows:?}"
        );
    }
}

/// Goal: the link that loses packets is named with its rate, by each kind of evidence.
#[test]
fn the_lossy_link_is_named() {
    for evidence in [
        Evidence::SourceCounts,
        Evidence::HopCounts,
        Evidence::ReceiveOnly,
    ] {
        let config = TestbedConfig {
            faults: FaultList::read(["leaf2>spine1:drop=0.02"]).expect("a fault"),
            bytes: Bytes::new(32 << 20),
            evidence,
            tie: Tie::FewestMeasured,
            ..testbed(4, 4, Workload::AllToAll)
        };
        let result = run(&SimConfig::of(config));
        let named: Vec<String> = result
            .convicted
            .iter()
            .map(|c| c.link.to_string())
            .collect();
        assert_eq!(named, ["leaf2>spine1"], "{evidence}: {:?}", result.noise);
        let rate = result.convicted[0].drop_rate;
        assert!((0.014..0.027).contains(&rate), "{evidence}: {rate}");
        let lost = result.injected[0].packets_dropped;
        assert!(
            lost > 0 && result.flows.retransmitted >= lost / 2,
            "{:?}",
            result.flows
        );
    }
}

/// Goal: two runs of a seed are the same to the last counter, and another seed's is not.
#[test]
fn a_seed_gives_one_run() {
    let with = |seed| {
        let config = TestbedConfig {
            faults: FaultList::read(["spine0>leaf1:drop=0.01", "leaf0>spine2:burst=0.01,0.2,0.5"])
                .expect("faults"),
            tie: Tie::Random,
            seed,
            ..testbed(4, 4, Workload::AllToAll)
        };
        run(&SimConfig::of(config))
    };
    let text = |result: &TestbedResult| serde_json::to_string(result).expect("it is JSON");
    assert_eq!(text(&with(1)), text(&with(1)));
    assert_ne!(text(&with(1)), text(&with(2)));
}

/// Goal: a slice gives the very windows, counts included, that the same leaves give in the whole.
#[test]
fn a_slice_is_the_whole_seen_through_a_slit() {
    let whole = TestbedConfig {
        faults: FaultList::read(["leaf4>spine2:drop=0.01", "spine3>leaf0:drop=0.02"])
            .expect("faults"),
        tie: Tie::Random,
        bytes: Bytes::new(8 << 20),
        ..testbed(8, 8, Workload::Pairs)
    };
    let whole = SimConfig::of(whole);
    let sliced = SimConfig {
        slice: vec![LeafId(4), LeafId(5)],
        ..whole.clone()
    };
    let of = |config: &SimConfig| {
        let result = run(config);
        let tests = result.tests.into_iter();
        let tests: Vec<_> = tests
            .filter(|test| test.src.0 / 2 == 2)
            .map(|test| {
                (
                    test.src,
                    test.dst,
                    test.qpn,
                    test.epoch,
                    test.counts,
                    test.sent,
                    test.reason,
                )
            })
            .collect();
        let lost = result
            .injected
            .into_iter()
            .find(|fault| fault.link.to_string() == "leaf4>spine2");
        (tests, lost)
    };
    let (in_whole, in_slice) = (of(&whole), of(&sliced));
    assert!(in_whole.0.len() >= 2, "{in_whole:?}");
    assert_eq!(in_whole, in_slice);
    let open = SimConfig {
        slice: vec![LeafId(4), LeafId(6)],
        ..whole
    };
    let error = Engine::new(&open)
        .err()
        .expect("it is no closed slice")
        .to_string();
    assert!(error.contains("which is not in it"), "{error}");
}

/// Goal: links go down and come back, faults come and go, and a workload begins, at their times;
/// nothing is lost sight of.
#[test]
fn scenarios_change_the_fabric() {
    let links = |name: &str| LinkList::read([name]).expect("links").0;
    let at = |us: u64, change| (Time::new(us * 1000), change);
    let traffic = config::Traffic {
        workload: Workload::Permutation,
        bytes: Bytes::new(1 << 20),
        qps: 1,
        iterations: 2,
        announced: false,
    };
    let config = SimConfig {
        changes: vec![
            at(50, Change::Down(links("leaf1-spine0"))),
            at(100, Change::Disable(links("leaf0-spine3"))),
            at(
                150,
                Change::Fail(FaultList::read(["leaf2>spine1:drop=0.05"]).expect("a fault")),
            ),
            at(200, Change::Start(traffic)),
            at(300, Change::Up(links("leaf1-spine0"))),
            at(350, Change::Enable(links("leaf0-spine3"))),
            at(450, Change::Clear(links("leaf2>spine1"))),
        ],
        ..SimConfig::of(testbed(4, 4, Workload::AllToAll))
    };
    let result = run(&config);
    let lost = &result.injected[0];
    assert_eq!(lost.spec, "drop=0.05 from 150us");
    assert!((1..500).contains(&lost.packets_dropped), "{lost:?}");
    // Two QPs to three peers from four hosts; and one flow a host, twice.
    assert_eq!(
        (result.flows.completed, result.flows.announced),
        (24 + 8, 24)
    );
    let notes = &result.conservation.notes;
    assert!(
        notes.get("link-state-changes").is_some_and(|&n| n > 0),
        "leaves were told of links: {notes:?}"
    );
    assert!(result.fabric_ms < 1_000, "{} ms", result.fabric_ms);
}

/// Goal: the largest fabric runs.
#[test]
fn the_largest_fabric_runs() {
    let config = TestbedConfig {
        bytes: Bytes::new(256 << 10),
        preset: Preset::Default,
        ..testbed(128, 128, Workload::Pairs)
    };
    let result = run(&SimConfig::of(config));
    assert_eq!((result.flows.completed, result.flows.failed), (256, 0));
}

/// Goal: what hosts can do besides: only every other one announces; background traffic beside the
/// workload ends with it; DCQCN is heeded; flows come at a trace's times.
#[test]
fn hosts_do_what_a_testbed_has() {
    let base = testbed(4, 4, Workload::AllToAll);
    let of = |config: TestbedConfig| run(&SimConfig::of(config));
    let all = of(base.clone());
    let mixed = of(TestbedConfig {
        announce: Announce::Mixed,
        ..base.clone()
    });
    assert_eq!(
        (all.flows.announced, mixed.flows.announced),
        (24, 12),
        "two of four hosts announce"
    );
    let beside = of(TestbedConfig {
        background: Probability::new(0.2).expect("a part"),
        ..base.clone()
    });
    assert_eq!(beside.flows.completed, 24);
    assert!(
        beside.packet_hops > all.packet_hops && beside.fabric_ms < 1_000,
        "{} and {} hops, {} ms",
        beside.packet_hops,
        all.packet_hops,
        beside.fabric_ms
    );
    let heeding = of(TestbedConfig {
        ecn: true,
        workload: Workload::Incast,
        bytes: Bytes::new(8 << 20),
        ..base.clone()
    });
    assert!(heeding.flows.cnps > 0, "{:?}", heeding.flows);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let trace = "start,source,destination,bytes\n0,h0.0,h1.0,65536\n2000000,h2.0,h3.0,65536\n";
    std::fs::write(file.path(), trace).expect("it is written");
    let traced = of(TestbedConfig {
        workload: Workload::Trace,
        flows: Some(file.path().to_owned()),
        qps: 1,
        ..base
    });
    assert_eq!(traced.flows.completed, 2);
    assert!(
        traced.flows.ended_us >= 2_000,
        "the second flow begins at 2 ms: {:?}",
        traced.flows
    );
}

/// Goal: with the sequential test the link is named by an alarm.
#[test]
fn the_sequential_test_raises_an_alarm() {
    let config = TestbedConfig {
        faults: FaultList::read(["leaf2>spine1:drop=0.02"]).expect("a fault"),
        bytes: Bytes::new(16 << 20),
        test: PathTest::Sequential,
        ..testbed(4, 4, Workload::AllToAll)
    };
    let result = run(&SimConfig::of(config));
    let named: Vec<String> = result
        .convicted
        .iter()
        .map(|c| c.link.to_string())
        .collect();
    assert_eq!(named, ["leaf2>spine1"]);
    assert_eq!(result.measurement.test, "sequential");
    assert!(result.measurement.alarms > 0);
}

/// Goal: a trace whose next flow is 15 s away is not given up.
#[test]
fn a_trace_may_pause() {
    let mut config = testbed(2, 2, Workload::Trace);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flows.csv");
    let flows =
        "start,source,destination,bytes\n0,h0.0,h1.0,1048576\n15000000000,h1.0,h0.0,1048576\n";
    std::fs::write(&path, flows).expect("a file");
    config.flows = Some(path);
    let result = run(&SimConfig::of(config));
    assert_eq!(result.flows.completed, 2);
    assert!(
        !result.partial && result.fabric_ms > 15_000,
        "{} ms",
        result.fabric_ms
    );
}
