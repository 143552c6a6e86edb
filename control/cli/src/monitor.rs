//! `spraycheck monitor`: the fabric-wide collector, in this process, until it is told to stop.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use config::MonitorFile;
use monitor::history::HistoryError;
use monitor::run::{Monitor, MonitorSettings, StartError};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::MonitorArgs;
use crate::failure::{ENVIRONMENT, Failure, USAGE};
use crate::{output, sockets};

/// How often it looks whether it should end.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &MonitorArgs) -> Result<ExitCode, Failure> {
    let file = MonitorFile::read(&args.config)?;
    let mut settings = MonitorSettings::of(&file);
    if let Some(listen) = args.listen {
        if !listen.ip().is_loopback() && settings.tokens.read.is_none() {
            let message = format!(
                "--listen: {listen} is open to others; give tokens in [http] of the file, or listen on 127.0.0.1"
            );
            return Err(Failure::new(USAGE, message));
        }
        settings.listen = listen;
    }
    settings.socket = args.socket.clone().or_else(sockets::of_this_monitor);
    output::print(&plan(&settings))?;
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    // As the daemon's, but events of links are to be seen.
    agent::log::begin_as(crate::log::is_json(), "info");
    let lacks = |error: &dyn std::fmt::Display| Failure::new(ENVIRONMENT, error.to_string());
    let stop = Stop::register()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| lacks(&error))?;
    runtime.block_on(async {
        let monitor = Monitor::start(settings).await.map_err(failure)?;
        output::print(&format!("page         http://{}/\n", monitor.address))?;
        stop.wait().await;
        monitor.finish().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// SIGINT and SIGTERM, which end a command that runs until it is told to stop.
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From here on signals are noted.
    pub(crate) fn register() -> Result<Stop, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))
                .map_err(|error| Failure::new(ENVIRONMENT, error.to_string()))?;
        }
        Ok(Stop(stop))
    }

    /// Whether one has come.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits for a signal.
    pub(crate) async fn wait(&self) {
        while !self.is_set() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// What it will do, for people.
fn plan(settings: &MonitorSettings) -> String {
    let fabric = settings.engine.rules.localization.fabric;
    let mut sockets: Vec<String> = (settings.sockets.iter())
        .map(|path| path.display().to_string())
        .collect();
    if let Some(nats) = &settings.nats {
        sockets.push(nats.servers.join(", "));
    }
    let webhook = match &settings.webhook {
        Some(webhook) => format!("tells        {}\n", webhook.url),
        None => String::new(),
    };
    let guard = match (&settings.tokens.read, &settings.tokens.change) {
        (Some(_), _) => "tokens needed",
        (None, Some(_)) => "this machine only, a token to change",
        (None, None) => "this machine only",
    };
    format!(
        "fabric       {}: {} leaves x {} spines, {} links\nhears        {}\nhistory      {}\nlistens      {} ({guard})\n{webhook}",
        settings.engine.name,
        fabric.leaves,
        fabric.spines,
        fabric.links(),
        sockets.join(", "),
        settings.history.display(),
        settings.listen,
    )
}

fn failure(error: StartError) -> Failure {
    let code = match &error {
        StartError::History(HistoryError::File { .. } | HistoryError::Sqlite { .. })
        | StartError::Io { .. } => ENVIRONMENT,
    };
    Failure::new(code, error.to_string())
}
