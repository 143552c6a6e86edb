//! Tests of changes as control makes them: what goes to lcores, what is void meanwhile, what is refused.

use std::path::Path;

use config::InForce;
use detector::{PathState, VoidReason};
use packet::{Address, Psn, Qpn, Space};
use pipeline::report::EndReason;
use pipeline::{FlowKey, LeafId, Nanos, SpineSet, WindowReport, types};

use super::*;
use crate::control::{ControlConfig, Shared};
use crate::core::Test;
use crate::seam::{Body, FromSwitch};

const LEAF: &str = r#"
name = "leaf0"
role = "leaf0"
[fabric]
leaves = 2
spines = 2
[[port]]
name = "host0"
kind = "host"
mac = "02:00:00:00:00:01"
rate = "10Gbps"
prefixes = ["10.0.0.0/24"]
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
"#;

/// Control of one leaf on two lcores, whose file lies in `folder`.
fn state(folder: &Path) -> State {
    let path = folder.join("leaf0.toml");
    std::fs::write(&path, LEAF).unwrap();
    let subject = Subject::Switches {
        in_force: Box::new(InForce::read(&[path]).unwrap()),
        part_of: |config, _, _| config.clone(),
    };
    let (rules, test) = subject.judging().unwrap();
    assert_eq!(test, Test::Fixed);
    let config = ControlConfig {
        switches: vec![(
            "leaf0".into(),
            vec!["host0".into(), "up0".into(), "up1".into()],
        )],
        rules,
        test,
        socket: None,
        versions: Vec::new(),
        subject,
    };
    State::new(config, Shared::on(2, [3]))
}

fn key(key: &str, value: &str) -> Edit {
    Edit::Key(key.to_owned(), Some(value.to_owned()))
}

/// A healthy window from leaf 1, long enough for a test.
pub(crate) fn window(epoch: u32) -> WindowReport {
    let packets = 1_000_000u32;
    let mut counts = [0; types::FANOUT_MAX];
    counts[..2].fill(packets / 2);
    WindowReport {
        key: FlowKey {
            source: Address::v4(0x0a00_0101),
            destination: Address::v4(0x0a00_0001),
            qpn: Qpn(7),
            space: Space::Requests,
        },
        source: LeafId(1),
        destination: LeafId(0),
        epoch,
        packets: u64::from(packets),
        first_psn: Psn::new(0),
        marked: Some(u64::from(packets)),
        usable: SpineSet::first(2),
        disturbed: SpineSet::EMPTY,
        is_changed: false,
        flushed: SpineSet::first(2),
        counts,
        sent: counts,
        hops_filled: SpineSet::EMPTY,
        hops: [packet::message::Hop::default(); types::FANOUT_MAX],
        threshold: None,
        failed: SpineSet::EMPTY,
        reason: EndReason::Close,
        first_marked_at: Nanos(1),
        ended_at: Nanos(2),
    }
}

/// Lcores do what they are told: all orders come back.
fn carry_out(state: &State) {
    for lcore in 0..2 {
        while let Some(order) = state.shared.seam.orders_of(lcore).pop() {
            assert_eq!(usize::from(order.part) % 2, lcore);
            state.shared.seam.give_back(order);
        }
    }
}

/// Goal: a window that ends before a part has changed is void, one after it is judged, by the new rules.
#[test]
fn windows_are_void_until_their_part_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = state(folder.path());
    let report = |state: &State, part: u16, epoch: u32| {
        let body = Body::Window(window(epoch));
        let report = FromSwitch { switch: part, body };
        state.shared.seam.reports.push(report).unwrap();
    };
    let last = |state: &State| {
        let verdict = state.core.verdicts().last().expect("a window");
        verdict
            .tests
            .iter()
            .map(|test| test.state)
            .collect::<Vec<_>>()
    };
    report(&state, 1, 1);
    state.round();
    assert_eq!(last(&state), [PathState::Healthy; 2]);
    let said = state.edit(
        None,
        &[
            key("measurement.p0", "0.001"),
            key("measurement.idle", "2s"),
        ],
    );
    assert_eq!(
        said.unwrap(),
        [
            "leaf0: measurement.idle: unset -> 2s",
            "leaf0: measurement.p0: unset -> 0.001"
        ]
    );
    assert_eq!(state.core.rules().p0, 0.001);
    assert_eq!(state.core.verdicts().len(), 1, "what was judged stays");
    report(&state, 1, 3);
    state.round();
    assert_eq!(last(&state), [PathState::Void(VoidReason::Reconfigured); 2]);
    // Reports that wait when the order comes back are older than it.
    report(&state, 1, 5);
    carry_out(&state);
    state.round();
    assert_eq!(last(&state), [PathState::Void(VoidReason::Reconfigured); 2]);
    report(&state, 1, 7);
    state.round();
    assert_eq!(last(&state), [PathState::Healthy; 2]);
    let changes: Vec<&String> = state.core.changes().map(|(_, what)| what).collect();
    assert_eq!(changes.len(), 2, "{changes:?}");
}

/// Goal: one change at a time, to all lcores or to none; spray alone voids nothing.
#[test]
fn a_change_goes_to_all_lcores_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = state(folder.path());
    state.edit(None, &[key("spray.policy", "random")]).unwrap();
    assert!(!state.pending.voids(0) && !state.pending.is_empty());
    assert_eq!(
        state.edit(None, &[key("spray.policy", "jsq")]).unwrap_err(),
        BUSY
    );
    let waiting: Vec<usize> = (0..2)
        .map(|l| state.shared.seam.orders_of(l).len())
        .collect();
    assert_eq!(waiting, [1, 1]);
    carry_out(&state);
    state.round();
    assert!(state.pending.is_empty());
    // Other rules void what runs, although nothing changes in the switch.
    let edit = key("measurement.evidence", "hop-counts");
    state.edit(None, &[edit]).unwrap();
    assert!(state.pending.voids(0) && state.pending.voids(1));
    carry_out(&state);
    state.round();
    for wrong in [
        key("measurement.rows", "8"),
        key("queue.limit", "2MiB"),
        key("spray.policy", "fast"),
    ] {
        state
            .edit(None, &[key("spray.policy", "jsq"), wrong])
            .unwrap_err();
    }
    assert!(
        state.shared.seam.orders_of(0).is_empty(),
        "a refused edit is on its way"
    );
}

/// Goal: files that are read again take back what was set since, and a wrong one changes nothing.
#[test]
fn a_reload_is_all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = state(folder.path());
    let path = folder.path().join("leaf0.toml");
    state.edit(None, &[key("spray.policy", "random")]).unwrap();
    carry_out(&state);
    state.round();
    std::fs::write(&path, LEAF.replace("10Gbps", "25Gbps")).unwrap();
    let error = state.reload().unwrap_err();
    assert!(
        error.contains("port[0].rate: 10Gbps -> 25Gbps cannot change while leaf0 runs"),
        "{error}"
    );
    std::fs::write(&path, "nonsense = 1").unwrap();
    let error = state.reload().unwrap_err();
    assert!(error.starts_with("the configuration is wrong: "), "{error}");
    assert!(state.shared.seam.orders_of(0).is_empty());
    std::fs::write(&path, LEAF.replace("10.0.1.0/24", "10.0.2.0/24")).unwrap();
    state.shared.reload.store(true, Ordering::Relaxed);
    state.round();
    let changes: Vec<&str> = state
        .core
        .changes()
        .map(|(_, what)| what.as_str())
        .collect();
    assert_eq!(
        changes[1..],
        [
            "leaf0: route 10.0.1.0/24: leaf1 -> unset",
            "leaf0: route 10.0.2.0/24: unset -> leaf1",
            "leaf0: spray.policy: random -> unset"
        ]
    );
    assert!(state.pending.voids(0) && state.pending.voids(1));
}

/// Goal: what the data plane holds for failed is shown at the leaf that holds it, whatever the leaf's name.
#[test]
fn a_leaf_of_any_name_is_found_by_its_role() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leaf0.toml");
    let mut state = state(folder.path());
    std::fs::write(
        &path,
        LEAF.replace(r#"name = "leaf0""#, r#"name = "rack7""#),
    )
    .unwrap();
    state.config.subject = Subject::Switches {
        in_force: Box::new(InForce::read(&[path]).unwrap()),
        part_of: |config, _, _| config.clone(),
    };
    assert_eq!(state.config.subject.names(), ["rack7"]);
    let body = Body::Window(window(1));
    let report = FromSwitch { switch: 0, body };
    state.shared.seam.reports.push(report).unwrap();
    state.round();
    state.failed_paths = vec![(0, 1, 1)];
    let rows = crate::show::rows(&mut state, "spines").expect("it is known");
    let from = |via: &str| {
        let row = rows.iter().find(|row| row["via"] == via).expect("a row");
        row["below_threshold_from"].clone()
    };
    assert_eq!(from("spine0"), serde_json::json!([]));
    assert_eq!(from("spine1"), serde_json::json!(["leaf1"]));
}
