//! A monitor beside a run, in this process: `--monitor ADDRESS` of `testbed` and `switch`.
//!
//! It hears the one socket of the run, decides by the defaults of `spraycheck monitor`, and keeps its history in a file that goes
//! when it ends. The data plane knows nothing of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use detector::Fabric;
use monitor::run::{Monitor, MonitorSettings};

use crate::failure::{ENVIRONMENT, Failure, USAGE};
use crate::monitor::Stop;
use crate::{log, sockets};

/// How often it looks whether it should end.
const LOOK: Duration = Duration::from_millis(50);
/// What SQLite and the history add to the name of the file.
const FILES: [&str; 4] = ["db", "db-wal", "db-shm", "lock"];

/// A monitor that runs.
pub(crate) struct Embedded {
    address: SocketAddr,
    history: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Starts one beside a run of so many leaves and spines, if its page is to be anywhere. It hears `socket` as soon as
    /// that is there, and says where the page is.
    pub(crate) fn beside(
        (leaves, spines): (u16, u16),
        socket: Option<&Path>,
        listen: Option<SocketAddr>,
    ) -> Result<Option<Embedded>, Failure> {
        let start = |listen| Embedded::start(listen, Fabric { leaves, spines }, socket);
        listen.map(start).transpose()
    }

    fn start(
        listen: SocketAddr,
        fabric: Fabric,
        socket: Option<&Path>,
    ) -> Result<Embedded, Failure> {
        let (Some(socket), Some(own)) = (socket, sockets::of_this_monitor()) else {
            let message = "--monitor: the run has no socket to hear; name one with --socket";
            return Err(Failure::new(USAGE, message.to_owned()));
        };
        if !listen.ip().is_loopback() {
            let message = format!(
                "--monitor: {listen} is open to others; take 127.0.0.1, or run spraycheck monitor with tokens"
            );
            return Err(Failure::new(USAGE, message));
        }
        let history = own.with_extension("db");
        let mut settings =
            MonitorSettings::new(fabric, vec![socket.to_owned()], history.clone(), listen);
        settings.socket = Some(own);
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("monitor-page".into())
            .spawn(move || run(settings, &tell, &seen))
            .map_err(|error| Failure::new(ENVIRONMENT, error.to_string()))?;
        let ended = || Err("its thread has ended".to_owned());
        let address = told.recv().unwrap_or_else(|_| ended());
        let address =
            address.map_err(|error| Failure::new(ENVIRONMENT, format!("--monitor: {error}")))?;
        let embedded = Embedded {
            address,
            history,
            stop,
            thread: Some(thread),
        };
        log::say(&format!("page         http://{}/", embedded.address));
        Ok(embedded)
    }

    /// Keeps the page, after the run, until Ctrl-C.
    pub(crate) fn stay(self) -> Result<(), Failure> {
        let stop = Stop::register()?;
        log::say(&format!(
            "the page stays at http://{}/ until Ctrl-C",
            self.address
        ));
        while !stop.is_set() {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has said why.
            let _ = thread.join();
        }
        for end in FILES {
            // What is not there needs not go.
            let _ = std::fs::remove_file(self.history.with_extension(end));
        }
    }
}

fn run(settings: MonitorSettings, tell: &Sender<Result<SocketAddr, String>>, stop: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = tell.send(Err(error.to_string()));
            return;
        }
    };
    runtime.block_on(async {
        let monitor = match Monitor::start(settings).await {
            Ok(monitor) => monitor,
            Err(error) => {
                let _ = tell.send(Err(error.to_string()));
                return;
            }
        };
        let _ = tell.send(Ok(monitor.address));
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
        monitor.finish().await;
    });
}
