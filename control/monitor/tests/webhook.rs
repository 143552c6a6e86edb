//! Events by HTTP to a small server: in order, none twice once taken, none missed over failures and a restart.

#[path = "played/certificates.rs"]
mod certificates;
mod played;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use config::monitor_file::WebhookConfig;
use monitor::run::{Monitor, MonitorSettings};
use monitor::shared::Question;
use played::{FABRIC, PATIENCE, ask, settings, verdict};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;

/// One request: its head, and its body.
type Heard = (String, Value);

/// Answers requests with these statuses in turn, the last one for ever.
fn receiver(statuses: &'static [u16]) -> (SocketAddr, mpsc::Receiver<Heard>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let mut turn = 0;
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                head += &line.to_lowercase();
                line.clear();
            }
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let Some(Ok(length)) = length.map(str::parse::<usize>) else {
                continue;
            };
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let status = statuses[turn.min(statuses.len() - 1)];
            turn += 1;
            let answer = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\nLocation: /else\r\n\r\n"
            );
            let _ = reader.get_mut().write_all(answer.as_bytes());
            let body = serde_json::from_slice(&body).unwrap();
            if tell.send((head, body)).is_err() {
                return;
            }
        }
    });
    (address, heard)
}

async fn start(folder: &Path, webhook: WebhookConfig) -> Monitor {
    let settings = MonitorSettings {
        webhook: Some(webhook),
        ..settings(folder)
    };
    Monitor::start(settings).await.unwrap()
}

fn plain(at: SocketAddr) -> WebhookConfig {
    WebhookConfig {
        url: format!("http://{at}/hook"),
        token: Some("a-token".to_owned()),
        ca_file: None,
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "no {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn acknowledge(monitor: &Monitor, by: &str) {
    let asked = monitor.shared.ask(|reply| Question::Acknowledge {
        link: "leaf0>spine1".parse().unwrap(),
        by: by.to_owned(),
        note: String::new(),
        reply,
    });
    asked.await.unwrap().unwrap();
}

/// Two leaves in a folder, whose windows convict a link.
fn play(folder: &Path) {
    for leaf in [1u16, 2] {
        let listener = UnixListener::bind(folder.join(format!("leaf{leaf}.sock"))).unwrap();
        tokio::spawn(async move {
            let name = format!("leaf{leaf}");
            let hello = json!({ "hello": {
                "name": name, "boot": "1", "oldest": 1, "next": 3,
                "leaves": FABRIC.leaves, "spines": FABRIC.spines, "speaks": [name],
            } });
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let lines = [(1, 0), (2, 3)].map(|(seq, src)| json!(verdict(seq, src, leaf)));
                let text = format!("{hello}\n{}\n{}\n", lines[0], lines[1]);
                let _ = stream.write_all(text.as_bytes()).await;
                while stream.write_all(b"\n").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        });
    }
}

/// Goal: a receiver that fails is told again, one that refuses an event for good is not, a redirection is not followed;
/// what happens while the receiver or the monitor is away is told later; the order is that of the events.
#[tokio::test]
async fn no_event_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    play(folder.path());
    let (at, heard) = receiver(&[500, 302, 204]);
    let monitor = start(folder.path(), plain(at)).await;
    let delivered = |monitor: &Monitor, count| {
        let outlets = monitor.shared.outlets();
        outlets
            .get("webhook")
            .is_some_and(|outlet| outlet.delivered >= count)
    };
    // A suspicion may come before the conviction; the proposal for routing comes after it.
    until("deliveries", || delivered(&monitor, 2)).await;
    until("all of them", || {
        monitor.shared.outlets()["webhook"].trouble.is_none()
    })
    .await;
    let outlet = monitor.shared.outlets()["webhook"].clone();
    assert_eq!((outlet.failed, outlet.refused), (2, 0));
    let metrics = tokio::task::spawn_blocking({
        let address = monitor.address;
        move || ask(address, "GET /metrics HTTP/1.1", "").1
    });
    let metrics = metrics.await.unwrap();
    let line = "spraycheck_monitor_outlet_events_total{outlet=\"webhook\",fate=\"failed\"} 2";
    assert!(metrics.contains(line), "{metrics}");
    monitor.finish().await;

    // The receiver is another one now, which refuses the first that it gets.
    let (there, later) = receiver(&[422, 200]);
    let monitor = start(folder.path(), plain(there)).await;
    acknowledge(&monitor, "ann").await;
    acknowledge(&monitor, "bob").await;
    until("the second acknowledgement", || delivered(&monitor, 1)).await;
    assert_eq!(monitor.shared.outlets()["webhook"].refused, 1);
    monitor.finish().await;

    let first: Vec<Heard> = heard.try_iter().collect();
    let (head, body) = &first[0];
    assert!(head.starts_with("post /hook http/1.1"), "{head}");
    assert!(head.contains("authorization: bearer a-token"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(
        (&body["fabric"], &body["link"]),
        (&json!("test"), &json!("leaf0>spine1"))
    );
    assert!(first.iter().all(|(head, _)| !head.contains("/else")));
    // Three attempts at the first event, one at each other.
    let ids = |heard: &[Heard]| -> Vec<u64> {
        heard
            .iter()
            .map(|(_, body)| body["id"].as_u64().unwrap())
            .collect()
    };
    let told = ids(&first);
    assert_eq!(told[..3], [1, 1, 1]);
    assert!(
        told[2..].windows(2).all(|two| two[1] == two[0] + 1),
        "{told:?}"
    );
    assert!(first.iter().any(|(_, body)| body["kind"] == "convicted"));
    let later: Vec<Heard> = later.try_iter().collect();
    let last = *told.last().unwrap();
    assert_eq!(ids(&later), [last + 1, last + 2]);
    let texts: Vec<&Value> = later.iter().map(|(_, body)| &body["text"]).collect();
    assert_eq!(texts, ["ann", "bob"]);
}

/// Goal: over TLS a receiver is told if its certificate is signed by the authority that was named, and not otherwise.
#[tokio::test]
async fn certificates_decide() {
    let folder = tempfile::tempdir().unwrap();
    if !certificates::make(folder.path()) {
        println!("skipped: no openssl here (apt-get install openssl)");
        return;
    }
    let path = |name: &str| folder.path().join(name);
    let certificates = CertificateDer::pem_file_iter(path("server.pem")).unwrap();
    let certificates = certificates.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(path("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key);
    let server = Arc::new(server.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&server)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream.unwrap());
            let mut request = [0; 4096];
            // Who does not believe us says nothing.
            if stream.read(&mut request).is_ok_and(|read| read > 0) {
                let answer = b"HTTP/1.1 200 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = stream.write_all(answer);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    play(folder.path());
    for (authority, is_right) in [("client.pem", false), ("ca.pem", true)] {
        let webhook = WebhookConfig {
            url: format!("https://{at}/hook"),
            token: None,
            ca_file: Some(path(authority)),
        };
        let monitor = start(folder.path(), webhook).await;
        until("answer", || {
            let outlets = monitor.shared.outlets();
            outlets.get("webhook").is_some_and(|outlet| match is_right {
                true => outlet.delivered > 0,
                false => outlet.failed > 0,
            })
        })
        .await;
        if !is_right {
            assert_eq!(monitor.shared.outlets()["webhook"].delivered, 0);
        }
        monitor.finish().await;
    }
}
