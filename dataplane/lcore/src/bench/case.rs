//! The switches that are measured, the frames they receive, and what their counters must say.
//!
//! Flows from hosts of one leaf to hosts of another, whose packets come in turn; by default one. Its
//! leaf measures the first of them from its first packet to the end of the run: every packet of it is
//! marked and carried in the highest priority. Behind the uplinks all of them are marked and counted,
//! as if each came from a leaf of its own.

use config::BenchCase;
use packet::bth::{self, BthFields, MARK};
use packet::ip::{self, IpFields};
use packet::message::{FLAG_COUNTS, FLAG_HOP_ROOM, FLAG_SWITCH, Header, MessageKind};
use packet::{Address, MacAddr, Opcode, Psn, Qpn, ROCE_PORT, be, ethernet};
use pipeline::window::Dress;
use pipeline::{
    HostConfig, LeafId, Mark, Measurement, NextHop, Peer, Policy, PortConfig, PortKind, Prefix,
    QueueConfig, Role, Route, SpineId, SwitchConfig, Tie,
};

/// Leaves and spines of the fabric.
pub const FANOUT: u16 = 8;
/// Ports of a switch: as many as a leaf with one host has.
pub const PORTS: usize = 9;
/// Flows of the plain case at least, told by their source port: enough for a hash to use all uplinks.
const PLAIN_FLOWS: u32 = 64;
/// What can never be the bottleneck: 4096-byte frames would leave at 300 million a second.
const RATE_BPS: u64 = 10_000_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The destination QP of the first flow; others follow.
const QPN: u32 = 0x17;
/// Hosts that flows are between: a pair of addresses for each, as RSS would spread them.
const HOSTS: u32 = 250;
/// An even number, so that its colour is the mark's bit alone.
const EPOCH: u32 = 2;
/// The flow never ends: it is followed round its PSNs.
const PACKETS: u64 = 1 << 60;
const ETHERNET_IP_UDP: usize = 14 + 20 + 8;

/// The port that frames come in by.
pub fn input(case: BenchCase) -> usize {
    match case {
        BenchCase::LeafSource | BenchCase::PlainIp | BenchCase::Spine => 0,
        BenchCase::LeafDestination => 1,
    }
}

/// The ports that they leave by.
pub fn outputs(case: BenchCase) -> std::ops::Range<usize> {
    match case {
        BenchCase::LeafSource | BenchCase::PlainIp => 1..PORTS,
        BenchCase::LeafDestination => 0..1,
        BenchCase::Spine => 1..2,
    }
}

/// The switch: leaf 0 with its host on port 0 and spine x on port 1 + x, or spine 0 with leaf x
/// on port x.
///
/// # Errors
/// None: what is parsed is written here.
pub fn switch(case: BenchCase, frame: u32, flows: u32, seed: u64) -> Result<SwitchConfig, String> {
    let hosts = self::flows(case, flows).min(HOSTS);
    let is_spine = case == BenchCase::Spine;
    let kind = |port: u16| match (is_spine, port) {
        (true, leaf) => PortKind::Fabric(Peer::Leaf(LeafId(leaf))),
        (false, 0) => PortKind::Host,
        (false, port) => PortKind::Fabric(Peer::Spine(SpineId(port - 1))),
    };
    let ports = if is_spine { FANOUT } else { FANOUT + 1 };
    let mut routes: Vec<Route> = (0..FANOUT)
        .map(|leaf| {
            Ok(Route {
                prefix: format!("10.0.{leaf}.0/24").parse()?,
                next: NextHop::Leaf(LeafId(leaf)),
            })
        })
        .collect::<Result<_, String>>()?;
    if !is_spine {
        routes.remove(0);
        routes.extend((0..hosts).map(|flow| Route {
            prefix: Prefix::host(local(flow)),
            next: NextHop::Host(flow as u16),
        }));
    }
    Ok(SwitchConfig {
        role: match is_spine {
            true => Role::Spine(SpineId(0)),
            false => Role::Leaf(LeafId(0)),
        },
        leaves: FANOUT,
        spines: FANOUT,
        ports: (0..ports)
            .map(|port| PortConfig {
                kind: kind(port),
                mac: own_mac(usize::from(port)),
                peer_mac: peer_mac(usize::from(port)),
                accept_any_mac: false,
                rate_bps: RATE_BPS,
                frame_max_bytes: frame.max(1518),
            })
            .collect(),
        hosts: match is_spine {
            true => Vec::new(),
            false => (0..hosts)
                .map(|flow| HostConfig {
                    address: local(flow),
                    mac: Some(peer_mac(0)),
                    port: 0,
                })
                .collect(),
        },
        routes,
        message_port: packet::message::DEFAULT_PORT,
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
            window_ns_max: 86_400 * SECOND_NS,
            idle_ns_max: 86_400 * SECOND_NS,
            path_delay_ns_max: 1_000_000,
            rows_max: 4096,
            row_ns_max: 86_400 * SECOND_NS,
            windows: pipeline::WindowPlan::default(),
        },
        link_state_ns: None,
        hold_down_ns: 0,
        gateway: pipeline::config::GatewayConfig::default(),
        seed,
    })
}

/// A frame of flow number `flow` in `len` bytes; behind the uplinks marked, if it is measured.
pub fn frame(case: BenchCase, flow: u32, len: usize, is_measured: bool) -> Vec<u8> {
    let (source, destination) = addresses(case, flow);
    let mut frame = vec![0; len];
    let input = input(case);
    ethernet::set_addresses(&mut frame, own_mac(input), peer_mac(input));
    be::put16(&mut frame, ethernet::ETHERTYPE, ethernet::IPV4);
    // The payload and its pad are a multiple of four; what is left pads the frame.
    let payload = (len - ETHERNET_IP_UDP - bth::HEADER_LEN - bth::ICRC_LEN) & !3;
    let udp_payload = (bth::HEADER_LEN + payload + bth::ICRC_LEN) as u16;
    let fields = IpFields {
        source,
        destination,
        traffic_class: 0,
        ttl: 64,
        payload_len: ip::UDP_HEADER_LEN as u16 + udp_payload,
    };
    ip::write(&mut frame[ethernet::HEADER_LEN..], &fields);
    let (from, to) = match case {
        BenchCase::PlainIp => (0xc000 + (flow % (1 << 14)) as u16, 9),
        BenchCase::LeafSource | BenchCase::LeafDestination | BenchCase::Spine => {
            (0xc000, ROCE_PORT)
        }
    };
    let udp = ethernet::HEADER_LEN + ip::V4_HEADER_LEN;
    ip::write_udp(&mut frame[udp..], from, to, udp_payload);
    let fields = BthFields {
        opcode: Opcode::WRITE_MIDDLE,
        destination_qp: Qpn(QPN + flow),
        psn: Psn::new(0),
        ack_req: false,
        pad: 0,
    };
    bth::write(&mut frame[ETHERNET_IP_UDP..], &fields);
    if is_measured && matches!(case, BenchCase::LeafDestination | BenchCase::Spine) {
        frame[ETHERNET_IP_UDP + bth::RESV8A] |= MARK;
    }
    frame
}

/// Flows whose packets differ when `flows` are asked for.
pub fn flows(case: BenchCase, flows: u32) -> u32 {
    match case {
        BenchCase::PlainIp => flows.max(PLAIN_FLOWS),
        BenchCase::LeafSource | BenchCase::LeafDestination | BenchCase::Spine => flows,
    }
}

/// How many of `flows` are measured: one by its source, all behind the uplinks.
pub fn measured(case: BenchCase, flows: u32) -> u32 {
    match case {
        BenchCase::PlainIp => 0,
        BenchCase::LeafSource => 1,
        BenchCase::LeafDestination | BenchCase::Spine => flows,
    }
}

/// The message that begins the measurement of a flow, if the case has one.
pub fn open(case: BenchCase, flow: u32) -> Option<Vec<u8>> {
    message(case, flow, MessageKind::Open, 0)
}

/// The message that ends it at a spine, and takes the spine's counts along.
pub fn close(case: BenchCase) -> Option<Vec<u8>> {
    message(case, 0, MessageKind::Close, FLAG_COUNTS | FLAG_HOP_ROOM)
}

fn message(case: BenchCase, flow: u32, kind: MessageKind, flags: u32) -> Option<Vec<u8>> {
    let is_of_host = match case {
        BenchCase::PlainIp => return None,
        BenchCase::LeafSource => true,
        BenchCase::LeafDestination | BenchCase::Spine => false,
    };
    let header = Header {
        kind,
        flags: if is_of_host {
            flags
        } else {
            flags | FLAG_SWITCH
        },
        destination_qp: Qpn(QPN + flow),
        first_psn: Psn::new(0),
        mtu_bytes: 4096,
        packets: PACKETS,
        bytes: 0,
        flow_id: 1 + u64::from(flow),
        fanout: if is_of_host { 0 } else { FANOUT },
        repetition: 0,
        epoch: if is_of_host { 0 } else { EPOCH },
    };
    let data = frame(case, flow, 64, true);
    let port = packet::message::DEFAULT_PORT;
    let dress = Dress::of(&data, &packet::parse(&data, data.len(), port).ok()?);
    let len = packet::message::message_len(usize::from(header.fanout), header.flags);
    let mut message = vec![0; dress.frame_len(len)];
    let input = input(case);
    let macs = (own_mac(input), peer_mac(input));
    dress.write(&mut message, macs, port, &header, |_| true, |_| 0);
    Some(message)
}

fn addresses(case: BenchCase, flow: u32) -> (Address, Address) {
    match case {
        BenchCase::LeafSource | BenchCase::PlainIp | BenchCase::Spine => {
            (local(flow), remote(flow))
        }
        BenchCase::LeafDestination => (remote(flow), local(flow)),
    }
}

/// The host of leaf 0 that a flow begins or ends at.
fn local(flow: u32) -> Address {
    Address::v4(0x0a00_0001 + flow % HOSTS)
}

/// Its other end. Both addresses have one sum, so that all frames have one checksum.
fn remote(flow: u32) -> Address {
    Address::v4(0x0a00_0100 + HOSTS - flow % HOSTS)
}

fn own_mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port as u8])
}

fn peer_mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, port as u8])
}
