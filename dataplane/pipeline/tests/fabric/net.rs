//! A whole fabric in memory: switches joined by lists, driven by the test.

use std::collections::VecDeque;

use packet::bth::{self, BthFields};
use packet::ip::{self, IpFields};
use packet::message::{self, Header, MessageKind};
use packet::{Address, MacAddr, Opcode, Psn, Qpn, ROCE_PORT, ethernet, icrc};
use pipeline::report::Command;
use pipeline::*;

/// Spines, leaves and one host per leaf.
pub(crate) const LEAVES: u16 = 3;
/// Spines of the test fabric.
pub(crate) const SPINES: u16 = 4;
/// Bytes of a test packet's payload.
pub(crate) const PAYLOAD: usize = 256;

/// A packet: its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame(pub(crate) Vec<u8>);

impl Token for Frame {
    fn header(&self) -> &[u8] {
        &self.0
    }
    fn header_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn wire_len(&self) -> u32 {
        self.0.len() as u32
    }
}

/// Where switches put what is not for the wire.
#[derive(Default)]
pub(crate) struct TestSink {
    pub(crate) windows: Vec<WindowReport>,
    pub(crate) opened: Vec<Opened>,
    pub(crate) dropped: Vec<OwnDrop>,
    pub(crate) discarded: Vec<DropReason>,
    pub(crate) consumed: usize,
    /// No packet memory is left for what the switch itself sends.
    pub(crate) is_out_of_memory: bool,
    /// Control takes no reports.
    pub(crate) is_control_stuck: bool,
}

impl Sink<Frame> for TestSink {
    fn alloc(&mut self, len: usize) -> Option<Frame> {
        (!self.is_out_of_memory).then(|| Frame(vec![0; len]))
    }
    fn discard(&mut self, _token: Frame, reason: DropReason) {
        self.discarded.push(reason);
    }
    fn consume(&mut self, _token: Frame) {
        self.consumed += 1;
    }
    fn report(&mut self, report: Report<'_>) -> bool {
        if self.is_control_stuck {
            return false;
        }
        match report {
            Report::Opened(opened) => self.opened.push(*opened),
            Report::Window(window) => self.windows.push(*window),
            Report::Dropped(dropped) => self.dropped.push(*dropped),
        }
        true
    }
}

pub(crate) fn host_address(leaf: u16) -> Address {
    Address::v4(0x0a00_0001 | u32::from(leaf) << 16)
}

pub(crate) fn host_mac(leaf: u16) -> MacAddr {
    MacAddr([2, 0xaa, 0, 0, leaf as u8, 1])
}

pub(crate) fn mac(switch: u16, port: u16) -> MacAddr {
    MacAddr([2, 0, 0, switch as u8, 0, port as u8])
}

/// The leaf's own address towards its host.
pub(crate) fn gateway_mac(leaf: u16) -> MacAddr {
    mac(leaf, 0)
}

pub(crate) fn measurement(is_paper: bool) -> Measurement {
    Measurement {
        is_paper,
        mark: if is_paper { Mark::All } else { Mark::First },
        window_packets_max: 1 << 20,
        window_ns_max: 10_000_000_000,
        idle_ns_max: 1_000_000_000,
        path_delay_ns_max: 10_000,
        rows_max: 64,
        row_ns_max: 60_000_000_000,
        windows: WindowPlan::default(),
    }
}

/// Configuration of switch `index`: leaves first, then spines. Leaf port 0 is the host's.
pub(crate) fn config(index: u16, measurement: &Measurement) -> SwitchConfig {
    let is_leaf = index < LEAVES;
    let port = |port: u16| {
        let kind = if !is_leaf {
            PortKind::Fabric(Peer::Leaf(LeafId(port)))
        } else if port == 0 {
            PortKind::Host
        } else {
            PortKind::Fabric(Peer::Spine(SpineId(port - 1)))
        };
        // Spine x's port towards leaf l is l; leaf l's port towards spine x is x + 1.
        let own = if is_leaf {
            mac(index, port)
        } else {
            mac(index, port + 1)
        };
        let other = if is_leaf {
            mac(LEAVES + port.saturating_sub(1), index + 1)
        } else {
            mac(port, index - LEAVES + 1)
        };
        PortConfig {
            kind,
            mac: own,
            peer_mac: other,
            accept_any_mac: false,
            rate_bps: 10_000_000_000,
            frame_max_bytes: 4400,
        }
    };
    let ports = if is_leaf { SPINES + 1 } else { LEAVES };
    let next = |leaf: u16| {
        if is_leaf && leaf == index {
            NextHop::Host(0)
        } else {
            NextHop::Leaf(LeafId(leaf))
        }
    };
    SwitchConfig {
        role: if is_leaf {
            Role::Leaf(LeafId(index))
        } else {
            Role::Spine(SpineId(index - LEAVES))
        },
        leaves: LEAVES,
        spines: SPINES,
        ports: (0..ports).map(port).collect(),
        hosts: if is_leaf {
            vec![HostConfig {
                address: host_address(index),
                mac: Some(host_mac(index)),
                port: 0,
            }]
        } else {
            Vec::new()
        },
        routes: (0..LEAVES)
            .map(|leaf| Route {
                prefix: Prefix::host(host_address(leaf)),
                next: next(leaf),
            })
            .collect(),
        message_port: message::DEFAULT_PORT,
        policy: Policy::Jsq2,
        tie: Tie::FewestMeasured,
        queue: QueueConfig {
            limit_bytes: 1 << 20,
            packets_max: 8192,
            slack_ns: 100_000,
            overhead_bytes: 24,
            dscp_priority: std::array::from_fn(|dscp| (dscp as u8 >> 3).min(6)),
            pcp_priority: None,
            ecn: [None; 8],
        },
        measurement: measurement.clone(),
        link_state_ns: None,
        hold_down_ns: 0,
        gateway: GatewayConfig::default(),
        seed: 42 + u64::from(index),
    }
}

/// Decides on a packet on its way from one switch to another: true = it arrives.
pub(crate) type Link<'a> = dyn FnMut(u16, u16, &Frame) -> bool + 'a;

/// The fabric.
pub(crate) struct Net {
    pub(crate) switches: Vec<Switch<Frame>>,
    pub(crate) sinks: Vec<TestSink>,
    pub(crate) delivered: Vec<VecDeque<Frame>>,
    pub(crate) now: Nanos,
    pub(crate) lost: u64,
}

impl Net {
    pub(crate) fn new(adjust: impl Fn(&mut SwitchConfig), is_paper: bool) -> Net {
        let switches = (0..LEAVES + SPINES).map(|index| {
            let mut config = config(index, &measurement(is_paper));
            adjust(&mut config);
            Switch::new(&config)
        });
        Net {
            switches: switches.collect(),
            sinks: (0..LEAVES + SPINES).map(|_| TestSink::default()).collect(),
            delivered: vec![VecDeque::new(); usize::from(LEAVES)],
            now: Nanos(0),
            lost: 0,
        }
    }

    /// A host sends.
    pub(crate) fn send(&mut self, leaf: u16, frame: Frame) {
        self.receive(leaf, 0, frame);
    }

    /// A port of any switch receives a frame that no other switch has sent.
    pub(crate) fn receive(&mut self, switch: u16, port: u16, frame: Frame) {
        let index = usize::from(switch);
        self.switches[index].ingress(self.now, PortId(port), frame, &mut self.sinks[index]);
    }

    /// A switch loses its memory: power off and on.
    pub(crate) fn restart(&mut self, switch: u16, adjust: impl Fn(&mut SwitchConfig)) {
        let mut config = config(switch, &measurement(false));
        adjust(&mut config);
        let index = usize::from(switch);
        self.switches[index].drain(self.now, &mut self.sinks[index]);
        self.switches[index] = Switch::new(&config);
        self.switches[index].begin(self.now);
    }

    /// Moves everything that is due, switch by switch, until nothing moves.
    pub(crate) fn settle(&mut self, link: &mut Link<'_>) {
        loop {
            let mut moved = false;
            for index in 0..LEAVES + SPINES {
                for port in 0..self.switches[usize::from(index)].ports_len() as u16 {
                    while let Some(frame) =
                        self.switches[usize::from(index)].egress(self.now, PortId(port))
                    {
                        moved = true;
                        if index < LEAVES && (port == 0 || port > SPINES) {
                            self.delivered[usize::from(index)].push_back(frame);
                            continue;
                        }
                        let (to, in_port) = if index < LEAVES {
                            (LEAVES + port - 1, index)
                        } else {
                            (port, index - LEAVES + 1)
                        };
                        if !link(index, to, &frame) {
                            self.lost += 1;
                            continue;
                        }
                        let sink = &mut self.sinks[usize::from(to)];
                        self.switches[usize::from(to)].ingress(
                            self.now,
                            PortId(in_port),
                            frame,
                            sink,
                        );
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Lets time pass in steps of 1 us, moving packets and ticking.
    pub(crate) fn run(&mut self, nanos: u64, link: &mut Link<'_>) {
        let end = self.now.plus(nanos);
        while self.now < end {
            self.now = self.now.plus(1_000);
            self.settle(link);
            for (switch, sink) in self.switches.iter_mut().zip(&mut self.sinks) {
                switch.tick(self.now, sink);
            }
        }
        self.settle(link);
    }

    pub(crate) fn apply(&mut self, switch: u16, command: Command) {
        let index = usize::from(switch);
        self.switches[index].apply(self.now, command, &mut self.sinks[index]);
    }

    /// Makes a switch that has the configuration `old` one that has `new`.
    pub(crate) fn change(&mut self, switch: u16, old: &SwitchConfig, new: &SwitchConfig) {
        let index = usize::from(switch);
        let mut change = Change::between(old, new).expect("they differ");
        self.switches[index].change(self.now, &mut change, &mut self.sinks[index]);
    }

    pub(crate) fn set_link(&mut self, switch: u16, port: u16, up: bool) {
        let index = usize::from(switch);
        self.switches[index].set_link(self.now, PortId(port), up, &mut self.sinks[index]);
    }

    /// The windows that `leaf` has reported, oldest first.
    pub(crate) fn take_windows(&mut self, leaf: u16) -> Vec<WindowReport> {
        std::mem::take(&mut self.sinks[usize::from(leaf)].windows)
    }

    pub(crate) fn noted(&self, switch: u16, note: Note) -> u64 {
        self.switches[usize::from(switch)].counters().noted(note)
    }

    pub(crate) fn dropped(&self, switch: u16, reason: DropReason) -> u64 {
        self.switches[usize::from(switch)]
            .counters()
            .dropped(reason)
    }

    pub(crate) fn assert_conserved(&self) {
        for (index, switch) in self.switches.iter().enumerate() {
            assert!(
                switch.is_conserved(),
                "switch {index}: {:?}",
                switch.counters()
            );
        }
    }
}

/// An Ethernet and IPv4/UDP frame from host to host.
pub(crate) fn udp(from: u16, to: u16, port: u16, payload: &[u8]) -> Frame {
    let mut frame = vec![0u8; 14 + 20 + 8 + payload.len()];
    ethernet::set_addresses(&mut frame, gateway_mac(from), host_mac(from));
    packet::be::put16(&mut frame, 12, ethernet::IPV4);
    let fields = IpFields {
        source: host_address(from),
        destination: host_address(to),
        traffic_class: 26 << 2 | 2,
        ttl: 64,
        payload_len: (8 + payload.len()) as u16,
    };
    ip::write(&mut frame[14..], &fields);
    ip::write_udp(&mut frame[34..], 0xc123, port, payload.len() as u16);
    frame[42..].copy_from_slice(payload);
    Frame(frame)
}

/// A RoCEv2 data packet with its ICRC.
pub(crate) fn data(from: u16, to: u16, qpn: u32, psn: u32) -> Frame {
    roce(from, to, qpn, psn, Opcode::WRITE_MIDDLE)
}

/// A RoCEv2 packet of any opcode with its ICRC.
pub(crate) fn roce(from: u16, to: u16, qpn: u32, psn: u32, opcode: Opcode) -> Frame {
    let mut payload = vec![0x5au8; bth::HEADER_LEN + PAYLOAD + 4];
    let fields = BthFields {
        opcode,
        destination_qp: Qpn(qpn),
        psn: Psn::new(psn),
        ack_req: false,
        pad: 0,
    };
    bth::write(&mut payload, &fields);
    let mut frame = udp(from, to, ROCE_PORT, &payload);
    let end = frame.0.len() - 4;
    let sum = icrc::icrc(&frame.0[14..end], 20).unwrap();
    frame.0[end..].copy_from_slice(&sum);
    frame
}

/// A host's announcement.
pub(crate) fn announcement(from: u16, to: u16, qpn: u32, first: u32, packets: u64) -> Frame {
    host_message(
        from,
        to,
        &host_header(MessageKind::Open, qpn, first, packets),
    )
}

/// The fixed part of a host's message.
pub(crate) fn host_header(kind: MessageKind, qpn: u32, first: u32, packets: u64) -> Header {
    Header {
        kind,
        flags: 0,
        destination_qp: Qpn(qpn),
        first_psn: Psn::new(first),
        mtu_bytes: PAYLOAD as u32,
        packets,
        bytes: 0,
        flow_id: u64::from(qpn),
        fanout: 0,
        repetition: 0,
        epoch: 0,
    }
}

/// A message of any header, from a host.
pub(crate) fn host_message(from: u16, to: u16, header: &Header) -> Frame {
    let mut payload = vec![0u8; message::LEN_MAX];
    let len = message::write(&mut payload, header, |_| false, |_| 0);
    udp(from, to, message::DEFAULT_PORT, &payload[..len])
}

/// Whether a frame is marked.
pub(crate) fn is_marked(frame: &Frame) -> bool {
    packet::be::get16(&frame.0, 36) == ROCE_PORT && frame.0[46] & bth::MARK != 0
}

/// The message that a frame between switches carries.
pub(crate) fn message_of(frame: &Frame) -> Option<Header> {
    (packet::be::get16(&frame.0, 36) == message::DEFAULT_PORT)
        .then(|| message::Message::read(&frame.0[42..]))
        .flatten()
        .map(|message| message.header)
}

/// A perfect link.
pub(crate) fn perfect(_: u16, _: u16, _: &Frame) -> bool {
    true
}
