//! EAL's runtime folder as ours: one process per file prefix, and nothing left behind.
//!
//! Called by `Eal::init`. EAL's own lock is off, because memory without shared files brings none,
//! so two processes of one name would share a folder and swap telemetry sockets unnoticed. The
//! kernel drops our lock with the process, however that ends.

use std::ffi::{CStr, OsStr};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dpdk_sys as sys;

use crate::error::Error;

/// EAL's folder for runtime files, known once it is up.
static RUNTIME_DIR: OnceLock<PathBuf> = OnceLock::new();

/// Held open, and so locked, to the end of the process.
static LOCK: OnceLock<File> = OnceLock::new();

const LOCK_NAME: &str = "lock";

/// Before EAL starts: sees to it that its folder can be made, and is removed in the end.
///
/// EAL keeps its files in `/var/run/dpdk` for root and in `XDG_RUNTIME_DIR` for others, with the
/// world-writable `/tmp/dpdk` as fallback, where the first user locks out the second.
pub(super) fn prepare() -> Result<(), Error> {
    // Exit handlers run last to first: registered before EAL's, ours finds the socket gone.
    // SAFETY: registers a function that lives as long as the process.
    unsafe { libc::atexit(tidy_up) };

    // SAFETY: reads a number of the process.
    let uid = unsafe { libc::geteuid() };
    let usable = |variable| std::env::var_os(variable).is_some_and(|dir| Path::new(&dir).is_dir());
    if uid == 0 || usable("RUNTIME_DIRECTORY") || usable("XDG_RUNTIME_DIR") {
        return Ok(());
    }
    let directory: PathBuf = std::env::temp_dir().join(format!("dpdk-{uid}"));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|reason| {
            Error::config(
                format!(
                    "cannot create runtime folder {}: {reason}",
                    directory.display()
                ),
                "set XDG_RUNTIME_DIR to a folder this user can write",
            )
        })?;
    // SAFETY: std's own accesses are serialized; the C code that reads the environment in this
    // process is EAL's, which this thread calls next, as `Eal::init` documents.
    unsafe { std::env::set_var("XDG_RUNTIME_DIR", &directory) };
    Ok(())
}

/// EAL's folder, empty if EAL failed before it chose one. To be called after `rte_eal_init`.
pub(super) fn runtime_dir() -> &'static Path {
    RUNTIME_DIR.get_or_init(|| {
        // SAFETY: returns a static buffer that `rte_eal_init` has filled by now.
        let text = unsafe { sys::rte_eal_get_runtime_dir() };
        // SAFETY: the buffer is NUL-terminated and static.
        let text = unsafe { CStr::from_ptr(text) };
        PathBuf::from(OsStr::from_bytes(text.to_bytes()))
    })
}

/// After EAL's start: claims the prefix for this process, or says which one has it.
pub(super) fn claim(file_prefix: &str) -> Result<(), Error> {
    let path = runtime_dir().join(LOCK_NAME);
    let failed = |reason: std::io::Error| {
        Error::config(
            format!("cannot lock {}: {reason}", path.display()),
            "remove it if it belongs to another user, or choose another file prefix",
        )
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Only for the message: an unreadable file leaves it without a number.
            let _ = file.read_to_string(&mut holder);
            return Err(Error::PrefixTaken {
                file_prefix: file_prefix.to_owned(),
                holder: holder.trim().to_owned(),
            });
        }
        Err(TryLockError::Error(reason)) => return Err(failed(reason)),
    }
    // A process that was killed leaves its file, perhaps with a longer number.
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    // `STARTED` makes this the only claim of the process.
    let _ = LOCK.set(file);
    Ok(())
}

/// EAL leaves its folder behind. A process with a prefix of its own, such as a test, would leave
/// one more each time.
extern "C" fn tidy_up() {
    let Some(directory) = RUNTIME_DIR.get() else {
        return;
    };
    // Whatever fails here is left to the next start.
    if LOCK.get().is_some() {
        let _ = std::fs::remove_file(directory.join(LOCK_NAME));
    }
    // Refused while another process has its lock in there.
    let _ = std::fs::remove_dir(directory);
}
