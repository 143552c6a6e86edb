//! A running testbed answers, and ends cleanly when it is told to.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::run::{Started, spraycheck};

/// Asks until the testbed answers.
fn show(what: &str, socket: &str) -> Value {
    let started = Instant::now();
    loop {
        let done = spraycheck(&["show", what, "--socket", socket, "--json", "-"]);
        if done.status == 0 {
            return done.json();
        }
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "show {what}: {}",
            done.stderr
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_running_testbed_shows_itself_and_ends_with_what_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("show.sock").display().to_string();
    let endless = [
        "testbed",
        "--bytes",
        "64GiB",
        "--limit",
        "60s",
        "--fail",
        "leaf1>spine1:drop=0.05",
    ];
    let mut arguments = endless.to_vec();
    arguments.extend_from_slice(&["--socket", &socket, "--json", "-"]);
    let testbed = Started::new(&arguments);
    let rows = |what: &str| {
        show(what, &socket)["rows"]
            .as_array()
            .expect("rows")
            .clone()
    };
    assert_eq!(
        rows("ports").len(),
        8 * 9 + 8 * 8,
        "8 leaves of 9 ports, 8 spines of 8"
    );
    // It answers before its first packet.
    let begun = Instant::now();
    while rows("drops").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "no packet moves");
        std::thread::sleep(Duration::from_millis(20));
    }
    for (what, key) in [
        ("queues", "max_queue_bytes"),
        ("queues", "unserved_ms_by_priority"),
        ("queues", "starved_by_priority"),
        ("lcores", "busy_share"),
        ("drops", "packets"),
        ("version", "part"),
    ] {
        let rows = rows(what);
        assert!(
            !rows.is_empty() && rows[0].get(key).is_some(),
            "{what}: {rows:?}"
        );
    }
    for what in ["spines", "flows", "tests", "links"] {
        rows(what);
    }
    let sent = |rows: &[Value]| {
        rows.iter()
            .map(|row| row["out_pkts"].as_u64().expect("a count"))
            .sum::<u64>()
    };
    let before = sent(&rows("ports"));
    std::thread::sleep(Duration::from_millis(200));
    assert!(sent(&rows("ports")) > before, "packets move");
    let table = spraycheck(&["show", "ports", "--socket", &socket]);
    assert!(
        table.status == 0 && table.stdout.contains("leaf0"),
        "{}",
        table.stdout
    );
    let unknown = spraycheck(&["show", "weather", "--socket", &socket]);
    assert_eq!(unknown.status, 2, "{}", unknown.stderr);
    // Told to stop, it ends within seconds, and its result says so.
    let told = Instant::now();
    let kill = Command::new("kill")
        .args(["-TERM", &testbed.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(kill.success());
    let done = testbed.wait();
    assert!(
        told.elapsed() < Duration::from_secs(10),
        "it took {:?}",
        told.elapsed()
    );
    let result = done.json();
    assert_eq!(result["partial"], Value::Bool(true));
    assert_eq!(
        result["conservation"]["ok"],
        Value::Bool(true),
        "{}",
        result["conservation"]
    );
    assert!(
        !folder.path().join("show.sock").exists(),
        "the socket goes with its run"
    );
}

#[test]
fn nobody_there_is_said_with_the_cure() {
    let done = spraycheck(&["show", "ports", "--socket", "no/such.sock"]);
    assert_eq!(done.status, 3);
    assert!(done.stderr.contains("no/such.sock"), "{}", done.stderr);
}
