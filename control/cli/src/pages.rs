//! Large pages for the simulator's state.
//!
//! The switches of a large fabric take hundreds of MiB, and every event touches others of them: on
//! pages of 4 KiB the CPU has to look most of these up. glibc puts what it allocates on large pages
//! if the environment says so when the process begins (tunable `glibc.malloc.hugetlb`), so the
//! command begins once more.

use std::os::unix::process::CommandExt;
use std::process::Command;

const TUNABLES: &str = "GLIBC_TUNABLES";

/// Begins this command anew on large pages, unless the environment tunes glibc already. Where that
/// cannot be done it goes on as it is.
pub(crate) fn begin_on_large() {
    if !cfg!(target_env = "gnu") || std::env::var_os(TUNABLES).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments);
    // It returns only if it failed.
    let _error = command.env(TUNABLES, "glibc.malloc.hugetlb=1").exec();
}
