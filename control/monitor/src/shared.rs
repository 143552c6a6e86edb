//! What the monitor's threads share: the waiting room, what was found last, who is heard, who listens.
//!
//! The engine writes; pages, metrics and connections read, and wait for nobody longer than a copy takes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use agent::verdict::WindowVerdict;
use detector::{Fabric, Link, Nanos};
use serde::Serialize;
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::board::Links;
use crate::core::{Counts, Event, Row};
use crate::history::Stream;
use crate::lanes::{Lanes, Refused};
use crate::series::Point;

/// Updates that a slow page may lag behind before it is told to look at everything again.
const UPDATES_MAX: usize = 256;
/// Questions that wait for the engine.
const QUESTIONS_MAX: usize = 64;
/// Sources that are remembered.
const SOURCES_MAX: usize = 256;

/// What waits in a lane.
#[derive(Debug)]
pub enum Item {
    /// A verdict, checked.
    Verdict(Stream, WindowVerdict),
    /// Nothing below this number will come.
    Skip(Stream, u64),
    /// Somebody wants to know when all before it in its lane is on the disk.
    Mark(Stream, oneshot::Sender<()>),
}

/// A question that only the engine can answer.
#[derive(Debug)]
pub enum Question {
    /// All about a link.
    Link(Link, oneshot::Sender<Result<Detail, String>>),
    /// What came of an [`Order`].
    Ordered(Link, Result<(), String>),
    /// An outlet has told all events up to a number.
    Delivered(&'static str, u64),
    /// Somebody has seen a conviction.
    Acknowledge {
        /// The link.
        link: Link,
        /// Who.
        by: String,
        /// What was said.
        note: String,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Event, String>>,
    },
}

/// A link that its switch is to take out of routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order(pub Link);

/// All about a link.
#[derive(Clone, Debug, Serialize)]
pub struct Detail {
    /// As in the list.
    pub row: Row,
    /// Measurements over time.
    pub series: Vec<Point>,
    /// The latest window of each path over it: counts of all spines against expectation.
    pub evidence: Vec<Evidence>,
}

/// A window as evidence about a link.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// The leaf pair.
    pub src: String,
    /// The leaf pair.
    pub dst: String,
    /// When, in nanoseconds since 1970.
    pub at_ns: u64,
    /// Counts by spine.
    pub spines: Vec<SpineCount>,
}

/// Counts of one spine.
#[derive(Clone, Debug, Serialize)]
pub struct SpineCount {
    /// The spine.
    pub spine: u16,
    /// Marked packets that should have come.
    pub expected: f64,
    /// Marked packets that came.
    pub received: u64,
    /// Marked packets that own queues dropped.
    pub dropped: u64,
    /// What the test came to.
    pub outcome: agent::verdict::Outcome,
    /// 95 % interval of the loss rate, by the counts alone.
    pub ci95: [f64; 2],
}

/// The whole at a glance.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Name of the fabric.
    pub name: String,
    /// Leaves.
    pub leaves: u16,
    /// Spines.
    pub spines: u16,
    /// When it was written, in nanoseconds since 1970.
    pub now_ns: u64,
    /// Links by state.
    pub states: BTreeMap<&'static str, u64>,
    /// What was counted since the start.
    pub counts: Counts,
    /// Verdicts in the history since it was begun.
    pub recorded: u64,
    /// Bytes of the history in use.
    pub history_bytes: u64,
    /// Items that wait.
    pub waiting: usize,
    /// Who is told of events, by name.
    pub outlets: BTreeMap<&'static str, Outlet>,
    /// Why the history cannot be written, if so. Nothing is taken in until it can.
    pub trouble: Option<String>,
    /// A loss of this rate would have been seen on a healthy link.
    pub target_rate: f64,
    /// Evidence older than this is forgotten, in seconds.
    pub horizon_s: f64,
}

/// Who is heard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Where.
    pub from: String,
    /// Its name, once it has said it.
    pub name: String,
    /// Its switches.
    #[serde(skip)]
    pub switches: Vec<String>,
    /// Whether it answers.
    pub connected: bool,
    /// Verdicts that came, repeated ones included.
    pub received: u64,
    /// Verdicts that it no longer had when they were asked for.
    pub missed: u64,
    /// Lines that were no verdicts of this fabric.
    pub refused: u64,
    /// What is wrong, if it does not answer.
    pub trouble: Option<String>,
}

/// Who is told of events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outlet {
    /// Events that were taken, since the start.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Events that were refused for good, and left out.
    pub refused: u64,
    /// The number of the latest event that was taken.
    pub last: u64,
    /// What is wrong, if events wait.
    pub trouble: Option<String>,
}

/// All that is shared.
#[derive(Debug)]
pub struct Shared {
    /// The fabric.
    pub fabric: Fabric,
    /// Of streams that the history knew at the start: the lowest number that was to come.
    floors: BTreeMap<Stream, u64>,
    outlets: Mutex<BTreeMap<&'static str, Outlet>>,
    lanes: Mutex<Lanes<Item>>,
    links: RwLock<Links>,
    summary: RwLock<Arc<Summary>>,
    sources: Mutex<BTreeMap<String, Source>>,
    updates: broadcast::Sender<Arc<str>>,
    questions: mpsc::Sender<Question>,
    /// Events told, by kind, in the order of [`crate::core::Kind::ALL`].
    pub told: [AtomicU64; 6],
}

impl Shared {
    /// Nothing known yet, and where the engine finds questions.
    pub fn new(
        fabric: Fabric,
        floors: BTreeMap<Stream, u64>,
    ) -> (Arc<Shared>, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(QUESTIONS_MAX);
        let shared = Shared {
            fabric,
            floors,
            outlets: Mutex::default(),
            lanes: Mutex::default(),
            links: RwLock::default(),
            summary: RwLock::default(),
            sources: Mutex::default(),
            updates: broadcast::channel(UPDATES_MAX).0,
            questions,
            told: Default::default(),
        };
        (Arc::new(shared), asked)
    }

    /// Puts an item in the lane of its stream's leaf.
    ///
    /// # Errors
    /// The item, when it has to wait.
    pub fn offer(&self, item: Item) -> Result<(), Item> {
        let (stream, paths) = match &item {
            Item::Verdict(stream, verdict) => (stream, verdict.paths.len()),
            Item::Skip(stream, _) | Item::Mark(stream, _) => (stream, 1),
        };
        let lane = Arc::clone(&stream.leaf);
        let offered = lock(&self.lanes).offer(&lane, paths, item);
        offered.map_err(|refused| match refused {
            Refused::LaneFull(item) | Refused::TooManyLanes(item) => item,
        })
    }

    /// Takes items, the lanes in turns.
    pub fn take(&self, max: usize) -> Vec<Item> {
        lock(&self.lanes).take(max)
    }

    /// Items that wait.
    pub fn waiting(&self) -> usize {
        lock(&self.lanes).waiting()
    }

    /// The links as last published.
    pub fn links(&self) -> Links {
        let links = self.links.read().unwrap_or_else(PoisonError::into_inner);
        links.clone()
    }

    /// The whole as last written.
    pub fn summary(&self) -> Arc<Summary> {
        let summary = self.summary.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&summary)
    }

    /// Writes what was found.
    pub fn publish(&self, links: Links, summary: Summary) {
        *self.links.write().unwrap_or_else(PoisonError::into_inner) = links;
        *self.summary.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(summary);
    }

    /// Tells all who listen.
    pub fn tell(&self, update: Arc<str>) {
        // Nobody may be listening.
        let _ = self.updates.send(update);
    }

    /// Counts an event for metrics.
    pub fn count(&self, event: &Event) {
        let kinds = crate::core::Kind::ALL.iter().zip(&self.told);
        for (_, count) in kinds.filter(|(kind, _)| **kind == event.kind) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What will be told from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<str>> {
        self.updates.subscribe()
    }

    /// Asks the engine; `None` when it has more questions than it can answer, or has ended.
    pub async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.questions.try_send(question(reply)).ok()?;
        answer.await.ok()
    }

    /// Tells the engine something; waits while it has more than it can do.
    pub async fn report(&self, report: Question) {
        // The engine may have ended.
        let _ = self.questions.send(report).await;
    }

    /// The lowest number of a stream that was still to come when the monitor was started.
    pub fn floor(&self, stream: &Stream) -> u64 {
        self.floors.get(stream).copied().unwrap_or(1)
    }

    /// Changes what is known of an outlet.
    pub fn outlet(&self, name: &'static str, change: impl FnOnce(&mut Outlet)) {
        change(lock(&self.outlets).entry(name).or_default());
    }

    /// Who is told of events, by name.
    pub fn outlets(&self) -> BTreeMap<&'static str, Outlet> {
        lock(&self.outlets).clone()
    }

    /// Changes what is known of a source.
    pub fn source(&self, from: &str, change: impl FnOnce(&mut Source)) {
        let mut sources = lock(&self.sources);
        if !sources.contains_key(from) && sources.len() >= SOURCES_MAX {
            return;
        }
        let source = sources.entry(from.to_owned()).or_insert_with(|| Source {
            from: from.to_owned(),
            ..Source::default()
        });
        change(source);
    }

    /// Forgets a source.
    pub fn forget(&self, from: &str) {
        lock(&self.sources).remove(from);
    }

    /// Who is heard.
    pub fn sources(&self) -> Vec<Source> {
        lock(&self.sources).values().cloned().collect()
    }
}

/// The time, in nanoseconds since 1970.
pub fn now() -> Nanos {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Nanos(since.map_or(0, |since| since.as_nanos() as u64))
}

/// What a page is told of links that have changed to the eye.
#[derive(Serialize)]
pub(crate) struct Update<'a> {
    pub(crate) links: &'a [Row],
    pub(crate) events: &'a [Event],
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
