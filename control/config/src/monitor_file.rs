//! The monitor's file: which fabric, whom it hears, where it answers, how it decides.
//!
//! `docs/examples/monitor.toml` has every key with its default.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::document;
use crate::error::ConfigError;
use crate::quantity::{Bytes, Probability, Time};

/// What the monitor is told.
#[derive(Clone, Debug)]
pub struct MonitorFile {
    /// Name of the fabric, for people.
    pub name: String,
    /// Leaves of the fabric.
    pub leaves: u16,
    /// Spines of the fabric.
    pub spines: u16,
    /// Sockets of switches, and folders whose sockets are all heard.
    pub sockets: Vec<PathBuf>,
    /// Where the page is.
    pub listen: SocketAddr,
    /// The token that reading needs.
    pub read_token: Option<String>,
    /// The token that changing needs.
    pub change_token: Option<String>,
    /// The file of the history.
    pub history: PathBuf,
    /// Verdicts are kept for so long.
    pub keep_verdicts: Time,
    /// Events are kept for so long.
    pub keep_events: Time,
    /// Bytes of the history in use at most.
    pub keep_bytes: Bytes,
    /// Loss rate of a link that is no failure.
    pub p0: Probability,
    /// Probability of any false conviction per horizon.
    pub alpha: Probability,
    /// Evidence older than this is forgotten.
    pub horizon: Time,
    /// A healthy link would have been seen to lose so much.
    pub target_rate: Probability,
    /// Clean for so long, a convicted link is cleared.
    pub clear_after: Time,
    /// The most that this grows to for a link that is convicted again and again.
    pub clear_after_max: Time,
    /// Every pair of leaves keeps this share of the spines.
    pub routing_share: Probability,
    /// Whether convicted links are taken out of routing, or only proposed.
    pub routing_apply: bool,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    fabric: Size,
    switches: Switches,
    #[serde(default)]
    http: Http,
    #[serde(default)]
    history: History,
    #[serde(default)]
    decide: Decide,
    #[serde(default)]
    routing: Routing,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Size {
    leaves: u16,
    spines: u16,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Switches {
    sockets: Vec<PathBuf>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
struct Http {
    listen: Option<SocketAddr>,
    read_token_file: Option<PathBuf>,
    change_token_file: Option<PathBuf>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
struct History {
    file: Option<PathBuf>,
    verdicts: Option<Time>,
    events: Option<Time>,
    size: Option<Bytes>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
struct Decide {
    p0: Option<Probability>,
    alpha: Option<Probability>,
    horizon: Option<Time>,
    target_rate: Option<Probability>,
    clear_after: Option<Time>,
    clear_after_max: Option<Time>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
struct Routing {
    share: Option<Probability>,
    apply: Option<bool>,
}

/// The largest fabric.
const FANOUT_MAX: u16 = 128;
/// Shortest token: 96 bits in base 64.
const TOKEN_MIN: usize = 16;
/// Seconds, as nanoseconds.
const S: u64 = 1_000_000_000;

impl MonitorFile {
    /// Reads a file; names in it are relative to its folder.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn read(path: &Path) -> Result<MonitorFile, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError::new("", format!("cannot be read: {error}")).in_file(path)
        })?;
        MonitorFile::parse(path, &text)
    }

    /// The same of a text.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn parse(path: &Path, text: &str) -> Result<MonitorFile, ConfigError> {
        document::parse(text)
            .and_then(|file| resolve(file, path.parent().unwrap_or(Path::new(""))))
            .map_err(|error| {
                let line = document::line_of(text, &error.key);
                error.on_line(line).in_file(path)
            })
    }
}

fn resolve(file: File, folder: &Path) -> Result<MonitorFile, ConfigError> {
    for (key, size) in [
        ("fabric.leaves", file.fabric.leaves),
        ("fabric.spines", file.fabric.spines),
    ] {
        let least = if key == "fabric.leaves" { 2 } else { 1 };
        if !(least..=FANOUT_MAX).contains(&size) {
            let message = format!("{size} is none; a fabric has {least} to {FANOUT_MAX}");
            return Err(ConfigError::new(key, message));
        }
    }
    if file.switches.sockets.is_empty() {
        let message = "nobody is heard; name the sockets of switches, or a folder of sockets";
        return Err(ConfigError::new("switches.sockets", message));
    }
    let token = |key, path: &Option<PathBuf>| match path {
        Some(path) => token(key, &folder.join(path)).map(Some),
        None => Ok(None),
    };
    let listen = file
        .http
        .listen
        .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 9180)));
    let read_token = token("http.read_token_file", &file.http.read_token_file)?;
    let change_token = token("http.change_token_file", &file.http.change_token_file)?;
    if !listen.ip().is_loopback() && (read_token.is_none() || change_token.is_none()) {
        let message = format!(
            "{listen} is open to others; give read_token_file and change_token_file, or listen on 127.0.0.1"
        );
        return Err(ConfigError::new("http.listen", message));
    }
    if read_token.is_some() && read_token == change_token {
        let message = "it is the token for reading as well; take two different ones";
        return Err(ConfigError::new("http.change_token_file", message));
    }
    let decide = file.decide;
    let horizon = decide.horizon.unwrap_or(Time::new(60 * S));
    if !(S..=3600 * S).contains(&horizon.nanos()) {
        let message = format!("{horizon} is no horizon; take 1s to 3600s");
        return Err(ConfigError::new("decide.horizon", message));
    }
    for (key, rate) in [
        ("decide.alpha", decide.alpha),
        ("decide.target_rate", decide.target_rate),
    ] {
        if rate.is_some_and(|rate| rate.value() <= 0.0) {
            return Err(ConfigError::new(key, "0 decides nothing; take a small one"));
        }
    }
    let clear_after = decide.clear_after.unwrap_or(Time::new(60 * S));
    Ok(MonitorFile {
        name: file.name.unwrap_or_else(|| "fabric".to_owned()),
        leaves: file.fabric.leaves,
        spines: file.fabric.spines,
        sockets: (file.switches.sockets.iter())
            .map(|path| folder.join(path))
            .collect(),
        listen,
        read_token,
        change_token,
        history: folder.join(file.history.file.unwrap_or_else(|| "monitor.db".into())),
        keep_verdicts: file.history.verdicts.unwrap_or(Time::new(86_400 * S)),
        keep_events: file.history.events.unwrap_or(Time::new(90 * 86_400 * S)),
        keep_bytes: file.history.size.unwrap_or(Bytes::new(4 << 30)),
        p0: (decide.p0).unwrap_or(probability(detector::rules::DEFAULT_P0)),
        alpha: (decide.alpha).unwrap_or(probability(detector::rules::DEFAULT_ALPHA)),
        horizon,
        target_rate: (decide.target_rate)
            .unwrap_or(probability(detector::rules::DEFAULT_TARGET_RATE)),
        clear_after,
        clear_after_max: (decide.clear_after_max)
            .unwrap_or(Time::new(3600 * S))
            .max(clear_after),
        routing_share: file.routing.share.unwrap_or(probability(0.75)),
        routing_apply: file.routing.apply.unwrap_or(false),
    })
}

/// A constant of the detector, all of which lie between 0 and 1.
fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap_or_default()
}

/// The token in a file, which others than its owner must not read.
fn token(key: &str, path: &Path) -> Result<String, ConfigError> {
    use std::os::unix::fs::PermissionsExt;
    let wrong = |what: String| ConfigError::new(key, format!("{}: {what}", path.display()));
    let meta =
        std::fs::metadata(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if meta.permissions().mode() & 0o077 != 0 {
        return Err(wrong("others may read it; chmod 600".to_owned()));
    }
    let text =
        std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let token = text.trim();
    let is_plain = token.bytes().all(|b| b.is_ascii_graphic());
    if token.len() < TOKEN_MIN || !is_plain {
        return Err(wrong(format!(
            "it is no token of {TOKEN_MIN} or more letters and digits; make one: openssl rand -hex 16"
        )));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const LEAST: &str = "[fabric]\nleaves = 8\nspines = 4\n[switches]\nsockets = [\"run\"]\n";

    fn parse(text: &str) -> Result<MonitorFile, String> {
        MonitorFile::parse(Path::new("etc/m.toml"), text).map_err(|error| error.to_string())
    }

    /// Goal: the least file gives the documented defaults, and paths beside the file.
    #[test]
    fn the_least_file_is_enough() {
        let file = parse(LEAST).unwrap();
        assert_eq!(file.listen.to_string(), "127.0.0.1:9180");
        assert_eq!(file.history, Path::new("etc/monitor.db"));
        assert_eq!(file.sockets, [Path::new("etc/run")]);
        assert_eq!((file.p0.value(), file.horizon.nanos()), (2e-5, 60 * S));
    }

    /// Goal: the example has the defaults, and every key.
    #[test]
    fn the_example_is_read() {
        let path = Path::new("../../docs/examples/monitor.toml");
        let file = MonitorFile::read(path).unwrap();
        let least = parse(LEAST).unwrap();
        assert_eq!((file.leaves, file.alpha), (8, least.alpha));
        assert_eq!(file.clear_after_max, least.clear_after_max);
        assert_eq!(file.keep_events, least.keep_events);
    }

    /// Goal: wrong values are named by line, with the cure.
    #[test]
    fn mistakes_are_placed() {
        for (text, message) in [
            (
                LEAST.replace("8", "1"),
                "etc/m.toml:2: fabric.leaves: 1 is none; a fabric has 2 to 128",
            ),
            (
                LEAST.replace("\"run\"", ""),
                "etc/m.toml:5: switches.sockets: nobody is heard",
            ),
            (
                format!("{LEAST}[http]\nlisten = \"0.0.0.0:80\"\n"),
                "etc/m.toml:7: http.listen: 0.0.0.0:80 is open to others",
            ),
            (
                format!("{LEAST}[decide]\nhorizn = \"1s\"\n"),
                "etc/m.toml:7: decide.horizn: unknown key \"horizn\"; did you mean \"horizon\"?",
            ),
            (
                format!("{LEAST}[decide]\nhorizon = \"1ms\"\n"),
                "etc/m.toml:7: decide.horizon: 1ms is no horizon",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }

    /// Goal: tokens come from files of their owner's alone, are long enough, and differ.
    #[test]
    fn tokens_are_kept_apart() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, mode| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        write("read", "0123456789abcdef\n", 0o600);
        write("change", "fedcba9876543210\n", 0o600);
        write("open", "0123456789abcdef\n", 0o644);
        write("short", "secret", 0o600);
        let with = |read: &str, change: &str| {
            let text = format!(
                "{LEAST}[http]\nlisten = \"0.0.0.0:80\"\nread_token_file = \"{read}\"\nchange_token_file = \"{change}\"\n"
            );
            MonitorFile::parse(&folder.path().join("m.toml"), &text).map_err(|e| e.to_string())
        };
        let file = with("read", "change").unwrap();
        assert_eq!(file.read_token.as_deref(), Some("0123456789abcdef"));
        for (read, change, what) in [
            ("open", "change", "others may read it; chmod 600"),
            ("read", "short", "it is no token of 16"),
            ("read", "read", "it is the token for reading as well"),
            ("absent", "change", "cannot be read"),
        ] {
            let error = with(read, change).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}
