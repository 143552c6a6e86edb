//! Verdicts from the Unix sockets of switches: one task for each socket, which connects again for ever.
//!
//! A switch keeps its latest verdicts ([`agent::stream`]); after a pause of either side the rest is asked for
//! by number. A connection whose lane is full is not read until there is room, so a flood waits in its own
//! switch. What a switch no longer had is a gap in the numbers, and counted.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::verdict::WindowVerdict;
use detector::LeafId;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::core::check;
use crate::history::Stream;
use crate::shared::{Item, Shared};

/// Longest line: 128 paths of 128 bytes.
const LINE_MAX: u64 = 64 << 10;
/// A stream says something every second; one that is silent for so long is gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two attempts to connect; doubled from the first to the last.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// A full lane is looked at again after so long.
const ROOM: Duration = Duration::from_millis(5);
/// Folders are looked through this often.
const FOLDERS: Duration = Duration::from_secs(1);
/// Longest name of a switch.
const NAME_MAX: usize = 64;

#[derive(Deserialize)]
struct HelloLine {
    hello: Hello,
}

#[derive(Deserialize)]
struct Hello {
    name: String,
    boot: String,
    oldest: u64,
    leaves: u16,
    spines: u16,
    speaks: Vec<LeafId>,
    #[serde(default)]
    switches: Vec<String>,
}

/// Hears all `sockets`, and those in them that are folders as they come and go, for ever.
pub async fn hear(sockets: Vec<PathBuf>, shared: Arc<Shared>) {
    let mut heard: BTreeMap<PathBuf, tokio::task::JoinHandle<()>> = BTreeMap::new();
    loop {
        let mut wanted = Vec::new();
        for path in &sockets {
            match path.is_dir() {
                true => wanted.extend(sockets_in(path)),
                false => wanted.push(path.clone()),
            }
        }
        heard.retain(|path, task| {
            let stays = wanted.contains(path);
            if !stays {
                task.abort();
                shared.forget(&path.display().to_string());
            }
            stays
        });
        for path in wanted {
            heard.entry(path).or_insert_with_key(|path| {
                tokio::spawn(hear_one(path.clone(), Arc::clone(&shared)))
            });
        }
        tokio::time::sleep(FOLDERS).await;
    }
}

/// Sockets of a folder; those of monitors are none of a switch.
fn sockets_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "sock"))
        .filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| !name.starts_with("monitor"))
        })
        .collect();
    found.sort();
    found
}

/// Hears one socket for ever.
async fn hear_one(path: PathBuf, shared: Arc<Shared>) {
    let from = path.display().to_string();
    let mut known = None;
    let mut wait = AGAIN[0];
    shared.source(&from, |_| {});
    loop {
        let error = match listen(&path, &from, &mut known, &shared, &mut wait).await {
            Ok(()) => "it closed the connection".to_owned(),
            Err(error) => error.to_string(),
        };
        shared.source(&from, |source| {
            if source.connected || source.trouble.is_none() {
                tracing::info!("{from}: {error}");
            }
            source.connected = false;
            source.trouble = Some(error);
        });
        tokio::time::sleep(wait).await;
        wait = (2 * wait).min(AGAIN[1]);
    }
}

/// What is known of a stream from the connection before: it, and the number that comes next.
type Known = Option<(Stream, u64)>;

/// One connection, until it ends.
async fn listen(
    path: &Path,
    from: &str,
    known: &mut Known,
    shared: &Shared,
    wait: &mut Duration,
) -> io::Result<()> {
    let (reader, mut writer) = UnixStream::connect(path).await?.into_split();
    let request = match known {
        Some((stream, next)) => {
            json!({ "verdicts": { "boot": format!("{:016x}", stream.boot), "from": *next } })
        }
        None => json!({ "verdicts": {} }),
    };
    writer.write_all(format!("{request}\n").as_bytes()).await?;
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let mut line = Vec::new();
    if !read_line(&mut reader, &mut line).await? {
        return Ok(());
    }
    let (stream, hello) = greet(&line, shared)?;
    let (speaks, oldest) = (hello.speaks, hello.oldest);
    shared.source(from, |source| {
        source.switches = hello.switches;
        (source.name, source.connected) = (stream.leaf.to_string(), true);
        source.trouble = None;
    });
    let mut next = match known {
        Some((old, next)) if *old == stream => *next,
        _ => 1,
    };
    // From here on the switch is one that works.
    *wait = AGAIN[0];
    if oldest > next {
        offer(shared, Item::Skip(stream.clone(), oldest)).await;
        shared.source(from, |source| source.missed += oldest - next);
        next = oldest;
    }
    *known = Some((stream.clone(), next));
    while read_line(&mut reader, &mut line).await? {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let verdict = match serde_json::from_slice::<WindowVerdict>(&line) {
            Ok(verdict) => verdict,
            Err(error) => return Err(wrong(format!("it sent no verdict: {error}"))),
        };
        let seq = verdict.seq;
        if seq < next {
            continue;
        }
        if seq == u64::MAX {
            return Err(wrong("it sent a verdict without a number".to_owned()));
        }
        if seq > next {
            offer(shared, Item::Skip(stream.clone(), seq)).await;
            shared.source(from, |source| source.missed += seq - next);
        }
        let is_own = speaks.contains(&verdict.dst);
        let item = match is_own && check(shared.fabric, &verdict).is_ok() {
            true => Item::Verdict(stream.clone(), verdict),
            false => Item::Skip(stream.clone(), seq + 1),
        };
        shared.source(from, |source| match item {
            Item::Verdict(..) => source.received += 1,
            Item::Skip(..) => source.refused += 1,
        });
        offer(shared, item).await;
        next = seq + 1;
        *known = Some((stream.clone(), next));
    }
    Ok(())
}

/// A hello that fits this fabric, and its stream.
fn greet(line: &[u8], shared: &Shared) -> io::Result<(Stream, Hello)> {
    let hello = match serde_json::from_slice::<HelloLine>(line) {
        Ok(line) => line.hello,
        Err(_) => {
            let what = "it tells no verdicts; is it a switch or testbed of this version?";
            return Err(wrong(what.to_owned()));
        }
    };
    let fabric = shared.fabric;
    if (hello.leaves, hello.spines) != (fabric.leaves, fabric.spines) {
        return Err(wrong(format!(
            "its fabric has {} leaves and {} spines, and this one {} and {}; set [fabric] in the monitor's file",
            hello.leaves, hello.spines, fabric.leaves, fabric.spines
        )));
    }
    let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
    if hello.name.is_empty() || hello.name.len() > NAME_MAX || !hello.name.chars().all(is_plain) {
        return Err(wrong("it has no name that can be written".to_owned()));
    }
    let boot = u64::from_str_radix(&hello.boot, 16)
        .map_err(|_| wrong(format!("\"{}\" is no boot number", hello.boot)))?;
    let stream = Stream {
        leaf: hello.name.as_str().into(),
        boot,
    };
    Ok((stream, hello))
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Puts an item in its lane, and waits for room.
async fn offer(shared: &Shared, mut item: Item) {
    while let Err(back) = shared.offer(item) {
        item = back;
        tokio::time::sleep(ROOM).await;
    }
}

/// Reads a line; false at the end.
async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    line.clear();
    let mut limited = reader.take(LINE_MAX);
    match tokio::time::timeout(PATIENCE, limited.read_until(b'\n', line)).await {
        Ok(read) => read?,
        Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "it says nothing")),
    };
    match line.last() {
        Some(b'\n') => Ok(true),
        None => Ok(false),
        Some(_) if line.len() as u64 >= LINE_MAX => {
            Err(wrong(format!("a line is longer than {LINE_MAX} bytes")))
        }
        Some(_) => Ok(false),
    }
}
