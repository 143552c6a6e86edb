//! `scripts/netns-fabric`: two leaves and two spines in four processes, from one fabric file, with
//! ordinary tools across them: ping over both IP versions, and TCP.
//!
//! Needs root, `ip`, `ping` and `ethtool`; TCP also `iperf3`. What is missing is said, and skipped.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::namespaces::missing;
use crate::run::{binary, root, spraycheck};

/// Until the first packet crosses.
const START: Duration = Duration::from_secs(60);

/// The fabric under a name of this process, brought down when dropped.
pub(crate) struct Fabric {
    pub(crate) name: String,
    pub(crate) folder: tempfile::TempDir,
}

impl Fabric {
    pub(crate) fn new() -> Fabric {
        Fabric {
            name: format!("t{}", std::process::id()),
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Runs the script with its own options before `arguments`.
    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(root().join("scripts/netns-fabric"))
            .env("SPRAYCHECK", binary("spraycheck"))
            .args(["--name", &self.name, "--dir"])
            .arg(self.folder.path().join("run"))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("the script runs")
    }

    /// As `run`; the standard output of what must succeed.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{arguments:?}: {}: {text}{}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr),
            self.logs()
        );
        text
    }

    /// Where the script keeps files, logs and sockets.
    pub(crate) fn run_folder(&self) -> std::path::PathBuf {
        self.folder.path().join("run")
    }

    fn logs(&self) -> String {
        let read = |name| {
            let path = self.folder.path().join("run").join(name);
            std::fs::read_to_string(path).unwrap_or_default()
        };
        ["leaf0.log", "leaf1.log", "spine0.log", "spine1.log"]
            .map(read)
            .concat()
    }

    fn namespaces(&self) -> usize {
        let output = Command::new("ip").args(["netns", "list"]).output();
        let text = output.expect("ip runs").stdout;
        let prefix = format!("{}-", self.name);
        String::from_utf8_lossy(&text)
            .lines()
            .filter(|line| line.starts_with(&prefix))
            .count()
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.run(&["down"]);
    }
}

/// The example with a name of this process, for EAL's files are the machine's.
pub(crate) fn fabric_file(folder: &Path, name: &str) -> String {
    let example = root().join("docs/examples/fabric.toml");
    let text = std::fs::read_to_string(example).expect("the example");
    let path = folder.join("fabric.toml");
    let text = text.replacen("name = \"lab\"", &format!("name = \"{name}\""), 1);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

fn is_there(program: &str) -> bool {
    let run = Command::new(program).arg("--version").output();
    run.is_ok()
}

#[test]
fn ping_and_iperf3_cross_a_fabric_of_four_processes() {
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    if !is_there("ethtool") {
        println!("skipped: it needs `ethtool` (Debian package ethtool)");
        return;
    }
    let fabric = Fabric::new();
    let file = fabric_file(fabric.folder.path(), &fabric.name);
    fabric.done(&["up", &file]);
    assert_eq!(fabric.namespaces(), 6);
    // A second time there is nothing to do.
    let again = fabric.done(&["up", &file]);
    assert!(again.contains("is up already"), "{again}");
    // Leaves use a spine once they have heard from it.
    let begun = Instant::now();
    while !fabric
        .run(&["exec", "h0.0", "ping", "-c", "1", "-W", "1", "h1.0"])
        .status
        .success()
    {
        assert!(
            begun.elapsed() < START,
            "no answer within {START:?}: {}",
            fabric.logs()
        );
    }
    for (version, address) in [("-4", "10.77.1.1"), ("-6", "fd77:0:0:1::1")] {
        let ping = [
            "exec", "h0.0", "ping", version, "-c", "10", "-i", "0.1", "-W", "5",
        ];
        let output = fabric.run(&[&ping[..], &["h1.0"]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(" 0% packet loss"), "{text}{}", fabric.logs());
        // The name is that of the generated hosts file; leaf, spine and leaf took one each of 64.
        assert!(text.contains(address), "{text}");
        assert!(text.contains("ttl=61"), "{text}");
    }
    if is_there("iperf3") {
        iperf3(&fabric);
    } else {
        println!("skipped in part: TCP needs `iperf3` (Debian package iperf3)");
    }
    changes_lose_nothing(&fabric);
    let status = fabric.done(&["status"]);
    for name in ["leaf0", "leaf1", "spine0", "spine1"] {
        assert!(status.contains(&format!("{name} runs: ")), "{status}");
    }
    fabric.done(&["down"]);
    fabric.done(&["down"]);
    assert_eq!(fabric.namespaces(), 0);
    assert_eq!(fabric.run(&["status"]).status.code(), Some(1));
    for name in ["leaf0", "leaf1", "spine0", "spine1"] {
        let path = fabric.folder.path().join(format!("run/{name}.json"));
        let text = std::fs::read_to_string(path).expect("counters of each switch");
        let counters: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(counters["conservation_ok"], true, "{name}: {counters}");
        let sent = counters["counters"]["tx"].as_u64().expect("a count");
        assert!(sent >= 20, "{name}: pings over two spines: {counters}");
    }
}

/// Links, spray, measuring and routes of a leaf change, and its file is read again, while pings of both IP
/// versions cross it: none is lost.
fn changes_lose_nothing(fabric: &Fabric) {
    let mut pings = ["-4", "-6"].map(|version| {
        Command::new(root().join("scripts/netns-fabric"))
            .env("SPRAYCHECK", binary("spraycheck"))
            .args(["--name", &fabric.name, "--dir"])
            .arg(fabric.folder.path().join("run"))
            .args([
                "exec", "h0.0", "ping", version, "-q", "-i", "0.02", "-c", "200", "-W", "5", "h1.0",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script runs")
    });
    let socket = fabric.folder.path().join("run/leaf0.sock");
    let socket = socket.display().to_string();
    for change in [
        &["link", "leaf0>spine1", "off"][..],
        &["spray", "random"],
        &["measurement", "evidence=hop-counts"],
        &["route", "10.77.200.0/24", "leaf1"],
        &["link", "leaf0>spine1", "on"],
        &["link", "leaf0>spine0", "off"],
        &["measurement", "off"],
        &["reload"],
        &["link", "leaf0>spine0", "on"],
    ] {
        let done = spraycheck(&[&["set"], change, &["--socket", &socket]].concat());
        assert_eq!(done.status, 0, "{change:?}: {}{}", done.stdout, done.stderr);
        std::thread::sleep(Duration::from_millis(200));
    }
    let show = spraycheck(&["show", "links", "--socket", &socket]);
    assert_eq!(show.status, 0, "{}", show.stderr);
    for ping in &mut pings {
        assert!(
            matches!(ping.try_wait(), Ok(None)),
            "it pings for as long as there are changes"
        );
    }
    for ping in pings {
        let output = ping.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.contains("200 received, 0% packet loss"),
            "{text}{}",
            fabric.logs()
        );
    }
}

/// TCP in both directions at once, whole segments and their acknowledgements over both spines.
fn iperf3(fabric: &Fabric) {
    let server = fabric.done(&["exec", "h1.0", "iperf3", "-s", "-D", "-1", "--forceflush"]);
    assert!(server.is_empty(), "{server}");
    let client = ["exec", "h0.0", "iperf3", "-c", "h1.0", "-n", "8M", "--json"];
    let mut last = String::new();
    for _ in 0..50 {
        let output = fabric.run(&client);
        last = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            let report: serde_json::Value = serde_json::from_str(&last).expect("JSON");
            let bytes = report["end"]["sum_received"]["bytes"].as_f64();
            // What is on its way when the client has sent all is not counted.
            assert!(bytes.is_some_and(|bytes| bytes >= 4e6), "{report}");
            return;
        }
        // The server needs a moment to listen.
        assert!(last.contains("unable to connect"), "{last}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("iperf3 never reached its server: {last}");
}
