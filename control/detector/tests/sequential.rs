//! Goal: the sequential test alarms early and seldom wrongly.

mod synthetic;

use detector::sequential::WINDOWS_PER_HORIZON;
use detector::{Evidence, LeafId, Nanos, Path, Sequential, SpineId};
use synthetic::{Dice, rules};

const PATH: Path = Path {
    src: LeafId(0),
    spine: SpineId(0),
    dst: LeafId(1),
};

/// Goal: with windows of 64 packets per spine, the median packets until the alarm
/// meet the project's targets: 1,050 at 0.5 %, 520 at 1 %, 320 at 1.5 %, 8,000 at
/// 0.1 %, with alpha split over the links of an 8x8 fabric.
#[test]
fn the_alarm_comes_early() {
    let rules = rules(Evidence::SourceCounts);
    for (rate, median_max) in [(0.005, 1_050), (0.01, 520), (0.015, 320), (0.001, 8_000)] {
        let mut packets: Vec<u64> = (0..1_001)
            .map(|seed| {
                let (mut dice, mut test) = (
                    Dice::new(seed),
                    Sequential::new(&rules, WINDOWS_PER_HORIZON),
                );
                (1..)
                    .map(|n| n * 64)
                    .find(|_| {
                        test.add(PATH, 64, dice.losses(64, rate), Nanos(0))
                            .is_some()
                    })
                    .expect("ends")
            })
            .collect();
        packets.sort_unstable();
        println!(
            "{rate}: median {} p99 {} packets",
            packets[500], packets[990]
        );
        assert!(
            packets[500] <= median_max,
            "{rate}: median {} over {median_max}",
            packets[500]
        );
    }
}

/// Goal: 2*10^8 packets over a path that loses what is tolerated on both links
/// raise no alarm.
#[test]
fn a_healthy_path_stays_quiet() {
    let rules = rules(Evidence::SourceCounts);
    let (mut dice, mut test) = (Dice::new(1), Sequential::new(&rules, WINDOWS_PER_HORIZON));
    let windows = 3_125_000u64;
    let mut lost = dice.losses(windows * 64, rules.path_p0());
    println!("{lost} losses in {} packets", windows * 64);
    for window in 0..windows {
        // Losses strewn evenly at random over the windows that are left.
        let here = dice.losses(lost, 1.0 / (windows - window) as f64);
        lost -= here;
        let alarm = test.add(PATH, 64, here, Nanos(window));
        assert_eq!(alarm, None);
    }
}
