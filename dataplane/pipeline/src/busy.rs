//! A set of places, such as ports, in which something waits: what a driver walks instead of all.
//!
//! Whoever puts something in a place enters it; a place that turns out to be empty is taken out by
//! the walk. So entering costs one store on the packet path, and leaving nothing.

/// Places in rising order.
#[derive(Clone, Debug, Default)]
pub struct Busy(Vec<u64>);

impl Busy {
    /// None of `count` places.
    pub fn new(count: usize) -> Busy {
        Busy(vec![0; count.div_ceil(64)])
    }

    /// Enters a place, which is one of those it was made for.
    #[inline(always)]
    pub fn insert(&mut self, place: usize) {
        self.0[place >> 6] |= 1 << (place & 63);
    }

    /// Takes a place out.
    #[inline(always)]
    pub fn remove(&mut self, place: usize) {
        self.0[place >> 6] &= !(1 << (place & 63));
    }

    /// The first place from `from` on, if there is one.
    #[inline]
    pub fn next(&self, from: usize) -> Option<usize> {
        next_of(&self.0, from)
    }

    /// Whether no place is in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

/// The first place from `from` on of which `words` have the bit.
#[inline(always)]
fn next_of(words: &[u64], from: usize) -> Option<usize> {
    let mut word = from >> 6;
    let mut bits = words.get(word)? & (u64::MAX << (from & 63));
    while bits == 0 {
        word += 1;
        bits = *words.get(word)?;
    }
    Some(word << 6 | bits.trailing_zeros() as usize)
}

/// Words of a set of ports.
const PORT_WORDS: usize = PORTS_MAX / 64;
/// Ports of a switch at most.
pub const PORTS_MAX: usize = 1024;

/// A set of ports of one switch; of a fixed size, so that entering one checks no bound.
#[derive(Clone, Debug)]
pub struct BusyPorts {
    words: [u64; PORT_WORDS],
    /// Words that ports stand in: a walk looks at no others.
    used: usize,
}

impl BusyPorts {
    /// None of `count` ports, [`PORTS_MAX`] at most.
    pub fn new(count: usize) -> BusyPorts {
        BusyPorts {
            words: [0; PORT_WORDS],
            used: count.div_ceil(64).min(PORT_WORDS),
        }
    }

    /// Enters a port below [`PORTS_MAX`].
    #[inline(always)]
    pub fn insert(&mut self, port: usize) {
        self.words[port >> 6 & (PORT_WORDS - 1)] |= 1 << (port & 63);
    }

    /// Takes a port out.
    #[inline(always)]
    pub fn remove(&mut self, port: usize) {
        self.words[port >> 6 & (PORT_WORDS - 1)] &= !(1 << (port & 63));
    }

    /// The first port from `from` on, if there is one.
    #[inline]
    pub fn next(&self, from: usize) -> Option<usize> {
        next_of(&self.words[..self.used], from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the walk meets what was entered, once and in order, over the borders of words.
    #[test]
    fn places_are_walked_in_order() {
        let mut busy = Busy::new(130);
        assert!(busy.is_empty() && busy.next(0).is_none());
        for place in [129, 0, 63, 64, 63] {
            busy.insert(place);
        }
        let mut seen = Vec::new();
        let mut from = 0;
        while let Some(place) = busy.next(from) {
            seen.push(place);
            from = place + 1;
        }
        assert_eq!(seen, [0, 63, 64, 129]);
        busy.remove(63);
        assert_eq!((busy.next(1), busy.next(65)), (Some(64), Some(129)));
        assert_eq!(busy.next(130), None);
    }
}
