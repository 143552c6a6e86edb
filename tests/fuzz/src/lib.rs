//! What the targets share: a fabric's configuration (that of the pipeline's own tests) and a
//! switch that is fed frame by frame.

#[path = "../../../dataplane/pipeline/tests/fabric/net.rs"]
#[allow(dead_code)]
mod net;
pub mod seeds;

use pipeline::{DropReason, Nanos, PortId, Report, Sink, Switch};

use net::Frame;

/// What a driver sees of tokens.
#[derive(Default)]
struct Tally {
    made: u64,
    ended: u64,
    reports: u64,
}

impl Sink<Frame> for Tally {
    fn alloc(&mut self, len: usize) -> Option<Frame> {
        self.made += 1;
        Some(Frame(vec![0; len]))
    }
    fn discard(&mut self, _token: Frame, _reason: DropReason) {
        self.ended += 1;
    }
    fn consume(&mut self, _token: Frame) {
        self.ended += 1;
    }
    fn report(&mut self, _report: Report<'_>) -> bool {
        self.reports += 1;
        !self.reports.is_multiple_of(4)
    }
}

/// Feeds port `port` of switch `index` (leaves 0 to 2, then spines) with the frames in `data`: each
/// is a byte of what happens before it, two of its length, and itself. Panics if one is lost.
pub fn feed(index: u16, port: u16, data: &[u8]) {
    let mut measurement = net::measurement(false);
    measurement.rows_max = 4;
    measurement.idle_ns_max = 20_000;
    measurement.window_packets_max = 8;
    let mut config = net::config(index, &measurement);
    config.queue.limit_bytes = 4_000;
    config.queue.packets_max = 32;
    config.link_state_ns = Some(100_000);
    for port in &mut config.ports {
        port.accept_any_mac = true;
    }
    let mut switch: Switch<Frame> = Switch::new(&config);
    let mut tally = Tally::default();
    let (mut now, mut rest, mut fed, mut sent) = (Nanos(0), data, 0u64, 0u64);
    while let [what, high, low, tail @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]) & 0x07ff).min(tail.len());
        let (frame, next) = tail.split_at(len);
        rest = next;
        now = now.plus(u64::from(what & 15) * 1_000);
        let out = PortId(u16::from(what >> 4 & 3) % config.ports.len() as u16);
        match what >> 6 {
            0 => switch.tick(now, &mut tally),
            1 => switch.set_link(now, out, what & 1 == 0, &mut tally),
            _ => {
                while switch.egress(now, out).is_some() {
                    sent += 1;
                }
            }
        }
        // Twice: the second may go the short way.
        let burst = [frame, frame].map(|bytes| Frame(bytes.to_vec()));
        switch.ingress_burst(now, PortId(port), burst, &mut tally);
        fed += 2;
    }
    let counters = switch.counters();
    assert!(switch.is_conserved(), "{counters:?}");
    // By the driver's count, which knows nothing of the switch's.
    assert_eq!(fed + tally.made, sent + tally.ended + counters.queued);
}
