//! Tests of presets, layers and checks.

use std::path::Path;

use super::*;
use crate::error::ConfigError;

fn resolve(text: &str) -> Result<TestbedConfig, ConfigError> {
    let file = TestbedFile::parse(Path::new("fabric.toml"), text)?;
    TestbedConfig::resolve(Some(&file), TestbedLayer::default())
}

/// Goal: both presets are sound, and `paper` is the paper's way.
#[test]
fn presets_are_sound() {
    let default = resolve("").unwrap();
    assert_eq!(default, TestbedConfig::preset(Preset::Default));
    assert_eq!(default.dcqcn(), crate::choice::Dcqcn::Off);
    assert!(!default.is_paper() && default.tie == Tie::FewestMeasured);
    let paper = resolve("preset = \"paper\"").unwrap();
    assert!(paper.is_paper() && paper.interleave);
    assert_eq!((paper.tie, paper.mark), (Tie::Random, Mark::All));
    assert_eq!(
        (paper.evidence, paper.spray),
        (Evidence::ReceiveOnly, Spray::Jsq2)
    );
}

/// Goal: flags go over the file, the file over the preset, and the host rate follows the link's.
#[test]
fn layers_go_over_each_other() {
    let text = "preset = \"paper\"\nleaves = 4\nlink_rate = \"1Gbps\"\nseed = 5\n";
    let file = TestbedFile::parse(Path::new("fabric.toml"), text).unwrap();
    let flags = TestbedLayer {
        seed: Some(9),
        ..TestbedLayer::default()
    };
    let config = TestbedConfig::resolve(Some(&file), flags).unwrap();
    assert_eq!((config.seed, config.leaves, config.spines), (9, 4, 8));
    assert_eq!(config.host_rate, config.link_rate);
    let config = resolve("link_rate = \"1Gbps\"\nhost_rate = \"2Gbps\"").unwrap();
    assert_eq!(config.host_rate.to_string(), "2Gbps");
}

/// Goal: settings go to the daemon as JSON, and from a file as TOML, without a change.
#[test]
fn settings_survive_the_journey() {
    let config = resolve(
        "preset = \"paper\"\nfaults = [\"leaf3>spine5:drop=0.01\", \"leaf0-spine1:delay=5us\"]\n\
         disabled = [\"leaf1-spine1\"]\np0 = 3e-5\nbytes = \"1MiB\"\nsocket = \"run/sock\"\n",
    )
    .unwrap();
    let json = serde_json::to_string(&config).unwrap();
    assert_eq!(
        serde_json::from_str::<TestbedConfig>(&json).unwrap(),
        config
    );
    assert!(json.contains("\"link_rate\":\"10Gbps\""), "{json}");
    let text = toml::to_string(&config).unwrap();
    assert_eq!(resolve(&text).unwrap(), config, "{text}");
}

/// Goal: each mistake is refused with file, line, key, value and cure.
#[test]
fn mistakes_are_explained() {
    for (text, message) in [
        (
            "leaves = 1",
            "fabric.toml:1: leaves: 1 is out of range; choose 2 to 128",
        ),
        (
            "\nspines = 129",
            "fabric.toml:2: spines: 129 is out of range; choose 1 to 128",
        ),
        ("spines = 0", "fabric.toml:1: spines: 0 is out of range"),
        (
            "hosts_per_leaf = 65",
            "hosts_per_leaf: 65 is out of range; choose 1 to 64",
        ),
        ("leaves = 70000", "fabric.toml:1: leaves: "),
        (
            "mtu = 1500",
            "mtu: 1500 is no path MTU of RDMA; choose 256, 512, 1024, 2048 or 4096",
        ),
        (
            "link_rate = \"10\"",
            "link_rate: \"10\" is no rate (its unit is missing",
        ),
        (
            "link_rate = \"10kbps\"",
            "link_rate: 10kbps is out of range; choose 1Mbps to 1Tbps",
        ),
        ("bytes = 0", "bytes: 0 cannot be split over 2 QPs"),
        ("bytes = \"64M\"", "bytes: \"64M\" is no size"),
        ("qps = 0", "qps: 0 is out of range"),
        (
            "leaves = 128\nhosts_per_leaf = 64",
            "workload: all-to-all among 8192 hosts",
        ),
        ("workload = \"alltoall\"", "did you mean \"all-to-all\"?"),
        (
            "preset = \"paper\"\nannounce = \"window\"",
            "fabric.toml:2: announce: window cannot be",
        ),
        ("preset = \"papr\"", "did you mean \"paper\"?"),
        (
            "preset = \"paper\"\nevidence = \"source-counts\"",
            "fabric.toml:2: evidence: source-counts needs the closes",
        ),
        (
            "preset = \"paper\"\nmark = \"first\"",
            "fabric.toml:2: mark: first is not the paper's",
        ),
        (
            "sensitivity = 0.65",
            "sensitivity: 0.65 has no meaning with evidence source-counts",
        ),
        (
            "evidence = \"receive-only\"\nsensitivity = -1.0",
            "sensitivity: -1 is out of range",
        ),
        ("p0 = 0.0", "p0: 0 is out of range"),
        (
            "alpha = 1.5",
            "alpha: \"1.5\" is no probability (it is more than 1)",
        ),
        ("alpha = \"0.9\"", "alpha: 0.9 is out of range"),
        ("p_min = 0", "p_min: 0 is out of range"),
        (
            "queue_limit = \"4KiB\"",
            "queue_limit: 4KiB holds no whole frame of 4224 bytes",
        ),
        (
            "step = \"20us\"",
            "step: 20us is out of range; choose 100ns to 10us",
        ),
        ("burst = 65", "burst: 65 is out of range"),
        ("limit = \"0s\"", "limit: 0ns is out of range"),
        ("message_port = 4791", "message_port: 4791 is taken"),
        ("window_packets = 0", "window_packets: 0 is out of range"),
        (
            "faults = [\"leaf8>spine0:drop=0.1\"]",
            "faults: leaf8>spine0 is no link of this fabric; its leaves are leaf0 to leaf7",
        ),
        (
            "faults = [\"leaf0>spine0:drp=0.1\"]",
            "did you mean \"drop\"?",
        ),
        (
            "faults = [\"leaf0>spine0:delay=2s\"]",
            "choose a delay up to 1s",
        ),
        (
            "disabled = [\"leaf0>spine9\"]",
            "disabled: leaf0>spine9 is no link",
        ),
        (
            "spines = 1\ndisabled = [\"leaf0>spine0\"]",
            "fabric.toml:2: disabled: no path is left from leaf0 to leaf1",
        ),
        (
            "fail = []",
            "fabric.toml:1: fail: unknown key \"fail\"; did you mean \"faults\"?",
        ),
        (
            "leafs = 8",
            "fabric.toml:1: leafs: unknown key \"leafs\"; did you mean \"leaves\"?",
        ),
        (
            "[fabric]\nleaves = 8",
            "fabric: unknown key \"fabric\"; the keys here are preset, leaves",
        ),
        ("leaves = ", "fabric.toml:1: "),
        (
            "dcqcn = \"paper\"\nqp_rate = \"1Gbps\"",
            "qp_rate: a fixed rate and DCQCN exclude each other",
        ),
        ("qp_rate = \"20Gbps\"", "qp_rate: 20Gbps is out of range"),
        ("background = 0.99", "background: 0.99 is out of range"),
        (
            "workload = \"trace\"",
            "flows: workload trace has no flows; name a CSV file",
        ),
        (
            "flows = \"a.csv\"",
            "flows: a.csv is not looked at by workload all-to-all",
        ),
    ] {
        let error = resolve(text).unwrap_err().to_string();
        assert!(
            error.contains(message),
            "{text}\n gives {error}\n not {message}"
        );
        assert!(
            error.starts_with("fabric.toml"),
            "{text}: no file in {error}"
        );
    }
}

/// Goal: a flag's mistake is not blamed on the file.
#[test]
fn a_flag_is_not_in_the_file() {
    let file = TestbedFile::parse(Path::new("fabric.toml"), "leaves = 4").unwrap();
    let flags = TestbedLayer {
        leaves: Some(1),
        ..TestbedLayer::default()
    };
    let error = TestbedConfig::resolve(Some(&file), flags)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "leaves: 1 is out of range; choose 2 to 128");
}

/// Goal: the example explains every key, and what it sets is what holds without it.
#[test]
fn the_example_is_complete() {
    let text = include_str!("../../../../docs/examples/testbed.toml");
    let default = TestbedConfig::preset(Preset::Default);
    assert_eq!(resolve(text).unwrap(), default);
    let serde_json::Value::Object(keys) = serde_json::to_value(&default).unwrap() else {
        panic!("no object");
    };
    for key in keys.keys() {
        let is_there = text.lines().any(|line| {
            let line = line.trim_start_matches("# ");
            line.strip_prefix(key.as_str())
                .is_some_and(|rest| rest.trim_start().starts_with('='))
        });
        assert!(is_there, "{key} is not in the example");
    }
}
