//! A host's queues and timers, kept up to date with its connections.
//!
//! Called after every change in a connection; what did not change costs a look.

use super::Host;
use crate::timers::NEVER;

impl Host {
    /// Time has come to `now`; it never goes back.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// Brings everything up to date after a change in connection `id`.
    #[inline]
    pub(super) fn settle(&mut self, id: u32) {
        self.settle_data(id);
        self.settle_control(id);
        self.settle_event(id);
        self.settle_timer(id);
    }

    #[inline]
    pub(super) fn settle_data(&mut self, id: u32) {
        let qp = &mut self.qps[id as usize];
        let mut has_data = qp.has_data(self.config.window_packets);
        let ready_ns = qp.limiter.ready_ns();
        if has_data && ready_ns > self.now {
            has_data = false;
            if !qp.is_paced {
                qp.is_paced = true;
                self.paced.at_latest(id, ready_ns);
            }
        } else if qp.is_paced {
            qp.is_paced = false;
            self.paced.remove(id);
        }
        if has_data != qp.counts_as_data {
            qp.counts_as_data = has_data;
            self.sendable = self.sendable + usize::from(has_data) - usize::from(!has_data);
        }
        if has_data && !qp.in_data_queue {
            qp.in_data_queue = true;
            self.data_queue.push_back(id);
        }
    }

    #[inline]
    pub(super) fn settle_control(&mut self, id: u32) {
        let qp = &mut self.qps[id as usize];
        let has_control = qp.has_control();
        if has_control != qp.counts_as_control {
            qp.counts_as_control = has_control;
            self.sendable = self.sendable + usize::from(has_control) - usize::from(!has_control);
        }
        if has_control && !qp.in_control_queue {
            qp.in_control_queue = true;
            self.control_queue.push_back(id);
        }
    }

    #[inline]
    pub(super) fn settle_event(&mut self, id: u32) {
        let qp = &mut self.qps[id as usize];
        if !qp.in_event_queue && qp.has_event() {
            qp.in_event_queue = true;
            self.event_queue.push_back(id);
        }
    }

    #[inline]
    pub(super) fn settle_timer(&mut self, id: u32) {
        let qp = &self.qps[id as usize];
        let deadline = qp.deadline();
        if deadline != NEVER && qp.failed.is_none() {
            self.timers.at_latest(id, deadline);
        }
    }

    /// Lets out the connections whose rate allows a packet by now.
    #[inline]
    pub(super) fn release_paced(&mut self) {
        while let Some((at, id)) = self.paced.first()
            && at <= self.now
        {
            self.settle_data(id);
        }
    }
}
