//! The whole monitor, from its file until it is told to stop.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use config::MonitorFile;
use config::monitor_file::{NatsConfig, WebhookConfig};
use detector::localize::LocalizerRules;
use detector::{Fabric, Nanos};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::core::Rules;
use crate::engine::{self, RoutingSettings, Settings};
use crate::history::read::Reader;
use crate::history::{History, HistoryError, Retention};
use crate::http::{self, App, Tokens};
use crate::nats::{System, tell::Subject};
use crate::outlet::Outlet;
use crate::shared::{Shared, now};
use crate::standing::Hysteresis;
use crate::webhook::Webhook;
use crate::weight::give_way;
use crate::{apply, intake, nats, outlet, socket};

/// Why it does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The history.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A socket or thread.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, and the key that says so.
        what: String,
        /// What the system says.
        source: io::Error,
    },
}

/// A monitor that runs, on the runtime that started it.
#[derive(Debug)]
pub struct Monitor {
    /// Where the page is.
    pub address: SocketAddr,
    /// What its parts share.
    pub shared: Arc<Shared>,
    engine: engine::Running,
    ears: Ears,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl MonitorSettings {
    /// The settings of a file.
    pub fn of(file: &MonitorFile) -> MonitorSettings {
        let fabric = Fabric {
            leaves: file.leaves,
            spines: file.spines,
        };
        let nanos = |time: config::Time| Nanos(time.nanos());
        let engine = Settings {
            name: file.name.clone(),
            rules: Rules {
                localization: LocalizerRules {
                    fabric,
                    p0: file.p0.value(),
                    alpha: file.alpha.value(),
                    horizon: nanos(file.horizon),
                },
                target_rate: file.target_rate.value(),
                hysteresis: Hysteresis {
                    clear_after: nanos(file.clear_after),
                    clear_after_max: nanos(file.clear_after_max),
                    stale_after: Nanos(2 * file.horizon.nanos()),
                    ..Hysteresis::default()
                },
            },
            retention: Retention {
                verdicts: nanos(file.keep_verdicts),
                events: nanos(file.keep_events),
                bytes_max: file.keep_bytes.bytes(),
            },
            routing: RoutingSettings {
                share: file.routing_share.value(),
                apply: file.routing_apply,
            },
        };
        MonitorSettings {
            engine,
            history: file.history.clone(),
            listen: file.listen,
            tokens: Tokens {
                read: file.read_token.clone(),
                change: file.change_token.clone(),
            },
            sockets: file.sockets.clone(),
            socket: None,
            nats: file.nats.clone(),
            webhook: file.webhook.clone(),
        }
    }
}

/// What a monitor is started with.
#[derive(Clone, Debug)]
pub struct MonitorSettings {
    /// How it decides.
    pub engine: Settings,
    /// The file of the history.
    pub history: PathBuf,
    /// Where the page is.
    pub listen: SocketAddr,
    /// What reading and changing need.
    pub tokens: Tokens,
    /// Whom it hears.
    pub sockets: Vec<PathBuf>,
    /// Where it answers `spraycheck show`.
    pub socket: Option<PathBuf>,
    /// Where verdicts of other machines come from.
    pub nats: Option<NatsConfig>,
    /// Who is told of events.
    pub webhook: Option<WebhookConfig>,
}

impl MonitorSettings {
    /// Those of a fabric whose sockets it hears, with all else as it is by default.
    pub fn new(
        fabric: Fabric,
        sockets: Vec<PathBuf>,
        history: PathBuf,
        listen: SocketAddr,
    ) -> MonitorSettings {
        MonitorSettings {
            engine: Settings {
                name: "fabric".to_owned(),
                rules: Rules::new(fabric),
                retention: Retention::default(),
                routing: RoutingSettings::default(),
            },
            history,
            listen,
            tokens: Tokens::default(),
            sockets,
            socket: None,
            nats: None,
            webhook: None,
        }
    }
}

impl Monitor {
    /// Starts it; call within a tokio runtime.
    ///
    /// # Errors
    /// What cannot be had, with the cure.
    pub async fn start(settings: MonitorSettings) -> Result<Monitor, StartError> {
        let explain = |what: String| move |source| StartError::Io { what, source };
        let rules = &settings.engine.rules.localization;
        let recent_ns = now().0.saturating_sub(rules.horizon.0);
        let listener = TcpListener::bind(settings.listen)
            .await
            .map_err(explain(format!(
                "http.listen: cannot listen on {}; stop what has it, or choose another address",
                settings.listen
            )))?;
        let address = (listener.local_addr()).map_err(explain("http.listen".to_owned()))?;
        let own = settings.socket.as_deref().map(agent::socket::bind);
        let own = own
            .transpose()
            .map_err(explain("its own socket".to_owned()))?;
        let (history, restored) = History::open(&settings.history, rules.fabric, recent_ns)?;
        let reader = Reader::open(&settings.history).map_err(|source| HistoryError::Sqlite {
            path: settings.history.clone(),
            source,
        })?;
        let (shared, questions) = Shared::new(rules.fabric, history.floors());
        let fabric_name = settings.engine.name.clone();
        let system = match &settings.nats {
            Some(config) => Some(
                (System::connect(&fabric_name, config).await)
                    .map_err(explain("nats".to_owned()))?,
            ),
            None => None,
        };
        let webhook = settings
            .webhook
            .map(|config| Webhook::new(config, &fabric_name));
        let webhook = webhook.transpose().map_err(explain("webhook".to_owned()))?;
        let (orders, ordered) = tokio::sync::mpsc::channel(apply::WAITING_MAX);
        let engine = engine::start(
            settings.engine,
            history,
            restored,
            Arc::clone(&shared),
            questions,
            orders,
        )
        .map_err(explain("the monitor's thread".to_owned()))?;
        let app = Arc::new(App {
            shared: Arc::clone(&shared),
            reader: Arc::new(Mutex::new(reader)),
            tokens: settings.tokens,
            loopback_only: settings.listen.ip().is_loopback(),
        });
        let mut tasks = vec![
            tokio::spawn(http::serve(listener, Arc::clone(&app))),
            tokio::spawn(apply::serve(ordered, Arc::clone(&shared))),
        ];
        if let Some(own) = own {
            tasks.push(tokio::spawn(socket::serve(own, Arc::clone(&app))));
        }
        let mut over_nats = None;
        if let (Some(system), Some(config)) = (system, &settings.nats) {
            over_nats = Some((system.clone(), config.size.bytes()));
            let outlet = Outlet::Nats(Subject::new(system));
            tasks.push(tokio::spawn(outlet::serve(outlet, Arc::clone(&app))));
        }
        let ears = Ears::open(settings.sockets, over_nats, Arc::clone(&shared));
        let ears = ears.map_err(explain("the thread that hears".to_owned()))?;
        if let Some(webhook) = webhook {
            let outlet = Outlet::Webhook(webhook);
            tasks.push(tokio::spawn(outlet::serve(outlet, app)));
        }
        Ok(Monitor {
            address,
            shared,
            engine,
            ears,
            tasks,
        })
    }

    /// Commits what waits and ends.
    pub async fn finish(self) {
        for task in &self.tasks {
            task.abort();
        }
        for task in self.tasks {
            // Aborted, so it ends at once; its sockets go with it.
            let _ = task.await;
        }
        let (ears, engine) = (self.ears, self.engine);
        let ends = move || {
            ears.close();
            engine.finish();
        };
        let _ = tokio::task::spawn_blocking(ends).await;
    }
}

/// The thread that hears switches: reading thousands of verdicts a second must not hold up who asks.
#[derive(Debug)]
struct Ears {
    /// It ends with this value.
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Ears {
    fn open(
        sockets: Vec<PathBuf>,
        nats: Option<(System, u64)>,
        shared: Arc<Shared>,
    ) -> io::Result<Ears> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let hear = async move {
            let over_nats = async {
                match nats {
                    Some((system, size)) => {
                        nats::intake::hear(system, size, Arc::clone(&shared)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = intake::hear(sockets, Arc::clone(&shared)) => {}
                () = over_nats => {}
                _ = stopped => {}
            }
        };
        let thread = std::thread::Builder::new()
            .name("monitor-intake".into())
            .spawn(move || {
                give_way();
                runtime.block_on(hear);
            })?;
        Ok(Ears { stop, thread })
    }

    fn close(self) {
        drop(self.stop);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}
