//! A fabric whose switches have addresses of their own, in both families, and the frames of ping
//! and traceroute.

use packet::ip::{self, IpFields};
use packet::{Address, MacAddr, be, checksum, ethernet};
use pipeline::*;

use crate::net::*;

pub(crate) fn address(text: &str) -> Address {
    text.parse::<std::net::IpAddr>().unwrap().into()
}

pub(crate) fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// Address of a leaf's host in a family.
pub(crate) fn host(leaf: u16, is_v6: bool) -> Address {
    if is_v6 {
        address(&format!("fd00:{leaf}::1"))
    } else {
        host_address(leaf)
    }
}

/// The leaf's own address.
pub(crate) fn gateway(leaf: u16, is_v6: bool) -> Address {
    if is_v6 {
        address(&format!("fd00:{leaf}::fe"))
    } else {
        address(&format!("10.{leaf}.0.254"))
    }
}

/// The spine's own address.
pub(crate) fn spine(spine: u16, is_v6: bool) -> Address {
    if is_v6 {
        address(&format!("fd80:{spine}::1"))
    } else {
        address(&format!("10.{}.0.1", 128 + spine))
    }
}

/// Gives every switch addresses, and every leaf's host an IPv6 address.
pub(crate) fn with_addresses(config: &mut SwitchConfig) {
    let own = match config.role {
        Role::Leaf(leaf) => Some(leaf.0),
        Role::Spine(_) => None,
    };
    config.gateway.addresses = match config.role {
        Role::Leaf(LeafId(leaf)) => vec![gateway(leaf, false), gateway(leaf, true)],
        Role::Spine(SpineId(x)) => vec![spine(x, false), spine(x, true)],
    };
    if let Some(leaf) = own {
        config.hosts.push(HostConfig {
            address: host(leaf, true),
            mac: Some(host_mac(leaf)),
            port: 0,
        });
        config.routes.push(Route {
            prefix: Prefix::host(host(leaf, true)),
            next: NextHop::Host(1),
        });
        config.routes.extend((0..SPINES).flat_map(|x| {
            [false, true].map(|is_v6| Route {
                prefix: Prefix::host(spine(x, is_v6)),
                next: NextHop::Spine(SpineId(x)),
            })
        }));
    }
    for leaf in (0..LEAVES).filter(|&leaf| Some(leaf) != own) {
        for text in [format!("10.{leaf}.0.0/16"), format!("fd00:{leaf}::/32")] {
            config.routes.push(Route {
                prefix: prefix(&text),
                next: NextHop::Leaf(LeafId(leaf)),
            });
        }
    }
}

/// A learning leaf: port 0 owns a /24 and a /64 whose hosts are not configured.
pub(crate) fn with_prefixes(config: &mut SwitchConfig) {
    with_addresses(config);
    if let Role::Leaf(LeafId(leaf)) = config.role {
        for text in [format!("10.{leaf}.9.0/24"), format!("fd00:{leaf}:0:9::/64")] {
            config.routes.push(Route {
                prefix: prefix(&text),
                next: NextHop::Port(0),
            });
        }
        config.gateway.neighbors = NeighborConfig {
            per_port_max: 8,
            age_ns: 1_000_000,
            ask_ns: 10_000,
        };
    }
}

/// A frame from the host of `leaf` that carries `payload` of `protocol`.
pub(crate) fn frame(
    leaf: u16,
    from: Address,
    to: Address,
    ttl: u8,
    protocol: u8,
    payload: &[u8],
) -> Frame {
    let len = ip::header_len(from);
    let mut frame = vec![0u8; 14 + len + payload.len()];
    ethernet::set_addresses(&mut frame, gateway_mac(leaf), host_mac(leaf));
    let kind = if from.as_v4().is_some() {
        ethernet::IPV4
    } else {
        ethernet::IPV6
    };
    be::put16(&mut frame, 12, kind);
    let fields = IpFields {
        source: from,
        destination: to,
        traffic_class: 8 << 2,
        ttl,
        payload_len: payload.len() as u16,
    };
    ip::write_carrying(&mut frame[14..], &fields, protocol);
    frame[14 + len..].copy_from_slice(payload);
    Frame(frame)
}

/// An echo request from the host of `leaf`.
pub(crate) fn ping(leaf: u16, to: Address, ttl: u8, sequence: u16) -> Frame {
    let is_v6 = to.as_v4().is_none();
    let from = host(leaf, is_v6);
    let mut icmp = vec![0x42u8; 64];
    icmp[..4].copy_from_slice(&[if is_v6 { 128 } else { 8 }, 0, 0, 0]);
    be::put16(&mut icmp, 4, 0x77);
    be::put16(&mut icmp, 6, sequence);
    let protocol = if is_v6 { ip::ICMPV6 } else { ip::ICMP };
    let pseudo = if is_v6 {
        checksum::pseudo_v6(from, to, icmp.len(), protocol)
    } else {
        0
    };
    let sum = checksum::finish(checksum::add(pseudo, &icmp));
    be::put16(&mut icmp, 2, sum);
    frame(leaf, from, to, ttl, protocol, &icmp)
}

/// A traceroute probe: UDP to a high port.
pub(crate) fn probe(leaf: u16, to: Address, ttl: u8) -> Frame {
    let mut udp = vec![0u8; 8 + 32];
    ip::write_udp(&mut udp, 40_000, 33_434 + u16::from(ttl), 32);
    let from = host(leaf, to.as_v4().is_none());
    frame(leaf, from, to, ttl, ip::UDP, &udp)
}

/// What an ICMP answer says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) macs: (MacAddr, MacAddr),
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) ttl: u8,
    pub(crate) kind: (u8, u8),
    pub(crate) body: Vec<u8>,
}

/// Reads an untagged ICMP frame, and checks all its checksums.
pub(crate) fn answer(frame: &Frame) -> Answer {
    let bytes = &frame.0;
    let parsed = packet::parse(bytes, bytes.len(), message_port()).unwrap();
    let icmp = &bytes[usize::from(parsed.transport)..usize::from(parsed.end)];
    let pseudo = if parsed.is_v6 {
        assert_eq!(parsed.protocol, ip::ICMPV6);
        checksum::pseudo_v6(parsed.source, parsed.destination, icmp.len(), ip::ICMPV6)
    } else {
        assert_eq!(parsed.protocol, ip::ICMP);
        assert_eq!(
            be::get16(bytes, 24),
            ip::v4_checksum(&bytes[14..34]),
            "IPv4 header"
        );
        0
    };
    assert_eq!(
        checksum::finish(checksum::add(pseudo, icmp)),
        0,
        "ICMP checksum"
    );
    Answer {
        macs: (MacAddr::read(bytes, 0), MacAddr::read(bytes, 6)),
        from: parsed.source,
        to: parsed.destination,
        ttl: parsed.ttl,
        kind: (icmp[0], icmp[1]),
        body: icmp[4..].to_vec(),
    }
}

fn message_port() -> u16 {
    packet::message::DEFAULT_PORT
}
