//! Up to 64 packets in a row: what queues and rings fill and drain.
//!
//! A poll loop keeps one `Burst` and uses it over and over; nothing allocates. Whatever is
//! still in it when it is dropped goes back to the pools.

use std::ops::{Deref, DerefMut};

use arrayvec::ArrayVec;
use dpdk_sys as sys;

use crate::mbuf::Mbuf;

/// The most packets a [`Burst`] holds.
pub const BURST_MAX: usize = 64;

/// A bounded, ordered set of packets. Reads as a slice of [`Mbuf`].
#[derive(Debug, Default)]
pub struct Burst {
    mbufs: ArrayVec<Mbuf, BURST_MAX>,
}

impl Burst {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            mbufs: ArrayVec::new_const(),
        }
    }

    /// How many more packets fit.
    #[inline]
    pub fn room(&self) -> usize {
        self.mbufs.remaining_capacity()
    }

    /// Whether no more packets fit.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.mbufs.is_full()
    }

    /// Adds a packet at the end, or hands it back if all 64 places are taken.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        self.mbufs.try_push(mbuf).map_err(|full| full.element())
    }

    /// Takes the last packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.mbufs.pop()
    }

    /// Takes all packets, first to last. Those not consumed go back to their pools.
    #[inline]
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = Mbuf> + DoubleEndedIterator + '_ {
        self.mbufs.drain(..)
    }

    /// Frees all packets.
    #[inline]
    pub fn clear(&mut self) {
        if self.mbufs.is_empty() {
            return;
        }
        let count = u32::try_from(self.mbufs.len()).unwrap_or(0);
        let first = self.mbufs.as_mut_ptr().cast::<*mut sys::rte_mbuf>();
        // SAFETY: nothing is forgotten but what the next call frees, and a shorter length only
        // leaks. Done first, so that no `Mbuf` is visible twice.
        unsafe { self.mbufs.set_len(0) };
        // SAFETY: `first` points at `count` owned mbufs, `Mbuf` being a transparent pointer.
        unsafe { sys::rte_pktmbuf_free_bulk(first, count) }
    }

    /// Appends what `produce` writes; it is given the first free place and how many there are.
    ///
    /// # Safety
    /// `produce` returns how many owned mbufs it wrote to the places from the first on, never
    /// more than there are.
    #[inline]
    pub(crate) unsafe fn fill(
        &mut self,
        produce: impl FnOnce(*mut *mut sys::rte_mbuf, u16) -> usize,
    ) -> usize {
        let held = self.mbufs.len();
        let room = u16::try_from(BURST_MAX - held).unwrap_or(0);
        // SAFETY: `held` is at most the capacity, so the result is in or just past the array.
        let free = unsafe { self.mbufs.as_mut_ptr().add(held) };
        let added = produce(free.cast(), room);
        debug_assert!(added <= usize::from(room));
        // SAFETY: the caller promises that `added` further places are initialized.
        unsafe { self.mbufs.set_len(held + added) };
        added
    }

    /// Offers all packets to `consume` and closes the gap that the accepted ones leave, so that
    /// the others stay in order.
    ///
    /// # Safety
    /// `consume` takes ownership of as many mbufs as it returns, from the first on.
    #[inline]
    pub(crate) unsafe fn take_front(
        &mut self,
        consume: impl FnOnce(*mut *mut sys::rte_mbuf, u16) -> usize,
    ) -> usize {
        let held = self.mbufs.len();
        let first = self.mbufs.as_mut_ptr();
        let taken = consume(first.cast(), u16::try_from(held).unwrap_or(0));
        debug_assert!(taken <= held);
        let rest = held - taken;
        // SAFETY: `taken` is at most `held`, so the pointer stays in or just past the packets.
        let kept = unsafe { first.add(taken) };
        // SAFETY: `rest` initialized places start at `kept`; the ranges may overlap.
        unsafe { std::ptr::copy(kept, first, rest) };
        // SAFETY: the first `rest` places are initialized, the others have been moved out.
        unsafe { self.mbufs.set_len(rest) };
        taken
    }
}

impl Extend<Mbuf> for Burst {
    /// Adds packets at the end.
    ///
    /// # Panics
    /// If there is no room for them.
    #[inline]
    fn extend<I: IntoIterator<Item = Mbuf>>(&mut self, packets: I) {
        self.mbufs.extend(packets);
    }
}

impl Deref for Burst {
    type Target = [Mbuf];

    #[inline]
    fn deref(&self) -> &[Mbuf] {
        &self.mbufs
    }
}

impl DerefMut for Burst {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Mbuf] {
        &mut self.mbufs
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        if !self.mbufs.is_empty() {
            self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support;

    /// 64 packets fit, the 65th comes back, order holds, and dropping returns all of them.
    #[test]
    fn bounded_and_ordered() {
        let pool = test_support::pool("burst_bounded", 127, 64);
        let mut burst = Burst::new();
        for i in 0..64 {
            let mut mbuf = pool.alloc().unwrap();
            mbuf.write(&[i]).unwrap();
            burst.push(mbuf).unwrap();
        }
        assert!(burst.is_full());
        let extra = burst.push(pool.alloc().unwrap()).unwrap_err();
        assert!(extra.is_empty());
        drop(extra);

        for mbuf in burst.iter_mut() {
            mbuf.data_mut()[0] += 100;
        }
        let seen: Vec<u8> = burst.iter().map(|mbuf| mbuf.data()[0]).collect();
        assert_eq!(seen, (100..164).collect::<Vec<u8>>());

        assert_eq!(burst.drain().take(10).count(), 10);
        assert_eq!((burst.len(), pool.in_use()), (0, 0));

        assert!(pool.alloc_burst(&mut burst, 64));
        assert_eq!(pool.in_use(), 64);
        drop(burst);
        assert_eq!(pool.in_use(), 0);
    }

    /// A consumer that takes some leaves the others in order.
    #[test]
    fn take_front_keeps_order() {
        let pool = test_support::pool("burst_front", 63, 64);
        let mut burst = Burst::new();
        for i in 0..10 {
            let mut mbuf = pool.alloc().unwrap();
            mbuf.write(&[i]).unwrap();
            burst.push(mbuf).unwrap();
        }
        let free_three = |first, _| {
            // SAFETY: ten owned packets start at `first`; the first three are given up.
            unsafe { sys::rte_pktmbuf_free_bulk(first, 3) };
            3
        };
        // SAFETY: the closure takes exactly the three packets that it reports.
        let taken = unsafe { burst.take_front(free_three) };
        assert_eq!(taken, 3);
        let seen: Vec<u8> = burst.iter().map(|mbuf| mbuf.data()[0]).collect();
        assert_eq!(seen, (3..10).collect::<Vec<u8>>());
    }
}
