//! Tests of the history: nothing twice, nothing lost, nothing that is not of this fabric.

use agent::verdict::{Outcome, PathVerdict};
use detector::{Evidence, LeafId, Nanos};
use proptest::prelude::*;

use super::read::{Filter, Reader};
use super::*;
use crate::core::Kind;
use crate::standing::State;

const FABRIC: Fabric = Fabric {
    leaves: 4,
    spines: 2,
};

fn verdict(seq: u64) -> WindowVerdict {
    let path = |spine| PathVerdict {
        spine,
        outcome: Outcome::Healthy,
        expected: 512.25,
        received: 510,
        dropped: 1,
        noise: 0.5,
        visible: Some(0.004),
        hops: (spine == 1).then_some([1, 2, 3, 4]),
    };
    WindowVerdict {
        seq,
        at_ns: 1_000 + seq,
        took_ns: 17,
        src: LeafId(0),
        dst: LeafId(1),
        qpn: 3,
        epoch: 9,
        evidence: Evidence::HopCounts,
        sequential: true,
        paths: vec![path(0), path(1)],
    }
}

fn stream(boot: u64) -> Stream {
    Stream {
        leaf: "leaf1".into(),
        boot,
    }
}

fn event(at_ns: u64, kind: Kind, link: &str) -> Event {
    Event {
        id: 0,
        at_ns,
        kind,
        link: link.parse().unwrap(),
        from: State::Healthy,
        to: State::Convicted,
        drop_rate: 0.01,
        ci95: Some([0.008, 0.012]),
        text: String::new(),
    }
}

/// Goal: a verdict is packed small and read back as it was.
#[test]
fn verdicts_are_packed() {
    let all = [verdict(1), verdict(2)];
    let bytes = codec::write(&all);
    assert!(bytes.len() < 120, "{} bytes for 4 paths", bytes.len());
    assert_eq!(codec::read(&bytes), all);
    assert_eq!(codec::read(b"\xff\xff\xff"), []);
}

/// Goal: what was committed is there after opening again, counted once, and what comes again is known.
#[test]
fn what_is_committed_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/history.db");
    let batch = |seqs: &[u64]| {
        seqs.iter()
            .map(|&s| (stream(1), verdict(s)))
            .collect::<Vec<_>>()
    };
    {
        let (mut history, restored) = History::open(&path, FABRIC, 0).unwrap();
        assert!(restored.recent.is_empty());
        assert_eq!(history.commit(batch(&[1, 2, 4]), 5).unwrap().len(), 3);
        assert_eq!(history.commit(batch(&[2, 4, 5]), 6).unwrap(), [verdict(5)]);
        let second = History::open(&path, FABRIC, 0).unwrap_err().to_string();
        assert!(second.contains("another monitor has it"), "{second}");
    }
    let (mut history, restored) = History::open(&path, FABRIC, 0).unwrap();
    assert_eq!((history.verdicts(), history.floor(&stream(1))), (4, 3));
    assert_eq!(restored.recent.len(), 4);
    let more = history.commit(batch(&[1, 2, 3, 4, 5, 6]), 7).unwrap();
    assert_eq!(more, [verdict(3), verdict(6)]);
    assert_eq!((history.verdicts(), history.floor(&stream(1))), (6, 7));
    // Another start of the same switch begins at 1 again.
    assert_eq!(
        history
            .commit(vec![(stream(2), verdict(1))], 8)
            .unwrap()
            .len(),
        1
    );
    assert_eq!(history.skip_to(&stream(2), 10, 9).unwrap(), 8);
    assert_eq!(
        history.commit(vec![(stream(2), verdict(3))], 8).unwrap(),
        []
    );
    drop(history);
    let other = Fabric {
        leaves: 5,
        spines: 2,
    };
    let error = History::open(&path, other, 0).unwrap_err().to_string();
    assert!(error.contains("its leaves is 4 and not 5"), "{error}");
}

/// Goal: events are found by every filter, latest first, and links since a time with what happened to them.
#[test]
fn events_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let (mut history, _) = History::open(&path, FABRIC, 0).unwrap();
    let mut events = [
        event(100, Kind::Suspected, "leaf0>spine1"),
        event(200, Kind::Convicted, "leaf0>spine1"),
        event(300, Kind::Cleared, "spine0>leaf2"),
    ];
    let mut standing = Standing::default();
    standing.look(
        Nanos(200),
        crate::standing::Finding::Convicted {
            rate: 0.01,
            ci95: [0.008, 0.012],
        },
        Default::default(),
        Default::default(),
        &Default::default(),
    );
    let standings = [("leaf0>spine1".parse().unwrap(), standing)];
    history.record(&mut events, &standings).unwrap();
    assert_eq!(events.each_ref().map(|e| e.id), [1, 2, 3]);
    let reader = Reader::open(&path).unwrap();
    let ids = |filter: Filter| {
        let found = reader.events(&filter).unwrap();
        found.iter().map(|event| event.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(Filter::default()), [3, 2, 1]);
    let after = |id| {
        let found = reader.events_after(id).unwrap();
        found.iter().map(|event| event.id).collect::<Vec<_>>()
    };
    assert_eq!(
        (after(0), after(2), after(u64::MAX)),
        (vec![1, 2, 3], vec![3], vec![])
    );
    let since = |since_ns| Filter {
        since_ns: Some(since_ns),
        ..Filter::default()
    };
    assert_eq!(ids(since(200)), [3, 2]);
    let page = Filter {
        before: Some(3),
        limit: Some(1),
        ..Filter::default()
    };
    assert_eq!(ids(page), [2]);
    let of_link = Filter {
        link: "leaf0>spine1".parse().ok(),
        kind: Some(Kind::Suspected),
        ..Filter::default()
    };
    assert_eq!(ids(of_link), [1]);
    let rows = reader.links_since(0, 1_000).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["convicted"], &rows[0]["state"]),
        (&1.into(), &"convicted".into())
    );
    drop(history);
    let (_, restored) = History::open(&path, FABRIC, 0).unwrap();
    assert_eq!(restored.standings[0].1.rate, 0.01);
}

/// Goal: what is too old or too much goes, and the count of all verdicts stays.
#[test]
fn old_verdicts_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let (mut history, _) = History::open(&path, FABRIC, 0).unwrap();
    for seq in 1..=200 {
        history
            .commit(vec![(stream(1), verdict(seq))], seq)
            .unwrap();
    }
    let mut told = [event(1, Kind::Suspected, "leaf0>spine1")];
    history.record(&mut told, &[]).unwrap();
    let keep = Retention {
        verdicts: Nanos(100),
        events: Nanos(1_000),
        bytes_max: u64::MAX,
    };
    // Verdict 100 closed at 1,100.
    assert!(!history.retain(Nanos(1_200), &keep).unwrap());
    drop(history);
    let (mut history, restored) = History::open(&path, FABRIC, 0).unwrap();
    assert_eq!((restored.recent.len(), history.verdicts()), (101, 200));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.events(&Filter::default()).unwrap(), []);
    let tight = Retention {
        verdicts: Nanos(u64::MAX),
        events: Nanos(u64::MAX),
        bytes_max: 1,
    };
    history.retain(Nanos(1_200), &tight).unwrap();
    drop((history, reader));
    let (history, restored) = History::open(&path, FABRIC, 0).unwrap();
    assert_eq!((restored.recent.len(), history.floor(&stream(1))), (0, 201));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Goal: batches in any cut and any repetition, and opening again in between, keep each verdict once.
    #[test]
    fn each_verdict_is_kept_once(
        order in Just((1..=24u64).collect::<Vec<_>>()).prop_shuffle(),
        cuts in proptest::collection::vec(1..6usize, 4..12),
        again in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        let mut left = &order[..];
        let mut fresh = Vec::new();
        for cut in cuts.iter().cycle() {
            let (now, rest) = left.split_at((*cut).min(left.len()));
            left = rest;
            let (mut history, _) = History::open(&path, FABRIC, 0).unwrap();
            let batch: Vec<_> = now.iter().map(|&s| (stream(1), verdict(s))).collect();
            fresh.extend(history.commit(batch.clone(), 1).unwrap().into_iter().map(|v| v.seq));
            if again {
                prop_assert_eq!(history.commit(batch, 1).unwrap(), []);
            }
            if left.is_empty() {
                break;
            }
        }
        fresh.sort_unstable();
        prop_assert_eq!(fresh, (1..=24).collect::<Vec<_>>());
        let (history, restored) = History::open(&path, FABRIC, 0).unwrap();
        prop_assert_eq!((restored.recent.len(), history.verdicts(), history.floor(&stream(1))), (24, 24, 25));
    }
}
