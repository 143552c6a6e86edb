//! How verdicts lie in the history: some 15 bytes a path.
//!
//! Postcard's variable-length integers, with counts of packets in 1/1024 (as the localizer sums them) and
//! rates in parts per billion. What is read back gives the localizer the same evidence.

use agent::verdict::{Outcome, PathVerdict, WindowVerdict};
use detector::{Evidence, LeafId};
use serde::{Deserialize, Serialize};

/// Scale of packet counts that need not be whole.
const PER_PACKET: f64 = 1024.0;
/// Scale of rates.
const PER_RATE: f64 = 1e9;

#[derive(Serialize, Deserialize)]
struct Packed {
    seq: u64,
    at_ns: u64,
    took_ns: u64,
    src: u16,
    dst: u16,
    qpn: u32,
    epoch: u32,
    evidence: Evidence,
    sequential: bool,
    paths: Vec<PackedPath>,
}

#[derive(Serialize, Deserialize)]
struct PackedPath(u16, u8, u64, u64, u64, u64, Option<u32>, Option<[u64; 4]>);

/// Packs verdicts.
pub fn write(verdicts: &[WindowVerdict]) -> Vec<u8> {
    let packed: Vec<Packed> = verdicts.iter().map(pack).collect();
    // Writing to memory does not fail.
    postcard::to_stdvec(&packed).unwrap_or_default()
}

/// Unpacks them; bytes that are none give none.
pub fn read(bytes: &[u8]) -> Vec<WindowVerdict> {
    match postcard::from_bytes::<Vec<Packed>>(bytes) {
        Ok(packed) => packed.into_iter().map(unpack).collect(),
        Err(error) => {
            tracing::warn!("history: {} bytes are no verdicts: {error}", bytes.len());
            Vec::new()
        }
    }
}

fn pack(verdict: &WindowVerdict) -> Packed {
    let path = |p: &PathVerdict| {
        let outcome = Outcome::ALL.iter().position(|&one| one == p.outcome);
        PackedPath(
            p.spine,
            outcome.unwrap_or_default() as u8,
            (p.expected * PER_PACKET).round() as u64,
            p.received,
            p.dropped,
            (p.noise * PER_PACKET).round() as u64,
            p.visible.map(|rate| (rate * PER_RATE).round() as u32),
            p.hops,
        )
    };
    Packed {
        seq: verdict.seq,
        at_ns: verdict.at_ns,
        took_ns: verdict.took_ns,
        src: verdict.src.0,
        dst: verdict.dst.0,
        qpn: verdict.qpn,
        epoch: verdict.epoch,
        evidence: verdict.evidence,
        sequential: verdict.sequential,
        paths: verdict.paths.iter().map(path).collect(),
    }
}

fn unpack(packed: Packed) -> WindowVerdict {
    let path = |p: PackedPath| PathVerdict {
        spine: p.0,
        outcome: Outcome::ALL
            .get(usize::from(p.1))
            .copied()
            .unwrap_or(Outcome::NothingSent),
        expected: p.2 as f64 / PER_PACKET,
        received: p.3,
        dropped: p.4,
        noise: p.5 as f64 / PER_PACKET,
        visible: p.6.map(|rate| f64::from(rate) / PER_RATE),
        hops: p.7,
    };
    WindowVerdict {
        seq: packed.seq,
        at_ns: packed.at_ns,
        took_ns: packed.took_ns,
        src: LeafId(packed.src),
        dst: LeafId(packed.dst),
        qpn: packed.qpn,
        epoch: packed.epoch,
        evidence: packed.evidence,
        sequential: packed.sequential,
        paths: packed.paths.into_iter().map(path).collect(),
    }
}
