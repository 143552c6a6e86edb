//! The Unix socket: one JSON object a line asks, one JSON object a line answers.
//!
//! `{"show": "ports"}` gives `{"show": "ports", "rows": [..]}`; what is wrong gives
//! `{"error": ".."}`. `{"capture": {..}}` gives packets until it ends ([`crate::capture`]),
//! and `{"verdicts": {}}` verdicts as they happen ([`crate::stream`]). Requests are bounded in length; a client that sends more is cut off. The
//! socket's mode is 0600: only its owner may ask.

use std::cell::RefCell;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::capture::serve::{self as capture, CaptureRequest};
use crate::control::State;
use crate::neighbors;
use crate::operate;
use crate::show;
use crate::stream::{self, VerdictsRequest};

/// Longest request, in bytes.
const REQUEST_MAX: u64 = 4096;
/// Clients at once; more wait in the backlog.
const CLIENTS_MAX: usize = 16;
/// After an error of accepting, such as too many open files.
const AGAIN: Duration = Duration::from_millis(100);

/// A bound socket; its file goes with it.
#[derive(Debug)]
pub struct Listener {
    listener: std::os::unix::net::UnixListener,
    path: PathBuf,
}

impl Listener {
    /// The same for a tokio runtime; the file stays as long as this value.
    ///
    /// # Errors
    /// When the runtime cannot take it.
    fn tokio(&self) -> io::Result<UnixListener> {
        UnixListener::from_std(self.listener.try_clone()?)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Somebody may have taken it away already; there is nobody left to tell.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Binds `path`. A socket that nobody answers on is left over from a killed run and replaced.
///
/// # Errors
/// When it is in use, or cannot be made; the message names the path.
pub fn bind(path: &Path) -> io::Result<Listener> {
    let explain = |error: io::Error, what: &str| {
        io::Error::new(
            error.kind(),
            format!("socket {}: {what}: {error}", path.display()),
        )
    };
    if let Ok(meta) = std::fs::symlink_metadata(path) {
        if !meta.file_type().is_socket() {
            let error = io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is no socket");
            return Err(explain(error, "name another path"));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            let error = io::Error::new(io::ErrorKind::AddrInUse, "another instance answers there");
            return Err(explain(error, "stop that one or name another path"));
        }
        std::fs::remove_file(path)
            .map_err(|error| explain(error, "cannot remove the stale one"))?;
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| explain(error, "cannot make its folder"))?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)
        .map_err(|error| explain(error, "cannot bind"))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|error| explain(error, "cannot set its mode"))?;
    listener
        .set_nonblocking(true)
        .map_err(|error| explain(error, "cannot poll it"))?;
    Ok(Listener {
        listener,
        path: path.to_owned(),
    })
}

/// Answers clients until the runtime ends.
pub(crate) async fn serve(listener: Listener, state: Rc<RefCell<State>>) {
    each_client(listener, CLIENTS_MAX, |stream, place| {
        let state = Rc::clone(&state);
        tokio::task::spawn_local(async move {
            // A client that goes away ends its task; others are not affected.
            let _ = answer(stream, state).await;
            drop(place);
        });
    })
    .await;
}

/// Begins with each client that connects, so many at once, until the runtime ends; a client has its place until it
/// drops it.
pub async fn each_client(
    listener: Listener,
    clients_max: usize,
    begin: impl Fn(UnixStream, OwnedSemaphorePermit),
) {
    let socket = match listener.tokio() {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!("socket {}: {error}", listener.path.display());
            return;
        }
    };
    let places = Arc::new(Semaphore::new(clients_max));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match socket.accept().await {
            Ok((stream, _)) => begin(stream, place),
            Err(error) => {
                tracing::warn!("socket {}: accepting: {error}", listener.path.display());
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Request {
    Show(String),
    Capture(CaptureRequest),
    Verdicts(VerdictsRequest),
}

async fn answer(stream: UnixStream, state: Rc<RefCell<State>>) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = String::new();
        let read = (&mut reader).take(REQUEST_MAX).read_line(&mut line).await?;
        if read == 0 {
            return Ok(());
        }
        let is_cut = !line.ends_with('\n') && read as u64 >= REQUEST_MAX;
        let reply = if is_cut {
            json!({ "error": format!("a request is at most {REQUEST_MAX} bytes") })
        } else {
            match serde_json::from_str(&line) {
                Ok(Request::Capture(request)) => {
                    // From here on the connection is the capture's.
                    return capture::serve(request, reader, writer, state).await;
                }
                Ok(Request::Verdicts(request)) => {
                    return stream::serve(request, writer, state).await;
                }
                Ok(Request::Show(what)) if what == "neighbors" => {
                    match neighbors::rows(&state).await {
                        Ok(rows) => json!({ "show": what, "rows": rows }),
                        Err(error) => json!({ "error": error }),
                    }
                }
                Ok(Request::Show(what)) => show(&what, &mut state.borrow_mut()),
                Err(error) => change(&line, &error, &state).await,
            }
        };
        let mut text = reply.to_string();
        text.push('\n');
        writer.write_all(text.as_bytes()).await?;
        if is_cut {
            return Ok(());
        }
    }
}

/// What changes something knows its own requests, and is answered when it is in force.
async fn change(line: &str, error: &serde_json::Error, state: &Rc<RefCell<State>>) -> Value {
    let reply = operate::reply(line, &mut state.borrow_mut());
    let Some(reply) = reply else {
        let error = format!("no request: {error}; send {{\"show\": \"ports\"}}");
        return json!({ "error": error });
    };
    match operate::in_force(state).await {
        Ok(()) => reply,
        Err(error) => json!({ "error": error }),
    }
}

fn show(what: &str, state: &mut State) -> Value {
    match show::rows(state, what) {
        Some(rows) => json!({ "show": what, "rows": rows }),
        None => json!({
            "error": format!("nothing is called \"{what}\"; ask for one of {}", show::WHAT.join(", "))
        }),
    }
}
