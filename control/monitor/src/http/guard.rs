//! Who may ask what.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::answers::no;

/// Refuses names that are not this machine's where nothing else protects it.
pub(super) async fn host(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let host = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    // HTTP/2 and absolute targets name the host in the target.
    let host = host.or_else(|| request.uri().host());
    let is_own = host.is_some_and(is_loopback);
    if app.loopback_only && app.tokens.read.is_none() && !is_own {
        let why = "this monitor answers to localhost alone; for other names give it tokens";
        return no(StatusCode::FORBIDDEN, why);
    }
    next.run(request).await
}

/// Whether a host, with or without a port, is this machine by name.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || (name.parse::<std::net::IpAddr>()).is_ok_and(|address| address.is_loopback())
}

/// Lets readers through.
pub(super) async fn reading(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let tokens = [&app.tokens.read, &app.tokens.change];
    let is_open = app.tokens.read.is_none();
    if is_open
        || tokens
            .iter()
            .any(|token| has(request.headers(), token.as_deref()))
    {
        return next.run(request).await;
    }
    unauthorized("reading needs the token of http.read_token_file")
}

/// Lets those through who may change something.
pub(super) async fn changing(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/json")) {
        let why = "send JSON with Content-Type: application/json";
        return no(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
    }
    let change = app.tokens.change.as_deref();
    // Reading is protected, so changing is not for everybody, token or not.
    let is_open = change.is_none() && app.tokens.read.is_none();
    if is_open || has(headers, change) {
        return next.run(request).await;
    }
    unauthorized("changing needs the token of http.change_token_file")
}

fn unauthorized(why: &str) -> Response {
    let challenge = [(WWW_AUTHENTICATE, "Bearer")];
    (challenge, no(StatusCode::UNAUTHORIZED, why)).into_response()
}

fn has(headers: &HeaderMap, token: Option<&str>) -> bool {
    let given =
        (headers.get(AUTHORIZATION)).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    match (given, token) {
        (Some(given), Some(token)) => is_same(given, token.as_bytes()),
        _ => false,
    }
}

/// Compares in a time that does not tell how much is right.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: names of this machine are told from others, whatever port.
    #[test]
    fn this_machine_is_known_by_its_names() {
        for host in [
            "localhost",
            "LOCALHOST:9180",
            "127.0.0.1:1",
            "[::1]:9180",
            "[::1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:80",
            "10.0.0.1:80",
            "[fe80::1]",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
