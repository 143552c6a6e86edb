//! Which uplink a packet takes.
//!
//! JSQ(2) samples two distinct usable uplinks and takes the one with fewer bytes queued at the
//! packet's own priority and above. At low load both are empty nearly always, and then the tie
//! decides: a random tie makes the counts of the measured flow as noisy as random spraying; a tie
//! to the uplink that has carried fewer marked packets to that destination keeps them within a
//! few packets of each other (two choices on a growing load, whose gap does not grow).

use std::hint::select_unpredictable;

use fastrand::Rng;

use crate::types::{FANOUT_MAX, LeafId, SpineSet, mix};

/// How an uplink is chosen for a sprayed packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The shorter of two random ones.
    Jsq2,
    /// The shortest of all.
    Jsq,
    /// Any.
    Random,
    /// The next.
    RoundRobin,
    /// By hash of addresses, ports and destination QP: one path per flow.
    Ecmp,
}

/// What decides between two uplinks of equal depth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tie {
    /// A coin (the paper's way).
    Random,
    /// For the measured flow the uplink that has carried fewer of its marked packets.
    FewestMeasured,
}

/// An uplink: the spine it leads to, and the port it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uplink(u32);

impl Uplink {
    /// The uplink to `spine` at `port`.
    pub fn new(spine: usize, port: usize) -> Uplink {
        Uplink((port as u32) << 8 | spine as u32 & 0xff)
    }

    /// The spine.
    #[inline(always)]
    pub fn spine(self) -> usize {
        (self.0 & (FANOUT_MAX as u32 - 1)) as usize
    }

    /// The port.
    #[inline(always)]
    pub fn port(self) -> usize {
        (self.0 >> 8) as usize
    }
}

/// What waits for the uplinks. A trait, and not a closure, so that it is compiled into the choice.
pub trait Depths {
    /// Bytes queued at `uplink` that the packet would wait for.
    fn depth_bytes(&self, uplink: Uplink) -> u64;
}

impl<F: Fn(Uplink) -> u64> Depths for F {
    #[inline(always)]
    fn depth_bytes(&self, uplink: Uplink) -> u64 {
        self(uplink)
    }
}

/// The usable uplinks towards one destination leaf.
#[derive(Clone)]
struct Usable {
    count: u32,
    next: u32,
    uplinks: [Uplink; FANOUT_MAX],
    /// Marked packets sent towards this destination, by spine; kept across windows.
    measured: [u32; FANOUT_MAX],
}

impl Usable {
    /// The usable uplink number `place`.
    #[inline(always)]
    fn uplink(&self, place: u32) -> Uplink {
        self.uplinks[place as usize & (FANOUT_MAX - 1)]
    }

    #[inline(always)]
    fn measured(&self, uplink: Uplink) -> u32 {
        self.measured[uplink.spine()]
    }

    /// The uplink of least depth, from place `start` on; of equal ones the first or, `by_count`, the
    /// one that has carried fewer marked packets.
    #[inline(never)]
    fn shortest(&self, start: u32, by_count: bool, depths: &impl Depths) -> Uplink {
        let mut best = self.uplink(start);
        let mut best_depth = depths.depth_bytes(best);
        for place in start + 1..start + self.count {
            let is_beyond = place >= self.count;
            let candidate = self.uplink(if is_beyond { place - self.count } else { place });
            let depth = depths.depth_bytes(candidate);
            let gap = self.measured(candidate).wrapping_sub(self.measured(best)) as i32;
            if depth < best_depth || depth == best_depth && by_count && gap < 0 {
                (best, best_depth) = (candidate, depth);
            }
        }
        best
    }
}

/// The sprayer of a leaf.
#[repr(C, align(64))]
pub struct Sprayer {
    towards: Vec<Usable>,
    random: Random,
    policy: Policy,
    tie: Tie,
    /// Port of each spine.
    ports: [u32; FANOUT_MAX],
}

/// Random numbers (wyrand: one multiplication each), of which one is drawn ahead: a choice need not
/// wait for its draw.
struct Random {
    next: u64,
    generator: Rng,
}

impl Random {
    #[inline(always)]
    fn next_u64(&mut self) -> u64 {
        std::mem::replace(&mut self.next, self.generator.u64(..))
    }
}

impl Sprayer {
    /// A sprayer towards `leaves` over the uplinks at `ports`, by spine, that may use nothing yet.
    pub fn new(policy: Policy, tie: Tie, leaves: u16, ports: &[usize], seed: u64) -> Sprayer {
        let mut generator = Rng::with_seed(seed);
        let nothing = Usable {
            uplinks: [Uplink(0); FANOUT_MAX],
            count: 0,
            next: 0,
            measured: [0; FANOUT_MAX],
        };
        Sprayer {
            policy,
            tie,
            towards: vec![nothing; usize::from(leaves)],
            ports: std::array::from_fn(|spine| ports.get(spine).map_or(0, |&port| port as u32)),
            random: Random {
                next: generator.u64(..),
                generator,
            },
        }
    }

    /// Sets the usable uplinks towards `leaf`. One that comes back starts level with the others:
    /// it must not take every tie until it has caught up.
    pub fn set_usable(&mut self, leaf: LeafId, usable: SpineSet) {
        let towards = &mut self.towards[leaf.index()];
        let mut before = SpineSet::EMPTY;
        for uplink in &towards.uplinks[..towards.count as usize] {
            before.insert(uplink.spine());
        }
        let stays = before.and(usable);
        if let Some(level) = stays.iter().map(|spine| towards.measured[spine]).max() {
            for spine in usable.without(before).iter() {
                towards.measured[spine] = level;
            }
        }
        towards.count = 0;
        for spine in usable.iter() {
            let uplink = Uplink::new(spine, self.ports[spine] as usize);
            towards.uplinks[towards.count as usize] = uplink;
            towards.count += 1;
        }
    }

    /// Chooses otherwise from now on. What was counted stays.
    pub fn set_policy(&mut self, policy: Policy, tie: Tie) {
        (self.policy, self.tie) = (policy, tie);
    }

    /// How many uplinks are usable towards `leaf` (k).
    #[inline(always)]
    pub fn usable_count(&self, leaf: LeafId) -> u32 {
        self.towards[leaf.index()].count
    }

    /// Marked packets sent towards `leaf`, by spine; wrapping, and levelled where a spine came back.
    pub(crate) fn measured(&self, leaf: LeafId) -> &[u32; FANOUT_MAX] {
        &self.towards[leaf.index()].measured
    }

    /// Counts a marked packet towards `leaf` over `spine`.
    #[inline(always)]
    pub fn count_measured(&mut self, leaf: LeafId, spine: usize) {
        let count = &mut self.towards[leaf.index()].measured[spine & (FANOUT_MAX - 1)];
        *count = count.wrapping_add(1);
    }

    /// The ports of the two uplinks that the next choice is between, if it is of two at random.
    #[inline(always)]
    pub fn foresee(&self, leaf: LeafId) -> Option<[usize; 2]> {
        let towards = &self.towards[leaf.index()];
        if self.policy != Policy::Jsq2 || towards.count <= 1 {
            return None;
        }
        let (a, b) = two_of(self.random.next, towards, towards.count);
        prefetch::line(&towards.measured[a.spine()]);
        prefetch::line(&towards.measured[b.spine()]);
        Some([a.port(), b.port()])
    }

    /// What chooses the spine for packets towards `leaf`.
    #[inline(always)]
    pub fn toward(&mut self, leaf: LeafId) -> Choice<'_> {
        Choice {
            policy: self.policy,
            tie: self.tie,
            towards: &mut self.towards[leaf.index()],
            random: &mut self.random,
        }
    }

    /// The spine for one packet towards `leaf`: [`Choice::next`].
    #[inline(always)]
    pub fn choose(
        &mut self,
        leaf: LeafId,
        measured: bool,
        flow_hash: impl FnOnce() -> u64,
        depths: impl Depths,
    ) -> Option<Uplink> {
        self.toward(leaf).next(measured, flow_hash, depths)
    }

    /// The uplink of a packet that must keep to one path, whatever the policy.
    pub fn pin(&self, leaf: LeafId, flow_hash: u64) -> Option<Uplink> {
        let towards = &self.towards[leaf.index()];
        (towards.count > 0).then(|| towards.uplink(scale(flow_hash >> 32, towards.count)))
    }
}

/// What a choice of the shorter of two is made by.
#[derive(Clone, Copy)]
pub(crate) struct OfTwo {
    /// Usable uplinks (k), two at least.
    count: u32,
    /// Whether of equal ones the fewest marked packets decide.
    by_count: bool,
}

/// The choice of a spine towards one leaf.
pub struct Choice<'a> {
    policy: Policy,
    tie: Tie,
    towards: &'a mut Usable,
    random: &'a mut Random,
}

impl Choice<'_> {
    /// The spine for the next packet, by the policy. `depths` tells a spine's queue; `measured` says
    /// whether the packet belongs to the measured flow; `flow_hash` tells the packet's flow for
    /// [`Policy::Ecmp`]. `None` when no uplink is usable.
    #[inline(always)]
    pub fn next(
        &mut self,
        measured: bool,
        flow_hash: impl FnOnce() -> u64,
        depths: impl Depths,
    ) -> Option<Uplink> {
        (self.towards.count > 0).then(|| self.any(measured, flow_hash, depths))
    }

    /// How many uplinks there are (k).
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.towards.count
    }

    /// How the choice is made, if it is by [`Choice::shorter_of_two`].
    #[inline(always)]
    pub(crate) fn of_two(&self, measured: bool) -> Option<OfTwo> {
        let count = self.towards.count;
        (self.policy == Policy::Jsq2 && count > 1).then_some(OfTwo {
            count,
            by_count: (self.tie == Tie::FewestMeasured) & measured,
        })
    }

    /// The shorter of two random ones, of at least two.
    #[inline(always)]
    pub(crate) fn shorter_of_two(&mut self, of: OfTwo, depths: &impl Depths) -> Uplink {
        let draw = self.random.next_u64();
        let towards = &*self.towards;
        let (a, b) = two_of(draw, towards, of.count);
        let (depth_a, depth_b) = (depths.depth_bytes(a), depths.depth_bytes(b));
        // The draw has ordered them at random, so "first" is a fair coin. Which of the two it is,
        // nothing can predict.
        let gap = towards.measured(b).wrapping_sub(towards.measured(a)) as i32;
        let by_gap = (gap < 0) & of.by_count;
        let takes_b = (depth_b < depth_a) | ((depth_b == depth_a) & by_gap);
        select_unpredictable(takes_b, b, a)
    }

    /// [`Choice::next`] where there is a usable uplink.
    #[inline(never)]
    pub(crate) fn any(
        &mut self,
        measured: bool,
        flow_hash: impl FnOnce() -> u64,
        depths: impl Depths,
    ) -> Uplink {
        let towards = &mut *self.towards;
        let count = towards.count;
        if count <= 1 {
            return towards.uplink(0);
        }
        match self.policy {
            Policy::Ecmp => towards.uplink(scale(flow_hash() >> 32, count)),
            Policy::Random => towards.uplink(scale(self.random.next_u64() >> 32, count)),
            Policy::RoundRobin => {
                towards.next = if towards.next + 1 >= count {
                    0
                } else {
                    towards.next + 1
                };
                towards.uplink(towards.next)
            }
            Policy::Jsq2 => {
                let by_count = self.tie == Tie::FewestMeasured && measured;
                self.shorter_of_two(OfTwo { count, by_count }, &depths)
            }
            Policy::Jsq => {
                // From a random start, so that equal queues share.
                let start = scale(self.random.next_u64() >> 32, count);
                let by_count = self.tie == Tie::FewestMeasured && measured;
                towards.shortest(start, by_count, &depths)
            }
        }
    }

    /// Counts a marked packet over `spine`.
    #[inline(always)]
    pub fn count_measured(&mut self, uplink: Uplink) {
        let count = &mut self.towards.measured[uplink.spine()];
        *count = count.wrapping_add(1);
    }
}

/// Two distinct uplinks, of at least two, from one draw: the second skips the first.
#[inline(always)]
fn two_of(draw: u64, towards: &Usable, count: u32) -> (Uplink, Uplink) {
    let first = scale(draw & 0xffff_ffff, count);
    let second = scale(draw >> 32, count - 1);
    let second = second + u32::from(second >= first);
    (towards.uplink(first), towards.uplink(second))
}

/// Maps a 32-bit number onto `0..count` without a division.
#[inline(always)]
fn scale(number: u64, count: u32) -> u32 {
    ((number * u64::from(count)) >> 32) as u32
}

/// Hash of what tells a flow for ECMP: addresses, protocol, ports, destination QP.
#[inline(always)]
pub fn flow_hash(source: u128, destination: u128, rest: u64) -> u64 {
    mix(&[
        source as u64 ^ (source >> 64) as u64,
        destination as u64 ^ (destination >> 64) as u64,
        rest,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Set;

    const LEAF: LeafId = LeafId(1);

    fn sprayer(policy: Policy, tie: Tie, k: usize) -> Sprayer {
        let mut sprayer = Sprayer::new(policy, tie, 2, &[0; FANOUT_MAX], 7);
        sprayer.set_usable(LEAF, SpineSet::first(k));
        sprayer
    }

    /// Pearson's statistic of `counts` against equal shares.
    fn chi_square(counts: &[u32]) -> f64 {
        let mean = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
        counts
            .iter()
            .map(|&c| (f64::from(c) - mean).powi(2) / mean)
            .sum()
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often")]
    fn equal_depths_give_equal_shares() {
        for policy in [
            Policy::Jsq2,
            Policy::Jsq,
            Policy::Random,
            Policy::RoundRobin,
        ] {
            let mut sprayer = sprayer(policy, Tie::Random, 8);
            let mut counts = [0u32; 8];
            for _ in 0..80_000 {
                counts[sprayer.choose(LEAF, false, || 0, |_| 0).unwrap().spine()] += 1;
            }
            let statistic = chi_square(&counts);
            // 99.99 % point of chi-square with 7 degrees of freedom.
            assert!(
                statistic < 29.9,
                "{policy:?}: {counts:?}, chi-square {statistic}"
            );
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often")]
    fn the_shorter_of_two_is_taken_and_the_longest_never() {
        let mut sprayer = sprayer(Policy::Jsq2, Tie::Random, 4);
        let mut counts = [0u32; 4];
        for _ in 0..60_000 {
            counts[sprayer
                .choose(LEAF, false, || 0, |uplink: Uplink| uplink.spine() as u64)
                .unwrap()
                .spine()] += 1;
        }
        // Of six equally likely pairs, the shortest is in three, the next in two more, then one.
        assert_eq!(
            counts[3], 0,
            "the longest of all is never the shorter of two distinct ones"
        );
        let expected = [30_000.0, 20_000.0, 10_000.0];
        for (count, expected) in counts.iter().zip(expected) {
            assert!((f64::from(*count) - expected).abs() < 600.0, "{counts:?}");
        }
    }

    #[test]
    fn jsq_takes_the_shortest_of_all() {
        let mut sprayer = sprayer(Policy::Jsq, Tie::Random, 8);
        for _ in 0..1000 {
            assert_eq!(
                sprayer
                    .choose(
                        LEAF,
                        false,
                        || 0,
                        |uplink: Uplink| u64::from(uplink.spine() != 5)
                    )
                    .map(Uplink::spine),
                Some(5)
            );
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often")]
    fn ties_to_the_fewest_measured_keep_counts_together() {
        for (tie, bound) in [(Tie::FewestMeasured, 8), (Tie::Random, 10_000)] {
            let mut sprayer = sprayer(Policy::Jsq2, tie, 8);
            let mut counts = [0u32; 8];
            for _ in 0..80_000 {
                let spine = sprayer.choose(LEAF, true, || 0, |_| 0).unwrap().spine();
                sprayer.count_measured(LEAF, spine);
                counts[spine] += 1;
            }
            let gap = counts.iter().max().unwrap() - counts.iter().min().unwrap();
            assert!(gap <= bound, "{tie:?}: {counts:?}");
            assert!(
                tie != Tie::Random || gap > 30,
                "random ties spread by chance: {counts:?}"
            );
        }
    }

    #[test]
    fn only_usable_uplinks_are_taken() {
        for policy in [
            Policy::Jsq2,
            Policy::Jsq,
            Policy::Random,
            Policy::RoundRobin,
            Policy::Ecmp,
        ] {
            let mut sprayer = sprayer(policy, Tie::FewestMeasured, 8);
            sprayer.set_usable(LEAF, Set(0b0101_0010));
            let mut seen = SpineSet::EMPTY;
            for n in 0..1000 {
                let chosen = sprayer.choose(LEAF, true, || mix(&[n]), |_| 0);
                seen.insert(chosen.unwrap().spine());
                seen.insert(sprayer.pin(LEAF, mix(&[n])).unwrap().spine());
            }
            assert_eq!(seen, Set(0b0101_0010), "{policy:?}");
            sprayer.set_usable(LEAF, SpineSet::EMPTY);
            assert_eq!(sprayer.choose(LEAF, true, || 0, |_| 0), None);
            assert_eq!(sprayer.pin(LEAF, 0), None);
        }
    }

    #[test]
    fn a_returning_uplink_starts_level() {
        let mut sprayer = sprayer(Policy::Jsq2, Tie::FewestMeasured, 4);
        sprayer.set_usable(LEAF, Set(0b0111));
        for spine in 0..3 {
            for _ in 0..100 {
                sprayer.count_measured(LEAF, spine);
            }
        }
        sprayer.set_usable(LEAF, Set(0b1111));
        let mut counts = [0u32; 4];
        for _ in 0..400 {
            let spine = sprayer.choose(LEAF, true, || 0, |_| 0).unwrap().spine();
            sprayer.count_measured(LEAF, spine);
            counts[spine] += 1;
        }
        assert!(counts.iter().all(|&c| c.abs_diff(100) < 10), "{counts:?}");
    }
}
