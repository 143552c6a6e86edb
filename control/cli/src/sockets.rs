//! Where a running testbed or switch answers `spraycheck show`, when nobody names a socket: one
//! socket per run in a folder of the user's own.

use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::failure::{ENVIRONMENT, Failure, USAGE};

/// The folder: in the user's runtime folder (XDG base directories), else in the temporary one.
fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(runtime) if runtime.is_dir() => runtime.join("spraycheck"),
        _ => {
            let user = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("spraycheck-{user}"))
        }
    }
}

/// A socket for this run; `None` if its folder cannot be made, which costs `show` and nothing
/// else.
pub(crate) fn of_this_run() -> Option<PathBuf> {
    let folder = folder();
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    made.ok()?;
    Some(folder.join(format!("{}.sock", std::process::id())))
}

/// The same for a monitor, which is told apart by its name.
pub(crate) fn of_this_monitor() -> Option<PathBuf> {
    let name = format!("{MONITOR}{}.sock", std::process::id());
    Some(of_this_run()?.with_file_name(name))
}

/// How the name of a monitor's socket begins.
const MONITOR: &str = "monitor-";

/// The socket of the one run that answers; that of a monitor if nothing else runs.
pub(crate) fn running() -> Result<PathBuf, Failure> {
    let folder = folder();
    match one_of(&folder, false) {
        Err(failure) if failure.code == ENVIRONMENT => one_of(&folder, true).map_err(|_| failure),
        found => found,
    }
}

/// The socket of the one monitor that answers.
pub(crate) fn running_monitor() -> Result<PathBuf, Failure> {
    one_of(&folder(), true)
}

fn one_of(folder: &Path, is_monitor: bool) -> Result<PathBuf, Failure> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut answering: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "sock")
        })
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(MONITOR) == is_monitor
        })
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    answering.sort();
    match (answering.pop(), answering.as_slice()) {
        (Some(path), []) => Ok(path),
        (None, _) => {
            let what = if is_monitor {
                "monitor"
            } else {
                "testbed or switch"
            };
            let message = format!(
                "no {what} of yours is running; start one, or name its socket with --socket"
            );
            Err(Failure::new(ENVIRONMENT, message))
        }
        (Some(last), others) => {
            let all = others
                .iter()
                .chain([&last])
                .map(|path| path.display().to_string());
            let all: Vec<String> = all.collect();
            let message = format!(
                "several are running; name one with --socket: {}",
                all.join(", ")
            );
            Err(Failure::new(USAGE, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Goal: the one that answers is found among dead ones; none and several are told apart.
    #[test]
    fn the_one_that_answers_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        drop(UnixListener::bind(path("1.sock")).unwrap());
        let none = one_of(folder.path(), false).unwrap_err();
        assert_eq!(none.code, ENVIRONMENT);
        let _second = UnixListener::bind(path("2.sock")).unwrap();
        assert_eq!(one_of(folder.path(), false).unwrap(), path("2.sock"));
        let _third = UnixListener::bind(path("3.sock")).unwrap();
        let _monitor = UnixListener::bind(path("monitor-4.sock")).unwrap();
        assert_eq!(one_of(folder.path(), true).unwrap(), path("monitor-4.sock"));
        let several = one_of(folder.path(), false).unwrap_err();
        assert_eq!(several.code, USAGE);
        assert!(several.message.contains("2.sock") && several.message.contains("3.sock"));
    }
}
