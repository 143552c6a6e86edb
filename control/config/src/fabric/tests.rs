//! Tests of the resolution.

use std::collections::HashSet;

use pipeline::{NextHop, Peer, PortKind};

use super::*;
use crate::choice::Preset;
use crate::testbed::{FaultList, LinkList};

fn default() -> TestbedConfig {
    TestbedConfig::preset(Preset::Default)
}

/// Goal: an 8x8 fabric has its 16 switches, 8 hosts and 128 links, and each link ends where the
/// other switch expects it.
#[test]
fn both_ends_of_a_link_agree() {
    let config = TestbedConfig {
        hosts_per_leaf: 3,
        leaves: 5,
        spines: 4,
        ..default()
    };
    let fabric = Fabric::new(&config).unwrap();
    assert_eq!(
        (
            fabric.switches.len(),
            fabric.hosts.len(),
            fabric.links.len()
        ),
        (9, 15, 40)
    );
    for link in &fabric.links {
        let from = &fabric.switches[link.from.0];
        let to = &fabric.switches[link.to.0];
        assert_eq!(format!("{}>{}", from.name, to.name), link.link.to_string());
        let out = &from.config.ports[link.from.1.index()];
        let into = &to.config.ports[link.to.1.index()];
        assert_eq!(
            (out.mac, out.peer_mac),
            (into.peer_mac, into.mac),
            "{}",
            link.link
        );
        let peer = match into.kind {
            PortKind::Fabric(Peer::Leaf(leaf)) => leaf.to_string(),
            PortKind::Fabric(Peer::Spine(spine)) => spine.to_string(),
            PortKind::Host => "a host".to_owned(),
        };
        assert_eq!(peer, from.name);
    }
}

/// Goal: hosts are where their leaf thinks they are, and all others route there.
#[test]
fn hosts_are_reached_from_everywhere() {
    let config = TestbedConfig {
        hosts_per_leaf: 2,
        leaves: 3,
        spines: 2,
        ..default()
    };
    let fabric = Fabric::new(&config).unwrap();
    let names: Vec<&str> = fabric.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["h0.0", "h0.1", "h1.0", "h1.1", "h2.0", "h2.1"]);
    assert_eq!(fabric.hosts[3].address.to_string(), "10.1.0.2");
    for host in &fabric.hosts {
        for (index, switch) in fabric.switches.iter().enumerate() {
            let table = pipeline::route::RouteTable::new(&switch.config.routes);
            let next = table.lookup(host.address);
            if index == host.leaf {
                assert_eq!(next, Some(NextHop::Host(host.port.0)), "{}", host.name);
                let known = &switch.config.hosts[host.port.index()];
                assert_eq!((known.mac, known.port), (Some(host.mac), host.port.0));
                let port = &switch.config.ports[host.port.index()];
                assert_eq!((port.mac, port.peer_mac), (host.gateway_mac, host.mac));
            } else {
                let leaf = pipeline::LeafId(host.leaf as u16);
                assert_eq!(
                    next,
                    Some(NextHop::Leaf(leaf)),
                    "{} at {}",
                    host.name,
                    switch.name
                );
            }
        }
    }
}

/// Goal: no two ports or hosts of the largest fabric share a MAC address, and no two parts a seed.
#[test]
fn addresses_and_seeds_are_unique() {
    let config = TestbedConfig {
        leaves: 128,
        spines: 128,
        hosts_per_leaf: 64,
        workload: crate::Workload::Idle,
        ..default()
    };
    let fabric = Fabric::new(&config).unwrap();
    let ports = fabric
        .switches
        .iter()
        .flat_map(|switch| &switch.config.ports);
    let macs: Vec<MacAddr> = ports
        .map(|port| port.mac)
        .chain(fabric.hosts.iter().map(|host| host.mac))
        .collect();
    let unique: HashSet<&MacAddr> = macs.iter().collect();
    assert_eq!(macs.len(), 128 * (64 + 128) + 128 * 128 + 128 * 64);
    assert_eq!(unique.len(), macs.len());
    assert!(
        macs.iter().all(|mac| mac.0[0] & 3 == 2),
        "locally administered, not a group"
    );
    let addresses: HashSet<Address> = fabric.hosts.iter().map(|host| host.address).collect();
    assert_eq!(addresses.len(), fabric.hosts.len());
    let seeds: HashSet<u64> = fabric
        .switches
        .iter()
        .map(|switch| switch.config.seed)
        .collect();
    assert_eq!(seeds.len(), 256);
}

/// Goal: every switch has an address of its own that all leaves reach, and nobody else has.
#[test]
fn switches_have_addresses() {
    let config = TestbedConfig {
        leaves: 128,
        spines: 128,
        workload: crate::Workload::Idle,
        ..default()
    };
    let fabric = Fabric::new(&config).unwrap();
    let own = |index: usize| fabric.switches[index].config.gateway.addresses[0];
    let mut all: Vec<Address> = (0..256).map(own).collect();
    all.extend(fabric.hosts.iter().map(|host| host.address));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "no address twice");
    assert_eq!(
        (own(3).to_string(), own(128 + 5).to_string()),
        ("10.3.255.254".into(), "10.133.0.1".into())
    );
    for index in [0, 77] {
        let table = pipeline::route::RouteTable::new(&fabric.switches[index].config.routes);
        assert_eq!(table.lookup(own(index)), None, "its own is no route");
        for other in (0..256).filter(|&other| other != index) {
            let next = match other {
                0..128 => NextHop::Leaf(pipeline::LeafId(other as u16)),
                _ => NextHop::Spine(pipeline::SpineId(other as u16 - 128)),
            };
            assert_eq!(
                table.lookup(own(other)),
                Some(next),
                "{other} from leaf {index}"
            );
        }
    }
}

/// Goal: marking and hold-down follow the settings.
#[test]
fn ecn_and_hold_down_are_handed_on() {
    let queues = |ecn| {
        let config = TestbedConfig {
            ecn,
            hold_down: crate::Time::new(7_000),
            ..default()
        };
        let switch = Fabric::new(&config).unwrap().switches[9].config.clone();
        assert_eq!(switch.hold_down_ns, 7_000);
        switch.queue.ecn
    };
    assert_eq!(queues(false), [None; 8]);
    let curve = queues(true)[3].unwrap();
    assert_eq!(curve.thresholds_bytes(10_000_000_000), (40_000, 160_000));
    let config = TestbedConfig {
        ecn: true,
        link_rate: crate::Rate::new(100_000_000_000),
        ..default()
    };
    let error = Fabric::new(&config).unwrap_err().to_string();
    assert!(
        error.contains("ecn: at 100Gbps everything is marked from 1600kB"),
        "{error}"
    );
}

/// Goal: faults and disabled links land on their link's sending end, with their text.
#[test]
fn faults_land_on_their_link() {
    let mut config = default();
    config.faults = FaultList::read(["spine2>leaf6:drop=0.005", "spine2>leaf6:delay=5us"]).unwrap();
    config.disabled = LinkList::read(["leaf1-spine3"]).unwrap();
    let fabric = Fabric::new(&config).unwrap();
    let faulty: Vec<_> = fabric
        .links
        .iter()
        .filter(|link| !link.faults.is_empty())
        .collect();
    assert_eq!(faulty.len(), 1);
    assert_eq!(faulty[0].from, (8 + 2, PortId(6)));
    assert_eq!(faulty[0].to, (6, PortId(1 + 2)));
    assert_eq!(faulty[0].specs, ["drop=0.005", "delay=5us"]);
    assert_eq!(
        faulty[0].faults,
        [Fault::Drop(0.005), Fault::Delay { nanos: 5_000 }]
    );
    assert_eq!(fabric.disabled, [(1, PortId(1 + 3)), (8 + 3, PortId(1))]);
}

/// Goal: the numbers of the default fabric, worked out by hand.
#[test]
fn sizes_are_what_the_formulas_say() {
    let config = default();
    assert_eq!(frame_max_bytes(&config), 4224);
    // 8 * (2^20 + 4224) bits at 10 Gbit/s are 842,240 ns; three of them, and three steps of 10 us.
    assert_eq!(path_delay_ns_max(&config), 3 * (842_240 + 10_000));
    let leaf = &Fabric::new(&config).unwrap().switches[0].config;
    // 8 * 7 pairs, 2 QPs, 64 packets, twice.
    assert_eq!(leaf.queue.packets_max, 14_336);
    assert_eq!(
        (leaf.queue.slack_ns, leaf.queue.limit_bytes),
        (20_000, 1 << 20)
    );
    let dscp = &leaf.queue.dscp_priority;
    assert_eq!((dscp[0], dscp[26], dscp[48], dscp[63]), (0, 3, 6, 6));
    assert!(!leaf.measurement.is_paper);
    // A close of 128 spines is longer than a packet of 256 bytes.
    let config = TestbedConfig {
        mtu: 256,
        leaves: 2,
        spines: 128,
        ..config
    };
    assert_eq!(frame_max_bytes(&config), 56 + 16 + 4 * 128 + 16 + 70);
}

/// Goal: seeds follow from name and seed alone.
#[test]
fn seeds_do_not_depend_on_the_fabric() {
    let small = TestbedConfig {
        leaves: 2,
        ..default()
    };
    let (small, large) = (
        Fabric::new(&small).unwrap(),
        Fabric::new(&default()).unwrap(),
    );
    assert_eq!(small.switches[2].name, "spine0");
    assert_eq!(small.switches[2].config.seed, large.switches[8].config.seed);
    let other = TestbedConfig {
        seed: 2,
        ..default()
    };
    assert_ne!(
        Fabric::new(&other).unwrap().switches[0].config.seed,
        large.switches[0].config.seed
    );
}
