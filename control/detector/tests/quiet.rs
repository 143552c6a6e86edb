//! Goal: without a fault nothing is named, and paths fail no more often than
//! promised.

mod synthetic;

use detector::{Evidence, Judge, Noise, PathState, tails::clopper_pearson};
use synthetic::{Dice, Synthetic, all_to_all, convicted, rules, up};

/// Goal: 1,000 fabrics whose links lose exactly what is tolerated: no conviction;
/// path alarms at most as promised.
#[test]
fn healthy_fabrics_convict_nothing() {
    for evidence in [Evidence::SourceCounts, Evidence::ReceiveOnly] {
        let (mut convicting, mut alarms, mut paths) = (0, 0, 0);
        for seed in 0..1_000 {
            let mut fabric = Synthetic::new(rules(evidence), 4_096);
            fabric.background = 2e-5;
            fabric.spray = if evidence == Evidence::ReceiveOnly {
                4
            } else {
                0
            };
            let tests = fabric.tests(&mut Dice::new(10_000 + seed), all_to_all());
            paths += tests.len() as u64;
            alarms += tests
                .iter()
                .filter(|test| test.state == PathState::Failed)
                .count() as u64;
            let answer = synthetic::locate(fabric.rules, &tests);
            convicting += u64::from(!answer.convicted.is_empty());
        }
        println!(
            "{evidence:?}: {convicting}/1000 fabrics convict, exact 95 % {:?}; {alarms}/{paths} paths alarm {:?}",
            clopper_pearson(convicting, 1_000, 0.95),
            clopper_pearson(alarms, paths, 0.95),
        );
        assert_eq!(convicting, 0, "{evidence:?}");
        let promised = Judge::new(rules(evidence)).rules().alpha_per_path();
        let [low, _] = clopper_pearson(alarms, paths, 0.999);
        assert!(
            low <= promised,
            "{evidence:?}: {alarms} of {paths} paths alarm, promised {promised}"
        );
    }
}

/// Goal: 10^8 marked packets over links that lose what is tolerated, added up in
/// one horizon: no conviction, no suspect.
#[test]
fn a_hundred_million_packets_convict_nothing() {
    let mut fabric = Synthetic::new(rules(Evidence::SourceCounts), 223_300);
    fabric.background = 2e-5;
    let answer = fabric.locate(&mut Dice::new(7), all_to_all());
    assert!(
        answer.convicted.is_empty() && answer.suspects.is_empty(),
        "{answer:#?}"
    );
}

/// Goal: receive-only with the full noise of random ties (sigma = sqrt(lambda)):
/// nothing is convicted in 300 healthy fabrics, a link of 10 % is.
#[test]
fn large_noise_convicts_nothing_and_hides_not_everything() {
    let mut noisy = rules(Evidence::ReceiveOnly);
    noisy.noise = Noise::RANDOM_TIE;
    for seed in 0..300 {
        // Uniform in +-111 has the standard deviation 64 = sqrt(4,096).
        let mut fabric = Synthetic::new(noisy, 4_096);
        fabric.spray = 111;
        let answer = fabric.locate(&mut Dice::new(20_000 + seed), all_to_all());
        assert!(answer.convicted.is_empty(), "seed {seed}: {answer:#?}");
        let fabric = Synthetic {
            spray: 111,
            ..Synthetic::new(noisy, 4_096)
        }
        .fault(up(2, 3), 0.1);
        let answer = fabric.locate(&mut Dice::new(20_000 + seed), all_to_all());
        assert_eq!(convicted(&answer), [up(2, 3)], "seed {seed}");
    }
}
