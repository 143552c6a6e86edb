//! `[nats]` and `[webhook]`: where verdicts of other machines come from, and who is told.

use std::path::{Path, PathBuf};

use super::{raw, secret};
use crate::error::ConfigError;
use crate::quantity::Bytes;

/// A NATS system and how to log in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NatsConfig {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`.
    pub servers: Vec<String>,
    /// Who it is.
    pub login: Login,
    /// Certificates that the server's may be signed by.
    pub ca_file: Option<PathBuf>,
    /// Own certificate and key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Bytes that wait at the server at most.
    pub size: Bytes,
}

/// How one logs in to NATS.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// Whoever comes may; or a certificate says who it is.
    None,
    /// The text of a credentials file.
    Credentials(String),
    /// User and password.
    Password(String, String),
    /// A token.
    Token(String),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Login::None => "None",
            Login::Credentials(_) => "Credentials(..)",
            Login::Password(..) => "Password(..)",
            Login::Token(_) => "Token(..)",
        })
    }
}

/// Who is told of events.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Where each is sent to.
    pub url: String,
    /// Sent with it.
    pub token: Option<String>,
    /// Certificates that the server's may be signed by.
    pub ca_file: Option<PathBuf>,
}

impl std::fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("url", &self.url)
            .field("token", &self.token.is_some())
            .field("ca_file", &self.ca_file)
            .finish()
    }
}

/// Least and most that may wait at the server.
const SIZE: [u64; 2] = [64 << 20, 1 << 40];

pub(super) fn nats(raw: raw::Nats, folder: &Path) -> Result<NatsConfig, ConfigError> {
    if raw.servers.is_empty() {
        let message = "it has no server; name one: nats://HOST:4222";
        return Err(ConfigError::new("nats.servers", message));
    }
    for server in &raw.servers {
        let rest = (server.strip_prefix("nats://")).or_else(|| server.strip_prefix("tls://"));
        let message = match rest {
            None => format!("\"{server}\" is no server; write nats://HOST:4222, or tls://"),
            Some(rest) if rest.contains('@') => {
                "a password does not belong here; use user and password_file".to_owned()
            }
            Some(rest) if rest.is_empty() || !rest.bytes().all(|b| b.is_ascii_graphic()) => {
                format!("\"{server}\" names no host; write nats://HOST:4222")
            }
            Some(_) => continue,
        };
        return Err(ConfigError::new("nats.servers", message));
    }
    let login = match (
        raw.credentials_file,
        raw.user,
        raw.password_file,
        raw.token_file,
    ) {
        (None, None, None, None) => Login::None,
        (Some(path), None, None, None) => {
            Login::Credentials(secret::read("nats.credentials_file", &folder.join(path))?)
        }
        (None, Some(user), Some(path), None) => Login::Password(
            user,
            secret::word("nats.password_file", &folder.join(path))?,
        ),
        (None, None, None, Some(path)) => {
            Login::Token(secret::word("nats.token_file", &folder.join(path))?)
        }
        _ => {
            let message = "give credentials_file, or user and password_file, or token_file, and one of them alone";
            return Err(ConfigError::new("nats", message));
        }
    };
    let file = |key, path: Option<PathBuf>| match path {
        Some(path) => is_there(key, folder.join(path)).map(Some),
        None => Ok(None),
    };
    let ca_file = file("nats.ca_file", raw.ca_file)?;
    let certificate = match (
        file("nats.certificate_file", raw.certificate_file)?,
        raw.key_file,
    ) {
        (None, None) => None,
        (Some(certificate), Some(key)) => {
            let key = folder.join(key);
            secret::read("nats.key_file", &key)?;
            Some((certificate, key))
        }
        _ => {
            let message = "a certificate needs its key: give certificate_file and key_file";
            return Err(ConfigError::new("nats.certificate_file", message));
        }
    };
    let size = raw.size.unwrap_or(Bytes::new(1 << 30));
    if !(SIZE[0]..=SIZE[1]).contains(&size.bytes()) {
        let [least, most] = SIZE.map(Bytes::new);
        let message = format!("{size} cannot be; choose {least} to {most}");
        return Err(ConfigError::new("nats.size", message));
    }
    Ok(NatsConfig {
        servers: raw.servers,
        login,
        ca_file,
        certificate,
        size,
    })
}

pub(super) fn webhook(raw: raw::Webhook, folder: &Path) -> Result<WebhookConfig, ConfigError> {
    let url = raw.url;
    let rest = (url.strip_prefix("http://")).or_else(|| url.strip_prefix("https://"));
    let is_host = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic());
    if !rest.is_some_and(is_host) {
        let message =
            format!("\"{url}\" is no address; write http://HOST/PATH or https://HOST/PATH");
        return Err(ConfigError::new("webhook.url", message));
    }
    let token = match raw.token_file {
        Some(path) => Some(secret::word("webhook.token_file", &folder.join(path))?),
        None => None,
    };
    let ca_file = match raw.ca_file {
        Some(path) => Some(is_there("webhook.ca_file", folder.join(path))?),
        None => None,
    };
    Ok(WebhookConfig {
        url,
        token,
        ca_file,
    })
}

/// A file that can be read.
fn is_there(key: &str, path: PathBuf) -> Result<PathBuf, ConfigError> {
    match std::fs::File::open(&path) {
        Ok(_) => Ok(path),
        Err(error) => {
            let message = format!("{}: cannot be read: {error}", path.display());
            Err(ConfigError::new(key, message))
        }
    }
}

/// A name that can be part of a subject: NATS gives `.`, `*`, `>` and spaces a meaning.
pub(super) fn subject_name(name: &str) -> Result<(), ConfigError> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if name.is_empty() || name.len() > 32 || !name.bytes().all(is_plain) {
        let message = format!(
            "\"{name}\" cannot be part of a NATS subject; take up to 32 letters, digits, - and _"
        );
        return Err(ConfigError::new("name", message));
    }
    Ok(())
}
