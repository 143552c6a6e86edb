//! Packets of the model: the bytes that a switch reads, and a length on the wire.

use packet::bth::{self, BthFields};
use packet::ip::{self, IpFields};
use packet::message::{self, Header, MessageKind};
use packet::{MacAddr, Opcode, Psn, Qpn, ROCE_PORT, be, ethernet};
use pipeline::window::FRAME_MAX;
use pipeline::{DropReason, Report, Sink, Token, WindowReport};

use crate::setup::{self, MTU_BYTES};

/// Where the BTH stands: Ethernet, IPv4 without options, UDP.
const BTH_AT: usize = 42;
/// Bytes of a frame on the wire: its headers, a payload of one MTU, the ICRC.
pub(crate) const WIRE_BYTES: u32 = BTH_AT as u32 + bth::HEADER_LEN as u32 + MTU_BYTES + 4;
/// What forwarding changes: both MAC addresses, TTL and checksum, all in the first bytes.
const REWRITTEN: usize = 26;
/// Destination QP of the measured flow.
pub(crate) const QPN: Qpn = Qpn(0x17);

/// A packet that only pretends to carry its payload.
pub(crate) struct Packet {
    bytes: [u8; FRAME_MAX],
    held: u32,
    wire_len: u32,
    /// The PSN that the host gave it; `None`: a message.
    pub(crate) psn: Option<u32>,
}

impl Token for Box<Packet> {
    fn header(&self) -> &[u8] {
        &self.bytes[..self.held as usize]
    }
    fn header_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.held as usize]
    }
    fn wire_len(&self) -> u32 {
        self.wire_len
    }
}

/// Packets that are free, and what switches report.
#[allow(
    clippy::vec_box,
    reason = "boxes are the tokens that switches hold; out of them they would be copied"
)]
pub(crate) struct Memory {
    template: [u8; FRAME_MAX],
    held: u32,
    free: Vec<Box<Packet>>,
    /// Free packets that still hold a data packet, and so need only what changes.
    used: Vec<Box<Packet>>,
    /// Windows that ended, oldest first.
    pub(crate) windows: Vec<WindowReport>,
    /// Packets that switches dropped.
    pub(crate) dropped: u64,
}

impl Memory {
    /// Nothing yet.
    pub(crate) fn new() -> Memory {
        let (template, held) = data();
        Memory {
            template,
            held,
            free: Vec::new(),
            used: Vec::new(),
            windows: Vec::new(),
            dropped: 0,
        }
    }

    /// A data packet of the measured flow, as its host sends it.
    #[inline]
    pub(crate) fn data(&mut self, psn: u32) -> Box<Packet> {
        let mut packet = match self.used.pop() {
            Some(mut packet) => {
                packet.bytes[..REWRITTEN].copy_from_slice(&self.template[..REWRITTEN]);
                packet.bytes[BTH_AT + bth::RESV8A] = 0;
                packet
            }
            None => {
                let mut packet = self.blank();
                packet.bytes = self.template;
                packet.held = self.held;
                packet.wire_len = WIRE_BYTES;
                packet
            }
        };
        let psn = psn & 0x00ff_ffff;
        be::put32(&mut packet.bytes, BTH_AT + bth::ACK_REQ, psn);
        packet.psn = Some(psn);
        packet
    }

    /// The announcement of a flow of so many packets.
    pub(crate) fn announcement(&mut self, first_psn: u32, packets: u64, id: u64) -> Box<Packet> {
        let header = Header {
            kind: MessageKind::Open,
            flags: 0,
            destination_qp: QPN,
            first_psn: Psn::new(first_psn & 0x00ff_ffff),
            mtu_bytes: MTU_BYTES,
            packets,
            bytes: 0,
            flow_id: id,
            fanout: 0,
            repetition: 0,
            epoch: 0,
        };
        let len = message::message_len(0, 0);
        let mut packet = self.blank();
        write_udp(&mut packet.bytes, message::DEFAULT_PORT, len as u16);
        message::write(&mut packet.bytes[BTH_AT..], &header, |_| false, |_| 0);
        packet.held = (BTH_AT + len) as u32;
        packet.wire_len = packet.held;
        packet
    }

    fn blank(&mut self) -> Box<Packet> {
        let mut packet = self.free.pop().unwrap_or_else(|| {
            Box::new(Packet {
                bytes: [0; FRAME_MAX],
                held: 0,
                wire_len: 0,
                psn: None,
            })
        });
        packet.psn = None;
        packet
    }

    /// Takes a packet back.
    #[inline]
    pub(crate) fn recycle(&mut self, packet: Box<Packet>) {
        if packet.psn.is_some() {
            self.used.push(packet);
        } else {
            self.free.push(packet);
        }
    }
}

impl Sink<Box<Packet>> for Memory {
    fn alloc(&mut self, len: usize) -> Option<Box<Packet>> {
        let mut packet = self.blank();
        packet.bytes[..len].fill(0);
        packet.held = len as u32;
        packet.wire_len = len as u32;
        Some(packet)
    }
    fn discard(&mut self, token: Box<Packet>, _reason: DropReason) {
        // The switch has counted it by its reason; a trial only has to know that there was one.
        self.dropped += 1;
        self.recycle(token);
    }
    fn consume(&mut self, token: Box<Packet>) {
        self.recycle(token);
    }
    fn report(&mut self, report: Report<'_>) -> bool {
        if let Report::Window(window) = report {
            self.windows.push(*window);
        }
        true
    }
}

fn data() -> ([u8; FRAME_MAX], u32) {
    let mut bytes = [0; FRAME_MAX];
    let payload_len = WIRE_BYTES - BTH_AT as u32;
    write_udp(&mut bytes, ROCE_PORT, payload_len as u16);
    let fields = BthFields {
        opcode: Opcode::WRITE_MIDDLE,
        destination_qp: QPN,
        psn: Psn::new(0),
        ack_req: false,
        pad: 0,
    };
    bth::write(&mut bytes[BTH_AT..], &fields);
    (bytes, (BTH_AT + bth::HEADER_LEN) as u32)
}

fn write_udp(bytes: &mut [u8], port: u16, payload_len: u16) {
    let (to, from): (MacAddr, MacAddr) = setup::host_macs();
    ethernet::set_addresses(bytes, to, from);
    be::put16(bytes, ethernet::ETHERTYPE, ethernet::IPV4);
    let fields = IpFields {
        source: setup::host(0),
        destination: setup::host(1),
        traffic_class: 0,
        ttl: 64,
        payload_len: 8 + payload_len,
    };
    ip::write(&mut bytes[14..], &fields);
    ip::write_udp(&mut bytes[34..], 0xc000, port, payload_len);
}
