//! The packet path alone, for a profiler: one switch, frames in memory, no DPDK.
//!
//! `cargo build --release -p pipeline --example hot_path`, then
//! `valgrind --tool=callgrind target/release/examples/hot_path leaf-source 100000`; what two
//! lengths of run differ by is the cost of the packets alone. Roles: leaf-source,
//! leaf-destination, spine. A third argument, `unmeasured`: the same packets, none of them marked.

use arrayvec::ArrayVec;
use packet::bth::{self, BthFields};
use packet::ip::{self, IpFields};
use packet::message::{self, FLAG_SWITCH, Header, MessageKind};
use packet::{Address, MacAddr, Opcode, Psn, Qpn, ROCE_PORT, be, ethernet};
use pipeline::window::Dress;
use pipeline::{
    DropReason, HostConfig, LeafId, Mark, Measurement, Nanos, NextHop, Note, Peer, Policy,
    PortConfig, PortId, PortKind, Prefix, QueueConfig, Report, Role, Route, Sink, SpineId, Switch,
    SwitchConfig, Tie, Token,
};

const FANOUT: u16 = 8;
const BURST: usize = 32;
const PACKETS: u64 = 1 << 60;
const BTH_AT: usize = 42;
/// The longest frame: that of a message.
const ROOM: usize = 512;

/// A frame in memory of its own, as wide as a pointer, like an mbuf.
struct Frame(Box<Memory>);

struct Memory {
    len: usize,
    bytes: [u8; ROOM],
}

impl Frame {
    fn of(bytes: &[u8]) -> Frame {
        let mut memory = Box::new(Memory {
            len: bytes.len(),
            bytes: [0; ROOM],
        });
        memory.bytes[..bytes.len()].copy_from_slice(bytes);
        Frame(memory)
    }
}

impl Token for Frame {
    fn header(&self) -> &[u8] {
        &self.0.bytes[..self.0.len]
    }
    fn header_mut(&mut self) -> &mut [u8] {
        &mut self.0.bytes[..self.0.len]
    }
    fn wire_len(&self) -> u32 {
        self.0.len as u32
    }
}

struct Nowhere;

impl Sink<Frame> for Nowhere {
    fn alloc(&mut self, len: usize) -> Option<Frame> {
        Some(Frame::of(&vec![0; len]))
    }
    fn discard(&mut self, _token: Frame, _reason: DropReason) {}
    fn consume(&mut self, _token: Frame) {}
    fn report(&mut self, _report: Report<'_>) -> bool {
        true
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().unwrap_or_else(|| "leaf-source".into());
    let packets: u64 = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000_000);
    let is_measured = arguments.next().as_deref() != Some("unmeasured");
    let (is_spine, is_inward) = (role == "spine", role == "leaf-destination");
    let input = PortId(u16::from(is_inward));
    let mut switch: Switch<Frame> = Switch::new(&config(is_spine));
    let template = frame(if is_inward { (1, 0) } else { (0, 1) }, input);
    if is_measured {
        switch.ingress(
            Nanos(0),
            input,
            Frame::of(&open(&template, input, is_spine || is_inward)),
            &mut Nowhere,
        );
    }
    let ports = switch.ports_len() as u16;
    for port in 0..ports {
        while switch.egress(Nanos(0), PortId(port)).is_some() {}
    }
    let mut waiting: ArrayVec<Frame, { 2 * BURST }> =
        (0..BURST).map(|_| Frame::of(&template)).collect();
    let (mut psn, mut sent, mut now) = (0u32, 0, Nanos(0));
    while sent < packets {
        now = now.plus(1_000);
        for frame in &mut waiting {
            let bytes = frame.header_mut();
            bytes[..26].copy_from_slice(&template[..26]);
            bytes[BTH_AT + bth::RESV8A] = u8::from(is_measured && (is_spine || is_inward));
            be::put32(bytes, BTH_AT + bth::ACK_REQ, psn & 0x00ff_ffff);
            psn = psn.wrapping_add(1);
        }
        switch.ingress_burst(now, input, waiting.drain(..), &mut Nowhere);
        for port in 0..ports {
            switch.egress_burst(now, PortId(port), BURST, &mut waiting);
        }
        sent += waiting.len() as u64;
    }
    let counters = switch.counters();
    println!(
        "{role}: {sent} packets, {} marked, {} counted, {} dropped",
        counters.noted(Note::Marked),
        counters.noted(Note::Counted),
        counters.dropped_total()
    );
}

fn mac(end: u8, port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, end, port as u8])
}

fn host(leaf: u32) -> Address {
    Address::v4(0x0a00_0001 | leaf << 8)
}

fn frame((from, to): (u32, u32), input: PortId) -> Vec<u8> {
    let mut frame = vec![0; 64];
    ethernet::set_addresses(&mut frame, mac(0, input.0), mac(1, input.0));
    be::put16(&mut frame, ethernet::ETHERTYPE, ethernet::IPV4);
    let fields = IpFields {
        source: host(from),
        destination: host(to),
        traffic_class: 0,
        ttl: 64,
        payload_len: 28,
    };
    ip::write(&mut frame[14..], &fields);
    ip::write_udp(&mut frame[34..], 0xc000, ROCE_PORT, 20);
    let fields = BthFields {
        opcode: Opcode::WRITE_MIDDLE,
        destination_qp: Qpn(0x17),
        psn: Psn::new(0),
        ack_req: false,
        pad: 0,
    };
    bth::write(&mut frame[BTH_AT..], &fields);
    frame
}

/// The announcement of the flow, by its host or by its leaf.
fn open(template: &[u8], input: PortId, is_of_switch: bool) -> Vec<u8> {
    let header = Header {
        kind: MessageKind::Open,
        flags: if is_of_switch { FLAG_SWITCH } else { 0 },
        destination_qp: Qpn(0x17),
        first_psn: Psn::new(0),
        mtu_bytes: 4096,
        packets: PACKETS,
        bytes: 0,
        flow_id: 1,
        fanout: if is_of_switch { FANOUT } else { 0 },
        repetition: 0,
        epoch: 2 * u32::from(is_of_switch),
    };
    let port = message::DEFAULT_PORT;
    let Ok(parsed) = packet::parse(template, template.len(), port) else {
        return Vec::new();
    };
    let dress = Dress::of(template, &parsed);
    let len = message::message_len(usize::from(header.fanout), header.flags);
    let mut out = vec![0; dress.frame_len(len)];
    let macs = (mac(0, input.0), mac(1, input.0));
    dress.write(&mut out, macs, port, &header, |_| true, |_| 0);
    out
}

fn config(is_spine: bool) -> SwitchConfig {
    let kind = |port: u16| match (is_spine, port) {
        (true, leaf) => PortKind::Fabric(Peer::Leaf(LeafId(leaf))),
        (false, 0) => PortKind::Host,
        (false, port) => PortKind::Fabric(Peer::Spine(SpineId(port - 1))),
    };
    let leaves = u16::from(!is_spine)..FANOUT;
    let prefixes = leaves.filter_map(|leaf| {
        let prefix = format!("10.0.{leaf}.0/24").parse().ok()?;
        let next = NextHop::Leaf(LeafId(leaf));
        Some(Route { prefix, next })
    });
    let local = (!is_spine).then(|| Route {
        prefix: Prefix::host(host(0)),
        next: NextHop::Host(0),
    });
    SwitchConfig {
        role: if is_spine {
            Role::Spine(SpineId(0))
        } else {
            Role::Leaf(LeafId(0))
        },
        leaves: FANOUT,
        spines: FANOUT,
        ports: (0..FANOUT + u16::from(!is_spine))
            .map(|port| PortConfig {
                kind: kind(port),
                mac: mac(0, port),
                peer_mac: mac(1, port),
                accept_any_mac: false,
                rate_bps: 10_000_000_000_000,
                frame_max_bytes: 1518,
            })
            .collect(),
        hosts: local
            .iter()
            .map(|_| HostConfig {
                address: host(0),
                mac: Some(mac(1, 0)),
                port: 0,
            })
            .collect(),
        routes: prefixes.chain(local).collect(),
        message_port: message::DEFAULT_PORT,
        policy: Policy::Jsq2,
        tie: Tie::FewestMeasured,
        queue: QueueConfig {
            limit_bytes: 10 << 20,
            packets_max: 16_384,
            slack_ns: 1_000_000,
            overhead_bytes: 24,
            dscp_priority: [0; 64],
            pcp_priority: None,
            ecn: [None; 8],
        },
        measurement: Measurement {
            is_paper: false,
            mark: Mark::First,
            window_packets_max: PACKETS,
            window_ns_max: u64::MAX / 2,
            idle_ns_max: u64::MAX / 2,
            path_delay_ns_max: 1_000_000,
            rows_max: 1024,
            row_ns_max: u64::MAX / 2,
            windows: pipeline::WindowPlan::default(),
        },
        link_state_ns: None,
        hold_down_ns: 0,
        gateway: pipeline::config::GatewayConfig::default(),
        seed: 1,
    }
}
