//! OpenMetrics over HTTP: what lcores publish, what devices count, what control has found.
//!
//! A thread of its own answers `GET /metrics`, so that a scrape of a large fabric delays neither control
//! nor an lcore: it reads atomics. Names are OpenConfig's where it has one (openconfig-interfaces:
//! `in-pkts`, `out-discards`; openconfig-qos: `dropped-pkts`, `max-queue-len`). Label values come from the
//! configuration and from fixed lists, so there are as many series as the configuration implies; QPNs and
//! addresses never are labels.

mod collect;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread::JoinHandle;
use std::time::SystemTime;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use crate::control::Shared;

/// The media type that goes with the `# EOF` at the end.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What control has found, as numbers: written by its thread once a second, read by scrapes.
#[derive(Debug, Default)]
pub struct Findings(Mutex<Found>);

/// See [`Findings`].
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Windows that have ended.
    pub windows: u64,
    /// Path tests by outcome.
    pub tests: Vec<(&'static str, u64)>,
    /// Links that are named: link, `convicted` or `suspect`, loss rate.
    pub links: Vec<(String, &'static str, f64)>,
    /// Commands to lcores that a full ring refused.
    pub commands_refused: u64,
}

impl Findings {
    /// Replaces all.
    pub fn set(&self, found: Found) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// What was found last.
    pub fn get(&self) -> Found {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.clone()
    }
}

/// Reads the counters that drivers keep: device, counter, value.
pub type DriverCounters = Arc<dyn Fn() -> Vec<(String, String, u64)> + Send + Sync>;

/// What is measured.
#[derive(Clone)]
pub struct Source {
    /// Names of the switches, and of each one's ports.
    pub switches: Vec<(String, Vec<String>)>,
    /// What runs.
    pub versions: Vec<(String, String)>,
    /// What lcores publish.
    pub shared: Shared,
    /// What drivers count (DPDK's xstats).
    pub drivers: DriverCounters,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("switches", &self.switches)
            .finish_non_exhaustive()
    }
}

/// All metrics as OpenMetrics text.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, registry);
    text
}

/// The registry of a source.
pub fn registry(source: Source) -> Registry {
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let started_s = started.map_or(0.0, |since| since.as_secs_f64());
    let mut registry = Registry::with_prefix("spraycheck");
    registry.register_collector(Box::new(collect::Collect { source, started_s }));
    registry
}

/// The running server; it ends when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers with the metrics of switches.
    ///
    /// # Errors
    /// As [`Server::of`].
    pub fn start(
        listen: SocketAddr,
        source: Source,
        prepare: impl FnOnce() + Send + 'static,
    ) -> io::Result<Server> {
        Server::of(listen, registry(source), prepare)
    }

    /// Binds `listen` and answers from then on. `prepare` runs first on the new thread.
    ///
    /// # Errors
    /// When the address cannot be bound: nobody would notice metrics that are not there.
    pub fn of(
        listen: SocketAddr,
        registry: Registry,
        prepare: impl FnOnce() + Send + 'static,
    ) -> io::Result<Server> {
        let explain = |error: io::Error| {
            let text = format!(
                "metrics.listen: cannot listen on {listen}: {error}; stop what has it, or choose another \
                 address"
            );
            io::Error::new(error.kind(), text)
        };
        let listener = std::net::TcpListener::bind(listen).map_err(explain)?;
        listener.set_nonblocking(true).map_err(explain)?;
        let address = listener.local_addr().map_err(explain)?;
        let registry = Arc::new(registry);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || {
                prepare();
                runtime.block_on(async move {
                    let answer = move || {
                        let registry = Arc::clone(&registry);
                        async move { ([(CONTENT_TYPE, OPENMETRICS)], text(&registry)) }
                    };
                    let index = || async { "spraycheck: metrics are at /metrics\n" };
                    let router = Router::new()
                        .route("/metrics", get(answer))
                        .route("/", get(index));
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                        return;
                    };
                    // A client that keeps its connection does not keep the process.
                    tokio::select! {
                        served = axum::serve(listener, router).into_future() => {
                            if let Err(error) = served {
                                tracing::warn!("metrics: {error}");
                            }
                        }
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Server {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Nobody hears it if the thread has ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
