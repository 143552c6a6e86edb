//! A whole fabric: the link that loses packets is named, and no other.

use serde_json::Value;

use crate::run::spraycheck;

/// Runs a testbed and returns its result and exit status. Small flows: 2,048 packets per spine.
fn testbed(arguments: &[&str]) -> (Value, i32) {
    let mut all = vec!["testbed", "--qps", "1", "--bytes", "64MiB", "--json", "-"];
    all.extend_from_slice(arguments);
    let done = spraycheck(&all);
    let result = done.json();
    assert_eq!(result["conservation"]["ok"], Value::Bool(true), "{arguments:?}: {}", result["conservation"]);
    assert_eq!(result["conservation"]["leaked"], 0, "{arguments:?}");
    assert_eq!(result["flows"]["host_errors"], 0, "{arguments:?}");
    (result, done.status)
}

fn names(result: &Value, key: &str) -> Vec<String> {
    let links = result[key].as_array().expect("a list").iter();
    links.map(|link| link["link"].as_str().expect("a name").to_owned()).collect()
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
            let more: &[&str] = if evidence == "receive-only" { &["--iterations", "3"] } else { &[] };
            let mut arguments = vec!["--fail", fault, "--evidence", evidence];
            arguments.extend_from_slice(more);
            let (result, status) = testbed(&arguments);
            assert_eq!(names(&result, "convicted"), [link], "{fault}, {evidence}");
            assert_eq!(status, 0, "{fault}, {evidence}");
            let found = &result["convicted"][0];
            let interval = [&found["ci95"][0], &found["ci95"][1]].map(|end| end.as_f64().expect("a rate"));
            assert!(interval[0] < 1.5 * rate && interval[1] > 0.6 * rate, "{fault}, {evidence}: {interval:?}");
        }
    }
}

#[test]
fn without_a_fault_nothing_is_named_or_resent() {
    let (result, status) = testbed(&["--fail", "none"]);
    assert!(names(&result, "convicted").is_empty() && names(&result, "suspects").is_empty(), "{result}");
    assert_eq!(status, 0);
    let flows = &result["flows"];
    assert_eq!((&flows["retransmitted"], &flows["spurious_retransmits"]), (&Value::from(0), &Value::from(0)));
    assert_eq!((&flows["completed"], &flows["failed"]), (&flows["announced"], &Value::from(0)));
    // Ties to the fewest measured: counts stay within a few packets of each other.
    let noise = result["noise"]["sigma_over_sqrt_lambda"].as_f64().expect("paths were healthy");
    assert!(noise < 0.1, "sigma / sqrt(lambda) is {noise}");
}

#[test]
fn a_seed_gives_the_same_run() {
    let run = |seed: &str| {
        let (mut result, _) = testbed(&["--fail", "leaf1>spine1:drop=0.01", "--bytes", "8MiB", "--seed", seed]);
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
    let faults = ["leaf1>spine0:drop=0.02", "spine4>leaf2:drop=0.02", "leaf6>spine4:burst=0.002,0.1,0.5"];
    let mut arguments = Vec::new();
    for fault in faults {
        arguments.extend_from_slice(&["--fail", fault]);
    }
    let (result, status) = testbed(&arguments);
    assert_eq!(names(&result, "convicted"), ["leaf1>spine0", "leaf6>spine4", "spine4>leaf2"]);
    assert_eq!(status, 0);
}

#[test]
fn a_ring_needs_hop_counts_to_name_a_link() {
    let ring = ["--workload", "ring-allreduce", "--bytes", "128MiB", "--fail", "leaf2>spine3:drop=0.02"];
    let (result, status) = testbed(&ring);
    assert!(names(&result, "convicted").is_empty(), "one victim cannot tell the two links of a path apart");
    assert_eq!(status, 1);
    let suspects = names(&result, "suspects");
    assert_eq!(suspects, ["leaf2>spine3", "spine3>leaf3"]);
    assert_eq!(result["suspects"][0]["missing"], "second destination");
    let mut with_hops = ring.to_vec();
    with_hops.extend_from_slice(&["--evidence", "hop-counts"]);
    let (result, status) = testbed(&with_hops);
    assert_eq!((names(&result, "convicted"), status), (vec!["leaf2>spine3".to_owned()], 0));
}

#[test]
fn known_failures_and_dead_links_convict_nobody() {
    let (result, status) = testbed(&["--disable", "leaf2>spine1", "--disable", "spine6>leaf3", "--fail", "none"]);
    assert!(names(&result, "convicted").is_empty(), "{result}");
    assert_eq!(status, 0);
    let seven = result["tests"].as_array().expect("tests").iter().filter(|test| test["k"] == 7).count();
    assert!(seven >= 7, "{seven} windows over seven spines");
    // A link that is down is no gray failure: everybody can see it.
    let (result, _) = testbed(&["--fail", "leaf5>spine2:down"]);
    assert!(names(&result, "convicted").is_empty(), "{:?}", names(&result, "convicted"));
    let sent_into_it = result["injected"][0]["packets_seen"].as_u64().expect("a count");
    assert_eq!(sent_into_it, 0);
}

#[test]
fn the_time_limit_ends_a_run_with_what_it_has() {
    let (result, status) = testbed(&["--bytes", "16GiB", "--limit", "1s", "--fail", "leaf3>spine5:drop=0.05"]);
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
        assert!(done.stderr.contains(wanted), "{arguments:?}: {}", done.stderr);
    }
}
