//! Answers `spraycheck show` on a Unix socket: one JSON object a line asks, one answers.
//!
//! `{"show": "links"}` gives the links that are accused or were cleared; with `"since_s": 3600` those of which
//! something was told in that time, from the history. `{"show": "sources"}` gives who is heard. `{"events": 17}` gives
//! the events after number 17 and then those that come, one a line, until the client goes: a program that remembers the
//! last number it has seen misses none. The socket's mode is 0600, so only its owner may ask.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;

use crate::http::App;
use crate::shared::now;
use crate::standing::State;

/// Longest request, in bytes.
const REQUEST_MAX: u64 = 4096;
/// A quiet connection hears an empty line this often.
const ALIVE: Duration = Duration::from_secs(1);
/// A client that takes nothing for so long is cut off.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clients at once.
const CLIENTS_MAX: usize = 16;

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Show(Request),
    Events(EventsRequest),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    show: String,
    since_s: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsRequest {
    events: u64,
}

/// Answers for ever.
pub(crate) async fn serve(listener: agent::socket::Listener, app: Arc<App>) {
    agent::socket::each_client(listener, CLIENTS_MAX, |stream, place| {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            // A client that goes away ends its task; others are not affected.
            let _ = answer(stream, &app).await;
            drop(place);
        });
    })
    .await;
}

async fn answer(stream: UnixStream, app: &App) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = String::new();
        let read = (&mut reader).take(REQUEST_MAX).read_line(&mut line).await?;
        if read == 0 {
            return Ok(());
        }
        let is_cut = !line.ends_with('\n') && read as u64 >= REQUEST_MAX;
        let reply = match serde_json::from_str::<Line>(&line) {
            _ if is_cut => json!({ "error": format!("a request is at most {REQUEST_MAX} bytes") }),
            Err(error) => {
                json!({ "error": format!("no request of a monitor: {error}; send {{\"show\": \"links\"}}") })
            }
            Ok(Line::Events(request)) => return events(request.events, writer, app).await,
            Ok(Line::Show(request)) => match rows(&request, app).await {
                Ok(rows) => json!({ "show": request.show, "rows": rows }),
                Err(error) => json!({ "error": error }),
            },
        };
        writer.write_all(format!("{reply}\n").as_bytes()).await?;
        if is_cut {
            return Ok(());
        }
    }
}

/// Tells events after a number as they come, until the client goes away.
async fn events(mut after: u64, mut writer: OwnedWriteHalf, app: &App) -> std::io::Result<()> {
    let mut news = app.shared.listen();
    loop {
        let found = app.read(move |reader| reader.events_after(after)).await;
        let found = found.map_err(std::io::Error::other)?;
        let mut text = String::new();
        for event in &found {
            text += &serde_json::to_string(event)?;
            text.push('\n');
            after = event.id;
        }
        if found.is_empty() {
            // What was told meanwhile is found by its number; a quiet line shows who has gone.
            if tokio::time::timeout(ALIVE, news.recv()).await.is_err() {
                text.push('\n');
            }
        }
        match tokio::time::timeout(PATIENCE, writer.write_all(text.as_bytes())).await {
            Ok(done) => done?,
            Err(_) => return Ok(()),
        }
    }
}

async fn rows(request: &Request, app: &App) -> Result<Vec<Value>, String> {
    match (request.show.as_str(), request.since_s) {
        ("links", Some(since_s)) => {
            let now_ns = now().0;
            let since_ns = now_ns.saturating_sub(since_s.saturating_mul(1_000_000_000));
            app.read(move |reader| reader.links_since(since_ns, now_ns))
                .await
        }
        ("links", None) => {
            let links = app.shared.links();
            let is_shown = |state| !matches!(state, State::Healthy | State::Unknown);
            let shown = links.rows().filter(|row| is_shown(row.state));
            Ok(shown
                .map(|row| {
                    json!({
                        "link": row.link, "state": row.state, "drop_rate": row.drop_rate, "ci95": row.ci95,
                        "paths": row.paths, "packets": row.covered.packets, "missing": row.missing,
                        "acknowledged": row.acknowledged.as_ref().map(|by| &by.by),
                    })
                })
                .collect())
        }
        ("sources", None) => Ok((app.shared.sources().iter())
            .map(|source| json!(source))
            .collect()),
        (what, _) => Err(format!(
            "a monitor shows links, links since a time, and sources, and not \"{what}\"; ask a switch with --socket"
        )),
    }
}
