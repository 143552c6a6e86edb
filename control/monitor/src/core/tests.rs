//! Tests of the monitor's core: synthetic verdicts with known faults.

use agent::verdict::PathVerdict;
use detector::{Evidence, SpineId};
use proptest::prelude::*;

use super::*;

const T0: u64 = 1_800_000_000_000_000_000;
const S: u64 = 1_000_000_000;
const PACKETS: u64 = 4096;

fn fabric() -> Fabric {
    Fabric {
        leaves: 4,
        spines: 4,
    }
}

/// A window of all spines in which the links named lose their share of 4,096 packets a spine.
fn verdict(src: u16, dst: u16, at_ns: u64, faults: &[(Link, f64)]) -> WindowVerdict {
    let path = |spine: u16| {
        let (src, dst, x) = (LeafId(src), LeafId(dst), SpineId(spine));
        let links = [
            Link::Up {
                leaf: src,
                spine: x,
            },
            Link::Down {
                spine: x,
                leaf: dst,
            },
        ];
        let rate: f64 = (faults.iter())
            .filter(|(link, _)| links.contains(link))
            .map(|(_, rate)| rate)
            .sum();
        let lost = (PACKETS as f64 * rate).round() as u64;
        PathVerdict {
            spine,
            outcome: match lost {
                0 => Outcome::Healthy,
                _ => Outcome::Failed,
            },
            expected: PACKETS as f64,
            received: PACKETS - lost,
            dropped: 0,
            noise: 0.0,
            visible: Some(0.003),
            hops: None,
        }
    };
    WindowVerdict {
        seq: 0,
        at_ns,
        took_ns: S,
        src: LeafId(src),
        dst: LeafId(dst),
        qpn: 7,
        epoch: 1,
        evidence: Evidence::SourceCounts,
        sequential: false,
        paths: (0..fabric().spines).map(path).collect(),
    }
}

fn pairs() -> impl Iterator<Item = (u16, u16)> {
    let leaves = fabric().leaves;
    (0..leaves).flat_map(move |src| {
        (0..leaves)
            .filter(move |&dst| dst != src)
            .map(move |dst| (src, dst))
    })
}

fn link(name: &str) -> Link {
    name.parse().unwrap()
}

/// Rounds of all pairs, one a second; what was told.
fn rounds(
    core: &mut Core,
    from: u64,
    seconds: u64,
    faults: &[(Link, f64)],
) -> Vec<(u64, Kind, String)> {
    let mut told = Vec::new();
    for second in from..from + seconds {
        let now = T0 + second * S;
        for (src, dst) in pairs() {
            core.take(verdict(src, dst, now, faults), Nanos(now));
        }
        let events = core.evaluate(Nanos(now), 64);
        let of = |event: Event| (second, event.kind, event.link.to_string());
        told.extend(events.into_iter().map(of));
    }
    told
}

fn in_state(core: &Core, state: State) -> Vec<String> {
    let rows = core.rows(Nanos(T0)).into_iter();
    let of_state = rows.filter(|row| row.state == state);
    of_state.map(|row| row.link.to_string()).collect()
}

/// Goal: three faults at once are named and nothing else is; all other links are healthy; mended, they are
/// cleared.
#[test]
fn three_faults_are_named_and_cleared() {
    let mut core = Core::new(Rules::new(fabric()));
    let faults = [
        (link("leaf0>spine1"), 0.01),
        (link("spine2>leaf3"), 0.02),
        (link("leaf2>spine2"), 0.05),
    ];
    let told = rounds(&mut core, 0, 3, &faults);
    assert_eq!(told.len(), 3, "{told:?}");
    let convicted = ["leaf0>spine1", "leaf2>spine2", "spine2>leaf3"];
    assert_eq!(in_state(&core, State::Convicted), convicted);
    assert_eq!(in_state(&core, State::Healthy).len(), 29);
    let row = core.row(link("leaf0>spine1"), Nanos(T0 + 2 * S)).unwrap();
    let [low, high] = row.ci95.unwrap();
    assert!(low < 0.01 && 0.01 < high && row.paths == 3, "{row:?}");
    assert_eq!(row.covered.named_from, Some(0.003));
    assert_eq!(core.evidence(link("spine2>leaf3")).len(), 3);
    let told = rounds(&mut core, 3, 200, &[]);
    let cleared: Vec<_> = told.iter().filter(|t| t.1 == Kind::Cleared).collect();
    assert_eq!(cleared.len(), 3, "{told:?}");
    // The localizer forgets within a horizon, and clearing takes a minute more.
    assert!(
        cleared.iter().all(|(at, ..)| (63..=130).contains(at)),
        "{told:?}"
    );
    assert!(in_state(&core, State::Convicted).is_empty());
}

/// Goal: one victim makes a suspect, with what is missing.
#[test]
fn one_victim_is_a_suspicion() {
    let mut core = Core::new(Rules::new(fabric()));
    let bad = [(link("leaf0>spine1"), 0.02)];
    core.take(verdict(0, 1, T0, &bad), Nanos(T0));
    let events = core.evaluate(Nanos(T0), 64);
    let links: Vec<String> = events.iter().map(|e| e.link.to_string()).collect();
    assert_eq!(links, ["leaf0>spine1", "spine1>leaf1"]);
    assert_eq!(events[0].text, "missing: second destination");
    assert!(events.iter().all(|e| e.kind == Kind::Suspected));
}

/// Goal: with the sequential test nothing is named without an alarm, whatever the sums say.
#[test]
fn a_sequential_test_names_by_alarms() {
    for (alarms, named) in [(false, 0), (true, 1)] {
        let mut core = Core::new(Rules::new(fabric()));
        for (src, dst) in pairs() {
            let mut one = verdict(src, dst, T0, &[(link("leaf0>spine1"), 0.02)]);
            one.sequential = true;
            for path in one.paths.iter_mut().filter(|_| !alarms) {
                path.outcome = Outcome::TooFewPackets;
            }
            core.take(one, Nanos(T0));
        }
        assert_eq!(core.evaluate(Nanos(T0), 64).len(), named);
    }
}

/// Goal: evaluation in small steps comes to the same as in one.
#[test]
fn steps_come_to_the_same() {
    let mut core = Core::new(Rules::new(fabric()));
    for (src, dst) in pairs() {
        core.take(
            verdict(src, dst, T0, &[(link("spine3>leaf0"), 0.02)]),
            Nanos(T0),
        );
    }
    let mut found = Vec::new();
    for _ in 0..fabric().spines {
        assert!(core.is_due(Nanos(T0)));
        found.extend(core.evaluate(Nanos(T0), 1));
    }
    assert!(!core.is_due(Nanos(T0)));
    assert_eq!(found.len(), 1, "{found:?}");
}

/// Goal: only a convicted link of this fabric is acknowledged.
#[test]
fn acknowledging_needs_a_conviction() {
    let mut core = Core::new(Rules::new(fabric()));
    rounds(&mut core, 0, 1, &[(link("leaf0>spine1"), 0.02)]);
    let event = core.acknowledge(link("leaf0>spine1"), "ann", "optic ordered", Nanos(T0));
    assert_eq!(event.unwrap().text, "ann: optic ordered");
    let row = core.row(link("leaf0>spine1"), Nanos(T0)).unwrap();
    assert_eq!(row.acknowledged.unwrap().by, "ann");
    for (name, why) in [
        ("leaf1>spine1", "is healthy"),
        ("leaf9>spine1", "is no link"),
    ] {
        let error = core.acknowledge(link(name), "", "", Nanos(T0)).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

/// Goal: what is no verdict of this fabric is told apart.
#[test]
fn wrong_verdicts_are_refused() {
    let core = Core::new(Rules::new(fabric()));
    let good = verdict(0, 1, T0, &[]);
    let with = |change: fn(&mut WindowVerdict)| {
        let mut verdict = good.clone();
        change(&mut verdict);
        core.check(&verdict)
    };
    assert_eq!(with(|_| {}), Ok(()));
    assert_eq!(with(|v| v.dst = v.src), Err(Refusal::OutsideFabric));
    assert_eq!(with(|v| v.src = LeafId(4)), Err(Refusal::OutsideFabric));
    assert_eq!(with(|v| v.paths[3].spine = 4), Err(Refusal::OutsideFabric));
    assert_eq!(with(|v| v.paths.clear()), Err(Refusal::Paths));
    assert_eq!(with(|v| v.at_ns = u64::MAX), Err(Refusal::Number));
    assert_eq!(with(|v| v.paths[1].spine = 0), Err(Refusal::Paths));
    assert_eq!(
        with(|v| v.paths[0].expected = f64::NAN),
        Err(Refusal::Number)
    );
    assert_eq!(
        with(|v| v.paths[0].received = u64::MAX),
        Err(Refusal::Number)
    );
    assert_eq!(
        with(|v| v.paths[0].visible = Some(-0.1)),
        Err(Refusal::Number)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Goal: the order in which verdicts of a second arrive changes nothing.
    #[test]
    fn order_changes_nothing(order in Just(pairs().collect::<Vec<_>>()).prop_shuffle(), rate in 0.002..0.2f64) {
        let faults = [(link("leaf1>spine0"), rate), (link("spine3>leaf2"), rate / 2.0)];
        let rows = |order: &mut dyn Iterator<Item = (u16, u16)>| {
            let mut core = Core::new(Rules::new(fabric()));
            for (src, dst) in order {
                core.take(verdict(src, dst, T0, &faults), Nanos(T0));
            }
            core.evaluate(Nanos(T0), 64);
            core.rows(Nanos(T0))
        };
        prop_assert_eq!(rows(&mut order.into_iter()), rows(&mut pairs()));
    }

    /// Goal: a clock that is ahead does not carry the fabric's evidence into the future.
    #[test]
    fn a_wrong_clock_harms_nobody(ahead in 3..1_000_000_000u64) {
        let mut core = Core::new(Rules::new(fabric()));
        rounds(&mut core, 0, 1, &[(link("leaf0>spine1"), 0.02)]);
        core.take(verdict(2, 3, T0 + ahead * S, &[]), Nanos(T0));
        core.evaluate(Nanos(T0 + S), 64);
        prop_assert_eq!(in_state(&core, State::Convicted), ["leaf0>spine1"]);
        prop_assert_eq!(core.counts().ahead, 1);
    }
}
