//! How large things must be: frames, delays, packet memory, windows.

use packet::message::{FLAG_COUNTS, FLAG_HOP_ROOM, FLAG_SWITCH, message_len};
use pipeline::fault::Fault;
use pipeline::{Mark, Measurement, WindowPlan};

use crate::testbed::TestbedConfig;

/// Headers round a payload: Ethernet 14, two VLAN tags 8, IPv6 40, UDP 8, BTH 12, RETH 16,
/// ICRC 4, and 26 of room for the larger extension headers.
const HEADERS_BYTES: u32 = 128;
/// Headers round one of our messages: Ethernet 14, two VLAN tags 8, IPv6 40, UDP 8.
const MESSAGE_HEADERS_BYTES: u32 = 70;
/// Packets that any switch may hold, whatever the settings: two thirds of a million mbufs would
/// be memory that a laptop lacks.
const PACKETS_MAX: u64 = 1 << 16;
/// Packets that any switch may hold at least.
const PACKETS_MIN: u64 = 1 << 10;

/// What does not depend on the settings.
pub(super) const MEASUREMENT: Measurement = Measurement {
    is_paper: false,
    mark: Mark::First,
    window_packets_max: 1 << 26,
    window_ns_max: 60_000_000_000,
    idle_ns_max: 1_000_000_000,
    path_delay_ns_max: 0,
    rows_max: 1024,
    row_ns_max: 60_000_000_000,
    windows: WindowPlan {
        is_off: false,
        spine_packets: 0,
        finds_flows: false,
        silence_ns: 0,
        is_narrow: false,
    },
};

/// A found flow that says nothing for so long has ended: four times the longest delay of a path, and
/// at least 10 ms, within which a flow that is worth measuring is looked at twice.
pub const fn silence_of(path_delay_ns_max: u64) -> u64 {
    let ns = path_delay_ns_max.saturating_mul(4);
    if ns < 10_000_000 { 10_000_000 } else { ns }
}

/// That of a testbed, in nanoseconds.
pub fn silence_ns(config: &TestbedConfig) -> u64 {
    silence_of(path_delay_ns_max(config))
}

/// Largest frame, without FCS: of a full packet, or of a close with the counts of all spines.
pub fn frame_max_bytes(config: &TestbedConfig) -> u32 {
    let fanout = usize::from(config.leaves.max(config.spines));
    let message = message_len(fanout, FLAG_SWITCH | FLAG_COUNTS | FLAG_HOP_ROOM) as u32;
    (config.mtu + HEADERS_BYTES).max(message + MESSAGE_HEADERS_BYTES)
}

/// G: the longest a packet can be on its way from leaf to leaf, in nanoseconds. Three queues that
/// are full when it comes, a step of the poll loop at each, and the delays that are injected on
/// an uplink and a downlink.
pub fn path_delay_ns_max(config: &TestbedConfig) -> u64 {
    let bits = 8 * (config.queue_limit.bytes() + u64::from(frame_max_bytes(config)));
    let rate = config.link_rate.bits_per_second().max(1);
    let queue_ns = (u128::from(bits) * 1_000_000_000).div_ceil(u128::from(rate)) as u64;
    let delays = config.faults.0.iter().map(|fault| match fault.fault {
        Fault::Delay { nanos } => nanos,
        _ => 0,
    });
    let delay_ns = delays.max().unwrap_or(0);
    3 * (queue_ns + config.step.nanos()) + 2 * delay_ns
}

/// Packets that a switch of so many ports may hold: what its queues have room for, or what all
/// hosts together can have in flight (as much again acknowledges it), whichever is less.
pub(super) fn packets_max(config: &TestbedConfig, ports: usize) -> u32 {
    let smallest = 64;
    let queues = ports as u64 * 8 * config.queue_limit.bytes().div_ceil(smallest);
    let qps = config.connections() * u64::from(config.qps);
    let flight = qps * u64::from(config.window_packets) * 2;
    queues.min(flight).clamp(PACKETS_MIN, PACKETS_MAX) as u32
}
