//! Switches that are played, for `spraycheck bench monitor`: verdicts at a fixed rate over real sockets.
//!
//! Every leaf has a socket and a stream of its own; windows go from every leaf to every other in turn, over all
//! spines, and three links lose 1 %. Lines are made before, but for number and time, so that playing costs
//! little beside what is measured. One thread plays all; what the monitor does not take makes it late.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use agent::verdict::{Outcome, PathVerdict, WindowVerdict};
use detector::{Evidence, Fabric, LeafId, Link, SpineId};
use serde_json::json;

use crate::shared::now;

/// Marked packets of a path, and what a bad link loses of them: 1 %.
const PACKETS: u64 = 4096;
const LOST: u64 = 41;
/// Time between two bursts of verdicts.
const TURN: Duration = Duration::from_millis(2);

/// The links that lose packets.
pub fn faults(fabric: Fabric) -> [Link; 3] {
    let (leaf, spine) = (LeafId(0), SpineId(fabric.spines - 1));
    let middle = LeafId(fabric.leaves / 2);
    [
        Link::Up { leaf, spine },
        Link::Up {
            leaf: middle,
            spine: SpineId(0),
        },
        Link::Down {
            spine: SpineId(fabric.spines / 2),
            leaf: LeafId(fabric.leaves - 1),
        },
    ]
}

/// How a play went.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// Verdicts that were sent.
    pub verdicts: u64,
    /// Time from the first to the last.
    pub seconds: f64,
    /// How late the latest burst was at most, in milliseconds.
    pub late_ms_max: f64,
}

/// All leaves of a fabric, with sockets in a folder.
#[derive(Debug)]
pub struct Play {
    fabric: Fabric,
    listeners: Vec<UnixListener>,
    /// By destination and turn: a line from its source on.
    lines: Vec<Vec<String>>,
}

impl Play {
    /// Binds a socket `leafN.sock` for each leaf.
    ///
    /// # Errors
    /// When a socket cannot be bound.
    pub fn new(fabric: Fabric, folder: &Path) -> io::Result<Play> {
        let bind = |leaf| UnixListener::bind(folder.join(format!("leaf{leaf}.sock")));
        let listeners = (0..fabric.leaves).map(bind).collect::<Result<_, _>>()?;
        let bad = faults(fabric);
        let lines = (0..fabric.leaves)
            .map(|dst| {
                let sources = (1..fabric.leaves).map(|far| (dst + far) % fabric.leaves);
                sources.map(|src| rest(fabric, src, dst, &bad)).collect()
            })
            .collect();
        Ok(Play {
            fabric,
            listeners,
            lines,
        })
    }

    /// Sends so many verdicts a second for so long, once the monitor has connected to every leaf.
    ///
    /// # Errors
    /// When a connection ends.
    pub fn run(&self, per_second: u64, seconds: u64) -> io::Result<Played> {
        let mut streams = Vec::new();
        for (leaf, listener) in self.listeners.iter().enumerate() {
            streams.push(greet(self.fabric, leaf, listener)?);
        }
        let total = per_second * seconds;
        let (begun, mut sent, mut late) = (Instant::now(), 0u64, Duration::ZERO);
        while sent < total {
            let due = ((begun.elapsed().as_secs_f64() * per_second as f64) as u64).min(total);
            while sent < due {
                let leaves = u64::from(self.fabric.leaves);
                let (dst, round) = ((sent % leaves) as usize, sent / leaves);
                let lines = &self.lines[dst];
                let rest = &lines[(round % lines.len() as u64) as usize];
                let line = format!("{{\"seq\":{},\"at_ns\":{}{rest}", round + 1, now().0);
                streams[dst].write_all(line.as_bytes())?;
                sent += 1;
            }
            let should = Duration::from_secs_f64(sent as f64 / per_second as f64);
            late = late.max(begun.elapsed().saturating_sub(should));
            std::thread::sleep(TURN);
        }
        Ok(Played {
            verdicts: sent,
            seconds: begun.elapsed().as_secs_f64(),
            late_ms_max: late.as_secs_f64() * 1e3,
        })
    }
}

/// A line of a window, from after its time on.
fn rest(fabric: Fabric, src: u16, dst: u16, bad: &[Link]) -> String {
    let path = |spine| {
        let (up, down) = (
            Link::Up {
                leaf: LeafId(src),
                spine: SpineId(spine),
            },
            Link::Down {
                spine: SpineId(spine),
                leaf: LeafId(dst),
            },
        );
        let lost = LOST
            * bad
                .iter()
                .filter(|&&link| link == up || link == down)
                .count() as u64;
        PathVerdict {
            spine,
            outcome: if lost > 0 {
                Outcome::Failed
            } else {
                Outcome::Healthy
            },
            expected: PACKETS as f64,
            received: PACKETS - lost,
            dropped: 0,
            noise: 0.0,
            visible: Some(0.003),
            hops: None,
        }
    };
    let verdict = WindowVerdict {
        seq: 0,
        at_ns: 0,
        took_ns: 1_000_000,
        src: LeafId(src),
        dst: LeafId(dst),
        qpn: 17,
        epoch: 1,
        evidence: Evidence::SourceCounts,
        sequential: false,
        paths: (0..fabric.spines).map(path).collect(),
    };
    // Plain numbers and names: writing them does not fail.
    let line = serde_json::to_string(&verdict).unwrap_or_default();
    let rest = line.strip_prefix("{\"seq\":0,\"at_ns\":0");
    format!("{}\n", rest.unwrap_or_default())
}

fn greet(fabric: Fabric, leaf: usize, listener: &UnixListener) -> io::Result<UnixStream> {
    let (mut stream, _) = listener.accept()?;
    BufReader::new(&stream).read_line(&mut String::new())?;
    let name = format!("leaf{leaf}");
    let hello = json!({ "hello": {
        "name": name, "boot": "1", "oldest": 1, "next": 1,
        "leaves": fabric.leaves, "spines": fabric.spines, "speaks": [name],
    } });
    stream.write_all(format!("{hello}\n").as_bytes())?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a line that is put together is a verdict of the fabric, with the losses that it should have.
    #[test]
    fn lines_are_verdicts() {
        let fabric = Fabric {
            leaves: 4,
            spines: 8,
        };
        let rest = rest(fabric, 0, 3, &faults(fabric));
        let line = format!("{{\"seq\":9,\"at_ns\":5{rest}");
        let verdict: WindowVerdict = serde_json::from_str(&line).unwrap();
        assert_eq!((verdict.seq, verdict.at_ns, verdict.paths.len()), (9, 5, 8));
        crate::core::check(fabric, &verdict).unwrap();
        let bad = verdict
            .paths
            .iter()
            .filter(|p| p.received < PACKETS)
            .map(|p| p.spine);
        assert_eq!(bad.collect::<Vec<_>>(), [4, 7]);
    }
}
