//! The thread that knows: takes verdicts that are on the disk, localizes, tells.
//!
//! A second thread writes (`scribe`); this one never waits for a disk. Each round: verdicts that were committed are
//! given to [`Core`], a few spines are looked at, what changed is given to be written down, and told when it is. Questions
//! are answered between small steps.

mod evidence;
mod scribe;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use detector::{Link, Nanos};
use tokio::sync::mpsc;

use crate::board::Board;
use crate::core::{Core, Event, Kind, Rules};
use crate::history::{History, Restored, Retention};
use crate::routing::{Proposal, Routing};
use crate::shared::{Detail, Order, Question, Shared, Summary, Update, now};
use crate::standing::{Standing, State};
use crate::weight::give_way;
use scribe::{Between, Done, Job, Reply, Scribe};

/// Verdicts that are taken before the next question is answered.
const STEP: usize = 32;
/// Spines that are looked at in one round.
const LOOKS: usize = 2;
/// What was found is published this often.
const PUBLISH: Duration = Duration::from_millis(250);
/// All links are made anew this often for their coverage, a part at a time.
const REFRESH: Duration = Duration::from_secs(2);
/// Between two rounds when it is nobody's turn.
const PAUSE: Duration = Duration::from_millis(2);

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
    shared: Arc<Shared>,
    /// To and from who writes.
    jobs: Sender<Job>,
    done: Receiver<Done>,
    between: Arc<Between>,
    /// Verdicts in the history that were taken.
    recorded: u64,
    questions: mpsc::Receiver<Question>,
    routing: Routing,
    /// To who takes links out of routing.
    orders: mpsc::Sender<Order>,
    board: Board,
    /// Jobs with events that are being written: nothing of them is shown before.
    unwritten: usize,
    /// Events that have not been told.
    untold: Vec<Event>,
}

/// The running thread.
#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    threads: [JoinHandle<()>; 2],
}

impl Running {
    /// Commits what waits and ends.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
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
    let ((jobs, asked), (say, done)) = (channel(), channel());
    let between = Arc::new(Between::default());
    let recorded = history.verdicts();
    let scribe = Scribe {
        history,
        retention: settings.retention,
        shared: Arc::clone(&shared),
        between: Arc::clone(&between),
        jobs: asked,
        done: say,
        steps: Default::default(),
        marks: Vec::new(),
    };
    let mut engine = Engine {
        board: Board::new(&core.rows(now())),
        unwritten: 0,
        routing,
        orders,
        settings,
        core,
        shared,
        jobs,
        done,
        between,
        recorded,
        questions,
        untold: Vec::new(),
    };
    engine.publish();
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    let writer = {
        let stop = Arc::clone(&stop);
        thread("monitor-writer").spawn(move || {
            give_way();
            scribe.run(&stop);
        })?
    };
    let engine = thread("monitor").spawn(move || engine.run())?;
    Ok(Running {
        stop,
        threads: [engine, writer],
    })
}

impl Engine {
    fn run(mut self) {
        let begun = Instant::now();
        let (mut published, mut refreshed) = (begun, begun);
        loop {
            let has_news = match self.hear() {
                Some(has_news) => has_news,
                None => return,
            };
            self.look();
            if refreshed.elapsed() >= REFRESH / self.board.parts().max(1) as u32 {
                refreshed = Instant::now();
                let (core, at) = (&self.core, now());
                self.board.turn(|link| core.row(link, at).ok());
            }
            let is_time = published.elapsed() >= PUBLISH || !self.untold.is_empty();
            if is_time && self.unwritten == 0 {
                published = Instant::now();
                self.publish();
            }
            if !has_news && !self.core.is_due(now()) {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Takes what was written; whether there was something, and `None` at the end.
    fn hear(&mut self) -> Option<bool> {
        let mut has_news = false;
        while let Ok(done) = self.done.try_recv() {
            has_news = true;
            match done {
                Done::Verdicts(fresh, recorded) => {
                    for (step, verdict) in fresh.into_iter().enumerate() {
                        if step % STEP == 0 {
                            self.answer_all();
                        }
                        self.core.take(verdict, now());
                    }
                    self.recorded = recorded;
                    self.between.taken();
                    // A look between two batches, however many there are.
                    return Some(true);
                }
                Done::Events(mut events, reply) => {
                    self.unwritten -= 1;
                    if let (Some(reply), Some(event)) = (reply, events.first()) {
                        // Who asked may have gone.
                        let _ = reply.send(Ok(event.clone()));
                    }
                    for event in &events {
                        let (link, kind) = (event.link, event.kind.name());
                        let percent = 100.0 * event.drop_rate;
                        tracing::info!("{link}: {kind}, loses {percent:.3} % {}", event.text);
                        self.shared.count(event);
                    }
                    self.untold.append(&mut events);
                }
                Done::Ended => {
                    self.publish();
                    return None;
                }
            }
        }
        Some(has_news)
    }

    /// Looks at the spines whose turn it is.
    fn look(&mut self) {
        self.answer_all();
        let events = self.core.evaluate(now(), LOOKS);
        self.write_down(events, None);
    }

    /// Gives events to be written down, and told afterwards.
    fn write_down(&mut self, mut events: Vec<Event>, reply: Option<Reply>) {
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
        self.unwritten += 1;
        // The writer runs as long as this.
        let _ = self.jobs.send(Job::Events(events, standings, reply));
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
        self.write_down(vec![event], None);
    }

    fn answer_all(&mut self) {
        while let Ok(question) = self.questions.try_recv() {
            match question {
                Question::Link(link, reply) => {
                    // Who asked may have gone.
                    let _ = reply.send(self.detail(link));
                }
                Question::Ordered(link, done) => self.ordered(link, done),
                Question::Delivered(outlet, event) => {
                    let _ = self.jobs.send(Job::Delivered(outlet, event));
                }
                Question::Acknowledge {
                    link,
                    by,
                    note,
                    reply,
                } => {
                    let done = self.core.acknowledge(link, &by, &note, now());
                    match done {
                        Ok(event) => self.write_down(vec![event], Some(reply)),
                        Err(why) => {
                            let _ = reply.send(Err(why));
                        }
                    }
                }
            }
        }
    }

    fn detail(&self, link: Link) -> Result<Detail, String> {
        Ok(Detail {
            row: self.core.row(link, now())?,
            series: self.core.series(link)?,
            evidence: evidence::of(&self.core.evidence(link)),
        })
    }

    fn publish(&mut self) {
        let at = now();
        let changed = self.core.take_changed();
        let core = &self.core;
        self.board.change(&changed, |link| core.row(link, at).ok());
        let links = self.board.take_untold();
        let events = std::mem::take(&mut self.untold);
        // What is told was published before, so that who asks because of it is not told less.
        self.shared.publish(self.board.links(), self.summary(at));
        if links.is_empty() && events.is_empty() {
            return;
        }
        let update = Update {
            links: &links,
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
        let ledger = self.between.ledger();
        Summary {
            name: self.settings.name.clone(),
            leaves: fabric.leaves,
            spines: fabric.spines,
            now_ns: at.0,
            states: states.map(|(state, count)| (state.name(), count)).collect(),
            counts: self.core.counts(),
            recorded: self.recorded,
            history_bytes: ledger.bytes,
            waiting: self.shared.waiting(),
            outlets: self.shared.outlets(),
            trouble: ledger.trouble,
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
