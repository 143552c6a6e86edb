//! Tests of the report: snapshots of the cases that people meet, and their verdicts.

use agent::result::{
    Conservation, Convicted, EndReason, Flows, Injected, Measurement, Noise, Policy, Suspect, Test,
    TestbedResult,
};
use config::{Evidence, Mark, Preset, Spray, TestbedConfig, Tie};
use detector::{LeafId, Link, SpineId};

use super::render;
use crate::verdict::Verdict;

fn link(name: &str) -> Link {
    name.parse().unwrap()
}

fn convicted(name: &str) -> Convicted {
    Convicted {
        link: link(name),
        drop_rate: 0.0098,
        ci95: [0.008, 0.012],
        paths: 3,
        packets: 24_000,
        packets_per_spine: 4_000,
        at_ms: 812.25,
        reason: Some(EndReason::Close),
    }
}

fn injected(name: &str, spec: &str, dropped: u64) -> Injected {
    Injected {
        link: link(name),
        spec: spec.to_owned(),
        packets_seen: 250_000,
        packets_dropped: dropped,
    }
}

fn test() -> Test {
    Test {
        src: LeafId(3),
        dst: LeafId(4),
        qpn: 18,
        epoch: 7,
        n: 32_768,
        marked: Some(32_768),
        k: 8,
        usable: (0..8).collect(),
        lambda: 4096.0,
        threshold: Some(4087.0),
        counts: vec![4096; 8],
        sent: Some(vec![4096; 8]),
        congestion_dropped: vec![0; 8],
        failed: vec![SpineId(5)],
        void: vec![],
        abstained: vec![SpineId(2)],
        min_detectable_rate: Some(0.003),
        reason: EndReason::Close,
        why: Default::default(),
        could_tell: [("spine2".to_owned(), 0.012)].into(),
        failures: vec![],
    }
}

fn result() -> TestbedResult {
    TestbedResult {
        seed: 1,
        policy: Policy {
            preset: Preset::Default,
            spray: Spray::Jsq2,
            tie: Tie::FewestMeasured,
            evidence: Evidence::SourceCounts,
            mark: Mark::First,
            burst: 32,
            load: 0.125,
            p_min: 2_000,
        },
        injected: vec![injected("leaf3>spine5", "drop=0.01", 2_489)],
        convicted: vec![convicted("leaf3>spine5")],
        suspects: vec![],
        tests: vec![test()],
        flows: Flows {
            announced: 112,
            measured: 56,
            completed: 112,
            failed: 0,
            retransmitted: 2_512,
            spurious_retransmits: 23,
            sent: 917_504,
            received_bytes: 7 << 30,
            cnps: 0,
            out_of_order_max: 12,
            ended_us: 801_500,
            host_errors: 0,
        },
        noise: Noise {
            sigma_over_sqrt_lambda: Some(0.02),
            paths: 441,
        },
        measurement: Measurement {
            test: "fixed".into(),
            alarms: 0,
            path_tests: 448,
            expected_false_alarms_per_day: 94.7,
            measurement_state_bytes: 1_234_567,
            spine_state_bytes: 12_345,
            messages: 32,
            message_bytes: 5_824,
        },
        conservation: Conservation {
            rx: 1_835_008,
            generated: 1_204,
            tx: 1_836_000,
            consumed: 212,
            queued: 0,
            drops: [("tail-drop".to_owned(), 0), ("no-route".to_owned(), 3)].into(),
            notes: Default::default(),
            leaked: 0,
            link_injected: 2_489,
            in_flight: 0,
            ok: true,
        },
        elapsed_s: 4.2137,
        packet_hops: 1_835_008,
        packet_hops_per_s: 435_486.2,
        partial: false,
        reason: None,
        fabric_ms: 912,
        changes: Vec::new(),
    }
}

fn config() -> TestbedConfig {
    TestbedConfig::preset(Preset::Default)
}

/// Goal: the usual case, readable at a glance.
#[test]
fn a_link_was_found() {
    let result = result();
    assert!(Verdict::of(&result).is_yes());
    insta::assert_snapshot!(render(&config(), &result));
}

/// Goal: everything that can go wrong at once, each said.
#[test]
fn nothing_is_hidden() {
    let mut result = result();
    result
        .injected
        .push(injected("spine0>leaf1", "corrupt=0.001", 250));
    result
        .injected
        .push(injected("spine1>leaf1", "delay=5us", 0));
    result.convicted.push(convicted("leaf0>spine0"));
    result.suspects.push(Suspect {
        link: link("spine0>leaf1"),
        missing: "second source".to_owned(),
        drop_rate: 0.001,
        packets: 4_096,
    });
    result.conservation.ok = false;
    result.conservation.leaked = 2;
    result.flows.host_errors = 1;
    result.partial = true;
    result.reason = Some("limit".to_owned());
    result.noise.sigma_over_sqrt_lambda = None;
    assert!(!Verdict::of(&result).is_yes());
    insta::assert_snapshot!(render(&config(), &result));
}

/// Goal: the verdict is yes for exactly the links that lost packets, and for nothing else.
#[test]
fn the_verdict_is_exact() {
    let case = |lossy: &[(&str, u64)], named: &[&str]| {
        let mut result = result();
        result.injected = lossy
            .iter()
            .map(|(name, lost)| injected(name, "drop=0.01", *lost))
            .collect();
        result.convicted = named.iter().map(|name| convicted(name)).collect();
        result
    };
    let (a, b) = ("leaf3>spine5", "spine5>leaf3");
    for (lossy, named, is_yes, line) in [
        (
            &[(a, 9)][..],
            &[a][..],
            true,
            "YES: exactly the links that lost packets were named: leaf3>spine5",
        ),
        (
            &[],
            &[],
            true,
            "YES: no link lost packets, and none was named",
        ),
        (
            &[(a, 0)],
            &[],
            true,
            "YES: no link lost packets, and none was named",
        ),
        (
            &[(a, 9), (b, 9)],
            &[b, a],
            true,
            "YES: exactly the links that lost packets were named: leaf3>spine5, spine5>leaf3",
        ),
        (
            &[(a, 9)],
            &[],
            false,
            "NO: lost packets and was not named: leaf3>spine5",
        ),
        (&[], &[a], false, "NO: named but lost nothing: leaf3>spine5"),
        (
            &[(a, 9)],
            &[b],
            false,
            "NO: lost packets and was not named: leaf3>spine5; named but lost nothing: spine5>leaf3",
        ),
        (
            &[(a, 9)],
            &[a, b],
            false,
            "NO: named rightly: leaf3>spine5; named but lost nothing: spine5>leaf3",
        ),
        (
            &[(a, 0)],
            &[a],
            false,
            "NO: named but lost nothing: leaf3>spine5",
        ),
    ] {
        let verdict = Verdict::of(&case(lossy, named));
        assert_eq!((verdict.is_yes(), verdict.line().as_str()), (is_yes, line));
    }
    let mut result = case(&[], &[]);
    result.conservation.ok = false;
    let verdict = Verdict::of(&result);
    assert!(!verdict.is_yes() && verdict.line().ends_with("packets are unaccounted for"));
    let mut result = case(&[], &[]);
    result.flows.host_errors = 3;
    let verdict = Verdict::of(&result);
    assert!(!verdict.is_yes() && verdict.line().ends_with("hosts received wrong data"));
}
