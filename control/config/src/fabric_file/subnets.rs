//! Addresses of a fabric: one subnet of a prefix for each leaf, the last one for the spines.
//!
//! In each leaf's subnet hosts count from 1, and the leaf itself, their gateway, is the last but one
//! of its first 65536 addresses (or of all, if there are fewer). In the last subnet spines count from 1.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::raw;
use crate::error::ConfigError;

/// The subnets of one address family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Subnets {
    network: u128,
    is_v6: bool,
    length: u8,
    leaf_length: u8,
}

/// Reads the families that are given, IPv4 first, and checks that the fabric fits into each.
pub(super) fn read(
    raw: &raw::Addressing,
    leaves: u16,
    hosts_per_leaf: u16,
) -> Result<Vec<Subnets>, ConfigError> {
    let families = [
        ("ipv4", &raw.ipv4, raw.ipv4_leaf, 16),
        ("ipv6", &raw.ipv6, raw.ipv6_leaf, 64),
    ];
    let mut all = Vec::new();
    for (key, prefix, leaf_length, leaf_default) in families {
        let key = format!("addressing.{key}");
        match (prefix, leaf_length) {
            (None, None) => {}
            (None, Some(_)) => {
                let message = "says how the prefix is divided, but there is none; add it, or take \
                               this out";
                return Err(ConfigError::new(format!("{key}_leaf"), message));
            }
            (Some(text), given) => {
                let one = Subnets::new(text, given.unwrap_or(leaf_default), &key)?;
                one.check_room(leaves, hosts_per_leaf, &key)?;
                all.push(one);
            }
        }
    }
    if all.is_empty() {
        let message =
            "no prefix is given; add ipv4 = \"10.0.0.0/8\", ipv6 = \"fd00:5c::/48\" or both";
        return Err(ConfigError::new("addressing", message));
    }
    Ok(all)
}

impl Subnets {
    fn new(text: &str, leaf_length: u8, key: &str) -> Result<Subnets, ConfigError> {
        let is_v6 = key.ends_with("ipv6");
        let (example, bits) = if is_v6 {
            ("fd00:5c::/48", 128)
        } else {
            ("10.0.0.0/8", 32)
        };
        let wrong = |why: &str| {
            let message = format!("\"{text}\" is no prefix ({why}); write it like {example}");
            ConfigError::new(key, message)
        };
        let (address, length) = text.split_once('/').ok_or_else(|| wrong("no length"))?;
        let network = match address.parse() {
            Ok(IpAddr::V4(v4)) if !is_v6 => u128::from(u32::from(v4)),
            Ok(IpAddr::V6(v6)) if is_v6 => u128::from(v6),
            _ => return Err(wrong("no address of this family")),
        };
        let length: u8 = length
            .parse()
            .map_err(|_| wrong("the length is no number"))?;
        if length == 0 || length >= bits {
            return Err(wrong(&format!("the length is none of 1 to {}", bits - 1)));
        }
        if network & ((1 << (bits - length)) - 1) != 0 {
            return Err(wrong("bits are set beyond its length"));
        }
        if leaf_length <= length || leaf_length > bits - 2 {
            let message = format!(
                "{leaf_length} is no length of a part of {text}; choose {} to {}",
                length + 1,
                bits - 2
            );
            return Err(ConfigError::new(format!("{key}_leaf"), message));
        }
        Ok(Subnets {
            network,
            is_v6,
            length,
            leaf_length,
        })
    }

    fn bits(self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// Subnets of a leaf's length in the prefix, as far as a u32 counts.
    fn count(self) -> u32 {
        1u32 << (self.leaf_length - self.length).min(31)
    }

    /// Offset of the gateway in its subnet.
    fn gateway_offset(self) -> u32 {
        (1u32 << (self.bits() - self.leaf_length).min(16)) - 2
    }

    fn check_room(self, leaves: u16, hosts: u16, key: &str) -> Result<(), ConfigError> {
        if u32::from(leaves) + 1 > self.count() {
            let message = format!(
                "{} has {} parts of length {}; {leaves} leaves and the spines need {}; raise it",
                self.fabric(),
                self.count(),
                self.leaf_length,
                leaves + 1
            );
            return Err(ConfigError::new(format!("{key}_leaf"), message));
        }
        if u32::from(hosts) >= self.gateway_offset() {
            let message = format!(
                "a part of length {} has room for {} hosts beside the leaf, not {hosts}; lower it",
                self.leaf_length,
                self.gateway_offset() - 1
            );
            return Err(ConfigError::new(format!("{key}_leaf"), message));
        }
        Ok(())
    }

    fn at(self, subnet: u32, offset: u32) -> IpAddr {
        let host_bits = self.bits() - self.leaf_length;
        let value = self.network | u128::from(subnet) << host_bits | u128::from(offset);
        if self.is_v6 {
            IpAddr::V6(Ipv6Addr::from(value))
        } else {
            // An IPv4 network and its offsets have 32 bits.
            IpAddr::V4(Ipv4Addr::from(value as u32))
        }
    }

    /// The prefix of the whole fabric.
    pub(super) fn fabric(self) -> String {
        format!("{}/{}", self.at(0, 0), self.length)
    }

    /// The prefix of a leaf's hosts.
    pub(super) fn leaf(self, leaf: u16) -> String {
        format!("{}/{}", self.at(u32::from(leaf), 0), self.leaf_length)
    }

    /// A leaf's own address.
    pub(super) fn gateway(self, leaf: u16) -> IpAddr {
        self.at(u32::from(leaf), self.gateway_offset())
    }

    /// The address of the n-th host of a leaf, from 0.
    pub(super) fn host(self, leaf: u16, n: u16) -> IpAddr {
        self.at(u32::from(leaf), u32::from(n) + 1)
    }

    /// A spine's own address.
    pub(super) fn spine(self, spine: u16) -> IpAddr {
        self.at(self.count() - 1, u32::from(spine) + 1)
    }

    /// Bits of an address of this family that name the leaf.
    pub(super) fn leaf_length(self) -> u8 {
        self.leaf_length
    }

    /// Bits of an address.
    pub(super) fn full_length(self) -> u8 {
        self.bits()
    }

    /// Whether the address lies in the leaf's part.
    pub(super) fn is_of_leaf(self, leaf: u16, address: IpAddr) -> bool {
        let value = match (address, self.is_v6) {
            (IpAddr::V4(v4), false) => u128::from(u32::from(v4)),
            (IpAddr::V6(v6), true) => u128::from(v6),
            _ => return false,
        };
        let host_bits = self.bits() - self.leaf_length;
        value >> host_bits == (self.network >> host_bits) + u128::from(leaf)
    }
}
