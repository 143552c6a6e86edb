//! A fabric made of dice, for the tests of this directory: windows with seeded
//! binomial losses per link, through the same aggregator, judge and localizer
//! that the agent and the monitor use. No queues, no time.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;

use detector::{
    Aggregator, EndReason, Epoch, Fabric, HopRecord, Judge, LeafId, Link, Localization, Localizer,
    Nanos, Path, PathTest, Qpn, Rules, SpineId, Window,
};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The testbed's fabric.
pub(crate) const FABRIC: Fabric = Fabric {
    leaves: 8,
    spines: 8,
};

/// Seeded dice.
pub(crate) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Uniform in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    /// Losses among `packets`, each with probability `rate`: jumps from loss to
    /// loss by geometric distances, which is exact and quick for rare losses.
    pub(crate) fn losses(&mut self, packets: u64, rate: f64) -> u64 {
        if rate <= 0.0 {
            return 0;
        }
        if rate >= 1.0 {
            return packets;
        }
        let (mut at, mut lost) = (0.0, 0);
        loop {
            at += (self.unit().ln() / (-rate).ln_1p()).floor() + 1.0;
            if at > packets as f64 {
                return lost;
            }
            lost += 1;
        }
    }
}

/// What is wrong with the fabric and how it sprays.
pub(crate) struct Synthetic {
    pub(crate) rules: Rules,
    /// Packets per spine of each window.
    pub(crate) packets: u64,
    /// The spray's deviation per spine: uniform in +-this.
    pub(crate) spray: u64,
    /// Loss rate of every link without a fault.
    pub(crate) background: f64,
    pub(crate) faults: BTreeMap<Link, f64>,
}

impl Synthetic {
    pub(crate) fn new(rules: Rules, packets: u64) -> Synthetic {
        Synthetic {
            rules,
            packets,
            spray: 0,
            background: 0.0,
            faults: BTreeMap::new(),
        }
    }

    pub(crate) fn fault(mut self, link: Link, rate: f64) -> Synthetic {
        self.faults.insert(link, rate);
        self
    }

    fn rate(&self, link: Link) -> f64 {
        self.faults.get(&link).copied().unwrap_or(self.background)
    }

    /// One window from `src` to `dst`.
    pub(crate) fn window(&self, dice: &mut Dice, src: u16, dst: u16, epoch: u32) -> Window {
        let spines = self.rules.fabric.spines;
        let (mut sent, mut counts, mut hops) = (Vec::new(), Vec::new(), Vec::new());
        for x in 0..spines {
            let path = Path {
                src: LeafId(src),
                spine: SpineId(x),
                dst: LeafId(dst),
            };
            let deviation = if self.spray > 0 {
                dice.below(2 * self.spray + 1)
            } else {
                0
            };
            let s = self.packets + deviation - self.spray.min(self.packets);
            let at_spine = s - dice.losses(s, self.rate(path.uplink()));
            let arrived = at_spine - dice.losses(at_spine, self.rate(path.downlink()));
            sent.push(s);
            counts.push(arrived);
            hops.push(HopRecord {
                received: Some(at_spine),
                sent: Some(at_spine),
                dropped: Some(0),
            });
        }
        Window {
            src: LeafId(src),
            dst: LeafId(dst),
            qpn: Qpn(18),
            epoch: Epoch(epoch),
            announced: self.packets * u64::from(spines),
            marked: Some(self.packets * u64::from(spines)),
            usable: (0..spines).map(SpineId).collect(),
            counts,
            sent: Some(sent),
            congestion_dropped: vec![0; usize::from(spines)],
            hops: Some(hops),
            void: Vec::new(),
            end: EndReason::Close,
            first_marked_ns: Nanos(1_000),
            closed_ns: Nanos(2_000),
        }
    }

    /// Path tests of one window for each of these leaf pairs.
    pub(crate) fn tests(
        &self,
        dice: &mut Dice,
        pairs: impl IntoIterator<Item = (u16, u16)>,
    ) -> Vec<PathTest> {
        let (mut aggregator, mut judge) = (Aggregator::new(self.rules), Judge::new(self.rules));
        let mut tests = Vec::new();
        for (epoch, (src, dst)) in pairs.into_iter().enumerate() {
            let window = self.window(dice, src, dst, epoch as u32);
            let aggregate = aggregator.add(&window).expect("a window of this fabric");
            tests.extend(judge.judge(&aggregate));
        }
        tests
    }

    /// What the localizer says after one window for each of these leaf pairs.
    pub(crate) fn locate(
        &self,
        dice: &mut Dice,
        pairs: impl IntoIterator<Item = (u16, u16)>,
    ) -> Localization {
        locate(self.rules, &self.tests(dice, pairs))
    }
}

/// What a new localizer says to these tests.
pub(crate) fn locate(rules: Rules, tests: &[PathTest]) -> Localization {
    let mut localizer = Localizer::new(rules.localization());
    for test in tests {
        localizer.add(test).expect("a path of this fabric");
    }
    localizer.locate(Nanos(2_000))
}

/// Every leaf to every other.
pub(crate) fn all_to_all() -> Vec<(u16, u16)> {
    let leaves = FABRIC.leaves;
    (0..leaves)
        .flat_map(|s| (0..leaves).filter(move |&d| d != s).map(move |d| (s, d)))
        .collect()
}

/// Every leaf to the next.
pub(crate) fn ring() -> Vec<(u16, u16)> {
    (0..FABRIC.leaves)
        .map(|s| (s, (s + 1) % FABRIC.leaves))
        .collect()
}

pub(crate) fn up(leaf: u16, spine: u16) -> Link {
    Link::Up {
        leaf: LeafId(leaf),
        spine: SpineId(spine),
    }
}

pub(crate) fn down(spine: u16, leaf: u16) -> Link {
    Link::Down {
        spine: SpineId(spine),
        leaf: LeafId(leaf),
    }
}

/// The convicted links.
pub(crate) fn convicted(answer: &Localization) -> Vec<Link> {
    answer.convicted.iter().map(|found| found.link).collect()
}

/// Rules of the default preset with this evidence, tests of any size allowed.
pub(crate) fn rules(evidence: detector::Evidence) -> Rules {
    Rules {
        evidence,
        p_min: 1,
        ..Rules::new(FABRIC)
    }
}
