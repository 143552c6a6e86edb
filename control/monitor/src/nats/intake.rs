//! Verdicts from a JetStream stream, which relays fill: a durable consumer for each switch.
//!
//! Of each switch a few messages are in flight at a time. They are taken in the stream's order, and each is acknowledged
//! when its verdicts are on the disk; a switch whose lane is full waits at the server while others are served. The order
//! matters: a message says what its switch no longer has, which may be in one before it. So the consumer is made anew
//! whenever hearing begins, after which the server sends all that nobody acknowledged from the beginning; and it numbers what
//! it sends, by which one that was lost on the way is noticed, and hearing begins again.
//!
//! The stream is a work queue: what is acknowledged is gone. It has a
//! bound for each switch; a full one takes nothing new from it, and its relay and switch keep what they have.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::pull::Config as Pull;
use async_nats::jetstream::consumer::{AckPolicy, Consumer};
use async_nats::jetstream::message::{Acker, Message};
use async_nats::jetstream::stream::{
    Config, ConsumerErrorKind, DiscardPolicy, RetentionPolicy, Stream,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;

use super::{MESSAGE_MAX, System, chain, token};
use crate::reading::{Hello, Known, Order, Reading, wrong};
use crate::shared::Shared;

/// The stream is looked through for new switches this often.
const LOOK: Duration = Duration::from_secs(1);
/// Switches at once.
const SWITCHES_MAX: usize = 256;
/// Messages of one switch that are not acknowledged: at 64 KiB some 80 verdicts of 64 paths, for each commit.
const IN_FLIGHT: usize = 8;
/// A message that is not acknowledged comes again after so long, also if nothing was noticed.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// One question for messages waits so long for them.
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
) -> Result<Infallible, Failed> {
    let mut line = system.line.clone();
    let lost = line.borrow_and_update().lost;
    let stream = system.context.get_stream_no_info(system.stream()).await?;
    let consumer = consumer(&stream, subject, name).await?;
    let mut sent = 0;
    let mut unsettled = VecDeque::new();
    loop {
        let pull = consumer.batch().max_messages(IN_FLIGHT).expires(PULL);
        let mut messages = pull.messages().await?;
        loop {
            let next = tokio::select! {
                biased;
                _ = line.wait_for(|line| line.lost > lost) => {
                    return Err(wrong("the server was away".to_owned()).into());
                }
                settled = settled(&mut unsettled), if !unsettled.is_empty() => Next::Settled(settled?),
                message = messages.next() => Next::Message(message.transpose()?),
            };
            let message = match next {
                Next::Message(Some(message)) => message,
                Next::Message(None) => break,
                Next::Settled(acker) => {
                    acker.ack().await?;
                    continue;
                }
            };
            sent += 1;
            if message.info()?.consumer_sequence != sent {
                return Err(wrong("a message was lost on its way".to_owned()).into());
            }
            let (message, acker) = message.split();
            let (taken, refused) = take(&message.payload, name, from, known, shared).await;
            if let Some(error) = refused {
                // It will be no better the next time; what it had is missed, and counted then.
                tracing::warn!("{from}: a message is refused: {error}");
                shared.source(from, |source| source.refused += 1);
            }
            match taken {
                Some(taken) => unsettled.push_back((taken, acker)),
                None => acker.ack().await?,
            }
        }
    }
}

/// A consumer that begins with the oldest message which nobody has acknowledged.
async fn consumer(
    stream: &Stream<()>,
    subject: &str,
    name: &str,
) -> Result<Consumer<Pull>, Failed> {
    let durable = format!("monitor-{name}");
    match stream.delete_consumer(&durable).await {
        Ok(_) => {}
        Err(error) => match error.kind() {
            ConsumerErrorKind::JetStream(said)
                if said.error_code() == ErrorCode::CONSUMER_NOT_FOUND => {}
            _ => return Err(error.into()),
        },
    }
    let wanted = Pull {
        durable_name: Some(durable),
        filter_subject: subject.to_owned(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: IN_FLIGHT as i64,
        ..Pull::default()
    };
    Ok(stream.create_consumer(wanted).await?)
}

/// A message whose verdicts are on their way to the disk, and how it is acknowledged.
type Unsettled = (oneshot::Receiver<()>, Acker);

/// What comes next of a switch.
enum Next {
    /// The oldest message is on the disk.
    Settled(Acker),
    /// A message, or the end of those that were asked for.
    Message(Option<Message>),
}

/// Waits until the oldest of some messages is on the disk. May be given up and asked again.
async fn settled(unsettled: &mut VecDeque<Unsettled>) -> Result<Acker, Failed> {
    let ends = || wrong("the monitor ends".to_owned());
    let (taken, _) = unsettled.front_mut().ok_or_else(ends)?;
    taken.await.map_err(|_| ends())?;
    let (_, acker) = unsettled.pop_front().ok_or_else(ends)?;
    Ok(acker)
}

/// Takes a message in: what tells when it is on the disk, if anything of it is to be, and why not all of it is.
async fn take(
    payload: &[u8],
    name: &str,
    from: &str,
    known: &mut Known,
    shared: &Shared,
) -> (Option<oneshot::Receiver<()>>, Option<io::Error>) {
    let mut lines = payload.split_inclusive(|&byte| byte == b'\n');
    let mut reading = match begin(lines.next(), name, from, known, shared).await {
        Ok(reading) => reading,
        Err(error) => return (None, Some(error)),
    };
    let mut refused = None;
    for line in lines {
        refused = reading.line(line, known).await.err();
        if refused.is_some() {
            // What came before it is kept.
            break;
        }
    }
    (Some(reading.settle().await), refused)
}

/// Reads a message's first line.
async fn begin<'a>(
    line: Option<&[u8]>,
    name: &str,
    from: &'a str,
    known: &mut Known,
    shared: &'a Shared,
) -> io::Result<Reading<'a>> {
    let hello = Hello::read(line.unwrap_or_default())?;
    if token(&hello.name) != name {
        return Err(wrong(format!("{} spoke as {name}", hello.name)));
    }
    Reading::begin(hello, Order::Any, from, known, shared).await
}
