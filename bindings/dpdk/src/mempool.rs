//! Pools of packet buffers.
//!
//! Created at start-up by whoever configures ports; ports and endpoints hold cheap clones. All
//! memory is taken at creation, so running out later is a `None`, not a failure.
//!
//! # Why safe code cannot outlive a pool
//! An [`Mbuf`] does not hold its pool, as that would cost an atomic per packet. Instead the last
//! handle frees the pool only if every buffer is back, and otherwise leaks it, keeps EAL up for
//! ever and says so on standard error. Buffers may therefore be dropped at any time.

use std::ffi::c_void;
use std::mem;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dpdk_sys as sys;

use crate::burst::Burst;
use crate::eal::{Eal, EalInner};
use crate::error::{Errno, Error, c_string};
use crate::mbuf::Mbuf;

/// How long a complete pool is left alone before it is freed. The count says that every buffer
/// is back a few instructions before the call that brought the last one has returned.
const GRACE: Duration = Duration::from_millis(10);

/// A handle to a pool of equal packet buffers. Clones share the pool.
#[derive(Debug, Clone)]
pub struct Mempool {
    inner: Arc<PoolInner>,
}

#[derive(Debug)]
struct PoolInner {
    raw: NonNull<sys::rte_mempool>,
    name: String,
    count: u32,
    data_room_bytes: u32,
    /// Keeps EAL's memory mapped; taken only to be leaked.
    eal: Arc<EalInner>,
}

// SAFETY: DPDK's pools are made for use by many threads at once; the other fields are plain.
unsafe impl Send for PoolInner {}
// SAFETY: as above.
unsafe impl Sync for PoolInner {}

impl Mempool {
    /// Reserves `count` buffers that hold frames of up to `data_room_bytes` each, headroom not
    /// counted. `cache` buffers are kept at hand per lcore (0 to 512, and at most two thirds of
    /// `count`); `socket` is the NUMA node, `None` for any.
    ///
    /// DPDK stores buffers most compactly if `count` is a power of two minus one.
    pub fn create(
        eal: &Eal,
        name: &str,
        count: u32,
        cache: u32,
        data_room_bytes: u32,
        socket: Option<u32>,
    ) -> Result<Self, Error> {
        let c_name = c_string("mempool name", name)?;
        let room = data_room_bytes.saturating_add(sys::RTE_PKTMBUF_HEADROOM);
        let Ok(room_u16) = u16::try_from(room) else {
            return Err(Error::config(
                format!("mempool `{name}`: data room of {data_room_bytes} bytes is too large"),
                format!(
                    "at most {} fit",
                    u32::from(u16::MAX) - sys::RTE_PKTMBUF_HEADROOM
                ),
            ));
        };
        let cache_max = sys::RTE_MEMPOOL_CACHE_MAX_SIZE.min(count / 3 * 2);
        if cache > cache_max {
            return Err(Error::config(
                format!("mempool `{name}`: a cache of {cache} is too large for {count} buffers"),
                format!("use at most {cache_max}"),
            ));
        }
        // SAFETY: EAL is up (`eal`), and the name is NUL-terminated and copied.
        let raw = unsafe {
            sys::rte_pktmbuf_pool_create(c_name.as_ptr(), count, cache, 0, room_u16, node(socket))
        };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let errno = Errno::last();
            // SAFETY: computes a number.
            let object_bytes = unsafe { sys::shim_pool_object_bytes(room) };
            Error::call(
                "rte_pktmbuf_pool_create",
                format!(
                    "`{name}` ({count} buffers of {data_room_bytes} bytes, {} MiB)",
                    (u64::from(object_bytes) * u64::from(count)).div_ceil(1 << 20)
                ),
                errno,
                "give EAL that much memory more, make the pool smaller, use another name if it \
                 is taken, or leave the NUMA node open",
            )
        })?;
        Ok(Self {
            inner: Arc::new(PoolInner {
                raw,
                name: name.to_owned(),
                count,
                data_room_bytes,
                eal: eal.inner(),
            }),
        })
    }

    /// Takes an empty buffer; `None` if all are in use.
    #[inline]
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool is live as long as a handle is.
        let raw = unsafe { sys::shim_mbuf_alloc(self.raw()) };
        // SAFETY: a buffer just allocated is valid and ours alone.
        NonNull::new(raw).map(|raw| unsafe { Mbuf::from_raw(raw) })
    }

    /// Appends `count` empty buffers to the burst: all or, if they or the places for them are
    /// too few, none and `false`.
    #[inline]
    pub fn alloc_burst(&self, burst: &mut Burst, count: usize) -> bool {
        if count > burst.room() {
            return false;
        }
        let wanted = u32::try_from(count).unwrap_or(0);
        let produce = |places, _room| {
            // SAFETY: there are at least `count` places, and the pool is live.
            let result = unsafe { sys::shim_mbuf_alloc_bulk(self.raw(), places, wanted) };
            if result == 0 { count } else { 0 }
        };
        // SAFETY: the closure reports what it wrote, and those buffers are ours.
        let added = unsafe { burst.fill(produce) };
        added == count
    }

    /// Buffers that are out, in queues and rings included.
    pub fn in_use(&self) -> u32 {
        self.inner.in_use()
    }

    /// Buffers that can be had.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool is live as long as a handle is.
        unsafe { sys::rte_mempool_avail_count(self.raw()) }
    }

    /// How many buffers it was created with.
    pub fn count(&self) -> u32 {
        self.inner.count
    }

    /// The longest frame its buffers hold with default headroom.
    pub fn data_room_bytes(&self) -> u32 {
        self.inner.data_room_bytes
    }

    /// The name it was created with.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Shows the whole data room of every buffer to `visit`, to write frames ahead of time: a
    /// driver that does not touch data, such as `net_null`, then "receives" them.
    ///
    /// Needs the pool for itself: this must be its only handle and no buffer may be out, else
    /// it is an error. A panic in `visit` aborts the process.
    pub fn for_each_frame(&mut self, visit: impl FnMut(&mut [u8])) -> Result<(), Error> {
        let in_use = self.in_use();
        let Some(inner) = Arc::get_mut(&mut self.inner).filter(|_| in_use == 0) else {
            return Err(Error::config(
                format!(
                    "mempool `{}` is in use ({in_use} buffers are out, {} handles)",
                    self.inner.name,
                    Arc::strong_count(&self.inner)
                ),
                "write frames ahead of time before the pool is cloned or given to a port",
            ));
        };
        iterate(inner.raw, visit);
        Ok(())
    }

    #[inline]
    pub(crate) fn raw(&self) -> *mut sys::rte_mempool {
        self.inner.raw.as_ptr()
    }
}

impl PoolInner {
    fn in_use(&self) -> u32 {
        // SAFETY: the pool is live until `drop` frees it.
        unsafe { sys::rte_mempool_in_use_count(self.raw.as_ptr()) }
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        if self.in_use() == 0 {
            thread::sleep(GRACE);
        }
        let in_use = self.in_use();
        if in_use == 0 {
            // SAFETY: no handle and no buffer is left, so nobody can reach the pool any more.
            unsafe { sys::rte_mempool_free(self.raw.as_ptr()) };
            return;
        }
        eprintln!(
            "mempool `{}`: {in_use} of {} buffers are still out; its memory is not given back",
            self.name, self.count
        );
        // Those buffers stay usable, so the memory must stay mapped.
        mem::forget(Arc::clone(&self.eal));
    }
}

/// DPDK's notation for a NUMA node: -1 is any.
pub(crate) fn node(socket: Option<u32>) -> i32 {
    socket
        .and_then(|node| i32::try_from(node).ok())
        .unwrap_or(-1)
}

/// Calls `visit` for each buffer of a pool that the caller has for itself.
fn iterate<F: FnMut(&mut [u8])>(raw: NonNull<sys::rte_mempool>, mut visit: F) {
    /// `extern "C"`, so a panic aborts with its message instead of unwinding through DPDK.
    unsafe extern "C" fn each<F: FnMut(&mut [u8])>(
        context: *mut c_void,
        data: *mut u8,
        len: usize,
    ) {
        // SAFETY: `context` is the `visit` below, borrowed by nobody else meanwhile.
        let visit = unsafe { &mut *context.cast::<F>() };
        // SAFETY: the data room of a buffer that nobody holds.
        let frame = unsafe { slice::from_raw_parts_mut(data, len) };
        visit(frame);
    }
    let context = (&raw mut visit).cast();
    // SAFETY: the pool is live and idle, and `each::<F>` matches `context`.
    unsafe { sys::shim_pool_for_each(raw.as_ptr(), Some(each::<F>), context) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support;

    /// An empty pool says `None`, and every buffer comes back.
    #[test]
    fn exhaustion_is_none_and_all_come_back() {
        let pool = test_support::pool("pool_exhaustion", 15, 64);
        let all: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).collect();
        assert_eq!((all.len(), pool.in_use(), pool.available()), (15, 15, 0));
        assert!(pool.alloc().is_none());
        let mut burst = Burst::new();
        assert!(!pool.alloc_burst(&mut burst, 1));
        drop(all);
        assert_eq!((pool.in_use(), pool.available()), (0, 15));
        assert!(!pool.alloc_burst(&mut burst, 16), "all or none");
        assert!(pool.alloc_burst(&mut burst, 15));
    }

    /// A name can be used again after its pool is gone: the memory was given back.
    #[test]
    fn freed_on_last_drop() {
        for _ in 0..3 {
            let pool = test_support::pool("pool_again", 15, 64);
            drop(pool.clone());
            assert!(pool.alloc().is_some());
        }
    }

    /// A buffer outlives all handles of its pool and is still good.
    #[test]
    fn buffers_outlive_handles() {
        let pool = test_support::pool("pool_leaked", 7, 64);
        let mut mbuf = pool.alloc().unwrap();
        drop(pool);
        mbuf.write(b"still here").unwrap();
        assert_eq!(mbuf.data(), b"still here");
    }

    /// Frames written ahead of time are in the buffers that are allocated later.
    #[test]
    fn prewritten_frames_stay() {
        let mut pool = test_support::pool("pool_prewrite", 7, 64);
        let mut visited = 0;
        pool.for_each_frame(|frame| {
            assert_eq!(frame.len(), 64);
            frame.fill(0xa5);
            visited += 1;
        })
        .unwrap();
        assert_eq!(visited, 7);
        let mut mbuf = pool.alloc().unwrap();
        mbuf.set_len(64).unwrap();
        assert_eq!(mbuf.data(), [0xa5; 64]);
        let refused = pool.for_each_frame(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("1 buffers are out"), "{refused}");
    }

    /// A pool that cannot be had says how much memory it would take.
    #[test]
    fn too_large_is_an_error_with_numbers() {
        let eal = test_support::eal();
        let message = Mempool::create(eal, "pool_huge", 1 << 20, 0, 2048, None)
            .unwrap_err()
            .to_string();
        assert!(message.contains("MiB"), "{message}");
        let message = Mempool::create(eal, "pool_cache", 8, 8, 64, None)
            .unwrap_err()
            .to_string();
        assert!(message.contains("cache of 8"), "{message}");
    }
}
