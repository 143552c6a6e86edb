//! Table 1 as arithmetic (E16): iterations of Llama-3 70B, 4-way tensor, 4-way pipeline and 4-way data
//! parallel, until a flow has put P_min packets on every spine.
//!
//! The model (Llama 3 report, table 3): 80 layers, 8,192 wide, feed-forward 28,672, 64 heads of which
//! 8 have keys and values, 128,256 words, embedding and output apart. So a layer has
//! 2*8192^2 + 2*8192*1024 + 3*8192*28672 + 2*8192 weights, and the model 70.55 billion. A GPU holds a
//! sixteenth. Its gradients in bf16 go round a ring of four: 2*(4-1)/4 of them leave it per
//! iteration. Of two QPs a leaf measures one at a time, so half of that is counted.

use serde_json::json;

use super::catalog::{drops, plain, spines};
use super::claim::Claim;
use super::{Cell, Kind, Settings, Trial};
use detector::{Fabric, Rules, threshold};

const LAYERS: u64 = 80;
const WIDTH: u64 = 8_192;
const KEYS: u64 = 1_024;
const FORWARD: u64 = 28_672;
const WORDS: u64 = 128_256;
/// Tensor and pipeline parts of the model, and replicas of it.
const PARTS: u64 = 4 * 4;
const REPLICAS: u64 = 4;
const GRADIENT_BYTES: u64 = 2;
const QPS: u64 = 2;
const MTU: u64 = 4_096;

/// Weights of the model.
fn weights() -> u64 {
    let attention = 2 * WIDTH * WIDTH + 2 * WIDTH * KEYS;
    let layer = attention + 3 * WIDTH * FORWARD + 2 * WIDTH;
    LAYERS * layer + 2 * WORDS * WIDTH + WIDTH
}

/// Bytes of one measured flow per iteration.
fn counted_bytes() -> u64 {
    let gradients = weights() / PARTS * GRADIENT_BYTES;
    gradients * 2 * (REPLICAS - 1) / REPLICAS / QPS
}

/// So many packets per spine, over so many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    packets_per_spine: u64,
    spines: u16,
}

impl Sum {
    /// Iterations until they have been counted.
    fn iterations(self) -> u64 {
        let bytes = self.packets_per_spine * u64::from(self.spines) * MTU;
        bytes.div_ceil(counted_bytes())
    }

    pub(crate) fn trial(self) -> Trial {
        Trial {
            figures: vec![self.iterations() as f64],
            ..Trial::default()
        }
    }
}

pub(super) fn cells(settings: &Settings) -> Vec<Cell> {
    let mut cells = Vec::new();
    for k in spines(settings, &[64], &[64]) {
        for drop in drops(settings, &[0.005, 0.01, 0.015], &[0.005, 0.01, 0.015]) {
            let rules = Rules::new(Fabric {
                leaves: k,
                spines: k,
            });
            let ours = threshold::packets_needed(&rules, drop).unwrap_or(u64::MAX >> 24);
            for (whose, packets_per_spine) in [
                ("the paper's", super::catalog::p_min(drop)),
                ("source counts", ours),
            ] {
                // 5 at 0.5 %, and one at 1.5 %, are what is known of the table.
                let bound = if drop >= 0.015 { 1.0 } else { 5.0 };
                let sum = Sum {
                    packets_per_spine,
                    spines: k,
                };
                cells.push(plain(
                    &[
                        ("spines", json!(k)),
                        ("drop", json!(drop)),
                        ("p_min", json!(whose)),
                        ("packets_per_spine", json!(packets_per_spine)),
                        ("weights", json!(weights())),
                        ("counted_bytes_per_iteration", json!(counted_bytes())),
                    ],
                    "at most 5 iterations at 0.5 %, 1 at 1.5 % (Table 1)",
                    Claim::AtMost(bound, "iterations"),
                    1,
                    (whose, drop),
                    Kind::Sum(sum),
                ));
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the model's size is the published 70.6 billion; 60,000 packets per spine by hand.
    #[test]
    fn the_sum_by_hand() {
        assert!(
            (70_500_000_000..70_600_000_000).contains(&weights()),
            "{}",
            weights()
        );
        // 15.73 GB of 6.61 GB each.
        let sum = Sum {
            packets_per_spine: 60_000,
            spines: 64,
        };
        assert_eq!((counted_bytes() / 10_000_000, sum.iterations()), (661, 3));
    }
}
