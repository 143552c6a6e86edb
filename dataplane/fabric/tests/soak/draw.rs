//! A trial from a number: a fabric, what its hosts do, and faults that come and are repaired.
//!
//! Everything follows from the trial's number, so a run can be cut into pieces and any trial be
//! made again alone.

use config::{
    Announce, Bytes, Change, Evidence, FaultList, PathTest, Probability, SimConfig, TestbedConfig,
    Tie, Time, Workload,
};
use detector::{LeafId, Link, SpineId};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Episodes of a trial.
pub(crate) const EPISODES: usize = 4;
/// Of each episode's share of a trial so much is before its fault, in percent: its link is healthy.
const BEFORE_PERCENT: u64 = 25;
/// Losses on which a fault is judged: that of a Poisson law of this mean 2 at most come once in 10^6.
pub(crate) const LOSSES: f64 = 20.0;
/// The smallest loss that must be found (`detector`'s target rate).
pub(crate) const DETECTABLE: f64 = detector::rules::DEFAULT_TARGET_RATE;

/// What an episode does to its link.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// It loses packets at this rate, by a fault of such words.
    Loss(f64, String),
    /// Packets are late, or the link flaps: words of a fault.
    Harmless(String),
    /// It is down, and its ends see it.
    Down,
    /// It is taken out of routing.
    Disabled,
}

/// A fault and its repair.
#[derive(Clone, Debug)]
pub(crate) struct Episode {
    pub(crate) link: Link,
    pub(crate) what: What,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// A trial.
pub(crate) struct Trial {
    pub(crate) config: SimConfig,
    pub(crate) episodes: Vec<Episode>,
}

struct Chance(Xoshiro256PlusPlus);

impl Chance {
    fn below(&mut self, count: u64) -> u64 {
        self.0.next_u64() % count
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Between two rates, evenly in their logarithm.
    fn rate(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.uniform())
    }
}

impl Trial {
    /// Trial `number`.
    pub(crate) fn draw(number: u64) -> Trial {
        let random = Xoshiro256PlusPlus::seed_from_u64(number ^ 0x536f_616b_536f_616b);
        let mut chance = Chance(random);
        let testbed = fabric(&mut chance, number);
        let span_ns = span_ns(&testbed);
        let mut episodes: Vec<Episode> = Vec::new();
        let mut start_ns = span_ns / 8;
        while episodes.len() < EPISODES {
            let what = what(&mut chance, span_ns);
            // What shares its spine with another fault cannot always be told from it: few do.
            let link = loop {
                let link = link(&mut chance, &testbed);
                let is_shared = episodes.iter().any(|other| {
                    matches!((&what, &other.what), (What::Loss(..), What::Loss(..)))
                        && other.link.spine() == link.spine()
                });
                let is_new = episodes.iter().all(|other| other.link != link);
                if is_new && (!is_shared || chance.below(8) == 0) {
                    break link;
                }
            };
            let from_ns = start_ns + span_ns * chance.below(BEFORE_PERCENT) / 100;
            let to_ns = start_ns + span_ns;
            episodes.push(Episode {
                what,
                link,
                from_ns,
                to_ns,
            });
            // One of three begins while the last goes on.
            start_ns = match chance.below(3) {
                0 => from_ns + (to_ns - from_ns) / 2,
                _ => to_ns + span_ns / 20,
            };
        }
        let end_ns = episodes.iter().map(|episode| episode.to_ns).max();
        let end_ns = end_ns.unwrap_or(0) + span_ns / 8;
        let mut changes: Vec<(Time, Change)> = Vec::new();
        for episode in &episodes {
            let links = vec![episode.link];
            let faults = |spec: &str| {
                let text = format!("{}:{spec}", episode.link);
                FaultList::read([text.as_str()]).expect("a fault as people write it")
            };
            let (fault, repair) = match &episode.what {
                What::Loss(_, spec) | What::Harmless(spec) => {
                    (Change::Fail(faults(spec)), Change::Clear(links))
                }
                What::Down => (Change::Down(links.clone()), Change::Up(links)),
                What::Disabled => (Change::Disable(links.clone()), Change::Enable(links)),
            };
            changes.push((Time::new(episode.from_ns), fault));
            changes.push((Time::new(episode.to_ns), repair));
        }
        changes.sort_by_key(|&(time, _)| time);
        Trial {
            config: SimConfig {
                until: Some(Time::new(end_ns)),
                changes,
                ..SimConfig::of(testbed)
            },
            episodes,
        }
    }
}

/// A fabric of 3 to 5 leaves and 3 to 6 spines, and what its hosts do.
fn fabric(chance: &mut Chance, number: u64) -> TestbedConfig {
    let base = TestbedConfig::resolve(None, SimConfig::base()).expect("the defaults are right");
    let workload = chance.of(&[
        Workload::AllToAll,
        Workload::AllToAll,
        Workload::AllToAll,
        Workload::AllToAll,
        Workload::AllToAll,
        Workload::AllToAll,
        Workload::Permutation,
        Workload::RingAllreduce,
        Workload::Incast,
    ]);
    let announce = chance.of(&[
        Announce::Host,
        Announce::Host,
        Announce::Window,
        Announce::Mixed,
    ]);
    let evidence = chance.of(&[
        Evidence::SourceCounts,
        Evidence::SourceCounts,
        Evidence::HopCounts,
        Evidence::HopCounts,
        Evidence::ReceiveOnly,
    ]);
    let tests = [PathTest::Fixed, PathTest::Fixed, PathTest::Sequential];
    // The sequential test must know what was sent.
    let tests = match evidence {
        Evidence::ReceiveOnly => &tests[..2],
        Evidence::SourceCounts | Evidence::HopCounts => &tests[..],
    };
    TestbedConfig {
        leaves: 3 + chance.below(3) as u16,
        spines: 3 + chance.below(4) as u16,
        hosts_per_leaf: chance.of(&[1, 1, 1, 2]),
        workload,
        announce,
        bytes: Bytes::new(chance.of(&[1 << 20, 4 << 20, 16 << 20])),
        qps: chance.of(&[1, 1, 2]),
        iterations: 10_000,
        mtu: chance.of(&[1024, 4096, 4096]),
        evidence,
        tie: match chance.below(4) {
            0 => Tie::Random,
            _ => Tie::FewestMeasured,
        },
        test: chance.of(tests),
        queue_limit: Bytes::new(chance.of(&[64 << 10, 256 << 10, 1 << 20])),
        ecn: false,
        background: Probability::new(chance.of(&[0.0, 0.0, 0.0, 0.1])).expect("a part"),
        // A testbed's timers, a hundred times as fast.
        link_state: Time::new(1_000_000),
        hold_down: Time::new(chance.of(&[0, 200_000, 1_000_000])),
        seed: number,
        ..base
    }
}

/// How long an episode and what is before it take: until two paths over a link have had the packets
/// on which the smallest fault that must be found is judged, as far as traffic goes evenly.
fn span_ns(testbed: &TestbedConfig) -> u64 {
    let per_path = (LOSSES / (4.0 * DETECTABLE)).max(testbed.rules().p_min as f64);
    let paths = u64::from(testbed.spines) * u64::from(testbed.leaves - 1);
    let frame_ns = (u64::from(testbed.mtu) + 100) * 8_000 / 100_000;
    (per_path as u64 * paths * frame_ns * 3).clamp(2_000_000, 30_000_000)
}

fn link(chance: &mut Chance, testbed: &TestbedConfig) -> Link {
    let leaf = LeafId(chance.below(u64::from(testbed.leaves)) as u16);
    let spine = SpineId(chance.below(u64::from(testbed.spines)) as u16);
    match chance.below(2) {
        0 => Link::Up { leaf, spine },
        _ => Link::Down { spine, leaf },
    }
}

/// Seven of ten lose packets: a tenth of those too few to be found for sure, the others 0.5 % to 30 %.
fn what(chance: &mut Chance, span_ns: u64) -> What {
    let least = match chance.below(10) {
        0 => 2e-4,
        _ => DETECTABLE,
    };
    let rate = chance.rate(least, if least < DETECTABLE { DETECTABLE } else { 0.3 });
    match chance.below(20) {
        0..8 => What::Loss(rate, format!("drop={rate:.6}")),
        8..11 => What::Loss(rate, format!("corrupt={rate:.6}")),
        11..14 => {
            // Bursts of four packets on average, of which half are lost.
            let (exit, loss) = (0.25, 0.5);
            let bad = (rate / loss).min(0.5);
            let enter = bad * exit / (1.0 - bad);
            What::Loss(bad * loss, format!("burst={enter:.6},{exit},{loss}"))
        }
        14 => What::Loss(1.0, "drop=1".to_owned()),
        15 | 16 => What::Harmless(format!("delay={}us", 1 + chance.below(50))),
        17 => {
            let period_us = (span_ns / 1000 / (4 + chance.below(12))).max(50);
            let down_us = period_us / (2 + chance.below(6));
            What::Harmless(format!("flap={period_us}us,{down_us}us"))
        }
        18 => What::Down,
        _ => What::Disabled,
    }
}
