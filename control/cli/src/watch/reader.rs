//! A thread for each socket: asks again and again, and says when nobody answers. It connects again by itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::look::{ASKED, Look};
use crate::connection::Connection;
use crate::failure::{Failure, NO};
use crate::sockets;

/// Time between two attempts to connect.
const AGAIN: Duration = Duration::from_secs(1);
/// How often the end is looked for while nothing else is done.
const NAP: Duration = Duration::from_millis(20);

/// Where to ask.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A socket that was named.
    Socket(PathBuf),
    /// That of the one testbed or switch that runs; another one after a restart.
    Running,
}

impl Place {
    pub(super) fn name(&self) -> String {
        match self {
            Place::Socket(path) => path.display().to_string(),
            Place::Running => "the one that runs".to_owned(),
        }
    }

    pub(super) fn connect(&self) -> Result<Connection, Failure> {
        match self {
            Place::Socket(path) => Connection::open(path),
            Place::Running => Connection::open(&sockets::running()?),
        }
    }
}

/// What a reader has to say, and of which place.
pub(super) struct News {
    pub(super) place: usize,
    pub(super) what: What,
}

pub(super) enum What {
    Look(Box<Look>),
    /// Nobody answers, and why.
    Gone(String),
}

/// Reads until `stop` is set, or nobody listens any more.
pub(super) fn start(
    index: usize,
    place: Place,
    interval: Duration,
    begun: Instant,
    tell: Sender<News>,
    stop: Arc<AtomicBool>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let tell = |what| tell.send(News { place: index, what }).is_ok();
        while !stop.load(Ordering::Relaxed) {
            let failure = match place.connect() {
                Ok(mut connection) => loop {
                    let due = Instant::now() + interval;
                    match look(&mut connection, begun) {
                        Ok(look) => {
                            if !tell(What::Look(Box::new(look))) || !rest(due, &stop) {
                                return;
                            }
                        }
                        Err(failure) => break failure,
                    }
                },
                Err(failure) => failure,
            };
            if !tell(What::Gone(failure.message)) || !rest(Instant::now() + AGAIN, &stop) {
                return;
            }
        }
    })
}

/// Waits until then; false if it is to end.
fn rest(until: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
    false
}

fn look(connection: &mut Connection, begun: Instant) -> Result<Look, Failure> {
    let mut all = Map::new();
    for what in ASKED {
        let line = connection.ask(&json!({ "show": what }))?;
        let reply: Value = serde_json::from_str(&line).map_err(|error| wrong(what, &error))?;
        // One of another version may not know all of it; the rest is shown.
        if let Some(rows) = reply.get("rows") {
            all.insert(what.to_owned(), rows.clone());
        }
    }
    let look = serde_json::from_value(Value::Object(all));
    let mut look: Look = look.map_err(|error| wrong("rows", &error))?;
    look.at = begun.elapsed();
    Ok(look)
}

fn wrong(what: &str, error: &serde_json::Error) -> Failure {
    Failure::new(
        NO,
        format!("{what}: {error}; is the switch of the same version?"),
    )
}
