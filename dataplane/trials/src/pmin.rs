//! How many packets per spine each kind of evidence needs: the table of error rates.
//!
//! Every row names beforehand how many packets per spine it may use; its trials, on seeds that no
//! threshold was made from, say whether that is enough.

use detector::tails::clopper_pearson;
use detector::{Evidence, Fabric, Noise, Rules};
use pipeline::{Mark, Policy, Tie};
use rayon::prelude::*;
use serde::Serialize;

use crate::host::{Arrivals, Recovery};
use crate::pair::{Bad, PairConfig, Side};
use crate::seed::{Purpose, Seed};
use crate::setup::Leaves;
use crate::trial::{self, Outcome, TrialError};
use crate::{paper, quiet, stream};

/// Loss rate of a healthy link in most rows; also what is tolerated there.
pub const BACKGROUND: f64 = detector::rules::DEFAULT_P0;
/// The upper 95 % limit of the share of missed faults that counts as none.
pub const FNR_MAX: f64 = 0.005;

/// Which rows, how many trials.
#[derive(Clone, Debug)]
pub struct Options {
    /// Trials per row.
    pub trials: u32,
    /// Numbers of spines.
    pub spines: Vec<u16>,
    /// Only rows whose name contains this.
    pub only: Option<String>,
    /// Only rows of these loss rates of the bad link; empty: all.
    pub rates: Vec<f64>,
    /// Marked packets of the quiet run; 0: none.
    pub quiet_packets: u64,
    /// Trials per row of the paper's method; 0: none.
    pub paper_trials: u32,
}

impl Default for Options {
    /// What the project promises. Where the exact law expects one or two misses per thousand, one
    /// thousand trials cannot show that there are fewer than five.
    fn default() -> Options {
        Options {
            trials: 4_000,
            spines: vec![8, 32],
            only: None,
            rates: Vec::new(),
            quiet_packets: 100_000_000,
            paper_trials: 0,
        }
    }
}

/// A row of the table. Rates are probabilities.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What is shown: evidence and circumstances.
    pub name: String,
    /// What losses are read from.
    pub evidence: &'static str,
    /// Tie rule of the spray.
    pub tie: &'static str,
    /// Which packets are marked.
    pub mark: &'static str,
    /// Loss rate of the bad link; 0: none is bad.
    pub rate: f64,
    /// k.
    pub k: u16,
    /// Load of the uplinks by the measured flow.
    pub load: f64,
    /// Loss rate of every other link.
    pub background: f64,
    /// Packets per spine that the test may use.
    pub packets_per_spine: u64,
    /// Trials, each with one bad link.
    pub trials: u64,
    /// Tests of healthy paths.
    pub healthy_paths: u64,
    /// Healthy paths called failed.
    pub false_paths: u64,
    /// Their share.
    pub fpr: f64,
    /// Its exact (Clopper-Pearson) 95 % interval.
    pub fpr_ci95: [f64; 2],
    /// Trials whose bad link was not found.
    pub misses: u64,
    /// Their share.
    pub fnr: f64,
    /// Its exact two-sided 95 % interval.
    pub fnr_ci95: [f64; 2],
    /// Its exact one-sided upper 95 % limit.
    pub fnr_upper95: f64,
    /// Standard deviation of healthy counts over sqrt(lambda); 0 if not measured.
    pub sigma: f64,
    /// What is claimed.
    pub claimed: String,
    /// What was measured.
    pub measured: String,
    /// Whether the claim holds.
    pub holds: bool,
    /// Packets that hosts sent in all trials.
    pub packets: u64,
}

/// What a row's trials are.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) evidence: Evidence,
    pub(crate) tie: Tie,
    pub(crate) mark: Mark,
    pub(crate) rate: f64,
    pub(crate) spines: u16,
    pub(crate) background: f64,
    pub(crate) per_spine: u64,
}

impl Plan {
    /// The load that one host at the rate of one uplink makes.
    pub(crate) fn load(&self) -> f64 {
        1.0 / f64::from(self.spines)
    }

    /// Seeds of different rows differ by their number of spines, packets and rate.
    pub(crate) fn study(&self) -> u16 {
        let tie = u64::from(self.tie == Tie::Random);
        let words = [
            u64::from(self.spines),
            self.per_spine,
            (self.rate * 1e6) as u64,
            (self.background * 1e6) as u64,
            tie,
        ];
        let mix = words.iter().fold(0x9e37_79b9_7f4a_7c15u64, |state, word| {
            (state ^ word)
                .wrapping_mul(0xd6e8_feb8_6659_fd93)
                .rotate_left(29)
        });
        (mix >> 20) as u16 & 0x7fff
    }

    pub(crate) fn pair(&self, trial: u32) -> PairConfig {
        let side = match trial / u32::from(self.spines) % 2 {
            0 => Side::Up,
            _ => Side::Down,
        };
        PairConfig {
            leaves: Leaves {
                spines: self.spines,
                policy: Policy::Jsq2,
                tie: self.tie,
                mark: self.mark,
                is_paper: false,
                window_packets_max: 1 << 26,
                real_spines: self.evidence == Evidence::HopCounts,
            },
            load: self.load(),
            arrivals: Arrivals::Constant,
            recovery: Recovery::SelectiveRepeat,
            background: self.background,
            bad: vec![Bad {
                spine: (trial % u32::from(self.spines)) as u16,
                side,
                rate: self.rate,
            }],
        }
    }

    /// The rules of a fabric of as many leaves as spines, which tolerate what healthy links lose.
    pub(crate) fn rules(&self) -> Rules {
        let fabric = Fabric {
            leaves: self.spines,
            spines: self.spines,
        };
        Rules {
            evidence: self.evidence,
            p0: self.background,
            p_min: 1,
            target_rate: self.rate.max(1e-6),
            noise: Noise::calibrated(
                "jsq2",
                tie_word(self.tie),
                mark_word(self.mark),
                self.spines,
                self.load(),
            ),
            ..Rules::new(fabric)
        }
    }

    pub(crate) fn seed(&self, trial: u32) -> Seed {
        Seed::new(Purpose::Test, self.study(), trial)
    }

    /// An empty row of this plan.
    pub(crate) fn row(&self) -> Row {
        Row {
            name: self.name.clone(),
            evidence: evidence_word(self.evidence),
            tie: tie_word(self.tie),
            mark: mark_word(self.mark),
            rate: self.rate,
            k: self.spines,
            load: self.load(),
            background: self.background,
            packets_per_spine: self.per_spine,
            trials: 0,
            healthy_paths: 0,
            false_paths: 0,
            fpr: 0.0,
            fpr_ci95: [0.0, 1.0],
            misses: 0,
            fnr: 0.0,
            fnr_ci95: [0.0, 1.0],
            fnr_upper95: 1.0,
            sigma: 0.0,
            claimed: String::new(),
            measured: String::new(),
            holds: false,
            packets: 0,
        }
    }
}

impl Row {
    /// Fills in shares and their intervals from the counts.
    pub(crate) fn with_counts(mut self, trials: u64, misses: u64, healthy: u64, wrong: u64) -> Row {
        let share = |hits: u64, of: u64| hits as f64 / of.max(1) as f64;
        (self.trials, self.misses) = (trials, misses);
        (self.healthy_paths, self.false_paths) = (healthy, wrong);
        (self.fpr, self.fnr) = (share(wrong, healthy), share(misses, trials));
        self.fpr_ci95 = clopper_pearson(wrong, healthy, 0.95);
        self.fnr_ci95 = clopper_pearson(misses, trials, 0.95);
        // One-sided at 95 % is the upper end of the two-sided 90 %.
        self.fnr_upper95 = clopper_pearson(misses, trials, 0.90)[1];
        self
    }
}

pub(crate) fn evidence_word(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::ReceiveOnly => "receive-only",
        Evidence::SourceCounts => "source-counts",
        Evidence::HopCounts => "hop-counts",
    }
}

pub(crate) fn tie_word(tie: Tie) -> &'static str {
    match tie {
        Tie::FewestMeasured => "fewest-measured",
        Tie::Random => "random",
    }
}

pub(crate) fn mark_word(mark: Mark) -> &'static str {
    match mark {
        Mark::First => "first",
        Mark::All => "all",
    }
}

/// The rows of fixed windows, as the project promises them.
fn plans(spines: u16) -> Vec<Plan> {
    let of = |name: &str, evidence, tie, mark, background, sizes: &[(f64, u64)]| {
        let plan = |&(rate, per_spine): &(f64, u64)| Plan {
            name: name.to_owned(),
            evidence,
            tie,
            mark,
            rate,
            spines,
            background,
            per_spine,
        };
        sizes.iter().map(plan).collect::<Vec<_>>()
    };
    let exact = [
        (0.005, 3_400),
        (0.01, 1_700),
        (0.015, 1_150),
        (0.001, 21_000),
    ];
    let fewest = Tie::FewestMeasured;
    [
        of(
            "receive-only",
            Evidence::ReceiveOnly,
            fewest,
            Mark::First,
            BACKGROUND,
            &[(0.005, 5_000), (0.01, 2_500), (0.015, 1_800)],
        ),
        of(
            "source counts, healthy links lose nothing",
            Evidence::SourceCounts,
            fewest,
            Mark::First,
            0.0,
            &[(0.005, 2_000), (0.01, 1_000), (0.015, 700)],
        ),
        // Judged twice: by source counts, and by hop counts.
        of(
            "hop counts",
            Evidence::HopCounts,
            fewest,
            Mark::First,
            BACKGROUND,
            &exact,
        ),
        of(
            "like for like: the paper's spray, source counts",
            Evidence::SourceCounts,
            Tie::Random,
            Mark::All,
            BACKGROUND,
            &exact,
        ),
    ]
    .concat()
}

/// Runs all rows; `told` hears of each as it is done.
///
/// # Errors
/// When a trial did not do what it should: a fault of the model.
pub fn run(options: &Options, told: impl Fn(&Row)) -> Result<Vec<Row>, TrialError> {
    let mut rows = Vec::new();
    let mut take = |row: Row| {
        told(&row);
        rows.push(row);
    };
    let is_wanted =
        |name: &str| (options.only.as_ref()).is_none_or(|only| name.contains(only.as_str()));
    let has_rate = |plan: &&Plan| options.rates.is_empty() || options.rates.contains(&plan.rate);
    for &spines in &options.spines {
        for plan in plans(spines).iter().filter(has_rate) {
            let source = "source counts, healthy links lose 2e-5";
            let is_both = plan.evidence == Evidence::HopCounts && is_wanted(source);
            if is_both || is_wanted(&plan.name) {
                fixed(plan, options.trials, source)?
                    .into_iter()
                    .for_each(&mut take);
            }
        }
        for plan in stream::plans(spines).iter().filter(has_rate) {
            if is_wanted(&plan.name) {
                take(stream::row(plan, options.trials)?);
            }
        }
        if options.quiet_packets > 0 && is_wanted(quiet::NAME) {
            take(quiet::row(spines, options.quiet_packets)?);
        }
        if options.paper_trials > 0 {
            for plan in paper::plans(spines) {
                if is_wanted(&plan.name) && has_rate(&&plan.plan) {
                    take(paper::row(&plan, options.paper_trials)?);
                }
            }
        }
    }
    Ok(rows)
}

/// The row of one plan, and with hop counts that of source counts on the same windows.
fn fixed(plan: &Plan, trials: u32, source_name: &str) -> Result<Vec<Row>, TrialError> {
    let outcomes: Vec<Vec<Outcome>> = (0..trials)
        .into_par_iter()
        .map(|trial| trial::outcomes(plan, trial))
        .collect::<Result<_, _>>()?;
    let row = |index: usize, row: Row| {
        let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(|all| of(&all[index])).sum();
        let mut row = row.with_counts(
            u64::from(trials),
            sum(|outcome| u64::from(!outcome.found)),
            sum(|outcome| outcome.healthy),
            sum(|outcome| outcome.wrong),
        );
        row.packets = sum(|outcome| outcome.packets);
        row.holds = row.false_paths == 0 && row.fnr_upper95 <= FNR_MAX;
        row.claimed = format!(
            "at {} packets per spine no false path, FNR under {} % (95 %)",
            row.packets_per_spine,
            100.0 * FNR_MAX
        );
        row.measured = format!(
            "{} false of {} paths, {} missed of {}, FNR under {:.2} % (95 %)",
            row.false_paths,
            row.healthy_paths,
            row.misses,
            row.trials,
            100.0 * row.fnr_upper95
        );
        row
    };
    if plan.evidence == Evidence::HopCounts {
        let source = Plan {
            name: source_name.to_owned(),
            evidence: Evidence::SourceCounts,
            ..plan.clone()
        };
        return Ok(vec![row(1, source.row()), row(0, plan.row())]);
    }
    Ok(vec![row(0, plan.row())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(only: &str) -> Options {
        Options {
            trials: 12,
            spines: vec![8],
            only: Some(only.to_owned()),
            rates: Vec::new(),
            quiet_packets: 0,
            paper_trials: 0,
        }
    }

    /// Goal: the rows are the same whatever number of threads makes them.
    #[test]
    fn rows_do_not_depend_on_threads() {
        let json = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("threads");
            let rows = pool.install(|| run(&options("lose nothing"), |_| {}));
            format!("{:?}", rows.expect("a model without fault"))
        };
        assert_eq!(json(1), json(2));
    }

    /// Goal: each kind of evidence finds the fault in a dozen trials, and nothing else.
    #[test]
    fn every_evidence_finds_the_fault() {
        for only in ["receive-only", "lose nothing", "hop counts", "sequential"] {
            let rows = run(&options(only), |_| {}).expect("a model without fault");
            assert!(!rows.is_empty(), "{only}");
            for row in rows.iter().filter(|row| row.rate >= 0.005) {
                assert_eq!(row.false_paths, 0, "{row:?}");
                // A sequential alarm may come late; how late is the row's own answer.
                let late = if only == "sequential" { 8 } else { 0 };
                assert!(row.misses <= late, "{row:?}");
            }
        }
    }
}
