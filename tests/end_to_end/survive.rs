//! What survives: a leaf or spine killed with SIGKILL in the middle of measured flows on devices that
//! live on, a poll loop that stands still, a full disk under a capture and under the monitor's history.
//!
//! Flows are RoCE packets of this program itself, started again in the hosts' namespaces. How long it
//! took until all is right again is printed; `cargo test -p tests survive -- --nocapture`.

use std::io::Write;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::namespaces::missing;
use crate::netns_fabric::{Fabric, fabric_file};
use crate::run::{binary, spraycheck};

/// Where the packets go; says to a process of this program that it is the sender.
const SEND_TO: &str = "SURVIVE_SEND_TO";
/// Where arrivals are written down; says that it is the receiver.
const ARRIVALS: &str = "SURVIVE_ARRIVALS";
/// Packets of a burst, one each [`PACE`]: 4,000 a second, with 1 KiB each.
const BURST: u32 = 8;
const PACE: Duration = Duration::from_millis(2);
/// Arrivals are added up over so long.
const SPAN: Duration = Duration::from_millis(50);
/// All that takes time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A RoCEv2 packet behind its UDP header: RC WRITE Middle to QP 17.
fn payload(psn: u32) -> Vec<u8> {
    let mut bytes = vec![0u8; 12 + 1024 + 4];
    bytes[0] = 0x07;
    bytes[3] = 0xff;
    bytes[7] = 17;
    bytes[8..12].copy_from_slice(&(psn & 0x00ff_ffff).to_be_bytes());
    bytes
}

/// The sender, in a host's namespace, until it is killed. Runs as a test of its own process only.
#[test]
fn sender() {
    let Ok(to) = std::env::var(SEND_TO) else {
        return;
    };
    let socket = UdpSocket::bind("0.0.0.0:49999").expect("a port");
    let (mut psn, begun) = (0u32, Instant::now());
    loop {
        for _ in 0..BURST {
            // Nobody may be there yet.
            let _ = socket.send_to(&payload(psn), &to);
            psn += 1;
        }
        let due = PACE * (psn / BURST);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
}

/// The receiver: a line for each [`SPAN`] with packets received and the highest PSN. Likewise.
#[test]
fn receiver() {
    let Ok(path) = std::env::var(ARRIVALS) else {
        return;
    };
    let socket = UdpSocket::bind("0.0.0.0:4791").expect("the port of RoCE");
    socket.set_read_timeout(Some(SPAN)).expect("a timeout");
    let mut file = std::fs::File::create(path).expect("a file");
    let (mut received, mut highest, mut written) = (0u64, 0u32, Instant::now());
    let mut bytes = [0; 2048];
    loop {
        if let Ok(len @ 12..) = socket.recv(&mut bytes) {
            received += 1;
            let psn = u32::from_be_bytes(bytes[8..12].try_into().expect("four bytes"));
            highest = highest.max(psn);
            assert!(len > 1024, "{len} bytes");
        }
        if written.elapsed() >= SPAN {
            written = Instant::now();
            writeln!(file, "{received} {highest}").expect("it is written");
        }
    }
}

/// Ends a process when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This program again, as a test of that name in a host's namespace.
fn on_host(fabric: &Fabric, host: &str, test: &str, variable: (&str, &str)) -> Killed {
    let child = Command::new("ip")
        .args(["netns", "exec", &format!("{}-{host}", fabric.name)])
        .arg(std::env::current_exe().expect("a running test has a path"))
        .args([&format!("survive::{test}"), "--exact", "--nocapture"])
        .env(variable.0, variable.1)
        .stdout(Stdio::null())
        .spawn();
    Killed(child.expect("it starts"))
}

/// What has arrived: packets and the highest PSN, span by span.
fn arrivals(path: &Path) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let numbers = |line: &str| {
        let (received, highest) = line.split_once(' ')?;
        Some((received.parse().ok()?, highest.parse().ok()?))
    };
    text.lines().filter_map(numbers).collect()
}

/// Waits until so many spans one after the other lose nothing; how long that took.
fn until_whole(path: &Path, spans: usize) -> Duration {
    let begun = Instant::now();
    let from = arrivals(path).len();
    loop {
        let seen = arrivals(path);
        let is_whole = |pair: &[(u64, u64)]| {
            let (packets, numbers) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            // A packet that one spine delays is counted in the span after.
            packets > 0 && packets + 16 >= numbers
        };
        let after = &seen[from.min(seen.len())..];
        let whole = after
            .windows(2)
            .rev()
            .take_while(|pair| is_whole(pair))
            .count();
        if whole >= spans {
            return begun.elapsed().saturating_sub(SPAN * spans as u32);
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "packets are still lost after {PATIENCE:?}: {after:?}"
        );
        std::thread::sleep(SPAN);
    }
}

/// The daemon of a switch of the fabric, and what started it.
fn processes(fabric: &Fabric, switch: &str) -> (u32, u32) {
    let pid = std::fs::read_to_string(fabric.run_folder().join(format!("{switch}.pid")));
    let command: u32 = pid.expect("it runs").trim().parse().expect("a number");
    let children = std::fs::read_to_string(format!("/proc/{command}/task/{command}/children"));
    let daemon = children
        .expect("it has a child")
        .split_whitespace()
        .next()
        .map(str::to_owned);
    (
        daemon.expect("a daemon").parse().expect("a number"),
        command,
    )
}

fn signal(what: &str, process: u32) {
    let done = Command::new("kill")
        .args([what, &process.to_string()])
        .status();
    assert!(done.expect("kill runs").success(), "{what} {process}");
}

/// Starts a switch of the fabric as the script does.
fn start(fabric: &Fabric, switch: &str) {
    let folder = fabric.run_folder();
    let file = |extension: &str| folder.join(format!("{switch}.{extension}"));
    let log = std::fs::File::create(file("log")).expect("a log");
    #[allow(
        clippy::zombie_processes,
        reason = "the script stops it by its number, and it outlives the test's own look at it"
    )]
    let child = Command::new("ip")
        .args(["netns", "exec", &format!("{}-{switch}", fabric.name)])
        .arg(binary("spraycheck"))
        .args([
            "switch".as_ref(),
            "--config".as_ref(),
            file("toml").as_os_str(),
        ])
        .args([
            "--socket".as_ref(),
            file("sock").as_os_str(),
            "--json".as_ref(),
            file("json").as_os_str(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("it starts");
    std::fs::write(file("pid"), child.id().to_string()).expect("its number");
}

fn show(fabric: &Fabric, switch: &str, what: &str) -> Vec<Value> {
    let socket = fabric
        .run_folder()
        .join(format!("{switch}.sock"))
        .display()
        .to_string();
    let done = spraycheck(&["show", what, "--socket", &socket, "--json", "-"]);
    match done.status {
        0 => done.json()["rows"].as_array().cloned().unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Tests of leaf1 so far, by spine: healthy and failed ones.
fn tests(fabric: &Fabric) -> [(usize, usize); 2] {
    let rows = show(fabric, "leaf1", "tests");
    ["spine0", "spine1"].map(|spine| {
        let of = |state: &str| {
            rows.iter()
                .filter(|row| row["via"] == spine && row["state"] == state)
                .count()
        };
        (of("healthy"), of("failed"))
    })
}

/// Waits for so many healthy tests of both spines more than `before`; how long that took.
fn until_tested(fabric: &Fabric, before: [(usize, usize); 2], more: usize) -> Duration {
    let begun = Instant::now();
    loop {
        let now = tests(fabric);
        if now
            .iter()
            .zip(before)
            .all(|(now, before)| now.0 >= before.0 + more)
        {
            return begun.elapsed();
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "no tests of both spines within {PATIENCE:?}: {now:?}"
        );
        std::thread::sleep(SPAN);
    }
}

/// Goal: a spine that is killed with SIGKILL while a flow over it is measured is left within three link
/// states, one that is started again is used and tested again, a stopped poll loop likewise, and a leaf
/// that is killed counts anew. No path over the other spine fails, whatever happens.
///
/// Fault: a leaf or spine is killed with SIGKILL in the middle of measured flows, devices live on
/// Forwarding: over the other spine once three link states are missed; through a leaf when it is back
/// Verdicts: no path over the other spine fails
/// Counter: `link-state-changes`
/// Right again: printed: after about 0.4 s without the spine, 1 s to 3 s with the switch started again
#[test]
fn a_switch_killed_in_the_middle_of_measured_flows_is_back_by_itself() {
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    let fabric = Fabric::new();
    let file = fabric_file(fabric.folder.path(), &fabric.name);
    fabric.done(&["up", &file]);
    let arrived = fabric.folder.path().join("arrivals");
    let _receiver = on_host(
        &fabric,
        "h1.0",
        "receiver",
        (ARRIVALS, &arrived.display().to_string()),
    );
    let _sender = on_host(&fabric, "h0.0", "sender", (SEND_TO, "10.77.1.1:4791"));
    until_whole(&arrived, 10);
    until_tested(&fabric, [(0, 0); 2], 1);

    let (daemon, command) = processes(&fabric, "spine0");
    signal("-KILL", daemon);
    signal("-KILL", command);
    let left = until_whole(&arrived, 10);
    println!("spine0 killed: all packets arrive again after {left:.1?}");
    let before = tests(&fabric);
    start(&fabric, "spine0");
    let again = until_tested(&fabric, before, 1);
    println!("spine0 started: both spines are tested again after {again:.1?}");

    // A poll loop that stands still for two seconds is a spine that says nothing, and then a spine.
    let (daemon, _) = processes(&fabric, "spine0");
    signal("-STOP", daemon);
    std::thread::sleep(Duration::from_secs(2));
    until_whole(&arrived, 5);
    let before = tests(&fabric);
    signal("-CONT", daemon);
    let again = until_tested(&fabric, before, 1);
    println!("spine0 stood still for 2 s: both spines are tested again after {again:.1?}");
    let failed = tests(&fabric)[1].1;

    let (daemon, command) = processes(&fabric, "leaf1");
    signal("-KILL", daemon);
    signal("-KILL", command);
    start(&fabric, "leaf1");
    let left = until_whole(&arrived, 10);
    let again = left + until_tested(&fabric, [(0, 0); 2], 1);
    println!(
        "leaf1 killed and started: all packets arrive after {left:.1?}, both spines are tested after {again:.1?}"
    );
    let failed = failed + tests(&fabric)[1].1;
    assert_eq!(
        failed,
        0,
        "a path over spine1 failed: {:#?}",
        show(&fabric, "leaf1", "tests")
    );
}

/// Mounts a small disk in a mount namespace of its own and runs a shell there.
fn on_a_small_disk(kilobytes: u32, folder: &Path, script: &str) -> std::process::Output {
    let place = folder.join("disk");
    std::fs::create_dir_all(&place).expect("a folder");
    let mount = format!(
        "mount -t tmpfs -o size={kilobytes}k none {} && {script}",
        place.display()
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &mount])
        .output();
    output.expect("unshare runs")
}

/// Goal: a capture onto a disk that is full ends with the reason, and the switch under it goes on.
///
/// Fault: the disk is full under a capture
/// Forwarding: goes on
/// Verdicts: untouched
/// Counter: -
/// Right again: the capture ends at once and says why; the next one needs room
#[test]
fn a_full_disk_ends_the_capture_and_nothing_else() {
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let config = crate::life::leaf(
        folder.path(),
        &format!("full{}", std::process::id()),
        str::to_owned,
    );
    let config = config.display().to_string();
    let socket = folder.path().join("s").display().to_string();
    let switch = crate::run::Started::new(&[
        "switch", "--config", &config, "--socket", &socket, "--json", "-",
    ]);
    let begun = Instant::now();
    while crate::life::received(&socket).is_none_or(|packets| packets < crate::life::LOAD_PACKETS) {
        assert!(begun.elapsed() < crate::life::START, "no load");
        std::thread::sleep(Duration::from_millis(20));
    }
    let out: PathBuf = folder.path().join("disk/full.pcapng");
    let script = format!(
        "exec {} capture --socket {socket} --seconds 60 --out {}",
        binary("spraycheck").display(),
        out.display()
    );
    let begun = Instant::now();
    let output = on_a_small_disk(64, folder.path(), &script);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("No space left on device") && said.contains("full.pcapng"),
        "{said}"
    );
    assert!(begun.elapsed() < PATIENCE, "it ends when the disk is full");
    // The switch under it forwards as before, and its captures are over.
    let before = crate::life::received(&socket).expect("it answers");
    let begun = Instant::now();
    while crate::life::received(&socket)
        .is_none_or(|packets| packets < before + crate::life::LOAD_PACKETS)
    {
        assert!(begun.elapsed() < crate::life::START, "it forwards no more");
        std::thread::sleep(Duration::from_millis(20));
    }
    crate::life::terminate(switch.id());
    let done = switch.wait();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(done.json()["conservation_ok"], true);
}

/// Goal: a monitor whose disk is full says so, keeps what it knows and loses nothing: verdicts wait in
/// their switches, and are written down when there is room again.
///
/// Fault: the disk is full under the monitor's history
/// Forwarding: goes on
/// Verdicts: what was named stays named; new ones wait in their switches
/// Counter: `missed`
/// Right again: printed: a second after there is room, by itself
#[test]
fn a_monitor_whose_disk_is_full_goes_on_when_there_is_room() {
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir_all(path("disk")).expect("a folder");
    let text = "[fabric]\nleaves = 3\nspines = 2\n[switches]\nsockets = [\"testbed.sock\"]\n[history]\nfile = \"disk/monitor.db\"\n";
    std::fs::write(path("monitor.toml"), text).expect("the monitor's file");
    let address = crate::monitor::free_address();
    let script = format!(
        "mount -t tmpfs -o size=16m none {} && exec {} monitor --config {} --listen {address} --socket {}",
        path("disk"),
        binary("spraycheck").display(),
        path("monitor.toml"),
        path("monitor.sock")
    );
    let monitor = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .spawn();
    let monitor = Killed(monitor.expect("unshare runs"));
    let socket = path("testbed.sock");
    let testbed = [
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
        "8MiB",
        "--fail",
        "leaf1>spine0:drop=0.05",
        "--socket",
        &socket,
    ];
    let testbed = crate::run::Started::new(&testbed);
    let named = || crate::monitor::convicted(address).filter(|links| links == &["leaf1>spine0"]);
    crate::monitor::wait_for("conviction", named);
    let summary = || crate::monitor::get(address, "/api/summary");
    // From outside its mount namespace, the disk is seen through the process.
    let filler = PathBuf::from(format!(
        "/proc/{}/root{}",
        monitor.0.id(),
        path("disk/filler")
    ));
    let mut file = std::fs::File::create(&filler).expect("the disk is there");
    let full = file.write_all(&vec![0; 64 << 20]).expect_err("it is full");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    let trouble = crate::monitor::wait_for("trouble", || {
        summary()?["summary"]["trouble"].as_str().map(str::to_owned)
    });
    assert!(trouble.contains("full"), "{trouble}");
    let recorded = |summary: &Value| summary["summary"]["recorded"].as_u64();
    let before = recorded(&summary().expect("it answers")).expect("a count");
    assert!(named().is_some(), "what was named stays named");
    drop(file);
    std::fs::remove_file(&filler).expect("it is ours");
    let begun = Instant::now();
    crate::monitor::wait_for("verdicts that are written down again", || {
        let now = summary()?;
        (recorded(&now)? > before && now["summary"]["trouble"].is_null()).then_some(())
    });
    println!(
        "the disk has room: verdicts are written down after {:.1?}",
        begun.elapsed()
    );
    assert!(named().is_some());
    crate::life::terminate(testbed.id());
    testbed.wait();
}
