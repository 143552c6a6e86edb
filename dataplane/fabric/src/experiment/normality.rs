//! Whether the count of a path follows a normal law (E2), and its signal over noise the law
//! p*sqrt(N/k) (E3, paper 3.5).

use super::catalog::{Way, cell, drops, loads, spines};
use super::claim::Claim;
use super::trial::Setup;
use super::{Cell, Settings};

pub(super) fn cells(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds): (&[u64], u32) = if settings.quick {
        (&[1_000], 4)
    } else {
        (&[4_000, 16_000, 64_000], 20)
    };
    let mut cells = Vec::new();
    for k in spines(settings, &[8, 32], &[8]) {
        for load in loads(settings, k, &[0.97]) {
            for &packets in packets {
                let setup = Setup::new(k, packets, load);
                for way in [Way::Random, Way::Paper, Way::Ours] {
                    // Ties to the fewest leave nothing to chance that a law could be of.
                    let (claimed, claim) = match way {
                        Way::Ours => ("no random law, but even", Claim::NoiseBelow(0.1)),
                        _ => ("normal for more than 100,000 packets (3.5)", Claim::Normal),
                    };
                    let setup = setup.clone();
                    let x = packets as f64;
                    cells.push(cell(way, setup, claimed, claim, seeds, x));
                }
            }
            for drop in drops(settings, &[0.005, 0.02], &[0.02]) {
                let setup = Setup {
                    drop,
                    faults: 1,
                    ..Setup::new(k, packets[0], load)
                };
                for way in [Way::Random, Way::Paper, Way::Ours] {
                    // The law is that of random spraying; what is tighter than random (Fig. 2) can
                    // only do better.
                    let (claimed, claim) = match way {
                        Way::Random => ("SNR = p*sqrt(N/k) (3.5)", Claim::SnrLaw(drop)),
                        _ => ("SNR = p*sqrt(N/k) at least (3.5)", Claim::SnrAtLeast(drop)),
                    };
                    let x = packets[0] as f64;
                    cells.push(cell(way, setup.clone(), claimed, claim, seeds, x));
                }
            }
        }
    }
    cells
}
