//! Messages on standard error: plain lines for people, or one JSON object a line (`--log-format json`).

use std::io::{BufRead, BufReader, Write};
use std::process::ChildStderr;
use std::sync::OnceLock;
use std::thread;

use crate::args::LogFormat;

static IS_JSON: OnceLock<bool> = OnceLock::new();

/// From now on messages have this form; that of the environment unless said.
pub(crate) fn begin(format: Option<LogFormat>) {
    let json = match format {
        Some(format) => format == LogFormat::Json,
        None => agent::log::is_json(),
    };
    let _ = IS_JSON.set(json);
    if json {
        agent::log::begin_as(true, "info");
    }
}

/// Whether messages are JSON.
pub(crate) fn is_json() -> bool {
    IS_JSON.get().copied().unwrap_or(false)
}

/// Tells something. Nobody need read it.
pub(crate) fn say(text: &str) {
    if is_json() {
        tracing::info!("{text}");
    } else {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

/// Tells why there is no answer.
pub(crate) fn fail(text: &str) {
    if is_json() {
        tracing::error!("{text}");
    } else {
        let _ = writeln!(std::io::stderr(), "spraycheck: {text}");
    }
}

/// Passes on the daemon's lines: its own are JSON, those of DPDK and its drivers are put into one.
pub(crate) fn pass_on(stderr: ChildStderr) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            let is_object = serde_json::from_str::<serde_json::Map<_, _>>(&line).is_ok();
            if is_object {
                let _ = writeln!(std::io::stderr(), "{line}");
            } else if !line.trim().is_empty() {
                tracing::info!(from = "dpdk", "{}", line.trim_end());
            }
        }
    })
}
