//! Tests of switch files: the example is sound, and each way of breaking it has its message.

use std::path::Path;

use pipeline::{Mark, NextHop, Peer, PortKind};
use proptest::prelude::*;

use super::*;
use crate::check::{check, eal_args};

const LEAF: &str = include_str!("../../../../docs/examples/leaf0.toml");

const SPINE: &str = r#"
name = "spine1"
role = "spine1"
[fabric]
leaves = 2
spines = 2
[[port]]
name = "d0"
kind = "downlink"
peer = "leaf0"
device = "0000:03:00.0"
mac = "02:00:00:00:00:01"
peer_mac = "02:00:00:00:00:02"
rate = "100Gbps"
[[port]]
name = "d1"
kind = "downlink"
peer = "leaf1"
device = "net_null0,size=64"
mac = "02:00:00:00:00:03"
peer_mac = "02:00:00:00:00:04"
rate = "100Gbps"
[[route]]
prefix = "10.0.0.0/16"
leaf = "leaf0"
[[route]]
prefix = "10.1.0.0/16"
leaf = "leaf1"
[measurement]
protocol = "paper"
[eal]
memory = "no-huge"
"#;

fn parse(text: &str) -> Result<SwitchSpec, ConfigError> {
    SwitchSpec::parse(Path::new("x.toml"), text)
}

/// Goal: the example is what its comments say.
#[test]
fn the_example_leaf_is_resolved() {
    let spec = parse(LEAF).unwrap();
    assert_eq!(spec.port_names, ["host0", "up0", "up1", "up2", "up3"]);
    let config = &spec.config;
    assert_eq!(config.role, Role::Leaf(pipeline::LeafId(0)));
    assert_eq!(config.ports[0].kind, PortKind::Host);
    assert_eq!(
        config.ports[4].kind,
        PortKind::Fabric(Peer::Spine(pipeline::SpineId(3)))
    );
    assert!(config.ports[0].accept_any_mac);
    // The longest frame of the captures is 4,170 bytes, and may have two tags.
    assert!(
        config
            .ports
            .iter()
            .all(|port| port.frame_max_bytes >= 4170 + 8)
    );
    assert_eq!(spec.eal.buffer_bytes, 4352);
    let table = pipeline::route::RouteTable::new(&config.routes);
    for (address, next) in [
        ("10.77.0.1", Some(NextHop::Host(0))),
        ("fd77::1", Some(NextHop::Host(1))),
        ("10.77.0.2", Some(NextHop::Leaf(pipeline::LeafId(1)))),
        ("fd77::2", Some(NextHop::Leaf(pipeline::LeafId(1)))),
        ("10.77.0.3", None),
    ] {
        let parsed: std::net::IpAddr = address.parse().unwrap();
        assert_eq!(table.lookup(parsed.into()), next, "{address}");
    }
    assert_eq!(config.link_state_ns, None);
    assert_eq!(eal_args(&spec), ["--file-prefix=leaf0", "--no-pci"]);
}

/// Goal: a leaf that finds flows by itself has windows of P_min, or of 64 packets per spine for the
/// sequential test; the default has whole flows.
#[test]
fn windows_follow_from_who_announces_and_how_it_is_tested() {
    let plan = |announce: &str, test: &str| {
        let text = LEAF
            .replace("announce = \"host\"", &format!("announce = \"{announce}\""))
            .replace("test = \"fixed\"", &format!("test = \"{test}\""));
        let spec = parse(&text).unwrap();
        (spec.config.measurement.windows, spec.rules().p_min)
    };
    let (windows, p_min) = plan("window", "fixed");
    assert_eq!((windows.finds_flows, windows.spine_packets), (true, p_min));
    assert!(windows.silence_ns >= 10_000_000 && !windows.is_narrow);
    assert_eq!(plan("window", "sequential").0.spine_packets, 64);
    assert_eq!(plan("host", "fixed").0.spine_packets, 0);
}

/// Goal: what a port injects is read, shown and limited to what can be done to a device.
#[test]
fn ports_inject_what_a_device_can_suffer() {
    let with = |faults: &str| {
        let uplink = "peer = \"spine2\"";
        parse(&LEAF.replace(uplink, &format!("{uplink}\nfaults = [{faults}]")))
    };
    let spec = with("\"drop=2%\", \"match=17:+3,action=ecn\"").unwrap();
    assert_eq!(spec.faults[3][0], Fault::Drop(0.02));
    assert_eq!(spec.faults.iter().map(Vec::len).sum::<usize>(), 2);
    let shown = crate::check::switch(&spec);
    assert!(shown.contains("drop=0.02 of what up2 sends"), "{shown}");
    for (wrong, message) in [
        ("\"drop=2\"", "port[3].faults[0]: "),
        (
            "\"drop=0.1\", \"delay=1ms\"",
            "port[3].faults[1]: \"delay=1ms\" cannot be done to a device; take drop, burst or match",
        ),
        ("\"down\"", "drop=1 is a black hole"),
        ("\"corrupt=0.1\"", "cannot be done to a device"),
        ("\"match=17:+3,action=corrupt\"", "cannot be done"),
    ] {
        let error = with(wrong).unwrap_err().to_string();
        assert!(error.contains(message), "{wrong}: {error}");
    }
}

/// Goal: evidence is what the file says, with the P_min that it needs, and fits protocol and test.
#[test]
fn evidence_fits_protocol_and_test() {
    let with = |evidence: &str| {
        let said = format!("evidence = \"{evidence}\"");
        LEAF.replace("evidence = \"source-counts\"", &said)
    };
    for evidence in [
        Evidence::ReceiveOnly,
        Evidence::SourceCounts,
        Evidence::HopCounts,
    ] {
        let rules = parse(&with(&evidence.to_string())).unwrap().rules();
        assert_eq!(rules.evidence, evidence.into());
        assert_eq!(rules, rules.with_evidence(rules.evidence));
    }
    let sequential = with("receive-only").replace("test = \"fixed\"", "test = \"sequential\"");
    let error = parse(&sequential).unwrap_err().to_string();
    assert!(
        error.contains("measurement.evidence: receive-only does not say"),
        "{error}"
    );
    assert_eq!(parse(SPINE).unwrap().evidence, Evidence::ReceiveOnly);
    let paper = SPINE.replace("\"paper\"", "\"paper\"\nevidence = \"hop-counts\"");
    let error = parse(&paper).unwrap_err().to_string();
    assert!(error.contains("hop-counts needs the closes"), "{error}");
}

/// Goal: a spine on devices gives the EAL line of those devices, and the paper's protocol its way.
#[test]
fn a_spine_is_resolved() {
    let spec = parse(SPINE).unwrap();
    assert!(spec.config.measurement.is_paper);
    assert_eq!(spec.config.measurement.mark, Mark::All);
    assert_eq!(spec.config.tie, pipeline::Tie::Random);
    assert_eq!(spec.config.link_state_ns, Some(100_000_000));
    assert_eq!(
        eal_args(&spec),
        [
            "--no-huge",
            "--no-shconf",
            "-m256",
            "--file-prefix=spine1",
            "--allow=0000:03:00.0",
            "--vdev=net_null0,size=64"
        ]
    );
}

/// Goal: what `check` prints is complete and readable.
#[test]
fn the_resolved_forms_are_printed() {
    insta::assert_snapshot!("leaf", check(Path::new("leaf0.toml"), LEAF).unwrap());
    insta::assert_snapshot!("spine", check(Path::new("spine1.toml"), SPINE).unwrap());
    let testbed = "leaves = 4\nfaults = [\"leaf3>spine5:drop=0.01\"]\n";
    insta::assert_snapshot!(
        "testbed",
        check(Path::new("testbed.toml"), testbed).unwrap()
    );
}

/// Goal: each way of breaking a leaf is answered with file, line, key, value and cure.
#[test]
fn wrong_leaves_are_explained() {
    for (from, to, message) in [
        (
            "role = \"leaf0\"",
            "role = \"leaf2\"",
            "role: \"leaf2\" is not in a fabric of 2 leaves",
        ),
        (
            "role = \"leaf0\"",
            "role = \"core0\"",
            "role: \"core0\" is no switch; write it like leaf0",
        ),
        (
            "role = \"leaf0\"",
            "role = \"spine0\"",
            "kind: \"host\" is no port of a spine, which has downlink",
        ),
        ("role = \"leaf0\"", "", "key \"role\" is missing"),
        (
            "name = \"leaf0\"",
            "name = \"leaf 0/x\"",
            "name: \"leaf 0/x\" cannot name a switch",
        ),
        (
            "leaves = 2",
            "leaves = 1",
            "fabric.leaves: 1 is out of range; choose 2 to 128",
        ),
        (
            "spines = 4",
            "spines = 129",
            "fabric.spines: 129 is out of range",
        ),
        (
            "spines = 4",
            "spines = 5",
            "port: no uplink goes to spine4; add a [[port]]",
        ),
        (
            "spines = 4",
            "spines = 3",
            "port[4].peer: \"spine3\" is none of spine0 to spine2",
        ),
        (
            "spines = 4",
            "spins = 4",
            "fabric.spins: unknown key \"spins\"; did you mean \"spines\"?",
        ),
        (
            "message_port = 48791",
            "message_port = 4791",
            "fabric.message_port: 4791 is taken",
        ),
        (
            "link_state = \"off\"",
            "link_state = \"never\"",
            "or off for a switch alone",
        ),
        (
            "link_state = \"off\"",
            "link_state = \"1us\"",
            "fabric.link_state: 1us is out of range; choose 1ms to 10s",
        ),
        (
            "name = \"up1\"",
            "name = \"up0\"",
            "port[2].name: the name up0 is already that of port[1].name",
        ),
        (
            "name = \"up1\"",
            "name = \"up=1\"",
            "port[2].name: \"up=1\" cannot name a port",
        ),
        (
            "peer = \"spine1\"",
            "peer = \"spine0\"",
            "port[2].peer: the peer spine0 is already that of port[1].peer",
        ),
        (
            "peer = \"spine1\"",
            "peer = \"leaf1\"",
            "port[2].peer: \"leaf1\" is none of spine0 to spine3",
        ),
        (
            "peer = \"spine1\"",
            "",
            "port[2].peer: an uplink needs one; add peer = \"spine0\"",
        ),
        ("kind = \"host\"", "kind = \"hosts\"", "port[0].kind: "),
        (
            "kind = \"host\"",
            "kind = \"downlink\"",
            "\"downlink\" is no port of a leaf, which has host and uplink",
        ),
        (
            "kind = \"host\"",
            "kind = \"host\"\npeer = \"spine0\"",
            "port[0].peer: a host port has none",
        ),
        (
            "mac = \"02:00:00:00:00:11\"",
            "mac = \"02:00:00:00:00:10\"",
            "port[2].mac: the MAC address 02:00:00:00:00:10 is already that of port[1].mac",
        ),
        (
            "mac = \"02:00:00:00:00:11\"",
            "mac = \"03:00:00:00:00:11\"",
            "port[2].mac: 03:00:00:00:00:11 is no address of one station",
        ),
        (
            "peer_mac = \"02:00:01:00:01:00\"",
            "peer_mac = \"33:33:00:00:00:01\"",
            "port[2].peer_mac: 33:33:00:00:00:01 is no address of one station",
        ),
        (
            "{ address = \"fd77::1\"",
            "{ address = \"fd77::9\", mac = \"ff:ff:ff:ff:ff:ff\" }, { address = \"fd77::1\"",
            "port[0].hosts[1].mac: ff:ff:ff:ff:ff:ff is no address of one station",
        ),
        (
            "mac = \"02:00:00:00:00:11\"",
            "mac = \"2:0:0:0:0:11\"",
            "port[2].mac: \"2:0:0:0:0:11\" is no MAC address",
        ),
        (
            "peer_mac = \"02:00:01:00:01:00\"",
            "",
            "port[2].peer_mac: \"up1\" needs the MAC address",
        ),
        (
            "peer_mac = \"02:00:01:00:01:00\"",
            "peer_mac = \"02:00:01:00:00:00\"",
            "port[2].peer_mac: the MAC address",
        ),
        (
            "mtu = 4200",
            "mtu = 100",
            "port[0].mtu: 100 is out of range; choose 1280 to 9600",
        ),
        ("mtu = 4200", "mtu = \"big\"", "port[0].mtu: "),
        (
            "rate = \"10Gbps\"",
            "rate = \"10Gb\"",
            "rate: \"10Gb\" is no rate",
        ),
        (
            "rate = \"10Gbps\"",
            "rate = \"1bps\"",
            "port[0].rate: 1bps is out of range",
        ),
        (
            "# device = \"0000:03:00.0\"",
            "device = \"eth0\"",
            "port[0].device: \"eth0\" is neither a PCI address nor",
        ),
        (
            "{ address = \"fd77::1\"",
            "{ address = \"10.77.0.1\"",
            "port[0].hosts[1].address: the address 10.77.0.1 is already",
        ),
        (
            "{ address = \"fd77::1\"",
            "{ address = \"fd77:::1\"",
            "port[0].hosts[1].address: \"fd77:::1\" is no IP address",
        ),
        (
            "{ address = \"fd77::1\"",
            "{ address = \"224.0.0.1\"",
            "224.0.0.1 is no address of one host",
        ),
        (
            "{ address = \"fd77::1\"",
            "{ address = \"fd77::2\"",
            "fd77::2 lies in fd77::2/128, which route[1].prefix says is behind leaf1",
        ),
        (
            "{ address = \"fd77::1\"",
            "{ adress = \"fd77::1\"",
            "unknown key \"adress\"; did you mean \"address\"?",
        ),
        (
            "prefix = \"10.77.0.2/32\"",
            "prefix = \"10.77.0.2/24\"",
            "route[0].prefix: \"10.77.0.2/24\" is no prefix (bits are set",
        ),
        (
            "prefix = \"10.77.0.2/32\"",
            "prefix = \"fd77::2/128\"",
            "route[1].prefix: fd77::2/128 is already route[0].prefix",
        ),
        (
            "leaf = \"leaf1\"",
            "leaf = \"leaf7\"",
            "route[0].leaf: leaf7 is none of leaf0 to leaf1",
        ),
        (
            "leaf = \"leaf1\"",
            "leaf = \"spine1\"",
            "route[0].leaf: \"spine1\" is no leaf",
        ),
        (
            "[spray]",
            "[[route]]\nprefix = \"10.78.0.0/16\"\nleaf = \"leaf0\"\n[spray]",
            "port[0].hosts[0].address: 10.77.0.1 lies in none of the prefixes of leaf0",
        ),
        (
            "[spray]",
            "[[route]]\nprefix = \"10.77.0.0/24\"\nleaf = \"leaf0\"\n[spray]",
            "route[2].prefix: 10.77.0.0/24 of leaf0 overlaps 10.77.0.2/32 of leaf1",
        ),
        (
            "policy = \"jsq2\"",
            "policy = \"jsq3\"",
            "spray.policy: \"jsq3\" is no spray policy; did you mean \"jsq2\"?",
        ),
        (
            "limit = \"1MiB\"",
            "limit = \"2KiB\"",
            "queue.limit: 2KiB holds no whole frame of 4222 bytes",
        ),
        (
            "limit = \"1MiB\"",
            "limit = \"1M\"",
            "queue.limit: \"1M\" is no size",
        ),
        (
            "packets = 32768",
            "packets = 8",
            "queue.packets: 8 is out of range; choose 64 to 1048576",
        ),
        (
            "\"26\" = 3",
            "\"26\" = 7",
            "queue.dscp.26: 7 is no priority of a DSCP",
        ),
        (
            "\"26\" = 3",
            "\"64\" = 3",
            "queue.dscp.64: \"64\" is no DSCP",
        ),
        (
            "protocol = \"default\"",
            "protocol = \"paper\"",
            "measurement.mark: first is not the paper's protocol",
        ),
        (
            "announce = \"host\"",
            "announce = \"mixed\"",
            "measurement.announce: mixed is for testbeds",
        ),
        (
            "counter_bits = 32",
            "counter_bits = 24",
            "measurement.counter_bits: 24 is no size of a counter",
        ),
        (
            "test = \"fixed\"",
            "test = \"fast\"",
            "measurement.test: \"fast\" is no way to test",
        ),
        (
            "rows = 1024",
            "rows = 0",
            "measurement.rows: 0 is out of range",
        ),
        ("memory = \"auto\"", "memory = \"huge\"", "eal.memory: "),
        (
            "# buffer = \"4352\"",
            "buffer = \"2KiB\"",
            "eal.buffer: 2048 bytes hold no frame of 4222",
        ),
        (
            "arguments = []",
            "arguments = [\"-l0\", \"--vdev=net_null0\"]",
            "eal.arguments[1]: \"--vdev=net_null0\" is derived",
        ),
        (
            "[eal]",
            "[eel]",
            "eel: unknown key \"eel\"; did you mean \"eal\"?",
        ),
        ("[fabric]", "[fabric", "x.toml:"),
    ] {
        let text = LEAF.replacen(from, to, 1);
        assert_ne!(text, LEAF, "the example has no {from}");
        let error = parse(&text).unwrap_err().to_string();
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

/// Goal: each way of breaking a spine is explained as well.
#[test]
fn wrong_spines_are_explained() {
    for (from, to, message) in [
        (
            "leaf = \"leaf1\"",
            "leaf = \"leaf0\"",
            "route: none leads to leaf1; add a [[route]]",
        ),
        (
            "peer = \"leaf1\"",
            "peer = \"leaf0\"",
            "the peer leaf0 is already that of port[0].peer",
        ),
        (
            "leaves = 2",
            "leaves = 3",
            "port: no downlink goes to leaf2",
        ),
        (
            "kind = \"downlink\"",
            "kind = \"uplink\"",
            "port[0].kind: \"uplink\" is no port of a spine",
        ),
        (
            "rate = \"100Gbps\"",
            "rate = \"100Gbps\"\nhosts = [{ address = \"10.0.0.1\" }]",
            "port[0].hosts: a downlink has no hosts",
        ),
        (
            "device = \"net_null0,size=64\"",
            "device = \"0000:03:00.0,x=1\"",
            "port[1].device: \"0000:03:00.0,x=1\" is \"0000:03:00.0\" at port[0]",
        ),
    ] {
        let text = SPINE.replacen(from, to, 1);
        let error = parse(&text).unwrap_err().to_string();
        assert!(
            error.contains(message),
            "{to}\n gives {error}\n not {message}"
        );
    }
}

/// Goal: the line is that of the value, not merely of its table.
#[test]
fn the_line_is_the_values() {
    let text = LEAF.replacen("packets = 32768", "packets = 8", 1);
    let line = 1 + text
        .lines()
        .position(|line| line.starts_with("packets = 8"))
        .unwrap();
    let error = parse(&text).unwrap_err();
    assert_eq!(error.line, Some(line), "{error}");
}

proptest! {
    /// Goal: whatever becomes of the lines of a file, it is refused with a message or gives a
    /// switch that can be built.
    #[test]
    fn damaged_files_are_refused_or_sound(
        is_leaf: bool, cuts in proptest::collection::vec((0usize..120, 0usize..120, 0u8..4), 1..6),
    ) {
        let mut lines: Vec<String> =
            if is_leaf { LEAF } else { SPINE }.lines().map(str::to_owned).collect();
        for (at, other, how) in cuts {
            let (at, other) = (at % lines.len(), other % lines.len());
            match how {
                0 => { lines.remove(at); }
                1 => lines.swap(at, other),
                2 => { let line = lines[other].clone(); lines.insert(at, line); }
                _ => { let half = lines[at].chars().take(other).collect(); lines[at] = half; }
            }
            if lines.is_empty() { break; }
        }
        match parse(&lines.join("\n")) {
            Ok(spec) => { pipeline::Switch::<NoPacket>::new(&spec.config); }
            Err(error) => prop_assert!(!error.message.is_empty()),
        }
    }
}

/// A packet for switches that get none.
struct NoPacket;

impl pipeline::Token for NoPacket {
    fn header(&self) -> &[u8] {
        &[]
    }

    fn header_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    fn wire_len(&self) -> u32 {
        0
    }
}

/// Goal: a switch has as many ports as its sets of ports hold, and the message says how many.
#[test]
fn ports_beyond_the_most_are_refused() {
    let host = |n: usize| {
        format!(
            "[[port]]\nname = \"h{n}\"\nkind = \"host\"\nmac = \"02:01:00:00:{:02x}:{:02x}\"\nrate = \"1Gbps\"\n\
             hosts = [{{ address = \"10.77.{}.{}\" }}]\n",
            n >> 8,
            n & 255,
            64 + (n >> 8),
            n & 255
        )
    };
    let most = 1024 - LEAF.matches("[[port]]").count();
    let with = |count: usize| {
        let ports: String = (0..count).map(host).collect();
        parse(&LEAF.replacen("[[route]]", &format!("{ports}[[route]]"), 1))
    };
    let error = with(most + 1).unwrap_err().to_string();
    assert!(
        error.contains("port: 1025 ports are more than the 1024 of a switch"),
        "{error}"
    );
    let spec = with(most).map(|spec| spec.config.ports.len());
    assert_eq!(spec.map_err(|error| error.to_string()), Ok(1024));
}
