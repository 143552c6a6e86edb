//! A host of the simulation: a software RNIC, the workloads on it, and when it is due.
//!
//! It is looked at when a frame comes, when its link is free again and it has something to send, and
//! when its first timer has come. What was asked for earlier and is no longer so is passed over.

use endpoint::workload::{FlowTotals, Post, Script};
use endpoint::{Event, Host, QpId};
use pipeline::{Nanos, Token};

use crate::frame::Frame;
use crate::net::{HOST_SEND, HOST_TIMER, Net, place};

/// Never: nothing is asked for.
const NEVER: u64 = u64::MAX;

/// A workload on a host.
pub(crate) struct Task {
    pub(crate) script: Script,
    /// The first of its connections at the host.
    pub(crate) base: u32,
}

/// A host.
pub(crate) struct Station {
    pub(crate) host: Host,
    pub(crate) tasks: Vec<Task>,
    /// The event's word where its link ends.
    pub(crate) to: u32,
    send_at: u64,
    timer_at: u64,
    /// A task's flows begin at times of a trace.
    pub(crate) is_timed: bool,
    /// Frames that it sent.
    pub(crate) sent: u64,
    /// Flows that could not be posted: a fault of the simulator itself.
    pub(crate) refused: u64,
    /// Connections that have failed and whose peers do not know yet, by task.
    pub(crate) failed: Vec<(usize, QpId)>,
}

impl Station {
    pub(crate) fn new(host: Host, to: u32) -> Station {
        Station {
            host,
            tasks: Vec::new(),
            to,
            send_at: NEVER,
            timer_at: NEVER,
            is_timed: false,
            sent: 0,
            refused: 0,
            failed: Vec::new(),
        }
    }

    /// Begins a task.
    pub(crate) fn start(&mut self, now: Nanos, index: usize, task: usize, net: &mut Net) {
        let Station {
            host,
            tasks,
            refused,
            ..
        } = self;
        if let Some(Task { script, base }) = tasks.get_mut(task) {
            script.start(&mut |post| put(host, now, *base, post, refused));
        }
        self.go_on(now, index, net);
    }

    /// A frame has come.
    #[inline(always)]
    pub(crate) fn receive(&mut self, now: Nanos, frame: &Frame) {
        let wire_len = frame.wire_len() as usize;
        self.host.receive_header(now.0, frame.header(), wire_len);
    }

    /// Whether the send event of `now` is the one that was asked for last.
    #[inline(always)]
    pub(crate) fn is_send_due(&mut self, now: Nanos) -> bool {
        let is_due = self.send_at == now.0;
        if is_due {
            self.send_at = NEVER;
        }
        is_due
    }

    /// Does what time alone causes, if it is due.
    pub(crate) fn tick(&mut self, now: Nanos) -> bool {
        if self.timer_at != now.0 {
            return false;
        }
        self.timer_at = NEVER;
        let Station {
            host,
            tasks,
            refused,
            ..
        } = self;
        for Task { script, base } in tasks {
            if script.next_start().is_some_and(|at| at <= now.0) {
                script.on_time(now.0, &mut |post| put(host, now, *base, post, refused));
            }
        }
        if host.next_timer().is_some_and(|at| at <= now.0) {
            host.tick(now.0);
        }
        true
    }

    /// When time alone has something to do: a timer, or the next flow of a trace.
    #[inline(always)]
    fn next_timer(&self) -> Option<u64> {
        let timer = self.host.next_timer();
        if !self.is_timed {
            return timer;
        }
        let starts = self.tasks.iter().filter_map(|t| t.script.next_start());
        timer.into_iter().chain(starts).min()
    }

    /// Takes its events, sends what may be sent now, and asks to be looked at again.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, now: Nanos, index: usize, net: &mut Net) {
        while let Some(event) = self.host.poll_event() {
            self.on_event(now, &event);
        }
        let mut now = now;
        while let Some(at) = self.host.next_transmit(now.0) {
            if at > now.0 {
                // Nothing happens to it before that: no event is needed to come back.
                let is_timer_first = self
                    .next_timer()
                    .is_some_and(|t| t <= at && t < self.timer_at);
                if net.wheel.is_next_own(at) && !is_timer_first {
                    now = Nanos(at);
                    continue;
                }
                if at < self.send_at {
                    self.send_at = at;
                    net.wheel
                        .insert_own(at, HOST_SEND | place(net.switches + index, 0));
                }
                break;
            }
            let mut frame = net.sink.take();
            let Some(emitted) = self.host.transmit_header(now.0, frame.room()) else {
                net.sink.give(frame);
                break;
            };
            frame.set_lens(emitted.header_len, emitted.wire_len);
            self.sent += 1;
            net.send_from_host(now, self.to, frame);
        }
        if let Some(at) = self.next_timer()
            && at < self.timer_at
        {
            let at = at.max(now.0);
            self.timer_at = at;
            net.wheel
                .insert_own(at, HOST_TIMER | place(net.switches + index, 0));
        }
    }

    #[inline(never)]
    fn on_event(&mut self, now: Nanos, event: &Event) {
        let qp = match event {
            Event::SendComplete { qp, .. }
            | Event::Received { qp, .. }
            | Event::Failed { qp, .. } => qp.0,
        };
        let found = self.tasks.iter().rposition(|task| task.base <= qp);
        let Some(task) = found else {
            return;
        };
        let own = QpId(qp - self.tasks[task].base);
        let event = match *event {
            Event::SendComplete {
                flow_id,
                started_ns,
                ended_ns,
                ..
            } => Event::SendComplete {
                qp: own,
                flow_id,
                started_ns,
                ended_ns,
            },
            Event::Received {
                bytes, messages, ..
            } => Event::Received {
                qp: own,
                bytes,
                messages,
            },
            Event::Failed { reason, flows, .. } => {
                self.failed.push((task, own));
                Event::Failed {
                    qp: own,
                    reason,
                    flows,
                }
            }
        };
        let Station {
            host,
            tasks,
            refused,
            ..
        } = self;
        let Task { script, base } = &mut tasks[task];
        script.on_event(&event, &mut |post| put(host, now, *base, post, refused));
    }

    /// The other end of connection `qp` of a task has failed.
    pub(crate) fn peer_failed(&mut self, now: Nanos, task: usize, qp: QpId) {
        let Station {
            host,
            tasks,
            refused,
            ..
        } = self;
        if let Some(Task { script, base }) = tasks.get_mut(task) {
            script.on_peer_failed(qp, &mut |post| put(host, now, *base, post, refused));
        }
    }

    /// Frames of its workload that it sent; background traffic never ends by itself.
    pub(crate) fn sent_for_work(&self) -> u64 {
        self.sent
            .saturating_sub(self.host.counters().background_sent)
    }

    /// Whether a flow of it is still to start, when its time has come.
    pub(crate) fn starts_later(&self) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.any(|task| task.script.next_start().is_some())
    }

    /// Whether all its tasks are done.
    pub(crate) fn is_done(&self) -> bool {
        self.tasks.iter().all(|task| task.script.is_done())
    }

    /// Its flows.
    pub(crate) fn totals(&self) -> FlowTotals {
        let mut totals = FlowTotals::default();
        for task in &self.tasks {
            totals += task.script.totals();
        }
        totals.count(self.host.counters());
        totals
    }

    /// What must never be.
    pub(crate) fn errors(&self) -> u64 {
        let c = self.host.counters();
        self.refused
            + c.payload_errors
            + c.bad_icrc
            + c.bad_frame
            + c.bad_length
            + c.bad_opcode
            + c.unknown_qp
            + c.not_ours
    }
}

fn put(host: &mut Host, now: Nanos, base: u32, post: Post, refused: &mut u64) {
    if host.post(now.0, QpId(post.qp.0 + base), post.flow).is_err() {
        *refused += 1;
    }
}
