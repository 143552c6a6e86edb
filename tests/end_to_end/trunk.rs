//! Three switches in one process, on two lcores, whose links share one pair of devices by VLAN; hosts in
//! network namespaces ping and trace each other over IPv4 and IPv6.
//!
//! Needs what `namespaces` needs; where it is missing the test says so and is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::namespaces::{Namespaces, Running, ip, mac, missing, namespace};

/// VLAN ids of the cables leaf0 to spine0 and leaf1 to spine0.
const VLANS: [u16; 2] = [100, 101];

fn port(name: &str, kind: &str, interface: &str, mac: &str, more: &str) -> String {
    let device = format!("net_af_packet_{interface},iface={interface}");
    format!(
        "[[port]]\nname = \"{name}\"\nkind = \"{kind}\"\ndevice = \"{device}\"\nmac = \"{mac}\"\nrate = \"1Gbps\"\nmtu = 1400\n{more}\n"
    )
}

fn switch(name: &str, rest: &str) -> String {
    format!(
        "name = \"sct{}{name}\"\nrole = \"{name}\"\n[fabric]\nleaves = 2\nspines = 1\nlink_state = \"100ms\"\n\
         [eal]\nmemory = \"no-huge\"\nsize = \"64MiB\"\nidle = \"sleep\"\nlcores = 2\n\
         [queue]\npackets = 1024\nlimit = \"256KiB\"\n{rest}",
        std::process::id()
    )
}

/// The files of leaf0, leaf1 and spine0. The leaves' uplinks are on t0, the spine's downlinks on t1.
fn write_configs(folder: &Path) -> Vec<PathBuf> {
    let leaf = |n: u8| {
        let host_mac = mac(9, n);
        let hosts = format!(
            "hosts = [{{ address = \"10.8.{n}.2\", mac = \"{host_mac}\" }}, {{ address = \"fd08:0:0:{n}::2\", mac = \"{host_mac}\" }}]"
        );
        let vlan = VLANS[usize::from(n)];
        let peer = format!(
            "peer = \"spine0\"\npeer_mac = \"{}\"\nvlan = {vlan}",
            mac(2, n)
        );
        let other = 1 - n;
        let rest = port("h", "host", &format!("l{n}"), &mac(n, 0), &hosts)
            + &port("up", "uplink", "t0", &mac(n, 1), &peer)
            + &format!(
                "[[device]]\nname = \"net_af_packet_t0\"\nrate = \"1Gbps\"\nlcore = 0\n\
                 [[route]]\nprefix = \"10.8.{other}.0/24\"\nleaf = \"leaf{other}\"\n\
                 [[route]]\nprefix = \"fd08:0:0:{other}::/64\"\nleaf = \"leaf{other}\"\n\
                 [gateway]\naddresses = [\"10.8.{n}.1\", \"fd08:0:0:{n}::1\"]\n"
            );
        switch(&format!("leaf{n}"), &rest)
    };
    let mut spine = String::new();
    for n in 0..2u8 {
        let vlan = VLANS[usize::from(n)];
        let peer = format!(
            "peer = \"leaf{n}\"\npeer_mac = \"{}\"\nvlan = {vlan}",
            mac(n, 1)
        );
        spine += &port(&format!("d{n}"), "downlink", "t1", &mac(2, n), &peer);
        spine += &format!("[[route]]\nprefix = \"10.8.{n}.0/24\"\nleaf = \"leaf{n}\"\n");
        spine += &format!("[[route]]\nprefix = \"fd08:0:0:{n}::/64\"\nleaf = \"leaf{n}\"\n");
    }
    spine += "[[device]]\nname = \"net_af_packet_t1\"\nlcore = 1\n[gateway]\naddresses = [\"10.8.2.1\", \"fd08:0:0:2::1\"]\n";
    let files = [
        ("leaf0", leaf(0)),
        ("leaf1", leaf(1)),
        ("spine0", switch("spine0", &spine)),
    ];
    let write = |(name, text): (&str, String)| {
        let path = folder.join(format!("{name}.toml"));
        fs::write(&path, text).expect("a file");
        path
    };
    files.map(write).into()
}

fn without_v6(namespace: &str, interface: &str) {
    let no_v6 = format!("net.ipv6.conf.{interface}.disable_ipv6=1");
    let done = Command::new("ip")
        .args(["netns", "exec", namespace, "sysctl", "-qw", &no_v6])
        .status();
    assert!(done.expect("sysctl runs").success());
}

/// The pair of devices that the fabric is on, and a veth pair to each host.
fn wire() {
    let switches = namespace("fab");
    ip(&format!("-n {switches} link add t0 type veth peer name t1"));
    for interface in ["t0", "t1"] {
        without_v6(&switches, interface);
        ip(&format!("-n {switches} link set {interface} up"));
    }
    for n in 0..2u8 {
        let host = namespace(&format!("th{n}"));
        ip(&format!(
            "-n {switches} link add l{n} type veth peer name eth0 netns {host}"
        ));
        without_v6(&switches, &format!("l{n}"));
        ip(&format!("-n {switches} link set l{n} up"));
        ip(&format!("-n {host} link set eth0 address {}", mac(9, n)));
        ip(&format!("-n {host} link set eth0 mtu 1400 up"));
        ip(&format!("-n {host} addr add 10.8.{n}.2/24 dev eth0"));
        ip(&format!(
            "-n {host} addr add fd08:0:0:{n}::2/64 dev eth0 nodad"
        ));
        ip(&format!("-n {host} route add 10.8.0.0/16 dev eth0"));
        ip(&format!("-n {host} -6 route add fd08::/32 dev eth0"));
    }
}

/// Runs a command of host 0.
fn on_host(arguments: &[&str]) -> Output {
    Command::new("ip")
        .args(["netns", "exec", &namespace("th0")])
        .args(arguments)
        .output()
        .expect("ip runs")
}

fn hops(arguments: &[&str]) -> (Vec<String>, String) {
    let trace = on_host(arguments);
    let text = String::from_utf8_lossy(&trace.stdout).into_owned();
    let hop = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    (text.lines().skip(1).filter_map(hop).collect(), text)
}

#[test]
fn three_switches_of_one_process_share_a_pair_of_devices_by_vlan() {
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let _namespaces = Namespaces::new(&["fab", "th0", "th1"]);
    wire();
    let configs = write_configs(folder.path());
    let configs: Vec<&Path> = configs.iter().map(PathBuf::as_path).collect();
    let process = Running::start("fab", &configs);
    let started = Instant::now();
    for address in ["10.8.1.2", "fd08:0:0:1::2"] {
        while !on_host(&["ping", "-c", "1", "-W", "1", address])
            .status
            .success()
        {
            if started.elapsed() > Duration::from_secs(30) {
                let (counters, _) = process.stop();
                panic!("no answer of {address} within 30 s: {counters:#?}");
            }
        }
        let output = on_host(&["ping", "-c", "10", "-i", "0.2", "-W", "2", address]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(" 0% packet loss"), "{text}");
        // Three routers took one each from the TTL of 64.
        assert!(text.contains("ttl=61"), "{text}");
    }
    let traceroute = ["traceroute", "-n", "-q", "1", "-w", "2", "-N", "1", "-I"];
    for (family, to, expected) in [
        (
            "-4",
            "10.8.1.2",
            ["10.8.0.1", "10.8.2.1", "10.8.1.1", "10.8.1.2"],
        ),
        (
            "-6",
            "fd08:0:0:1::2",
            [
                "fd08:0:0:0::1",
                "fd08:0:0:2::1",
                "fd08:0:0:1::1",
                "fd08:0:0:1::2",
            ],
        ),
    ] {
        let arguments: Vec<&str> = traceroute.into_iter().chain([family, to]).collect();
        let (hops, text) = hops(&arguments);
        let read = |text: &str| text.parse::<std::net::IpAddr>().ok();
        let hops: Vec<_> = hops.iter().map(|hop| read(hop)).collect();
        assert_eq!(hops, expected.map(read), "{text}");
    }
    let (result, took) = process.stop();
    assert_eq!(result["conservation_ok"], true, "{result:#}");
    assert!(took < Duration::from_secs(5), "it took {took:?} to stop");
    let ports = result["ports"].as_array().expect("ports");
    assert_eq!(ports.len(), 6, "{result:#}");
    for port in ports {
        let sent = port["tx"].as_u64().expect("a count");
        // Eleven pings of each family one way or the other.
        assert!(sent >= 22, "{port}");
    }
    // The pair of devices carries only what both ends tag.
    assert_eq!(result["devices"], serde_json::Value::Null, "{result:#}");
}
