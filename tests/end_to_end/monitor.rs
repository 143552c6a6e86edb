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

pub(crate) fn stop(started: Started) {
    let id = started.id().to_string();
    let kill = Command::new("kill").args(["-TERM", &id]).status();
    assert!(kill.expect("kill runs").success());
    started.wait();
}

fn write_file(folder: &Path, more: &str) -> String {
    let text = format!(
        "[fabric]\nleaves = 4\nspines = 4\n[switches]\nsockets = [\"testbed.sock\"]\n{more}"
    );
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

/// A testbed that runs until it is stopped, with links that lose 2 %.
fn testbed(socket: &str, bad: &[&str]) -> Started {
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
        socket,
    ];
    let faults: Vec<String> = bad.iter().map(|link| format!("{link}:drop=0.02")).collect();
    for fault in &faults {
        arguments.extend(["--fail", fault]);
    }
    Started::new(&arguments)
}

/// Texts of the events of routing, with their links and times, oldest first.
fn routing_events(address: SocketAddr) -> Option<Vec<(String, String, u64)>> {
    let answer = get(address, "/api/events?kind=routing")?;
    let events = answer["events"].as_array()?.iter().rev();
    let parts = events.map(|event| {
        let text = |key: &str| event[key].as_str().map(str::to_owned);
        Some((text("link")?, text("text")?, event["at_ns"].as_u64()?))
    });
    parts.collect()
}

/// Goal: with `apply = true` a convicted link of a running fabric is taken out of routing: its leaf sprays over the other
/// spines and goes on measuring those. A second one, without which a pair would keep too few spines, stays.
#[test]
fn a_convicted_link_is_taken_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("testbed.sock").display().to_string();
    let file = write_file(folder.path(), "[routing]\napply = true\nshare = 0.75\n");
    let address = free_address();
    let own = folder.path().join("monitor.sock").display().to_string();
    let listen = address.to_string();
    let monitor = Started::new(&[
        "monitor", "--config", &file, "--listen", &listen, "--socket", &own,
    ]);
    // Packets from leaf 0 to leaf 2 meet both: of 4 spines, 3 must stay.
    let bad = ["leaf0>spine1", "spine3>leaf2"];
    let testbed = testbed(&socket, &bad);
    let (taken, at_ns) = wait_for("link that was taken out", || {
        let events = routing_events(address)?;
        let done = (events.iter()).find(|(_, text, _)| text == "was taken out of routing")?;
        Some((done.0.clone(), done.2))
    });
    let kept = wait_for("link that stays", || {
        let events = routing_events(address)?;
        let stays = events.iter().find(|(_, text, _)| {
            text == "stays in routing: a pair over it would keep 2 spines, and 3 is the limit"
        })?;
        Some(stays.0.clone())
    });
    let mut both = [taken.as_str(), kept.as_str()];
    both.sort_unstable();
    assert_eq!(both, bad);
    // Windows that began later, of the pairs that had the link, have the other three spines, with counts.
    let (other, gone) = match taken.as_str() {
        "leaf0>spine1" => ("leaf0%3Espine0", 1),
        _ => ("spine0%3Eleaf2", 3),
    };
    let later_ns = at_ns + 2_000_000_000;
    let windows = wait_for("windows over three spines", || {
        let link = get(address, &format!("/api/links/{other}"))?;
        let windows = link["evidence"].as_array()?.clone();
        let is_later = |window: &Value| window["at_ns"].as_u64() > Some(later_ns);
        (windows.len() == 3 && windows.iter().all(is_later)).then_some(windows)
    });
    for window in &windows {
        let spines = window["spines"].as_array().expect("spines");
        let numbers: Vec<u64> = spines.iter().filter_map(|s| s["spine"].as_u64()).collect();
        let wanted: Vec<u64> = (0..4).filter(|&spine| spine != gone).collect();
        assert_eq!(numbers, wanted, "{window}");
        assert!(
            spines.iter().all(|s| s["received"].as_u64() > Some(0)),
            "{window}"
        );
    }
    stop(testbed);
    stop(monitor);
}

/// Goal: one command shows a fabric and its bad link on a page, which stays when the run is over, until it is told to stop;
/// the page has every test of the report, those of the last windows too.
#[test]
fn a_testbed_has_a_page_of_its_own() {
    let address = free_address();
    let listen = address.to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json");
    let report_path = report.display().to_string();
    let run = Started::new(&[
        "testbed",
        "--leaves",
        "4",
        "--spines",
        "4",
        "--fail",
        "leaf3>spine2:drop=0.01",
        "--monitor",
        &listen,
        "--json",
        &report_path,
    ]);
    wait_for("conviction on the page", || {
        (convicted(address)? == ["leaf3>spine2"]).then_some(())
    });
    // The run is over, and the page is there.
    wait_for("end of the run", || {
        let summary = get(address, "/api/summary")?;
        (summary["sources"][0]["connected"] == false).then_some(())
    });
    assert_eq!(convicted(address).expect("links"), ["leaf3>spine2"]);
    let result: Value = wait_for("the report", || {
        serde_json::from_str(&std::fs::read_to_string(&report).ok()?).ok()
    });
    let tests = result["tests"].as_array().expect("tests");
    let usable = |test: &Value| test["usable"].as_array().map_or(0, Vec::len) as u64;
    let paths: u64 = tests.iter().map(usable).sum();
    wait_for("all paths of the report", || {
        let summary = get(address, "/api/summary")?;
        (summary["summary"]["counts"]["paths"] == paths).then_some(())
    });
    let summary = get(address, "/api/summary").expect("a summary");
    assert_eq!(summary["summary"]["recorded"], tests.len(), "{summary}");
    // A second word, if the first came before the run was quite over.
    let id = run.id().to_string();
    let told = std::thread::spawn(move || {
        for _ in 0..20 {
            let kill = Command::new("kill")
                .args(["-INT", &id])
                .stderr(std::process::Stdio::null())
                .status();
            if !kill.expect("kill runs").success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let done = run.wait();
    assert!(done.stdout.contains("verdict      YES"), "{}", done.stdout);
    assert_eq!(done.status, 0, "{}", done.stderr);
    drop(told);
}

/// Goal: three faults of a testbed are named by the monitor, end to end: data plane, socket, localizer, history,
/// answers; killed with SIGKILL and started again it knows them at once; the page shows them in a real browser.
#[test]
fn three_faults_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("testbed.sock").display().to_string();
    let file = write_file(folder.path(), "");
    let address = free_address();
    let listen = address.to_string();
    let own = folder.path().join("monitor.sock").display().to_string();
    let start = || {
        Started::new(&[
            "monitor", "--config", &file, "--listen", &listen, "--socket", &own,
        ])
    };
    let first = start();
    let testbed = testbed(&socket, &FAULTS);
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
