//! A whole fabric: the link that loses packets is named, and no other.

use serde_json::Value;

use crate::run::spraycheck;

/// Runs a testbed and returns its result and exit status. Small flows: 2,048 packets per spine.
fn testbed(arguments: &[&str]) -> (Value, i32) {
    let mut all = vec!["testbed", "--qps", "1", "--bytes", "64MiB", "--json", "-"];
    all.extend_from_slice(arguments);
    let done = spraycheck(&all);
    let result = done.json();
    assert_eq!(
        result["conservation"]["ok"],
        Value::Bool(true),
        "{arguments:?}: {}",
        result["conservation"]
    );
    assert_eq!(result["conservation"]["leaked"], 0, "{arguments:?}");
    assert_eq!(result["flows"]["host_errors"], 0, "{arguments:?}");
    (result, done.status)
}

fn names(result: &Value, key: &str) -> Vec<String> {
    let links = result[key].as_array().expect("a list").iter();
    links
        .map(|link| link["link"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn the_bad_link_is_named_and_no_other() {
    for (fault, link, rate) in [
        ("leaf3>spine5:drop=0.01", "leaf3>spine5", 0.01),
        ("spine2>leaf6:drop=0.005", "spine2>leaf6", 0.005),
        ("leaf0>spine7:drop=0.02", "leaf0>spine7", 0.02),
    ] {
        for evidence in ["source-counts", "hop-counts", "receive-only"] {
            // Receive-only needs more packets than a window of this size has.
            let more: &[&str] = if evidence == "receive-only" {
                &["--iterations", "3"]
            } else {
                &[]
            };
            let mut arguments = vec!["--fail", fault, "--evidence", evidence];
            arguments.extend_from_slice(more);
            let (result, status) = testbed(&arguments);
            assert_eq!(names(&result, "convicted"), [link], "{fault}, {evidence}");
            assert_eq!(status, 0, "{fault}, {evidence}");
            let found = &result["convicted"][0];
            let interval =
                [&found["ci95"][0], &found["ci95"][1]].map(|end| end.as_f64().expect("a rate"));
            assert!(
                interval[0] < 1.5 * rate && interval[1] > 0.6 * rate,
                "{fault}, {evidence}: {interval:?}"
            );
        }
    }
}

#[test]
fn without_a_fault_nothing_is_named_or_resent() {
    let (result, status) = testbed(&["--fail", "none"]);
    assert!(
        names(&result, "convicted").is_empty() && names(&result, "suspects").is_empty(),
        "{result}"
    );
    assert_eq!(status, 0);
    let flows = &result["flows"];
    assert_eq!(
        (&flows["retransmitted"], &flows["spurious_retransmits"]),
        (&Value::from(0), &Value::from(0))
    );
    assert_eq!(
        (&flows["completed"], &flows["failed"]),
        (&flows["announced"], &Value::from(0))
    );
    // Ties to the fewest measured: counts stay within a few packets of each other.
    let noise = result["noise"]["sigma_over_sqrt_lambda"]
        .as_f64()
        .expect("paths were healthy");
    assert!(noise < 0.1, "sigma / sqrt(lambda) is {noise}");
}

#[test]
fn a_seed_gives_the_same_run() {
    let run = |seed: &str| {
        let (mut result, _) = testbed(&[
            "--fail",
            "leaf1>spine1:drop=0.01",
            "--bytes",
            "8MiB",
            "--seed",
            seed,
        ]);
        for key in ["elapsed_s", "packet_hops_per_s"] {
            result[key] = Value::Null;
        }
        result
    };
    let first = run("5");
    assert_eq!(first, run("5"));
    assert_ne!(first["injected"], run("6")["injected"]);
}

#[test]
fn several_faults_at_once_are_all_named() {
    let faults = [
        "leaf1>spine0:drop=0.02",
        "spine4>leaf2:drop=0.02",
        "leaf6>spine4:burst=0.002,0.1,0.5",
    ];
    let mut arguments = Vec::new();
    for fault in faults {
        arguments.extend_from_slice(&["--fail", fault]);
    }
    let (result, status) = testbed(&arguments);
    assert_eq!(
        names(&result, "convicted"),
        ["leaf1>spine0", "leaf6>spine4", "spine4>leaf2"]
    );
    assert_eq!(status, 0);
}

#[test]
fn a_ring_needs_hop_counts_to_name_a_link() {
    let ring = [
        "--workload",
        "ring-allreduce",
        "--bytes",
        "128MiB",
        "--fail",
        "leaf2>spine3:drop=0.02",
    ];
    let (result, status) = testbed(&ring);
    assert!(
        names(&result, "convicted").is_empty(),
        "one victim cannot tell the two links of a path apart"
    );
    assert_eq!(status, 1);
    let suspects = names(&result, "suspects");
    assert_eq!(suspects, ["leaf2>spine3", "spine3>leaf3"]);
    assert_eq!(result["suspects"][0]["missing"], "second destination");
    let mut with_hops = ring.to_vec();
    with_hops.extend_from_slice(&["--evidence", "hop-counts"]);
    let (result, status) = testbed(&with_hops);
    assert_eq!(
        (names(&result, "convicted"), status),
        (vec!["leaf2>spine3".to_owned()], 0)
    );
}

#[test]
fn known_failures_and_dead_links_convict_nobody() {
    let (result, status) = testbed(&[
        "--disable",
        "leaf2>spine1",
        "--disable",
        "spine6>leaf3",
        "--fail",
        "none",
    ]);
    assert!(names(&result, "convicted").is_empty(), "{result}");
    assert_eq!(status, 0);
    let seven = result["tests"]
        .as_array()
        .expect("tests")
        .iter()
        .filter(|test| test["k"] == 7)
        .count();
    assert!(seven >= 7, "{seven} windows over seven spines");
    // A link that is down is no gray failure: everybody can see it.
    let (result, _) = testbed(&["--fail", "leaf5>spine2:down"]);
    assert!(
        names(&result, "convicted").is_empty(),
        "{:?}",
        names(&result, "convicted")
    );
    let sent_into_it = result["injected"][0]["packets_seen"]
        .as_u64()
        .expect("a count");
    assert_eq!(sent_into_it, 0);
}

#[test]
fn the_time_limit_ends_a_run_with_what_it_has() {
    let (result, status) = testbed(&[
        "--bytes",
        "16GiB",
        "--limit",
        "1s",
        "--fail",
        "leaf3>spine5:drop=0.05",
    ]);
    assert_eq!(result["partial"], Value::Bool(true));
    assert!(status == 0 || status == 1, "{status}");
}

#[test]
fn wrong_flags_are_refused_with_a_hint() {
    for (arguments, wanted) in [
        (vec!["testbed", "--spray", "jsq3"], "jsq2"),
        (vec!["testbed", "--fail", "leaf9>spine0:drop=0.1"], "leaf9"),
        (vec!["testbed", "--fail", "leaf1>spine0:drop=2"], "drop"),
        (vec!["testbed", "--mtu", "1500"], "1024"),
        (vec!["testbed", "--leaves", "1"], "leaves"),
    ] {
        let done = spraycheck(&arguments);
        assert_eq!(done.status, 2, "{arguments:?}: {}", done.stderr);
        assert!(
            done.stderr.contains(wanted),
            "{arguments:?}: {}",
            done.stderr
        );
    }
}

#[test]
fn without_announcements_the_bad_link_is_named_and_no_other() {
    for (announce, fault, link) in [
        ("window", "leaf3>spine5:drop=0.01", Some("leaf3>spine5")),
        ("mixed", "spine2>leaf6:drop=0.01", Some("spine2>leaf6")),
        ("window", "none", None),
    ] {
        let size = ["--bytes", "128MiB", "--announce", announce, "--fail", fault];
        let (result, status) = testbed(&size);
        let names = names(&result, "convicted");
        assert_eq!(
            (names, status),
            (link.into_iter().map(String::from).collect(), 0),
            "{size:?}"
        );
        let announced = &result["flows"]["announced"];
        assert_eq!(*announced, if announce == "window" { 0 } else { 28 });
        assert!(result["conservation"]["notes"]["flows-found"].as_u64() >= Some(28));
    }
}

#[test]
fn the_sequential_test_names_the_link_by_an_alarm() {
    let size = ["--test", "sequential", "--bytes", "128MiB", "--fail"];
    let (result, status) = testbed(&[&size[..], &["leaf3>spine5:drop=0.02"]].concat());
    assert_eq!(
        (names(&result, "convicted"), status),
        (vec!["leaf3>spine5".into()], 0)
    );
    let found = &result["convicted"][0];
    assert_eq!(found["reason"], "alarm");
    assert!(found["at_ms"].as_f64() > Some(0.0) && found["packets"].as_u64() > Some(0));
    let alarms = result["measurement"]["alarms"].as_u64();
    let ended = result["tests"].as_array().expect("tests").iter();
    let failed = ended.filter(|test| test["reason"] == "alarm").count() as u64;
    assert!(
        alarms >= Some(2) && alarms >= Some(failed),
        "{alarms:?} {failed}"
    );
    let (result, status) = testbed(&[&size[..], &["none"]].concat());
    assert_eq!((names(&result, "convicted"), status), (vec![], 0));
    assert_eq!(result["measurement"]["alarms"], 0);
}

#[test]
fn a_result_says_what_measuring_takes_and_how_often_it_errs() {
    let (result, _) = testbed(&[
        "--fail",
        "leaf3>spine5:drop=0.02",
        "--evidence",
        "hop-counts",
    ]);
    let measurement = &result["measurement"];
    let number = |key: &str| measurement[key].as_f64().unwrap_or(0.0);
    assert!(number("measurement_state_bytes") > 1e4 && number("spine_state_bytes") > 1e3);
    // Two opens of 42 + 60 bytes and three closes of 42 + 60 + 32 + 16 on each of eight paths.
    assert_eq!(
        (number("messages"), number("message_bytes")),
        (40.0, 8.0 * (2.0 * 102.0 + 3.0 * 150.0))
    );
    assert!(number("expected_false_alarms_per_day") > 0.0);
    let tests = result["tests"].as_array().expect("tests").iter();
    let failed: Vec<_> = tests
        .filter(|test| !test["failed"].as_array().expect("a list").is_empty())
        .collect();
    assert_eq!(failed.len(), 7);
    for test in failed {
        let failure = &test["failures"][0];
        assert_eq!(failure["spine"], "spine5");
        let by_link = failure["by_link"].as_array().expect("hop counts");
        assert!(
            by_link[0].as_u64() > Some(0) && by_link[1] == 0,
            "{failure}"
        );
        assert!(
            failure["p_value"].as_f64() < Some(1e-6) && failure["after_ms"].as_f64() > Some(0.0)
        );
    }
}
