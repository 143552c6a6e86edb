//! What fuzzing starts from: the captures of `tests/corpus`, and windows as switches make them, in
//! the form of each target; and texts of the examples in `docs`.

use std::path::Path;

use packet::bth;
use packet::message::{self, FLAG_COUNTS, FLAG_HOP_ROOM, FLAG_SWITCH, MessageKind};

use crate::net;

/// Frames of one input of a captured kind.
const FRAMES: usize = 24;
/// Inputs of each capture.
const INPUTS: usize = 6;

/// A switch's message of a window from leaf 0 to leaf 1.
fn message(kind: MessageKind, flags: u32, fanout: u16, epoch: u32) -> Vec<u8> {
    let mut header = net::host_header(kind, 7, 100, 20);
    (header.flags, header.fanout, header.epoch) = (flags, fanout, epoch);
    header.flow_id = 0;
    let mut payload = vec![0; message::LEN_MAX];
    let len = message::write(&mut payload, &header, |_| true, |x| 5 + x as u32);
    net::udp(0, 1, message::DEFAULT_PORT, &payload[..len]).0
}

/// A whole window as a port sees it: of a host with announcement, or between switches with messages.
fn window(is_host: bool, epoch: u32) -> Vec<Vec<u8>> {
    let mut frames = match is_host {
        true => vec![net::announcement(0, 1, 7, 100, 20).0],
        false => vec![message(MessageKind::Open, FLAG_SWITCH, net::SPINES, epoch)],
    };
    for n in 0..20 {
        let mut frame = net::data(0, 1, 7, 100 + n).0;
        if !is_host {
            frame[42 + bth::RESV8A] |= bth::MARK | (bth::COLOUR * (epoch as u8 & 1));
        }
        frames.push(frame);
    }
    if !is_host {
        let flags = FLAG_SWITCH | FLAG_COUNTS | FLAG_HOP_ROOM;
        frames.push(message(MessageKind::Close, flags, net::SPINES, epoch));
        frames.push(message(
            MessageKind::LinkState,
            FLAG_SWITCH,
            net::LEAVES,
            epoch,
        ));
    }
    frames
}

/// Frames as [`crate::feed`] reads them: before each, time goes on and an egress port is served.
fn fed(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut input = Vec::new();
    for (n, frame) in frames.iter().enumerate() {
        let what = if n % 5 == 4 {
            0
        } else {
            0x80 | (n as u8 & 3) << 4
        };
        input.push(what | (n as u8 & 15));
        input.extend((frame.len() as u16 & 0x07ff).to_be_bytes());
        input.extend_from_slice(&frame[..frame.len() & 0x07ff]);
    }
    input
}

/// Frames with their lengths alone.
fn plain(frames: &[Vec<u8>]) -> Vec<u8> {
    let lengths = frames.iter().map(|frame| (frame.len().min(0x0fff), frame));
    lengths
        .flat_map(|(len, frame)| [&(len as u16).to_be_bytes()[..], &frame[..len]].concat())
        .collect()
}

/// Captured frames as if they were for the software RNIC of the target `endpoint`: its addresses, queue
/// pair and PSNs. Others are as they were.
fn readdressed(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut frames = frames.to_vec();
    for (n, frame) in frames.iter_mut().enumerate() {
        if frame.len() < 62 || frame[12..15] != [8, 0, 0x45] || frame[36..38] != [0x12, 0xb7] {
            continue;
        }
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0]);
        frame[26..34].copy_from_slice(&[10, 0, 1, 1, 10, 0, 0, 1]);
        let sum = packet::ip::v4_checksum(&frame[14..34]);
        packet::be::put16(frame, 24, sum);
        frame[47..50].copy_from_slice(&[0, 0, 17]);
        frame[51..54].copy_from_slice(&(0x1234 + n as u32).to_be_bytes()[1..]);
        let end = frame.len() - 4;
        if let Some(sum) = packet::icrc::icrc(&frame[14..end], 20) {
            frame[end..].copy_from_slice(&sum);
        }
    }
    frames
}

/// The frames of a capture: little-endian microsecond pcap, the one form that is in the corpus.
fn captured(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut frames, mut rest) = (Vec::new(), &bytes[24..]);
    while let Some((header, tail)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        frames.push(tail[..len].to_vec());
        rest = &tail[len..];
    }
    frames
}

fn files(folder: &Path, extension: &str) -> Vec<std::path::PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a name").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == extension));
    paths.sort();
    paths
}

/// Inputs by target.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut inputs = Vec::new();
    for path in files(&root.join("tests/corpus"), "pcap") {
        let frames = captured(&path);
        inputs.extend(
            frames
                .iter()
                .take(INPUTS)
                .map(|frame| ("parse", frame.clone())),
        );
        for chunk in frames.chunks(FRAMES).take(INPUTS) {
            for target in ["leaf_host", "leaf_fabric", "spine"] {
                inputs.push((target, fed(chunk)));
            }
            inputs.push(("endpoint", plain(chunk)));
            inputs.push(("endpoint", plain(&readdressed(chunk))));
        }
    }
    for epoch in 1..5 {
        inputs.push(("leaf_host", fed(&window(true, epoch))));
        inputs.push(("leaf_fabric", fed(&window(false, epoch))));
        inputs.push(("spine", fed(&window(false, epoch))));
        for frame in window(false, epoch) {
            inputs.push(("announcement", frame[42..].to_vec()));
            inputs.push(("parse", frame));
        }
    }
    for path in files(&root.join("docs/examples"), "toml") {
        inputs.push(("configuration", std::fs::read(path).expect("an example")));
    }
    for fault in [
        "leaf3>spine5:drop=0.01",
        "leaf3-spine5:burst=0.01,0.1,0.5",
        "none",
    ] {
        inputs.push(("configuration", fault.into()));
    }
    for line in [
        r#"{"show":"ports"}"#,
        r#"{"show":"measured"}"#,
        r#"{"show":"neighbors"}"#,
        r#"{"fault":"add","link":"leaf0>spine1","spec":"drop=0.01"}"#,
        r#"{"fault":"list"}"#,
        r#"{"fault":"clear","link":"leaf0-spine1"}"#,
        r#"{"set":"link","link":"leaf0>spine1","on":false}"#,
        r#"{"set":"keys","keys":{"spray.policy":"jsq"}}"#,
        r#"{"set":"keys","keys":{"alpha":"0.01","evidence":"hop-counts"}}"#,
        r#"{"set":"route","prefix":"10.0.0.0/8","leaf":"leaf1"}"#,
        r#"{"set":"log","filter":"debug"}"#,
        r#"{"set":"reload"}"#,
        r#"{"capture":{"ports":["leaf0.port0"],"filter":"roce,qpn=0x11,ip=10.0.0.1","count":3}}"#,
        r#"{"verdicts":{"boot":"0000000000000001","from":7}}"#,
    ] {
        inputs.push(("control_socket", format!("{line}\n").into()));
    }
    let verdict = |src: u16, dst: u16, seq: u64| {
        format!(
            r#"{{"seq":{seq},"at_ns":1800000000000000000,"took_ns":5000000,"src":"leaf{src}","dst":"leaf{dst}","qpn":17,"epoch":3,"evidence":"hop-counts","sequential":false,"paths":[[0,"healthy",4096.0,4096,0,0.0,0.003,[4096,4096,4096,4096]],[1,"failed",4096.0,4000,0,0.0,0.003,[4096,4000,4000,4000]],[2,"no-close",4096.0,0,0,0.0,null,null],[3,"healthy",4096.0,4096,0,9.5,0.003,null]]}}"#
        )
    };
    let lines = [verdict(0, 1, 1), verdict(0, 2, 2), verdict(3, 1, 3)];
    inputs.push(("monitor", lines.join("\n").into()));
    inputs.extend(lines.map(|line| ("monitor", line.into())));
    inputs
}
