//! Events by HTTP: one POST for each, with JSON.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use config::monitor_file::WebhookConfig;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, parse_pem};

use crate::core::Event;
use crate::outlet::{NotTaken, Told};

/// How long a receiver may take for one event.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who receives.
#[derive(Debug)]
pub(crate) struct Webhook {
    agent: Agent,
    config: WebhookConfig,
    fabric: String,
}

impl Webhook {
    /// Makes one; connects to nobody yet.
    ///
    /// # Errors
    /// When there are no certificates to check the receiver's by.
    pub(crate) fn new(config: WebhookConfig, fabric: &str) -> io::Result<Webhook> {
        let mut tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
        if config.url.starts_with("https://") {
            tls = tls.root_certs(RootCerts::Specific(Arc::new(roots(&config)?)));
        }
        let agent = Agent::config_builder()
            .tls_config(tls.build())
            .timeout_global(Some(PATIENCE))
            // A token goes to the receiver that was named, and to no other.
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent("spraycheck")
            .build();
        Ok(Webhook {
            agent: agent.into(),
            config,
            fabric: fabric.to_owned(),
        })
    }

    /// Sends an event.
    pub(crate) async fn tell(&self, event: &Event) -> Result<(), NotTaken> {
        let told = Told {
            fabric: &self.fabric,
            event,
        };
        let body = serde_json::to_string(&told).map_err(|e| NotTaken::Ever(e.to_string()))?;
        let (agent, config) = (self.agent.clone(), self.config.clone());
        let sent = tokio::task::spawn_blocking(move || {
            let mut request = (agent.post(&config.url)).header("Content-Type", "application/json");
            if let Some(token) = &config.token {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            request
                .send(body.as_bytes())
                .map(|answer| answer.status().as_u16())
        });
        match sent.await {
            Ok(Ok(200..=299)) => Ok(()),
            // What these say is about this very event: bad request, too large, not to be processed.
            Ok(Ok(status @ (400 | 413 | 422))) => Err(NotTaken::Ever(format!(
                "{}: status {status}",
                self.config.url
            ))),
            Ok(Ok(status)) => Err(NotTaken::Yet(format!(
                "{}: status {status}",
                self.config.url
            ))),
            Ok(Err(error)) => Err(NotTaken::Yet(format!("{}: {error}", self.config.url))),
            Err(error) => Err(NotTaken::Yet(error.to_string())),
        }
    }
}

/// The certificates that the receiver's may be signed by.
fn roots(config: &WebhookConfig) -> io::Result<Vec<Certificate<'static>>> {
    let Some(path) = &config.ca_file else {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            let what = "webhook.ca_file: this system has no certificates; install ca-certificates, or name a file";
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        let own =
            |der: &rustls::pki_types::CertificateDer<'_>| Certificate::from_der(der).to_owned();
        return Ok(found.certs.iter().map(own).collect());
    };
    let pem = std::fs::read(path)?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        let what = format!(
            "webhook.ca_file: {}: no certificate (PEM) in it",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(certificates)
}
