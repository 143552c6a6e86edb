//! The thread that owns what the monitor knows: takes verdicts, commits, localizes, tells.
//!
//! Each round: verdicts from the lanes are committed together and then given to [`Core`]; a few spines are
//! looked at; what changed is written down, and told only then. Questions are answered between small steps.
//! When the history cannot be written, the round is tried again until it can: nothing is taken in meanwhile,
//! and the switches keep what they have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agent::verdict::WindowVerdict;
use detector::{Link, Nanos, tails};
use tokio::sync::mpsc;

use crate::core::{Core, Event, Kind, Row, Rules};
use crate::history::{History, HistoryError, Restored, Retention, Stream};
use crate::routing::{Proposal, Routing};
use crate::shared::{
    Detail, Evidence, Item, Order, Question, Shared, SpineCount, Summary, Update, looks_different,
    now,
};
use crate::standing::{Standing, State};

/// Items of one commit.
const BATCH_MAX: usize = 1024;
/// Time between two commits when there is not that much.
const COMMIT: Duration = Duration::from_millis(50);
/// Verdicts that are taken before the next question is answered.
const STEP: usize = 32;
/// Spines that are looked at in one round.
const LOOKS: usize = 2;
/// What was found is published this often.
const PUBLISH: Duration = Duration::from_millis(250);
/// All rows are written anew this often, for ages and coverage.
const REFRESH: Duration = Duration::from_secs(5);
/// The history forgets this often.
const RETAIN: Duration = Duration::from_secs(10);
/// Between two rounds when it is nobody's turn.
const PAUSE: Duration = Duration::from_millis(2);
/// A history that cannot be written is tried again after so long.
const RETRY: Duration = Duration::from_millis(500);

/// What the engine is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the fabric, for people.
    pub name: String,
    /// How links are judged.
    pub rules: Rules,
    /// What is kept.
    pub retention: Retention,
    /// What is done about convicted links.
    pub routing: RoutingSettings,
}

/// What is done about convicted links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoutingSettings {
    /// Every pair of leaves keeps this share of the spines.
    pub share: f64,
    /// Whether links are taken out, or only proposed.
    pub apply: bool,
}

impl Default for RoutingSettings {
    fn default() -> RoutingSettings {
        RoutingSettings {
            share: 0.75,
            apply: false,
        }
    }
}

/// See the file's comment.
struct Engine {
    settings: Settings,
    core: Core,
    history: History,
    shared: Arc<Shared>,
    questions: mpsc::Receiver<Question>,
    routing: Routing,
    /// To who takes links out of routing.
    orders: mpsc::Sender<Order>,
    rows: Vec<Row>,
    trouble: Option<String>,
    /// Events that have not been told.
    untold: Vec<Event>,
}

/// The running thread.
#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Commits what waits and ends.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Starts it with what a history knew.
///
/// # Errors
/// When no thread can be made.
pub fn start(
    settings: Settings,
    history: History,
    restored: Restored,
    shared: Arc<Shared>,
    questions: mpsc::Receiver<Question>,
    orders: mpsc::Sender<Order>,
) -> std::io::Result<Running> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let mut core = Core::new(settings.rules);
    let fabric = settings.rules.localization.fabric;
    let mut routing = Routing::new(fabric, settings.routing.share);
    let mut standings = restored.standings;
    // In the order in which they were proposed.
    standings.sort_by_key(|(_, standing)| standing.since);
    for (link, standing) in standings {
        if standing.state == State::Convicted {
            routing.propose(link);
        }
        if let Err(error) = core.restore(link, standing) {
            tracing::warn!("history: {error}");
        }
    }
    for verdict in restored.recent {
        if core.check(&verdict).is_ok() {
            core.take(verdict, now());
        }
    }
    core.begin_counting();
    let mut engine = Engine {
        rows: core.rows(now()),
        routing,
        orders,
        settings,
        core,
        history,
        shared,
        questions,
        trouble: None,
        untold: Vec::new(),
    };
    engine.publish();
    let thread = std::thread::Builder::new()
        .name("monitor".into())
        .spawn(move || engine.run(&seen))?;
    Ok(Running { stop, thread })
}

impl Engine {
    fn run(mut self, stop: &AtomicBool) {
        let begun = Instant::now();
        let (mut published, mut refreshed, mut retained) = (begun, begun, begun);
        let mut committed = begun;
        loop {
            let is_last = stop.load(Ordering::Relaxed);
            let is_much = self.shared.waiting() >= BATCH_MAX / 2;
            if is_much || is_last || committed.elapsed() >= COMMIT {
                self.take_in(is_last);
                committed = Instant::now();
            }
            self.look();
            if published.elapsed() >= PUBLISH || !self.untold.is_empty() {
                published = Instant::now();
                self.publish();
                // After what has changed was told: ages and coverage alone.
                if refreshed.elapsed() >= REFRESH {
                    refreshed = published;
                    self.rows = self.core.rows(now());
                }
            }
            if retained.elapsed() >= RETAIN {
                let more = self.history.retain(now(), &self.settings.retention);
                match more {
                    Ok(true) => {}
                    Ok(false) => retained = Instant::now(),
                    Err(error) => {
                        tracing::warn!("{error}");
                        retained = Instant::now();
                    }
                }
            }
            if is_last && self.shared.waiting() == 0 {
                return;
            }
            if is_last && self.trouble.is_some() {
                tracing::warn!("ended with verdicts that could not be written");
                return;
            }
            if !self.core.is_due(now()) && self.shared.waiting() < BATCH_MAX / 2 {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Takes a batch from the lanes.
    fn take_in(&mut self, is_last: bool) {
        let items = self.shared.take(BATCH_MAX);
        let mut batch = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Item::Verdict(stream, verdict) => batch.push((stream, verdict)),
                Item::Skip(stream, oldest) => {
                    self.commit(std::mem::take(&mut batch), is_last);
                    self.skip(&stream, oldest);
                }
            }
        }
        self.commit(batch, is_last);
    }

    fn skip(&mut self, stream: &Stream, oldest: u64) {
        match self.history.skip_to(stream, oldest, now().0) {
            Ok(0) => {}
            Ok(lost) => {
                let name = &stream.leaf;
                tracing::warn!(
                    "{name}: {lost} verdicts are lost: it no longer had them, or they were none"
                );
            }
            Err(error) => tracing::warn!("{error}"),
        }
    }

    fn commit(&mut self, batch: Vec<(Stream, WindowVerdict)>, is_last: bool) {
        if batch.is_empty() {
            return;
        }
        let fresh = loop {
            match self.history.commit(batch.clone(), now().0) {
                Ok(fresh) => break fresh,
                Err(error) => {
                    self.say_trouble(&error);
                    if is_last {
                        return;
                    }
                    self.answer_all();
                    std::thread::sleep(RETRY);
                }
            }
        };
        self.trouble = None;
        for (step, verdict) in fresh.into_iter().enumerate() {
            if step % STEP == 0 {
                self.answer_all();
            }
            self.core.take(verdict, now());
        }
    }

    fn say_trouble(&mut self, error: &HistoryError) {
        let text = error.to_string();
        if self.trouble.as_ref() != Some(&text) {
            tracing::warn!("{text}; nothing is taken in until it can be written");
            self.trouble = Some(text);
            self.publish();
        }
    }

    /// Looks at the spines whose turn it is.
    fn look(&mut self) {
        self.answer_all();
        let events = self.core.evaluate(now(), LOOKS);
        self.write_down(events);
    }

    /// Writes events down, to be told afterwards.
    fn write_down(&mut self, mut events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let consequences: Vec<Event> = (events.iter())
            .filter_map(|event| self.consequence(event))
            .collect();
        events.extend(consequences);
        let standings: Vec<(Link, Standing)> = events
            .iter()
            .filter_map(|event| {
                let standing = self.core.standing(event.link).ok()?;
                Some((event.link, standing.clone()))
            })
            .collect();
        if let Err(error) = self.history.record(&mut events, &standings) {
            // They are told all the same: a full disk must not hide a bad link.
            self.say_trouble(&error);
        }
        for event in &events {
            let (link, kind) = (event.link, event.kind.name());
            let percent = 100.0 * event.drop_rate;
            tracing::info!("{link}: {kind}, loses {percent:.3} % {}", event.text);
            self.shared.count(event);
        }
        self.untold.append(&mut events);
    }

    /// What follows from an event for routing.
    fn consequence(&mut self, event: &Event) -> Option<Event> {
        let link = event.link;
        let text = match (event.kind, event.from) {
            (Kind::Convicted, _) => match self.routing.propose(link) {
                Proposal::Take { left } if self.settings.routing.apply => {
                    if self.orders.try_send(Order(link)).is_err() {
                        "cannot be taken out of routing: too many wait".to_owned()
                    } else {
                        format!(
                            "is being taken out of routing; {left} spines are left to every pair over it"
                        )
                    }
                }
                Proposal::Take { left } => format!(
                    "proposed: spraycheck set link '{link}' off; {left} spines are left to every pair over it"
                ),
                Proposal::Keep { left } => format!(
                    "stays in routing: a pair over it would keep {left} spines, and {} is the limit",
                    self.routing.least()
                ),
            },
            (Kind::Cleared, State::Convicted) if self.routing.is_out(link) => {
                self.routing.put_back(link);
                format!("is well again; if it was taken out: spraycheck set link '{link}' on")
            }
            _ => return None,
        };
        Some(routing_event(event.clone(), text))
    }

    /// Writes down what came of an order.
    fn ordered(&mut self, link: Link, done: Result<(), String>) {
        let Ok(row) = self.core.row(link, now()) else {
            return;
        };
        let text = match done {
            Ok(()) => "was taken out of routing".to_owned(),
            Err(why) => {
                self.routing.put_back(link);
                format!("could not be taken out of routing: {why}")
            }
        };
        let event = Event {
            id: 0,
            at_ns: now().0,
            kind: Kind::Routing,
            link,
            from: row.state,
            to: row.state,
            drop_rate: row.drop_rate,
            ci95: row.ci95,
            text,
        };
        self.write_down(vec![event]);
    }

    fn answer_all(&mut self) {
        while let Ok(question) = self.questions.try_recv() {
            match question {
                Question::Link(link, reply) => {
                    // Who asked may have gone.
                    let _ = reply.send(self.detail(link));
                }
                Question::Ordered(link, done) => self.ordered(link, done),
                Question::Acknowledge {
                    link,
                    by,
                    note,
                    reply,
                } => {
                    let done = self.core.acknowledge(link, &by, &note, now());
                    if let Ok(event) = &done {
                        self.write_down(vec![event.clone()]);
                    }
                    let done = done.and_then(|event| match &self.trouble {
                        None => Ok(event),
                        Some(trouble) => Err(format!("it could not be written down: {trouble}")),
                    });
                    let _ = reply.send(done);
                }
            }
        }
    }

    fn detail(&self, link: Link) -> Result<Detail, String> {
        Ok(Detail {
            row: self.core.row(link, now())?,
            series: self.core.series(link)?,
            evidence: (self.core.evidence(link).into_iter())
                .map(evidence)
                .collect(),
        })
    }

    fn publish(&mut self) {
        let at = now();
        let mut shown = Vec::new();
        for link in self.core.take_changed() {
            let Ok(new) = self.core.row(link, at) else {
                continue;
            };
            let place = self.rows.binary_search_by_key(&link, |row| row.link);
            if let Ok(place) = place {
                if looks_different(&self.rows[place], &new) {
                    shown.push(place);
                }
                self.rows[place] = new;
            }
        }
        let events = std::mem::take(&mut self.untold);
        self.shared
            .publish(Arc::new(self.rows.clone()), self.summary(at));
        if shown.is_empty() && events.is_empty() {
            return;
        }
        let update = Update {
            links: shown.iter().map(|&place| &self.rows[place]).collect(),
            events: &events,
        };
        if let Ok(text) = serde_json::to_string(&update) {
            self.shared.tell(text.into());
        }
    }

    fn summary(&self, at: Nanos) -> Summary {
        let rules = &self.settings.rules;
        let fabric = rules.localization.fabric;
        let states = self.core.states().into_iter();
        Summary {
            name: self.settings.name.clone(),
            leaves: fabric.leaves,
            spines: fabric.spines,
            now_ns: at.0,
            states: states.map(|(state, count)| (state.name(), count)).collect(),
            counts: self.core.counts(),
            recorded: self.history.verdicts(),
            history_bytes: self.history.bytes().unwrap_or(0),
            waiting: self.shared.waiting(),
            trouble: self.trouble.clone(),
            target_rate: rules.target_rate,
            horizon_s: rules.localization.horizon.0 as f64 / 1e9,
        }
    }
}

fn routing_event(event: Event, text: String) -> Event {
    Event {
        kind: Kind::Routing,
        from: event.to,
        text,
        ..event
    }
}

fn evidence(verdict: &WindowVerdict) -> Evidence {
    let count = |path: &agent::verdict::PathVerdict| {
        let trials = path.expected.round().max(0.0) as u64;
        let lost = trials.saturating_sub(path.received + path.dropped);
        SpineCount {
            spine: path.spine,
            expected: path.expected,
            received: path.received,
            dropped: path.dropped,
            outcome: path.outcome,
            ci95: match trials {
                0 => [0.0, 1.0],
                trials => tails::clopper_pearson(lost, trials, 0.95),
            },
        }
    };
    Evidence {
        src: verdict.src.to_string(),
        dst: verdict.dst.to_string(),
        at_ns: verdict.at_ns,
        spines: verdict.paths.iter().map(count).collect(),
    }
}
