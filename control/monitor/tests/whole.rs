//! The whole monitor in this process: switches are played over real sockets, people ask over real HTTP.

mod played;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::verdict::WindowVerdict;
use monitor::http::Tokens;
use monitor::run::{Monitor, MonitorSettings};
use played::{FABRIC, PATIENCE, ask, settings, verdict};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// A switch as the monitor sees it: it answers one connection at a time with the verdicts that it keeps.
struct Switch {
    listener: UnixListener,
    path: PathBuf,
    leaf: u16,
    boot: u64,
}

impl Switch {
    fn new(folder: &Path, leaf: u16, boot: u64) -> Switch {
        let path = folder.join(format!("leaf{leaf}.sock"));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        Switch {
            listener,
            path,
            leaf,
            boot,
        }
    }

    /// Accepts the monitor; what it asks for, and the stream after the hello.
    async fn accept(&self, oldest: u64, next: u64) -> (Value, UnixStream) {
        let accepted = tokio::time::timeout(PATIENCE, self.listener.accept());
        let (mut stream, _) = accepted.await.expect("it connects").unwrap();
        let mut line = String::new();
        BufReader::new(&mut stream)
            .read_line(&mut line)
            .await
            .unwrap();
        let leaf = format!("leaf{}", self.leaf);
        let hello = json!({ "hello": {
            "name": leaf, "boot": format!("{:016x}", self.boot), "oldest": oldest, "next": next,
            "leaves": FABRIC.leaves, "spines": FABRIC.spines, "speaks": [leaf], "switches": [leaf],
        } });
        stream
            .write_all(format!("{hello}\n").as_bytes())
            .await
            .unwrap();
        (serde_json::from_str(&line).unwrap(), stream)
    }
}

async fn send(stream: &mut UnixStream, verdict: &WindowVerdict) {
    let line = serde_json::to_string(verdict).unwrap();
    stream
        .write_all(format!("{line}\n").as_bytes())
        .await
        .unwrap();
}

/// What a path answers, as JSON.
async fn get(address: SocketAddr, path: &str) -> Value {
    let head = format!("GET {path} HTTP/1.1");
    let (status, body) = tokio::task::spawn_blocking(move || ask(address, &head, ""))
        .await
        .unwrap();
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

async fn request(address: SocketAddr, head: &str, body: &str) -> (u16, String) {
    let (head, body) = (head.replace('\n', "\r\n"), body.to_owned());
    tokio::task::spawn_blocking(move || ask(address, &head, &body))
        .await
        .unwrap()
}

/// Waits until `is` holds of the summary.
async fn until(monitor: &Monitor, what: &str, is: impl Fn(&Value) -> bool) {
    let begun = std::time::Instant::now();
    loop {
        let summary = get(monitor.address, "/api/summary").await;
        if is(&summary) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {summary}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

fn recorded(summary: &Value) -> u64 {
    summary["summary"]["recorded"].as_u64().unwrap()
}

/// Goal: verdicts of two switches become a conviction that everybody sees: API, events, metrics, history;
/// an acknowledgement is kept; a new monitor on the same history knows it all and counts nothing twice.
#[tokio::test]
async fn a_bad_link_is_seen_by_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (
        Switch::new(folder.path(), 1, 7),
        Switch::new(folder.path(), 2, 8),
    );
    let monitor = Monitor::start(settings(folder.path())).await.unwrap();
    let at = monitor.address;
    for switch in [&one, &two] {
        let (asked, mut stream) = switch.accept(1, 4).await;
        assert_eq!(asked, json!({ "verdicts": {} }));
        for (seq, src) in [(1, 0), (2, 3), (3, 0)] {
            send(&mut stream, &verdict(seq, src, switch.leaf)).await;
        }
        // The connection breaks in the middle; the monitor comes back for the rest.
        drop(stream);
    }
    until(&monitor, "six verdicts and a conviction", |s| {
        recorded(s) == 6 && s["summary"]["states"]["convicted"] == 1
    })
    .await;
    let (asked, mut stream) = one.accept(1, 4).await;
    let known = json!({ "verdicts": { "boot": "0000000000000007", "from": 4 } });
    assert_eq!(asked, known);
    // A repetition is not counted.
    send(&mut stream, &verdict(3, 0, 1)).await;
    send(&mut stream, &verdict(4, 3, 1)).await;
    until(&monitor, "a seventh verdict", |s| recorded(s) == 7).await;
    let link = get(at, "/api/links/leaf0%3Espine1").await;
    assert_eq!(link["row"]["state"], "convicted");
    assert_eq!(link["row"]["paths"], 2);
    let rate = link["row"]["drop_rate"].as_f64().unwrap();
    assert!((0.015..0.025).contains(&rate), "{rate}");
    assert_eq!(link["evidence"].as_array().unwrap().len(), 2);
    assert_eq!(link["evidence"][0]["spines"][1]["received"], 4014);
    let events = get(at, "/api/events?kind=convicted&link=leaf0%3Espine1").await;
    assert_eq!(events["events"].as_array().unwrap().len(), 1);
    let links = get(at, "/api/links").await;
    assert_eq!(links["links"].as_array().unwrap().len(), 32);
    let json_head =
        "POST /api/links/leaf0%3Espine1/acknowledge HTTP/1.1\nContent-Type: application/json";
    let (status, body) = request(at, json_head, r#"{"by": "ann", "note": "optic"}"#).await;
    assert_eq!(status, 200, "{body}");
    let (_, metrics) = request(at, "GET /metrics HTTP/1.1", "").await;
    for line in [
        "spraycheck_monitor_links{state=\"convicted\"} 1",
        "spraycheck_monitor_sources{state=\"connected\"} 1",
        "spraycheck_monitor_events_total{kind=\"convicted\"} 1",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    monitor.finish().await;
    drop((one, two, stream));

    let again = Switch::new(folder.path(), 1, 7);
    let monitor = Monitor::start(settings(folder.path())).await.unwrap();
    let link = get(monitor.address, "/api/links/leaf0%3Espine1").await;
    assert_eq!(link["row"]["state"], "convicted");
    assert_eq!(link["row"]["acknowledged"]["by"], "ann");
    // It does not know how far it was; the history does.
    let (asked, mut stream) = again.accept(1, 6).await;
    assert_eq!(asked, json!({ "verdicts": {} }));
    for seq in 1..=5 {
        send(&mut stream, &verdict(seq, 0, 1)).await;
    }
    until(&monitor, "an eighth verdict", |s| recorded(s) == 8).await;
    monitor.finish().await;
}

/// Goal: what a switch no longer has, and what is none of this fabric or leaf, is counted; a switch of
/// another fabric is not heard, and says why.
#[tokio::test]
async fn what_is_lost_or_wrong_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let switch = Switch::new(folder.path(), 1, 7);
    let monitor = Monitor::start(settings(folder.path())).await.unwrap();
    let (_, mut stream) = switch.accept(11, 20).await;
    send(&mut stream, &verdict(11, 0, 1)).await;
    // Another leaf's, and one of no spine of this fabric.
    send(&mut stream, &verdict(12, 0, 2)).await;
    let mut outside = verdict(13, 0, 1);
    outside.paths[3].spine = 9;
    send(&mut stream, &outside).await;
    send(&mut stream, &verdict(20, 0, 1)).await;
    until(&monitor, "the counts", |s| {
        let source = &s["sources"][0];
        source["received"] == 2 && source["refused"] == 2 && source["missed"] == 10 + 6
    })
    .await;
    // No JSON ends the connection, and nothing else.
    stream.write_all(b"nonsense\n").await.unwrap();
    let (_, mut stream) = switch.accept(11, 21).await;
    send(&mut stream, &verdict(21, 0, 1)).await;
    until(&monitor, "three verdicts", |s| recorded(s) == 3).await;
    drop((switch, stream));
    std::fs::remove_file(folder.path().join("leaf1.sock")).unwrap();
    let other = UnixListener::bind(folder.path().join("leaf3.sock")).unwrap();
    let (mut stream, _) = other.accept().await.unwrap();
    let hello = json!({ "hello": { "name": "leaf3", "boot": "1", "oldest": 1, "leaves": 8, "spines": 8, "speaks": [] } });
    stream
        .write_all(format!("{hello}\n").as_bytes())
        .await
        .unwrap();
    until(&monitor, "why it is not heard", |s| {
        let trouble = s["sources"][0]["trouble"].as_str().unwrap_or_default();
        trouble.contains("its fabric has 8 leaves and 8 spines, and this one 4 and 4")
    })
    .await;
    monitor.finish().await;
}

/// Goal: wrong questions get a refusal that says what to do, and nothing from elsewhere reads or changes.
#[tokio::test]
async fn wrong_questions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let monitor = Monitor::start(settings(folder.path())).await.unwrap();
    let at = monitor.address;
    let post = "POST /api/links/leaf0%3Espine1/acknowledge HTTP/1.1";
    let as_json = format!("{post}\nContent-Type: application/json");
    let long = format!(r#"{{"by": "{}"}}"#, "x".repeat(5000));
    for (head, body, status, text) in [
        (
            "GET /api/links/leaf9%3Espine1 HTTP/1.1",
            "",
            404,
            "is no link of a fabric of 4 leaves",
        ),
        (
            "GET /api/links/nonsense HTTP/1.1",
            "",
            400,
            "is no link; write it like",
        ),
        (
            "GET /api/events?kind=boring HTTP/1.1",
            "",
            400,
            "unknown variant",
        ),
        (
            "GET /api/events?limit=100000 HTTP/1.1",
            "",
            400,
            "limit is 1 to 1000",
        ),
        (
            "GET /api/events?before=18446744073709551615 HTTP/1.1",
            "",
            400,
            "number of an event",
        ),
        ("GET /api/events?x=1 HTTP/1.1", "", 400, "unknown field"),
        ("GET /../etc/passwd HTTP/1.1", "", 404, ""),
        (
            "GET /api/links HTTP/1.1\nHost: evil.example",
            "",
            403,
            "answers to localhost alone",
        ),
        (
            post,
            r#"{"by": "me"}"#,
            415,
            "Content-Type: application/json",
        ),
        (&as_json, r#"{"by": "me"}"#, 409, "only a convicted link"),
        (&as_json, r#"{"by": ""}"#, 400, "by is a name"),
        (
            &as_json,
            r#"{"by": "a\nb"}"#,
            400,
            "without control characters",
        ),
        (&as_json, "{", 400, "no acknowledgement"),
        (&as_json, &long, 413, ""),
    ] {
        let (got, said) = request(at, head, body).await;
        assert_eq!(got, status, "{head} {body}: {said}");
        assert!(said.contains(text), "{head}: {said}");
    }
    let (status, page) = request(at, "GET / HTTP/1.1", "").await;
    assert!(status == 200 && page.contains("<title>spraycheck monitor</title>"));
    monitor.finish().await;
}

/// Goal: one token reads, the other changes and reads; the page itself needs none and has no data.
#[tokio::test]
async fn tokens_tell_reading_from_changing() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    settings.tokens = Tokens {
        read: Some("reading-0123456789".to_owned()),
        change: Some("changing-0123456789".to_owned()),
    };
    let monitor = Monitor::start(settings).await.unwrap();
    let at = monitor.address;
    let with = |head: &str, token: &str| match token {
        "" => head.to_owned(),
        token => format!("{head}\nAuthorization: Bearer {token}"),
    };
    let read = "GET /api/links HTTP/1.1";
    let change =
        "POST /api/links/leaf0%3Espine1/acknowledge HTTP/1.1\nContent-Type: application/json";
    for (head, token, status) in [
        (read, "", 401),
        (read, "reading-0123456788", 401),
        (read, "reading-0123456789", 200),
        (read, "changing-0123456789", 200),
        ("GET /metrics HTTP/1.1", "", 401),
        ("GET /api/live HTTP/1.1", "", 401),
        (change, "", 401),
        (change, "reading-0123456789", 401),
        // Allowed, and then there is no conviction.
        (change, "changing-0123456789", 409),
        ("GET / HTTP/1.1", "", 200),
    ] {
        let body = if head == change {
            r#"{"by": "me"}"#
        } else {
            ""
        };
        let (got, said) = request(at, &with(head, token), body).await;
        assert_eq!(got, status, "{head} with \"{token}\": {said}");
    }
    monitor.finish().await;
}

/// Goal: a page hears of a conviction by itself, within the connection that it has.
#[tokio::test]
async fn a_page_hears_what_changes() {
    let folder = tempfile::tempdir().unwrap();
    let switch = Switch::new(folder.path(), 1, 7);
    let monitor = Monitor::start(settings(folder.path())).await.unwrap();
    let stream = tokio::net::TcpStream::connect(monitor.address)
        .await
        .unwrap();
    let (reader, mut writer) = stream.into_split();
    writer
        .write_all(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut lines = BufReader::new(reader).lines();
    while lines.next_line().await.unwrap().unwrap() != "event: hello" {}
    let (_, mut told) = switch.accept(1, 2).await;
    send(&mut told, &verdict(1, 0, 1)).await;
    let heard = tokio::time::timeout(PATIENCE, async {
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            if line.starts_with("data: {") && line.contains("\"kind\":\"suspected\"") {
                return line;
            }
        }
    });
    let line = heard.await.expect("it is told");
    let update: Value = serde_json::from_str(&line["data: ".len()..]).unwrap();
    assert_eq!(update["events"][0]["link"], "leaf0>spine1");
    assert_eq!(
        update["events"][0]["id"], 1,
        "told only after it was written down"
    );
    monitor.finish().await;
}

/// Goal: `spraycheck show links --since` is answered from the history, on a socket of its owner's alone.
#[tokio::test]
async fn the_socket_answers_from_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let switch = Switch::new(folder.path(), 1, 7);
    let own = folder.path().join("monitor-1.sock");
    let monitor = Monitor::start(MonitorSettings {
        socket: Some(own.clone()),
        ..settings(folder.path())
    })
    .await
    .unwrap();
    let (_, mut told) = switch.accept(1, 2).await;
    send(&mut told, &verdict(1, 0, 1)).await;
    until(&monitor, "a suspicion", |s| {
        s["summary"]["states"]["suspect"] == 2
    })
    .await;
    let mut stream = BufReader::new(UnixStream::connect(&own).await.unwrap());
    for (asked, rows) in [
        (r#"{"show": "links", "since_s": 3600}"#, 2),
        (r#"{"show": "links"}"#, 2),
        (r#"{"show": "sources"}"#, 1),
    ] {
        stream
            .write_all(format!("{asked}\n").as_bytes())
            .await
            .unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            answer["rows"].as_array().unwrap().len(),
            rows,
            "{asked}: {line}"
        );
    }
    for (asked, error) in [
        (r#"{"show": "ports"}"#, "a monitor shows links"),
        ("nonsense", "no request of a monitor"),
    ] {
        stream
            .write_all(format!("{asked}\n").as_bytes())
            .await
            .unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        assert!(line.contains(error), "{line}");
    }
    // Both suspicions, with their numbers.
    stream.write_all(b"{\"events\": 0}\n").await.unwrap();
    let mut told_lines = Vec::new();
    while told_lines.len() < 2 {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_line(&mut line));
        read.await.expect("an event").unwrap();
        if line.trim().is_empty() {
            continue;
        }
        let event: Value = serde_json::from_str(&line).unwrap();
        told_lines.push((event["id"].clone(), event["kind"].clone()));
    }
    assert_eq!(
        told_lines,
        [
            (1.into(), "suspected".into()),
            (2.into(), "suspected".into())
        ]
    );
    assert_eq!(switch.path, folder.path().join("leaf1.sock"));
    monitor.finish().await;
    assert!(!own.exists(), "its file goes with it");
}

/// Goal: a convicted link is proposed; with `apply` its switch is told to do without it, and what it answers is
/// written down.
#[tokio::test]
async fn a_bad_link_is_taken_out_of_routing() {
    for apply in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let switches = [0, 1, 2].map(|leaf| Switch::new(folder.path(), leaf, 7));
        let mut settings = settings(folder.path());
        settings.engine.routing.apply = apply;
        let monitor = Monitor::start(settings).await.unwrap();
        let mut streams = Vec::new();
        for switch in &switches {
            let (_, mut stream) = switch.accept(1, 2).await;
            if switch.leaf > 0 {
                send(&mut stream, &verdict(1, 3, switch.leaf)).await;
                send(&mut stream, &verdict(2, 0, switch.leaf)).await;
            }
            streams.push(stream);
        }
        let wanted = match apply {
            false => "proposed: spraycheck set link 'leaf0>spine1' off; 3 spines are left",
            true => "was taken out of routing",
        };
        if apply {
            let accepted = tokio::time::timeout(PATIENCE, switches[0].listener.accept());
            let (mut stream, _) = accepted.await.expect("an order").unwrap();
            let mut line = String::new();
            BufReader::new(&mut stream)
                .read_line(&mut line)
                .await
                .unwrap();
            let order: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(
                order,
                json!({ "set": "link", "link": "leaf0>spine1", "on": false })
            );
            stream
                .write_all(b"{\"show\":\"faults\",\"rows\":[]}\n")
                .await
                .unwrap();
        }
        let begun = std::time::Instant::now();
        loop {
            let events = get(monitor.address, "/api/events?kind=routing").await;
            let is_told = |event: &Value| {
                event["text"]
                    .as_str()
                    .is_some_and(|t| t.starts_with(wanted))
            };
            if events["events"].as_array().unwrap().iter().any(is_told) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "apply {apply}: {events}");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        monitor.finish().await;
    }
}
