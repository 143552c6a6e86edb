//! What `spraycheck check` prints: a configuration as it will be used, and the EAL line it gives.

use std::fmt::Write as _;
use std::path::Path;

use pipeline::{EcnConfig, GatewayConfig, Mark, NextHop, Peer, PortKind, Role};

use crate::choice::{Spray, Tie};
use crate::document;
use crate::error::ConfigError;
use crate::fabric_file::FabricFile;
use crate::quantity::{Bytes, Rate, Time};
use crate::switch_file::{Device, EalSpec, Memory, SwitchSpec};
use crate::testbed::{TestbedConfig, TestbedFile, TestbedLayer};

/// Checks `text`, the content of `path`, as what it is: a fabric's file (it has links or addressing), a
/// switch's (it has a role or ports) or a testbed's. Returns the resolved form for people.
pub fn check(path: &Path, text: &str) -> Result<String, ConfigError> {
    if FabricFile::is_one(text) {
        return FabricFile::parse(path, text).map(|file| fabric(&file));
    }
    if document::has_any(text, &["role", "port", "route", "eal"]) {
        return SwitchSpec::parse(path, text).map(|spec| switch(&spec));
    }
    let file = TestbedFile::parse(path, text)?;
    let config = TestbedConfig::resolve(Some(&file), TestbedLayer::default())?;
    Ok(testbed(&config))
}

/// EAL arguments of a switch, without the program's name and without those of [`Memory::Auto`],
/// which depend on the machine.
pub fn eal_args(spec: &SwitchSpec) -> Vec<String> {
    let mut arguments = memory_args(&spec.eal);
    arguments.push(format!("--file-prefix={}", spec.name));
    let mut devices: Vec<&Device> = Vec::new();
    for device in spec.devices.iter().flatten() {
        // Ports with tags share one.
        if !devices.contains(&device) {
            devices.push(device);
        }
    }
    if !devices
        .iter()
        .any(|device| matches!(device, Device::Pci(_) | Device::Interface(_)))
    {
        arguments.push("--no-pci".to_owned());
    }
    arguments.extend(devices.iter().map(|device| match device {
        Device::Pci(pci) => format!("--allow={pci}"),
        // Its address is known where the interface is.
        Device::Interface(interface) => format!("--allow={interface}"),
        Device::Vdev(vdev) => format!("--vdev={vdev}"),
    }));
    arguments.extend(spec.eal.arguments.iter().cloned());
    arguments
}

fn memory_args(eal: &EalSpec) -> Vec<String> {
    let size = format!("-m{}", eal.size.bytes() >> 20);
    let kind: &[&str] = match eal.memory {
        Memory::Auto => return Vec::new(),
        Memory::Hugepages => &["--in-memory"],
        Memory::NoHuge => &["--no-huge", "--no-shconf"],
    };
    kind.iter()
        .map(|&flag| flag.to_owned())
        .chain([size])
        .collect()
}

/// A text that grows by lines of `name value`.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{}", format!("{name:<16}{value}").trim_end());
    }
}

/// The settings of a testbed, one a line.
pub fn testbed(config: &TestbedConfig) -> String {
    let mut lines = Lines(String::new());
    lines.add(
        "testbed",
        format!(
            "{} leaves x {} spines, {} hosts",
            config.leaves,
            config.spines,
            config.hosts()
        ),
    );
    // The serde form is the list of all settings by their own names; it cannot fail.
    let text = toml::to_string(config).unwrap_or_default();
    for line in text.lines() {
        if let Some((key, value)) = line.split_once(" = ") {
            lines.add(key, value.trim_matches('"'));
        }
    }
    let delay = Time::new(crate::fabric::path_delay_ns_max(config));
    lines.add("path delay", format!("{delay} at most"));
    lines.add(
        "frame",
        format!("{} bytes at most", crate::fabric::frame_max_bytes(config)),
    );
    lines.add(
        "eal",
        "--file-prefix=spraycheck-<pid> --no-pci (memory auto: hugepages if enough are free)",
    );
    lines.0
}

/// A fabric: its hosts and cables, and the EAL line of each switch.
pub fn fabric(file: &FabricFile) -> String {
    let mut lines = Lines(String::new());
    let is_leaf = |switch: &&crate::fabric_file::GeneratedSwitch| {
        matches!(switch.spec.config.role, Role::Leaf(_))
    };
    let leaves = file.switches.iter().filter(is_leaf).count();
    let size = format!(
        "{leaves} leaves x {} spines, {} hosts, packets to {} bytes",
        file.switches.len() - leaves,
        file.hosts.len(),
        file.mtu
    );
    lines.add("fabric", size);
    lines.add("prefixes", file.prefixes.join(", "));
    for host in &file.hosts {
        let addresses: Vec<String> = host
            .addresses
            .iter()
            .map(|address| format!("{}/{}", address.address, address.length))
            .collect();
        let mac = match host.mac {
            Some(mac) => mac.to_string(),
            None => "MAC address learned".to_owned(),
        };
        lines.add(
            "host",
            format!("{}: {}, {mac}", host.name, addresses.join(", ")),
        );
    }
    for cable in &file.cables {
        let end = |end: &crate::fabric_file::CableEnd| match &end.device {
            Some(device) => format!("{}.{} ({device})", end.node, end.port),
            None => format!("{}.{}", end.node, end.port),
        };
        let vlan = cable.vlan.map(|vlan| format!(", VLAN {vlan}"));
        lines.add(
            "cable",
            format!(
                "{} to {}, {}{}",
                end(&cable.a),
                end(&cable.b),
                cable.rate,
                vlan.unwrap_or_default()
            ),
        );
    }
    for switch in &file.switches {
        let own: Vec<String> = switch
            .spec
            .config
            .gateway
            .addresses
            .iter()
            .map(|a| a.to_string())
            .collect();
        let line = eal_args(&switch.spec).join(" ");
        lines.add(&switch.role, format!("{}; eal {line}", own.join(", ")));
    }
    lines.0
}

/// A switch, part by part.
pub fn switch(spec: &SwitchSpec) -> String {
    let config = &spec.config;
    let mut lines = Lines(String::new());
    let role = match config.role {
        Role::Leaf(leaf) => leaf.to_string(),
        Role::Spine(spine) => spine.to_string(),
    };
    lines.add(
        "switch",
        format!(
            "{}, {role} of {} leaves and {} spines",
            spec.name, config.leaves, config.spines
        ),
    );
    for (index, port) in config.ports.iter().enumerate() {
        let end = match port.kind {
            PortKind::Host => "hosts".to_owned(),
            PortKind::Fabric(Peer::Leaf(leaf)) => format!("{leaf} at {}", port.peer_mac),
            PortKind::Fabric(Peer::Spine(spine)) => format!("{spine} at {}", port.peer_mac),
        };
        let device = match &spec.devices[index] {
            Some(device) => device.to_string(),
            None => "no device (replay only)".to_owned(),
        };
        let device = match spec.vlans[index] {
            Some(vlan) => format!("{device}, VLAN {vlan}"),
            None => device,
        };
        let macs = if port.accept_any_mac {
            ", takes any destination MAC"
        } else {
            ""
        };
        lines.add(
            &format!("port {index}"),
            format!(
                "{}: {}, to {end}, {}, frames to {} bytes{macs}; {device}",
                spec.port_names[index],
                port.mac,
                Rate::new(port.rate_bps),
                port.frame_max_bytes
            ),
        );
        for &fault in &spec.faults[index] {
            let name = &spec.port_names[index];
            let text = format!("{} of what {name} sends", crate::fault::FaultSpec(fault));
            lines.add("injects", text);
        }
    }
    for device in &spec.device_settings {
        let rate = device.rate.map(|rate| format!("{rate} for all its ports"));
        let lcore = device.lcore.map(|lcore| format!("on lcore {lcore}"));
        let said: Vec<String> = rate.into_iter().chain(lcore).collect();
        lines.add("device", format!("{}: {}", device.name, said.join(", ")));
    }
    for host in &config.hosts {
        let mac = match host.mac {
            Some(mac) => mac.to_string(),
            None => "MAC address learned".to_owned(),
        };
        let port = &spec.port_names[usize::from(host.port)];
        lines.add("host", format!("{} on {port}, {mac}", host.address));
    }
    for route in &config.routes {
        match route.next {
            NextHop::Leaf(leaf) => lines.add("route", format!("{} to {leaf}", route.prefix)),
            NextHop::Spine(spine) => lines.add("route", format!("{} to {spine}", route.prefix)),
            NextHop::Port(port) => {
                let port = &spec.port_names[usize::from(port)];
                let text = format!("{} on {port}, MAC addresses learned", route.prefix);
                lines.add("prefix", text);
            }
            NextHop::Host(_) => {}
        }
    }
    gateway(&mut lines, &config.gateway);
    settings(&mut lines, spec);
    lines.0
}

fn gateway(lines: &mut Lines, gateway: &GatewayConfig) {
    let addresses: Vec<String> = gateway.addresses.iter().map(|a| a.to_string()).collect();
    let addresses = if addresses.is_empty() {
        "no address of its own".to_owned()
    } else {
        addresses.join(", ")
    };
    let neighbors = &gateway.neighbors;
    lines.add(
        "gateway",
        format!(
            "{addresses}; {} ICMP answers a second and port; {} neighbors per port for {}, asked every {}",
            gateway.icmp_per_second,
            neighbors.per_port_max,
            Time::new(neighbors.age_ns),
            Time::new(neighbors.ask_ns)
        ),
    );
}

/// The marking curve of each queue that has one.
fn ecn(queues: &[Option<EcnConfig>; 8]) -> String {
    let Some(curve) = queues.iter().flatten().next() else {
        return "off".to_owned();
    };
    let marked = (0..8).filter(|&queue: &usize| queues[queue].is_some());
    let marked: Vec<String> = marked.map(|queue| queue.to_string()).collect();
    let at = match curve.at_rate_bps {
        Some(rate) => format!(" at {}, in proportion at other rates", Rate::new(rate)),
        None => String::new(),
    };
    format!(
        "priorities {}: from {}, at {} with probability {}, beyond always{at}",
        marked.join(", "),
        Bytes::new(curve.kmin_bytes),
        Bytes::new(curve.kmax_bytes),
        f64::from(curve.pmax_ppm) / 1e6
    )
}

fn settings(lines: &mut Lines, spec: &SwitchSpec) {
    let config = &spec.config;
    lines.add(
        "spray",
        format!(
            "{}, ties {}",
            Spray::from(config.policy),
            Tie::from(config.tie)
        ),
    );
    let queue = &config.queue;
    lines.add(
        "queues",
        format!(
            "{} each, {} packets in all, {} bytes of overhead, {} of slack",
            Bytes::new(queue.limit_bytes),
            queue.packets_max,
            queue.overhead_bytes,
            Time::new(queue.slack_ns)
        ),
    );
    lines.add("dscp", classes(&queue.dscp_priority));
    let pcp = match &queue.pcp_priority {
        Some(table) => classes(table),
        None => "ignored".to_owned(),
    };
    lines.add("pcp", pcp);
    lines.add("ecn", ecn(&queue.ecn));
    let measurement = &config.measurement;
    let protocol = if measurement.is_paper {
        "the paper's protocol"
    } else {
        "open and close"
    };
    let mark = match measurement.mark {
        Mark::First => "first copies",
        Mark::All => "all packets",
    };
    lines.add(
        "measurement",
        format!(
            "{protocol}, marks {mark}, windows to {} packets, {} or {} of silence; path delay {}; \
             {} rows for {}",
            measurement.window_packets_max,
            Time::new(measurement.window_ns_max),
            Time::new(measurement.idle_ns_max),
            Time::new(measurement.path_delay_ns_max),
            measurement.rows_max,
            Time::new(measurement.row_ns_max)
        ),
    );
    lines.add("windows", windows(spec));
    let link_state = match config.link_state_ns {
        Some(nanos) => format!("every {}", Time::new(nanos)),
        None => "off".to_owned(),
    };
    lines.add("link state", link_state);
    lines.add("hold down", Time::new(config.hold_down_ns));
    if let Some(listen) = spec.metrics {
        lines.add("metrics", format!("http://{listen}/metrics"));
    }
    lines.add("messages", format!("UDP port {}", config.message_port));
    lines.add("seed", config.seed);
    let buffers = match spec.eal.buffers {
        Some(count) => format!("{count} of {} bytes", spec.eal.buffer_bytes),
        None => format!(
            "{} bytes each, as many as can be out at once",
            spec.eal.buffer_bytes
        ),
    };
    lines.add("buffers", buffers);
    let cpus: Vec<String> = spec.eal.cpus.iter().map(u16::to_string).collect();
    let lcores = if cpus.is_empty() {
        spec.eal.lcores.to_string()
    } else {
        format!("{} on CPUs {}", spec.eal.lcores, cpus.join(", "))
    };
    lines.add("lcores", lcores);
    let auto = match spec.eal.memory {
        Memory::Auto => format!(
            " (memory auto: {} of hugepages if free, else ordinary pages)",
            spec.eal.size
        ),
        Memory::Hugepages | Memory::NoHuge => String::new(),
    };
    lines.add("eal", format!("{}{auto}", eal_args(spec).join(" ")));
}

/// Who names the flows, how long their windows are, and how they are tested.
fn windows(spec: &SwitchSpec) -> String {
    let windows = &spec.config.measurement.windows;
    let flows = if windows.finds_flows {
        format!(
            "announced flows, then busy ones that this leaf finds, to {} of silence",
            Time::new(windows.silence_ns)
        )
    } else {
        "announced flows".to_owned()
    };
    let length = match windows.spine_packets {
        0 => "whole".to_owned(),
        packets => format!("{packets} packets per spine each"),
    };
    let bits = if windows.is_narrow { 16 } else { 32 };
    format!(
        "{flows}; {length}; {} test on {}; counters of {bits} bits",
        spec.test, spec.evidence
    )
}

/// Priorities with the ranges of DSCPs or PCPs that have them.
fn classes(table: &[u8]) -> String {
    let mut parts = Vec::new();
    let mut start = 0;
    for end in 1..=table.len() {
        if end == table.len() || table[end] != table[start] {
            let range = if end - 1 == start {
                format!("{start}")
            } else {
                format!("{start}-{}", end - 1)
            };
            parts.push(format!("{range} to priority {}", table[start]));
            start = end;
        }
    }
    parts.join(", ")
}
