//! `spraycheckd`: found, started, fed with one request, listened to, and never left behind.
//!
//! The daemon runs in a process group of its own, so that a Ctrl-C reaches it once, from here: it
//! then ends with what it has found so far. A second signal, or a daemon that does not end, kills
//! it. If this command is killed itself, the daemon is told to end by the kernel.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use agent::result::DaemonLine;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{ENVIRONMENT, Failure, NO};
use crate::log;
use crate::progress::Progress;

const NAME: &str = "spraycheckd";
/// What is said of an answer to a testbed's request that is none.
pub(crate) const NO_RESULT: &str = "spraycheckd answered something else than a testbed's result; is it of the same \
                                    version?";
/// How long a daemon may take to end once it was told to, or has said its last line.
const GRACE: Duration = Duration::from_secs(10);
/// How often signals and deadlines are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `spraycheckd COMMAND` with `request` and returns the line with its answer. `limit` is how
/// long that may take as a whole.
pub(crate) fn run(
    command: &str,
    request: &impl Serialize,
    limit: Option<Duration>,
) -> Result<DaemonLine, Failure> {
    run_with(command, request, limit, Progress::new())
}

/// The same where somebody else shows how far all is; the request has its own limit.
pub(crate) fn run_quietly(command: &str, request: &impl Serialize) -> Result<DaemonLine, Failure> {
    run_with(command, request, None, Progress::silent())
}

fn run_with(
    command: &str,
    request: &impl Serialize,
    limit: Option<Duration>,
    progress: Progress,
) -> Result<DaemonLine, Failure> {
    let path = find()?;
    let request = serde_json::to_string(request)
        .map_err(|error| Failure::new(NO, format!("the request cannot be written: {error}")))?;
    let lacks = |error: std::io::Error, what: &str| {
        Failure::new(ENVIRONMENT, format!("{what} {}: {error}", path.display()))
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| lacks(error, "cannot take signals for"))?;
    let mut child = Command::new(&path);
    if !leads_its_session(command) {
        child.process_group(0);
    }
    if log::is_json() {
        child.env(agent::log::FORMAT, "json").stderr(Stdio::piped());
    }
    let mut child = child
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| lacks(error, "cannot start"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A daemon that ends before it reads this says why in its lines.
        let _ = writeln!(stdin, "{request}");
    }
    let lines = child.stdout.take().map(lines_of);
    let logs = child.stderr.take().map(log::pass_on);
    let mut running = Running {
        child,
        // A terminal that hangs up ends what was started from it; others ask for a new look.
        reloads: command == "switch" && !std::io::stdin().is_terminal(),
        deadline: limit.map(|limit| Instant::now() + limit),
    };
    let answer = match lines {
        Some(lines) => running.listen(&lines, &mut signals, progress),
        None => Err(Failure::new(NO, format!("{NAME} has no standard output"))),
    };
    // The daemon has ended, and with it its lines.
    drop(running);
    if let Some(logs) = logs {
        let _ = logs.join();
    }
    answer
}

/// What the daemon says of itself: its release and DPDK's.
///
/// # Errors
/// Why it cannot be asked.
pub(crate) fn version() -> Result<String, String> {
    let path = find().map_err(|failure| failure.message)?;
    let output = Command::new(&path).arg("--version").output();
    let output = output.map_err(|error| format!("cannot start {}: {error}", path.display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{}: {}", path.display(), text(&output.stderr)))
    }
}

/// Whether the daemon makes a session of its own, which a leader of a process group cannot: a
/// benchmark does, for the kernel weighs sessions against each other.
fn leads_its_session(command: &str) -> bool {
    command == "bench"
}

/// Beside this executable, else on PATH.
fn find() -> Result<PathBuf, Failure> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.join(NAME)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = beside
        .into_iter()
        .chain(std::env::split_paths(&path).map(|dir| dir.join(NAME)));
    places.find(|place| is_executable(place)).ok_or_else(|| {
        let message = format!(
            "{NAME} is neither beside this command nor on PATH; it is the part that needs DPDK: \
             build it with `cargo build --release -p lcore` (packages: scripts/packages)"
        );
        Failure::new(ENVIRONMENT, message)
    })
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The daemon's lines, read by a thread of their own so that signals can be seen in between.
fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A started daemon; killed when dropped, if it is still there.
struct Running {
    child: Child,
    /// Whether SIGHUP is passed on, for the daemon to read its files again.
    reloads: bool,
    deadline: Option<Instant>,
}

impl Running {
    fn listen(
        &mut self,
        lines: &Receiver<String>,
        signals: &mut Signals,
        mut progress: Progress,
    ) -> Result<DaemonLine, Failure> {
        let mut answer = None;
        let mut is_told = false;
        loop {
            match lines.recv_timeout(LOOK) {
                Ok(line) => match DaemonLine::from_json(&line) {
                    Ok(DaemonLine::Progress { percent, text, .. }) => progress.show(percent, &text),
                    Ok(DaemonLine::Ready {
                        socket: Some(socket),
                    }) => {
                        let socket = socket.display();
                        progress.say(&format!(
                            "watch it: spraycheck show ports --socket {socket}"
                        ));
                    }
                    Ok(DaemonLine::Ready { socket: None }) => {}
                    Ok(line) => answer = Some(line),
                    // Drivers of DPDK print on standard output as they like.
                    Err(_) => progress.say(&line),
                },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            for signal in signals.pending() {
                if signal == SIGHUP && self.reloads {
                    self.pass_on(Signal::HUP);
                    continue;
                }
                if is_told {
                    self.kill();
                    return Err(Failure::new(
                        NO,
                        format!("{NAME} was killed on a second signal"),
                    ));
                }
                progress.say("ending with what was found so far; once more kills at once");
                self.tell(signal);
                is_told = true;
            }
            if self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
            {
                if is_told {
                    self.kill();
                    let message = format!(
                        "{NAME} was told to end, by a signal or because its time was over, and had \
                         not {} s later; it was killed. If nothing stopped it, it had no CPU: run \
                         it where one is free, or give it a longer --limit",
                        GRACE.as_secs()
                    );
                    return Err(Failure::new(NO, message));
                }
                self.tell(SIGTERM);
                is_told = true;
            }
        }
        drop(progress);
        let status = self.wait()?;
        match answer {
            Some(DaemonLine::Error { message, exit_code }) => Err(Failure::new(exit_code, message)),
            Some(answer) => Ok(answer),
            None => {
                let message = format!(
                    "{NAME} ended without an answer ({status}); its own lines above say more"
                );
                // It crashed; or it could not even start, as without DPDK's libraries.
                let code = if status.signal().is_some() {
                    NO
                } else {
                    ENVIRONMENT
                };
                Err(Failure::new(code, message))
            }
        }
    }

    /// Passes a signal on and gives the daemon a while to end.
    fn tell(&mut self, signal: i32) {
        let signal = if signal == SIGINT {
            Signal::INT
        } else {
            Signal::TERM
        };
        self.pass_on(signal);
        self.deadline = Some(Instant::now() + GRACE);
    }

    fn pass_on(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // The child is not waited for yet, so the number is still its own.
        if let Some(id) = id {
            let _ = kill_process(id, signal);
        }
    }

    /// Waits for a daemon that has said all.
    fn wait(&mut self) -> Result<ExitStatus, Failure> {
        let deadline = Instant::now() + GRACE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(LOOK),
                Ok(None) => {
                    self.kill();
                    let message = format!("{NAME} closed its output but did not end; killed");
                    return Err(Failure::new(NO, message));
                }
                Err(error) => {
                    return Err(Failure::new(NO, format!("cannot wait for {NAME}: {error}")));
                }
            }
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}
