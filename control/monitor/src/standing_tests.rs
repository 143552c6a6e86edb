//! Tests of a link's states.

use proptest::prelude::*;

use super::*;

const BAD: Finding = Finding::Convicted {
    rate: 0.01,
    ci95: [0.008, 0.012],
};
const GOOD: Passed = Passed {
    sent: 4096.0,
    lost: 0.0,
};

fn at(seconds: u64) -> Nanos {
    Nanos((1_000_000 + seconds) * S)
}

/// Looks once a second from `from` on, for so long; the changes with their seconds.
fn run(
    standing: &mut Standing,
    from: u64,
    seconds: u64,
    finding: impl Fn(u64) -> Finding,
    passed: Passed,
) -> Vec<(u64, State)> {
    let rules = Hysteresis::default();
    let mut changes = Vec::new();
    for second in from..from + seconds {
        let measured = Measured {
            last: (passed.sent > 0.0).then_some(at(second)),
            is_fine: true,
        };
        let change = standing.look(at(second), finding(second), passed, measured, &rules);
        changes.extend(change.map(|change| (second, change.to)));
    }
    changes
}

/// Goal: the whole way of a link that breaks and is mended.
#[test]
fn a_link_breaks_and_is_mended() {
    let mut link = Standing::default();
    assert_eq!(
        run(&mut link, 0, 10, |_| Finding::Nothing, GOOD),
        [(0, State::Healthy)]
    );
    let suspect = Finding::Suspect { rate: 0.01 };
    assert_eq!(
        run(&mut link, 10, 2, |_| suspect, GOOD),
        [(10, State::Suspect)]
    );
    assert_eq!(
        run(&mut link, 12, 60, |_| BAD, GOOD),
        [(12, State::Convicted)]
    );
    link.acknowledged = Some(Acknowledgement {
        by: "me".into(),
        note: String::new(),
        at: at(20),
    });
    assert_eq!(
        run(&mut link, 72, 700, |_| Finding::Nothing, GOOD),
        [(132, State::Cleared), (672, State::Healthy)]
    );
    assert_eq!((link.acknowledged, link.rate), (None, 0.0));
}

/// Goal: silence clears nobody, and neither do packets that still get lost, nor too few of them.
#[test]
fn only_packets_clear() {
    for passed in [
        Passed::default(),
        Passed {
            sent: 4096.0,
            lost: 41.0,
        },
        Passed {
            sent: 0.1,
            lost: 0.0,
        },
    ] {
        let mut link = Standing::default();
        run(&mut link, 0, 1, |_| BAD, GOOD);
        let changes = run(&mut link, 1, 7200, |_| Finding::Nothing, passed);
        assert_eq!(
            (changes, link.state),
            (vec![], State::Convicted),
            "{passed:?}"
        );
    }
}

/// Goal: a suspicion that ends is dropped after a minute, and one of a convicted link keeps it convicted.
#[test]
fn a_suspicion_fades() {
    let mut link = Standing::default();
    let suspect = Finding::Suspect { rate: 0.02 };
    run(&mut link, 0, 5, |_| suspect, GOOD);
    assert_eq!(
        run(&mut link, 5, 100, |_| Finding::Nothing, GOOD),
        [(65, State::Healthy)]
    );
    run(&mut link, 105, 1, |_| BAD, GOOD);
    assert_eq!(run(&mut link, 106, 500, |_| suspect, GOOD), []);
    assert_eq!(
        (link.state, link.rate),
        (State::Convicted, 0.01),
        "the conviction's rate stands"
    );
}

/// Goal: a link that nobody measures becomes unknown, and coarse measuring does not make it healthy.
#[test]
fn measuring_decides_what_is_known() {
    let mut link = Standing::default();
    run(&mut link, 0, 5, |_| Finding::Nothing, GOOD);
    let rules = Hysteresis::default();
    let old = Measured {
        last: Some(at(4)),
        is_fine: true,
    };
    let nothing = Passed::default();
    assert_eq!(
        link.look(at(100), Finding::Nothing, nothing, old, &rules),
        None
    );
    let change = link.look(at(200), Finding::Nothing, nothing, old, &rules);
    assert_eq!(change.map(|c| c.to), Some(State::Unknown));
    let coarse = Measured {
        last: Some(at(300)),
        is_fine: false,
    };
    assert_eq!(
        link.look(at(300), Finding::Nothing, GOOD, coarse, &rules),
        None
    );
}

/// Goal: a link that is bad for 30 s and good for 90 s, all night, rings a few times and not 360.
#[test]
fn a_flapping_link_does_not_ring_all_night() {
    let mut link = Standing::default();
    let flap = |second| {
        if second % 120 < 30 {
            BAD
        } else {
            Finding::Nothing
        }
    };
    let changes = run(&mut link, 0, 12 * 3600, flap, GOOD);
    let rings = (changes.iter())
        .filter(|(_, to)| *to == State::Convicted)
        .count();
    assert!((1..=5).contains(&rings), "{rings} rings: {changes:?}");
}

proptest! {
    /// Goal: whatever is found, the number of convictions is bounded by the doubling: with clean times of
    /// 1, 2, 4, .. minutes up to an hour there are at most 7 in the first two hours and one an hour after.
    #[test]
    fn convictions_are_bounded(runs in proptest::collection::vec((0..3u8, 1..400u64), 1..60)) {
        let mut link = Standing::default();
        let (mut second, mut rings) = (0, 0);
        for (what, seconds) in runs {
            let finding = match what {
                0 => Finding::Nothing,
                1 => Finding::Suspect { rate: 0.02 },
                _ => BAD,
            };
            rings += (run(&mut link, second, seconds, |_| finding, GOOD).iter())
                .filter(|(_, to)| *to == State::Convicted)
                .count() as u64;
            second += seconds;
            prop_assert!(rings <= 8 + second / 3600, "{rings} in {second} s");
            prop_assert!(link.convictions.len() <= REMEMBERED_MAX);
        }
    }
}
