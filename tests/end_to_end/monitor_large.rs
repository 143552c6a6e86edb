//! The page of a fabric of 64 leaves and 64 spines in a real browser, while verdicts come: how long its frames take.
//!
//! The leaves are played over their sockets. The figures are printed (`cargo test -p tests large -- --nocapture`);
//! no test depends on them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::monitor::{free_address, get, stop, wait_for};
use crate::run::Started;

const SIZE: u64 = 64;
/// Windows of each leaf take so long.
const WINDOW: Duration = Duration::from_millis(100);
/// Links that lose packets: every leaf loses on one uplink.
const PACKETS: u64 = 4096;

/// A window from `src` to `dst`; the uplink from `src` to the spine of its own number loses 1 to 3 %, a little more each
/// time, so that the page has something to show.
fn verdict(seq: u64, src: u64, dst: u64) -> Value {
    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let at_ns = at.map_or(0, |at| at.as_nanos() as u64);
    let path = |spine| {
        let lost = if spine == src { 41 + seq % 82 } else { 0 };
        let outcome = if lost > 0 { "failed" } else { "healthy" };
        // Spine, outcome, expected, received, dropped, noise, visible, hops.
        json!([spine, outcome, PACKETS, PACKETS - lost, 0, 0.0, 0.003, null])
    };
    json!({
        "seq": seq, "at_ns": at_ns, "took_ns": 1_000_000, "src": format!("leaf{src}"), "dst": format!("leaf{dst}"),
        "qpn": 5, "epoch": seq, "evidence": "source-counts", "sequential": false,
        "paths": (0..SIZE).map(path).collect::<Vec<_>>(),
    })
}

/// Leaf `dst`, which measures windows from all others in turn.
fn play(listener: UnixListener, dst: u64, is_over: &AtomicBool) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    BufReader::new(&stream).read_line(&mut String::new())?;
    let name = format!("leaf{dst}");
    let hello = json!({ "hello": {
        "name": name, "boot": "1", "oldest": 1, "next": 1, "leaves": SIZE, "spines": SIZE, "speaks": [name],
    } });
    writeln!(stream, "{hello}")?;
    for seq in 1.. {
        if is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        let src = (dst + 1 + seq % (SIZE - 1)) % SIZE;
        writeln!(stream, "{}", verdict(seq, src, dst))?;
        std::thread::sleep(WINDOW);
    }
    Ok(())
}

fn write_file(folder: &Path) -> String {
    let text =
        format!("[fabric]\nleaves = {SIZE}\nspines = {SIZE}\n[switches]\nsockets = [\"run\"]\n");
    let path = folder.join("monitor.toml");
    std::fs::write(&path, text).expect("the monitor's file");
    path.display().to_string()
}

/// Goal: the page of 8,192 links shows 64 bad ones and follows them while 640 windows a second come; how fluid it stays
/// is printed.
#[test]
fn a_large_fabric_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(browser) = Browser::start(folder.path()) else {
        println!("skipped: no chromedriver here (scripts/packages monitor)");
        return;
    };
    let sockets = folder.path().join("run");
    std::fs::create_dir(&sockets).expect("a folder");
    let is_over = Arc::new(AtomicBool::new(false));
    let leaves: Vec<_> = (0..SIZE)
        .map(|leaf| {
            let listener = UnixListener::bind(sockets.join(format!("leaf{leaf}.sock")));
            let (listener, is_over) = (listener.expect("a socket"), Arc::clone(&is_over));
            std::thread::spawn(move || play(listener, leaf, &is_over))
        })
        .collect();
    let address = free_address();
    let file = write_file(folder.path());
    let own = folder.path().join("monitor.sock").display().to_string();
    let monitor = Started::new(&[
        "monitor",
        "--config",
        &file,
        "--listen",
        &address.to_string(),
        "--socket",
        &own,
    ]);
    wait_for("64 convictions", || {
        let summary = get(address, "/api/summary")?;
        (summary["summary"]["states"]["convicted"] == SIZE).then_some(())
    });
    browser.open(&format!("http://{address}/"));
    browser.until(
        "64 bad cells",
        "return document.querySelectorAll('#grid td.convicted').length === 64",
    );
    // The list of the bad ones is bounded, and what has the focus is in sight. Links that shared the first failed windows
    // with a bad one stay suspects for a while, more of them the slower the windows came.
    browser.until(
        "64 convicted links in the list",
        "return document.querySelectorAll('#accused .tag.convicted').length === 64",
    );
    let list = browser.run(
        "const list = document.getElementById('accused'), box = list.getBoundingClientRect();\
         const last = [...list.querySelectorAll('button')].at(-1);\
         const isSeen = () => { const b = last.getBoundingClientRect(); return b.top >= box.top - 1 && b.bottom <= box.bottom + 1; };\
         const before = isSeen(); last.focus(); const after = isSeen(); last.blur();\
         return { height: box.height, scrolls: list.scrollHeight > list.clientHeight, before, after };",
    );
    assert!(
        list["height"].as_f64().is_some_and(|height| height < 300.0),
        "{list}"
    );
    assert_eq!(
        (&list["scrolls"], &list["before"], &list["after"]),
        (&json!(true), &json!(false), &json!(true)),
        "{list}"
    );
    browser.run(
        "const m = window.measured = { frames: [], long: [], changes: 0 };\
         new PerformanceObserver(l => m.long.push(...l.getEntries().map(e => e.duration))).observe({ type: 'longtask' });\
         new MutationObserver(l => m.changes += l.length).observe(document.body, { subtree: true, childList: true,\
           attributes: true, characterData: true });\
         let last = performance.now();\
         const step = now => { m.frames.push(now - last); last = now; requestAnimationFrame(step); };\
         requestAnimationFrame(step);",
    );
    // Over a refresh of everything, which comes every ten seconds.
    std::thread::sleep(Duration::from_secs(12));
    let measured = browser.run(
        "const m = window.measured, f = m.frames.slice(1).sort((a, b) => a - b), at = p => f[Math.round((f.length - 1) * p)];\
         return { frames: f.length, p50: at(0.5), p99: at(0.99), max: at(1), long: m.long.length,\
           longest: Math.max(0, ...m.long), changes: m.changes }",
    );
    println!("64x64 page: {measured}");
    assert!(measured["frames"].as_u64() > Some(0), "{measured}");
    assert!(measured["changes"].as_u64() > Some(100), "{measured}");
    browser.screenshot("large");
    is_over.store(true, Ordering::Relaxed);
    stop(monitor);
    for leaf in leaves {
        // A monitor that has ended ends its connections.
        let _ = leaf.join().expect("a leaf");
    }
}
