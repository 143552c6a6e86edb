//! Verdicts from the Unix sockets of switches: one task for each socket, which connects again for ever.
//!
//! A switch keeps its latest verdicts ([`agent::stream`]); after a pause of either side the rest is asked for
//! by number. A connection whose lane is full is not read until there is room, so a flood waits in its own
//! switch. What a switch no longer had is a gap in the numbers, and counted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::folder;
use crate::line::read_line;
use crate::reading::{Hello, Known, Order, Reading};
use crate::shared::Shared;

/// Time between two attempts to connect; doubled from the first to the last.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// Hears all `sockets`, and those in them that are folders as they come and go, for ever.
pub async fn hear(sockets: Vec<PathBuf>, shared: Arc<Shared>) {
    let start = |path| tokio::spawn(hear_one(path, Arc::clone(&shared)));
    let gone = |path: &Path| shared.forget(&path.display().to_string());
    folder::watch(sockets, start, gone).await;
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
            Err(error) => {
                if error.kind() == io::ErrorKind::NotFound {
                    // It has not begun: the first verdicts of a short run are not to be missed.
                    wait = AGAIN[0];
                }
                error.to_string()
            }
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
    let hello = Hello::read(&line)?;
    let mut reading = Reading::begin(hello, Order::Ascending, from, known, shared).await?;
    // From here on the switch is one that works.
    *wait = AGAIN[0];
    while read_line(&mut reader, &mut line).await? {
        reading.line(&line, known).await?;
    }
    Ok(())
}
