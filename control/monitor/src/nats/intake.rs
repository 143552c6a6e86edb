//! Verdicts from a JetStream stream, which relays fill: a durable consumer for each switch.
//!
//! Of each switch one message is worked on at a time, and acknowledged when its verdicts are on the disk. So a message that
//! nobody acknowledged comes again before what is behind it, and a switch whose lane is full waits at the server while
//! others are served. The stream is a work queue: what is acknowledged is gone. It has a
//! bound for each switch; a full one takes nothing new from it, and its relay and switch keep what they have.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::consumer::pull::Config as Pull;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;

use super::{MESSAGE_MAX, System, chain, token};
use crate::reading::{Hello, Known, Order, Reading, wrong};
use crate::shared::Shared;

/// The stream is looked through for new switches this often.
const LOOK: Duration = Duration::from_secs(1);
/// Switches at once.
const SWITCHES_MAX: usize = 256;
/// A message that is not acknowledged comes again after so long.
const ACK_WAIT: Duration = Duration::from_secs(3);
/// One question for a message waits so long for it.
const PULL: Duration = Duration::from_secs(5);
/// After trouble.
const AGAIN: Duration = Duration::from_millis(500);

type Failed = Box<dyn Error + Send + Sync>;

/// Tasks that end with the value.
struct Tasks(BTreeMap<String, JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in self.0.values() {
            task.abort();
        }
    }
}

/// Hears all switches whose verdicts are in the stream, for ever.
pub(crate) async fn hear(system: System, size: u64, shared: Arc<Shared>) {
    let mut heard = Tasks(BTreeMap::new());
    let from = system.servers.clone();
    loop {
        let found = look(&system, size, &shared).await;
        let trouble = match &found {
            Ok(_) => None,
            Err(error) => {
                let line = system.line.borrow().trouble.clone();
                Some(line.unwrap_or_else(|| chain(&**error)))
            }
        };
        shared.source(&from, |source| {
            if trouble.is_some() && source.trouble != trouble {
                tracing::warn!("{from}: {}", trouble.as_deref().unwrap_or_default());
            }
            source.name = system.stream();
            source.connected = trouble.is_none();
            source.trouble = trouble;
        });
        for subject in found.unwrap_or_default() {
            if heard.0.len() < SWITCHES_MAX {
                heard.0.entry(subject).or_insert_with_key(|subject| {
                    let task = hear_one(subject.clone(), system.clone(), Arc::clone(&shared));
                    tokio::spawn(task)
                });
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Makes the stream if it is not there, and says which switches have verdicts in it.
async fn look(system: &System, size: u64, shared: &Shared) -> Result<Vec<String>, Failed> {
    let wanted = stream_config(system, size, shared.fabric.leaves);
    let stream = (system.context.get_or_create_stream(wanted.clone())).await?;
    let found = &stream.cached_info().config;
    let bounds = |config: &Config| (config.max_bytes, config.max_messages_per_subject);
    if found.retention != RetentionPolicy::WorkQueue {
        let what = format!(
            "stream {} is not a monitor's; remove it, or give the fabric another name",
            found.name
        );
        return Err(wrong(what).into());
    }
    if bounds(found) != bounds(&wanted) {
        let (max_bytes, max_messages_per_subject) = bounds(&wanted);
        let changed = Config {
            max_bytes,
            max_messages_per_subject,
            ..found.clone()
        };
        system.context.update_stream(changed).await?;
    }
    let mut subjects = stream.info_with_subjects(system.subjects()).await?;
    let mut names = Vec::new();
    while let Some(subject) = subjects.next().await {
        names.push(subject?.0);
    }
    Ok(names)
}

/// The stream: every switch of a full fabric has the same share.
fn stream_config(system: &System, size: u64, leaves: u16) -> Config {
    let share = size / u64::from(leaves) / MESSAGE_MAX as u64;
    Config {
        name: system.stream(),
        description: Some("Verdicts of switches, until the monitor has them".to_owned()),
        subjects: vec![system.subjects()],
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        max_bytes: size as i64,
        max_messages_per_subject: share.max(1) as i64,
        max_message_size: MESSAGE_MAX as i32,
        ..Config::default()
    }
}

/// Hears one switch for ever.
async fn hear_one(subject: String, system: System, shared: Arc<Shared>) {
    let name = subject.rsplit('.').next().unwrap_or_default().to_owned();
    let from = format!("{} {name}", system.stream());
    let mut known = None;
    loop {
        let Err(error) = listen(&subject, &name, &from, &system, &mut known, &shared).await;
        let error = chain(&*error);
        shared.source(&from, |source| {
            if source.trouble.as_ref() != Some(&error) {
                tracing::info!("{from}: {error}");
            }
            source.connected = false;
            source.trouble = Some(error);
        });
        tokio::time::sleep(AGAIN).await;
    }
}

async fn listen(
    subject: &str,
    name: &str,
    from: &str,
    system: &System,
    known: &mut Known,
    shared: &Shared,
) -> Result<std::convert::Infallible, Failed> {
    let mut line = system.line.clone();
    let lost = line.borrow_and_update().lost;
    let stream = system.context.get_stream_no_info(system.stream()).await?;
    let durable = format!("monitor-{name}");
    let wanted = Pull {
        durable_name: Some(durable.clone()),
        filter_subject: subject.to_owned(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: 1,
        ..Pull::default()
    };
    let consumer = stream.get_or_create_consumer(&durable, wanted).await?;
    loop {
        let pull = consumer.batch().max_messages(1).expires(PULL).messages();
        let mut messages = pull.await?;
        loop {
            let message = tokio::select! {
                message = messages.next() => message,
                _ = line.wait_for(|line| line.lost > lost) => {
                    return Err(wrong("the server was away".to_owned()).into());
                }
            };
            let Some(message) = message else { break };
            let message = message?;
            match take(&message.payload, name, from, known, shared).await {
                Ok(true) => {}
                Ok(false) => return Err(wrong("the monitor ends".to_owned()).into()),
                Err(error) => {
                    // It will be no better the next time; what it had is missed, and counted then.
                    tracing::warn!("{from}: a message is refused: {error}");
                    shared.source(from, |source| source.refused += 1);
                }
            }
            message.ack().await?;
        }
    }
}

/// Takes a message in; true when it is on the disk.
async fn take(
    payload: &[u8],
    name: &str,
    from: &str,
    known: &mut Known,
    shared: &Shared,
) -> io::Result<bool> {
    let mut lines = payload.split_inclusive(|&byte| byte == b'\n');
    let hello = Hello::read(lines.next().unwrap_or_default())?;
    if token(&hello.name) != name {
        return Err(wrong(format!("{} spoke as {name}", hello.name)));
    }
    let mut reading = Reading::begin(hello, Order::Any, from, known, shared).await?;
    let mut done = Ok(());
    for line in lines {
        done = reading.line(line, known).await;
        if done.is_err() {
            break;
        }
    }
    // What came before a bad line is kept.
    let settled = reading.settle().await;
    done.map(|()| settled)
}
