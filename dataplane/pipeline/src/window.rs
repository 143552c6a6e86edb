//! The frames of opens and closes: in the flow's own dress, so that they travel in its queues.

use packet::ethernet::{self, MacAddr};
use packet::ip::{self, Address, IpFields, UDP_HEADER_LEN};
use packet::message::{self, FLAG_FIRST_UNKNOWN, Header};
use packet::{Parsed, Psn, Qpn, be};

/// TTL of a message: two switches ahead, and some.
const TTL: u8 = 16;

/// Longest frame of a message: two tags, IPv6, UDP, all counts.
pub const FRAME_MAX: usize = ethernet::HEADER_LEN
    + 2 * ethernet::TAG_LEN
    + ip::V6_HEADER_LEN
    + UDP_HEADER_LEN
    + message::LEN_MAX;

/// What tells a window from all others of its source leaf. The epoch alone does not: a leaf that
/// was restarted counts from 1 again, and preset `paper` has no epochs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowName {
    /// The window's number.
    pub epoch: u32,
    pub(crate) qpn: Qpn,
    flow_id: u64,
    pub(crate) first: Option<Psn>,
}

impl WindowName {
    /// That of the window which a message with such a header opens or closes.
    pub fn of(header: &Header) -> WindowName {
        WindowName {
            epoch: header.epoch,
            qpn: header.destination_qp,
            flow_id: header.flow_id,
            first: first_psn(header),
        }
    }

    /// Whether it was opened before the window of `epoch` (serial arithmetic: epochs wrap).
    pub fn is_before(&self, epoch: u32) -> bool {
        (epoch.wrapping_sub(self.epoch) as i32) > 0
    }
}

/// The first PSN that a message names.
pub fn first_psn(header: &Header) -> Option<Psn> {
    (header.flags & FLAG_FIRST_UNKNOWN == 0).then_some(header.first_psn)
}

/// What a message takes over from the packets of its flow.
#[derive(Clone, Copy, Debug)]
pub struct Dress {
    source: Address,
    destination: Address,
    traffic_class: u8,
    /// The VLAN tags between the addresses and the Ethertype.
    tags: [u8; ethernet::TAGS_MAX * ethernet::TAG_LEN],
    tags_len: u8,
}

impl Dress {
    /// That of a parsed frame. CE is not taken over: a message reports no congestion.
    pub fn of(frame: &[u8], parsed: &Parsed) -> Dress {
        let tags_len = usize::from(parsed.network) - ethernet::HEADER_LEN;
        let mut tags = [0; ethernet::TAGS_MAX * ethernet::TAG_LEN];
        tags[..tags_len]
            .copy_from_slice(&frame[ethernet::ETHERTYPE..ethernet::ETHERTYPE + tags_len]);
        Dress {
            source: parsed.source,
            destination: parsed.destination,
            traffic_class: parsed.traffic_class & 0xfc,
            tags,
            tags_len: tags_len as u8,
        }
    }

    /// A frame that is addressed to the neighbouring switches alone (link state).
    pub fn link_local() -> Dress {
        Dress {
            source: Address::v4(0),
            // All routers on this link (RFC 1112 and the IANA registry).
            destination: Address::v4(0xe000_0002),
            // DSCP 48, network control.
            traffic_class: 48 << 2,
            tags: [0; ethernet::TAGS_MAX * ethernet::TAG_LEN],
            tags_len: 0,
        }
    }

    /// Length of the frame of a message of `message_len` bytes.
    pub fn frame_len(&self, message_len: usize) -> usize {
        ethernet::HEADER_LEN
            + usize::from(self.tags_len)
            + ip::header_len(self.source)
            + UDP_HEADER_LEN
            + message_len
    }

    /// Writes the whole frame between the MAC addresses (`to`, `from`); `out` is of
    /// [`Dress::frame_len`].
    pub fn write(
        &self,
        out: &mut [u8],
        (to, from): (MacAddr, MacAddr),
        port: u16,
        header: &Header,
        is_set: impl Fn(usize) -> bool,
        count: impl Fn(usize) -> u32,
    ) {
        ethernet::set_addresses(out, to, from);
        let tags_len = usize::from(self.tags_len);
        let mut at = ethernet::ETHERTYPE;
        out[at..at + tags_len].copy_from_slice(&self.tags[..tags_len]);
        at += tags_len;
        let kind = if self.source.as_v4().is_some() {
            ethernet::IPV4
        } else {
            ethernet::IPV6
        };
        be::put16(out, at, kind);
        at += 2;
        let payload_len = message::message_len(usize::from(header.fanout), header.flags) as u16;
        let fields = IpFields {
            source: self.source,
            destination: self.destination,
            traffic_class: self.traffic_class,
            ttl: TTL,
            payload_len: UDP_HEADER_LEN as u16 + payload_len,
        };
        at += ip::write(&mut out[at..], &fields);
        ip::write_udp(&mut out[at..], port, port, payload_len);
        message::write(&mut out[at + UDP_HEADER_LEN..], header, is_set, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::message::{Message, MessageKind};
    use packet::{Kind, parse};

    #[test]
    fn a_message_wears_the_dress_of_its_flow() {
        let mut data = vec![0u8; 18 + 20 + 8 + 16];
        data[12..18].copy_from_slice(&[0x81, 0x00, 0x60, 0x64, 0x08, 0x00]);
        let fields = IpFields {
            source: Address::v4(0x0a00_0001),
            destination: Address::v4(0x0a00_0101),
            traffic_class: 26 << 2 | 3,
            ttl: 64,
            payload_len: 24,
        };
        ip::write(&mut data[18..], &fields);
        ip::write_udp(&mut data[38..], 0xc000, packet::ROCE_PORT, 16);
        let parsed = parse(&data, data.len(), message::DEFAULT_PORT).unwrap();
        let dress = Dress::of(&data, &parsed);
        let header = Header {
            kind: MessageKind::Close,
            flags: message::FLAG_SWITCH | message::FLAG_COUNTS | message::FLAG_HOP_ROOM,
            destination_qp: Qpn(5),
            first_psn: Psn::new(9),
            mtu_bytes: 4096,
            packets: 77,
            bytes: 0,
            flow_id: 1,
            fanout: 8,
            repetition: 0,
            epoch: 3,
        };
        let mut out = vec![0u8; dress.frame_len(message::message_len(8, header.flags))];
        dress.write(
            &mut out,
            (MacAddr([2; 6]), MacAddr([4; 6])),
            48791,
            &header,
            |_| true,
            |x| x as u32,
        );
        let read = parse(&out, out.len(), 48791).unwrap();
        assert_eq!(
            (read.kind, usize::from(read.end)),
            (Kind::Message, out.len())
        );
        assert_eq!(
            (read.source, read.destination),
            (parsed.source, parsed.destination)
        );
        assert_eq!(read.traffic_class, 26 << 2, "DSCP kept, ECN clear");
        assert_eq!(out[12..16], data[12..16], "VLAN tag kept");
        let message = Message::read(&out[usize::from(read.payload)..]).unwrap();
        assert_eq!((message.header, message.count(7)), (header, Some(7)));
    }
}
