//! What a server alone shows: events out, who may speak for whom, a flood, a server without its memory.

use std::path::Path;
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::{self, Context};
use config::RelayFile;
use config::monitor_file::{Login, NatsConfig};
use monitor::nats::relay::Relay;
use monitor::run::{Monitor, MonitorSettings};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio_stream::StreamExt;

use crate::played::{FABRIC, ask, settings, verdict};
use crate::server::{Server, config_of, source, until};

/// Two users: one may speak for leaf 1 alone.
const USERS: &str = r#"authorization { users = [
  { user: monitor, password: "m-secret" },
  { user: leaf1, password: "l-secret", permissions: {
      publish: ["spraycheck.test.verdicts.leaf1"], subscribe: ["_INBOX.>"] } } ] }"#;

fn login(user: &str) -> Login {
    Login::Password(user.to_owned(), format!("{}-secret", &user[..1]))
}

async fn monitor(folder: &Path, nats: NatsConfig) -> Monitor {
    let settings = MonitorSettings {
        sockets: Vec::new(),
        nats: Some(nats),
        ..settings(folder)
    };
    Monitor::start(settings).await.unwrap()
}

async fn context(server: &Server, user: Login) -> Context {
    let options = match user {
        Login::Password(user, password) => ConnectOptions::with_user_and_password(user, password),
        _ => ConnectOptions::new(),
    };
    let client = options.connect(server.address.to_string()).await.unwrap();
    jetstream::new(client)
}

/// A message as a relay makes it: verdicts `first` to `last` of a switch to leaf `dst`.
fn message(name: &str, dst: u16, first: u64, last: u64) -> Vec<u8> {
    let mut text = json!({ "hello": {
        "name": name, "boot": "1", "oldest": 1, "next": last + 1,
        "leaves": FABRIC.leaves, "spines": FABRIC.spines, "speaks": [format!("leaf{dst}")],
    } })
    .to_string();
    for seq in first..=last {
        let src = if seq % 2 == 0 { 0 } else { 3 };
        text = format!(
            "{text}\n{}",
            serde_json::to_string(&verdict(seq, src, dst)).unwrap()
        );
    }
    text.into_bytes()
}

async fn publish(context: &Context, switch: &str, message: Vec<u8>) -> Result<(), String> {
    let subject = format!("spraycheck.test.verdicts.{switch}");
    let sent = context.publish(subject, message.into()).await;
    let sent = sent.map_err(|e| e.to_string())?.await;
    sent.map(drop).map_err(|e| format!("{e:?}"))
}

/// Goal: verdicts that come over the stream become a conviction, and its event goes out to the subject, once, also
/// when the monitor is started anew.
#[tokio::test]
async fn verdicts_come_in_and_events_go_out() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = Server::start(folder.path(), "") else {
        return;
    };
    let nats = config_of(server.address, Login::None);
    let first = monitor(folder.path(), nats.clone()).await;
    until("stream", || {
        source(&first, "spraycheck-test").is_some_and(|source| source.connected)
    })
    .await;
    let context = context(&server, Login::None).await;
    publish(&context, "leaf1", message("leaf1", 1, 1, 4))
        .await
        .unwrap();
    publish(&context, "leaf2", message("leaf2", 2, 1, 4))
        .await
        .unwrap();
    // The two are heard apart; the first alone is a suspicion, which is told as well.
    until("delivered event of a conviction", || {
        let summary = first.shared.summary();
        let outlets = first.shared.outlets();
        let is_told = outlets.get("nats").is_some_and(|nats| nats.delivered > 0);
        is_told && summary.recorded == 8 && summary.states["convicted"] == 1
    })
    .await;
    first.finish().await;

    // What happens while nobody tells is told by the next one.
    let second = monitor(folder.path(), nats).await;
    let detail = second
        .shared
        .ask(|reply| monitor::shared::Question::Acknowledge {
            link: "leaf0>spine1".parse().unwrap(),
            by: "ann".to_owned(),
            note: String::new(),
            reply,
        });
    let acknowledged = detail.await.unwrap().unwrap();
    until("event of the acknowledgement", || {
        second.shared.outlets()["nats"].last == acknowledged.id && acknowledged.id > 0
    })
    .await;
    let stream = context.get_stream("spraycheck-test-events").await.unwrap();
    let events = stream.create_consumer(jetstream::consumer::pull::Config::default());
    let mut events = (events.await.unwrap())
        .fetch()
        .max_messages(10)
        .messages()
        .await
        .unwrap();
    let mut told = Vec::new();
    while let Some(event) = events.next().await {
        let event: Value = serde_json::from_slice(&event.unwrap().payload).unwrap();
        assert_eq!(
            (&event["fabric"], &event["link"]),
            (&json!("test"), &json!("leaf0>spine1"))
        );
        told.push(event["kind"].as_str().unwrap().to_owned());
    }
    told.retain(|kind| kind != "suspected");
    assert_eq!(told, ["convicted", "routing", "acknowledged"]);
    second.finish().await;
}

/// Goal: NATS's own permissions say who may speak for whom, and a message in another's name is refused and counted;
/// nonsense harms nobody; a wrong password is said.
#[tokio::test]
async fn a_switch_speaks_for_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = Server::start(folder.path(), USERS) else {
        return;
    };
    let wrong = config_of(
        server.address,
        Login::Password("monitor".to_owned(), "guess".to_owned()),
    );
    let refused = monitor(folder.path(), wrong).await;
    until("trouble", || {
        source(&refused, "spraycheck-test").is_some_and(|source| {
            let trouble = source.trouble.unwrap_or_default();
            !source.connected && trouble.to_lowercase().contains("authorization")
        })
    })
    .await;
    refused.finish().await;

    let monitor = monitor(folder.path(), config_of(server.address, login("monitor"))).await;
    until("stream", || {
        source(&monitor, "spraycheck-test").is_some_and(|source| source.connected)
    })
    .await;
    let leaf = context(&server, login("leaf1")).await;
    publish(&leaf, "leaf1", message("leaf1", 1, 1, 3))
        .await
        .unwrap();
    // As leaf 2, in its name; for leaf 2 under its own; and what is no message at all.
    publish(&leaf, "leaf1", message("leaf2", 2, 1, 3))
        .await
        .unwrap();
    publish(&leaf, "leaf1", message("leaf1", 2, 4, 6))
        .await
        .unwrap();
    publish(&leaf, "leaf1", b"{\"hello\": 17}\nwhat?".to_vec())
        .await
        .unwrap();
    publish(&leaf, "leaf1", message("leaf1", 1, 7, 9))
        .await
        .unwrap();
    until("six verdicts", || monitor.shared.summary().recorded == 6).await;
    let heard = source(&monitor, "leaf1").unwrap();
    assert_eq!((heard.received, heard.refused), (6, 5), "{heard:?}");
    // The server itself lets nobody speak under another subject.
    let elsewhere = tokio::time::timeout(
        Duration::from_secs(1),
        publish(&leaf, "leaf2", message("leaf2", 2, 1, 3)),
    );
    assert!(
        !matches!(elsewhere.await, Ok(Ok(()))),
        "leaf 1 spoke as leaf 2"
    );
    assert_eq!(monitor.shared.summary().recorded, 6);
    monitor.finish().await;
}

/// Goal: a leaf that floods fills its own share of the stream and no other; who comes after it is heard at once.
#[tokio::test]
async fn a_flood_fills_its_own_share() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = Server::start(folder.path(), "") else {
        return;
    };
    // 64 MiB over 4 leaves, by messages of 160 KiB.
    let share = (64 << 20) / 4 / (160 << 10);
    let nats = NatsConfig {
        size: config::Bytes::new(64 << 20),
        ..config_of(server.address, Login::None)
    };
    let first = monitor(folder.path(), nats.clone()).await;
    until("stream", || {
        source(&first, "spraycheck-test").is_some_and(|source| source.connected)
    })
    .await;
    first.finish().await;
    let context = context(&server, Login::None).await;
    for seq in 1..=share {
        publish(&context, "leaf1", message("leaf1", 1, seq, seq))
            .await
            .unwrap();
    }
    let full = publish(&context, "leaf1", message("leaf1", 1, share + 1, share + 1)).await;
    assert!(
        full.as_ref()
            .is_err_and(|why| why.contains("maximum messages per subject")),
        "{full:?}"
    );
    publish(&context, "leaf2", message("leaf2", 2, 1, 1))
        .await
        .unwrap();
    let second = monitor(folder.path(), nats).await;
    until("leaf 2", || {
        source(&second, "leaf2").is_some_and(|source| source.received == 1)
    })
    .await;
    until("all of it", || {
        second.shared.summary().recorded == share + 1
    })
    .await;
    second.finish().await;
}

/// Goal: a server that comes back without its memory costs nothing that switches still keep: the relay sends it
/// again, the monitor makes its stream anew, and each verdict counts once.
#[tokio::test]
async fn a_server_that_forgot_everything_is_told_again() {
    const VERDICTS: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = Server::start(folder.path(), "") else {
        return;
    };
    let sockets = folder.path().join("switches");
    std::fs::create_dir(&sockets).unwrap();
    let listener = UnixListener::bind(sockets.join("leaf1.sock")).unwrap();
    let switch = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut line = String::new();
            BufReader::new(&mut stream)
                .read_line(&mut line)
                .await
                .unwrap();
            let asked: Value = serde_json::from_str(&line).unwrap();
            let first = asked["verdicts"]["from"].as_u64().unwrap_or(1);
            let mut text = message("leaf1", 1, first, VERDICTS);
            text.push(b'\n');
            // The other side may be gone before all is written.
            let _ = stream.write_all(&text).await;
            while stream.write_all(b"\n").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    });
    // The relay alone: without a stream it waits, and takes no more from the switch.
    let nats = config_of(server.address, Login::None);
    let relay = Relay::start(RelayFile {
        name: "test".to_owned(),
        sockets: vec![sockets],
        nats: nats.clone(),
        metrics: Some("127.0.0.1:0".parse().unwrap()),
    });
    let relay = relay.await.unwrap();
    let first = monitor(folder.path(), nats.clone()).await;
    until("the stream", || {
        source(&first, "spraycheck-test").is_some_and(|s| s.connected)
    })
    .await;
    first.finish().await;
    let relayed = || {
        relay
            .relayed
            .verdicts
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    until("relayed verdicts", || relayed() >= VERDICTS).await;
    // Its metrics are another thread's.
    let (status, text) = ask(relay.metrics().unwrap(), "GET /metrics HTTP/1.1", "");
    for line in [
        format!("spraycheck_relay_verdicts_total{{fate=\"sent\"}} {VERDICTS}"),
        "spraycheck_relay_server_up 1".to_owned(),
        "spraycheck_relay_sources{state=\"connected\"} 1".to_owned(),
    ] {
        assert!(status == 200 && text.contains(&line), "{line}: {text}");
    }
    server.kill();
    std::fs::remove_dir_all(folder.path().join("jetstream")).unwrap();
    server.again();
    let second = monitor(folder.path(), nats).await;
    until("all verdicts", || {
        second.shared.summary().recorded == VERDICTS
    })
    .await;
    let missed: u64 = second.shared.sources().iter().map(|s| s.missed).sum();
    assert_eq!(missed, 0);
    second.finish().await;
    relay.finish().await;
    switch.abort();
}
