//! docs/tutorial.md is run as a person would type it, but for three things: the build has been done, the live
//! view needs a terminal (`watch.rs`), and namespaces need root (`netns_fabric.rs` runs those lines).

use std::fmt::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::run::{binary, root};

/// What a line begins with that others run.
const ELSEWHERE: [&str; 5] = [
    "scripts/packages",
    "cargo build",
    "export PATH",
    "spraycheck watch",
    "scripts/netns-fabric",
];
/// Waits until the testbed of the line before answers and has named its link.
const UNTIL_NAMED: &str = "for _ in $(seq 600); do
  spraycheck show links 2> /dev/null | grep -q convicted && break
  sleep 0.1
done";

/// The indented lines, in their order.
fn typed(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("    "))
        .collect()
}

#[test]
fn the_tutorial_does_what_it_says() {
    let there = Command::new("curl").arg("--version").output();
    let has_curl = there.is_ok_and(|output| output.status.success());
    let page = root().join("docs/tutorial.md");
    let page = std::fs::read_to_string(page).expect("the tutorial");
    // Given back at once, for the testbed to take.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let free = free.expect("a free port").to_string();
    let mut script =
        "set -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
    let mut typed_lines = 0;
    for line in typed(&page) {
        // Namespaces have sockets of their own.
        let is_elsewhere = ELSEWHERE.iter().any(|begin| line.starts_with(begin))
            || line.contains("/run/spraycheck-netns/")
            || line.starts_with("curl ") && !has_curl;
        if is_elsewhere {
            continue;
        }
        let line = line.replace("127.0.0.1:9111", &free);
        typed_lines += 1;
        writeln!(script, "echo '+ '{line:?} >&2\n{line}").expect("a string");
        if line.ends_with('&') {
            writeln!(script, "{UNTIL_NAMED}").expect("a string");
        }
        if line.starts_with("kill ") {
            // Told to end, it has no answer: what it says is what it has found so far.
            writeln!(script, "wait %1 || true").expect("a string");
        }
    }
    assert!(typed_lines >= 12, "only {typed_lines} lines:\n{script}");
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["docs", "tests", "scripts"] {
        std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).expect("a link");
    }
    let programs = binary("spraycheck");
    let programs = programs.parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    // Its own runtime folder: `show` must find this testbed, and not one of another test.
    let runtime = folder.path().join("run");
    std::fs::create_dir(&runtime).expect("a folder");
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{programs}:{path}"))
        .env("XDG_RUNTIME_DIR", &runtime)
        .stdin(Stdio::null())
        .output()
        .expect("bash runs");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    for said in [
        "verdict      YES: exactly the links that lost packets were named: leaf1>spine2",
        "convicted",
    ] {
        assert!(
            out.contains(said),
            "the tutorial promises {said:?}:\n{out}\n{err}"
        );
    }
    for file in ["host.pcapng", "ports.json", "fabric/leaf0.toml"] {
        let size = std::fs::metadata(folder.path().join(file)).map_or(0, |file| file.len());
        assert!(size > 0, "{file} is not written");
    }
    if !has_curl {
        println!("skipped: the line with curl (Debian package curl)");
    }
}
