//! Log lines: to standard error, as text or one JSON object a line, with levels that can change at any
//! time. Lcores write none.

use std::io::IsTerminal;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

/// The variable with the filter of the start: `info`, or `warn,agent=debug`.
pub const FILTER: &str = "SPRAYCHECK_LOG";
/// The variable with the form: `text` or `json`.
pub const FORMAT: &str = "SPRAYCHECK_LOG_FORMAT";
/// What is written unless said.
const DEFAULT: &str = "warn";
/// The crates that write log lines.
const TARGETS: &[&str] = &["agent", "lcore", "monitor", "spraycheck", "spraycheckd"];

struct Running {
    handle: Handle<EnvFilter, Registry>,
    filter: Mutex<String>,
}

static RUNNING: OnceLock<Running> = OnceLock::new();

/// Begins to write log lines as the environment says. A filter that is wrong is said, and the default
/// taken. Once in a process.
pub fn begin() {
    begin_as(is_json(), DEFAULT);
}

/// Whether the environment asks for JSON.
pub fn is_json() -> bool {
    std::env::var(FORMAT).is_ok_and(|format| format == "json")
}

/// The same in that form, with another default.
pub fn begin_as(is_json: bool, default: &str) {
    let asked = std::env::var(FILTER).unwrap_or_else(|_| default.to_owned());
    let (filter, wrong) = match parse(&asked) {
        Ok(filter) => ((filter, asked), None),
        Err(error) => ((EnvFilter::new(default), default.to_owned()), Some(error)),
    };
    let (layer, handle) = reload::Layer::new(filter.0);
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && !is_plain);
    let lines = match is_json {
        true => lines.json().flatten_event(true).boxed(),
        false => lines.boxed(),
    };
    let begun = tracing_subscriber::registry()
        .with(layer)
        .with(lines)
        .try_init();
    if begun.is_ok() {
        let filter = Mutex::new(filter.1);
        let _ = RUNNING.set(Running { handle, filter });
    }
    if let Some(wrong) = wrong {
        tracing::error!("{FILTER}: {wrong}");
    }
}

/// Writes other lines from now on. Returns what was and what is.
///
/// # Errors
/// What is wrong with the filter, or that there are no log lines.
pub fn set(filter: &str) -> Result<String, String> {
    let new = parse(filter)?;
    let running = RUNNING.get().ok_or("this process writes no log lines")?;
    running
        .handle
        .reload(new)
        .map_err(|error| error.to_string())?;
    let mut held = running
        .filter
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *held, filter.to_owned());
    Ok(format!("log: {before} -> {filter}"))
}

/// Reads a filter: levels, alone or of a target, with commas between.
fn parse(text: &str) -> Result<EnvFilter, String> {
    // Numbers and nothing are levels as well to the reader.
    let is_word = |word: &str| !word.is_empty() && word.chars().all(char::is_alphabetic);
    let is_level = |word: &str| is_word(word) && word.parse::<LevelFilter>().is_ok();
    for part in text.split(',').map(str::trim) {
        let (target, level) = match part.split_once('=') {
            Some((target, level)) => (Some(target), level),
            None => (None, part),
        };
        if !is_level(level) {
            return Err(format!(
                "\"{level}\" is no level; write off, error, warn, info, debug or trace"
            ));
        }
        let root = target.map(|target| target.split("::").next().unwrap_or(target));
        if let Some(root) = root.filter(|root| !TARGETS.contains(root)) {
            return Err(format!(
                "nothing called \"{root}\" writes log lines; take one of {}",
                TARGETS.join(", ")
            ));
        }
    }
    EnvFilter::builder()
        .parse(text)
        .map_err(|error| format!("\"{text}\" is no filter: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: levels and targets are read, and what is neither is refused with the words there are.
    #[test]
    fn filters_are_read_strictly() {
        for right in [
            "info",
            "warn,agent=debug",
            "off",
            "agent::control=trace,lcore=error",
        ] {
            assert!(parse(right).is_ok(), "{right}");
        }
        for (wrong, message) in [
            ("loud", "\"loud\" is no level"),
            ("agent=loud", "\"loud\" is no level"),
            ("", "is no level"),
            ("pipeline=debug", "take one of agent, lcore"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(message), "{wrong}: {error}");
        }
    }
}
