//! The history of a process that is killed with SIGKILL, again and again, at random moments.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use agent::verdict::{Outcome, PathVerdict, WindowVerdict};
use detector::{Evidence, Fabric, LeafId};
use monitor::history::{History, Stream};

const FABRIC: Fabric = Fabric {
    leaves: 4,
    spines: 2,
};
/// Tells the writer where its history is.
const WHERE: &str = "MONITOR_KILLED_HISTORY";

fn verdict(seq: u64) -> WindowVerdict {
    WindowVerdict {
        seq,
        at_ns: seq,
        took_ns: 0,
        src: LeafId(0),
        dst: LeafId(1),
        qpn: 0,
        epoch: seq as u32,
        evidence: Evidence::SourceCounts,
        sequential: false,
        paths: vec![PathVerdict {
            spine: 0,
            outcome: Outcome::Healthy,
            expected: 100.0,
            received: 100,
            dropped: 0,
            noise: 0.0,
            visible: None,
            hops: None,
        }],
    }
}

fn stream() -> Stream {
    Stream {
        leaf: "leaf1".into(),
        boot: 1,
    }
}

/// What is killed: goes on from where the history is, and prints each number that it has committed.
/// Delivers a few again, as a message system does. Runs as a test of its own process only.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(WHERE) else {
        return;
    };
    let (mut history, _) = History::open(Path::new(&path), FABRIC, 0).unwrap();
    let mut next = history.floor(&stream());
    loop {
        let first = next.saturating_sub(3).max(1);
        let batch = (first..next + 5).map(|seq| (stream(), verdict(seq)));
        history.commit(batch.collect(), next).unwrap();
        next += 5;
        println!("committed {}", next - 1);
    }
}

/// Goal: after 12 kills nothing is lost that was said to be committed, and nothing is there twice.
#[test]
fn nothing_acknowledged_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let mut acknowledged = 0;
    for round in 0..12u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["writer", "--exact", "--nocapture"])
            .env(WHERE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            let numbers = lines.filter_map(|line| line.split("committed ").nth(1)?.parse().ok());
            numbers.max()
        });
        // A different moment each time, within a commit or between two.
        std::thread::sleep(Duration::from_micros(60_000 + round * 7_919));
        child.kill().unwrap();
        child.wait().unwrap();
        let said: Option<u64> = reader.join().unwrap();
        acknowledged = acknowledged.max(said.unwrap_or(0));
        let (history, restored) = History::open(&path, FABRIC, 0).unwrap();
        let mut found = BTreeMap::<u64, u32>::new();
        for verdict in &restored.recent {
            *found.entry(verdict.seq).or_default() += 1;
        }
        let lost: Vec<u64> = (1..=acknowledged)
            .filter(|seq| !found.contains_key(seq))
            .collect();
        assert!(
            lost.is_empty(),
            "round {round}: lost {lost:?} of {acknowledged}"
        );
        assert!(
            found.values().all(|&times| times == 1),
            "round {round}: twice"
        );
        assert_eq!(
            history.verdicts(),
            found.len() as u64,
            "round {round}: the count"
        );
    }
    assert!(acknowledged > 50, "only {acknowledged} were committed");
}
