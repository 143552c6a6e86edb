//! `spraycheck relay`: the verdicts of a machine's switches, from their sockets to a JetStream stream.
//!
//! It keeps nothing itself. A switch numbers its verdicts and keeps the latest ([`agent::stream`]); of each switch one
//! message is on its way at a time, and the next is published when the server has acknowledged it, so that the stream has
//! them in order. A message is what the socket says: the switch's hello, whose `oldest` says what the switch no longer
//! has, then verdicts. Started anew, it publishes again what switches still
//! keep; after a lost connection, the last of it. The server drops a message whose id it has seen lately, and the monitor
//! takes each number once.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent::metrics::Server;
use async_nats::jetstream::message::PublishMessage;
use config::RelayFile;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::relayed::{self, Heard};
use super::{Line, System, chain};
use crate::folder;
use crate::line::read_line;
use crate::reading::{Hello, wrong};

pub use super::relayed::Relayed;

/// A message takes no further line beyond this.
const BATCH: usize = 64 << 10;
/// After a lost connection so many verdicts are published again: a server that was killed may have lost its latest.
const REPEAT: u64 = 1024;
/// Time between two attempts, to connect or to publish; doubled from the first to the last.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// A relay that runs, on the runtime that started it.
#[derive(Debug)]
pub struct Relay {
    /// What it has done.
    pub relayed: Arc<Relayed>,
    task: JoinHandle<()>,
    metrics: Option<Server>,
}

impl Relay {
    /// Starts it; a server or switch that is not there yet is waited for.
    ///
    /// # Errors
    /// Certificates or credentials that are none; an address for metrics that is taken.
    pub async fn start(file: RelayFile) -> io::Result<Relay> {
        let system = System::connect(&file.name, &file.nats).await?;
        let relayed = Arc::new(Relayed::default());
        let serve = |listen| {
            let registry = relayed::registry(Arc::clone(&relayed), system.line.clone());
            Server::of(listen, registry, || {})
        };
        let metrics = file.metrics.map(serve).transpose()?;
        let counts = Arc::clone(&relayed);
        let task = tokio::spawn(async move {
            let start = |path| tokio::spawn(relay_one(path, system.clone(), Arc::clone(&counts)));
            folder::watch(file.sockets, start, |path| counts.forget(path)).await;
        });
        Ok(Relay {
            relayed,
            task,
            metrics,
        })
    }

    /// Where metrics are, if anywhere.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(Server::address)
    }

    /// Ends it; what was not acknowledged comes again the next time.
    pub async fn finish(self) {
        self.task.abort();
        // Aborted, so it ends at once, and its connections with it.
        let _ = self.task.await;
    }
}

/// What was published of a switch: its boot, and the number that comes next.
type Published = Option<(String, u64)>;

/// Relays one socket for ever.
async fn relay_one(path: PathBuf, system: System, relayed: Arc<Relayed>) {
    let from = path.display();
    let mut published = None;
    let mut wait = AGAIN[0];
    let mut said = String::new();
    loop {
        let done = listen(&path, &system, &mut published, &relayed, &mut wait).await;
        let error = match done {
            Ok(()) => "it closed the connection".to_owned(),
            Err(error) => error.to_string(),
        };
        relayed.switch(&path, |heard| *heard = Heard::default());
        if said != error {
            tracing::info!("{from}: {error}");
            said = error;
        }
        tokio::time::sleep(wait).await;
        wait = (2 * wait).min(AGAIN[1]);
    }
}

/// One connection to a switch, until it or that to the server is lost.
async fn listen(
    path: &Path,
    system: &System,
    published: &mut Published,
    relayed: &Relayed,
    wait: &mut Duration,
) -> io::Result<()> {
    let mut line = system.line.clone();
    let lost = line.borrow_and_update().lost;
    let (reader, mut writer) = UnixStream::connect(path).await?.into_split();
    let request = match published {
        Some((boot, next)) => json!({ "verdicts": { "boot": boot, "from": next } }),
        None => json!({ "verdicts": {} }),
    };
    writer.write_all(format!("{request}\n").as_bytes()).await?;
    let mut reader = BufReader::with_capacity(128 << 10, reader);
    let mut text = Vec::new();
    if !read_line(&mut reader, &mut text).await? {
        return Ok(());
    }
    let hello = Hello::read(&text)?;
    let greeting = text.clone();
    if let Some((boot, next)) = published.as_ref().filter(|(boot, _)| *boot == hello.boot) {
        let missed = hello.oldest.saturating_sub(*next);
        if missed > 0 {
            tracing::warn!(
                "{}: {boot}: {missed} verdicts are lost: it no longer had them",
                hello.name
            );
            relayed.missed.fetch_add(missed, Ordering::Relaxed);
        }
    }
    relayed.switch(path, |heard| heard.is_connected = true);
    let mut last = None;
    tracing::info!("{}: {} is relayed", path.display(), hello.name);
    *wait = AGAIN[0];
    loop {
        let more = tokio::select! {
            more = batch(&mut reader, &mut text, &mut last) => more?,
            () = was_lost(&mut line, lost) => {
                step_back(published);
                return Err(io::Error::other(AWAY));
            }
        };
        let Some(more) = more else { return Ok(()) };
        if more.verdicts == 0 {
            continue;
        }
        let id = format!(
            "{}/{}/{}/{}-{}",
            system.name, hello.name, hello.boot, more.first, more.last
        );
        let payload = [greeting.as_slice(), &text].concat();
        relayed.switch(path, |heard| heard.waits_since_ns = Some(more.since_ns));
        publish(system, &hello.name, &id, payload, relayed).await;
        relayed.switch(path, |heard| heard.waits_since_ns = None);
        relayed.verdicts.fetch_add(more.verdicts, Ordering::Relaxed);
        relayed.messages.fetch_add(1, Ordering::Relaxed);
        *published = Some((hello.boot.clone(), more.last + 1));
    }
}

/// Said when the server was not there for a while.
const AWAY: &str = "the server was away: the latest verdicts are sent again";

/// Publishes the latest verdicts once more.
fn step_back(published: &mut Published) {
    if let Some((_, next)) = published {
        *next = next.saturating_sub(REPEAT).max(1);
    }
}

/// Returns when the connection to the server has been lost more than so often.
async fn was_lost(line: &mut watch::Receiver<Line>, lost: u64) {
    if line
        .wait_for(|line| line.lost > lost && line.is_up)
        .await
        .is_err()
    {
        // The connection has ended for good, and this task with it.
        std::future::pending::<()>().await;
    }
}

/// Lines of one message.
struct Batch {
    verdicts: u64,
    first: u64,
    last: u64,
    /// When the first was told.
    since_ns: u64,
}

#[derive(Deserialize)]
struct Numbered {
    seq: u64,
    at_ns: u64,
}

/// Waits for a line, and takes those that have come behind it; `None` at the end.
async fn batch(
    reader: &mut BufReader<impl AsyncRead + Unpin>,
    text: &mut Vec<u8>,
    last: &mut Option<u64>,
) -> io::Result<Option<Batch>> {
    text.clear();
    let mut batch = Batch {
        verdicts: 0,
        first: 0,
        last: 0,
        since_ns: 0,
    };
    let mut line = Vec::new();
    loop {
        if !read_line(reader, &mut line).await? {
            return Ok((batch.verdicts > 0).then_some(batch));
        }
        if !line.iter().all(u8::is_ascii_whitespace) {
            let numbered: Numbered = serde_json::from_slice(&line)
                .map_err(|error| wrong(format!("it sent no verdict: {error}")))?;
            if last.is_some_and(|last| numbered.seq != last + 1) {
                // Asked again, its hello says what it no longer has.
                return Err(wrong("it has left out verdicts".to_owned()));
            }
            *last = Some(numbered.seq);
            if batch.verdicts == 0 {
                (batch.first, batch.since_ns) = (numbered.seq, numbered.at_ns);
            }
            batch.last = numbered.seq;
            batch.verdicts += 1;
            text.extend_from_slice(&line);
        }
        let has_more = reader.buffer().contains(&b'\n');
        if !has_more || text.len() >= BATCH {
            return Ok(Some(batch));
        }
    }
}

/// Publishes a message until the server has it. Meanwhile its switch is not read, and keeps what it has.
async fn publish(system: &System, switch: &str, id: &str, payload: Vec<u8>, relayed: &Relayed) {
    let subject = system.subject(switch);
    let mut wait = AGAIN[0];
    let mut said = String::new();
    loop {
        let message = PublishMessage::build()
            .payload(payload.clone().into())
            .message_id(id);
        let sent = system.context.send_publish(subject.clone(), message).await;
        let error = match sent {
            Ok(acknowledged) => match acknowledged.await {
                Ok(_) => return,
                Err(error) => error,
            },
            Err(error) => error,
        };
        relayed.retries.fetch_add(1, Ordering::Relaxed);
        let text = match error.kind() {
            async_nats::jetstream::context::PublishErrorKind::StreamNotFound => {
                "no stream takes it; start the monitor, which makes it, or grant it the right to"
                    .to_owned()
            }
            _ => chain(&error),
        };
        if said != text {
            tracing::warn!("{subject}: {text}; tried again until it is taken");
            said = text;
        }
        tokio::time::sleep(wait).await;
        wait = (2 * wait).min(AGAIN[1]);
    }
}
