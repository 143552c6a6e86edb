//! What a switch says: a hello, then numbered verdicts, one JSON object a line ([`agent::stream`]).
//!
//! A socket says it without end, a NATS message holds a part of it. What is not there is a gap in the numbers, and
//! counted; what is no verdict of this fabric is refused, and counted.

use std::io;
use std::time::Duration;

use agent::verdict::WindowVerdict;
use detector::LeafId;
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::core::check;
use crate::history::Stream;
use crate::shared::{Item, Shared};

/// Longest line: 128 paths of 128 bytes, and room.
pub(crate) const LINE_MAX: u64 = 64 << 10;
/// A full lane is looked at again after so long.
const ROOM: Duration = Duration::from_millis(5);
/// Longest name of a switch.
const NAME_MAX: usize = 64;

#[derive(Deserialize)]
struct HelloLine {
    hello: Hello,
}

/// Who speaks.
#[derive(Deserialize)]
pub(crate) struct Hello {
    pub(crate) name: String,
    pub(crate) boot: String,
    /// Nothing below this number will come: the switch no longer has it.
    pub(crate) oldest: u64,
    leaves: u16,
    spines: u16,
    speaks: Vec<LeafId>,
    #[serde(default)]
    switches: Vec<String>,
}

impl Hello {
    /// Reads the first line of a stream.
    pub(crate) fn read(line: &[u8]) -> io::Result<Hello> {
        let hello = match serde_json::from_slice::<HelloLine>(line) {
            Ok(line) => line.hello,
            Err(_) => {
                let what = "it tells no verdicts; is it a switch or testbed of this version?";
                return Err(wrong(what.to_owned()));
            }
        };
        let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
        let name = &hello.name;
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_plain) {
            return Err(wrong("it has no name that can be written".to_owned()));
        }
        Ok(hello)
    }

    fn stream(&self) -> io::Result<Stream> {
        let boot = u64::from_str_radix(&self.boot, 16)
            .map_err(|_| wrong(format!("\"{}\" is no boot number", self.boot)))?;
        Ok(Stream {
            leaf: self.name.as_str().into(),
            boot,
        })
    }
}

/// What is known of a stream from before: it, and the number that comes next.
pub(crate) type Known = Option<(Stream, u64)>;

/// One stream that is read.
pub(crate) struct Reading<'a> {
    from: &'a str,
    shared: &'a Shared,
    stream: Stream,
    speaks: Vec<LeafId>,
    next: u64,
    order: Order,
}

/// How the numbers of verdicts come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Ascending: what is left out will not come.
    Ascending,
    /// What is left out may come later, until a hello says that it will not.
    Any,
}

impl<'a> Reading<'a> {
    /// Begins with a hello that fits the fabric.
    pub(crate) async fn begin(
        hello: Hello,
        order: Order,
        from: &'a str,
        known: &mut Known,
        shared: &'a Shared,
    ) -> io::Result<Reading<'a>> {
        let fabric = shared.fabric;
        if (hello.leaves, hello.spines) != (fabric.leaves, fabric.spines) {
            return Err(wrong(format!(
                "its fabric has {} leaves and {} spines, and this one {} and {}; set [fabric] in the monitor's file",
                hello.leaves, hello.spines, fabric.leaves, fabric.spines
            )));
        }
        let stream = hello.stream()?;
        let mut next = match known {
            Some((old, next)) if *old == stream => *next,
            _ => shared.floor(&stream),
        };
        shared.source(from, |source| {
            source.switches = hello.switches;
            (source.name, source.connected) = (stream.leaf.to_string(), true);
            source.trouble = None;
        });
        if hello.oldest > next {
            offer(shared, Item::Skip(stream.clone(), hello.oldest)).await;
            shared.source(from, |source| source.missed += hello.oldest - next);
            next = hello.oldest;
        }
        *known = Some((stream.clone(), next));
        let mut speaks = hello.speaks;
        if hello.name.parse::<LeafId>().is_ok() {
            // Who has the name of a leaf is that leaf and no other.
            speaks.retain(|leaf| leaf.to_string() == hello.name);
        }
        Ok(Reading {
            from,
            shared,
            stream,
            speaks,
            next,
            order,
        })
    }

    /// Takes a line; waits while its lane is full.
    pub(crate) async fn line(&mut self, line: &[u8], known: &mut Known) -> io::Result<()> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let verdict = match serde_json::from_slice::<WindowVerdict>(line) {
            Ok(verdict) => verdict,
            Err(error) => return Err(wrong(format!("it sent no verdict: {error}"))),
        };
        let (seq, shared) = (verdict.seq, self.shared);
        let is_ascending = self.order == Order::Ascending;
        if is_ascending && seq < self.next {
            return Ok(());
        }
        if seq == u64::MAX {
            return Err(wrong("it sent a verdict without a number".to_owned()));
        }
        if is_ascending && seq > self.next {
            offer(shared, Item::Skip(self.stream.clone(), seq)).await;
            shared.source(self.from, |source| source.missed += seq - self.next);
        }
        let is_own = self.speaks.contains(&verdict.dst);
        if is_own && check(shared.fabric, &verdict).is_ok() {
            shared.source(self.from, |source| source.received += 1);
            offer(shared, Item::Verdict(self.stream.clone(), verdict)).await;
        } else {
            shared.source(self.from, |source| source.refused += 1);
            if is_ascending {
                offer(shared, Item::Skip(self.stream.clone(), seq + 1)).await;
            }
        }
        self.next = self.next.max(seq + 1);
        *known = Some((self.stream.clone(), self.next));
        Ok(())
    }

    /// What tells when all that was read is on the disk; it ends without a word if the monitor ends before that.
    pub(crate) async fn settle(self) -> oneshot::Receiver<()> {
        let (done, settled) = oneshot::channel();
        offer(self.shared, Item::Mark(self.stream, done)).await;
        settled
    }
}

pub(crate) fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Puts an item in its lane, and waits for room.
async fn offer(shared: &Shared, mut item: Item) {
    while let Err(back) = shared.offer(item) {
        item = back;
        tokio::time::sleep(ROOM).await;
    }
}
