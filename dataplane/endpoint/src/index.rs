//! From a queue pair number to its connection: open addressing, no iteration, no allocation.

use packet::Qpn;

const EMPTY: (u32, u32) = (u32::MAX, 0);

/// Numbers of up to half as many connections as it has slots.
#[derive(Debug)]
pub(crate) struct QpIndex {
    slots: Box<[(u32, u32)]>,
    shift: u32,
}

impl QpIndex {
    /// Room for `count` connections, above zero.
    pub(crate) fn new(count: usize) -> QpIndex {
        let slots = (2 * count).next_power_of_two().max(2);
        QpIndex {
            slots: vec![EMPTY; slots].into(),
            shift: 32 - slots.trailing_zeros(),
        }
    }

    /// The connection of `qpn`.
    #[inline]
    pub(crate) fn get(&self, qpn: Qpn) -> Option<u32> {
        let mut at = self.home(qpn);
        loop {
            match self.slots[at] {
                (number, qp) if number == qpn.0 => return Some(qp),
                EMPTY => return None,
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Enters `qpn`, which must not be there; the caller keeps to the count.
    pub(crate) fn insert(&mut self, qpn: Qpn, qp: u32) {
        let mut at = self.home(qpn);
        while self.slots[at] != EMPTY {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (qpn.0, qp);
    }

    #[inline]
    fn home(&self, qpn: Qpn) -> usize {
        (qpn.0.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: 2,000 numbers are found, their neighbours are not.
    #[test]
    fn numbers_are_found() {
        for step in [1, 2, 4096] {
            let mut index = QpIndex::new(2000);
            for qp in 0..2000 {
                index.insert(Qpn(17 + qp * step), qp);
            }
            for qp in 0..2000 {
                assert_eq!(index.get(Qpn(17 + qp * step)), Some(qp), "step {step}");
            }
            assert_eq!(index.get(Qpn(16)), None);
            assert_eq!(index.get(Qpn(0xff_ffff)), None);
        }
    }
}
