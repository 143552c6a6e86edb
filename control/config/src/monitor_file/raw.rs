//! The files of a monitor and of a relay as they are written: every key there is, none checked yet.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::quantity::{Bytes, Probability, Time};
use crate::switch_file::raw::Metrics;

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Name of the fabric, for people. With `[nats]` it is part of subjects: letters, digits, `-` and `_`.
    #[schemars(extend("x-default" = "fabric", "x-example" = "hall3"))]
    pub(crate) name: Option<String>,
    /// The fabric's size.
    pub(crate) fabric: Size,
    /// Whom it hears on its own machine.
    #[serde(default)]
    pub(crate) switches: Switches,
    /// The page, its answers and its metrics.
    #[serde(default)]
    pub(crate) http: Http,
    /// What is kept.
    #[serde(default)]
    pub(crate) history: History,
    /// How links are judged.
    #[serde(default)]
    pub(crate) decide: Decide,
    /// What is done about convicted links.
    #[serde(default)]
    pub(crate) routing: Routing,
    /// The message system that brings verdicts of other machines; none without this part.
    pub(crate) nats: Option<Nats>,
    /// Who is told of events; nobody without this part.
    pub(crate) webhook: Option<Webhook>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Size {
    /// Leaves of the fabric.
    #[schemars(extend("x-range" = "2 to 128", "x-example" = 8))]
    pub(crate) leaves: u16,
    /// Spines of the fabric.
    #[schemars(extend("x-range" = "1 to 128", "x-example" = 8))]
    pub(crate) spines: u16,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Switches {
    /// Sockets of switches and testbeds, and folders, whose sockets are all heard as they come and go. Relative to the
    /// file. Needed where there is no `[nats]`.
    #[schemars(extend("x-example" = ["run"]))]
    #[serde(default)]
    pub(crate) sockets: Vec<PathBuf>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Http {
    /// Address and port. Anything but loopback needs both tokens.
    #[schemars(extend("x-default" = "127.0.0.1:9180", "x-example" = "127.0.0.1:9180"), with = "Option<String>")]
    pub(crate) listen: Option<SocketAddr>,
    /// File with the token that reading needs: 16 characters or more, mode 0600.
    #[schemars(extend("x-unless" = "reading needs none", "x-example" = "read.token"))]
    pub(crate) read_token_file: Option<PathBuf>,
    /// File with the token that changing needs, another one.
    #[schemars(extend("x-unless" = "changing needs none", "x-example" = "change.token"))]
    pub(crate) change_token_file: Option<PathBuf>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct History {
    /// The SQLite file, relative to this one.
    #[schemars(extend("x-default" = "monitor.db", "x-example" = "/var/lib/spraycheck/monitor.db"))]
    pub(crate) file: Option<PathBuf>,
    /// Verdicts are kept for so long.
    #[schemars(extend("x-default" = "86400s", "x-example" = "604800s"))]
    pub(crate) verdicts: Option<Time>,
    /// Events are kept for so long: convictions, clearings, acknowledgements.
    #[schemars(extend("x-default" = "7776000s", "x-example" = "31536000s"))]
    pub(crate) events: Option<Time>,
    /// Beyond this the oldest verdicts go.
    #[schemars(extend("x-default" = "4GiB", "x-example" = "64GiB"))]
    pub(crate) size: Option<Bytes>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decide {
    /// Loss of a link that is no failure.
    #[schemars(extend("x-default" = 2e-5, "x-example" = 1e-6))]
    pub(crate) p0: Option<Probability>,
    /// Probability of any false conviction per horizon.
    #[schemars(extend("x-default" = 1e-3, "x-example" = 1e-4))]
    pub(crate) alpha: Option<Probability>,
    /// Older evidence is forgotten.
    #[schemars(extend("x-default" = "60s", "x-range" = ["1s", "3600s"], "x-example" = "300s"))]
    pub(crate) horizon: Option<Time>,
    /// A link is healthy if this loss would have been seen.
    #[schemars(extend("x-default" = 0.005, "x-example" = 0.001))]
    pub(crate) target_rate: Option<Probability>,
    /// Clean for so long, a convicted link is cleared; doubled each time.
    #[schemars(extend("x-default" = "60s", "x-example" = "300s"))]
    pub(crate) clear_after: Option<Time>,
    /// The most that `clear_after` grows to.
    #[schemars(extend("x-default" = "3600s", "x-example" = "7200s"))]
    pub(crate) clear_after_max: Option<Time>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Routing {
    /// Every pair of leaves keeps this share of the spines.
    #[schemars(extend("x-default" = 0.75, "x-example" = 0.5))]
    pub(crate) share: Option<Probability>,
    /// Whether convicted links are taken out of routing, or only proposed.
    #[schemars(extend("x-default" = false, "x-example" = true))]
    pub(crate) apply: Option<bool>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nats {
    /// Servers of one system, `nats://HOST:PORT`, or `tls://` for TLS in any case.
    #[schemars(extend("x-example" = ["tls://nats0.example.net:4222"]))]
    pub(crate) servers: Vec<String>,
    /// Credentials as `nsc` writes them (JWT and seed), mode 0600.
    #[schemars(extend("x-unless" = "none", "x-example" = "monitor.creds"))]
    pub(crate) credentials_file: Option<PathBuf>,
    /// User, with `password_file`.
    #[schemars(extend("x-unless" = "none", "x-example" = "monitor"))]
    pub(crate) user: Option<String>,
    /// File with the user's password, mode 0600.
    #[schemars(extend("x-unless" = "none", "x-example" = "nats.password"))]
    pub(crate) password_file: Option<PathBuf>,
    /// File with a token, mode 0600.
    #[schemars(extend("x-unless" = "none", "x-example" = "nats.token"))]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates (PEM) that the server's may be signed by, beside those of the system.
    #[schemars(extend("x-unless" = "the system's", "x-example" = "ca.pem"))]
    pub(crate) ca_file: Option<PathBuf>,
    /// Own certificate (PEM), with `key_file`, where the server asks for one.
    #[schemars(extend("x-unless" = "none", "x-example" = "monitor.pem"))]
    pub(crate) certificate_file: Option<PathBuf>,
    /// Its key (PEM), mode 0600.
    #[schemars(extend("x-unless" = "none", "x-example" = "monitor.key"))]
    pub(crate) key_file: Option<PathBuf>,
    /// Bytes of verdicts that wait at the server at most, shared evenly by the leaves. The monitor makes the stream with
    /// it; a relay does not need it.
    #[schemars(extend("x-default" = "1GiB", "x-range" = ["64MiB", "1TiB"], "x-example" = "8GiB"))]
    pub(crate) size: Option<Bytes>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    /// Where each event is sent to, by POST as JSON: `http://` or `https://`.
    #[schemars(extend("x-example" = "https://chat.example.net/hooks/spraycheck"))]
    pub(crate) url: String,
    /// File with a token, mode 0600, sent as `Authorization: Bearer TOKEN`.
    #[schemars(extend("x-unless" = "none is sent", "x-example" = "webhook.token"))]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates (PEM) that the server's may be signed by, instead of those of the system.
    #[schemars(extend("x-unless" = "the system's", "x-example" = "ca.pem"))]
    pub(crate) ca_file: Option<PathBuf>,
}

/// The file of a relay.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Relay {
    /// Name of the fabric, as in the monitor's file: letters, digits, `-` and `_`.
    #[schemars(extend("x-default" = "fabric", "x-example" = "hall3"))]
    pub(crate) name: Option<String>,
    /// Whom it hears.
    pub(crate) switches: Switches,
    /// Where it sends to.
    pub(crate) nats: Nats,
    /// OpenMetrics over HTTP; off without this part.
    #[serde(default)]
    pub(crate) metrics: Metrics,
}
