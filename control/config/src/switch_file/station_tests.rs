//! Tests of what makes a switch a station: addresses, prefixes of host ports, classes, hold-down.

use std::path::Path;

use pipeline::NextHop;

use super::*;
use crate::check::check;

const LEAF: &str = r#"
name = "leaf0"
role = "leaf0"
[fabric]
leaves = 2
spines = 1
hold_down = "250ms"
[gateway]
addresses = ["10.0.4.1", "fd00::1"]
icmp = 50
neighbors = 32
neighbor_age = "60s"
neighbor_ask = "500ms"
[[port]]
name = "host0"
kind = "host"
mac = "02:00:00:00:00:00"
rate = "10Gbps"
hosts = [{ address = "10.0.0.7" }]
prefixes = ["10.0.4.0/24", "fd00::/64"]
[[port]]
name = "host1"
kind = "host"
mac = "02:00:00:00:00:01"
rate = "10Gbps"
prefixes = ["10.0.5.0/24"]
[[port]]
name = "up0"
kind = "uplink"
peer = "spine0"
mac = "02:00:00:00:00:10"
peer_mac = "02:00:01:00:00:00"
rate = "10Gbps"
[[route]]
prefix = "10.0.0.0/16"
leaf = "leaf0"
[[route]]
prefix = "10.1.0.0/16"
leaf = "leaf1"
[[route]]
prefix = "10.255.0.1/32"
spine = "spine0"
[queue]
pcp = { "7" = 5, "0" = 1 }
[queue.ecn]
kmin = "40kB"
kmax = "160kB"
pmax = 0.05
priorities = [3, 4]
"#;

fn parse(text: &str) -> Result<SwitchSpec, ConfigError> {
    SwitchSpec::parse(Path::new("x.toml"), text)
}

/// Goal: every key lands where it belongs, and `check` shows it.
#[test]
fn a_station_is_resolved() {
    let config = parse(LEAF).unwrap().config;
    let gateway = &config.gateway;
    let own: Vec<String> = gateway.addresses.iter().map(|a| a.to_string()).collect();
    assert_eq!(own, ["10.0.4.1", "fd00::1"]);
    assert_eq!(gateway.icmp_per_second, 50);
    let neighbors = gateway.neighbors;
    assert_eq!(
        (neighbors.per_port_max, neighbors.age_ns, neighbors.ask_ns),
        (32, 60_000_000_000, 500_000_000)
    );
    assert_eq!(config.hold_down_ns, 250_000_000);
    assert_eq!(config.queue.pcp_priority, Some([1, 1, 2, 3, 4, 5, 6, 5]));
    let marks = |queue: usize| config.queue.ecn[queue];
    assert!((0..8).all(|queue| marks(queue).is_some() == (queue == 3 || queue == 4)));
    let curve = marks(3).unwrap();
    assert_eq!(curve.thresholds_bytes(1), (40_000, 160_000));
    assert_eq!(curve.pmax_ppm, 50_000);
    let table = pipeline::route::RouteTable::new(&config.routes);
    for (address, next) in [
        ("10.0.0.7", Some(NextHop::Host(0))),
        ("10.0.4.9", Some(NextHop::Port(0))),
        ("fd00::9", Some(NextHop::Port(0))),
        ("10.0.5.9", Some(NextHop::Port(1))),
        ("10.255.0.1", Some(NextHop::Spine(pipeline::SpineId(0)))),
        ("10.1.2.3", Some(NextHop::Leaf(pipeline::LeafId(1)))),
        ("10.0.6.1", None),
    ] {
        let parsed: std::net::IpAddr = address.parse().unwrap();
        assert_eq!(table.lookup(parsed.into()), next, "{address}");
    }
    insta::assert_snapshot!("station", check(Path::new("leaf0.toml"), LEAF).unwrap());
}

/// Goal: without the keys nothing is answered, marked or classed by PCP, and ECN's own defaults
/// follow the rate.
#[test]
fn defaults_are_quiet() {
    let text = LEAF.replace(
        "kmin = \"40kB\"\nkmax = \"160kB\"\npmax = 0.05\npriorities = [3, 4]\n",
        "",
    );
    let ecn = parse(&text).unwrap().config.queue.ecn;
    let curve = ecn[7].unwrap();
    assert_eq!(curve.thresholds_bytes(10_000_000_000), (40_000, 160_000));
    assert_eq!(curve.pmax_ppm, 200_000);
    let text = text.split("[queue]").next().unwrap();
    let queue = parse(text).unwrap().config.queue;
    assert_eq!((queue.ecn, queue.pcp_priority), ([None; 8], None));
    let start = text.find("[gateway]").unwrap();
    let end = text.find("[[port]]").unwrap();
    let text = format!("{}{}", &text[..start], &text[end..]).replace("hold_down = \"250ms\"", "");
    let config = parse(&text).unwrap().config;
    assert_eq!(config.gateway, pipeline::GatewayConfig::default());
    assert_eq!(config.hold_down_ns, 100_000_000);
}

/// Goal: each mistake is answered with its key, value and cure, on its line.
#[test]
fn wrong_stations_are_explained() {
    for (from, to, message) in [
        ("\"250ms\"", "\"2h\"", "fabric.hold_down: "),
        (
            "addresses = [\"10.0.4.1\"",
            "addresses = [\"10.1.4.1\"",
            "gateway.addresses[0]: 10.1.4.1 lies in 10.1.0.0/16, which route[1].prefix leads elsewhere",
        ),
        (
            "addresses = [\"10.0.4.1\"",
            "addresses = [\"10.0.0.7\"",
            "gateway.addresses[0]: 10.0.0.7 is that of a host",
        ),
        (
            "addresses = [\"10.0.4.1\"",
            "addresses = [\"fd00::1\"",
            "gateway.addresses[1]: fd00::1 is listed twice",
        ),
        (
            "addresses = [\"10.0.4.1\"",
            "addresses = [\"224.0.0.1\"",
            "gateway.addresses[0]: 224.0.0.1 is no address of one host",
        ),
        (
            "addresses = [\"10.0.4.1\"",
            "addresses = [\"10.255.0.1\"",
            "gateway.addresses[0]: 10.255.0.1 lies in",
        ),
        (
            "icmp = 50",
            "icmp = 2000000",
            "gateway.icmp: 2000000 is out of range; choose 0 to 1000000",
        ),
        (
            "icmp = 50",
            "imcp = 50",
            "gateway.imcp: unknown key \"imcp\"; did you mean \"icmp\"?",
        ),
        (
            "neighbors = 32",
            "neighbors = 0",
            "gateway.neighbors: 0 is out of range",
        ),
        (
            "\"60s\"",
            "\"1ms\"",
            "gateway.neighbor_age: 1ms is out of range; choose 100ms to",
        ),
        (
            "\"500ms\"",
            "\"1us\"",
            "gateway.neighbor_ask: 1us is out of range",
        ),
        (
            "[\"10.0.5.0/24\"]",
            "[]",
            "port[1].hosts: a host port needs the addresses behind it",
        ),
        (
            "[\"10.0.5.0/24\"]",
            "[\"10.0.5.1/24\"]",
            "port[1].prefixes[0]: \"10.0.5.1/24\" is no prefix",
        ),
        (
            "[\"10.0.5.0/24\"]",
            "[\"10.0.4.128/25\"]",
            "port[1].prefixes[0]: 10.0.4.128/25 overlaps 10.0.4.0/24 (port[0].prefixes[0])",
        ),
        (
            "[\"10.0.5.0/24\"]",
            "[\"10.0.0.0/24\"]",
            "port[1].prefixes[0]: 10.0.0.0/24 holds 10.0.0.7, a host of port host0",
        ),
        (
            "[\"10.0.5.0/24\"]",
            "[\"10.1.5.0/24\"]",
            "port[1].prefixes[0]: 10.1.5.0/24 overlaps 10.1.0.0/16, which route[1].prefix",
        ),
        (
            "[\"10.0.5.0/24\"]",
            "[\"10.2.5.0/24\"]",
            "port[1].prefixes[0]: 10.2.5.0/24 lies in none of the prefixes of leaf0",
        ),
        (
            "peer = \"spine0\"",
            "peer = \"spine0\"\nprefixes = [\"10.0.6.0/24\"]",
            "port[2].prefixes: an uplink has none",
        ),
        (
            "spine = \"spine0\"",
            "spine = \"spine1\"",
            "route[2].spine: spine1 is none of spine0 to spine0",
        ),
        (
            "spine = \"spine0\"",
            "spine = \"leaf1\"",
            "route[2].spine: \"leaf1\" is no spine",
        ),
        (
            "spine = \"spine0\"",
            "spine = \"spine0\"\nleaf = \"leaf1\"",
            "route[2].leaf: a route leads to one switch",
        ),
        (
            "spine = \"spine0\"",
            "",
            "route[2].leaf: a route leads to one switch",
        ),
        (
            "\"7\" = 5",
            "\"8\" = 5",
            "queue.pcp.8: \"8\" is no PCP; choose 0 to 7",
        ),
        (
            "\"7\" = 5",
            "\"7\" = 7",
            "queue.pcp.7: 7 is no priority of a PCP; choose 0 to 6",
        ),
        (
            "kmin = \"40kB\"",
            "kmin = \"200kB\"",
            "queue.ecn.kmin: 200kB is above kmax 160kB",
        ),
        (
            "kmin = \"40kB\"",
            "",
            "queue.ecn: kmin and kmax go together",
        ),
        (
            "kmax = \"160kB\"",
            "kmax = \"2MiB\"",
            "queue.ecn: kmax 2MiB is beyond queue.limit 1MiB",
        ),
        (
            "pmax = 0.05",
            "pmax = 0",
            "queue.ecn.pmax: 0 is out of range; choose 0.000001 to 1",
        ),
        (
            "priorities = [3, 4]",
            "priorities = [3, 8]",
            "queue.ecn.priorities[1]: 8 is out of range; choose 0 to 7",
        ),
        (
            "pmax = 0.05",
            "pmx = 0.05",
            "queue.ecn.pmx: unknown key \"pmx\"; did you mean \"pmax\"?",
        ),
    ] {
        let text = LEAF.replacen(from, to, 1);
        assert_ne!(text, LEAF, "there is no {from}");
        let error = match parse(&text) {
            Ok(_) => panic!("{to} is taken"),
            Err(error) => error.to_string(),
        };
        assert!(
            error.contains(message),
            "{to}\n gives {error}\n not {message}"
        );
        let line = error
            .strip_prefix("x.toml:")
            .and_then(|rest| rest.split(':').next());
        assert!(
            line.is_some_and(|line| line.parse::<usize>().is_ok()),
            "no line in {error}"
        );
    }
}

/// Goal: a spine may have an address, but no way to another spine.
#[test]
fn a_spine_has_an_address_and_no_route_to_spines() {
    let spine = r#"
name = "spine0"
role = "spine0"
[fabric]
leaves = 2
spines = 2
[gateway]
addresses = ["10.255.0.1"]
[[port]]
name = "d0"
kind = "downlink"
peer = "leaf0"
mac = "02:00:00:00:00:01"
peer_mac = "02:00:00:00:00:02"
rate = "100Gbps"
[[port]]
name = "d1"
kind = "downlink"
peer = "leaf1"
mac = "02:00:00:00:00:03"
peer_mac = "02:00:00:00:00:04"
rate = "100Gbps"
[[route]]
prefix = "10.0.0.0/16"
leaf = "leaf0"
[[route]]
prefix = "10.1.0.0/16"
leaf = "leaf1"
"#;
    assert_eq!(parse(spine).unwrap().config.gateway.addresses.len(), 1);
    let wrong = format!("{spine}[[route]]\nprefix = \"10.255.0.2/32\"\nspine = \"spine1\"\n");
    let error = parse(&wrong).unwrap_err().to_string();
    assert!(
        error.contains("10.255.0.2/32 leads to spine1; only leaves are joined to spines"),
        "{error}"
    );
}
