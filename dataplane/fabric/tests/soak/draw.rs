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

/// Of each episode's share of a trial up to so much is before its fault, in percent: its link is healthy.
const BEFORE_PERCENT: u64 = 15;
/// Losses on which a fault is judged: that of a Poisson law of this mean 2 at most come once in 10^6.
pub(crate) const LOSSES: f64 = 20.0;
/// The smallest loss that must be found (`detector`'s target rate).
pub(crate) const DETECTABLE: f64 = detector::rules::DEFAULT_TARGET_RATE;

/// Time that traffic takes beyond that at full rate, for hosts wait for each other.
const PACE: f64 = 2.0;
/// By how much a loss slows hosts down, for each part of the packets that it takes.
const SLOWER: f64 = 60.0;
/// How long they stand still besides, likewise.
const STALL_NS: f64 = 200_000_000.0;

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

impl What {
    /// Part of the packets that it loses.
    pub(crate) fn rate(&self) -> f64 {
        match *self {
            What::Loss(rate, _) => rate,
            What::Harmless(_) | What::Down | What::Disabled => 0.0,
        }
    }
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
        let pace = Pace::of(&testbed);
        let mut episodes: Vec<Episode> = Vec::new();
        let mut start_ns = pace.span_ns(0.0) / 2;
        let count = usize::from(testbed.spines);
        while episodes.len() < count {
            let what = what(&mut chance, &pace);
            // What shares its spine with another fault cannot always be told from it: few do.
            let link = loop {
                let link = link(&mut chance, &testbed);
                let is_shared = episodes.iter().any(|other| {
                    matches!((&what, &other.what), (What::Loss(..), What::Loss(..)))
                        && other.link.spine() == link.spine()
                });
                let is_new = episodes.iter().all(|other| other.link != link);
                if is_new && (!is_shared || chance.below(16) == 0) {
                    break link;
                }
            };
            let packets = match &what {
                What::Loss(rate, _) => {
                    let healthy = pace.packets(start_ns);
                    needed(rate.max(DETECTABLE), clumps(&what), &testbed, healthy)
                }
                What::Harmless(_) | What::Down | What::Disabled => 0.0,
            };
            // Hosts stand still over what is lost again and again, their timeouts doubling. Time in which
            // nothing is sent costs nothing.
            let loss = what.rate().min(0.2);
            let span_ns = pace.span_ns(packets) as f64 * (1.0 + SLOWER * loss) + STALL_NS * loss;
            let span_ns = span_ns as u64;
            let from_ns = start_ns + span_ns * chance.below(BEFORE_PERCENT) / 100;
            let to_ns = from_ns + span_ns;
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
        let end_ns = end_ns.unwrap_or(0) + pace.span_ns(0.0) / 2;
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

/// A small fabric, and what its hosts do: little but what is marked, over few links.
fn fabric(chance: &mut Chance, number: u64) -> TestbedConfig {
    let base = TestbedConfig::resolve(None, SimConfig::base()).expect("the defaults are right");
    let workload = match chance.below(50) {
        0 => Workload::Permutation,
        1 => Workload::RingAllreduce,
        2 => Workload::Incast,
        _ => Workload::AllToAll,
    };
    let announce = chance.of(&[
        Announce::Host,
        Announce::Host,
        Announce::Window,
        Announce::Mixed,
    ]);
    let evidence = match chance.below(20) {
        0 => Evidence::ReceiveOnly,
        1..10 => Evidence::SourceCounts,
        _ => Evidence::HopCounts,
    };
    // The sequential test must know what was sent.
    let test = match (evidence, chance.below(3)) {
        (Evidence::SourceCounts | Evidence::HopCounts, 0) => PathTest::Sequential,
        _ => PathTest::Fixed,
    };
    TestbedConfig {
        leaves: chance.of(&[3, 3, 3, 4]),
        spines: chance.of(&[2, 3, 3, 4]),
        hosts_per_leaf: chance.of(&[1, 1, 1, 1, 1, 1, 1, 2]),
        workload,
        announce,
        bytes: Bytes::new(chance.of(&[2 << 20, 4 << 20])),
        qps: chance.of(&[1, 1, 1, 2]),
        iterations: 100_000,
        mtu: chance.of(&[1024, 1024, 4096]),
        evidence,
        tie: match chance.below(4) {
            0 => Tie::Random,
            _ => Tie::FewestMeasured,
        },
        test,
        queue_limit: Bytes::new(chance.of(&[64 << 10, 64 << 10, 256 << 10])),
        ecn: false,
        background: Probability::new(chance.of(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1]))
            .expect("a part"),
        // So that hosts send again after a tenth of a testbed's time.
        step: Time::new(1_000),
        spine_packets: match test {
            PathTest::Fixed => Some(chance.of(&[200, 400, 800])),
            PathTest::Sequential => None,
        },
        // Of 64, 200, 600 and 2,048 that with which hosts stand still least: with fewer they wait for what
        // is lost to be sent again, with more they lose packets in full queues.
        window_packets: 200,
        // A testbed's timers, a hundred times as fast.
        link_state: Time::new(1_000_000),
        hold_down: Time::new(chance.of(&[0, 200_000, 1_000_000])),
        seed: number,
        ..base
    }
}

/// How fast marked packets come.
struct Pace {
    /// Time in which every path has one more, as far as traffic goes evenly.
    packet_ns: f64,
    /// Packets of a path that a test and a window need beside those of a fault.
    packets_min: f64,
    /// Delays of a link are below this, in microseconds: a path that takes longer than the longest that is
    /// configured (G) loses packets, as far as its windows can tell, for they wait no longer.
    delay_us: u64,
}

impl Pace {
    fn of(testbed: &TestbedConfig) -> Pace {
        let paths = f64::from(testbed.spines) * f64::from(testbed.leaves - 1);
        let frame_ns = f64::from(testbed.mtu + 100) * 8.0 / 100.0;
        let test = match (testbed.test, testbed.evidence) {
            (PathTest::Sequential, _) => 0,
            // Nothing has to be found.
            (PathTest::Fixed, Evidence::ReceiveOnly) => 2_000,
            (PathTest::Fixed, Evidence::SourceCounts | Evidence::HopCounts) => {
                testbed.rules().p_min
            }
        };
        let flow =
            testbed.bytes.bytes() as f64 / f64::from(testbed.mtu) / f64::from(testbed.spines);
        Pace {
            packet_ns: paths * frame_ns * PACE,
            packets_min: test as f64 + 1.5 * flow,
            delay_us: (config::fabric::path_delay_ns_max(testbed) / 2_000).clamp(1, 50),
        }
    }

    /// Packets of a path in such a time.
    fn packets(&self, ns: u64) -> f64 {
        ns as f64 / self.packet_ns
    }

    /// Time for so many packets of a path, all in tests of their own.
    fn span_ns(&self, packets: f64) -> u64 {
        ((packets + self.packets_min) * self.packet_ns) as u64
    }
}

/// Bursts are rarer than single losses of the same rate: four packets each, of which two are lost.
pub(crate) fn clumps(what: &What) -> f64 {
    match what {
        What::Loss(_, spec) if spec.starts_with("burst") => 4.0,
        _ => 1.0,
    }
}

/// Packets of a path on which a fault of such a rate is judged, when `others` went over it before:
/// those in which [`LOSSES`] are expected, and losses must also stand out of what the
/// others were allowed to lose, by six standard deviations of that.
pub(crate) fn needed(rate: f64, clumps: f64, testbed: &TestbedConfig, others: f64) -> f64 {
    let tolerated = 2.0 * testbed.p0.value();
    (LOSSES * clumps + 6.0 * (tolerated * others).sqrt()) / rate
}

fn link(chance: &mut Chance, testbed: &TestbedConfig) -> Link {
    let leaf = LeafId(chance.below(u64::from(testbed.leaves)) as u16);
    let spine = SpineId(chance.below(u64::from(testbed.spines)) as u16);
    match chance.below(2) {
        0 => Link::Up { leaf, spine },
        _ => Link::Down { spine, leaf },
    }
}

/// Four of five lose packets: one in twelve of those too few to be found for sure, one in eight 5 % to
/// 30 %, which lets hosts stand still for most of the time, the others 0.5 % to 5 %.
fn what(chance: &mut Chance, pace: &Pace) -> What {
    let rate = match chance.below(24) {
        0 | 1 => chance.rate(2e-4, DETECTABLE),
        2..5 => chance.rate(0.05, 0.3),
        _ => chance.rate(DETECTABLE, 0.05),
    };
    match chance.below(20) {
        0..9 => What::Loss(rate, format!("drop={rate:.6}")),
        9..12 => What::Loss(rate, format!("corrupt={rate:.6}")),
        12..15 => {
            // Bursts of four packets on average, of which half are lost.
            let (exit, loss) = (0.25, 0.5);
            let bad = (rate / loss).min(0.5);
            let enter = bad * exit / (1.0 - bad);
            What::Loss(bad * loss, format!("burst={enter:.6},{exit},{loss}"))
        }
        15 => What::Loss(1.0, "drop=1".to_owned()),
        16 => What::Harmless(format!("delay={}us", 1 + chance.below(pace.delay_us))),
        17 => {
            let period_us = (pace.span_ns(0.0) / 1000 / (4 + chance.below(12))).max(50);
            let down_us = period_us / (2 + chance.below(6));
            What::Harmless(format!("flap={period_us}us,{down_us}us"))
        }
        18 => What::Down,
        _ => What::Disabled,
    }
}
