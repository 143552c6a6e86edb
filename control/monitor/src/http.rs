//! The page and its answers over HTTP, for people and scripts.
//!
//! | path | answers |
//! | --- | --- |
//! | `/` and its scripts | the page; nothing in it comes from elsewhere |
//! | `/api/summary` | the whole at a glance, and who is heard |
//! | `/api/links` | all links |
//! | `/api/links/{link}` | one link with its evidence |
//! | `/api/events` | the history; `since_s`, `before`, `kind`, `link`, `limit` |
//! | `/api/live` | what changes, as server-sent events |
//! | `POST /api/links/{link}/acknowledge` | somebody has seen a conviction |
//! | `/metrics` | OpenMetrics |
//!
//! Without tokens it answers to names of this machine alone, so that a page from elsewhere in the same browser
//! can neither read nor change (a name that is made to point here is refused; changing needs a JSON body, which
//! other pages may not send). With tokens, `Authorization: Bearer ..` decides: one token reads, the other
//! changes and reads. Requests are bounded in size and number.

mod answers;
mod guard;
mod serve;

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName};
use axum::middleware;
use axum::routing::{get, post};

use crate::history::read::Reader;
use crate::shared::Shared;

pub use serve::serve;

/// Longest body, in bytes.
const BODY_MAX: usize = 4096;

/// What a browser may do with the page: nothing that is not from here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
const SCRIPTS: [(&str, &str); 7] = [
    ("/page.js", include_str!("../page/page.js")),
    ("/ask.js", include_str!("../page/ask.js")),
    ("/words.js", include_str!("../page/words.js")),
    ("/matrix.js", include_str!("../page/matrix.js")),
    ("/picture.js", include_str!("../page/picture.js")),
    ("/link.js", include_str!("../page/link.js")),
    ("/events.js", include_str!("../page/events.js")),
];

/// What reading and changing need.
#[derive(Clone, Default)]
pub struct Tokens {
    /// To read.
    pub read: Option<String>,
    /// To change, and read.
    pub change: Option<String>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens")
            .field("read", &self.read.is_some())
            .field("change", &self.change.is_some())
            .finish()
    }
}

/// What answers are made from.
#[derive(Debug)]
pub struct App {
    /// What was found.
    pub shared: Arc<Shared>,
    /// The history.
    pub reader: Arc<Mutex<Reader>>,
    /// Who may ask.
    pub tokens: Tokens,
    /// Whether only this machine can ask.
    pub loopback_only: bool,
}

impl App {
    /// Asks the history, beside the runtime's thread.
    ///
    /// # Errors
    /// What the history says.
    pub async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Reader) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let reader = Arc::clone(&self.reader);
        let answer = tokio::task::spawn_blocking(move || {
            let reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            question(&reader)
        });
        match answer.await {
            Ok(answer) => answer.map_err(|error| format!("history: {error}")),
            Err(error) => Err(format!("history: {error}")),
        }
    }
}

/// Everything that is answered.
pub fn router(app: Arc<App>) -> Router {
    let reads = Router::new()
        .route("/api/summary", get(answers::summary))
        .route("/api/links", get(answers::links))
        .route("/api/links/{link}", get(answers::link))
        .route("/api/events", get(answers::events))
        .route("/api/live", get(answers::live))
        .route("/metrics", get(answers::metrics))
        .route_layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            guard::reading,
        ));
    let changes = Router::new()
        .route("/api/links/{link}/acknowledge", post(answers::acknowledge))
        .route_layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            guard::changing,
        ));
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move {
            let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")];
            (headers, text)
        })
    };
    let mut pages = Router::new().route("/", file("text/html; charset=utf-8", PAGE));
    for (path, text) in SCRIPTS {
        pages = pages.route(path, file("text/javascript; charset=utf-8", text));
    }
    pages
        .route("/page.css", file("text/css; charset=utf-8", STYLE))
        .merge(reads)
        .merge(changes)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            guard::host,
        ))
        .layer(middleware::map_response(policy))
        .with_state(app)
}

async fn policy(mut response: axum::response::Response) -> axum::response::Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
    ] {
        headers.insert(name, axum::http::HeaderValue::from_static(value));
    }
    response
}
