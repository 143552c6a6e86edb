//! The answers, one for each path.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::sse::{Event as Sse, KeepAlive};
use axum::response::{IntoResponse, Response, Sse as SseResponse};
use detector::Link;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use super::App;
use crate::core::Kind;
use crate::history::read::{EVENTS_MAX, Filter};
use crate::shared::{Question, now};

/// Pages that are kept up to date at once.
const LIVE_MAX: usize = 32;
/// A quiet page is told that it is connected this often.
const ALIVE: Duration = Duration::from_secs(10);
/// Longest name and note of an acknowledgement, in bytes.
const BY_MAX: usize = 64;
const NOTE_MAX: usize = 500;
/// The media type that goes with the `# EOF` at the end.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

static LIVE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LIVE_MAX)));

type AppState = State<Arc<App>>;

/// A refusal, with what to do.
pub(super) fn no(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}

pub(super) async fn summary(State(app): AppState) -> Response {
    let sources = app.shared.sources();
    Json(json!({ "summary": &*app.shared.summary(), "sources": sources })).into_response()
}

pub(super) async fn links(State(app): AppState) -> Response {
    let head = format!("{{\"now_ns\":{},\"links\":[", now().0);
    let mut pieces = vec![Bytes::from(head)];
    pieces.extend(app.shared.links().text());
    pieces.push(Bytes::from_static(b"]}"));
    let length: usize = pieces.iter().map(Bytes::len).sum();
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CONTENT_LENGTH, HeaderValue::from(length)),
    ];
    let pieces = tokio_stream::iter(pieces.into_iter().map(Ok::<Bytes, Infallible>));
    (headers, Body::from_stream(pieces)).into_response()
}

pub(super) async fn link(State(app): AppState, Path(link): Path<String>) -> Response {
    let link = match link.parse::<Link>() {
        Ok(link) => link,
        Err(error) => return no(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match app.shared.ask(|reply| Question::Link(link, reply)).await {
        Some(Ok(detail)) => Json(detail).into_response(),
        Some(Err(why)) => no(StatusCode::NOT_FOUND, &why),
        None => busy(),
    }
}

fn busy() -> Response {
    no(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many questions wait; ask again in a second",
    )
}

/// What events are asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    since_s: Option<u64>,
    before: Option<u64>,
    kind: Option<Kind>,
    link: Option<Link>,
    limit: Option<usize>,
}

pub(super) async fn events(
    State(app): AppState,
    query: Result<Query<EventsQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let query = match query {
        Ok(Query(query)) => query,
        Err(error) => return no(StatusCode::BAD_REQUEST, &error.body_text()),
    };
    if query
        .limit
        .is_some_and(|limit| limit == 0 || limit > EVENTS_MAX)
    {
        let why = format!("limit is 1 to {EVENTS_MAX}");
        return no(StatusCode::BAD_REQUEST, &why);
    }
    // Numbers in SQLite have a sign.
    if query
        .before
        .is_some_and(|before| i64::try_from(before).is_err())
    {
        return no(StatusCode::BAD_REQUEST, "before is the number of an event");
    }
    let since = |s: u64| now().0.saturating_sub(s.saturating_mul(1_000_000_000));
    let filter = Filter {
        since_ns: query.since_s.map(since),
        before: query.before,
        kind: query.kind,
        link: query.link,
        limit: query.limit,
    };
    match app.read(move |reader| reader.events(&filter)).await {
        Ok(events) => Json(json!({ "events": events })).into_response(),
        Err(why) => no(StatusCode::INTERNAL_SERVER_ERROR, &why),
    }
}

pub(super) async fn live(State(app): AppState) -> Response {
    let Ok(place) = Arc::clone(&LIVE).try_acquire_owned() else {
        let why = format!("{LIVE_MAX} pages are open already; close one");
        return no(StatusCode::SERVICE_UNAVAILABLE, &why);
    };
    let updates = BroadcastStream::new(app.shared.listen()).map(move |update| {
        let _held = &place;
        let event = match update {
            Ok(text) => Sse::default().event("update").data(&*text),
            // What was missed is not told again: the page looks at everything.
            Err(BroadcastStreamRecvError::Lagged(_)) => Sse::default().event("missed").data(""),
        };
        Ok::<Sse, Infallible>(event)
    });
    let hello = tokio_stream::once(Ok(Sse::default().event("hello").data("")));
    SseResponse::new(hello.chain(updates))
        .keep_alive(KeepAlive::new().interval(ALIVE))
        .into_response()
}

pub(super) async fn metrics(State(app): AppState) -> Response {
    let text = crate::metrics::text(&app.shared);
    ([(CONTENT_TYPE, OPENMETRICS)], text).into_response()
}

/// What an acknowledgement says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acknowledge {
    by: String,
    #[serde(default)]
    note: String,
}

pub(super) async fn acknowledge(
    State(app): AppState,
    Path(link): Path<String>,
    body: Bytes,
) -> Response {
    let link = match link.parse::<Link>() {
        Ok(link) => link,
        Err(error) => return no(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let said: Acknowledge = match serde_json::from_slice(&body) {
        Ok(said) => said,
        Err(error) => {
            return no(
                StatusCode::BAD_REQUEST,
                &format!("no acknowledgement: {error}"),
            );
        }
    };
    let (by, note) = (said.by.trim().to_owned(), said.note.trim().to_owned());
    let is_text = |text: &str| !text.chars().any(char::is_control);
    if by.is_empty()
        || by.len() > BY_MAX
        || note.len() > NOTE_MAX
        || !is_text(&by)
        || !is_text(&note)
    {
        let why = format!(
            "by is a name of 1 to {BY_MAX} bytes and note has up to {NOTE_MAX}, without control characters"
        );
        return no(StatusCode::BAD_REQUEST, &why);
    }
    let answer = app.shared.ask(|reply| Question::Acknowledge {
        link,
        by,
        note,
        reply,
    });
    match answer.await {
        Some(Ok(event)) => Json(json!({ "event": event }) as Value).into_response(),
        Some(Err(why)) => no(StatusCode::CONFLICT, &why),
        None => busy(),
    }
}
