//! Where a flow stands: its PSNs against what was announced, and which were seen.

use packet::Psn;

/// PSNs below the highest for which a first copy can still be told from a later one.
pub const FIRST_COPY_WINDOW: u32 = 4096;

const WORDS: usize = FIRST_COPY_WINDOW as usize / 64;

/// Progress of a flow of N packets through its 24-bit PSNs, however often they wrap.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    /// The next PSN beyond the highest seen.
    next: Psn,
    /// Packets from the first PSN to `next`.
    reached: u64,
    /// N, or 0 when not known.
    packets: u64,
    /// Whether the first PSN is known: announced, or taken from the first packet.
    begun: bool,
    /// Packets that are neither the first nor the last.
    inner: u64,
}

/// What a PSN is to a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Beyond all before.
    Ahead {
        /// PSNs beyond the highest.
        step: u32,
        /// The flow's last packet.
        is_last: bool,
    },
    /// At or below the highest.
    Behind {
        /// PSNs below the highest.
        back: u32,
    },
    /// Not of this flow: before its first PSN.
    Before,
    /// Not of this flow: beyond its last PSN, so that it is over although its last was not seen.
    Past,
}

impl Track {
    /// A flow of `packets` (0: unknown) from `first` (`None`: from the first packet seen).
    pub fn new(first: Option<Psn>, packets: u64) -> Track {
        Track {
            next: first.unwrap_or_default(),
            reached: 0,
            packets,
            begun: first.is_some(),
            inner: match packets {
                0 => u64::MAX,
                packets => packets.saturating_sub(2),
            },
        }
    }

    /// The same flow with its first PSN and its N learned late: what was seen stays seen.
    pub fn rebased(&self, first: Option<Psn>, packets: u64) -> Track {
        if first.is_none() {
            return Track {
                next: self.next,
                reached: self.reached,
                begun: self.begun,
                ..Track::new(None, packets)
            };
        }
        let mut track = Track::new(first, packets);
        if let Some(highest) = self.highest()
            && let Place::Ahead { step, .. } = track.place(highest)
        {
            track.advance(highest, step);
        }
        track
    }

    /// The highest PSN seen, or the one before the first while none was.
    fn highest(&self) -> Option<Psn> {
        self.begun.then(|| self.next.plus(Psn::COUNT - 1))
    }

    /// What is left from here: the first PSN not yet passed (if one is known) and how many.
    pub fn rest(&self) -> (Option<Psn>, u64) {
        (
            self.begun.then_some(self.next),
            self.packets.saturating_sub(self.reached),
        )
    }

    /// Takes over how far `other`, a stretch of this flow, has come.
    pub fn follow(&mut self, other: &Track) {
        if let Some(highest) = other.highest()
            && let Place::Ahead { step, .. } = self.place(highest)
        {
            self.advance(highest, step);
        }
    }

    /// Packets of the flow up to the highest PSN seen.
    pub fn reached(&self) -> u64 {
        self.reached
    }

    /// Whether PSN 0 came after the flow's first.
    pub fn has_wrapped(&self) -> bool {
        let highest = self.highest().unwrap_or_default();
        self.reached > u64::from(highest.number()) + 1
    }

    /// Whether the last PSN was seen.
    pub fn is_over(&self) -> bool {
        self.packets > 0 && self.reached >= self.packets
    }

    /// What `psn` is; the flow does not move.
    #[inline(always)]
    pub fn place(&self, psn: Psn) -> Place {
        if !self.begun {
            return Place::Ahead {
                step: 1,
                is_last: self.packets == 1,
            };
        }
        let ahead = psn.ahead_of(self.next);
        if ahead >= 0 {
            let reached = self.reached + ahead as u64 + 1;
            if self.packets > 0 && reached > self.packets {
                return Place::Past;
            }
            Place::Ahead {
                step: ahead as u32 + 1,
                is_last: reached == self.packets,
            }
        } else {
            let back = (-i64::from(ahead) - 1) as u32;
            if u64::from(back) >= self.reached {
                Place::Before
            } else {
                Place::Behind { back }
            }
        }
    }

    /// What can be taken in a row from here: packets that are neither the first nor the last, the way of
    /// nearly all. Nothing has moved until [`Track::walk`].
    #[inline(always)]
    pub fn stride(&self) -> Stride {
        // 0 less one is beyond all: the first is not among them.
        let walked = self.reached.wrapping_sub(1);
        let most = self.inner.saturating_sub(walked).min(STRIDE_MAX) as u32;
        let first = self.next.number() << SHIFT;
        Stride {
            due: first,
            end: first.wrapping_add(most << SHIFT),
            first,
        }
    }

    /// Moves on by what a stride from here has taken; returns how many that were.
    #[inline(always)]
    pub fn walk(&mut self, stride: &Stride) -> u32 {
        let taken = stride.taken();
        self.reached += u64::from(taken);
        self.next = self.next.plus(taken);
        taken
    }

    /// Moves on to `psn`, which [`Track::place`] has called ahead by `step`.
    #[inline(always)]
    pub fn advance(&mut self, psn: Psn, step: u32) {
        self.begun = true;
        self.reached += u64::from(step);
        self.next = psn.plus(1);
    }
}

/// Packets of a stride at most: far fewer than there are PSNs.
const STRIDE_MAX: u64 = FIRST_COPY_WINDOW as u64;

/// Packets of a flow in a row, each with the next PSN, that its [`Track`] has yet to be told of. PSNs are
/// kept in the upper 24 bits, where they wrap by themselves.
#[derive(Clone, Copy, Debug)]
pub struct Stride {
    due: u32,
    /// Where it ends.
    end: u32,
    first: u32,
}

/// The upper 24 bits.
const SHIFT: u32 = 8;

impl Stride {
    /// One that takes nothing.
    pub const NOTHING: Stride = Stride {
        due: 0,
        end: 0,
        first: 0,
    };

    /// Takes a packet if it is the next one.
    #[inline(always)]
    pub fn step(&mut self, psn: Psn) -> bool {
        if psn.number() << SHIFT != self.due || self.due == self.end {
            return false;
        }
        self.due = self.due.wrapping_add(1 << SHIFT);
        true
    }

    /// How many it has taken.
    #[inline(always)]
    pub fn taken(&self) -> u32 {
        self.due.wrapping_sub(self.first) >> SHIFT
    }
}

/// Which of the last [`FIRST_COPY_WINDOW`] PSNs of a flow were seen: a ring of bits, by PSN.
#[derive(Clone, Debug)]
pub struct Seen {
    bits: [u64; WORDS],
}

const _: () = assert!(Psn::COUNT.is_multiple_of(FIRST_COPY_WINDOW));

impl Default for Seen {
    fn default() -> Seen {
        Seen::new()
    }
}

impl Seen {
    /// Nothing seen.
    pub fn new() -> Seen {
        Seen { bits: [0; WORDS] }
    }

    /// The highest PSN moves on by a stride, all of which is seen now.
    #[inline(always)]
    pub fn walk(&mut self, stride: &Stride) {
        let mut at = (stride.first >> SHIFT) % FIRST_COPY_WINDOW;
        let mut left = stride.taken();
        while left > 0 {
            let (word, bit) = (at as usize / 64, at % 64);
            let here = left.min(64 - bit);
            self.bits[word] |= (u64::MAX >> (64 - here)) << bit;
            at = (at + here) % FIRST_COPY_WINDOW;
            left -= here;
        }
    }

    /// The highest PSN moves on by `step` to `psn`, which is seen now.
    #[inline(always)]
    pub fn advance(&mut self, psn: Psn, step: u32) {
        // All PSNs between are not seen; a leap over the ring clears it once.
        for skipped in 1..step.min(FIRST_COPY_WINDOW) {
            self.set(psn.plus(Psn::COUNT - skipped), false);
        }
        if step > FIRST_COPY_WINDOW {
            self.bits = [0; WORDS];
        }
        self.set(psn, true);
    }

    /// Whether `psn`, `back` below the highest, is seen for the first time; it is seen now.
    /// What is older than the ring counts as a later copy.
    #[inline(always)]
    pub fn is_first(&mut self, psn: Psn, back: u32) -> bool {
        if back >= FIRST_COPY_WINDOW {
            return false;
        }
        let at = psn.number() % FIRST_COPY_WINDOW;
        let first = self.bits[at as usize / 64] >> (at % 64) & 1 == 0;
        self.set(psn, true);
        first
    }

    #[inline(always)]
    fn set(&mut self, psn: Psn, seen: bool) {
        let at = psn.number() % FIRST_COPY_WINDOW;
        let bit = 1u64 << (at % 64);
        let word = &mut self.bits[at as usize / 64];
        *word = if seen { *word | bit } else { *word & !bit };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn a_flow_ends_at_its_last_psn_even_across_the_wrap() {
        let first = Psn::new(0xff_fff0);
        let mut track = Track::new(Some(first), 40);
        for n in 0..40 {
            let psn = first.plus(n);
            assert_eq!(
                track.place(psn),
                Place::Ahead {
                    step: 1,
                    is_last: n == 39
                },
                "packet {n}"
            );
            track.advance(psn, 1);
            assert_eq!(track.is_over(), n == 39);
        }
        assert_eq!(track.place(first.plus(40)), Place::Past);
        assert_eq!(track.place(first), Place::Behind { back: 39 });
        assert_eq!(
            track.place(first.plus(0xff_ffff)),
            Place::Before,
            "the one before the first"
        );
    }

    #[test]
    fn a_flow_longer_than_all_psns_is_followed_round() {
        let packets = 3 * u64::from(Psn::COUNT) + 5;
        let mut track = Track::new(Some(Psn::new(3)), packets);
        let mut psn = Psn::new(2);
        while !track.is_over() {
            let left = packets - track.reached();
            let step = left.min(1 << 22) as u32;
            psn = psn.plus(step);
            assert_eq!(
                track.place(psn),
                Place::Ahead {
                    step,
                    is_last: u64::from(step) == left
                }
            );
            track.advance(psn, step);
        }
        assert_eq!(track.reached(), packets);
    }

    proptest! {
        /// A stride takes what single steps take, and leaves what they leave.
        #[test]
        fn a_stride_is_as_many_steps(
            start in 0u32..(1 << 24), packets in 0u64..9000, runs in proptest::collection::vec(0u32..5000, 1..6),
        ) {
            let first = Psn::new(start);
            let (mut by_stride, mut by_step) = (Track::new(Some(first), packets), Track::new(Some(first), packets));
            let (mut seen_by_stride, mut seen_by_step) = (Seen::new(), Seen::new());
            let mut index = 0u64;
            for run in runs {
                let mut stride = by_stride.stride();
                for _ in 0..run {
                    let psn = first.plus((index % u64::from(Psn::COUNT)) as u32);
                    let Place::Ahead { step, is_last } = by_step.place(psn) else {
                        prop_assert!(!stride.step(psn), "beyond the end");
                        break;
                    };
                    prop_assert_eq!(step, 1);
                    by_step.advance(psn, step);
                    seen_by_step.advance(psn, step);
                    let is_inner = index > 0 && !is_last;
                    let is_taken = stride.step(psn);
                    prop_assert!(!is_taken || is_inner, "packet {} of {}", index, packets);
                    if !is_taken {
                        by_stride.walk(&stride);
                        seen_by_stride.walk(&stride);
                        by_stride.advance(psn, 1);
                        seen_by_stride.advance(psn, 1);
                        stride = by_stride.stride();
                    }
                    index += 1;
                }
                by_stride.walk(&stride);
                seen_by_stride.walk(&stride);
                prop_assert_eq!(by_stride.reached(), by_step.reached());
                prop_assert_eq!(by_stride.rest(), by_step.rest());
                prop_assert_eq!(seen_by_stride.bits, seen_by_step.bits);
            }
        }

        /// First copies are told as a set of PSNs tells them, whatever the order within the ring.
        #[test]
        #[cfg_attr(miri, ignore = "a case takes minutes")]
        fn first_copies_are_told_as_by_a_set(
            start in 0u32..(1 << 24), moves in proptest::collection::vec((any::<bool>(), 0u32..3000), 1..300),
        ) {
            let first = Psn::new(start);
            let mut track = Track::new(Some(first), 0);
            let mut seen = Seen::new();
            let mut model = HashSet::new();
            let mut high: i64 = -1;
            for (forward, distance) in moves {
                let index = if forward || high < 0 { high + 1 + i64::from(distance) } else { high - i64::from(distance).min(high) };
                let expected = model.insert(index);
                let psn = first.plus(index as u32);
                let told = match track.place(psn) {
                    Place::Ahead { step, .. } => { track.advance(psn, step); seen.advance(psn, step); high = index; true }
                    Place::Behind { back } => { prop_assert_eq!(i64::from(back), high - index); seen.is_first(psn, back) }
                    Place::Before | Place::Past => { prop_assert!(false, "PSN {} of {}", index, high); false }
                };
                prop_assert_eq!(told, expected, "index {} at {}", index, high);
            }
        }
    }
}
