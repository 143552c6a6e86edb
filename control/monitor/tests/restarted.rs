//! A whole monitor, as a process of its own, that is killed with SIGKILL while switches tell it verdicts.

mod played;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use monitor::run::{Monitor, MonitorSettings};
use played::{FABRIC, PATIENCE, ask, settings, verdict};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// Tells the process its folder, and where it listens.
const WHERE: &str = "MONITOR_RESTARTED_FOLDER";
const LISTEN: &str = "MONITOR_RESTARTED_LISTEN";
/// Verdicts that each of the two switches tells.
const VERDICTS: u64 = 600;
/// Time between two of them.
const PAUSE: Duration = Duration::from_millis(4);
/// Kills of the monitor.
const KILLS: u64 = 10;

/// What is killed. Runs as a test of its own process only.
#[tokio::test]
async fn monitor() {
    let (Some(folder), Ok(listen)) = (std::env::var_os(WHERE), std::env::var(LISTEN)) else {
        return;
    };
    let settings = MonitorSettings {
        listen: listen.parse().unwrap(),
        ..settings(Path::new(&folder))
    };
    // The killed one's address may take a moment to be free.
    let _running = loop {
        match Monitor::start(settings.clone()).await {
            Ok(monitor) => break monitor,
            Err(error) => println!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    tokio::time::sleep(Duration::from_secs(600)).await;
}

/// A switch that keeps all that it tells, as fast as its clock says; every so many it drops its connection.
async fn switch(path: PathBuf, leaf: u16) {
    let listener = UnixListener::bind(&path).unwrap();
    let begun = Instant::now();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(tell(stream, leaf, begun));
    }
}

async fn tell(mut stream: UnixStream, leaf: u16, begun: Instant) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(&mut stream).read_line(&mut line).await?;
    let asked: Value = serde_json::from_str(&line)?;
    let first = asked["verdicts"]["from"].as_u64().unwrap_or(1);
    let name = format!("leaf{leaf}");
    let hello = json!({ "hello": {
        "name": name, "boot": "00000000000000aa", "oldest": 1, "next": 1,
        "leaves": FABRIC.leaves, "spines": FABRIC.spines, "speaks": [name],
    } });
    stream.write_all(format!("{hello}\n").as_bytes()).await?;
    for seq in first..=VERDICTS {
        let due = PAUSE * seq as u32;
        tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
        // Leaf 0 and leaf 3 send in turns.
        let src = if seq % 2 == 0 { 0 } else { 3 };
        let line = serde_json::to_string(&verdict(seq, src, leaf))?;
        stream.write_all(format!("{line}\n").as_bytes()).await?;
        if seq % 97 == 0 {
            return Ok(());
        }
    }
    // Quiet, and alive, from here on.
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stream.write_all(b"\n").await?;
    }
}

/// The process, which does not outlive the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path, listen: SocketAddr) -> Process {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["monitor", "--exact", "--nocapture"])
        .env(WHERE, folder)
        .env(LISTEN, listen.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Process(child.unwrap())
}

/// Verdicts recorded and links convicted, once everything is in.
async fn outcome(listen: SocketAddr) -> (u64, Vec<String>) {
    let begun = Instant::now();
    loop {
        let answer = |path: &'static str| {
            tokio::task::spawn_blocking(move || -> Option<Value> {
                std::net::TcpStream::connect(listen).ok()?;
                let (status, body) = ask(listen, &format!("GET {path} HTTP/1.1"), "");
                (status == 200).then(|| serde_json::from_str(&body).ok())?
            })
        };
        let summary = answer("/api/summary")
            .await
            .ok()
            .flatten()
            .unwrap_or_default();
        let recorded = summary["summary"]["recorded"].as_u64().unwrap_or(0);
        let links = answer("/api/links")
            .await
            .ok()
            .flatten()
            .unwrap_or_default();
        let rows = links["links"].as_array().cloned().unwrap_or_default();
        let bad: Vec<String> = (rows.iter())
            .filter(|row| row["state"] == "convicted")
            .map(|row| row["link"].as_str().unwrap().to_owned())
            .collect();
        let is_over = recorded >= 2 * VERDICTS && !bad.is_empty();
        if is_over || begun.elapsed() > PATIENCE {
            return (recorded, bad);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Goal: with ten kills of the monitor and broken connections in between, the convicted links and the count of
/// verdicts are those of a run without: each verdict once, none lost.
#[tokio::test]
async fn kills_change_nothing() {
    let mut outcomes = Vec::new();
    for kills in [0, KILLS] {
        let folder = tempfile::tempdir().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = free.local_addr().unwrap();
        drop(free);
        let switches: Vec<_> = [1, 2]
            .map(|leaf| tokio::spawn(switch(folder.path().join(format!("leaf{leaf}.sock")), leaf)))
            .into();
        let mut process = start(folder.path(), listen);
        for kill in 0..kills {
            // Over the whole run, at another moment of a commit each time.
            tokio::time::sleep(Duration::from_micros(210_000 + kill * 7_919)).await;
            drop(process);
            process = start(folder.path(), listen);
        }
        outcomes.push(outcome(listen).await);
        drop(process);
        for switch in switches {
            switch.abort();
        }
    }
    let wanted = (2 * VERDICTS, vec!["leaf0>spine1".to_owned()]);
    assert_eq!(outcomes, [wanted.clone(), wanted]);
}
