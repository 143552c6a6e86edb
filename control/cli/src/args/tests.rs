//! Tests of what can be typed.

use clap::CommandFactory;
use config::{Evidence, Preset, TestbedConfig};

use super::*;

/// Goal: the definitions agree with themselves (clap's own checks).
#[test]
fn definitions_are_sound() {
    Cli::command().debug_assert();
}

/// Goal: every command's help ends with an example.
#[test]
fn every_help_has_an_example() {
    let mut command = Cli::command();
    for sub in command.get_subcommands_mut() {
        let name = sub.get_name().to_owned();
        let help = sub.render_long_help().to_string();
        assert!(
            help.contains(&format!("\n  spraycheck {name} ")),
            "{name} has no example:\n{help}"
        );
    }
}

fn testbed(line: &str) -> Result<TestbedConfig, String> {
    let words = ["spraycheck", "testbed"]
        .into_iter()
        .chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
    let Command::Testbed(args) = cli.command else {
        return Err("no testbed".to_owned());
    };
    crate::testbed::settings(&args).map_err(|failure| {
        assert_eq!(failure.code, crate::failure::USAGE);
        failure.to_string()
    })
}

/// Goal: every flag of the interface is taken and lands in its setting.
#[test]
fn every_flag_lands_in_its_setting() {
    let config = testbed(
        "--preset default --leaves 4 --spines 3 --hosts-per-leaf 2 --link-rate 100Gbps \
         --host-rate 50Gbps --workload permutation --bytes 1MiB --qps 1 --iterations 3 --mtu 1024 \
         --spray random --tie random --evidence receive-only --mark all --sensitivity 0.65 \
         --p0 2e-5 --alpha 0.1% --p-min 100 --announce host --test fixed --counter-bits 16 --spine-packets 64 --recovery go-back-n --seed 7 \
         --fail leaf3>spine2:drop=0.01 --fail leaf0-spine0:delay=5us --disable leaf1>spine1 \
         --limit 5s --pcap-dir /tmp/captures --queue-limit 2MiB --window-packets 32 --step 5us \
         --burst 16 --interleave --message-port 4000 --link-state 50ms --hold-down 20ms --ecn \
         --trace /tmp/trace --dcqcn hpcc --ring flows --background 0.25 --background-aimd \
         --socket /tmp/socket --metrics 127.0.0.1:9111 --json - -- --log-level=debug",
    )
    .unwrap();
    let json = serde_json::to_value(&config).unwrap();
    let expected: serde_json::Value = serde_json::from_str(
        r#"{
        "preset": "default", "leaves": 4, "spines": 3, "hosts_per_leaf": 2,
        "link_rate": "100Gbps", "host_rate": "50Gbps", "workload": "permutation",
        "bytes": "1MiB", "qps": 1, "iterations": 3, "mtu": 1024, "spray": "random",
        "tie": "random", "evidence": "receive-only", "mark": "all", "p0": "0.00002",
        "alpha": "0.001", "announce": "host", "test": "fixed", "counter_bits": 16,
        "spine_packets": 64, "recovery": "go-back-n", "seed": 7,
        "faults": ["leaf3>spine2:drop=0.01", "leaf0>spine0:delay=5us", "spine0>leaf0:delay=5us"],
        "disabled": ["leaf1>spine1"], "limit": "5s", "queue_limit": "2MiB",
        "window_packets": 32, "step": "5us", "burst": 16, "interleave": true,
        "message_port": 4000, "link_state": "50ms", "hold_down": "20ms", "ecn": true, "sensitivity": 0.65, "p_min": 100,
        "dcqcn": "hpcc", "qp_rate": null, "flows": null,
        "ring": "flows", "background": "0.25", "background_aimd": true,
        "pcap_dir": "/tmp/captures", "trace": "/tmp/trace", "socket": "/tmp/socket",
        "metrics": "127.0.0.1:9111"
    }"#,
    )
    .unwrap();
    assert_eq!(json, expected);
}

/// Goal: without flags the settings are the preset's.
#[test]
fn no_flags_are_the_preset() {
    assert_eq!(testbed("").unwrap(), TestbedConfig::preset(Preset::Default));
    let paper = testbed("--preset paper --fail none").unwrap();
    assert_eq!(paper, TestbedConfig::preset(Preset::Paper));
    assert_eq!(paper.evidence, Evidence::ReceiveOnly);
}

/// Goal: flags go over a file, and --fail none takes the file's faults away.
#[test]
fn flags_go_over_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fabric.toml");
    std::fs::write(
        &path,
        "seed = 5\nleaves = 4\nfaults = [\"leaf3>spine5:drop=0.01\"]\n",
    )
    .unwrap();
    let file = path.display();
    let config = testbed(&format!("--config {file} --seed 6")).unwrap();
    assert_eq!(
        (config.seed, config.leaves, config.faults.0.len()),
        (6, 4, 1)
    );
    let config = testbed(&format!("--config {file} --fail none")).unwrap();
    assert_eq!(config.faults.0.len(), 0);
}

/// Goal: each wrong flag is refused with the flag, the value and the cure.
#[test]
fn wrong_flags_are_explained() {
    for (line, message) in [
        (
            "--link-rate 10",
            "invalid value '10' for '--link-rate <R>': \"10\" is no rate (its unit is missing",
        ),
        ("--bytes 64M", "\"64M\" is no size"),
        ("--workload all2all", "did you mean \"all-to-all\"?"),
        ("--leafs 3", "a similar argument exists: '--leaves'"),
        ("--leaves 1", "leaves: 1 is out of range; choose 2 to 128"),
        (
            "--fail leaf3>spine5",
            "--fail: \"leaf3>spine5\" is no fault; write LINK:SPEC",
        ),
        (
            "--fail leaf9>spine5:down",
            "faults: leaf9>spine5 is no link of this fabric",
        ),
        (
            "--fail none --fail leaf0>spine0:down",
            "--fail: none stands beside other faults",
        ),
        ("--disable leaf3", "--disable: \"leaf3\" is no link"),
        (
            "--announce window --preset paper",
            "announce: window cannot be, for the paper's threshold needs the N",
        ),
        (
            "--test sequential --evidence receive-only",
            "test: sequential needs to know what was sent",
        ),
        (
            "--counter-bits 8",
            "counter_bits: 8 is no size of a counter",
        ),
        (
            "--spine-packets 64 --preset paper",
            "spine_packets: 64 cannot be, for the paper measures whole flows",
        ),
        (
            "--config /nowhere/fabric.toml",
            "cannot read /nowhere/fabric.toml",
        ),
        (
            "--p0=-1",
            "\"-1\" is no probability (it does not begin with a digit)",
        ),
        ("extra", "unexpected argument 'extra'"),
    ] {
        let error = testbed(line).unwrap_err();
        assert!(
            error.contains(message),
            "{line}\n gives {error}\n not {message}"
        );
    }
}

/// Goal: a replay names its ports and captures.
#[test]
fn replay_flags_are_taken() {
    let line =
        "spraycheck replay --config a.toml --in host0=x.pcap --in up0=y=z.pcap --out o --split";
    let cli = Cli::try_parse_from(line.split(' ')).unwrap();
    let Command::Replay(args) = cli.command else {
        panic!("no replay")
    };
    let inputs = [
        ("host0".to_owned(), "x.pcap".into()),
        ("up0".to_owned(), "y=z.pcap".into()),
    ];
    assert_eq!((args.inputs, args.split), (inputs.to_vec(), true));
    for (line, message) in [
        (
            "replay --config a.toml --in host0 --out o",
            "write PORT=FILE.pcap",
        ),
        ("replay --config a.toml --out o", "--in <PORT=FILE.pcap>"),
        ("show everything", "possible values: ports, queues"),
        ("check", "<FILE>"),
    ] {
        let words = ["spraycheck"].into_iter().chain(line.split(' '));
        let error = Cli::try_parse_from(words).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains(message), "{line} gives {error}");
    }
}
