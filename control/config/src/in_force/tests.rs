//! Tests of what becomes of a configuration: edits, files that were changed, and what is refused.

use super::*;

const LEAF: &str = r#"
name = "leaf0"
role = "leaf0"
[fabric]
leaves = 3
spines = 2
[[port]]
name = "host0"
kind = "host"
mac = "02:00:00:00:00:01"
rate = "10Gbps"
hosts = [{ address = "10.0.0.1", mac = "02:00:00:00:01:01" }]
[[port]]
name = "up0"
kind = "uplink"
peer = "spine0"
mac = "02:00:00:00:00:10"
peer_mac = "02:00:00:00:00:20"
rate = "10Gbps"
[[port]]
name = "up1"
kind = "uplink"
peer = "spine1"
mac = "02:00:00:00:00:11"
peer_mac = "02:00:00:00:00:21"
rate = "10Gbps"
[[route]]
prefix = "10.0.1.0/24"
leaf = "leaf1"
[[route]]
prefix = "10.0.2.0/24"
leaf = "leaf2"
[measurement]
window = "60s"
"#;

fn in_force(folder: &Path, text: &str) -> InForce {
    let path = folder.join("leaf0.toml");
    std::fs::write(&path, text).unwrap();
    InForce::read(&[path]).unwrap()
}

/// Goal: each edit changes what it names, says so, and nothing else.
#[test]
fn edits_are_named_key_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let old = in_force(folder.path(), LEAF);
    let text = |text: &str| text.to_owned();
    for (edit, change) in [
        (
            Edit::Key(text("spray.policy"), Some(text("random"))),
            "leaf0: spray.policy: unset -> random",
        ),
        (
            Edit::Key(text("measurement.window_packets"), Some(text("5000"))),
            "leaf0: measurement.window_packets: unset -> 5000",
        ),
        (
            Edit::Key(text("measurement.p0"), Some(text("0.001"))),
            "leaf0: measurement.p0: unset -> 0.001",
        ),
        (
            Edit::Key(text("measurement.window"), None),
            "leaf0: measurement.window: 60s -> unset",
        ),
        (
            Edit::Route(text("10.0.3.0/24"), Some(text("leaf1"))),
            "leaf0: route 10.0.3.0/24: unset -> leaf1",
        ),
        (
            Edit::Host(text("10.0.0.2"), Some((text("host0"), None))),
            "leaf0: port[0].hosts 10.0.0.2: unset -> learned",
        ),
        (
            Edit::Host(text("10.0.0.1"), Some((text("host0"), None))),
            "leaf0: port[0].hosts 10.0.0.1: 02:00:00:00:01:01 -> learned",
        ),
    ] {
        let new = old
            .edited(0, std::slice::from_ref(&edit))
            .unwrap_or_else(|error| panic!("{edit:?}: {error}"));
        assert_eq!(old.changes(&new).unwrap(), [change], "{edit:?}");
        // And back.
        assert_eq!(new.changes(&old).unwrap().len(), 1, "{edit:?}");
    }
    let moved = old
        .edited(0, &[Edit::Route(text("10.0.2.0/24"), Some(text("leaf1")))])
        .unwrap_err();
    assert_eq!(moved.key, "route", "leaf2 must be reached: {moved}");
}

/// Goal: what is wrong is refused with its key and the cure.
#[test]
fn wrong_edits_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let old = in_force(folder.path(), LEAF);
    let text = |text: &str| text.to_owned();
    for (edit, message) in [
        (
            Edit::Key(text("spray.policy"), Some(text("fastest"))),
            "fastest",
        ),
        (
            Edit::Key(text("measurement.evidense"), Some(text("hop-counts"))),
            "did you mean \"evidence\"?",
        ),
        (
            Edit::Key(text("measurement.alpha"), Some(text("1"))),
            "measurement.alpha: 1 is out of range",
        ),
        (
            Edit::Key(text("measurement.window"), Some(text("soon"))),
            "measurement.window: \"soon\"",
        ),
        (
            Edit::Route(text("10.0.3.1/24"), Some(text("leaf1"))),
            "bits are set behind the length",
        ),
        (
            Edit::Route(text("10.0.3.0/24"), Some(text("leaf7"))),
            "leaf7 is none of leaf0 to leaf2",
        ),
        (
            Edit::Route(text("10.9.0.0/24"), None),
            "no route has prefix 10.9.0.0/24",
        ),
        (
            Edit::Host(text("10.0.1.9"), Some((text("host0"), None))),
            "10.0.1.9 lies in 10.0.1.0/24",
        ),
        (
            Edit::Host(text("10.0.0.9"), Some((text("host9"), None))),
            "there is no port \"host9\"",
        ),
    ] {
        let error = old
            .edited(0, std::slice::from_ref(&edit))
            .unwrap_err()
            .to_string();
        assert!(error.contains(message), "{edit:?}: {error}");
    }
    assert!(
        old.find(Some("leaf1"))
            .unwrap_err()
            .contains("did you mean \"leaf0\"?")
    );
}

/// Goal: a file that was changed is taken over whole, or refused by the key that cannot change.
#[test]
fn a_file_is_all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let old = in_force(folder.path(), LEAF);
    let again = |from: &str, to: &str| {
        assert!(LEAF.contains(from), "{from}");
        let new = in_force(folder.path(), &LEAF.replacen(from, to, 1));
        old.changes(&new)
    };
    let both = again(
        "[measurement]",
        "[spray]\npolicy = \"jsq\"\n[measurement]\nevidence = \"hop-counts\"",
    );
    assert_eq!(
        both.unwrap(),
        [
            "leaf0: measurement.evidence: unset -> hop-counts",
            "leaf0: spray.policy: unset -> jsq"
        ]
    );
    // Another way to write the same is no change of what runs.
    assert_eq!(
        again("leaves = 3", "leaves = 3 # as before").unwrap(),
        [""; 0]
    );
    for (from, to, key) in [
        ("rate = \"10Gbps\"", "rate = \"25Gbps\"", "port[0].rate"),
        (
            "[measurement]",
            "[measurement]\nrows = 8",
            "measurement.rows",
        ),
        (
            "[measurement]",
            "[measurement]\nprotocol = \"paper\"",
            "measurement.protocol",
        ),
        (
            "[measurement]",
            "[queue]\nlimit = \"2MiB\"\n[measurement]",
            "queue.limit",
        ),
        (
            "[measurement]",
            "[eal]\nlcores = 2\n[measurement]",
            "eal.lcores",
        ),
        (
            "spines = 2",
            "spines = 2\nmessage_port = 5000",
            "fabric.message_port",
        ),
        (
            "[measurement]",
            "[metrics]\nlisten = \"127.0.0.1:9\"\n[measurement]",
            "metrics.listen",
        ),
    ] {
        let error = again(from, to).unwrap_err();
        assert_eq!(error.key, key, "{error}");
        let message = error.to_string();
        assert!(
            message.contains("leaf0.toml") && message.contains("restart it, or take the old value"),
            "{message}"
        );
    }
}
