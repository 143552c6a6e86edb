//! Runs the commands as a person would, with a time limit.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A run may take so long on a busy machine before it counts as hung.
const LIMIT: Duration = Duration::from_secs(120);

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A release binary of this build: `target/release` beside the profile this test is built in, or the
/// directory that `SPRAYCHECK_BINARIES` names (`scripts/trust sanitize` has another build there).
pub(crate) fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let target = test.ancestors().nth(3).expect("target/PROFILE/deps/TEST");
    let other = std::env::var_os("SPRAYCHECK_BINARIES").map(PathBuf::from);
    let path = other.unwrap_or_else(|| target.join("release")).join(name);
    assert!(
        path.exists(),
        "{} is missing; build it first: cargo build --release -p spraycheck -p lcore",
        path.display()
    );
    path
}

/// What a command did.
pub(crate) struct Done {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {}\n{}", self.stdout, self.stderr))
    }
}

/// Runs `spraycheck` with `arguments` in the workspace's root.
pub(crate) fn spraycheck(arguments: &[&str]) -> Done {
    Started::new(arguments).wait()
}

/// A command that runs beside the test, and never beyond it.
pub(crate) struct Started {
    child: Child,
    what: String,
}

impl Started {
    /// Starts `spraycheck` with `arguments`.
    pub(crate) fn new(arguments: &[&str]) -> Started {
        let child = Command::new(binary("spraycheck"))
            .args(arguments)
            .current_dir(root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("spraycheck starts");
        Started {
            child,
            what: format!("spraycheck {arguments:?}"),
        }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Done {
        let out = read_all(self.child.stdout.take().expect("piped"));
        let err = read_all(self.child.stderr.take().expect("piped"));
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                break status;
            }
            let what = &self.what;
            assert!(
                started.elapsed() <= LIMIT,
                "{what} did not end within {LIMIT:?}"
            );
            std::thread::sleep(Duration::from_millis(10));
        };
        Done {
            status: status.code().unwrap_or(-1),
            stdout: out.join().expect("reader").expect("UTF-8"),
            stderr: err.join().expect("reader").expect("UTF-8"),
        }
    }
}

impl Drop for Started {
    /// A test that has failed leaves nothing behind: with the command its daemon ends.
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads a pipe to its end on a thread of its own, so that the child never waits for us.
fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<std::io::Result<String>> {
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text)?;
        Ok(text)
    })
}
