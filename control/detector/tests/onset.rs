//! Goal: a link that goes bad after a long healthy time is named by what was sent since; and links
//! that come and go convict no healthy one.

mod synthetic;

use detector::{Aggregator, Evidence, Fabric, Judge, Localizer, Nanos, Rules};
use synthetic::{Dice, Synthetic, all_to_all, convicted, down, rules, up};

/// Adds a window of each of these leaf pairs, one after the other from time `at` on; the time after
/// them.
fn watch(
    localizer: &mut Localizer,
    fabric: &Synthetic,
    dice: &mut Dice,
    at: u64,
    pairs: &[(u16, u16)],
) -> u64 {
    let (mut aggregator, mut judge) = (Aggregator::new(fabric.rules), Judge::new(fabric.rules));
    let mut now = at;
    for &(src, dst) in pairs {
        let mut window = fabric.window(dice, src, dst, now as u32);
        (window.first_marked_ns, window.closed_ns) = (Nanos(now), Nanos(now + 900));
        now += 1_000;
        let aggregate = aggregator.add(&window).expect("a window of this fabric");
        for test in judge.judge(&aggregate) {
            localizer.add(&test).expect("a path of this fabric");
        }
    }
    now
}

/// Goal: the downlink of spine 0 to leaf 3 dies after a long healthy time, and two of its seven paths are seen
/// to fail. When all were tested alike it is convicted at once. When the others were tested far more
/// often, what they carried before speaks against it, and it is a suspect; once the two uplinks have delivered to
/// others since, it is convicted, with the rate that it has now.
#[test]
fn a_link_that_breaks_later_is_named() {
    let healthy = Synthetic::new(rules(Evidence::SourceCounts), 256);
    let broken = Synthetic::new(rules(Evidence::SourceCounts), 256).fault(down(0, 3), 1.0);
    let seen = [(1, 3), (2, 3)];
    let others = [(0, 3), (4, 3), (5, 3), (6, 3), (7, 3)];
    for is_uneven in [false, true] {
        let mut dice = Dice::new(1);
        let mut localizer = Localizer::new(healthy.rules.localization());
        let mut now = 0;
        for _ in 0..if is_uneven { 2 } else { 20 } {
            now = watch(&mut localizer, &healthy, &mut dice, now, &all_to_all());
        }
        for _ in 0..if is_uneven { 100 } else { 0 } {
            now = watch(&mut localizer, &healthy, &mut dice, now, &others);
        }
        let broke = now;
        now = watch(&mut localizer, &broken, &mut dice, now, &seen);
        let answer = localizer.locate(Nanos(now));
        if !is_uneven {
            assert_eq!(convicted(&answer), [down(0, 3)], "{answer:#?}");
            continue;
        }
        assert_eq!(convicted(&answer), [], "{answer:#?}");
        assert!(
            answer.suspects.iter().any(|s| s.link == down(0, 3)),
            "{answer:#?}"
        );
        let delivered = [(1, 4), (2, 5), (1, 6), (2, 4)];
        now = watch(&mut localizer, &broken, &mut dice, now, &delivered);
        let answer = localizer.locate(Nanos(now));
        assert_eq!(convicted(&answer), [down(0, 3)], "{answer:#?}");
        assert_eq!(answer.suspects, [], "{answer:#?}");
        let found = answer.convicted[0];
        assert!(found.drop_rate > 0.9, "its rate since then: {found:?}");
        assert_eq!(found.first_marked_ns, Nanos(broke));
        let delivered_ns = now - 100;
        assert_eq!(
            found.at_ns,
            Nanos(delivered_ns),
            "what clears others counts"
        );
    }
}

/// Goal: random windows of random pairs while two links of a spine go bad and are repaired at random
/// times, of 400 fabrics: after every window only links that have lost packets are convicted, but for eight
/// at most. Sums over the horizon alone convicted 55 healthy links, and fewer bad ones.
#[test]
fn faults_that_come_and_go_convict_no_healthy_link() {
    let (mut guilty, mut named) = (0, 0);
    let mut wrong = Vec::new();
    for seed in 0..400u64 {
        let mut dice = Dice::new(90_000 + seed);
        let fabric = Fabric {
            leaves: 4,
            spines: 2,
        };
        let rules = Rules {
            evidence: Evidence::SourceCounts,
            p_min: 1,
            ..Rules::new(fabric)
        };
        const WINDOWS: u64 = 120;
        let link = |dice: &mut Dice| match dice.below(2) {
            0 => up(dice.below(4) as u16, 0),
            _ => down(0, dice.below(4) as u16),
        };
        let mut faults = Vec::new();
        for _ in 0..2 {
            let (from, spans) = (dice.below(WINDOWS), 1 + dice.below(WINDOWS));
            let rate = [0.005, 0.02, 0.3, 1.0][dice.below(4) as usize];
            faults.push((link(&mut dice), rate, from, from + spans));
        }
        let mut localizer = Localizer::new(rules.localization());
        let mut all = std::collections::BTreeSet::new();
        for window in 0..WINDOWS {
            let packets = [2_048, 4_096][dice.below(2) as usize];
            let mut now = Synthetic::new(rules, packets);
            now.background = 2e-5;
            for &(link, rate, from, to) in &faults {
                if (from..to).contains(&window) {
                    now = now.fault(link, rate);
                }
            }
            let src = dice.below(4) as u16;
            let dst = (src + 1 + dice.below(3) as u16) % 4;
            let after = watch(
                &mut localizer,
                &now,
                &mut dice,
                window * 1_000,
                &[(src, dst)],
            );
            let answer = localizer.locate(Nanos(after));
            for found in convicted(&answer) {
                let is_guilty =
                    |&(link, _, from, _): &(_, f64, u64, u64)| link == found && from <= window;
                if all.insert(found) && !faults.iter().any(is_guilty) {
                    wrong.push(format!(
                        "seed {seed}, window {window}: {found} of {faults:?}"
                    ));
                }
            }
        }
        guilty += faults
            .iter()
            .filter(|(_, _, from, _)| *from < WINDOWS)
            .count();
        named += all.len();
    }
    println!(
        "{} of {guilty} links that were bad for a while were named, and of others {}: {wrong:#?}",
        named - wrong.len(),
        wrong.len()
    );
    // Two faults that follow each other within a few windows, each seen by one path over the same third
    // link, look like that one.
    assert!(wrong.len() <= 8, "{wrong:#?}");
}
