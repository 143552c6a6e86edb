//! Tests of changes: what comes over the socket reaches the link's lcore, and what cannot be is refused.

use super::*;
use crate::control::{ControlConfig, Shared};
use crate::core::Test;

fn place(link: &str, port: u16, is_fabric: bool) -> Place {
    Place {
        link: link.to_owned(),
        switch: 0,
        port: PortId(port),
        is_fabric,
        lcore: 1,
        device: (usize::from(port), 0),
        is_wire: false,
        seed: 1,
        faults: Vec::new(),
        is_on: true,
    }
}

fn state() -> State {
    let mut shared = Shared::on(2, [3]);
    let places = vec![
        place("leaf0>host0", 0, false),
        place("leaf0>spine0", 1, true),
        place("leaf0>spine1", 2, true),
    ];
    shared.links = std::sync::Arc::new(Links::new(places, 2));
    let config = ControlConfig {
        switches: Vec::new(),
        rules: detector::Rules::new(detector::Fabric {
            leaves: 2,
            spines: 2,
        }),
        test: Test::Fixed,
        socket: None,
        versions: Vec::new(),
        subject: crate::subject::Subject::Fixed("a test"),
    };
    State::new(config, shared)
}

/// Goal: a fault is added, listed and cleared, and the lcore of its link alone hears of it.
#[test]
fn faults_come_and_go() {
    let mut state = state();
    let mut ask = |line: &str| reply(line, &mut state).expect("a request");
    let added = ask(r#"{"fault": "add", "link": "leaf0>spine1", "spec": "drop=0.5"}"#);
    assert_eq!(added["rows"][2]["faults"], json!(["drop=0.5"]), "{added}");
    let second =
        ask(r#"{"fault": "add", "link": "leaf0>spine1", "spec": "match=17:+3,action=ecn"}"#);
    assert_eq!(
        second["rows"][2]["faults"].as_array().map(Vec::len),
        Some(2),
        "{second}"
    );
    assert_eq!(ask(r#"{"fault": "list"}"#), second);
    let cleared = ask(r#"{"fault": "clear", "link": "leaf0>spine1"}"#);
    assert_eq!(cleared["rows"][2]["faults"], json!([]), "{cleared}");
    let links = &state.shared.links;
    let changes: Vec<(usize, bool)> = std::iter::from_fn(|| links.next_change(1))
        .map(|change| (change.device.0, change.faults.is_none()))
        .collect();
    assert_eq!(changes, [(2, false), (2, false), (2, true)]);
    assert!(links.next_change(0).is_none());
}

/// Goal: a link leaves routing and comes back on all lcores of its switch.
#[test]
fn links_are_set_on_all_lcores() {
    let mut state = state();
    let answer = reply(
        r#"{"set": "link", "link": "leaf0>spine0", "on": false}"#,
        &mut state,
    )
    .unwrap();
    assert_eq!(answer["rows"][1]["routing"], "off", "{answer}");
    for lcore in 0..2 {
        let to = state
            .shared
            .seam
            .commands_of(lcore)
            .pop()
            .expect("a command");
        assert_eq!(usize::from(to.switch), lcore);
        let Command::SetEnabled { port, enabled } = to.command else {
            panic!("{to:?}");
        };
        assert_eq!((port, enabled), (PortId(1), false));
    }
}

/// Goal: what cannot be done is refused with the cure; other requests are left to others.
#[test]
fn what_cannot_be_is_refused() {
    let mut state = state();
    for (line, message) in [
        (
            r#"{"fault": "add", "link": "leaf0>spine9", "spec": "drop=0.1"}"#,
            "did you mean \"leaf0>spine",
        ),
        (
            r#"{"fault": "add", "link": "x", "spec": "drop=0.1"}"#,
            "its links are leaf0>host0, leaf0>spine0",
        ),
        (
            r#"{"fault": "add", "link": "leaf0>spine1", "spec": "drop=2"}"#,
            "\"2\" is no probability",
        ),
        (
            r#"{"fault": "add", "link": "leaf0>spine1", "spec": "down"}"#,
            "cannot be done to a device",
        ),
        (
            r#"{"fault": "add", "link": "leaf0>spine1"}"#,
            "write fault add with link and spec",
        ),
        (
            r#"{"set": "link", "link": "leaf0>host0", "on": false}"#,
            "is a host's, which has no other",
        ),
    ] {
        let answer = reply(line, &mut state).expect("a request");
        let error = answer["error"].as_str().expect("an error");
        assert!(error.contains(message), "{line}: {error}");
    }
    assert!(reply(r#"{"show": "ports"}"#, &mut state).is_none());
    assert!(reply("no JSON", &mut state).is_none());
    for _ in 0..FAULTS_MAX {
        let line = r#"{"fault": "add", "link": "leaf0>spine1", "spec": "drop=0.1"}"#;
        assert!(reply(line, &mut state).unwrap()["error"].is_null());
    }
    let line = r#"{"fault": "add", "link": "leaf0>spine1", "spec": "drop=0.1"}"#;
    let error = reply(line, &mut state).unwrap()["error"].to_string();
    assert!(error.contains("has 8 faults; clear some"), "{error}");
}
