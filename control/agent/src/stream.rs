//! The verdicts of a switch as a stream: numbered, kept for a while, so that who was away can catch up.
//!
//! A client of the socket sends `{"verdicts": {"boot": "16 hex digits", "from": 17}}`, or `{"verdicts": {}}`
//! for all that is kept. The first line of the answer is a hello; then comes one verdict a line
//! ([`crate::verdict`]), from that number on, as they happen, and an empty line every second without one:
//!
//! ```text
//! {"hello": {"name": "leaf0", "boot": "..", "next": 18, "oldest": 2, "leaves": 8, "spines": 8, "speaks": ["leaf0"],
//!            "switches": ["leaf0"]}}
//! ```
//!
//! The boot number is drawn at the start of a process, and numbers begin at 1 then. A client that is slower
//! than the verdicts is not waited for: the stream keeps the latest [`KEPT_MAX`] verdicts or
//! [`BYTES_MAX`] bytes, and what a client has missed shows as a gap in the numbers. At the end of a run every client is
//! sent what there is, if it takes that soon.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use detector::PathTest;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

use crate::control::State;
use crate::verdict::WindowVerdict;

/// Verdicts that are kept.
pub const KEPT_MAX: usize = 16_384;
/// Bytes that they take at most.
pub const BYTES_MAX: usize = 16 << 20;
/// Bytes that one write takes to a client.
const WRITE_MAX: usize = 256 << 10;
/// A client that takes nothing for so long is cut off.
const PATIENCE: Duration = Duration::from_secs(30);
/// A quiet stream says that it is alive.
const ALIVE: Duration = Duration::from_secs(1);

/// What a client asks for.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct VerdictsRequest {
    /// The boot that it knows; of another one all that is kept is new.
    boot: Option<String>,
    /// The first number that it lacks.
    from: Option<u64>,
}

/// The verdicts that are kept.
#[derive(Debug)]
pub struct Stream {
    boot: u64,
    next: u64,
    kept: VecDeque<Arc<str>>,
    bytes: usize,
    news: Rc<Notify>,
    /// Of each client: the first number that it has not been sent.
    clients: Vec<Weak<Cell<u64>>>,
}

impl Default for Stream {
    fn default() -> Stream {
        // The standard library's hasher is keyed by the system's randomness, once a thread and one more
        // for each; the time makes up for what that leaves.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(unix_ns());
        hasher.write_u32(std::process::id());
        Stream {
            boot: hasher.finish(),
            next: 1,
            kept: VecDeque::new(),
            bytes: 0,
            news: Rc::default(),
            clients: Vec::new(),
        }
    }
}

impl Stream {
    /// Numbers what tests came to, and keeps it.
    pub fn tell(&mut self, tests: &[PathTest], sequential: bool) {
        let Some(mut verdict) = WindowVerdict::of(tests, sequential) else {
            return;
        };
        (verdict.seq, verdict.at_ns) = (self.next, unix_ns());
        let Ok(mut line) = serde_json::to_string(&verdict) else {
            return;
        };
        line.push('\n');
        self.next += 1;
        self.bytes += line.len();
        self.kept.push_back(line.into());
        while self.kept.len() > KEPT_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.kept.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
        }
        self.news.notify_waiters();
    }

    /// Remembers a client as long as what it is given lives, which says what it has been sent.
    fn enter(&mut self, from: u64) -> Rc<Cell<u64>> {
        let client = Rc::new(Cell::new(from));
        self.clients.retain(|client| client.strong_count() > 0);
        self.clients.push(Rc::downgrade(&client));
        client
    }

    /// Whether all clients have been sent everything.
    pub(crate) fn is_sent(&self) -> bool {
        let mut clients = self.clients.iter().filter_map(Weak::upgrade);
        clients.all(|client| client.get() >= self.next)
    }

    /// The lowest number that is kept.
    fn oldest(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    /// The first number to send to who asks so.
    fn first(&self, request: &VerdictsRequest) -> u64 {
        let knows = request.boot.as_deref() == Some(&self.boot_text());
        let from = request.from.filter(|_| knows).unwrap_or(1);
        from.clamp(self.oldest(), self.next)
    }

    fn boot_text(&self) -> String {
        format!("{:016x}", self.boot)
    }

    /// Lines from a number on, not more than one write takes, and the number after them.
    fn lines(&self, from: u64) -> (String, u64) {
        let mut next = from.max(self.oldest());
        let mut text = String::new();
        let skip = (next - self.oldest()) as usize;
        for line in self.kept.iter().skip(skip) {
            if !text.is_empty() && text.len() + line.len() > WRITE_MAX {
                break;
            }
            text.push_str(line);
            next += 1;
        }
        (text, next)
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Serves the stream until the client goes away.
pub(crate) async fn serve(
    request: VerdictsRequest,
    mut writer: OwnedWriteHalf,
    state: Rc<RefCell<State>>,
) -> io::Result<()> {
    let (hello, sent, news) = {
        let mut state = state.borrow_mut();
        let hello = hello(&state);
        let stream = &mut state.stream;
        let first = stream.first(&request);
        (hello, stream.enter(first), Rc::clone(&stream.news))
    };
    write(&mut writer, &format!("{hello}\n")).await?;
    loop {
        let told = news.notified();
        tokio::pin!(told);
        // Enabled before looking, so that what comes in between wakes it.
        told.as_mut().enable();
        let (text, after) = state.borrow().stream.lines(sent.get());
        if !text.is_empty() {
            write(&mut writer, &text).await?;
            sent.set(after);
        } else if tokio::time::timeout(ALIVE, told).await.is_err() {
            write(&mut writer, "\n").await?;
        }
    }
}

async fn write(writer: &mut OwnedWriteHalf, text: &str) -> io::Result<()> {
    match tokio::time::timeout(PATIENCE, writer.write_all(text.as_bytes())).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

fn hello(state: &State) -> Value {
    let names = state.config.switches.iter().map(|(name, _)| name.as_str());
    let leaves: Vec<&str> = names.filter(|name| name.starts_with("leaf")).collect();
    let name = match (&state.config.switches[..], &leaves[..]) {
        ([(name, _)], _) => name.clone(),
        (_, [leaf]) => (*leaf).to_owned(),
        (_, leaves) => format!("{} leaves", leaves.len()),
    };
    let fabric = state.config.rules.fabric;
    json!({ "hello": {
        "name": name, "boot": state.stream.boot_text(), "next": state.stream.next, "oldest": state.stream.oldest(),
        "leaves": fabric.leaves, "spines": fabric.spines, "speaks": leaves,
        "switches": state.config.switches.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    } })
}

#[cfg(test)]
mod tests {
    use detector::{
        Aggregator, Epoch, Fabric, Judge, LeafId, Nanos, Qpn, Rules, SpineId, Window,
        window::EndReason,
    };

    use super::*;

    fn tests() -> Vec<PathTest> {
        let rules = Rules {
            p_min: 1,
            ..Rules::new(Fabric {
                leaves: 2,
                spines: 2,
            })
        };
        let window = Window {
            src: LeafId(0),
            dst: LeafId(1),
            qpn: Qpn(1),
            epoch: Epoch(1),
            announced: 128,
            marked: Some(128),
            usable: vec![SpineId(0), SpineId(1)],
            counts: vec![64, 60],
            sent: Some(vec![64, 64]),
            congestion_dropped: vec![0, 1],
            hops: None,
            void: Vec::new(),
            end: EndReason::Close,
            first_marked_ns: Nanos(1_000),
            closed_ns: Nanos(3_000),
        };
        let aggregate = Aggregator::new(rules).add(&window).unwrap();
        Judge::new(rules).judge(&aggregate)
    }

    /// Goal: numbers have no gap, and who knows the boot gets what it lacks and no more.
    #[test]
    fn who_was_away_catches_up() {
        let mut stream = Stream::default();
        for _ in 0..5 {
            stream.tell(&tests(), false);
        }
        let boot = Some(stream.boot_text());
        let first = |boot: Option<String>, from| stream.first(&VerdictsRequest { boot, from });
        assert_eq!(first(boot.clone(), Some(4)), 4);
        assert_eq!(first(None, Some(4)), 1);
        assert_eq!(first(Some("0".into()), Some(4)), 1);
        assert_eq!(first(boot, Some(99)), 6);
        let (text, next) = stream.lines(4);
        let seqs: Vec<u64> = text
            .lines()
            .map(|line| serde_json::from_str::<WindowVerdict>(line).unwrap().seq)
            .collect();
        assert_eq!((seqs, next), (vec![4, 5], 6));
        assert_eq!(stream.lines(6), (String::new(), 6));
        let verdict: WindowVerdict = serde_json::from_str(&stream.kept[0]).unwrap();
        assert_eq!((verdict.took_ns, verdict.paths[1].dropped), (2_000, 1));
        assert!(verdict.at_ns > 1_700_000_000_000_000_000, "since 1970");
        assert_ne!(stream.boot, Stream::default().boot);
    }

    /// Goal: what is kept is bounded; who asks for older gets the oldest that there is.
    #[test]
    fn the_oldest_are_forgotten() {
        let mut stream = Stream::default();
        let tests = tests();
        for _ in 0..KEPT_MAX + 10 {
            stream.tell(&tests, true);
        }
        assert_eq!((stream.kept.len(), stream.oldest()), (KEPT_MAX, 11));
        assert_eq!(
            stream.bytes,
            stream.kept.iter().map(|l| l.len()).sum::<usize>()
        );
        let (text, next) = stream.lines(1);
        assert!(text.starts_with("{\"seq\":11,") && text.len() <= WRITE_MAX);
        assert_eq!(next, 11 + text.lines().count() as u64);
    }

    /// Goal: a client counts as long as it is there, and has everything when it was sent the latest.
    #[test]
    fn it_is_known_who_has_everything() {
        let mut stream = Stream::default();
        stream.tell(&tests(), false);
        assert!(stream.is_sent(), "nobody lacks it");
        let (slow, quick) = (stream.enter(1), stream.enter(2));
        assert!(!stream.is_sent());
        slow.set(2);
        assert!(stream.is_sent());
        stream.tell(&tests(), false);
        quick.set(3);
        assert!(!stream.is_sent());
        drop(slow);
        assert!(stream.is_sent());
    }

    /// Goal: nothing is told of windows whose counts wait for more.
    #[test]
    fn no_tests_are_no_verdict() {
        let mut stream = Stream::default();
        stream.tell(&[], false);
        assert_eq!((stream.next, stream.kept.len()), (1, 0));
    }
}
