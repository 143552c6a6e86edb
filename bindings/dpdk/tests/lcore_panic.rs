//! A panic on an lcore ends the process with its message.
//!
//! The test runs itself again as a child, as the end of a process is best seen from outside.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use dpdk::{lcore, test_support};

const CHILD: &str = "LCORE_PANIC_CHILD";

/// The child aborts, and its standard error has the panic's own words.
#[test]
fn aborts_with_its_message() {
    if env::var_os(CHILD).is_some() {
        let eal = test_support::eal();
        lcore::launch(eal, 1, || -> () {
            panic!("the worker met number {}", 6 * 7)
        })
        .unwrap()
        .join();
        return;
    }
    // An aborted process cannot tidy up after itself.
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "aborts_with_its_message", "--nocapture"])
        .env(CHILD, "1")
        .env("RUNTIME_DIRECTORY", folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.signal(),
        Some(libc::SIGABRT),
        "{:?}\n{stderr}",
        output.status
    );
    assert!(stderr.contains("the worker met number 42"), "{stderr}");
}
