//! The queues of a port: what a poll loop holds.
//!
//! One per lcore and direction. They are `Send`, neither `Sync` nor `Clone`, so one thread at a
//! time polls a queue, as drivers demand; different queues of a port may be polled at once.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use dpdk_sys as sys;

use super::PortInner;
use crate::burst::Burst;

/// A queue that packets arrive on.
#[derive(Debug)]
pub struct RxQueue {
    port: u16,
    queue: u16,
    _inner: Arc<PortInner>,
    _one_thread: PhantomData<Cell<()>>,
}

/// A queue that packets leave by.
#[derive(Debug)]
pub struct TxQueue {
    port: u16,
    queue: u16,
    _inner: Arc<PortInner>,
    _one_thread: PhantomData<Cell<()>>,
}

impl RxQueue {
    pub(super) fn new(inner: Arc<PortInner>, queue: u16) -> Self {
        Self {
            port: inner.id,
            queue,
            _inner: inner,
            _one_thread: PhantomData,
        }
    }

    /// Appends packets that have arrived, as many as fit, and returns how many. Give it an
    /// empty burst: some drivers deliver nothing into less than a handful of places.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        self.receive_at_most(burst, u16::MAX)
    }

    /// The same, but at most `count` packets: how many a poll takes in at once decides what a
    /// packet waits for, and how far ahead bytes are fetched.
    #[inline]
    pub fn receive_at_most(&mut self, burst: &mut Burst, count: u16) -> usize {
        let (port, queue) = (self.port, self.queue);
        let produce = |places, room: u16| {
            // SAFETY: the port runs while `_inner` is held, this thread alone polls the queue,
            // and there are `room` places.
            usize::from(unsafe { sys::shim_rx_burst(port, queue, places, room.min(count)) })
        };
        // SAFETY: the driver reports what it wrote and gives those mbufs up.
        unsafe { burst.fill(produce) }
    }

    /// DPDK's number of the port.
    pub fn port_id(&self) -> u16 {
        self.port
    }

    pub(crate) fn raw(&self) -> sys::shim_queue {
        sys::shim_queue {
            port: self.port,
            queue: self.queue,
        }
    }
}

impl TxQueue {
    pub(super) fn new(inner: Arc<PortInner>, queue: u16) -> Self {
        Self {
            port: inner.id,
            queue,
            _inner: inner,
            _one_thread: PhantomData,
        }
    }

    /// Hands packets to the device, from the first on, and returns how many it took. The others
    /// stay in the burst, in order: send them again, or free and count them.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> usize {
        let (port, queue) = (self.port, self.queue);
        let consume = |mbufs, count| {
            // SAFETY: the port runs while `_inner` is held, this thread alone uses the queue,
            // and `count` owned mbufs are there.
            usize::from(unsafe { sys::shim_tx_burst(port, queue, mbufs, count) })
        };
        // SAFETY: the driver owns the mbufs whose number it returns, from the first on.
        unsafe { burst.take_front(consume) }
    }

    /// Gives packets that have left back to their pools and returns how many. Drivers do so in
    /// `send` only, so an idle queue can hold up to all its descriptors of them: call it when
    /// idle. Drivers that cannot do it return 0.
    pub fn reap(&mut self) -> usize {
        // SAFETY: the port runs while `_inner` is held, and this thread alone uses the queue.
        let result = unsafe { sys::rte_eth_tx_done_cleanup(self.port, self.queue, 0) };
        usize::try_from(result).unwrap_or(0)
    }

    /// DPDK's number of the port.
    pub fn port_id(&self) -> u16 {
        self.port
    }

    pub(crate) fn raw(&self) -> sys::shim_queue {
        sys::shim_queue {
            port: self.port,
            queue: self.queue,
        }
    }
}
