//! A bounded queue of packets between two threads, without locks: one sender, one receiver.
//!
//! Links lcores to each other. A full ring gives the packet back, so the sender decides and
//! counts; nothing is dropped inside. What is in the ring when both ends are gone is freed.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use dpdk_sys as sys;

use crate::burst::Burst;
use crate::eal::{Eal, EalInner};
use crate::error::{Errno, Error, c_string};
use crate::mbuf::Mbuf;
use crate::mempool::node;

/// The end that packets go into. One thread's at a time: `Send`, neither `Sync` nor `Clone`.
#[derive(Debug)]
pub struct RingSender {
    ring: Arc<RingInner>,
    _one_thread: PhantomData<Cell<()>>,
}

/// The end that packets come out of. One thread's at a time: `Send`, neither `Sync` nor `Clone`.
#[derive(Debug)]
pub struct RingReceiver {
    ring: Arc<RingInner>,
    _one_thread: PhantomData<Cell<()>>,
}

#[derive(Debug)]
struct RingInner {
    raw: NonNull<sys::rte_ring>,
    _eal: Arc<EalInner>,
}

// SAFETY: a single-producer single-consumer ring is made for two threads. Enqueueing is reached
// by the one sender, dequeueing by the one receiver, and both take `&mut self` there.
unsafe impl Send for RingInner {}
// SAFETY: as above; what both ends share is reading the length.
unsafe impl Sync for RingInner {}

/// Creates a ring for exactly `capacity` packets; `socket` is the NUMA node, `None` for any.
pub fn ring(
    eal: &Eal,
    name: &str,
    capacity: u32,
    socket: Option<u32>,
) -> Result<(RingSender, RingReceiver), Error> {
    let c_name = c_string("ring name", name)?;
    if capacity == 0 {
        return Err(Error::config(
            format!("ring `{name}` has no capacity"),
            "give it at least 1",
        ));
    }
    // SAFETY: EAL is up (`eal`), and the name is NUL-terminated and copied.
    let raw = unsafe { sys::shim_ring_create(c_name.as_ptr(), capacity, node(socket)) };
    let raw = NonNull::new(raw).ok_or_else(|| {
        Error::call(
            "rte_ring_create",
            format!("`{name}` (capacity {capacity})"),
            Errno::last(),
            "use another name if it is taken, a shorter one, a smaller capacity, or more memory",
        )
    })?;
    let ring = Arc::new(RingInner {
        raw,
        _eal: eal.inner(),
    });
    let sender = RingSender {
        ring: Arc::clone(&ring),
        _one_thread: PhantomData,
    };
    let receiver = RingReceiver {
        ring,
        _one_thread: PhantomData,
    };
    Ok((sender, receiver))
}

impl RingSender {
    /// Puts one packet in, or hands it back if the ring is full.
    #[inline]
    pub fn send(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        let raw = mbuf.into_raw();
        let one = [raw.as_ptr()];
        // SAFETY: the ring is live, this is its only producer, and `one` is one owned mbuf.
        let sent = unsafe { sys::shim_ring_enqueue(self.ring.raw.as_ptr(), one.as_ptr(), 1) };
        if sent == 1 {
            return Ok(());
        }
        // SAFETY: the ring did not take it, so it is still ours.
        Err(unsafe { Mbuf::from_raw(raw) })
    }

    /// Puts in as many packets as fit, from the first on, and returns how many; the others stay
    /// in the burst, in order.
    #[inline]
    pub fn send_burst(&mut self, burst: &mut Burst) -> usize {
        let ring = self.ring.raw.as_ptr();
        let consume = |mbufs: *mut *mut sys::rte_mbuf, count| {
            // SAFETY: the ring is live, this is its only producer, `count` owned mbufs are there.
            unsafe { sys::shim_ring_enqueue(ring, mbufs, u32::from(count)) as usize }
        };
        // SAFETY: the ring owns the mbufs whose number it returns, from the first on.
        unsafe { burst.take_front(consume) }
    }

    /// Packets inside. The other end may change it at once.
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether nothing is inside.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets it can hold.
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

impl RingReceiver {
    /// Takes the oldest packet, if there is one.
    #[inline]
    pub fn receive(&mut self) -> Option<Mbuf> {
        let mut one = [std::ptr::null_mut()];
        // SAFETY: the ring is live, this is its only consumer, and `one` has one place.
        unsafe { sys::shim_ring_dequeue(self.ring.raw.as_ptr(), one.as_mut_ptr(), 1) };
        // SAFETY: what comes out of the ring was put in by its owner and is ours now.
        NonNull::new(one[0]).map(|raw| unsafe { Mbuf::from_raw(raw) })
    }

    /// Appends the oldest packets to the burst until either is done, and returns how many.
    #[inline]
    pub fn receive_burst(&mut self, burst: &mut Burst) -> usize {
        let ring = self.ring.raw.as_ptr();
        let produce = |places, room| {
            // SAFETY: the ring is live, this is its only consumer, and there are `room` places.
            unsafe { sys::shim_ring_dequeue(ring, places, u32::from(room)) as usize }
        };
        // SAFETY: the ring reports what it wrote, and those mbufs are ours now.
        unsafe { burst.fill(produce) }
    }

    /// Packets inside. The other end may change it at once.
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether nothing is inside.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets it can hold.
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

impl RingInner {
    fn len(&self) -> usize {
        // SAFETY: the ring is live; reading its length is allowed to any thread.
        unsafe { sys::shim_ring_len(self.raw.as_ptr()) as usize }
    }

    fn capacity(&self) -> usize {
        // SAFETY: the ring is live and its capacity never changes.
        unsafe { sys::shim_ring_capacity(self.raw.as_ptr()) as usize }
    }
}

impl Drop for RingInner {
    fn drop(&mut self) {
        let raw = self.raw.as_ptr();
        let mut burst = Burst::new();
        loop {
            let produce = |places, room| {
                // SAFETY: the ring is live, both ends are gone, and there are `room` places.
                unsafe { sys::shim_ring_dequeue(raw, places, u32::from(room)) as usize }
            };
            // SAFETY: the ring reports what it wrote, and those mbufs are ours now.
            if unsafe { burst.fill(produce) } == 0 {
                break;
            }
            burst.clear();
        }
        // SAFETY: nobody else can reach the ring.
        unsafe { sys::rte_ring_free(raw) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support;

    /// First in, first out; full gives back; the rest stays in the burst; drop frees.
    #[test]
    fn order_capacity_and_drop() {
        let pool = test_support::pool("ring_order", 31, 64);
        let (mut sender, mut receiver) = ring(test_support::eal(), "order", 10, None).unwrap();
        assert_eq!((sender.capacity(), sender.is_empty()), (10, true));
        assert!(receiver.receive().is_none());

        let mut burst = Burst::new();
        for i in 0..14 {
            let mut mbuf = pool.alloc().unwrap();
            mbuf.write(&[i]).unwrap();
            burst.push(mbuf).unwrap();
        }
        assert_eq!(sender.send_burst(&mut burst), 10);
        let kept: Vec<u8> = burst.iter().map(|m| m.data()[0]).collect();
        assert_eq!(kept, [10, 11, 12, 13]);
        let back = sender.send(burst.pop().unwrap()).unwrap_err();
        assert_eq!(back.data(), [13]);
        drop(back);

        assert_eq!(receiver.receive().unwrap().data(), [0]);
        let mut out = Burst::new();
        assert_eq!(receiver.receive_burst(&mut out), 9);
        let seen: Vec<u8> = out.iter().map(|m| m.data()[0]).collect();
        assert_eq!(seen, (1..10).collect::<Vec<u8>>());

        out.clear();
        assert_eq!(sender.send_burst(&mut burst), 3);
        assert_eq!((receiver.len(), pool.in_use()), (3, 3));
        drop(sender);
        assert_eq!(pool.in_use(), 3, "the other end still holds them");
        drop(receiver);
        assert_eq!(pool.in_use(), 0);
    }

    /// Packets cross between threads in order and none is lost.
    #[test]
    fn two_threads() {
        const PACKETS: u32 = 20_000;
        let pool = test_support::pool("ring_threads", 255, 64);
        let (mut sender, mut receiver) = ring(test_support::eal(), "threads", 64, None).unwrap();
        let source = pool.clone();
        let producer = std::thread::spawn(move || {
            let mut next = 0_u32;
            while next < PACKETS {
                let Some(mut mbuf) = source.alloc() else {
                    std::thread::yield_now();
                    continue;
                };
                mbuf.write(&next.to_be_bytes()).unwrap();
                while let Err(back) = sender.send(mbuf) {
                    mbuf = back;
                    std::thread::yield_now();
                }
                next += 1;
            }
        });
        let mut expected = 0_u32;
        let mut burst = Burst::new();
        while expected < PACKETS {
            if receiver.receive_burst(&mut burst) == 0 {
                std::thread::yield_now();
            }
            for mbuf in burst.drain() {
                assert_eq!(mbuf.data(), expected.to_be_bytes());
                expected += 1;
            }
        }
        producer.join().unwrap();
        assert_eq!(pool.in_use(), 0);
    }
}
