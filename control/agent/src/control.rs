//! The control thread: its own OS thread, with a tokio runtime that serves the socket.
//!
//! Every millisecond it takes the reports that wait, judges them and sends back thresholds. It
//! never waits for an lcore and no lcore waits for it: what it misses while it hangs is counted
//! by the switches.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use detector::{Nanos, Rules};
use pipeline::report::Command;

use crate::capture::serve::Captures;
use crate::change::Pending;
use crate::core::{Core, Test};
use crate::metrics::{Findings, Found};
use crate::neighbors::Listings;
use crate::operate::Links;
use crate::published::{LcoreStatus, Published};
use crate::seam::{Body, Seam, ToSwitch};
use crate::socket;
use crate::stream::Stream;
use crate::subject::Subject;

/// How often the rings are read.
const ROUND: Duration = Duration::from_millis(1);
/// What was found is written down for metrics every so many rounds.
const FINDINGS_ROUNDS: u32 = 1000;
/// The failed-paths bitmaps are read every so many rounds.
const BITMAP_ROUNDS: u32 = 100;
/// The masks of available and covered destinations are reset this often (paper 3.4), in the
/// lcores' time.
const RESET_NS: u64 = 60_000_000_000;

/// At the end, clients that hear verdicts may take so long to be sent the last ones.
const HAND_OVER: Duration = Duration::from_secs(2);

/// What the thread works with.
#[derive(Clone, Debug)]
pub struct ControlConfig {
    /// Names of the switches, and of each one's ports.
    pub switches: Vec<(String, Vec<String>)>,
    /// How windows are judged.
    pub rules: Rules,
    /// How paths are tested.
    pub test: Test,
    /// Where to answer; nowhere if `None`.
    pub socket: Option<PathBuf>,
    /// What runs, for `show version`.
    pub versions: Vec<(String, String)>,
    /// The configuration that switches have, and may get another one of.
    pub subject: Subject,
}

/// One counter of a device: the device's name, the counter's, and its value.
pub type DeviceCount = (String, &'static str, u64);

/// Tells what devices count; nothing unless a driver says so.
#[derive(Clone, Default)]
pub struct Devices(Option<Arc<dyn Fn() -> Vec<DeviceCount> + Send + Sync>>);

impl Devices {
    /// What `read` tells, whenever it is asked.
    pub fn of(read: impl Fn() -> Vec<DeviceCount> + Send + Sync + 'static) -> Devices {
        Devices(Some(Arc::new(read)))
    }

    /// The counters now.
    pub fn read(&self) -> Vec<DeviceCount> {
        self.0.as_ref().map_or_else(Vec::new, |read| read())
    }
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.read()).finish()
    }
}

/// The rings and counters that it shares with lcores.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Reports and commands.
    pub seam: Arc<Seam>,
    /// Published counters, per switch and lcore.
    pub published: Arc<Vec<Published>>,
    /// The process's own.
    pub status: Arc<LcoreStatus>,
    /// Rounds of each lcore.
    pub lcores: Arc<Vec<LcoreStatus>>,
    /// What devices count beside their ports: name of the device, of the counter, and its reader.
    pub devices: Devices,
    /// What control has found, for metrics.
    pub findings: Arc<Findings>,
    /// The links, for what is changed while switches run.
    pub links: Arc<Links>,
    /// Somebody wants the files to be read again (SIGHUP).
    pub reload: Arc<AtomicBool>,
}

impl Shared {
    /// For switches of so many ports each.
    pub fn new(ports: impl IntoIterator<Item = usize>) -> Shared {
        Shared::on(1, ports)
    }

    /// The same, each in one part on each of so many lcores.
    pub fn on(lcores: usize, ports: impl IntoIterator<Item = usize>) -> Shared {
        let lcores = lcores.max(1);
        let parts = ports
            .into_iter()
            .flat_map(|count| std::iter::repeat_n(count, lcores));
        Shared {
            seam: Arc::new(Seam::new(lcores)),
            published: Arc::new(parts.map(Published::new).collect()),
            status: Arc::default(),
            lcores: Arc::new((0..lcores).map(|_| LcoreStatus::default()).collect()),
            devices: Devices::default(),
            findings: Arc::default(),
            links: Arc::default(),
            reload: Arc::default(),
        }
    }

    /// What the parts of each switch have published, switch by switch.
    pub fn switches(&self) -> impl Iterator<Item = &[Published]> {
        self.published.chunks(self.lcores.len())
    }
}

/// What the thread knows; the socket reads it between two rounds.
pub struct State {
    /// Its configuration.
    pub config: ControlConfig,
    /// Rings and counters.
    pub shared: Shared,
    /// Thresholds and verdicts.
    pub core: Core,
    reset_at_ns: u64,
    /// Commands that a full ring refused.
    pub commands_refused: u64,
    bitmap_at: u32,
    findings_at: u32,
    /// Paths that the data planes hold for failed: (destination switch, source leaf, spine).
    pub failed_paths: Vec<(usize, usize, usize)>,
    pub(crate) captures: Captures,
    /// Verdicts for the monitor.
    pub(crate) stream: Stream,
    /// Changes on their way to lcores.
    pub(crate) pending: Pending,
    /// Neighbours that were asked for.
    pub(crate) listings: Listings,
}

impl State {
    /// Nothing heard yet.
    pub(crate) fn new(config: ControlConfig, shared: Shared) -> State {
        let mut core = Core::with_test(config.rules, config.test);
        // Without a socket nobody can take them.
        if config.socket.is_some() {
            core.begin_telling();
        }
        State {
            core,
            reset_at_ns: RESET_NS,
            commands_refused: 0,
            bitmap_at: 0,
            findings_at: 0,
            failed_paths: Vec::new(),
            captures: Captures::default(),
            stream: Stream::default(),
            pending: Pending::default(),
            listings: Listings::default(),
            config,
            shared,
        }
    }

    /// One round: all reports that wait, then what time alone causes.
    pub fn round(&mut self) {
        // What a part had reported before it changed waits in the ring by now.
        let back = self.take_back();
        while let Some(report) = self.shared.seam.reports.pop() {
            match report.body {
                Body::Opened(opened) => {
                    if let Some(command) = self.core.on_opened(&opened) {
                        self.send(report.switch, command);
                    }
                }
                Body::Window(mut window) => {
                    if self.pending.voids(report.switch) {
                        // It ran before the change; the rules are those after it.
                        window.is_changed = true;
                        window.disturbed = window.usable;
                    }
                    self.core.on_window(&window);
                    tracing::debug!(
                        source = window.source.0,
                        destination = window.destination.0,
                        qpn = window.key.qpn.0,
                        epoch = window.epoch,
                        marked = window.marked,
                        "a window has ended"
                    );
                }
                Body::Dropped(dropped) => self.core.on_dropped(dropped),
            }
        }
        self.tell();
        self.pending.settle(back);
        if self.pending.is_empty() && self.shared.reload.swap(false, Ordering::Relaxed) {
            self.reload_and_say();
        }
        self.bitmap_at += 1;
        if self.bitmap_at >= BITMAP_ROUNDS {
            self.bitmap_at = 0;
            self.read_bitmaps();
            self.captures.sweep();
            self.shared.links.sweep();
        }
        self.findings_at += 1;
        if self.findings_at >= FINDINGS_ROUNDS {
            self.findings_at = 0;
            self.write_findings();
        }
        let now_ns = self.shared.status.now_ns.load(Ordering::Relaxed);
        if now_ns >= self.reset_at_ns {
            self.reset_at_ns = now_ns + RESET_NS;
            self.core.expire(Nanos(now_ns));
            for part in 0..self.shared.published.len() {
                self.send(part as u16, Command::ResetMasks);
            }
        }
    }

    /// Judges what still waits, after the last round.
    fn finish(&mut self) {
        self.core.finish();
        self.tell();
    }

    fn tell(&mut self) {
        while let Some(tests) = self.core.next_untold() {
            (self.stream).tell(&tests, self.core.test() == Test::Sequential);
        }
    }

    fn write_findings(&mut self) {
        let located = self.core.locate();
        let convicted = located.convicted.iter();
        let convicted = convicted.map(|c| (c.link.to_string(), "convicted", c.drop_rate));
        let suspects = located.suspects.iter();
        let suspects = suspects.map(|s| (s.link.to_string(), "suspect", s.drop_rate));
        let counters = self.core.counters();
        self.shared.findings.set(Found {
            windows: counters.ended,
            tests: vec![
                ("healthy", counters.healthy),
                ("failed", counters.failed),
                ("void", counters.void),
                ("abstained", counters.abstained),
            ],
            links: convicted.chain(suspects).collect(),
            commands_refused: self.commands_refused,
        });
    }

    /// Reads the failed-paths bitmap of every switch (paper 4); what is new goes to the log. The
    /// verdict itself comes with the window's report, which has the counts as well.
    fn read_bitmaps(&mut self) {
        let mut failed = Vec::new();
        for (part, published) in self.shared.published.iter().enumerate() {
            let switch = part / self.shared.lcores.len();
            for (source, spines) in published.failed_paths().into_iter().enumerate() {
                failed.extend(spines.iter().map(|spine| (switch, source, spine)));
            }
        }
        for (switch, source, spine) in failed
            .iter()
            .filter(|path| !self.failed_paths.contains(path))
        {
            let name = self
                .config
                .switches
                .get(*switch)
                .map_or("", |(name, _)| name);
            tracing::info!("below its threshold: leaf{source} to {name} over spine{spine}");
        }
        self.failed_paths = failed;
    }

    pub(crate) fn send(&mut self, switch: u16, command: Command) {
        if self
            .shared
            .seam
            .commands_of(usize::from(switch))
            .push(ToSwitch { switch, command })
            .is_err()
        {
            self.commands_refused += 1;
        }
    }
}

/// The running thread.
pub struct Control {
    thread: JoinHandle<Core>,
    stop: Arc<AtomicBool>,
}

impl Control {
    /// Starts it. `prepare` runs first on the new thread: there an embedding that pins its
    /// threads gives this one the CPUs it may use.
    ///
    /// # Errors
    /// When the socket cannot be bound, or no thread can be made.
    pub fn start(
        config: ControlConfig,
        shared: Shared,
        prepare: impl FnOnce() + Send + 'static,
    ) -> io::Result<Control> {
        let listener = config.socket.as_deref().map(socket::bind).transpose()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stop_seen = Arc::clone(&stop);
        let state = move || State::new(config, shared);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || {
                prepare();
                let state = Rc::new(RefCell::new(state()));
                let local = tokio::task::LocalSet::new();
                local.block_on(&runtime, run(Rc::clone(&state), listener, stop_seen));
                drop(local);
                drop(runtime);
                match Rc::try_unwrap(state) {
                    Ok(state) => state.into_inner().core,
                    Err(_) => {
                        unreachable!("all tasks that shared the state ended with their runtime")
                    }
                }
            })?;
        Ok(Control { thread, stop })
    }

    /// Stops it after a last look at the rings, when who hears its verdicts has been sent them, and returns what it knows.
    ///
    /// # Panics
    /// When the thread has panicked.
    pub fn finish(self) -> Core {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

async fn run(state: Rc<RefCell<State>>, listener: Option<socket::Listener>, stop: Arc<AtomicBool>) {
    if let Some(listener) = listener {
        tokio::task::spawn_local(socket::serve(listener, Rc::clone(&state)));
    }
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        // Read before the round: what was pushed before the stop is then in it.
        let is_last = stop.load(Ordering::Relaxed);
        state.borrow_mut().round();
        if is_last {
            state.borrow_mut().finish();
            hand_over(&state).await;
            return;
        }
    }
}

/// Waits until every client has been sent all verdicts; one that does not take them is left behind.
async fn hand_over(state: &RefCell<State>) {
    let sent = async {
        while !state.borrow().stream.is_sent() {
            tokio::time::sleep(ROUND).await;
        }
    };
    if tokio::time::timeout(HAND_OVER, sent).await.is_err() {
        tracing::warn!("the end: a client has not taken the last verdicts");
    }
}

#[cfg(test)]
#[path = "control/tests.rs"]
mod tests;
