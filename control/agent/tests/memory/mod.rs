//! A whole fabric in memory: the switches of a testbed, joined by lists, with the faults of its links
//! and control behind them; hosts that send plain data packets and never resend.

use std::collections::VecDeque;

use agent::core::Core;
use agent::seam::{Body, FromSwitch};
use config::TestbedConfig;
use config::fabric::Fabric;
use detector::Link;
use packet::bth::{self, BthFields};
use packet::ip::{self, IpFields};
use packet::message::{self, Header, MessageKind};
use packet::{Opcode, Psn, Qpn, ROCE_PORT, ethernet};
use pipeline::fault::{Fate, LinkFaults};
use pipeline::{DropReason, Nanos, PortId, Report, Sink, Switch, Token};

const PAYLOAD: usize = 256;
/// Fabric time of a round.
const ROUND_NS: u64 = 10_000;
/// Packets that a flow sends in a round: 16 at 10 Gbit/s take 4 us.
const BURST: u32 = 16;

pub(crate) struct Frame(Vec<u8>);

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

#[derive(Default)]
struct Reports(VecDeque<FromSwitch>);

impl Sink<Frame> for Reports {
    fn alloc(&mut self, len: usize) -> Option<Frame> {
        Some(Frame(vec![0; len]))
    }
    fn discard(&mut self, _token: Frame, _reason: DropReason) {}
    fn consume(&mut self, _token: Frame) {}
    fn report(&mut self, report: Report<'_>) -> bool {
        self.0.push_back(FromSwitch::new(0, report));
        true
    }
}

/// Where a port leads to.
struct Wire {
    to: (usize, PortId),
    faults: LinkFaults,
    lost: u64,
}

/// The fabric.
pub(crate) struct Memory {
    fabric: Fabric,
    switches: Vec<Switch<Frame>>,
    /// By switch and port; none from host ports.
    wires: Vec<Vec<Option<Wire>>>,
    reports: Vec<Reports>,
    now: Nanos,
    qpns: u32,
    /// Control was not there when windows began.
    pub(crate) is_control_deaf_to_opens: bool,
    /// What it tells.
    pub(crate) core: Core,
}

/// Who sends to whom: leaves.
pub(crate) type Flow = (usize, usize);

impl Memory {
    /// The fabric of such settings, judged by their rules.
    pub(crate) fn new(config: &TestbedConfig, core: Core) -> Memory {
        let fabric = Fabric::new(config).expect("settings of a test are right");
        let switches: Vec<Switch<Frame>> = fabric
            .switches
            .iter()
            .map(|s| Switch::new(&s.config))
            .collect();
        let mut wires: Vec<Vec<Option<Wire>>> = switches
            .iter()
            .map(|switch| (0..switch.ports_len()).map(|_| None).collect())
            .collect();
        for link in &fabric.links {
            wires[link.from.0][link.from.1.index()] = Some(Wire {
                to: link.to,
                faults: LinkFaults::new(&link.faults, link.seed),
                lost: 0,
            });
        }
        Memory {
            reports: switches.iter().map(|_| Reports::default()).collect(),
            fabric,
            switches,
            wires,
            now: Nanos(0),
            qpns: 16,
            is_control_deaf_to_opens: false,
            core,
        }
    }

    /// Each flow sends `packets`; with `announce` its host says so first. Then all is waited for.
    pub(crate) fn run(&mut self, flows: &[Flow], packets: u32, announce: bool) {
        let templates: Vec<Vec<u8>> = flows
            .iter()
            .map(|&flow| {
                self.qpns += 1;
                if announce {
                    let frame = self.announcement(flow, u64::from(packets));
                    self.send(flow.0, frame);
                }
                self.data(flow)
            })
            .collect();
        let mut next = 0;
        while next < packets {
            let end = packets.min(next + BURST);
            for (&(from, _), template) in flows.iter().zip(&templates) {
                for psn in next..end {
                    let mut frame = template.clone();
                    let at = frame.len() - bth::HEADER_LEN - PAYLOAD - 4 + bth::PSN;
                    frame[at..at + 3].copy_from_slice(&psn.to_be_bytes()[1..]);
                    self.send(from, frame);
                }
            }
            next = end;
            self.round();
        }
        let g = self.fabric.switches[0].config.measurement.path_delay_ns_max;
        let silence = self.fabric.switches[0]
            .config
            .measurement
            .windows
            .silence_ns;
        for _ in 0..(silence + 8 * g) / ROUND_NS + 1 {
            self.round();
        }
    }

    /// Every leaf to every other, in shifted permutations.
    pub(crate) fn run_all_to_all(&mut self, packets: u32, announce: bool) {
        let leaves = self.fabric.hosts.len();
        for shift in 1..leaves {
            let flows: Vec<Flow> = (0..leaves)
                .map(|leaf| (leaf, (leaf + shift) % leaves))
                .collect();
            self.run(&flows, packets, announce);
        }
    }

    /// The links that control convicts, and those it suspects, by name, now that no more will come.
    pub(crate) fn named(&mut self) -> (Vec<String>, Vec<String>) {
        self.core.finish();
        let found = self.core.locate();
        let name = |link: &Link| link.to_string();
        (
            found.convicted.iter().map(|c| name(&c.link)).collect(),
            found.suspects.iter().map(|s| name(&s.link)).collect(),
        )
    }

    /// Packets that were lost on links, and dropped by switches.
    pub(crate) fn missing(&self) -> (u64, u64) {
        let wires = self.wires.iter().flatten().flatten();
        let drops = self.switches.iter().map(|s| s.counters().dropped_total());
        (wires.map(|wire| wire.lost).sum(), drops.sum())
    }

    fn send(&mut self, leaf: usize, frame: Vec<u8>) {
        let port = self.fabric.hosts[leaf].port;
        self.switches[leaf].ingress(self.now, port, Frame(frame), &mut self.reports[leaf]);
    }

    fn round(&mut self) {
        self.now = self.now.plus(ROUND_NS);
        while self.move_packets() {}
        for (switch, sink) in self.switches.iter_mut().zip(&mut self.reports) {
            switch.tick(self.now, sink);
        }
        for index in 0..self.reports.len() {
            while let Some(report) = self.reports[index].0.pop_front() {
                match report.body {
                    Body::Opened(_) if self.is_control_deaf_to_opens => {}
                    Body::Opened(opened) => {
                        if let Some(command) = self.core.on_opened(&opened) {
                            self.switches[index].apply(self.now, command, &mut self.reports[index]);
                        }
                    }
                    Body::Window(window) => self.core.on_window(&window),
                    Body::Dropped(dropped) => self.core.on_dropped(dropped),
                }
            }
        }
    }

    fn move_packets(&mut self) -> bool {
        let mut moved = false;
        for switch in 0..self.switches.len() {
            for port in 0..self.switches[switch].ports_len() {
                while let Some(frame) = self.switches[switch].egress(self.now, PortId(port as u16))
                {
                    moved = true;
                    let Some(wire) = &mut self.wires[switch][port] else {
                        continue;
                    };
                    let fate = wire.faults.judge(&frame.0, frame.0.len());
                    if !matches!(fate, Fate::Pass { .. }) {
                        wire.lost += 1;
                        continue;
                    }
                    let (to, in_port) = wire.to;
                    self.switches[to].ingress(self.now, in_port, frame, &mut self.reports[to]);
                }
            }
        }
        moved
    }

    fn udp(&self, (from, to): Flow, port: u16, payload: &[u8]) -> Vec<u8> {
        let (host, peer) = (&self.fabric.hosts[from], &self.fabric.hosts[to]);
        let mut frame = vec![0u8; 14 + 20 + 8 + payload.len()];
        ethernet::set_addresses(&mut frame, host.gateway_mac, host.mac);
        packet::be::put16(&mut frame, 12, ethernet::IPV4);
        let fields = IpFields {
            source: host.address,
            destination: peer.address,
            traffic_class: 0,
            ttl: 64,
            payload_len: (8 + payload.len()) as u16,
        };
        ip::write(&mut frame[14..], &fields);
        ip::write_udp(&mut frame[34..], 0xc123, port, payload.len() as u16);
        frame[42..].copy_from_slice(payload);
        frame
    }

    fn data(&self, flow: Flow) -> Vec<u8> {
        // Switches leave the ICRC alone.
        let mut payload = vec![0u8; bth::HEADER_LEN + PAYLOAD + 4];
        let fields = BthFields {
            opcode: Opcode::WRITE_MIDDLE,
            destination_qp: Qpn(self.qpns),
            psn: Psn::new(0),
            ack_req: false,
            pad: 0,
        };
        bth::write(&mut payload, &fields);
        self.udp(flow, ROCE_PORT, &payload)
    }

    fn announcement(&self, flow: Flow, packets: u64) -> Vec<u8> {
        let header = Header {
            kind: MessageKind::Open,
            flags: 0,
            destination_qp: Qpn(self.qpns),
            first_psn: Psn::new(0),
            mtu_bytes: PAYLOAD as u32,
            packets,
            bytes: 0,
            flow_id: u64::from(self.qpns),
            fanout: 0,
            repetition: 0,
            epoch: 0,
        };
        let mut payload = vec![0u8; message::LEN_MAX];
        let len = message::write(&mut payload, &header, |_| false, |_| 0);
        self.udp(flow, message::DEFAULT_PORT, &payload[..len])
    }
}
