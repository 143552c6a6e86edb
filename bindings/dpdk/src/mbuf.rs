//! One packet buffer, owned.
//!
//! Comes from a [`Mempool`](crate::Mempool), a receive queue or a ring; goes to a transmit
//! queue, a ring or back to its pool by being dropped. There is exactly one `Mbuf` per buffer
//! and it can't be cloned, so a packet is either moved on or freed, never both.

use std::fmt;
use std::mem;
use std::ptr::NonNull;
use std::slice;

use dpdk_sys as sys;

/// An owned packet buffer. As wide as a pointer; dropping it returns it to its pool.
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: an mbuf has no tie to a thread: pools take buffers back on any thread.
unsafe impl Send for Mbuf {}

/// A packet does not fit: the buffer has too little room for what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes wanted, but the mbuf has {available}; give its pool a larger data room")]
pub struct NoRoom {
    /// Bytes asked for.
    pub wanted: usize,
    /// Bytes there are.
    pub available: usize,
}

impl Mbuf {
    /// Takes over a buffer.
    ///
    /// # Safety
    /// `raw` is a live mbuf, its first segment's data lies within its buffer, and nothing else
    /// owns or refers to it.
    pub(crate) unsafe fn from_raw(raw: NonNull<sys::rte_mbuf>) -> Self {
        Self(raw)
    }

    /// Gives the buffer up to C.
    pub(crate) fn into_raw(self) -> NonNull<sys::rte_mbuf> {
        mem::ManuallyDrop::new(self).0
    }

    #[inline(always)]
    fn head(&self) -> *const sys::shim_mbuf {
        self.0.as_ptr().cast()
    }

    #[inline(always)]
    fn first_byte(&self) -> *mut u8 {
        // SAFETY: the mbuf is live and ours, and has its fields where `shim_mbuf` has them.
        let buffer = unsafe { (*self.head()).buf_addr };
        // SAFETY: likewise.
        let offset = unsafe { (*self.head()).data_off };
        // SAFETY: data begins inside the buffer.
        unsafe { buffer.add(usize::from(offset)) }
    }

    /// The packet's bytes; of a chained packet, those of the first segment.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // SAFETY: the segment's bytes are in its buffer, were mapped zeroed or written since, and
        // stay put and unshared while `self` is borrowed.
        unsafe { slice::from_raw_parts(self.first_byte(), self.len()) }
    }

    /// The packet's bytes, to change in place.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.first_byte(), self.len()) }
    }

    /// Bytes in the packet; of a chained packet, those of the first segment.
    #[inline(always)]
    pub fn len(&self) -> usize {
        // SAFETY: as in `first_byte`.
        usize::from(unsafe { (*self.head()).data_len })
    }

    /// Whether there are no bytes in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the whole packet over all segments.
    pub fn total_len(&self) -> usize {
        // SAFETY: as in `first_byte`.
        (unsafe { (*self.head()).pkt_len }) as usize
    }

    /// The longest packet this buffer can hold from its present start on.
    pub fn room(&self) -> usize {
        // SAFETY: the mbuf is live and ours.
        unsafe { sys::shim_mbuf_room(self.0.as_ptr()) as usize }
    }

    /// Free bytes before the packet.
    pub fn headroom(&self) -> usize {
        // SAFETY: the mbuf is live and ours.
        unsafe { sys::shim_mbuf_headroom(self.0.as_ptr()) as usize }
    }

    /// Whether the packet lies in this one buffer. `data` shows all of it only then.
    #[inline(always)]
    pub fn is_single_segment(&self) -> bool {
        // SAFETY: as in `first_byte`.
        unsafe { (*self.head()).nb_segs == 1 }
    }

    /// Makes the packet `len` bytes long. Bytes gained show whatever the buffer held before. A
    /// chained packet has no room to give.
    pub fn set_len(&mut self, len: usize) -> Result<(), NoRoom> {
        let wanted = u32::try_from(len).unwrap_or(u32::MAX);
        // SAFETY: the mbuf is live and ours; the shim refuses what does not fit.
        let result = unsafe { sys::shim_mbuf_set_len(self.0.as_ptr(), wanted) };
        if result == 0 {
            return Ok(());
        }
        let available = if self.is_single_segment() {
            self.room()
        } else {
            self.len()
        };
        Err(NoRoom {
            wanted: len,
            available,
        })
    }

    /// Lengthens the packet by `len` bytes at its front, into the headroom.
    pub fn prepend(&mut self, len: usize) -> Result<(), NoRoom> {
        let wanted = u32::try_from(len).unwrap_or(u32::MAX);
        // SAFETY: the mbuf is live and ours; the shim refuses what does not fit.
        let result = unsafe { sys::shim_mbuf_prepend(self.0.as_ptr(), wanted) };
        let available = self.headroom();
        if result == 0 {
            Ok(())
        } else {
            Err(NoRoom {
                wanted: len,
                available,
            })
        }
    }

    /// Cuts `len` bytes off the packet's front.
    pub fn trim_front(&mut self, len: usize) -> Result<(), NoRoom> {
        let wanted = u32::try_from(len).unwrap_or(u32::MAX);
        // SAFETY: the mbuf is live and ours; the shim refuses more than there is.
        let result = unsafe { sys::shim_mbuf_trim_front(self.0.as_ptr(), wanted) };
        let available = self.len();
        if result == 0 {
            Ok(())
        } else {
            Err(NoRoom {
                wanted: len,
                available,
            })
        }
    }

    /// Empties it as if freshly allocated: no bytes, default headroom, one segment.
    pub fn reset(&mut self) {
        // SAFETY: the mbuf is live and ours.
        unsafe { sys::shim_mbuf_reset(self.0.as_ptr()) }
    }

    /// Makes `bytes` the packet, from the present start on.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.set_len(bytes.len())?;
        self.data_mut().copy_from_slice(bytes);
        Ok(())
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the mbuf is live and ours, and nobody can name it afterwards.
        unsafe { sys::shim_mbuf_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mbuf({} of {} bytes)", self.len(), self.room())
    }
}

#[cfg(test)]
mod tests {
    use crate::test_support;

    /// Lengths move within the buffer's bounds and never beyond.
    #[test]
    fn bounds_hold() {
        let pool = test_support::pool("mbuf_bounds", 7, 256);
        let mut mbuf = pool.alloc().unwrap();
        assert_eq!((mbuf.len(), mbuf.room(), mbuf.headroom()), (0, 256, 128));
        assert!(mbuf.is_single_segment());

        mbuf.set_len(256).unwrap();
        let refused = mbuf.set_len(257).unwrap_err();
        assert_eq!((refused.wanted, refused.available), (257, 256));
        assert_eq!(mbuf.len(), 256);

        mbuf.prepend(128).unwrap();
        assert_eq!((mbuf.len(), mbuf.headroom()), (384, 0));
        assert!(mbuf.prepend(1).is_err());
        mbuf.trim_front(384).unwrap();
        assert!(mbuf.is_empty());
        assert!(mbuf.trim_front(1).is_err());
        assert!(mbuf.set_len(usize::MAX).is_err());

        mbuf.reset();
        mbuf.write(b"hello").unwrap();
        assert_eq!((mbuf.data(), mbuf.total_len()), (&b"hello"[..], 5));
        mbuf.trim_front(1).unwrap();
        mbuf.prepend(1).unwrap();
        mbuf.data_mut()[0] = b'j';
        assert_eq!(mbuf.data(), b"jello");
    }
}
