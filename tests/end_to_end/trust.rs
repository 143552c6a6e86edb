//! Long checks tell why a run came to no verdict, and a run whose daemon is killed says so.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::run::{Started, root};

/// Goal: of each run that is killed, the check prints the flags, the exit status and the last line.
#[test]
fn a_run_without_a_verdict_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let fake = folder.path().join("spraycheck");
    std::fs::write(&fake, "#!/bin/sh\necho 'no hugepages left'\nkill -9 $$\n").expect("written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&fake, mode).expect("ours");
    let check = Command::new("scripts/trust")
        .arg("spines")
        .current_dir(root())
        .env("SPRAYCHECK", &fake)
        .output()
        .expect("bash runs");
    let text = String::from_utf8_lossy(&check.stdout);
    let told = |line: &&str| {
        line.contains("--fail") && line.ends_with(" : exit status 137: no hugepages left")
    };
    assert_eq!(text.lines().filter(told).count(), 25, "{text}");
    assert!(
        text.contains("spines: 0 of 25 runs") && !check.status.success(),
        "{text}"
    );
}

/// Goal: a testbed whose daemon is killed ends with 1 and names the signal.
#[test]
fn a_killed_daemon_is_told_with_its_signal() {
    let run = Started::new(&["testbed", "--bytes", "1GiB", "--iterations", "50"]);
    let children = format!("/proc/{0}/task/{0}/children", run.id());
    let started = Instant::now();
    let daemon = loop {
        let ids = std::fs::read_to_string(&children).unwrap_or_default();
        if let Some(id) = ids.split_whitespace().next() {
            break id.to_owned();
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no daemon");
        std::thread::sleep(Duration::from_millis(10));
    };
    let kill = Command::new("kill").args(["-9", &daemon]).status();
    assert!(kill.expect("kill runs").success());
    let done = run.wait();
    assert_eq!(done.status, 1, "{}", done.stderr);
    let told = "spraycheckd ended without an answer (signal: 9 (SIGKILL))";
    assert!(done.stderr.contains(told), "{}", done.stderr);
}
