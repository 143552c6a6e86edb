//! The monitor's file: which fabric, whom it hears, where it answers, how it decides.
//!
//! `docs/examples/monitor.toml` has every key with its default, `docs/examples/relay.toml` those of a relay.

mod nats;
pub(crate) mod raw;
mod secret;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::document;
use crate::error::ConfigError;
use crate::quantity::{Bytes, Probability, Time};
use crate::switch_file::settings;

pub use nats::{Login, NatsConfig, WebhookConfig};
use raw::File;

/// What the monitor is told.
#[derive(Clone, PartialEq, Debug)]
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
    /// Where verdicts of other machines come from.
    pub nats: Option<NatsConfig>,
    /// Who is told of events.
    pub webhook: Option<WebhookConfig>,
}

/// What a relay is told: whose verdicts it sends where.
#[derive(Clone, PartialEq, Debug)]
pub struct RelayFile {
    /// Name of the fabric, part of subjects.
    pub name: String,
    /// Sockets of switches, and folders whose sockets are all heard.
    pub sockets: Vec<PathBuf>,
    /// Where it sends to.
    pub nats: NatsConfig,
    /// Where metrics are asked for; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
}

/// The largest fabric.
const FANOUT_MAX: u16 = 128;
/// A fabric that has no name.
const NAME: &str = "fabric";
/// Seconds, as nanoseconds.
const S: u64 = 1_000_000_000;

impl MonitorFile {
    /// Reads a file; names in it are relative to its folder.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn read(path: &Path) -> Result<MonitorFile, ConfigError> {
        MonitorFile::parse(path, &text_of(path)?)
    }

    /// The same of a text.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn parse(path: &Path, text: &str) -> Result<MonitorFile, ConfigError> {
        placed(path, text, resolve)
    }
}

impl RelayFile {
    /// Reads a file; names in it are relative to its folder.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn read(path: &Path) -> Result<RelayFile, ConfigError> {
        RelayFile::parse(path, &text_of(path)?)
    }

    /// The same of a text.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn parse(path: &Path, text: &str) -> Result<RelayFile, ConfigError> {
        placed(path, text, |file: raw::Relay, folder| {
            let name = file.name.unwrap_or_else(|| NAME.to_owned());
            nats::subject_name(&name)?;
            if file.switches.sockets.is_empty() {
                let message =
                    "nobody is heard; name the sockets of switches, or a folder of sockets";
                return Err(ConfigError::new("switches.sockets", message));
            }
            let sockets = file.switches.sockets.iter();
            Ok(RelayFile {
                name,
                sockets: sockets.map(|path| folder.join(path)).collect(),
                nats: nats::nats(file.nats, folder)?,
                metrics: settings::metrics(&file.metrics)?,
            })
        })
    }
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    let cannot = |error| ConfigError::new("", format!("cannot be read: {error}")).in_file(path);
    std::fs::read_to_string(path).map_err(cannot)
}

/// Parses and resolves; a mistake gets its file and line.
fn placed<R: serde::de::DeserializeOwned, T>(
    path: &Path,
    text: &str,
    resolve: impl FnOnce(R, &Path) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    document::parse(text)
        .and_then(|file| resolve(file, path.parent().unwrap_or(Path::new(""))))
        .map_err(|error| {
            let line = document::line_of(text, &error.key);
            error.on_line(line).in_file(path)
        })
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
    let name = file.name.unwrap_or_else(|| NAME.to_owned());
    if file.nats.is_some() {
        nats::subject_name(&name)?;
    } else if file.switches.sockets.is_empty() {
        let message =
            "nobody is heard; name the sockets of switches, or a folder of sockets, or give [nats]";
        return Err(ConfigError::new("switches.sockets", message));
    }
    let token = |key, path: &Option<PathBuf>| match path {
        Some(path) => secret::token(key, &folder.join(path)).map(Some),
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
        let message = format!("{horizon} is no horizon; choose 1s to 3600s");
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
        name,
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
        nats: (file.nats)
            .map(|nats| nats::nats(nats, folder))
            .transpose()?,
        webhook: (file.webhook)
            .map(|webhook| nats::webhook(webhook, folder))
            .transpose()?,
    })
}

/// A constant of the detector, all of which lie between 0 and 1.
fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap_or_default()
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

    /// Goal: NATS and webhooks are checked before anything connects: servers, one way to log in, names, secrets apart.
    #[test]
    fn message_systems_are_checked() {
        let nats = |more: &str| {
            parse(&format!(
                "[fabric]\nleaves = 8\nspines = 4\n[nats]\nservers = [\"nats://h:4222\"]\n{more}"
            ))
        };
        let file = nats("").unwrap();
        let config = file.nats.unwrap();
        assert_eq!((config.login, config.size.bytes()), (Login::None, 1 << 30));
        assert_eq!(file.sockets.len(), 0, "sockets are not needed beside NATS");
        for (text, message) in [
            (nats("user = \"u\"\n"), "nats: give credentials_file"),
            (nats("size = \"1MiB\"\n"), "choose 64MiB to 1TiB"),
            (nats("key_file = \"k\"\n"), "a certificate needs its key"),
            (
                nats("token_file = \"absent\"\n"),
                "nats.token_file: etc/absent: cannot be read",
            ),
            (
                parse(&format!(
                    "name = \"a.b\"\n{LEAST}[nats]\nservers = [\"nats://h\"]\n"
                )),
                "\"a.b\" cannot be part of a NATS subject",
            ),
            (
                parse(&format!("{LEAST}[nats]\nservers = [\"nats://u:p@h\"]\n")),
                "a password does not belong here",
            ),
            (
                parse(&format!("{LEAST}[webhook]\nurl = \"ftp://h\"\n")),
                "webhook.url: \"ftp://h\" is no address",
            ),
        ] {
            let error = text.unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        let relay = "[switches]\nsockets = [\"run\"]\n[nats]\nservers = [\"nats://h\"]\n";
        let relay = RelayFile::parse(Path::new("etc/r.toml"), relay).unwrap();
        assert_eq!(
            (relay.name.as_str(), relay.sockets),
            ("fabric", vec![Path::new("etc/run").to_owned()])
        );
        assert_eq!(relay.metrics, None);
        let path = Path::new("../../docs/examples/relay.toml");
        let example = RelayFile::read(path).unwrap();
        assert_eq!(example.metrics, Some("127.0.0.1:9112".parse().unwrap()));
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
