//! Captures of real RDMA stacks through a leaf: every IP packet comes out exactly once, on a right
//! port, changed in what a router changes and in nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::oracle::{self, IpPacket};
use crate::run::{root, spraycheck};

const CONFIG: &str = "docs/examples/leaf0.toml";
const UPLINKS: [&str; 4] = ["up0", "up1", "up2", "up3"];
/// Addresses of the example: the host, its port, and per uplink the spine's port and our own.
const HOST_MAC: [u8; 6] = [0x52, 0x54, 0, 0x77, 0, 1];
const PORT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0];

fn uplink_macs(index: u8) -> ([u8; 6], [u8; 6]) {
    ([2, 0, 1, 0, index, 0], [2, 0, 0, 0, 0, 0x10 + index])
}

fn corpus() -> Vec<PathBuf> {
    let folder = root().join("tests/corpus");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the corpus is part of the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pcap"))
        .collect();
    files.sort();
    assert!(files.len() >= 25, "{} captures in {}", files.len(), folder.display());
    files
}

/// Replays a capture split by source address; returns the result and the frames of each port.
fn replay(capture: &Path, out: &Path) -> (Value, BTreeMap<String, Vec<Vec<u8>>>) {
    let input = format!("host0={}", capture.display());
    let out_text = out.display().to_string();
    let done = spraycheck(&["replay", "--config", CONFIG, "--in", &input, "--split", "--out", &out_text, "--json", "-"]);
    assert_eq!(done.status, 0, "{}: {}", capture.display(), done.stderr);
    let names = std::iter::once("host0").chain(UPLINKS);
    let frames = names.map(|name| (name.to_owned(), oracle::frames(&out.join(format!("{name}.pcap")))));
    (done.json(), frames.collect())
}

/// Checks one capture; returns how many IP packets it had.
fn check(capture: &Path) -> usize {
    let name = capture.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let (result, mut out) = replay(capture, folder.path());
    let input = oracle::frames(capture);
    let mut packets = 0;
    let mut dropped = 0;
    for (number, frame) in input.iter().enumerate() {
        let Some(packet) = oracle::ip_packet(frame) else {
            dropped += 1;
            continue;
        };
        packets += 1;
        let port = take(&mut out, frame, &packet);
        assert!(port.is_some(), "{name}, frame {number}: did not come out as it should\n{packet:?}");
    }
    // What is left was made by the leaf: answers to ARP, towards the host.
    let extra: Vec<&Vec<u8>> = out.values().flatten().collect();
    for frame in &extra {
        assert_eq!(frame[12..14], [8, 6], "{name}: a frame that nobody sent: {frame:02x?}");
        assert_eq!(frame[20..22], [0, 2], "{name}: an ARP packet that is no reply");
    }
    let counters = &result["counters"];
    let drops: u64 = counters["drops"].as_object().expect("drops").values().map(|n| n.as_u64().expect("a count")).sum();
    let consumed = counters["consumed"].as_u64().expect("consumed");
    assert_eq!(drops + consumed, dropped, "{name}: each frame that is no IP packet has its counter: {counters}");
    assert_eq!(counters["generated"].as_u64(), Some(extra.len() as u64), "{name}");
    assert_eq!(result["conservation_ok"], Value::Bool(true), "{name}");
    packets
}

/// Takes the routed form of `frame` out of what came out, at a port where it may, with its ICRC as
/// right or wrong as it was. Returns the port.
fn take(out: &mut BTreeMap<String, Vec<Vec<u8>>>, frame: &[u8], packet: &IpPacket) -> Option<String> {
    let candidates: Vec<(String, Vec<u8>)> = if packet.source == 2 {
        vec![("host0".to_owned(), oracle::routed(frame, packet, HOST_MAC, PORT_MAC))]
    } else {
        UPLINKS
            .iter()
            .zip(0..)
            .map(|(name, index)| {
                let (to, from) = uplink_macs(index);
                ((*name).to_owned(), oracle::routed(frame, packet, to, from))
            })
            .collect()
    };
    for (port, mut expected) in candidates {
        // A mark from a host is cleared.
        if let Some(udp) = packet.roce_udp_at {
            expected[udp + 12] &= !3;
        }
        let place = out.get(&port)?.iter().position(|found| *found == expected);
        if let Some(place) = place {
            let found = out.get_mut(&port)?.remove(place);
            assert_eq!(oracle::icrc_is_right(&found, packet), oracle::icrc_is_right(frame, packet));
            return Some(port);
        }
    }
    None
}

#[test]
fn every_packet_of_every_capture_comes_out_once_and_right() {
    let mut packets = 0;
    for capture in corpus() {
        packets += check(&capture);
    }
    assert!(packets > 1_000, "{packets} IP packets in all");
}

#[test]
fn what_is_no_ip_packet_has_its_own_counter() {
    let folder = tempfile::tempdir().expect("a folder");
    let counters = |capture: &str| {
        let (result, _) = replay(&root().join("tests/corpus").join(capture), folder.path());
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
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let runs = folders.each_ref().map(|folder| replay(&capture, folder.path()));
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
