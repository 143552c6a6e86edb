//! The software RNICs on a fabric: a collective ends under loss with every byte right, spraying
//! repairs nothing, and what selective repeat is worth against going back.

use serde_json::Value;

use crate::run::spraycheck;

/// Runs 64 MiB of ring-allreduce over 8 leaves; every byte is compared by the hosts.
fn ring(arguments: &[&str]) -> Value {
    let mut all = vec![
        "testbed",
        "--workload",
        "ring-allreduce",
        "--bytes",
        "64MiB",
    ];
    all.extend_from_slice(&["--json", "-"]);
    all.extend_from_slice(arguments);
    let result = spraycheck(&all).json();
    let flows = &result["flows"];
    // 14 steps of 8 hosts over 2 QPs; each host receives 14/8 of the bytes.
    assert_eq!(flows["completed"], 14 * 8 * 2, "{arguments:?}: {flows}");
    assert_eq!(flows["failed"], 0, "{arguments:?}: {flows}");
    assert_eq!(flows["host_errors"], 0, "{arguments:?}: {flows}");
    assert_eq!(
        flows["received_bytes"],
        14u64 * (64 << 20),
        "{arguments:?}: {flows}"
    );
    assert_eq!(result["conservation"]["ok"], true, "{arguments:?}");
    result
}

fn count(result: &Value, key: &str) -> u64 {
    result["flows"][key].as_u64().expect("a count")
}

#[test]
fn a_ring_allreduce_ends_under_loss() {
    for (fault, least) in [
        ("none", 0),
        ("leaf3>spine5:drop=0.001", 1),
        ("leaf3>spine5:drop=0.01", 20),
        ("leaf3>spine5:drop=0.05", 100),
    ] {
        let result = ring(&["--fail", fault]);
        let again = count(&result, "retransmitted");
        if fault == "none" {
            assert_eq!(again, 0, "{}", result["flows"]);
            assert_eq!(count(&result, "spurious_retransmits"), 0);
            assert!(count(&result, "out_of_order_max") > 0, "JSQ(2) sprays");
        } else {
            let lost = result["injected"][0]["packets_dropped"]
                .as_u64()
                .expect("a count");
            assert!(lost >= least, "{fault}: {lost} lost");
            // Single packets are repeated, also those whose acknowledgement was lost.
            assert!(
                again > 0 && again <= 2 * lost + 16,
                "{fault}: {again} for {lost}"
            );
        }
    }
}

/// Goal: the same scenario file gives the same verdicts on DPDK and in the simulator, at every loss; both
/// repair nothing where nothing is lost.
#[test]
fn one_scenario_gives_one_verdict() {
    for fault in [
        "none",
        "leaf3>spine5:drop=0.001",
        "leaf3>spine5:drop=0.01",
        "leaf3>spine5:drop=0.05",
    ] {
        let run = |driver: &str| {
            let done = spraycheck(&[
                driver,
                "--scenario",
                "docs/examples/ring.toml",
                "--fail",
                fault,
                "--json",
                "-",
            ]);
            let result = done.json();
            let flows = &result["flows"];
            assert_eq!(flows["completed"], 14 * 8 * 2, "{driver}, {fault}: {flows}");
            assert_eq!(flows["failed"], 0, "{driver}, {fault}: {flows}");
            assert_eq!(flows["host_errors"], 0, "{driver}, {fault}: {flows}");
            assert_eq!(result["conservation"]["ok"], true, "{driver}, {fault}");
            if fault == "none" {
                assert_eq!(flows["retransmitted"], 0, "{driver}: {flows}");
                assert_eq!(flows["spurious_retransmits"], 0, "{driver}: {flows}");
            }
            let named = |list: &str| -> Vec<String> {
                let list = result[list].as_array().expect("a list");
                list.iter().map(|row| row["link"].to_string()).collect()
            };
            (done.status, named("convicted"), named("suspects"))
        };
        let (testbed, simulator) = (run("testbed"), run("sim"));
        assert_eq!(testbed, simulator, "{fault}");
        // Of 0.1 % one ring of 64 MiB loses two or three measured packets, too few to name a link by.
        let expected: &[&str] = match fault {
            "none" | "leaf3>spine5:drop=0.001" => &[],
            _ => &["\"leaf3>spine5\""],
        };
        assert_eq!(testbed.1, expected, "{fault}");
    }
}

#[test]
fn going_back_costs_more_than_repeating() {
    let fault = ["--fail", "leaf3>spine5:drop=0.01"];
    let repeat = ring(&fault);
    let back = ring(&[&fault[..], &["--recovery", "go-back-n"]].concat());
    let (few, many) = (
        count(&repeat, "retransmitted"),
        count(&back, "retransmitted"),
    );
    assert!(
        many > 3 * few,
        "{many} by go-back-N, {few} by selective repeat"
    );
}

/// Goal: with marking switches and many senders at one host, DCQCN keeps the queue from dropping.
#[test]
fn dcqcn_keeps_an_incast_from_dropping() {
    let incast = |dcqcn: &str| {
        let result = spraycheck(&[
            "testbed",
            "--workload",
            "incast",
            "--bytes",
            "32MiB",
            "--ecn",
            "--queue-limit",
            "1MiB",
            "--dcqcn",
            dcqcn,
            "--window-packets",
            "256",
            "--fail",
            "none",
            "--json",
            "-",
        ])
        .json();
        assert_eq!(
            result["flows"]["completed"], 14,
            "{dcqcn}: {}",
            result["flows"]
        );
        let drops = &result["conservation"]["drops"]["tail-drop"];
        (drops.as_u64().unwrap_or(0), count(&result, "cnps"))
    };
    let (without, none) = incast("off");
    assert!(
        without > 1000 && none == 0,
        "{without} dropped, {none} notifications"
    );
    for preset in ["paper", "hpcc", "vendor"] {
        let (with, notifications) = incast(preset);
        assert!(notifications > 10, "{preset}: {notifications}");
        assert!(
            with < without / 2,
            "{preset}: {with} dropped, {without} without"
        );
    }
}

#[test]
fn a_trace_and_background_traffic_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flows.csv");
    let mut text = String::from("start,source,destination,bytes\n");
    for number in 0..50 {
        let (from, to) = (number % 8, (number + 1 + number % 6) % 8);
        text += &format!(
            "{},h{from}.0,h{to}.0,{}\n",
            number * 100_000,
            100_000 + number
        );
    }
    std::fs::write(&path, text).expect("written");
    let path = path.to_str().expect("UTF-8");
    let result = spraycheck(&[
        "testbed",
        "--workload",
        "trace",
        "--flows",
        path,
        "--background",
        "0.3",
        "--background-aimd",
        "--fail",
        "none",
        "--json",
        "-",
    ])
    .json();
    let flows = &result["flows"];
    assert_eq!(
        (&flows["completed"], &flows["host_errors"]),
        (&50.into(), &0.into()),
        "{flows}"
    );
    assert_eq!(
        flows["received_bytes"],
        (0..50u64).map(|n| 100_000 + n).sum::<u64>()
    );
    assert_eq!(
        result["conservation"]["ok"], true,
        "{}",
        result["conservation"]
    );
}
