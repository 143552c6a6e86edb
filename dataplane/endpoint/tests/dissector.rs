//! Every opcode that a host sends, read by tshark, which shares nothing with this project.

mod wire;

use std::collections::BTreeMap;
use std::process::Command;

use endpoint::dcqcn::DcqcnConfig;
use endpoint::{Flow, RateControl, Verb};
use wire::{Dice, Wire};

/// Opcodes of a host: SEND, WRITE, READ in all their forms, ACK, and the congestion notification.
const OPCODES: std::ops::RangeInclusive<u8> = 0x00..=0x11;
const CNP: u8 = 0x81;

/// A run with every verb, losses, marks and a receiver that is not ready: all its frames.
fn frames() -> Vec<Vec<u8>> {
    let (mut wire, qp) = Wire::pair(
        |c| {
            c.rate_control = RateControl::Dcqcn(DcqcnConfig::PAPER);
            c.window_packets = 256;
        },
        0xff_fff0,
    );
    wire.hosts[1].post_receives(qp, 1).unwrap();
    let (mut frames, mut dice) = (Vec::new(), Dice(11));
    for round in 0..2 {
        for verb in Verb::ALL {
            for bytes in [5, 4096 * 2 + 3, 300_001] {
                let flow = Flow {
                    verb,
                    flow_id: bytes,
                    bytes,
                    message_bytes: 1 << 20,
                    announce: bytes > 4096,
                };
                let now = wire.now;
                wire.hosts[0].post(now, qp, flow).unwrap();
                let mut marks = round == 1;
                while wire.hosts[0].counters().flows_completed == 0 || wire.now < now + 5_000_000 {
                    let mut rule = |frame: &wire::Frame<'_>| {
                        frames.push(frame.bytes.to_vec());
                        [(dice.below(50) != 0).then_some(1000), None]
                    };
                    let mut ignore = |_: &mut _, _, _, _| ();
                    if !wire.step(&mut rule, &mut ignore) {
                        break;
                    }
                    if std::mem::take(&mut marks) {
                        wire.mark_last();
                    }
                }
                wire.hosts[1].post_receives(qp, 1).unwrap();
                let mut rule = |frame: &wire::Frame<'_>| {
                    frames.push(frame.bytes.to_vec());
                    [Some(1000), None]
                };
                let mut ignore = |_: &mut _, _, _, _| ();
                while wire.step(&mut rule, &mut ignore) {}
            }
        }
    }
    assert_eq!(wire.counters(0).qps_failed, 0);
    frames
}

/// A classic capture file.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (at, frame) in frames.iter().enumerate() {
        let len = frame.len() as u32;
        for word in [at as u32, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Goal: tshark finds each frame well-formed, with the opcode and PSN that were meant, and all
/// opcodes are among them.
#[test]
fn a_dissector_has_no_complaint() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed; scripts/packages tests brings it");
        return;
    }
    let frames = frames();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.pcap");
    std::fs::write(&path, capture(&frames)).unwrap();
    let fields = [
        "infiniband.bth.opcode",
        "infiniband.bth.psn",
        "infiniband.bth.destqp",
        "infiniband.invariant.crc",
        "_ws.malformed",
        "_ws.expert.message",
        "frame.protocols",
    ];
    let mut command = Command::new("tshark");
    command
        .arg("-r")
        .arg(&path)
        .args(["-T", "fields", "-E", "separator=;"]);
    // Payloads are noise, in which tshark's guesses find protocols now and then.
    for guess in ["rpcordma", "smb_direct", "nvme-rdma"] {
        command.args(["--disable-protocol", guess]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(';').collect()).collect();
    assert_eq!(lines.len(), frames.len());
    let mut seen = BTreeMap::new();
    for (number, (line, frame)) in lines.iter().zip(&frames).enumerate() {
        let what = format!("frame {}: {line:?}", number + 1);
        assert_eq!((line[4], line[5]), ("", ""), "{what}");
        let parsed = packet::parse(frame, frame.len(), packet::message::DEFAULT_PORT).unwrap();
        if parsed.kind == packet::Kind::Message {
            continue;
        }
        assert!(line[6].contains("infiniband"), "{what}");
        let opcode = parsed.bth.opcode.0;
        *seen.entry(opcode).or_insert(0) += 1;
        assert_eq!(line[0], opcode.to_string(), "{what}");
        assert_eq!(line[1], parsed.bth.psn.number().to_string(), "{what}");
        let qp = u32::from_str_radix(line[2].trim_start_matches("0x"), 16).unwrap();
        assert_eq!(qp, parsed.bth.destination_qp.0, "{what}");
        let end = &frame[frame.len() - 4..];
        let crc = u32::from_str_radix(line[3].trim_start_matches("0x"), 16);
        let theirs = u32::from_be_bytes(end.try_into().unwrap());
        // tshark does not know the layout of a CNP and shows no ICRC for it.
        assert!(opcode == CNP || crc == Ok(theirs), "{what}");
    }
    for opcode in OPCODES.chain([CNP]) {
        assert!(
            seen.contains_key(&opcode),
            "no frame of {opcode:#x} among {seen:?}"
        );
    }
}
