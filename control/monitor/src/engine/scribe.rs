//! The thread that writes the history, so that a commit holds up nobody who asks.
//!
//! It takes verdicts from the lanes, commits them together and hands those that are new to the engine; writes the engine's
//! events down and hands them back, to be told; forgets what is too old. When the history cannot be written it tries the
//! same again until it can: nothing is taken in meanwhile, and switches keep what they have.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use agent::verdict::WindowVerdict;
use detector::Link;
use tokio::sync::oneshot;

use crate::core::Event;
use crate::history::{History, HistoryError, Retention, Stream};
use crate::shared::{Item, Shared, now};
use crate::standing::Standing;

/// Items of one commit.
const BATCH_MAX: usize = 1024;
/// Time between two commits when there is not that much.
const COMMIT: Duration = Duration::from_millis(50);
/// Committed batches that wait for the engine; beyond that nothing is taken from the lanes.
const AHEAD_MAX: usize = 2;
/// The history forgets this often.
const RETAIN: Duration = Duration::from_secs(10);
/// Between two rounds when there is nothing to write.
const PAUSE: Duration = Duration::from_millis(2);
/// A history that cannot be written is tried again after so long.
const RETRY: Duration = Duration::from_millis(500);

/// Who wants to know that an event was written down.
pub(super) type Reply = oneshot::Sender<Result<Event, String>>;

/// What it is told to write.
pub(super) enum Job {
    /// Events, and the states of links as they are then.
    Events(Vec<Event>, Vec<(Link, Standing)>, Option<Reply>),
    /// Up to which event an outlet has told.
    Delivered(&'static str, u64),
}

/// What it has done.
pub(super) enum Done {
    /// Verdicts that were new, on the disk; how many there are in all.
    Verdicts(Vec<WindowVerdict>, u64),
    /// Events with their numbers; or that could not be written, which are told all the same.
    Events(Vec<Event>, Option<Reply>),
    /// All that was in the lanes is done with.
    Ended,
}

/// How the history is.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// Bytes in use.
    pub(super) bytes: u64,
    /// Why it cannot be written.
    pub(super) trouble: Option<String>,
}

/// What scribe and engine share.
#[derive(Debug, Default)]
pub(super) struct Between {
    ledger: Mutex<Ledger>,
    /// Batches that wait for the engine.
    ahead: AtomicUsize,
}

impl Between {
    pub(super) fn ledger(&self) -> Ledger {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.clone()
    }

    /// The engine has taken a batch.
    pub(super) fn taken(&self) {
        self.ahead.fetch_sub(1, Ordering::Relaxed);
    }

    fn change(&self, change: impl FnOnce(&mut Ledger)) {
        change(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A part of a batch, in the order of its lanes.
pub(super) enum Step {
    Commit(Vec<(Stream, WindowVerdict)>),
    Skip(Stream, u64),
}

/// See the file's comment.
pub(super) struct Scribe {
    pub(super) history: History,
    pub(super) retention: Retention,
    pub(super) shared: Arc<Shared>,
    pub(super) between: Arc<Between>,
    pub(super) jobs: Receiver<Job>,
    pub(super) done: Sender<Done>,
    /// What is left of the batch that is written.
    pub(super) steps: VecDeque<Step>,
    /// Who waits for its end.
    pub(super) marks: Vec<oneshot::Sender<()>>,
}

impl Scribe {
    /// Writes until the engine has ended.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let begun = Instant::now();
        let (mut committed, mut retained, mut tried) = (begun, begun, None::<Instant>);
        let mut has_ended = false;
        self.measure();
        loop {
            match self.jobs.recv_timeout(PAUSE) {
                Ok(job) => self.carry_out(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(job) = self.jobs.try_recv() {
                self.carry_out(job);
            }
            let is_last = stop.load(Ordering::Relaxed);
            if self.steps.is_empty() {
                let waiting = self.shared.waiting();
                let is_time = waiting >= BATCH_MAX / 2 || is_last || committed.elapsed() >= COMMIT;
                let has_room = self.between.ahead.load(Ordering::Relaxed) < AHEAD_MAX;
                if waiting > 0 && is_time && has_room {
                    self.take();
                    committed = Instant::now();
                }
            }
            let is_turn = tried.is_none_or(|at| at.elapsed() >= RETRY);
            if is_turn && (!self.steps.is_empty() || !self.marks.is_empty()) {
                tried = (!self.write()).then(Instant::now);
            }
            if retained.elapsed() >= RETAIN {
                // Again at once while there is more.
                if !self.retain() {
                    retained = Instant::now();
                }
            }
            let is_done = self.steps.is_empty() && self.shared.waiting() == 0;
            if is_last && !has_ended && (is_done || tried.is_some()) {
                if !is_done {
                    tracing::warn!("ended with verdicts that could not be written");
                }
                has_ended = true;
                // The engine has a place for it as long as it runs.
                let _ = self.done.send(Done::Ended);
            }
        }
    }

    /// Takes a batch from the lanes.
    fn take(&mut self) {
        let mut batch = Vec::new();
        for item in self.shared.take(BATCH_MAX) {
            match item {
                Item::Verdict(stream, verdict) => batch.push((stream, verdict)),
                Item::Mark(_, done) => self.marks.push(done),
                Item::Skip(stream, oldest) => {
                    self.steps
                        .push_back(Step::Commit(std::mem::take(&mut batch)));
                    self.steps.push_back(Step::Skip(stream, oldest));
                }
            }
        }
        self.steps.push_back(Step::Commit(batch));
    }

    /// Writes what is left of the batch; false if it could not.
    fn write(&mut self) -> bool {
        let mut fresh = Vec::new();
        let (mut failed, mut has_written) = (None, false);
        while let Some(step) = self.steps.front() {
            let is_empty = matches!(step, Step::Commit(batch) if batch.is_empty());
            let written = match step {
                Step::Commit(_) if is_empty => Ok(()),
                Step::Commit(batch) => {
                    let new = self.history.commit(batch.clone(), now().0);
                    new.map(|new| fresh.extend(new))
                }
                Step::Skip(stream, oldest) => {
                    let lost = self.history.skip_to(stream, *oldest, now().0);
                    lost.map(|lost| say_lost(stream, lost))
                }
            };
            if let Err(error) = written {
                failed = Some(error);
                break;
            }
            has_written |= !is_empty;
            self.steps.pop_front();
        }
        if !fresh.is_empty() {
            self.between.ahead.fetch_add(1, Ordering::Relaxed);
            let done = Done::Verdicts(fresh, self.history.verdicts());
            // The engine has a place for it as long as it runs.
            let _ = self.done.send(done);
        }
        match failed {
            None => {
                if has_written {
                    self.between.change(|ledger| ledger.trouble = None);
                }
                for mark in self.marks.drain(..) {
                    // Who waited may have gone; then it is told again, and known.
                    let _ = mark.send(());
                }
                true
            }
            Some(error) => {
                self.say_trouble(&error);
                false
            }
        }
    }

    fn carry_out(&mut self, job: Job) {
        match job {
            Job::Events(mut events, standings, reply) => {
                if let Err(error) = self.history.record(&mut events, &standings) {
                    // They are told all the same: a full disk must not hide a bad link.
                    self.say_trouble(&error);
                    if let Some(reply) = reply {
                        let _ = reply.send(Err(format!("it could not be written down: {error}")));
                    }
                    let _ = self.done.send(Done::Events(events, None));
                    return;
                }
                let _ = self.done.send(Done::Events(events, reply));
            }
            Job::Delivered(outlet, event) => {
                if let Err(error) = self.history.delivered(outlet, event) {
                    // Told again after a restart.
                    self.say_trouble(&error);
                }
            }
        }
    }

    /// Forgets a step's worth; true if there is more.
    fn retain(&mut self) -> bool {
        let more = self.history.retain(now(), &self.retention);
        self.measure();
        more.unwrap_or_else(|error| {
            tracing::warn!("{error}");
            false
        })
    }

    fn measure(&self) {
        let bytes = self.history.bytes().unwrap_or(0);
        self.between.change(|ledger| ledger.bytes = bytes);
    }

    fn say_trouble(&self, error: &HistoryError) {
        let text = error.to_string();
        self.between.change(|ledger| {
            if ledger.trouble.as_ref() != Some(&text) {
                tracing::warn!("{text}; nothing is taken in until it can be written");
                ledger.trouble = Some(text);
            }
        });
    }
}

fn say_lost(stream: &Stream, lost: u64) {
    if lost > 0 {
        let name = &stream.leaf;
        tracing::warn!(
            "{name}: {lost} verdicts are lost: it no longer had them, or they were none"
        );
    }
}
