//! Everything between a window and a named link, killed with SIGKILL again and again: the monitor, the NATS server, a
//! relay and a leaf, each a process of its own.
//!
//! The leaves are played: what a leaf has told follows from the time, so one that is killed and started again knows what it
//! told. (A real switch keeps that in memory, and begins with a new boot.)
//!
//! `KILLS` and `SEED` take others; `scripts/trust monitor` has a long form.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use config::RelayFile;
use config::monitor_file::Login;
use monitor::nats::relay::Relay;
use monitor::run::{Monitor, MonitorSettings};
use monitor::shared::now;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::played::{FABRIC, ask, settings, verdict};
use crate::server::{Server, config_of, free_address};

/// Tells a process what it is: its part, its folder, the server's address, its own address or number.
const PART: &str = "MONITOR_KILLED_PART";
const FOLDER: &str = "MONITOR_KILLED_FOLDER";
const SERVER: &str = "MONITOR_KILLED_SERVER";
const OWN: &str = "MONITOR_KILLED_OWN";
const BEGUN: &str = "MONITOR_KILLED_BEGUN_NS";
const STEP: &str = "MONITOR_KILLED_STEP_NS";
/// Verdicts that each of the two leaves tells for each kill.
const VERDICTS_A_KILL: u64 = 15;
/// Time between two kills on average, and how long the killed one stays away on average.
const BETWEEN_MS: u64 = 350;
const AWAY_MS: u64 = 100;

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn number(name: &str, default: u64) -> u64 {
    var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn verdicts() -> u64 {
    VERDICTS_A_KILL * number("KILLS", 30)
}

/// What is killed. Runs as a test of its own process only.
#[tokio::test]
async fn part() {
    let (Some(part), Some(folder), Some(server)) = (var(PART), var(FOLDER), var(SERVER)) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let sockets = vec![folder.join("switches")];
    match part.as_str() {
        "monitor" => {
            let settings = MonitorSettings {
                listen: var(OWN).unwrap().parse().unwrap(),
                sockets: Vec::new(),
                nats: Some(config_of(server.parse().unwrap(), Login::None)),
                ..settings(&folder)
            };
            // The killed one's address may take a moment to be free.
            let _running = loop {
                match Monitor::start(settings.clone()).await {
                    Ok(monitor) => break monitor,
                    Err(error) => println!("{error}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            std::future::pending::<()>().await;
        }
        "relay" => {
            let name = "test".to_owned();
            let nats = config_of(server.parse().unwrap(), Login::None);
            let _running = Relay::start(RelayFile {
                name,
                sockets,
                nats,
                metrics: None,
            })
            .await
            .unwrap();
            std::future::pending::<()>().await;
        }
        _ => leaf(&sockets[0], var(OWN).unwrap().parse().unwrap()).await,
    }
}

/// A leaf whose window number N is over N steps after the beginning.
async fn leaf(folder: &Path, leaf: u16) {
    let path = folder.join(format!("leaf{leaf}.sock"));
    // That of the one that was killed.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(tell(stream, leaf));
    }
}

async fn tell(mut stream: UnixStream, leaf: u16) -> std::io::Result<()> {
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
    let (begun, step) = (number(BEGUN, 0), number(STEP, 0));
    for seq in first..=verdicts() {
        let due = (begun + step * seq).saturating_sub(now().0);
        tokio::time::sleep(Duration::from_nanos(due)).await;
        // Leaf 0 and leaf 3 send in turns.
        let src = if seq % 2 == 0 { 0 } else { 3 };
        let line = serde_json::to_string(&verdict(seq, src, leaf))?;
        stream.write_all(format!("{line}\n").as_bytes()).await?;
    }
    // Quiet, and alive, from here on.
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stream.write_all(b"\n").await?;
    }
}

/// A process, which does not outlive the test.
struct Process {
    child: Child,
    part: &'static str,
    own: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All of one run.
struct Run {
    folder: tempfile::TempDir,
    server: Server,
    listen: SocketAddr,
    begun_ns: u64,
    step_ns: u64,
    processes: Vec<Process>,
}

impl Run {
    /// Starts it; `None` without a NATS server.
    fn start(step_ns: u64) -> Option<Run> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("switches")).unwrap();
        let mut run = Run {
            server: Server::start(folder.path(), "")?,
            folder,
            listen: free_address(),
            begun_ns: now().0,
            step_ns,
            processes: Vec::new(),
        };
        let listen = run.listen.to_string();
        for (part, own) in [
            ("monitor", listen.as_str()),
            ("relay", ""),
            ("leaf", "1"),
            ("leaf", "2"),
        ] {
            let child = run.spawn(part, own);
            let own = own.to_owned();
            run.processes.push(Process { child, part, own });
        }
        Some(run)
    }

    fn spawn(&self, part: &str, own: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["killed::part", "--exact", "--nocapture"])
            .env(PART, part)
            .env(FOLDER, self.folder.path())
            .env(SERVER, self.server.address.to_string())
            .env(OWN, own)
            .env(BEGUN, self.begun_ns.to_string())
            .env(STEP, self.step_ns.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Kills the server (0) or a process, and starts it again after a while.
    fn kill(&mut self, which: usize, away: Duration) -> &'static str {
        if which == 0 {
            self.server.kill();
            std::thread::sleep(away);
            self.server.again();
            return "server";
        }
        let process = &mut self.processes[which - 1];
        process.child.kill().unwrap();
        process.child.wait().unwrap();
        std::thread::sleep(away);
        let (part, own) = (process.part, process.own.clone());
        self.processes[which - 1].child = self.spawn(part, &own);
        part
    }

    /// Verdicts recorded, and links convicted, once everything is in.
    fn outcome(&self) -> (u64, Vec<String>) {
        let begun = Instant::now();
        loop {
            let summary = self.get("/api/summary");
            let recorded = summary["summary"]["recorded"].as_u64().unwrap_or(0);
            let links = self.get("/api/links");
            let rows = links["links"].as_array().cloned().unwrap_or_default();
            let bad: Vec<String> = (rows.iter())
                .filter(|row| row["state"] == "convicted")
                .map(|row| row["link"].as_str().unwrap().to_owned())
                .collect();
            let is_over = recorded >= 2 * verdicts() && !bad.is_empty();
            if is_over || begun.elapsed() > Duration::from_secs(180) {
                return (recorded, bad);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn get(&self, path: &str) -> Value {
        if std::net::TcpStream::connect(self.listen).is_err() {
            return Value::Null;
        }
        let (status, body) = ask(self.listen, &format!("GET {path} HTTP/1.1"), "");
        match status {
            200 => serde_json::from_str(&body).unwrap_or_default(),
            _ => Value::Null,
        }
    }
}

/// Numbers from a seed (splitmix64, Steele and others 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// Goal: with the monitor, the server, the relay and the leaves killed 30 times at random moments of a run, the
/// convicted links and the count of verdicts are those of a run without kills: each verdict once, none lost.
#[test]
fn kills_change_nothing() {
    let (kills, seed) = (number("KILLS", 30), number("SEED", 1));
    // Without kills there is nothing to wait for.
    let Some(quiet) = Run::start(0) else { return };
    let undisturbed = quiet.outcome();
    drop(quiet);
    let wanted = (2 * verdicts(), vec!["leaf0>spine1".to_owned()]);
    assert_eq!(undisturbed, wanted, "without kills");

    let over = Duration::from_millis((BETWEEN_MS + AWAY_MS) * kills);
    let mut run = Run::start(over.as_nanos() as u64 / verdicts()).unwrap();
    let mut dice = Dice(seed);
    let mut killed = std::collections::BTreeMap::<&str, u64>::new();
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(dice.below(2 * BETWEEN_MS)));
        let which = dice.below(1 + run.processes.len() as u64) as usize;
        let away = Duration::from_millis(dice.below(2 * AWAY_MS));
        *killed.entry(run.kill(which, away)).or_default() += 1;
    }
    println!("seed {seed}, killed: {killed:?}");
    assert_eq!(run.outcome(), undisturbed, "seed {seed}, killed {killed:?}");
}
