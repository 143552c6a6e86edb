//! Switches and testbeds that are changed while they run: each change is in force when its command
//! returns, none costs a packet, and the log says so.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::docs::{commands, words};
use crate::life::{LOAD_PACKETS, START, leaf, received, terminate};
use crate::run::{Done, Started, root, spraycheck};

/// Something that runs, and its socket.
struct Subject {
    socket: String,
}

impl Subject {
    fn ask(&self, words: &[&str]) -> Done {
        spraycheck(&[words, &["--socket", &self.socket]].concat())
    }

    fn rows(&self, words: &[&str]) -> Vec<Value> {
        let done = self.ask(&[words, &["--json", "-"]].concat());
        assert_eq!(done.status, 0, "{words:?}: {}", done.stderr);
        done.json()["rows"].as_array().expect("rows").clone()
    }

    /// What a `set` says that it has changed.
    fn set(&self, words: &[&str]) -> Vec<String> {
        let rows = self.rows(&[&["set"], words].concat());
        let said = rows
            .iter()
            .map(|row| row["change"].as_str().expect("a change"));
        said.map(str::to_owned).collect()
    }

    fn refused(&self, words: &[&str], message: &str) {
        let done = self.ask(&[&["set"], words].concat());
        assert_eq!(done.status, 1, "{words:?}: {}", done.stdout);
        assert!(done.stderr.contains(message), "{words:?}: {}", done.stderr);
    }

    /// Packets that each uplink has sent.
    fn sent(&self) -> Vec<u64> {
        let rows = self.rows(&["show", "ports"]);
        let uplinks = rows
            .iter()
            .filter(|row| row["port"].as_str().is_some_and(|p| p.starts_with("up")));
        uplinks
            .map(|row| row["out_pkts"].as_u64().expect("a count"))
            .collect()
    }

    /// How many uplinks carry packets now.
    fn spread(&self) -> usize {
        // What was queued before has gone by then.
        std::thread::sleep(Duration::from_millis(200));
        let before = self.sent();
        std::thread::sleep(Duration::from_millis(300));
        let after = self.sent();
        before
            .iter()
            .zip(&after)
            .filter(|(before, after)| after > before)
            .count()
    }

    fn dropped(&self, reason: &str) -> u64 {
        let rows = self.rows(&["show", "drops"]);
        let of_reason = rows.iter().filter(|row| row["reason"] == reason);
        of_reason.filter_map(|row| row["packets"].as_u64()).sum()
    }
}

fn wait(what: &str, look: impl Fn() -> bool) {
    let begun = Instant::now();
    while !look() {
        assert!(begun.elapsed() < START, "{what} within {START:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Goal: routes, hosts, spray, measuring, files and log lines change under full load. What changes is
/// in force, what cannot is refused with the cure, no packet is lost by it, and each line of the log
/// is JSON.
#[test]
fn a_loaded_switch_becomes_another_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("change{}", std::process::id());
    // Queues of four uplinks are full, when few of them carry all, before memory for packets is.
    let config = leaf(folder.path(), &name, |text| {
        text.replacen("packets = 2048", "packets = 8192", 1)
    });
    let socket = folder.path().join("s").display().to_string();
    let path = config.display().to_string();
    let switch = Started::new(&[
        "switch",
        "--config",
        &path,
        "--socket",
        &socket,
        "--json",
        "-",
        "--log-format",
        "json",
    ]);
    let subject = Subject { socket };
    wait("load", || {
        received(&subject.socket).is_some_and(|packets| packets > LOAD_PACKETS)
    });
    assert_eq!(subject.set(&["log", "info"]), ["log: warn -> info"]);
    subject.refused(&["log", "loud"], "\"loud\" is no level");

    // The capture is of one connection: with ecmp each of its flows keeps one of four paths.
    assert_eq!(subject.spread(), 4);
    let is = |what: &str| format!("{name}: {what}");
    assert_eq!(
        subject.set(&["spray", "ecmp"]),
        [is("spray.policy: jsq2 -> ecmp")]
    );
    let spread = subject.spread();
    assert!(
        (1..4).contains(&spread),
        "{spread} uplinks carry the capture's flows"
    );
    assert_eq!(
        subject.set(&["spray", "ecmp"]),
        [""; 0],
        "nothing is left to change"
    );
    subject.refused(&["spray", "fastest"], "fastest");

    // Without its route the capture goes nowhere; with it, everywhere again.
    let lost = || subject.dropped("no-route");
    assert_eq!(lost(), 0);
    subject.refused(
        &["route", "10.77.0.2/32", "leaf9"],
        "leaf9 is none of leaf0 to leaf1",
    );
    assert_eq!(
        subject.set(&["route", "10.77.0.2/32", "none"]),
        [is("route 10.77.0.2/32: leaf1 -> unset")]
    );
    wait("packets without a route", || lost() > 1000);
    subject.refused(
        &["route", "10.77.0.0/25", "leaf1"],
        "10.77.0.1 lies in 10.77.0.0/25",
    );
    assert_eq!(
        subject.set(&["route", "10.77.0.2/32", "leaf1", "--switch", &name]),
        [is("route 10.77.0.2/32: unset -> leaf1")]
    );
    // What lcores have counted is told a little later: nothing from before the change is untold once
    // packets are told that came after it.
    let traffic = || {
        let sent = || subject.sent().iter().sum::<u64>();
        let before = sent();
        wait("traffic on the route", || sent() > before + 1000);
    };
    traffic();
    let then = lost();
    traffic();
    assert_eq!(lost(), then, "a packet finds no route after it is there");

    assert_eq!(
        subject.set(&[
            "measurement",
            "evidence=hop-counts",
            "window_packets=5000",
            "off"
        ]),
        [
            is("measurement.enabled: unset -> false"),
            is("measurement.evidence: source-counts -> hop-counts"),
            is("measurement.window_packets: 67108864 -> 5000"),
        ]
    );
    subject.refused(
        &["measurement", "rows=8"],
        "measurement.rows: 1024 -> 8 cannot change while",
    );
    subject.refused(&["measurement", "evidense=x"], "did you mean \"evidence\"?");

    let neighbors = subject.rows(&["show", "neighbors"]);
    let of = |address: &str| neighbors.iter().find(|row| row["address"] == address);
    let host = of("10.77.0.1").expect("the configured host");
    assert_eq!(
        (&host["mac"], &host["state"]),
        (&"52:54:00:77:00:01".into(), &"configured".into())
    );
    // One without a MAC address is asked for once somebody sends to it; its place is there at once.
    subject.set(&["host", "10.77.0.7", "host0"]);
    let neighbors = subject.rows(&["show", "neighbors"]);
    let learned = neighbors.iter().find(|row| row["address"] == "10.77.0.7");
    assert_eq!(learned.expect("the host")["state"], "asked");

    // A file is taken over whole or not at all; it knows nothing of what was set.
    let text = std::fs::read_to_string(&config).expect("the file");
    let random = text.replacen("policy = \"jsq2\"", "policy = \"random\"", 1);
    let both = random.replacen("limit = \"1MiB\"", "limit = \"2MiB\"", 1);
    assert!(random != text && both != random);
    std::fs::write(&config, both).expect("a file");
    subject.refused(&["reload"], "queue.limit: 1MiB -> 2MiB cannot change while");
    assert!(subject.spread() < 4, "a refused file has changed the spray");
    std::fs::write(&config, random).expect("a file");
    let kill = Command::new("kill")
        .args(["-HUP", &switch.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    wait("the file's spray", || subject.spread() == 4);
    assert_eq!(
        subject.set(&["reload"]),
        [""; 0],
        "the signal has done it all"
    );

    // Every command of the document, as it stands.
    let document = std::fs::read_to_string(root().join("docs/changing.md")).expect("the document");
    let mut ran = 0;
    for command in commands(&document)
        .iter()
        .filter(|c| c.starts_with("spraycheck "))
    {
        let words = words(command);
        let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let done = subject.ask(&words);
        assert_eq!(done.status, 0, "{command}: {}", done.stderr);
        ran += 1;
    }
    assert!(ran >= 16, "only {ran} commands were run");
    assert_eq!(lost(), then);
    for reason in [
        "unresolved-neighbor",
        "no-uplink",
        "queue-memory",
        "link-down",
    ] {
        assert_eq!(subject.dropped(reason), 0, "{reason}");
    }
    wait("all uplinks", || subject.spread() == 4);

    terminate(switch.id());
    let done = switch.wait();
    assert_eq!(done.status, 0, "{}", done.stderr);
    let counters = done.json();
    assert_eq!(counters["conservation_ok"], Value::Bool(true), "{counters}");
    let lines = done.stderr.lines().map(|line| {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON ({error}): {line}"));
        assert!(
            line["level"].is_string() && line["timestamp"].is_string(),
            "{line}"
        );
        line["message"].as_str().unwrap_or_default().to_owned()
    });
    let lines: Vec<String> = lines.collect();
    for change in ["spray.policy: jsq2 -> ecmp", "spray.policy: ecmp -> random"] {
        let said = lines.iter().filter(|line| **line == is(change)).count();
        assert_eq!(said, 1, "{change}: {lines:?}");
    }
}

/// Goal: a testbed is changed like a switch: its links and spray, what is measured and the log. A link that
/// begins to lose packets is named, and the result says what was changed.
#[test]
fn a_running_testbed_is_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s").display().to_string();
    let testbed = Started::new(&[
        "testbed",
        "--leaves",
        "3",
        "--spines",
        "2",
        "--bytes",
        "64GiB",
        "--limit",
        "100s",
        "--spine-packets",
        "4096",
        "--socket",
        &socket,
        "--json",
        "-",
    ]);
    let subject = Subject { socket };
    wait("the testbed", || {
        subject.ask(&["show", "version"]).status == 0
    });
    assert_eq!(
        subject.set(&["measurement", "evidence=hop-counts", "p0=0.0001"]),
        [
            "testbed: evidence: source-counts -> hop-counts",
            "testbed: p0: 0.00002 -> 0.0001"
        ]
    );
    assert_eq!(
        subject.set(&["spray", "jsq"]),
        ["testbed: spray: jsq2 -> jsq"]
    );
    subject.refused(
        &["measurement", "leaves=9"],
        "cannot change while a testbed runs",
    );
    subject.refused(&["route", "10.9.0.0/24", "leaf1"], "follow from its size");
    subject.refused(&["reload"], "at its start alone");
    let of = |rows: &[Value], link: &str, key: &str| {
        let row = rows.iter().find(|row| row["link"] == link);
        row.unwrap_or_else(|| panic!("no {link}: {rows:?}"))[key].clone()
    };
    // Both directions of a cable leave routing; one goes down by a fault, and comes back.
    let rows = subject.rows(&["set", "link", "leaf2-spine0", "off"]);
    for link in ["leaf2>spine0", "spine0>leaf2"] {
        assert_eq!(of(&rows, link, "routing"), "off");
    }
    subject.rows(&["set", "link", "leaf2-spine0", "on"]);
    let is_down = || {
        let rows = subject.rows(&["show", "ports"]);
        let port = rows
            .iter()
            .find(|row| row["switch"] == "leaf1" && row["port"] == "spine1");
        port.expect("the port")["oper_status"] == "down"
    };
    subject.rows(&["fault", "add", "leaf1>spine1:down"]);
    wait("a dead link", is_down);
    subject.rows(&["fault", "clear", "leaf1>spine1"]);
    wait("a link that is back", || !is_down());
    // A link begins to lose packets; it is named.
    let rows = subject.rows(&["fault", "add", "leaf0>spine1:drop=0.03"]);
    assert_eq!(
        of(&rows, "leaf0>spine1", "faults"),
        serde_json::json!(["drop=0.03"])
    );
    wait("a conviction", || {
        let rows = subject.rows(&["show", "links"]);
        rows.iter()
            .any(|row| row["link"] == "leaf0>spine1" && row["state"] == "convicted")
    });
    assert_eq!(
        subject.set(&["log", "warn,agent=debug"]),
        ["log: warn -> warn,agent=debug"]
    );
    let tests = subject.rows(&["show", "flows"]).len();
    wait("another window", || {
        subject.rows(&["show", "flows"]).len() > tests
    });
    subject.set(&["log", "error"]);
    let neighbors = subject.rows(&["show", "neighbors"]);
    assert_eq!(neighbors.len(), 3, "one host a leaf: {neighbors:?}");
    terminate(testbed.id());
    let done = testbed.wait();
    let result = done.json();
    assert_eq!(
        done.status, 0,
        "it names what was injected: {}",
        done.stderr
    );
    assert!(
        done.stderr.contains("a window has ended"),
        "{}",
        done.stderr
    );
    assert_eq!(
        result["conservation"]["ok"],
        Value::Bool(true),
        "{}",
        result["conservation"]
    );
    assert_eq!(result["injected"][0]["link"], "leaf0>spine1");
    let changes = result["changes"].as_array().expect("changes");
    let said = |what: &str| changes.iter().any(|change| change["change"] == what);
    for what in [
        "testbed: spray: jsq2 -> jsq",
        "routing of leaf2>spine0: on -> off",
        "faults of leaf1>spine1: down -> none",
        "faults of leaf0>spine1: none -> drop=0.03",
    ] {
        assert!(said(what), "{what}: {changes:?}");
    }
}
