//! The way of a connection's packets: Ethernet, IP and UDP, written once and patched.
//!
//! Packets of a connection differ in length alone up to here, and mostly not even in that.

use packet::ip::{self, IpFields, UDP_HEADER_LEN};
use packet::{Address, ROCE_PORT, ethernet};

use crate::config::HostConfig;

/// Longest headers up to UDP.
const LEN_MAX: usize = ethernet::HEADER_LEN + ip::V6_HEADER_LEN + UDP_HEADER_LEN;
/// Initial TTL and hop limit.
const TTL: u8 = 64;
/// ECN-capable transport, ECT(0) (RFC 3168).
pub(crate) const ECT0: u8 = 0b10;

#[derive(Debug)]
pub(crate) struct Route {
    source: Address,
    destination: Address,
    udp_source_port: u16,
    traffic_class: u8,
    /// The headers of the last packet, of `len` bytes, with its port and UDP payload length.
    bytes: [u8; LEN_MAX],
    len: usize,
    /// What these headers are for: see [`key_of`].
    key: u64,
}

/// Port, UDP payload length and traffic class in one word.
#[inline]
fn key_of(port: u16, payload_len: usize, traffic_class: u8) -> u64 {
    u64::from(port) << 32 | (payload_len as u64) << 8 | u64::from(traffic_class)
}

impl Route {
    pub(crate) fn new(host: &HostConfig, destination: Address, udp_source_port: u16) -> Route {
        let mut bytes = [0; LEN_MAX];
        ethernet::set_addresses(&mut bytes, host.gateway_mac, host.mac);
        let kind = if host.address.as_v4().is_some() {
            ethernet::IPV4
        } else {
            ethernet::IPV6
        };
        bytes[ethernet::ETHERTYPE..ethernet::HEADER_LEN].copy_from_slice(&kind.to_be_bytes());
        let mut route = Route {
            source: host.address,
            destination,
            udp_source_port,
            traffic_class: host.dscp << 2 | ECT0,
            bytes,
            len: ethernet::HEADER_LEN + ip::header_len(host.address) + UDP_HEADER_LEN,
            key: 0,
        };
        let class = route.traffic_class;
        route.patch(ROCE_PORT, 0, class);
        route
    }

    /// Address of the peer.
    #[inline]
    pub(crate) fn destination(&self) -> Address {
        self.destination
    }

    fn patch(&mut self, port: u16, payload_len: usize, traffic_class: u8) {
        let fields = IpFields {
            source: self.source,
            destination: self.destination,
            traffic_class,
            ttl: TTL,
            payload_len: (UDP_HEADER_LEN + payload_len) as u16,
        };
        let out = &mut self.bytes[ethernet::HEADER_LEN..];
        let udp = ip::write(out, &fields);
        ip::write_udp(
            &mut out[udp..],
            self.udp_source_port,
            port,
            payload_len as u16,
        );
        self.key = key_of(port, payload_len, traffic_class);
    }

    /// Writes all up to UDP, to `port` and for `payload_len` bytes; returns the offset behind it.
    #[inline]
    pub(crate) fn write(&mut self, frame: &mut [u8], port: u16, payload_len: usize) -> usize {
        self.write_as(frame, port, payload_len, self.traffic_class)
    }

    /// [`Route::write`] in a traffic class of its own.
    #[inline]
    pub(crate) fn write_as(
        &mut self,
        frame: &mut [u8],
        port: u16,
        payload_len: usize,
        traffic_class: u8,
    ) -> usize {
        if self.key != key_of(port, payload_len, traffic_class) {
            self.patch(port, payload_len, traffic_class);
        }
        // A copy of fixed length is a few moves; what it writes too much, BTH or message overwrite.
        frame[..LEN_MAX].copy_from_slice(&self.bytes);
        self.len
    }
}
