//! Tests of fabric files: the example is sound, what follows from it fits together, and each way of
//! breaking it has its message.

use std::path::{Path, PathBuf};

use super::*;
use crate::SwitchSet;

const FABRIC: &str = include_str!("../../../../docs/examples/fabric.toml");

fn parse(text: &str) -> Result<FabricFile, ConfigError> {
    FabricFile::parse(Path::new("f.toml"), text)
}

/// Each change of the example, and the beginning of what is said of it, line included where it is that
/// of the changed key.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "leaves = 2",
        "leafs = 2",
        "fabric.leafs: unknown key \"leafs\"; did you mean \"leaves\"?",
    ),
    (
        "leaves = 2",
        "leaves = 1",
        "fabric.leaves: 1 is out of range; choose 2 to 128",
    ),
    (
        "leaves = 2",
        "leaves = \"two\"",
        "fabric.leaves: invalid type: string \"two\", expected u16",
    ),
    (
        "spines = 2",
        "spines = 0",
        "fabric.spines: 0 is out of range; choose 1 to 128",
    ),
    ("spines = 2", "", "key \"spines\" is missing; add it"),
    (
        "message_port = 48791",
        "message_port = 4791",
        "fabric.message_port: 4791 is taken; choose another, such as 48791 (in the file of leaf0)",
    ),
    (
        "link_state = \"100ms\"",
        "link_state = \"1us\"",
        "fabric.link_state: 1us is out of range; choose 1ms to 10s (in the file of leaf0)",
    ),
    (
        "name = \"lab\"",
        "name = \"my lab\"",
        "name: \"my lab-leaf0\" cannot name a switch;",
    ),
    (
        "name = \"lab\"",
        "nmae = \"lab\"",
        "nmae: unknown key \"nmae\"; did you mean \"name\"?",
    ),
    (
        "faults = []",
        "faults = [\"leaf0>spine2:drop=0.01\"]",
        "faults[0]: leaf0>spine2 is no link of 2 leaves and 2 spines; name one that is there",
    ),
    (
        "faults = []",
        "faults = [\"leaf0-spine1:drop=2\"]",
        "faults[0]: \"drop=2\": \"2\" is no probability",
    ),
    (
        "faults = []",
        "faults = [\"leaf0>spine1\"]",
        "faults[0]: \"leaf0>spine1\" is no fault; write LINK:SPEC",
    ),
    (
        "faults = []",
        "faults = [\"leaf0>spine1:drop=0.1\", \"spine1>leaf0:down\"]",
        "faults[1]: \"down\" cannot be done to a device; take drop, burst or match",
    ),
    (
        "rate = \"1Gbps\" ",
        "rate = \"1Gb\" ",
        "links.rate: \"1Gb\" is no rate",
    ),
    ("rate = \"1Gbps\" ", "rate = \"5Tbps\" ", "links.rate: "),
    (
        "rate = \"1Gbps\" ",
        "rates = \"1Gbps\" ",
        "links.rates: unknown key \"rates\"; did you mean \"rate\"?",
    ),
    (
        "host_rate = \"1Gbps\"",
        "host_rate = \"10bps\"",
        "links.host_rate: 10bps is out of range; choose 1Mbps to 1Tbps (in the file of leaf0)",
    ),
    (
        "mtu = 1500",
        "mtu = 576",
        "links.mtu: 576 is out of range; choose 1280 to 9600",
    ),
    (
        "mtu = 1500",
        "mtu = 4200",
        "ports.host: its ring has frames of 2048 bytes, which cut packets of the port's mtu without a count; add framesz=8192,blocksz=32768 to the device, or lower mtu (in the file of leaf0)",
    ),
    (
        "ipv4 = \"10.77.0.0/16\"",
        "ipv4 = \"10.77.0.1/16\"",
        "addressing.ipv4: \"10.77.0.1/16\" is no prefix (bits are set beyond its length)",
    ),
    (
        "ipv4 = \"10.77.0.0/16\"",
        "ipv4 = \"10.77.0.0\"",
        "addressing.ipv4: \"10.77.0.0\" is no prefix (no length); write it like 10.0.0.0/8",
    ),
    (
        "ipv4 = \"10.77.0.0/16\"",
        "ipv4 = \"fd00::/16\"",
        "addressing.ipv4: \"fd00::/16\" is no prefix (no address of this family)",
    ),
    (
        "ipv4 = \"10.77.0.0/16\"",
        "ipv4 = \"224.0.0.0/8\"",
        "addressing: 224.0.0.1 is no address of one host",
    ),
    (
        "ipv4 = \"10.77.0.0/16\"",
        "",
        "addressing.ipv4_leaf: says how the prefix is divided, but there is none",
    ),
    (
        "ipv4_leaf = 24",
        "ipv4_leaf = 16",
        "addressing.ipv4_leaf: 16 is no length of a part of 10.77.0.0/16; choose 17 to 30",
    ),
    (
        "ipv4_leaf = 24",
        "ipv4_leaf = 17",
        "addressing.ipv4_leaf: 10.77.0.0/16 has 2 parts of length 17; 2 leaves and the spines need 3; raise it",
    ),
    (
        "ipv6_leaf = 64",
        "ipv6_leaf = 40",
        "addressing.ipv6_leaf: 40 is no length of a part of fd77::/48; choose 49 to 126",
    ),
    (
        "mac_block = 0",
        "mac_block = 200",
        "addressing.mac_block: 200 is out of range; choose 0 to 127",
    ),
    (
        "uplink = \"net_af_packet_{switch}_{port},iface={port}\"",
        "uplink = \"net_af_packet_{swich}\"",
        "ports.uplink: \"net_af_packet_{swich}\" has {swich}; did you mean {switch}?",
    ),
    (
        "uplink = \"net_af_packet_{switch}_{port},iface={port}\"",
        "uplink = \"net_ring{host}\"",
        "ports.uplink: \"net_ring{host}\": a cable between switches has no host; take {host} out, or write {spine}",
    ),
    (
        "uplink = \"net_af_packet_{switch}_{port},iface={port}\"",
        "uplink = \"net_ring{spine\"",
        "ports.uplink: \"net_ring{spine\" has a { without its }; close it",
    ),
    (
        "uplink = \"net_af_packet_{switch}_{port},iface={port}\"",
        "uplink = \"net_ring0\"",
        "ports.uplink: the device net_ring0 is already that of port[1]; give each its own, or share it: a VLAN id for each (in the file of leaf0)",
    ),
    (
        "uplink = \"net_af_packet_{switch}_{port},iface={port}\"",
        "uplink = \"eth{spine}\"",
        "ports.uplink: \"eth0\" is neither a PCI address nor a virtual device",
    ),
    (
        "# vlan = 100",
        "vlan = 4092",
        "ports.vlan: 4 cables between switches have VLAN ids from 4092 to 4095, and there are 1 to 4094; begin with 1 to 4091",
    ),
    (
        "# vlan = 100",
        "vlan = 0",
        "ports.vlan: 4 cables between switches have VLAN ids from 0 to 3",
    ),
    (
        "# vlan = 100",
        "vlan = 100\nhost_vlan = 101",
        "ports.host_vlan: 101 to 102 are used twice: cables between switches have 100 to 103; begin with 104",
    ),
    (
        "per_leaf = 1",
        "per_leaf = 0",
        "hosts.per_leaf: 0 is out of range; choose 1 to 512",
    ),
    (
        "per_leaf = 1",
        "per_leaf = 300",
        "addressing.ipv4_leaf: a part of length 24 has room for 253 hosts beside the leaf, not 300; lower it",
    ),
    (
        "learn = false",
        "learn = 0",
        "hosts.learn: invalid type: integer `0`, expected a boolean",
    ),
    (
        "interface = \"eth0\"          #",
        "interface = \"eth 0\" #",
        "hosts.interface: \"eth 0\" cannot name an interface",
    ),
    (
        "name = \"h1.0\"",
        "name = \"h2.0\"",
        "host[0].name: \"h2.0\" is none of the hosts h0.0 to h1.0; write h<leaf>.<n>",
    ),
    (
        "# mac = \"52:54:00:12:34:56\"",
        "mac = \"53:54:00:12:34:56\"",
        "host[0].mac: 53:54:00:12:34:56 is no address of one station",
    ),
    (
        "# addresses = [\"10.77.1.20\", \"fd77:0:0:1::20\"]",
        "addresses = [\"10.77.1.20\", \"10.77.0.20\"]",
        "host[0].addresses[1]: 10.77.0.20 is not in the part of leaf1, 10.77.1.0/24 or fd77:0:0:1::/64",
    ),
    (
        "# addresses = [\"10.77.1.20\", \"fd77:0:0:1::20\"]",
        "addresses = []",
        "host[0].addresses: a host needs an address",
    ),
    (
        "name = \"leaf0\"",
        "name = \"leaf9\"",
        "switch[0].name: \"leaf9\" is no switch of this fabric; write leaf0 to leaf1 or spine0 to spine1",
    ),
    (
        "name = \"leaf0\"",
        "name = \"leaf0\"\ndownlink = \"net_ring0\"",
        "switch[0].downlink: leaf0 is a leaf, which has no downlink; write uplink",
    ),
    (
        "name = \"leaf0\"",
        "name = \"leaf0\"\nuplink = \"0000:03:00.0\"",
        "switch[0].uplink: the device 0000:03:00.0 is already that of port[1]",
    ),
    (
        "# eal = { cpus = [2] }",
        "eal = { cpus = [2, 2] }",
        "switch[0].eal.cpus[1]: CPU 2 is listed twice",
    ),
    (
        "# eal = { cpus = [2] }",
        "eal = { cpu = [2] }",
        "switch[0].eal.cpu: unknown key \"cpu\"; did you mean \"cpus\"?",
    ),
    (
        "[gateway]",
        "[[device]]\nname = \"0000:03:00.0\"\n[gateway]",
        "device[0].name: no port is on 0000:03:00.0; name the device of a port",
    ),
    (
        "icmp = 1000",
        "icmp = 2000000",
        "gateway.icmp: 2000000 is out of range",
    ),
    (
        "icmp = 1000",
        "addresses = [\"10.77.0.9\"]",
        "gateway.addresses: unknown key \"addresses\"",
    ),
    (
        "policy = \"jsq2\"",
        "policy = \"jsq3\"",
        "spray.policy: \"jsq3\" is no spray policy; did you mean \"jsq2\"?",
    ),
    (
        "limit = \"256KiB\"",
        "limit = \"1KiB\"",
        "queue.limit: 1KiB holds no whole frame of 1522 bytes",
    ),
    (
        "announce = \"window\"",
        "anounce = \"window\"",
        "measurement.anounce: unknown key \"anounce\"; did you mean \"announce\"?",
    ),
    (
        "size = \"96MiB\"",
        "size = \"1MiB\"",
        "eal.size: 1MiB is out of range; choose 64MiB",
    ),
    ("[links]", "[links", ""),
];

/// Goal: each of many ways of breaking a fabric is answered with file, line, key and cure; for values
/// with the line of the value.
#[test]
fn wrong_fabrics_are_explained() {
    assert!(WRONG.len() >= 40);
    let mut wrong = Vec::new();
    for (from, to, message) in WRONG {
        let text = FABRIC.replacen(from, to, 1);
        assert_ne!(text, FABRIC, "the example has no {from}");
        let error = parse(&text).expect_err(to);
        let shown = error.to_string();
        let place = shown.strip_prefix("f.toml:");
        let is_right = place
            .and_then(|rest| rest.split_once(": "))
            .is_some_and(|(line, rest)| {
                let line: usize = line.parse().unwrap_or_default();
                let said = text.lines().nth(line.wrapping_sub(1)).unwrap_or_default();
                // Of a missing key, or one that came to light elsewhere, the line is that of its table.
                let last = error.key.rsplit('.').next().unwrap_or_default();
                let word = last.split('[').next().unwrap_or_default();
                rest.starts_with(message) && said.contains(word)
            });
        if !is_right {
            wrong.push(format!("{to}\n gives {shown}\n not   {message}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: the files of the example are complete, agree, and say what the fabric's file says.
#[test]
fn the_example_becomes_a_fabric() {
    let file = parse(FABRIC).unwrap();
    let roles: Vec<&str> = file.switches.iter().map(|s| s.role.as_str()).collect();
    assert_eq!(roles, ["leaf0", "leaf1", "spine0", "spine1"]);
    assert_eq!(file.switches[1].spec.name, "lab-leaf1");
    let specs: Vec<SwitchSpec> = file.switches.iter().map(|s| s.spec.clone()).collect();
    let paths: Vec<PathBuf> = roles.iter().map(PathBuf::from).collect();
    let set = SwitchSet::new(specs, &paths).unwrap();
    assert_eq!(set.devices.len(), 2 * (1 + 2) + 2 * 2);
    assert_eq!(file.cables.len(), 2 + 4);
    insta::assert_snapshot!("leaf0", file.switches[0].text);
    insta::assert_snapshot!("spine1", file.switches[3].text);
    for (name, text) in file.files().into_iter().skip(4) {
        insta::assert_snapshot!(name, text);
    }
    insta::assert_snapshot!("check", crate::check::fabric(&file));
}

/// Goal: VLANs on one NIC per switch, hosts that are learned, faults, settings of single switches and
/// of devices all come to where they belong.
#[test]
fn a_fabric_on_shared_nics() {
    let text = FABRIC
        .replace("faults = []", "faults = [\"leaf1-spine0:drop=0.01\"]")
        .replace("# vlan = 100", "vlan = 100")
        .replace("# host_vlan = 1000", "host_vlan = 1000")
        .replace("learn = false", "learn = true")
        .replace(
            "net_af_packet_{switch}_{port},iface={port}",
            "0000:0{leaf}:00.0",
        )
        .replace(
            "downlink = \"0000:0{leaf}:00.0\"",
            "downlink = \"0000:8{spine}:00.0\"",
        )
        .replace("# eal = { cpus = [2] }", "eal = { cpus = [2] }")
        .replace(
            "[gateway]",
            "[[device]]\nname = \"0000:01:00.0\"\nrate = \"25Gbps\"\n[gateway]",
        );
    let file = parse(&text).unwrap();
    let of = |role: &str| &file.switches.iter().find(|s| s.role == role).unwrap().spec;
    assert_eq!(of("leaf0").eal.cpus, [2]);
    assert_eq!(of("leaf1").eal.cpus, [0u16; 0]);
    assert_eq!(of("leaf1").vlans, [Some(1001), Some(102), Some(103)]);
    assert_eq!(of("spine1").vlans, [Some(101), Some(103)]);
    assert_eq!(of("leaf1").device_settings.len(), 1);
    assert_eq!(of("leaf0").device_settings.len(), 0);
    assert_eq!(of("leaf1").config.hosts[0].mac, None);
    let faulty = |role: &str| of(role).faults.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(faulty("leaf1"), [0, 1, 0]);
    assert_eq!(faulty("spine0"), [0, 1]);
    assert_eq!(faulty("leaf0"), [0, 0, 0]);
    let commands = &file.files()[5].1;
    assert!(commands.contains("type vlan id 1001"), "{commands}");
    assert!(!commands.contains("address 02:"), "{commands}");
}

/// Goal: the largest fabric there is fits into its files.
#[test]
fn the_largest_fabric_is_generated() {
    let text = FABRIC
        .replace("leaves = 2", "leaves = 128")
        .replace("spines = 2", "spines = 128")
        .replace("per_leaf = 1", "per_leaf = 8");
    let file = parse(&text).unwrap();
    assert_eq!(file.switches.len(), 256);
    assert_eq!(file.hosts.len(), 1024);
    assert_eq!(file.cables.len(), 1024 + 128 * 128);
}
