//! NATS: verdicts of switches on other machines come over a JetStream stream, and events go out to another.
//!
//! | subject | stream | says |
//! | --- | --- | --- |
//! | `spraycheck.NAME.verdicts.SWITCH` | `spraycheck-NAME`, a work queue | a hello and verdicts, as a switch's socket tells them |
//! | `spraycheck.NAME.events` | `spraycheck-NAME-events` | one event, as JSON |
//!
//! A relay ([`relay`]) beside the switches publishes the first, the monitor takes them (`intake`). The subject's last
//! part is the switch's name, so that NATS's own permissions say who may speak for whom.

pub mod relay;

pub(crate) mod intake;
mod relayed;
pub(crate) mod tell;

use std::io;
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, Event};
use config::monitor_file::{Login, NatsConfig};
use tokio::sync::watch;

/// Largest message: lines until they are 64 KiB, one more line, and a hello.
pub(crate) const MESSAGE_MAX: usize = 160 << 10;
/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two attempts to connect, at most.
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// The connection as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// Whether the server answers.
    pub(crate) is_up: bool,
    /// How often it has been lost.
    pub(crate) lost: u64,
    /// What is wrong.
    pub(crate) trouble: Option<String>,
}

/// A connection that comes again by itself.
#[derive(Clone, Debug)]
pub(crate) struct System {
    /// Name of the fabric.
    pub(crate) name: String,
    /// The servers, for people.
    pub(crate) servers: String,
    /// JetStream.
    pub(crate) context: Context,
    /// How the connection is.
    pub(crate) line: watch::Receiver<Line>,
}

impl System {
    /// Begins to connect; a server that is not there yet is waited for.
    ///
    /// # Errors
    /// Certificates or credentials that are none.
    pub(crate) async fn connect(name: &str, config: &NatsConfig) -> io::Result<System> {
        let servers = config.servers.join(", ");
        let (line, seen) = watch::channel(Line::default());
        let who = servers.clone();
        let mut options = ConnectOptions::new()
            .name("spraycheck")
            .retry_on_initial_connect()
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE))
            .ping_interval(Duration::from_secs(5))
            .reconnect_delay_callback(|attempts| {
                let doubled = 50u64.saturating_mul(1 << attempts.min(16));
                Duration::from_millis(doubled).min(AGAIN_MAX)
            })
            .event_callback(move |event| {
                note(&line, &who, &event);
                async {}
            });
        options = match &config.login {
            Login::None => options,
            Login::Credentials(text) => options.credentials(text)?,
            Login::Password(user, password) => {
                options.user_and_password(user.clone(), password.clone())
            }
            Login::Token(token) => options.token(token.clone()),
        };
        if let Some(ca) = &config.ca_file {
            options = options.add_root_certificates(ca.clone());
        }
        if let Some((certificate, key)) = &config.certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        let client = options.connect(config.servers.clone()).await;
        let client = client.map_err(|error| io::Error::other(chain(&error)))?;
        Ok(System {
            name: name.to_owned(),
            servers,
            context: jetstream::new(client),
            line: seen,
        })
    }

    /// The stream of verdicts.
    pub(crate) fn stream(&self) -> String {
        format!("spraycheck-{}", self.name)
    }

    /// The subjects of all switches.
    pub(crate) fn subjects(&self) -> String {
        format!("spraycheck.{}.verdicts.*", self.name)
    }

    /// The subject of a switch.
    pub(crate) fn subject(&self, switch: &str) -> String {
        format!("spraycheck.{}.verdicts.{}", self.name, token(switch))
    }
}

/// Notes what happened to a connection.
fn note(line: &watch::Sender<Line>, who: &str, event: &Event) {
    line.send_modify(|line| match event {
        Event::Connected => {
            tracing::info!("{who}: connected");
            (line.is_up, line.trouble) = (true, None);
        }
        Event::Disconnected | Event::Closed => {
            tracing::warn!("{who}: the connection is lost");
            line.lost += u64::from(line.is_up);
            line.is_up = false;
            line.trouble = Some("the connection is lost".to_owned());
        }
        other => {
            let text = with_cure(&other.to_string());
            if line.trouble.as_ref() != Some(&text) {
                tracing::warn!("{who}: {text}");
            }
            line.trouble = Some(text);
        }
    });
}

/// What the client says, which is short, with what it may mean.
fn with_cure(said: &str) -> String {
    let cure = if said.contains("IO error") || said.contains("TLS error") {
        "nothing answers there, or its certificate is not believed; see nats.servers and nats.ca_file"
    } else if said.to_lowercase().contains("authorization") {
        "the server knows no such user, password, token or credentials"
    } else {
        return said.to_owned();
    };
    format!("{said}: {cure}")
}

/// A name as one part of a subject.
pub(crate) fn token(name: &str) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() || c == '-' || c == '_' {
        true => c,
        false => '_',
    };
    name.chars().map(plain).collect()
}

/// An error with what it comes from.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no name of a switch gets a meaning in a subject.
    #[test]
    fn names_are_single_parts_of_subjects() {
        assert_eq!(token("leaf12"), "leaf12");
        assert_eq!(token("8 leaves"), "8_leaves");
        assert_eq!(token("a.>.*"), "a____");
    }
}
