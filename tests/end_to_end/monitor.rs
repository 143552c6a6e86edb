//! The monitor beside a testbed with three bad links, and its page in a real browser.
//!
//! The browser is Debian's Chromium with its driver (`scripts/packages monitor`); without them that part says so
//! and is skipped. `SCREENSHOTS=docs/monitor cargo test -p tests monitor` writes the pictures of docs/monitor.md.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::{Browser, DOWN, ENTER, ESCAPE, RIGHT, TAB};
use crate::run::{Started, spraycheck};

const FAULTS: [&str; 3] = ["leaf0>spine1", "leaf3>spine2", "spine3>leaf2"];

pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address")
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
}

pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(90), "no {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn stop(started: Started) {
    let id = started.id().to_string();
    let kill = Command::new("kill").args(["-TERM", &id]).status();
    assert!(kill.expect("kill runs").success());
    started.wait();
}

fn write_file(folder: &Path) -> String {
    let text = "[fabric]\nleaves = 4\nspines = 4\n[switches]\nsockets = [\"testbed.sock\"]\n";
    let path = folder.join("monitor.toml");
    std::fs::write(&path, text).expect("the monitor's file");
    path.display().to_string()
}

pub(crate) fn convicted(address: SocketAddr) -> Option<Vec<String>> {
    let answer = get(address, "/api/links")?;
    let bad = answer["links"].as_array()?.iter();
    let bad = bad.filter(|row| row["state"] == "convicted");
    bad.map(|row| Some(row["link"].as_str()?.to_owned()))
        .collect()
}

/// Goal: three faults of a testbed are named by the monitor, end to end: data plane, socket, localizer, history,
/// answers; killed with SIGKILL and started again it knows them at once; the page shows them in a real browser.
#[test]
fn three_faults_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("testbed.sock").display().to_string();
    let file = write_file(folder.path());
    let address = free_address();
    let listen = address.to_string();
    let own = folder.path().join("monitor.sock").display().to_string();
    let start = || {
        Started::new(&[
            "monitor", "--config", &file, "--listen", &listen, "--socket", &own,
        ])
    };
    let first = start();
    let mut arguments = vec![
        "testbed",
        "--leaves",
        "4",
        "--spines",
        "4",
        "--iterations",
        "1000000",
        "--limit",
        "300s",
        "--bytes",
        "16MiB",
        "--socket",
        &socket,
    ];
    let faults = FAULTS.map(|link| format!("{link}:drop=0.02"));
    for fault in &faults {
        arguments.extend(["--fail", fault]);
    }
    let testbed = Started::new(&arguments);
    wait_for("three convictions", || {
        (convicted(address)? == FAULTS).then_some(())
    });
    let summary = get(address, "/api/summary").expect("a summary");
    assert_eq!(summary["summary"]["counts"]["refused"], 0, "{summary}");
    assert_eq!(summary["sources"][0]["connected"], true, "{summary}");
    let id = first.id().to_string();
    let kill = Command::new("kill").args(["-KILL", &id]).status();
    assert!(kill.expect("kill runs").success());
    drop(first.wait());
    let recorded = |summary: &Value| summary["summary"]["recorded"].as_u64().unwrap_or(0);
    let before = recorded(&summary);
    let second = start();
    // The states come from the history, before any verdict comes again.
    let again = wait_for("the page", || convicted(address));
    assert_eq!(again, FAULTS);
    wait_for("more verdicts", || {
        let summary = get(address, "/api/summary")?;
        (recorded(&summary) > before && summary["sources"][0]["missed"] == 0).then_some(())
    });
    let rows = spraycheck(&[
        "show", "links", "--since", "1h", "--socket", &own, "--json", "-",
    ])
    .json();
    let shown: Vec<&str> = rows["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row["state"] == "convicted")
        .filter_map(|row| row["link"].as_str())
        .collect();
    assert_eq!(shown, FAULTS, "{rows}");
    in_a_browser(address, folder.path());
    stop(testbed);
    stop(second);
}

/// Uses the page with the keyboard alone, and looks at what is seen and what a screen reader is told.
fn in_a_browser(address: SocketAddr, folder: &Path) {
    let Some(browser) = Browser::start(folder) else {
        println!("skipped in part: no chromedriver here (scripts/packages monitor)");
        return;
    };
    browser.open(&format!("http://{address}/"));
    browser.until(
        "live page",
        "return document.getElementById('live').textContent === 'live'",
    );
    browser.until(
        "three accused links",
        "return document.querySelectorAll('#accused .convicted').length === 3",
    );
    let label = browser.run("return document.getElementById('picture').getAttribute('aria-label')");
    assert!(
        label
            .as_str()
            .is_some_and(|label| label.contains("3 links convicted")),
        "{label}"
    );
    browser.screenshot("fabric");

    // From the top of the page: the first stop skips to the matrix, and the matrix is one stop.
    browser.keys(TAB);
    assert_eq!(
        browser.run("return document.activeElement.textContent"),
        "Skip to the links"
    );
    browser.keys(ENTER);
    let in_grid = "return document.activeElement.getAttribute('role') === 'gridcell'";
    for _ in 0..4 {
        if browser.run(in_grid) == true {
            break;
        }
        browser.keys(TAB);
    }
    assert_eq!(browser.run(in_grid), true, "Tab comes to the matrix");
    browser.keys(RIGHT);
    let cell = browser.run("return document.activeElement.getAttribute('aria-label')");
    let cell = cell.as_str().unwrap_or_default();
    assert!(
        cell.starts_with("leaf0>spine1: convicted, loses ") && cell.contains("measured"),
        "{cell}"
    );
    browser.keys(DOWN);
    let below = browser.run("return document.activeElement.getAttribute('aria-label')");
    assert!(
        below
            .as_str()
            .is_some_and(|label| label.starts_with("leaf1>spine1: healthy")),
        "{below}"
    );
    browser.keys("\u{e013}");
    browser.keys(ENTER);
    browser.until(
        "open link",
        "return !document.getElementById('link').hidden",
    );
    browser.until("focus in it", "return document.activeElement.id === 'link'");
    assert_eq!(
        browser.run("return document.getElementById('link-title').textContent"),
        "leaf0>spine1"
    );
    let facts = browser.run("return document.getElementById('link-facts').textContent");
    for text in [
        "convicted for",
        "Loses",
        "95 %",
        "Failed paths",
        "A loss would be seen",
    ] {
        assert!(
            facts.as_str().is_some_and(|facts| facts.contains(text)),
            "{text}: {facts}"
        );
    }
    let windows = browser.run("return document.querySelectorAll('#evidence tbody tr').length");
    assert_eq!(windows, 3, "one for each far leaf");
    assert_eq!(
        browser.run("return document.querySelectorAll('#series svg circle').length > 0"),
        true
    );
    browser.screenshot("link");

    // Tab to the form, say who, send with Enter.
    for _ in 0..3 {
        if browser.run("return document.activeElement.id === 'by'") == true {
            break;
        }
        browser.keys(TAB);
    }
    browser.keys("ann");
    browser.keys(TAB);
    browser.keys("optic ordered");
    browser.keys(ENTER);
    browser.until(
        "acknowledgement",
        "return document.getElementById('link-facts').textContent.includes('ann, ')",
    );
    browser.keys(ESCAPE);
    browser.until(
        "focus where it was",
        "return document.activeElement.getAttribute('role') === 'gridcell'",
    );
    browser.until(
        "event of it",
        "return [...document.querySelectorAll('#events tbody tr')].some(r => r.textContent.includes('ann: optic ordered'))",
    );

    // The other direction, the other colours, and a filter.
    browser.run("document.querySelector('input[value=up]').focus()");
    browser.keys(RIGHT);
    browser.until(
        "downlinks",
        "return [...document.querySelectorAll('#grid td')].some(c => c.title.startsWith('spine3>leaf2: convicted'))",
    );
    browser.run("document.getElementById('theme').focus()");
    browser.keys(ENTER);
    assert_eq!(
        browser.run("return document.documentElement.dataset.theme"),
        "dark"
    );
    browser.run("const k = document.getElementById('kind'); k.value = 'acknowledged'; k.focus()");
    browser.run("document.querySelector('#filter button').focus()");
    browser.keys(ENTER);
    browser.until(
        "filtered events",
        "return document.querySelectorAll('#events tbody tr').length === 1",
    );
    browser.screenshot("dark");

    // Nothing that can be reached is without a name.
    let nameless = browser.run(
        "return [...document.querySelectorAll('button, input, select')].filter(e => \
         !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).map(e => e.outerHTML).join()",
    );
    assert_eq!(nameless, "");
    let elsewhere = browser.run(
        "return performance.getEntriesByType('resource').map(r => r.name).filter(n => !n.startsWith(location.origin)).join()",
    );
    assert_eq!(elsewhere, "", "the page takes nothing from elsewhere");
}
