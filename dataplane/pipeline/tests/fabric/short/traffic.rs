//! Bursts for [`super`]: runs of flows, and all that may cut a run short.

use packet::bth::{self, BthFields, COLOUR, MARK};
use packet::ip::{self, IpFields};
use packet::message::{self, FLAG_COUNTS, FLAG_HOP_ROOM, FLAG_RESPONSES, FLAG_SWITCH, MessageKind};
use packet::{Address, MacAddr, Opcode, Psn, Qpn, ROCE_PORT, be, ethernet};
use pipeline::*;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::gateway::address;
use crate::hostile::ATTACKER;
use crate::neighbors::arp_request;
use crate::net::{LEAVES, SPINES, host_header};

/// Numbers of one round.
pub(crate) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }
    pub(crate) fn pick(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }
    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A frame of which the switch may see the first bytes alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    bytes: Vec<u8>,
    wire_len: u32,
    is_whole: bool,
}

impl Piece {
    pub(crate) fn whole(bytes: Vec<u8>) -> Piece {
        Piece {
            wire_len: bytes.len() as u32,
            is_whole: true,
            bytes,
        }
    }
}

impl Token for Piece {
    fn header(&self) -> &[u8] {
        &self.bytes
    }
    fn header_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn wire_len(&self) -> u32 {
        self.wire_len
    }
    fn is_whole(&self) -> bool {
        self.is_whole
    }
}

/// One direction of a queue pair, entering at some ports.
#[derive(Clone)]
struct Flow {
    from: Address,
    to: Address,
    source_mac: MacAddr,
    qpn: u32,
    class: u8,
    tags: usize,
    payload: usize,
    psn: u32,
    epoch: u32,
}

/// All flows of a round.
pub(crate) struct Traffic {
    /// By ingress port.
    flows: Vec<Vec<Flow>>,
}

/// Data, and what is no data; the last is of another PSN space.
const OPCODES: [Opcode; 8] = [
    Opcode::WRITE_MIDDLE,
    Opcode::WRITE_MIDDLE,
    Opcode::WRITE_MIDDLE,
    Opcode::WRITE_FIRST,
    Opcode::WRITE_LAST,
    Opcode::ACK,
    Opcode::CNP,
    Opcode(0x0e),
];

impl Traffic {
    pub(crate) fn new(config: &SwitchConfig, dice: &mut Dice) -> Traffic {
        let is_leaf = matches!(config.role, Role::Leaf(_));
        let flows = (0..config.ports.len() as u16).map(|port| {
            let count = 2 + dice.pick(6);
            (0..count)
                .map(|_| Flow::drawn(config, is_leaf, port, dice))
                .collect()
        });
        Traffic {
            flows: flows.collect(),
        }
    }

    /// Up to 64 packets for `port`.
    pub(crate) fn burst(
        &mut self,
        config: &SwitchConfig,
        port: u16,
        dice: &mut Dice,
    ) -> Vec<Piece> {
        let len = 1 + dice.pick(64);
        let flows = &mut self.flows[usize::from(port)];
        let mut which = dice.pick(flows.len());
        let mut opcode = OPCODES[dice.pick(3)];
        let mut pieces = Vec::new();
        for _ in 0..len {
            if dice.one_in(8) {
                which = dice.pick(flows.len());
            }
            if dice.one_in(10) {
                opcode = OPCODES[dice.pick(OPCODES.len())];
            }
            let flow = &mut flows[which];
            let own = &config.ports[usize::from(port)];
            pieces.push(match dice.below(120) {
                0..2 => flow.message(own, dice),
                2 if own.kind == PortKind::Host => told(port, dice),
                3..5 => flow.data(own, opcode, dice).mutated(dice),
                5..12 => flow.data(own, opcode, dice).odd(dice),
                _ => flow.data(own, opcode, dice),
            });
        }
        pieces
    }
}

/// A host of a learned prefix says by ARP where it is now.
fn told(port: u16, dice: &mut Dice) -> Piece {
    let subnet = if port == ATTACKER { 8 } else { 9 };
    let from = format!("10.0.{subnet}.{}", 5 + dice.below(3));
    let mac = MacAddr([2, 0xbb, 0, 0, 0, dice.below(2) as u8]);
    Piece::whole(arp_request(mac, &from, "10.0.0.254").0)
}

impl Flow {
    fn drawn(config: &SwitchConfig, is_leaf: bool, port: u16, dice: &mut Dice) -> Flow {
        let own = &config.ports[usize::from(port)];
        let local = [
            "10.0.0.1",
            "10.0.9.5",
            "10.0.9.6",
            "10.0.2.1",
            "10.0.8.7",
            "fd00:0::1",
        ];
        let is_v6 = dice.one_in(8);
        let of_leaf = |leaf: u64, dice: &mut Dice| match is_v6 {
            true => format!("fd00:{leaf}::{}", 1 + dice.below(2)),
            false => format!("10.{leaf}.0.{}", 1 + dice.below(2)),
        };
        let (from, to) = match own.kind {
            PortKind::Host => {
                let from = match (is_v6, port) {
                    (true, _) => "fd00:0::1",
                    (false, ATTACKER) => ["10.0.2.1", "10.0.8.7"][dice.pick(2)],
                    (false, _) => ["10.0.0.1", "10.0.9.5"][dice.pick(2)],
                };
                let to = if dice.one_in(4) {
                    local[dice.pick(5)].to_string()
                } else {
                    of_leaf(1 + dice.below(2), dice)
                };
                (from.to_string(), to)
            }
            PortKind::Fabric(_) if is_leaf => {
                let to = if is_v6 { local[5] } else { local[dice.pick(5)] };
                (of_leaf(1 + dice.below(2), dice), to.to_string())
            }
            PortKind::Fabric(_) => {
                let from = u64::from(port);
                let to = (from + dice.below(3)) % u64::from(LEAVES);
                (of_leaf(from, dice), of_leaf(to, dice))
            }
        };
        Flow {
            from: address(&from),
            to: address(&to),
            source_mac: own.peer_mac,
            qpn: 16 + dice.below(3) as u32,
            class: [0, 26 << 2 | 2, 46 << 2, 1, 63 << 2 | 2][dice.pick(5)],
            tags: usize::from(dice.one_in(12)) * (1 + dice.pick(2)),
            payload: [0, 64, 64, 256, 1024][dice.pick(5)],
            psn: [100, 0xff_fff0][dice.pick(2)],
            epoch: dice.below(4) as u32,
        }
    }

    /// A frame of the flow that carries `payload` in UDP to `udp_port`.
    fn udp(&self, own: &PortConfig, udp_port: u16, payload: &[u8]) -> Piece {
        let at = ethernet::HEADER_LEN + self.tags * ethernet::TAG_LEN;
        let header = ip::header_len(self.from);
        let udp = at + header;
        let mut frame = vec![0; udp + 8 + payload.len()];
        ethernet::set_addresses(&mut frame, own.mac, self.source_mac);
        for tag in 0..self.tags {
            be::put16(&mut frame, 12 + 4 * tag, ethernet::VLAN);
            be::put16(&mut frame, 14 + 4 * tag, (self.qpn as u16) << 13 | 5);
        }
        let kind = [ethernet::IPV6, ethernet::IPV4][usize::from(self.from.as_v4().is_some())];
        be::put16(&mut frame, at - 2, kind);
        let fields = IpFields {
            source: self.from,
            destination: self.to,
            traffic_class: self.class,
            ttl: 64,
            payload_len: 8 + payload.len() as u16,
        };
        ip::write(&mut frame[at..], &fields);
        ip::write_udp(
            &mut frame[udp..],
            0xc000 | self.qpn as u16,
            udp_port,
            payload.len() as u16,
        );
        frame[udp + 8..].copy_from_slice(payload);
        Piece::whole(frame)
    }

    /// The next packet, or one that comes again, late or early. From a switch most are marked.
    fn data(&mut self, own: &PortConfig, opcode: Opcode, dice: &mut Dice) -> Piece {
        let psn = match dice.below(80) {
            0..3 => self.psn.wrapping_sub(1),
            3..6 => self.psn.wrapping_sub(dice.below(80) as u32),
            6 => self.psn.wrapping_sub(dice.below(9_000) as u32),
            7..10 => {
                self.psn = self.psn.wrapping_add(dice.below(4) as u32);
                self.psn
            }
            10 => {
                self.psn = self.psn.wrapping_add(dice.below(6_000) as u32);
                self.psn
            }
            _ => self.psn,
        };
        self.psn = self.psn.wrapping_add(1);
        let mut payload = vec![0x5a; bth::HEADER_LEN + self.payload + bth::ICRC_LEN];
        let fields = BthFields {
            opcode,
            destination_qp: Qpn(self.qpn),
            psn: Psn::new(psn),
            ack_req: dice.one_in(16),
            pad: 0,
        };
        bth::write(&mut payload, &fields);
        if own.kind != PortKind::Host && !dice.one_in(30) && self.qpn < 18 {
            payload[bth::RESV8A] |= MARK | if self.epoch & 1 == 1 { COLOUR } else { 0 };
        }
        self.udp(own, ROCE_PORT, &payload)
    }

    /// What is said of the flow: by its host, or by switches; now and then by whom it may not be.
    fn message(&mut self, own: &PortConfig, dice: &mut Dice) -> Piece {
        let is_host = (own.kind == PortKind::Host) ^ dice.one_in(10);
        let most = [90, 3000][dice.pick(2)];
        let packets = 1 + dice.below(most);
        let kind = match (is_host, dice.below(6)) {
            (true, 0) => MessageKind::Withdraw,
            (false, 0..3) => MessageKind::Close,
            (false, 3) if dice.one_in(3) => MessageKind::LinkState,
            _ => MessageKind::Open,
        };
        let mut header = host_header(kind, self.qpn, self.psn, packets);
        if dice.one_in(8) {
            header.flags |= FLAG_RESPONSES;
        }
        if !is_host {
            if kind == MessageKind::Open && !dice.one_in(4) {
                self.epoch += 1;
            }
            header.epoch = self.epoch;
            header.fanout = SPINES;
            header.flags |= FLAG_SWITCH;
            if kind == MessageKind::Close {
                header.flags |= FLAG_COUNTS | FLAG_HOP_ROOM;
            }
        }
        if let (MessageKind::LinkState, PortKind::Fabric(Peer::Spine(spine))) = (kind, own.kind) {
            header.fanout = LEAVES;
            header.flow_id = u64::from(spine.0);
        }
        let reaches = dice.next() | dice.next();
        let mut payload = vec![0; message::LEN_MAX];
        let len = message::write(&mut payload, &header, |x| reaches >> x & 1 == 1, |_| 9);
        self.udp(own, message::DEFAULT_PORT, &payload[..len])
    }
}

impl Piece {
    /// Another of its header fields, in a way that means something.
    fn odd(mut self, dice: &mut Dice) -> Piece {
        let Ok(parsed) = packet::parse(&self.bytes, self.bytes.len(), message::DEFAULT_PORT) else {
            return self;
        };
        let [net, udp, bth] = [parsed.network, parsed.transport, parsed.payload].map(usize::from);
        let is_v4 = !parsed.is_v6;
        let ttl = net
            + if is_v4 {
                ip::v4::TTL
            } else {
                ip::v6::HOP_LIMIT
            };
        let bytes = &mut self.bytes;
        match dice.below(17) {
            0..2 => bytes[ttl] = dice.below(3) as u8,
            2 => bytes[bth + bth::RESV8A] ^= 1 + dice.below(3) as u8,
            3 => bytes[bth + bth::RESV8A] ^= 1 << dice.below(8),
            4 if is_v4 => bytes[net + ip::v4::TOS] ^= 1 << dice.below(8),
            5 => bytes[dice.pick(6)] ^= 0x40,
            6 => bytes[6 + dice.pick(6)] ^= 0x40,
            7 => be::put16(bytes, udp + 4, dice.below(1200) as u16),
            8 if is_v4 => be::put16(bytes, net + ip::v4::TOTAL_LEN, dice.below(1200) as u16),
            9 => {
                bytes.resize(bytes.len() + dice.pick(60), 0);
                self.wire_len = self.bytes.len() as u32;
            }
            10 => self.is_whole = false,
            11 => self.wire_len += dice.below(5_000) as u32,
            12 => bytes[bth + bth::FLAGS] |= dice.below(16) as u8,
            13 => bytes[bth] = [0x1f, 0x64, 0xa4, 0x85][dice.pick(4)],
            14 => be::put16(bytes, udp + 2, 4792),
            15 if is_v4 => {
                let piece = [0x2000, 0x4000, 0x2010, 7][dice.pick(4)];
                be::put16(bytes, net + ip::v4::FRAGMENT, piece);
            }
            _ => {
                let len = bytes.len();
                bytes.truncate(dice.pick(len + 1));
                self.wire_len = self.bytes.len() as u32;
            }
        }
        self
    }

    /// Another bit or byte somewhere in its headers.
    fn mutated(mut self, dice: &mut Dice) -> Piece {
        let at = dice.pick(self.bytes.len().min(60));
        if dice.one_in(2) {
            self.bytes[at] ^= 1 << dice.below(8);
        } else {
            self.bytes[at] = dice.next() as u8;
        }
        self
    }
}
