//! The flows of a trace: each begins at its time, or when its connection has room.

use super::{Lane, Post, Script};
use crate::config::Flow;
use crate::workload::{HostId, Workload, WorkloadKind};

/// Flows of a trace that a connection has under way; hosts hold four by default.
const TIMED_MAX: u32 = 4;

/// Deals the flows of a trace that `host` sends over its lanes to each peer, in turn.
pub(super) fn deal(workload: &Workload, host: HostId, lanes: &mut [Lane]) {
    // The lanes to a peer stand together, in the order of peers.
    let mut firsts: Vec<(HostId, usize)> = Vec::new();
    for (at, lane) in lanes.iter().enumerate() {
        if firsts
            .last()
            .is_none_or(|(peer, _)| *peer != lane.plan.peer)
        {
            firsts.push((lane.plan.peer, at));
        }
    }
    let mut dealt = vec![0; firsts.len()];
    for flow in workload.trace().iter().filter(|flow| flow.source == host) {
        if let Ok(at) = firsts.binary_search_by_key(&flow.destination, |(peer, _)| *peer) {
            let lane = firsts[at].1 + dealt[at] % workload.config().qps as usize;
            dealt[at] += 1;
            lanes[lane].timed.push_back(*flow);
        }
    }
}

impl Lane {
    /// Whether another flow of a trace may be posted.
    fn has_room(&self) -> bool {
        !self.is_dead && self.outstanding < TIMED_MAX
    }
}

impl Script {
    pub(super) fn is_timed(&self) -> bool {
        self.workload.config().kind == WorkloadKind::Trace
    }

    /// When [`Script::on_time`] has something to do; `None` when events alone drive the script.
    pub fn next_start(&self) -> Option<u64> {
        if !self.is_timed() {
            return None;
        }
        let lanes = self.lanes.iter().filter(|lane| lane.has_room());
        lanes
            .filter_map(|lane| Some(lane.timed.front()?.start_ns))
            .min()
    }

    /// Time has come to `now`: flows of a trace begin.
    pub fn on_time(&mut self, now: u64, post: &mut impl FnMut(Post)) {
        self.now = self.now.max(now);
        self.post_timed(post);
    }

    /// Posts the flows of a trace whose time has come, as far as their connections have room.
    pub(super) fn post_timed(&mut self, post: &mut impl FnMut(Post)) {
        let config = *self.workload.config();
        for lane in &mut self.lanes {
            while lane.has_room()
                && let Some(flow) = lane.timed.front()
                && flow.start_ns <= self.now
            {
                let bytes = flow.bytes;
                lane.timed.pop_front();
                self.totals.posted += 1;
                self.totals.announced += u64::from(config.announce);
                self.flows += 1;
                self.sending += usize::from(lane.outstanding == 0);
                lane.outstanding += 1;
                post(Post {
                    qp: lane.plan.id,
                    flow: Flow {
                        verb: config.verb,
                        flow_id: u64::from(self.host.0) << 40 | self.flows,
                        bytes,
                        message_bytes: config.message_bytes,
                        announce: config.announce,
                    },
                });
            }
        }
    }
}
