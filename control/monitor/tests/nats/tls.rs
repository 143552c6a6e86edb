//! TLS, and certificates that say who is there.

use config::monitor_file::{Login, NatsConfig};
use monitor::run::{Monitor, MonitorSettings};

use crate::certificates;
use crate::played::settings;
use crate::server::{Server, config_of, source, until};

/// Goal: with the right authority and an own certificate the monitor is connected; without, it says why, and is not.
#[tokio::test]
async fn certificates_decide() {
    let folder = tempfile::tempdir().unwrap();
    if !certificates::make(folder.path()) {
        println!("skipped: no openssl here (apt-get install openssl)");
        return;
    }
    let path = |name: &str| folder.path().join(name);
    let tls = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}",
        path("server.pem").display(),
        path("server.key").display(),
        path("ca.pem").display()
    );
    let Some(server) = Server::start(folder.path(), &tls) else {
        return;
    };
    let plain = NatsConfig {
        servers: vec![format!("tls://{}", server.address)],
        ..config_of(server.address, Login::None)
    };
    let right = NatsConfig {
        ca_file: Some(path("ca.pem")),
        certificate: Some((path("client.pem"), path("client.key"))),
        ..plain.clone()
    };
    for (nats, is_right) in [(plain, false), (right, true)] {
        let settings = MonitorSettings {
            sockets: Vec::new(),
            nats: Some(nats),
            ..settings(folder.path())
        };
        let monitor = Monitor::start(settings).await.unwrap();
        until("answer of the server", || {
            source(&monitor, "spraycheck-test").is_some_and(|source| match is_right {
                true => source.connected,
                false => source
                    .trouble
                    .is_some_and(|why| why.contains("certificate")),
            })
        })
        .await;
        monitor.finish().await;
    }
}
