//! Tests of the thread's end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use super::*;
use crate::change::tests::window;
use crate::seam::FromSwitch;
use crate::verdict::WindowVerdict;

/// Goal: windows of which the thread hears at its very end, and counts that waited for more, are judged and sent to who
/// hears its verdicts before it ends.
#[test]
fn the_last_verdicts_are_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("switch.sock");
    let rules = Rules::new(detector::Fabric {
        leaves: 2,
        spines: 2,
    });
    let config = ControlConfig {
        switches: vec![("leaf0".to_owned(), Vec::new())],
        rules,
        test: Test::Fixed,
        socket: Some(socket.clone()),
        versions: Vec::new(),
        subject: Subject::Fixed("a test"),
    };
    let shared = Shared::new([0]);
    let control = Control::start(config, shared.clone(), || {}).unwrap();
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(b"{\"verdicts\": {}}\n").unwrap();
    let mut lines = BufReader::new(client).lines();
    let hello = lines.next().unwrap().unwrap();
    assert!(hello.starts_with("{\"hello\""), "{hello}");
    // One that is long enough for a test, and one that waits for more.
    for (epoch, packets) in [(1, 1_000_000), (2, 100)] {
        let mut window = window(epoch);
        (window.packets, window.marked) = (packets, Some(packets));
        window.counts[..2].fill(packets as u32 / 2);
        window.sent = window.counts;
        let body = Body::Window(window);
        let report = FromSwitch { switch: 0, body };
        shared.seam.reports.push(report).unwrap();
    }
    let core = control.finish();
    // Sent to it while it did not read; then the connection ends.
    let told: Vec<WindowVerdict> = (lines.map(Result::unwrap))
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect();
    let packets: Vec<f64> = (told.iter())
        .map(|verdict| verdict.paths.iter().map(|path| path.expected).sum())
        .collect();
    assert_eq!(packets, [1_000_000.0, 100.0]);
    assert_eq!(core.verdicts().len(), 2);
}
