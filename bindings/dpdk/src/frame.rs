//! A packet with the place and the length of its bytes at hand.
//!
//! Each look at an mbuf's bytes is a call into the C shim, the one place that knows an mbuf's
//! layout. Whoever looks at a packet many times, as a switch does, holds a [`Frame`] instead: it
//! asked once, and keeps the packet from being moved or resized meanwhile.

use std::slice;

use arrayvec::ArrayVec;
use dpdk_sys as sys;

use crate::burst::BURST_MAX;
use crate::mbuf::Mbuf;

/// An owned packet whose bytes stay where they are. Dropping it returns it to its pool.
// The layout of `sys::shim_held`.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    mbuf: Mbuf,
    view: sys::shim_frame,
}

// SAFETY: it owns the mbuf, and with it the bytes that `view` points at.
unsafe impl Send for Frame {}

impl From<Mbuf> for Frame {
    #[inline]
    fn from(mbuf: Mbuf) -> Self {
        let view = mbuf.frame();
        Self { mbuf, view }
    }
}

impl Frame {
    /// The packet's bytes; of a chained packet, those of the first segment.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // SAFETY: as in `Mbuf::data`; nobody could move or resize the packet since it was asked.
        unsafe { slice::from_raw_parts(self.view.data, self.view.len as usize) }
    }

    /// The packet's bytes, to change in place.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.view.data, self.view.len as usize) }
    }

    /// Bytes of the packet, of its first segment if it is chained.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.view.len
    }

    /// Whether there are no bytes in it.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.view.len == 0
    }

    /// Whether the packet lies in this one buffer. `data` shows all of it only then.
    #[inline(always)]
    pub fn is_single_segment(&self) -> bool {
        self.view.segments == 1
    }

    /// The packet, to be sent or resized.
    #[inline(always)]
    pub fn into_mbuf(self) -> Mbuf {
        self.mbuf
    }
}

/// Up to 64 frames in a row. A poll loop keeps one and uses it over and over.
#[derive(Debug, Default)]
pub struct FrameBurst {
    frames: ArrayVec<Frame, BURST_MAX>,
}

impl FrameBurst {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            frames: ArrayVec::new_const(),
        }
    }

    /// Takes all frames, first to last. Those not consumed go back to their pools.
    #[inline]
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = Frame> + DoubleEndedIterator + '_ {
        self.frames.drain(..)
    }

    /// Takes `count` mbufs over, asks for the bytes of each in one call and fetches their first
    /// cache lines ahead.
    ///
    /// # Safety
    /// `mbufs` points at `count` live mbufs, at most [`BURST_MAX`], that nothing else owns.
    #[inline]
    pub(crate) unsafe fn take(&mut self, mbufs: *const *mut sys::rte_mbuf, count: usize) {
        self.frames.clear();
        let held = self.frames.as_mut_ptr().cast::<sys::shim_held>();
        let count_u32 = u32::try_from(count).unwrap_or(0);
        // SAFETY: there are `count` mbufs, and at least as many places of the same layout.
        unsafe { sys::shim_mbuf_hold(mbufs, held, count_u32) };
        // SAFETY: the call above wrote the first `count` places.
        unsafe { self.frames.set_len(count) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Burst, test_support};

    const _: () = assert!(size_of::<Frame>() == size_of::<sys::shim_held>());

    /// Frames are the packets of the burst, in order, with their bytes; nothing leaks.
    #[test]
    fn held_packets_are_the_same() {
        let pool = test_support::pool("frame_held", 31, 64);
        let (mut burst, mut held) = (Burst::new(), FrameBurst::new());
        for round in 0..2 {
            for len in 0..10 {
                let mut mbuf = pool.alloc().unwrap();
                mbuf.write(&[round; 10][..len]).unwrap();
                burst.push(mbuf).unwrap();
            }
            burst.hold(&mut held);
            assert!(burst.is_empty());
            assert_eq!(pool.in_use(), 10, "what was held before is back");
        }
        let mut frames = held.drain();
        for len in 0..5 {
            let mut frame = frames.next().unwrap();
            assert_eq!((frame.data(), frame.len()), (&[1; 10][..len], len as u32));
            assert!(frame.is_single_segment() && frame.is_empty() == (len == 0));
            frame.data_mut().fill(7);
            assert_eq!(frame.into_mbuf().data(), &[7; 10][..len]);
        }
        drop(frames);
        assert_eq!(pool.in_use(), 0);
    }
}
