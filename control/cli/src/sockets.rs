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

/// The socket of the one run that answers.
pub(crate) fn running() -> Result<PathBuf, Failure> {
    one_of(&folder())
}

fn one_of(folder: &Path) -> Result<PathBuf, Failure> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut answering: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "sock")
        })
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    answering.sort();
    match (answering.pop(), answering.as_slice()) {
        (Some(path), []) => Ok(path),
        (None, _) => {
            let message = "no testbed or switch of yours is running; start one, or name its socket \
                           with --socket";
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
        let none = one_of(folder.path()).unwrap_err();
        assert_eq!(none.code, ENVIRONMENT);
        let _second = UnixListener::bind(path("2.sock")).unwrap();
        assert_eq!(one_of(folder.path()).unwrap(), path("2.sock"));
        let _third = UnixListener::bind(path("3.sock")).unwrap();
        let several = one_of(folder.path()).unwrap_err();
        assert_eq!(several.code, USAGE);
        assert!(several.message.contains("2.sock") && several.message.contains("3.sock"));
    }
}
