//! A fabric of switches in separate processes, joined by veth pairs, with ordinary hosts in network
//! namespaces at its edge: `ping` and `traceroute` cross leaf, spine and leaf.
//!
//! Needs root, `ip`, `ping` and `traceroute`; where they are missing the test says so and is skipped.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::run::binary;

/// The namespaces of this process, one per switch and host: two AF_PACKET sockets of different
/// processes in one namespace may pick the same fanout group, and then the second fails.
pub(crate) struct Namespaces(&'static [&'static str]);

impl Namespaces {
    pub(crate) fn new(parts: &'static [&'static str]) -> Namespaces {
        for part in parts {
            let namespace = namespace(part);
            ip(&format!("netns add {namespace}"));
            ip(&format!("-n {namespace} link set lo up"));
        }
        Namespaces(parts)
    }
}

pub(crate) fn namespace(part: &str) -> String {
    format!("sc{}-{part}", std::process::id())
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for part in self.0 {
            // A namespace that is gone already is what is wanted.
            let _ = Command::new("ip")
                .args(["netns", "del", &namespace(part)])
                .status();
        }
    }
}

pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .expect("ip runs");
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A switch in its namespace, ended when dropped.
pub(crate) struct Running {
    child: Child,
    name: String,
}

impl Running {
    pub(crate) fn start(name: &str, configs: &[&Path]) -> Running {
        let configs = configs
            .iter()
            .flat_map(|path| [Path::new("--config"), path]);
        let child = Command::new("ip")
            .args(["netns", "exec", &namespace(name)])
            .arg(binary("spraycheck"))
            .args(["switch", "--json", "-"])
            .args(configs)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the switch starts");
        Running {
            child,
            name: name.to_owned(),
        }
    }

    /// Tells it to stop; returns its counters and how long it took.
    pub(crate) fn stop(mut self) -> (serde_json::Value, Duration) {
        let told = Instant::now();
        let kill = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(kill.expect("kill runs").success());
        let mut text = String::new();
        let mut stdout = self.child.stdout.take().expect("piped");
        std::io::Read::read_to_string(&mut stdout, &mut text).expect("UTF-8");
        let status = self.child.wait().expect("the child is ours");
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().expect("piped");
        std::io::Read::read_to_string(&mut stderr, &mut errors).expect("UTF-8");
        assert!(status.success(), "{}: {status}: {errors}", self.name);
        let took = told.elapsed();
        let counters = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}: {text}", self.name));
        (counters, took)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = Command::new("kill")
                .args(["-TERM", &self.child.id().to_string()])
                .status();
            let _ = self.child.wait();
        }
    }
}

/// What a switch file says of a port.
fn port(name: &str, kind: &str, mac: &str, more: &str) -> String {
    // A device's name has no dash, an interface's may.
    let device = format!("net_af_packet_{},iface={name}", name.replace('-', "_"));
    format!(
        "[[port]]\nname = \"{name}\"\nkind = \"{kind}\"\ndevice = \"{device}\"\nmac = \"{mac}\"\nrate = \"1Gbps\"\nmtu = 1500\n{more}\n"
    )
}

fn switch(name: &str, ports: &[String], routes: &str) -> String {
    format!(
        "name = \"sc{}{name}\"\nrole = \"{name}\"\n[fabric]\nleaves = 2\nspines = 1\nlink_state = \"100ms\"\n\
         [eal]\nmemory = \"no-huge\"\nsize = \"96MiB\"\nidle = \"sleep\"\n[queue]\npackets = 2048\nlimit = \"256KiB\"\n{}{routes}",
        std::process::id(),
        ports.concat()
    )
}

pub(crate) fn mac(switch: u8, port: u8) -> String {
    format!("02:00:00:00:{switch:02x}:{port:02x}")
}

/// The files of leaf0, leaf1 and spine0; interfaces are `leaf0-h`, `leaf0-s`, `spine-0` and so on.
fn write_configs(folder: &Path) -> [std::path::PathBuf; 3] {
    let leaf = |n: u8| {
        let host = format!(
            "hosts = [{{ address = \"10.9.{n}.2\", mac = \"{}\" }}]",
            mac(9, n)
        );
        let peer = format!("peer = \"spine0\"\npeer_mac = \"{}\"", mac(2, n));
        let ports = [
            port(&format!("leaf{n}-h"), "host", &mac(n, 0), &host),
            port(&format!("leaf{n}-s"), "uplink", &mac(n, 1), &peer),
        ];
        let other = 1 - n;
        let rest = format!(
            "[[route]]\nprefix = \"10.9.{other}.0/24\"\nleaf = \"leaf{other}\"\n\
             [gateway]\naddresses = [\"10.9.{n}.1\"]\n"
        );
        switch(&format!("leaf{n}"), &ports, &rest)
    };
    let down = |n: u8| {
        let peer = format!("peer = \"leaf{n}\"\npeer_mac = \"{}\"", mac(n, 1));
        port(&format!("spine-{n}"), "downlink", &mac(2, n), &peer)
    };
    let routes = "[[route]]\nprefix = \"10.9.0.0/24\"\nleaf = \"leaf0\"\n[[route]]\nprefix = \"10.9.1.0/24\"\nleaf = \"leaf1\"\n[gateway]\naddresses = [\"10.9.2.1\"]\n";
    let spine = switch("spine0", &[down(0), down(1)], routes);
    [("leaf0", leaf(0)), ("leaf1", leaf(1)), ("spine0", spine)].map(|(name, text)| {
        let path = folder.join(format!("{name}.toml"));
        fs::write(&path, text).expect("a file");
        path
    })
}

/// The veth pairs: host to leaf, leaf to spine.
fn wire() {
    let pair = |from: &str, interface: &str, to: &str, peer: &str| {
        let (from, to) = (namespace(from), namespace(to));
        ip(&format!(
            "-n {from} link add {interface} type veth peer name {peer} netns {to}"
        ));
        for (namespace, interface) in [(&from, interface), (&to, peer)] {
            let no_v6 = format!("net.ipv6.conf.{interface}.disable_ipv6=1");
            let done = Command::new("ip")
                .args(["netns", "exec", namespace, "sysctl", "-qw", &no_v6])
                .status();
            assert!(done.expect("sysctl runs").success());
            ip(&format!("-n {namespace} link set {interface} up"));
        }
    };
    for n in 0..2u8 {
        let (leaf, host) = (format!("leaf{n}"), format!("h{n}"));
        pair(&leaf, &format!("leaf{n}-h"), &host, "eth0");
        pair(
            &leaf,
            &format!("leaf{n}-s"),
            "spine0",
            &format!("spine-{n}"),
        );
        let host = namespace(&host);
        ip(&format!("-n {host} link set eth0 address {}", mac(9, n)));
        ip(&format!("-n {host} addr add 10.9.{n}.2/24 dev eth0"));
        ip(&format!("-n {host} route add 10.9.0.0/16 dev eth0"));
    }
}

/// Why this cannot run here, if so.
pub(crate) fn missing() -> Option<&'static str> {
    let runs = |program: &str, argument: &str| {
        Command::new(program)
            .arg(argument)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    };
    let is_root = fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t")));
    if !is_root {
        Some("it needs root")
    } else if !runs("ip", "-V") {
        Some("it needs `ip` (Debian package iproute2)")
    } else if !runs("ping", "-V") {
        Some("it needs `ping` (Debian package iputils-ping)")
    } else if !runs("traceroute", "--version") {
        Some("it needs `traceroute` (Debian package traceroute)")
    } else {
        None
    }
}

#[test]
fn ping_and_traceroute_cross_a_fabric_of_three_processes() {
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let _namespaces = Namespaces::new(&["leaf0", "leaf1", "spine0", "h0", "h1"]);
    wire();
    let configs = write_configs(folder.path());
    let names = ["leaf0", "leaf1", "spine0"];
    let switches: Vec<Running> = names
        .iter()
        .zip(&configs)
        .map(|(name, config)| Running::start(name, &[config]))
        .collect();
    let ping = |count: &str| {
        Command::new("ip")
            .args([
                "netns",
                "exec",
                &namespace("h0"),
                "ping",
                "-c",
                count,
                "-i",
                "0.2",
                "-W",
                "2",
                "10.9.1.2",
            ])
            .output()
            .expect("ping runs")
    };
    // The switches need a moment to start.
    let started = Instant::now();
    while !ping("1").status.success() {
        if started.elapsed() > Duration::from_secs(30) {
            let counters: Vec<_> = switches.into_iter().map(|switch| switch.stop().0).collect();
            panic!("no answer across the fabric within 30 s: {counters:#?}");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let output = ping("10");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(" 0% packet loss"), "{text}");
    // Three routers took one each from the TTL of 64.
    assert!(text.contains("ttl=61"), "{text}");
    // Every router on the way answers for itself; the way back from the spine's own address leads
    // through its leaf. The host is the fourth, and ping asks for it: on a busy machine traceroute now and
    // then takes none of a host's echo replies, though its kernel has counted them in.
    let trace = Command::new("ip")
        .args(["netns", "exec", &namespace("h0"), "traceroute", "-n"])
        .args(["-q", "1", "-w", "2", "-N", "1", "-m", "3", "-I", "10.9.1.2"])
        .output()
        .expect("traceroute runs");
    let route = String::from_utf8_lossy(&trace.stdout).into_owned();
    let hops: Vec<&str> = route
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(hops, ["10.9.0.1", "10.9.2.1", "10.9.1.1"], "{route}");
    let fourth = Command::new("ip")
        .args(["netns", "exec", &namespace("h0"), "ping", "-n"])
        .args(["-c", "1", "-W", "2", "-t", "4", "10.9.1.2"])
        .output()
        .expect("ping runs");
    let text = String::from_utf8_lossy(&fourth.stdout);
    assert!(text.contains("64 bytes from 10.9.1.2"), "{text}");
    for switch in switches {
        let name = switch.name.clone();
        let (counters, took) = switch.stop();
        assert_eq!(
            counters["conservation_ok"],
            serde_json::Value::Bool(true),
            "{name}: {counters}"
        );
        assert!(
            took < Duration::from_secs(5),
            "{name} took {took:?} to stop"
        );
        let sent = counters["counters"]["tx"].as_u64().expect("a count");
        assert!(
            sent >= 22,
            "{name}: eleven pings and their answers: {counters}"
        );
    }
}
