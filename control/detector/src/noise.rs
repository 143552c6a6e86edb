//! Noise of the spray: how far the count of a healthy path lies below its share.
//!
//! It has two parts. The *additive* one does not grow with the window: with ties to the fewest
//! marked packets a count ends within a few packets of its share, however long the window is. The
//! *binomial* one grows like the square root of the packets: with ties by coin every tie is a
//! fresh chance. Both are measured, per policy, tie, mark, fabric and load, by
//! `spraycheck calibrate`; its table is `data/noise.tsv`, and [`Noise::calibrated`] reads it.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::tails::{binomial_terms, normal_above};

/// How seldom a healthy count exceeds [`Noise::additive_packets`].
pub const ADDITIVE_TAIL: f64 = 1e-4;

/// Tolerated losses up to which their law is summed term by term; beyond it is as good as normal.
const LOSSES_EXACT_MAX: f64 = 500.0;

/// Noise of the spray, of one path and window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// A deficit that one healthy count in 10^4 exceeds, packets. Over w windows it grows to
    /// sqrt(w) times that.
    pub additive_packets: f64,
    /// Packets over which the tail beyond falls by a factor e; 0: nothing lies beyond.
    pub decay_packets: f64,
    /// Standard deviation of the binomial part, over sqrt(lambda).
    pub sigma: f64,
}

/// A row of the table of measured noise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Spray policy, as configured.
    pub spray: String,
    /// Tie rule, as configured.
    pub tie: String,
    /// Which packets are marked, as configured.
    pub mark: String,
    /// Fabrics of up to so many spines.
    pub spines_max: u16,
    /// Load of the uplinks by the measured flow itself, up to which the row holds.
    pub load_max: f64,
    /// The noise.
    pub noise: Noise,
    /// Healthy counts that it was measured on.
    pub counts: u64,
}

/// The table that `spraycheck calibrate` wrote.
const TABLE: &str = include_str!("../data/noise.tsv");

static CALIBRATIONS: LazyLock<Vec<Calibration>> =
    LazyLock::new(|| TABLE.lines().filter_map(Calibration::parse).collect());

impl Noise {
    /// No noise at all: counts of the source are known.
    pub const NONE: Noise = Noise {
        additive_packets: 0.0,
        decay_packets: 0.0,
        sigma: 0.0,
    };
    /// JSQ(2) with random ties, one host at one uplink's rate: the queues are empty and nearly
    /// every choice is a tie, so a count varies as by chance.
    pub const RANDOM_TIE: Noise = Noise {
        sigma: 1.0,
        ..Noise::NONE
    };
    /// What nobody has measured: every receive-only test abstains.
    pub const UNKNOWN: Noise = Noise {
        sigma: 1e6,
        ..Noise::NONE
    };

    /// The noise measured for a setting, as words of the configuration; `load` is that of the
    /// uplinks by the measured flow itself. Beyond the table it is [`Noise::UNKNOWN`]: a spray
    /// that was not measured has no threshold.
    pub fn calibrated(spray: &str, tie: &str, mark: &str, spines: u16, load: f64) -> Noise {
        CALIBRATIONS
            .iter()
            .filter(|row| row.spray == spray && row.tie == tie && row.mark == mark)
            .filter(|row| spines <= row.spines_max && load <= row.load_max)
            .min_by(|a, b| {
                (a.spines_max, a.load_max)
                    .partial_cmp(&(b.spines_max, b.load_max))
                    .unwrap_or(std::cmp::Ordering::Equal)
            })
            .map_or(Noise::UNKNOWN, |row| row.noise)
    }

    /// That of the default preset: JSQ(2), ties to the fewest marked packets, first copies
    /// marked, one host that loads the uplinks by one `spines`th.
    pub fn of_default(spines: u16) -> Noise {
        let load = 1.0 / f64::from(spines.max(1));
        Noise::calibrated("jsq2", "fewest-measured", "first", spines, load)
    }

    /// Variance of the deficit of a path, packets squared, over `windows` windows of `lambda`
    /// packets in sum. The additive term counts as four standard deviations (measured: 4.5 to 6,
    /// `docs/detection.md`).
    pub fn variance(self, lambda: f64, windows: u32) -> f64 {
        let additive_sd = self.additive_packets / 4.0;
        f64::from(windows) * additive_sd * additive_sd + self.sigma * self.sigma * lambda
    }

    /// P(noise and tolerated losses together make a deficit of at least `deficit` packets), in
    /// `windows` windows of `packets` packets in sum, of which each is lost with probability `p0`.
    pub fn at_least(self, deficit: f64, packets: f64, windows: u32, p0: f64) -> f64 {
        let root = f64::from(windows).sqrt();
        let decay = self.decay_packets * root;
        let shift = self.additive_packets * root - decay * (1.0 / ADDITIVE_TAIL).ln();
        let sd = self.sigma * packets.max(0.0).sqrt();
        let mean = packets * p0;
        if mean > LOSSES_EXACT_MAX {
            let sd = (sd * sd + mean).sqrt();
            return shifted_exponential_and_normal(deficit - shift - mean, decay, sd);
        }
        let noise = |least: f64| shifted_exponential_and_normal(least - shift, decay, sd);
        let packets = packets.round().max(0.0) as u64;
        let mut left = 1.0;
        let mut sum = 0.0;
        for (lost, term) in binomial_terms(packets, p0).enumerate() {
            sum += term * noise(deficit - lost as f64);
            left -= term;
            // What is left out is added as if it all counted.
            if left < 1e-14 || lost as f64 > deficit + 10.0 * sd {
                break;
            }
        }
        (sum + left.max(0.0)).min(1.0)
    }

    /// The smallest deficit, to a hundredth of a packet, that noise and tolerated losses reach
    /// with probability at most `alpha`.
    pub fn critical(self, packets: f64, windows: u32, p0: f64, alpha: f64) -> f64 {
        let is_rare = |deficit: f64| self.at_least(deficit, packets, windows, p0) <= alpha;
        let (mut below, mut above) = (0.0, 1.0);
        while !is_rare(above) && above <= 2.0 * packets + 2.0 {
            below = above;
            above *= 2.0;
        }
        while above - below > 0.01 {
            let middle = 0.5 * (below + above);
            if is_rare(middle) {
                above = middle;
            } else {
                below = middle;
            }
        }
        above
    }
}

/// P(E + G >= x) of an exponential E of mean `decay` and a normal G of standard deviation `sd`;
/// either may be 0. The sum's closed form is that of the exponentially modified normal law.
fn shifted_exponential_and_normal(x: f64, decay: f64, sd: f64) -> f64 {
    if decay <= 0.0 && sd <= 0.0 {
        return if x <= 0.0 { 1.0 } else { 0.0 };
    }
    if sd <= 0.0 {
        return (-x / decay).exp().min(1.0);
    }
    if decay <= 0.0 {
        return normal_above(x / sd);
    }
    let ratio = sd / decay;
    let by_exponential = (0.5 * ratio * ratio - x / decay).exp() * normal_above(ratio - x / sd);
    let sum = normal_above(x / sd) + by_exponential;
    // Far below the mean the two factors overflow and vanish; the probability there is 1.
    if sum.is_finite() { sum.min(1.0) } else { 1.0 }
}

impl Calibration {
    /// The columns of the table, in order.
    pub const COLUMNS: [&str; 9] = [
        "spray",
        "tie",
        "mark",
        "spines_max",
        "load_max",
        "additive_packets",
        "decay_packets",
        "sigma",
        "counts",
    ];

    /// A line of the table; `None` for comments, headings and what is no row.
    pub fn parse(line: &str) -> Option<Calibration> {
        let cells: Vec<&str> = line.split('\t').collect();
        let [
            spray,
            tie,
            mark,
            spines,
            load,
            additive,
            decay,
            sigma,
            counts,
        ] = cells[..]
        else {
            return None;
        };
        Some(Calibration {
            spray: spray.to_owned(),
            tie: tie.to_owned(),
            mark: mark.to_owned(),
            spines_max: spines.parse().ok()?,
            load_max: load.parse().ok()?,
            noise: Noise {
                additive_packets: additive.parse().ok()?,
                decay_packets: decay.parse().ok()?,
                sigma: sigma.parse().ok()?,
            },
            counts: counts.parse().ok()?,
        })
    }

    /// The row as a line of the table.
    pub fn line(&self) -> String {
        let Noise {
            additive_packets,
            decay_packets,
            sigma,
        } = self.noise;
        format!(
            "{}\t{}\t{}\t{}\t{}\t{additive_packets:.2}\t{decay_packets:.3}\t{sigma:.4}\t{}",
            self.spray, self.tie, self.mark, self.spines_max, self.load_max, self.counts
        )
    }

    /// All rows of the table that is built in.
    pub fn all() -> &'static [Calibration] {
        &CALIBRATIONS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: by hand. Exponential alone: P(E >= 2 means) = e^-2. Normal alone: 2.5 % at 1.96.
    /// Both: P(E + G >= 0) with equal scales = 1/2 + e^0.5 * P(G > 1) = 0.7615.
    #[test]
    fn the_law_by_hand() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-4, "{a} not {b}");
        close(
            shifted_exponential_and_normal(2.0, 1.0, 0.0),
            (-2.0f64).exp(),
        );
        close(shifted_exponential_and_normal(1.959_96, 0.0, 1.0), 0.025);
        close(
            shifted_exponential_and_normal(0.0, 1.0, 1.0),
            0.5 + 0.5f64.exp() * 0.158_655,
        );
    }

    /// Goal: without losses the additive term is what one count in 10^4 exceeds, and beyond it
    /// the tail falls as told; losses only add.
    #[test]
    fn the_additive_term_is_a_quantile() {
        let noise = Noise {
            additive_packets: 6.0,
            decay_packets: 0.5,
            sigma: 0.0,
        };
        let tail = noise.at_least(6.0, 5_000.0, 1, 0.0);
        assert!((tail - 1e-4).abs() < 1e-9, "{tail}");
        let tail = noise.at_least(7.0, 5_000.0, 1, 0.0);
        assert!(
            (tail / (1e-4 * (-2.0f64).exp()) - 1.0).abs() < 1e-6,
            "{tail}"
        );
        assert!(noise.at_least(7.0, 5_000.0, 1, 4e-5) > tail);
        let critical = noise.critical(5_000.0, 1, 0.0, 1e-4);
        assert!((critical - 6.0).abs() < 0.02, "{critical}");
    }

    /// Goal: no fitted tail is steeper than theory lets it be. Every packet lowers the deficit of the
    /// uplink that has carried fewest by 1 with probability 2/k, since it wins whenever it is one of the
    /// two, and raises it by 1/k: its tail falls as exp(-t*x), exp(t/k)*(1 - 2/k*(1 - exp(-t))) = 1.
    #[test]
    fn no_tail_is_steeper_than_that_of_two_choices() {
        let mut checked = 0;
        for row in Calibration::all() {
            let words = (row.spray.as_str(), row.tie.as_str(), row.mark.as_str());
            if words != ("jsq2", "fewest-measured", "first") {
                continue;
            }
            let k = f64::from(row.spines_max);
            let falls = |t: f64| (t / k).exp() * (1.0 - 2.0 / k * (1.0 - (-t).exp())) < 1.0;
            // Below the root the product is under 1: from t = 1, where it is, up to 4.
            let (mut below, mut above) = (1.0, 4.0);
            assert!(falls(below) && !falls(above));
            while above - below > 1e-6 {
                let middle = 0.5 * (below + above);
                if falls(middle) {
                    below = middle;
                } else {
                    above = middle;
                }
            }
            assert!(row.noise.decay_packets > 1.0 / below, "{row:?}, {below}");
            checked += 1;
        }
        assert_eq!(checked, 18);
    }

    /// Goal: every row of the table can be read, is found again, and is no wider than chance by
    /// much; what is not in it has no threshold.
    #[test]
    fn the_table_is_whole() {
        let rows = TABLE
            .lines()
            .filter(|line| !line.starts_with('#') && !line.starts_with("spray\t"))
            .count();
        assert_eq!(Calibration::all().len(), rows);
        assert!(rows > 0);
        for row in Calibration::all() {
            let found = Noise::calibrated(
                &row.spray,
                &row.tie,
                &row.mark,
                row.spines_max,
                row.load_max,
            );
            assert_eq!(found, row.noise, "{row:?}");
            assert!(
                row.noise.sigma < 1.25 && row.noise.additive_packets < 20.0,
                "{row:?}"
            );
            assert_eq!(Calibration::parse(&row.line()).as_ref(), Some(row));
        }
        assert_eq!(
            Noise::calibrated("ecmp", "random", "first", 8, 0.1),
            Noise::UNKNOWN
        );
        assert_eq!(
            Noise::calibrated("jsq2", "random", "first", 8, 1.5),
            Noise::UNKNOWN
        );
    }
}
