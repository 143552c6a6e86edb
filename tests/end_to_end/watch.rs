//! `spraycheck watch` in a real (pseudo) terminal, beside a running testbed.

use std::process::Command;

use crate::run::{Started, spraycheck};
use crate::terminal::Terminal;

/// A testbed that answers on `socket` until it is told to end.
fn testbed(socket: &str) -> Started {
    let started = Started::new(&[
        "testbed",
        "--leaves",
        "4",
        "--spines",
        "4",
        "--qps",
        "1",
        "--bytes",
        "128MiB",
        "--iterations",
        "10000",
        "--limit",
        "120s",
        "--fail",
        "leaf1>spine1:drop=0.05",
        "--socket",
        socket,
    ]);
    for _ in 0..300 {
        if spraycheck(&["show", "version", "--socket", socket]).status == 0 {
            return started;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("no testbed answers on {socket}: {}", started.wait().stderr);
}

fn end(testbed: Started) {
    let kill = Command::new("kill")
        .args(["-TERM", &testbed.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    testbed.wait();
}

/// Goal: a person sees ports, the measured flow and the bad link, goes through switches, pauses, gets help, and is
/// told when the testbed goes and comes back; q gives the terminal back.
#[test]
fn a_testbed_is_watched() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s").display().to_string();
    let first = testbed(&socket);
    let watch = ["watch", "--socket", &socket, "--interval", "100ms"];
    let mut terminal = Terminal::start(&watch, (40, 140), &[]);
    terminal.wait_for(&[
        "leaf0 (1 of 8)",
        "5 of 5 ports up",
        "counting",
        "spine3",
        "what happened",
    ]);
    terminal.wait_for(&["leaf1>spine1 convicted loses"]);
    assert!(terminal.has_colour(), "a conviction is red");
    terminal.press("n");
    terminal.wait_for(&["leaf1 (2 of 8)"]);
    terminal.press("NN");
    terminal.wait_for(&["spine3 (8 of 8)", "a spine judges nothing"]);
    terminal.press("?");
    terminal.wait_for(&["this help"]);
    // With the help open q closes that alone.
    terminal.press("q");
    terminal.press(" ");
    terminal.wait_for(&["PAUSED", "what happened"]);
    terminal.press(" ");
    terminal.resize((14, 60));
    terminal.wait_for(&["leaf1>spine1 convicted", " q quit"]);
    terminal.resize((4, 30));
    terminal.wait_for(&["leaf1>spine1"]);
    terminal.resize((40, 140));
    end(first);
    terminal.wait_for(&["GONE for", "connecting again"]);
    let second = testbed(&socket);
    terminal.wait_for(&["answers again", "leaf1>spine1 convicted"]);
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    end(second);
}

/// Goal: a signal ends it as q does; without colours there are none.
#[test]
fn a_signal_gives_the_terminal_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s").display().to_string();
    let testbed = testbed(&socket);
    for signal in ["-TERM", "-INT", "-HUP"] {
        let watch = ["watch", "--socket", &socket, "--switch", "leaf2"];
        let mut terminal = Terminal::start(&watch, (24, 80), &[("NO_COLOR", "1")]);
        terminal.wait_for(&["leaf2 (3 of 8)", "leaf1>spine1 convicted"]);
        assert!(!terminal.has_colour(), "{}", terminal.text());
        terminal.signal(signal);
        assert_eq!(terminal.end(), 0, "{signal}");
    }
    end(testbed);
}

/// Goal: what cannot be watched is said, with status 3 and the cure.
#[test]
fn what_cannot_be_watched_is_said() {
    let done = spraycheck(&["watch", "--socket", "no/such.sock"]);
    assert_eq!(done.status, 3, "{}", done.stderr);
    assert!(done.stderr.contains("needs a terminal"), "{}", done.stderr);
    let mut terminal = Terminal::start(&["watch", "--socket", "no/such.sock"], (24, 80), &[]);
    terminal.press("");
    assert_eq!(terminal.end(), 3);
}
