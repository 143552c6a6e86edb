//! What the tests of a whole monitor share: its settings, verdicts of a fabric with a bad link, questions.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use agent::verdict::{Outcome, PathVerdict, WindowVerdict};
use detector::{Evidence, Fabric, LeafId};
use monitor::core::Rules;
use monitor::engine::{RoutingSettings, Settings};
use monitor::history::Retention;
use monitor::http::Tokens;
use monitor::run::MonitorSettings;
use monitor::shared::now;

pub(crate) const FABRIC: Fabric = Fabric {
    leaves: 4,
    spines: 4,
};
/// How long something may take to be seen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A monitor of sockets in a folder, with everything as it is by default.
pub(crate) fn settings(folder: &Path) -> MonitorSettings {
    MonitorSettings {
        engine: Settings {
            name: "test".to_owned(),
            rules: Rules::new(FABRIC),
            retention: Retention::default(),
            routing: RoutingSettings::default(),
        },
        history: folder.join("history.db"),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        tokens: Tokens::default(),
        sockets: vec![folder.to_owned()],
        socket: None,
        nats: None,
        webhook: None,
    }
}

/// A window from `src` to `dst`; spine 1 loses 2 % of what leaf 0 sends up.
pub(crate) fn verdict(seq: u64, src: u16, dst: u16) -> WindowVerdict {
    let path = |spine| {
        let is_bad = src == 0 && spine == 1;
        PathVerdict {
            spine,
            outcome: if is_bad {
                Outcome::Failed
            } else {
                Outcome::Healthy
            },
            expected: 4096.0,
            received: if is_bad { 4014 } else { 4096 },
            dropped: 0,
            noise: 0.0,
            visible: Some(0.003),
            hops: None,
        }
    };
    WindowVerdict {
        seq,
        at_ns: now().0,
        took_ns: 1_000_000,
        src: LeafId(src),
        dst: LeafId(dst),
        qpn: 5,
        epoch: seq as u32,
        evidence: Evidence::SourceCounts,
        sequential: false,
        paths: (0..FABRIC.spines).map(path).collect(),
    }
}

/// One request over a connection of its own: the status and the body.
pub(crate) fn ask(address: SocketAddr, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = if head.contains("\nHost:") {
        ""
    } else {
        "Host: localhost\r\n"
    };
    let request = format!(
        "{head}\r\n{host}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = match head.to_lowercase().contains("transfer-encoding: chunked") {
        true => body.lines().filter(|line| line.len() > 8).collect(),
        false => body.to_owned(),
    };
    (status, body)
}
