//! Addresses of a testbed: IPv4 by leaf and host, locally administered MACs by kind and place.

use packet::{Address, MacAddr};
use pipeline::Prefix;

/// 10.LEAF.0.N+1: the n-th host of a leaf.
pub fn host_address(leaf: u16, n: u16) -> Address {
    Address::v4(10 << 24 | u32::from(leaf & 0xff) << 16 | u32::from(n + 1))
}

/// 10.LEAF.255.254: the leaf itself, gateway of its hosts.
pub fn leaf_address(leaf: u16) -> Address {
    Address::v4(10 << 24 | u32::from(leaf & 0xff) << 16 | 0xfffe)
}

/// 10.(128+SPINE).0.1: a spine itself. Leaves are 0 to 127.
pub fn spine_address(spine: u16) -> Address {
    Address::v4(10 << 24 | u32::from(128 | spine & 0x7f) << 16 | 1)
}

/// 10.LEAF.0.0/16: all hosts of a leaf.
pub fn leaf_prefix(leaf: u16) -> Prefix {
    let text = format!("10.{}.0.0/16", leaf & 0xff);
    text.parse().expect("an address with a length is a prefix")
}

/// 02:00 and the place of a switch port. Bit 1 of the first byte: locally administered.
pub fn port_mac(switch: usize, port: u16) -> MacAddr {
    station_mac(0x00, switch as u16, port)
}

/// 02:01 and the place of a host.
pub fn host_mac(leaf: u16, n: u16) -> MacAddr {
    station_mac(0x01, leaf, n)
}

/// A locally administered address of some kind and place.
pub(crate) fn station_mac(kind: u8, a: u16, b: u16) -> MacAddr {
    let ([a, c], [b, d]) = (a.to_be_bytes(), b.to_be_bytes());
    MacAddr([0x02, kind, a, c, b, d])
}
