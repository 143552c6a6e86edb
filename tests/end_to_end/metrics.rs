//! Metrics of a running testbed, scraped by Prometheus itself; its rules and dashboard are sound.
//!
//! Needs `prometheus` and `promtool` (Debian package prometheus: `scripts/packages metrics`), on PATH or
//! in the folder that `PROMETHEUS_BIN` names; without them that part says so and is skipped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::run::{Started, root};

/// A port that was free a moment ago.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address")
}

/// The body of an answer; `None` if nobody answers, or not with success.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.lines()
        .next()?
        .contains(" 200 ")
        .then(|| body.to_owned())
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no {what} within a minute"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A testbed that runs until it is told to stop, with a lossy link.
fn testbed(address: SocketAddr) -> Started {
    Started::new(&[
        "testbed",
        "--leaves",
        "3",
        "--spines",
        "2",
        "--iterations",
        "1000000",
        "--limit",
        "300s",
        "--bytes",
        "4MiB",
        "--fail",
        "leaf0>spine1:drop=0.02",
        "--metrics",
        &address.to_string(),
    ])
}

fn stop(testbed: Started) {
    let id = testbed.id().to_string();
    let kill = Command::new("kill").args(["-TERM", &id]).status();
    assert!(kill.expect("kill runs").success());
    testbed.wait();
}

/// Where Prometheus' programs are.
fn prometheus(program: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("PROMETHEUS_BIN").map(PathBuf::from);
    let path = folder.map_or(PathBuf::from(program), |folder| folder.join(program));
    let runs = Command::new(&path).arg("--version").output();
    runs.is_ok_and(|output| output.status.success())
        .then_some(path)
}

#[test]
fn a_running_testbed_is_scraped() {
    let address = free_address();
    let testbed = testbed(address);
    let text = wait_for("measured windows", || {
        let text = get(address, "/metrics")?;
        let is_counted = |line: &str| {
            let count = line.strip_prefix("spraycheck_windows_total ");
            count.is_some_and(|count| count != "0")
        };
        text.lines().any(is_counted).then_some(text)
    });
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(
        text.contains("spraycheck_interface_oper_status{switch=\"spine1\",port="),
        "{text}"
    );
    match (prometheus("prometheus"), prometheus("promtool")) {
        (Some(server), Some(promtool)) => {
            checked_by_promtool(&promtool);
            scraped_by_prometheus(&server, address);
        }
        _ => println!(
            "skipped in part: no prometheus here (scripts/packages metrics, or PROMETHEUS_BIN)"
        ),
    }
    stop(testbed);
}

fn checked_by_promtool(promtool: &std::path::Path) {
    let folder = root().join("scripts/prometheus");
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["check", "config", "prometheus.yml"],
    ] {
        let output = Command::new(promtool)
            .args(arguments)
            .current_dir(&folder)
            .output()
            .expect("promtool");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// A process that ends with the test.
struct Server(std::process::Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The rules' own expressions are asked of a Prometheus that scrapes the testbed each second.
fn scraped_by_prometheus(server: &std::path::Path, target: SocketAddr) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files:\n  - {}\n\
         scrape_configs:\n  - job_name: spraycheck\n    static_configs:\n      - targets: [\"{target}\"]\n",
        root().join("scripts/prometheus/alerts.yml").display()
    );
    let path = folder.path().join("prometheus.yml");
    std::fs::write(&path, config).expect("a file");
    let address = free_address();
    let child = Command::new(server)
        .arg(format!("--config.file={}", path.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.path().join("data").display()
        ))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("prometheus starts");
    let _server = Server(child);
    let ask = |query: &str| -> Option<Value> {
        let text = get(address, &format!("/api/v1/query?query={query}"))?;
        let answer: Value = serde_json::from_str(&text).ok()?;
        let results = answer["data"]["result"].as_array()?;
        (!results.is_empty()).then(|| answer["data"]["result"].clone())
    };
    let up = wait_for("scrape", || ask("up%3D%3D1"));
    assert_eq!(up[0]["metric"]["job"], "spraycheck", "{up}");
    let sent = wait_for("rate of sent packets", || {
        ask("sum(rate(spraycheck_interface_out_pkts_total[5s]))%3E0")
    });
    assert!(sent[0]["value"][1].is_string(), "{sent}");
    // The lossy link is convicted, and the rule of the alert fires for it.
    let alert = wait_for("alert", || ask("ALERTS%7Balertname%3D%22GrayFailure%22%7D"));
    assert_eq!(alert[0]["metric"]["link"], "leaf0>spine1", "{alert}");
    assert_eq!(alert[0]["metric"]["alertstate"], "firing", "{alert}");
}

/// Goal: every metric that the dashboard and the rules ask for is one that is served.
#[test]
fn dashboard_and_rules_ask_for_what_there_is() {
    let address = free_address();
    let testbed = testbed(address);
    let text = wait_for("metrics", || get(address, "/metrics"));
    stop(testbed);
    let folder = root().join("scripts/prometheus");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a file");
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).expect("JSON");
    assert!(
        dashboard["panels"]
            .as_array()
            .is_some_and(|panels| panels.len() >= 8)
    );
    let asked = read("dashboard.json") + &read("alerts.yml");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut seen = 0;
    for name in asked
        .split(|c: char| !is_word(c))
        .filter(|word| word.starts_with("spraycheck_"))
    {
        let base = name.trim_end_matches("_total");
        assert!(
            text.contains(&format!("# TYPE {base} ")),
            "nothing is called {name}"
        );
        seen += 1;
    }
    assert!(seen > 15, "{seen} names");
}
