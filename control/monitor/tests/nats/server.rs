//! A NATS server of a test's own: Debian's `nats-server`, with JetStream in the test's folder.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use config::Bytes;
use config::monitor_file::{Login, NatsConfig};

use crate::played::PATIENCE;

/// A server, which ends with the value.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    file: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An address that nobody has.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address")
}

impl Server {
    /// Starts one, with `more` in its file; `None`, and says so, where it is not installed.
    pub(crate) fn start(folder: &Path, more: &str) -> Option<Server> {
        let address = free_address();
        let file = folder.join("nats.conf");
        let store = folder.join("jetstream");
        let text = format!(
            "listen: \"{address}\"\njetstream {{ store_dir: \"{}\", max_file_store: 2GB }}\n{more}\n",
            store.display()
        );
        std::fs::write(&file, text).expect("the server's file");
        let Some(process) = spawn(&file) else {
            println!("skipped: no nats-server here (scripts/packages monitor)");
            return None;
        };
        let server = Server {
            process,
            address,
            file,
        };
        server.wait();
        Some(server)
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it was there");
        self.process.wait().expect("it ends");
    }

    /// Starts it again where it was.
    pub(crate) fn again(&mut self) {
        self.process = spawn(&self.file).expect("it was there before");
    }

    fn wait(&self) {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(begun.elapsed() < PATIENCE, "nats-server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// How to reach a server.
pub(crate) fn config_of(address: SocketAddr, login: Login) -> NatsConfig {
    NatsConfig {
        servers: vec![format!("nats://{address}")],
        login,
        ca_file: None,
        certificate: None,
        size: Bytes::new(256 << 20),
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "no {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A source as the monitor shows it.
pub(crate) fn source(
    monitor: &monitor::run::Monitor,
    name: &str,
) -> Option<monitor::shared::Source> {
    let sources = monitor.shared.sources();
    sources.into_iter().find(|source| source.name == name)
}

fn spawn(file: &Path) -> Option<Child> {
    // Where Debian puts it, which is not in the path of everybody.
    ["nats-server", "/usr/sbin/nats-server"]
        .into_iter()
        .find_map(|name| {
            Command::new(name)
                .arg("-c")
                .arg(file)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .ok()
        })
}
