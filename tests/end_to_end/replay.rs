//! Captures of real RDMA stacks through a leaf: every IP packet comes out exactly once, on a right
//! port, changed in what a router changes and in nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::oracle::{self, IpPacket};
use crate::run::{root, spraycheck};

const CONFIG: &str = "docs/examples/leaf0.toml";

/// A switch of the example's fabric: its file, its ports, and where it may send a packet.
struct Role {
    config: PathBuf,
    /// The port that captures are named for.
    input: &'static str,
    ports: Vec<&'static str>,
    /// Ports that lead towards host .1 and towards host .2, with the MAC addresses (to, from).
    towards: [Vec<Exit>; 2],
}

/// A port and the MAC addresses (to, from) of what leaves it.
type Exit = (&'static str, [u8; 6], [u8; 6]);

fn host_mac(host: u8) -> [u8; 6] {
    [0x52, 0x54, 0, 0x77, 0, host]
}

/// Leaf 0 has host .1; its uplinks lead to host .2.
fn leaf0() -> Role {
    Role {
        config: root().join(CONFIG),
        input: "host0",
        ports: vec!["host0", "up0", "up1", "up2", "up3"],
        towards: [vec![("host0", host_mac(1), [2, 0, 0, 0, 0, 0])], uplinks()],
    }
}

fn uplinks() -> Vec<Exit> {
    let names = ["up0", "up1", "up2", "up3"].into_iter().zip(0..);
    names
        .map(|(name, n)| (name, [2, 0, 1, 0, n, 0], [2, 0, 0, 0, 0, 0x10 + n]))
        .collect()
}

/// The example turned round: leaf 1 has host .2, and host .1 is behind its uplinks.
fn leaf1(folder: &Path) -> Role {
    let text = std::fs::read_to_string(root().join(CONFIG)).expect("the example");
    let text = text
        .replace("\"leaf1\"", "\"other\"")
        .replace("\"leaf0\"", "\"leaf1\"")
        .replace("\"other\"", "\"leaf0\"")
        .replace("10.77.0.2/32", "10.77.0.1/32")
        .replace("fd77::2/128", "fd77::1/128")
        .replace("\"10.77.0.1\"", "\"10.77.0.2\"")
        .replace("\"fd77::1\"", "\"fd77::2\"")
        .replace("52:54:00:77:00:01", "52:54:00:77:00:02");
    let config = folder.join("leaf1.toml");
    std::fs::write(&config, text).expect("a file");
    Role {
        config,
        input: "up2",
        ports: vec!["host0", "up0", "up1", "up2", "up3"],
        towards: [uplinks(), vec![("host0", host_mac(2), [2, 0, 0, 0, 0, 0])]],
    }
}

/// Spine 0, with a downlink to each leaf.
fn spine0(folder: &Path) -> Role {
    let port = |n: u8| {
        format!(
            "[[port]]\nname = \"down{n}\"\nkind = \"downlink\"\npeer = \"leaf{n}\"\nmac = \"02:00:01:00:00:0{n}\"\n\
             peer_mac = \"02:00:00:00:0{n}:10\"\nrate = \"10Gbps\"\nmtu = 4200\naccept_any_mac = true\n"
        )
    };
    let route = |n: u8| {
        let host = n + 1;
        format!(
            "[[route]]\nprefix = \"10.77.0.{host}/32\"\nleaf = \"leaf{n}\"\n\
             [[route]]\nprefix = \"fd77::{host}/128\"\nleaf = \"leaf{n}\"\n"
        )
    };
    let head = "name = \"spine0\"\nrole = \"spine0\"\n[fabric]\nleaves = 2\nspines = 4\nlink_state = \"off\"\n";
    let config = folder.join("spine0.toml");
    let text = [head.to_owned(), port(0), port(1), route(0), route(1)].concat();
    std::fs::write(&config, text).expect("a file");
    let down = |n: u8, name| vec![(name, [2, 0, 0, 0, n, 0x10], [2, 0, 1, 0, 0, n])];
    Role {
        config,
        input: "down0",
        ports: vec!["down0", "down1"],
        towards: [down(0, "down0"), down(1, "down1")],
    }
}

fn corpus() -> Vec<PathBuf> {
    let folder = root().join("tests/corpus");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the corpus is part of the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "pcap")
        })
        .collect();
    files.sort();
    assert!(
        files.len() >= 25,
        "{} captures in {}",
        files.len(),
        folder.display()
    );
    files
}

/// Replays a capture split by source address; returns the result and the frames of each port.
fn replay(role: &Role, capture: &Path, out: &Path) -> (Value, BTreeMap<String, Vec<Vec<u8>>>) {
    let input = format!("{}={}", role.input, capture.display());
    let (config, out_text) = (role.config.display().to_string(), out.display().to_string());
    let arguments = [
        "replay", "--config", &config, "--in", &input, "--split", "--out", &out_text, "--json", "-",
    ];
    let done = spraycheck(&arguments);
    assert_eq!(done.status, 0, "{}: {}", capture.display(), done.stderr);
    let frames = |name: &&str| {
        (
            (*name).to_owned(),
            oracle::frames(&out.join(format!("{name}.pcap"))),
        )
    };
    (done.json(), role.ports.iter().map(frames).collect())
}

/// Checks one capture; returns how many IP packets it had.
fn check(role: &Role, capture: &Path) -> usize {
    let name = format!("{} at {}", capture.display(), role.config.display());
    let folder = tempfile::tempdir().expect("a folder");
    let (result, mut out) = replay(role, capture, folder.path());
    let input = oracle::frames(capture);
    let mut packets = 0;
    let mut dropped = 0;
    for (number, frame) in input.iter().enumerate() {
        let Some(packet) = oracle::ip_packet(frame) else {
            dropped += 1;
            continue;
        };
        packets += 1;
        let port = take(role, &mut out, frame, &packet);
        assert!(
            port.is_some(),
            "{name}, frame {number}: did not come out as it should\n{packet:?}"
        );
    }
    // What is left was made by the leaf: answers to ARP, towards the host.
    let extra: Vec<&Vec<u8>> = out.values().flatten().collect();
    for frame in &extra {
        assert_eq!(
            frame[12..14],
            [8, 6],
            "{name}: a frame that nobody sent: {frame:02x?}"
        );
        assert_eq!(
            frame[20..22],
            [0, 2],
            "{name}: an ARP packet that is no reply"
        );
    }
    let counters = &result["counters"];
    let drops = counters["drops"].as_object().expect("drops").values();
    let drops: u64 = drops.map(|n| n.as_u64().expect("a count")).sum();
    let consumed = counters["consumed"].as_u64().expect("consumed");
    assert_eq!(
        drops + consumed,
        dropped,
        "{name}: each frame that is no IP packet has its counter: {counters}"
    );
    assert_eq!(
        counters["generated"].as_u64(),
        Some(extra.len() as u64),
        "{name}"
    );
    assert_eq!(result["conservation_ok"], Value::Bool(true), "{name}");
    packets
}

/// Takes the routed form of `frame` out of what came out, at a port where it may, with its ICRC as
/// right or wrong as it was. Returns the port.
fn take(
    role: &Role,
    out: &mut BTreeMap<String, Vec<Vec<u8>>>,
    frame: &[u8],
    packet: &IpPacket,
) -> Option<String> {
    // The captures have two hosts: what comes from .1 goes to .2.
    let towards = &role.towards[usize::from(packet.source == 1)];
    for &(port, to, from) in towards {
        let mut expected = oracle::routed(frame, packet, to, from);
        // A leaf clears a mark, whether a host made it up or a fabric has counted it; a spine
        // believes the fabric.
        if let Some(udp) = packet.roce_udp_at
            && !role.ports.contains(&"down0")
        {
            expected[udp + 12] &= !3;
        }
        let frames = out.get_mut(port)?;
        if let Some(place) = frames.iter().position(|found| *found == expected) {
            let found = frames.remove(place);
            assert_eq!(
                oracle::icrc_is_right(&found, packet),
                oracle::icrc_is_right(frame, packet)
            );
            return Some(port.to_owned());
        }
    }
    None
}

#[test]
fn every_packet_of_every_capture_comes_out_once_and_right_in_every_role() {
    let folder = tempfile::tempdir().expect("a folder");
    for role in [leaf0(), leaf1(folder.path()), spine0(folder.path())] {
        let packets: usize = corpus().iter().map(|capture| check(&role, capture)).sum();
        assert!(packets > 1_000, "{packets} IP packets in all");
    }
}

#[test]
fn what_is_no_ip_packet_has_its_own_counter() {
    let folder = tempfile::tempdir().expect("a folder");
    let counters = |capture: &str| {
        let (result, _) = replay(
            &leaf0(),
            &root().join("tests/corpus").join(capture),
            folder.path(),
        );
        result["counters"].clone()
    };
    let v1 = counters("crafted-rocev1.pcap");
    assert_eq!(v1["drops"]["roce-v1"], 6, "{v1}");
    let mixed = counters("rxe-mixed-arp-tcp.pcap");
    assert_eq!(mixed["notes"]["arp-answered"], 1, "{mixed}");
    let odd = counters("crafted-odd.pcap");
    assert_eq!(odd["drops"]["bth-cut"], 1, "{odd}");
    assert_eq!(odd["notes"]["fragments"], 2, "{odd}");
    let marked = counters("crafted-resv8a-marked.pcap");
    assert_eq!(marked["notes"]["marks-cleared"], 40, "{marked}");
}

#[test]
fn a_replay_is_the_same_every_time() {
    let capture = root().join("tests/corpus/rxe-rc-loss.pcap");
    let folders = [
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    ];
    let runs = folders
        .each_ref()
        .map(|folder| replay(&leaf0(), &capture, folder.path()));
    assert_eq!(runs[0].1, runs[1].1, "the frames of every port");
    assert_eq!(runs[0].0["counters"], runs[1].0["counters"]);
}

#[test]
fn mistakes_are_told_with_their_cure() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().display().to_string();
    let capture = "tests/corpus/rxe-rc-send.pcap";
    for (input, wanted) in [
        (format!("host9={capture}"), "host9"),
        ("host0=no/such/file.pcap".to_owned(), "no/such/file.pcap"),
        ("host0=README.md".to_owned(), "README.md"),
    ] {
        let done = spraycheck(&["replay", "--config", CONFIG, "--in", &input, "--out", &out]);
        assert_eq!(done.status, 2, "{input}: {}", done.stderr);
        assert!(done.stderr.contains(wanted), "{input}: {}", done.stderr);
    }
}
