//! Hosts of a fabric: addresses by place, and what single ones have otherwise.

use detector::LeafId;
use packet::MacAddr;

use super::subnets::Subnets;
use super::{FileHost, HostAddress, raw};
use crate::error::ConfigError;
use crate::fabric::station_mac;
use crate::switch_file::port;

/// Hosts of a leaf unless said.
const PER_LEAF_DEFAULT: u16 = 1;
/// Most hosts of a leaf: its ports, less uplinks, are a thousand and some.
const PER_LEAF_MAX: u16 = 512;
/// The first byte of a block of MAC addresses that is a host's; a port's is one less.
const HOST_KIND: u8 = 1;

/// Hosts of each leaf.
pub(super) fn per_leaf(raw: &raw::File) -> Result<u16, ConfigError> {
    let count = raw.hosts.per_leaf.unwrap_or(PER_LEAF_DEFAULT);
    if (1..=PER_LEAF_MAX).contains(&count) {
        return Ok(count);
    }
    let message = format!("{count} is out of range; choose 1 to {PER_LEAF_MAX}");
    Err(ConfigError::new("hosts.per_leaf", message))
}

/// All hosts, by leaf.
pub(super) fn resolve(
    raw: &raw::File,
    subnets: &[Subnets],
    block: u8,
) -> Result<Vec<FileHost>, ConfigError> {
    let per_leaf = per_leaf(raw)?;
    let vlan_of = |index: u16| raw.ports.host_vlan.map(|first| first.saturating_add(index));
    let interface = raw.hosts.interface.as_deref().unwrap_or("eth0");
    check_interface(interface, "hosts.interface")?;
    let mut hosts = Vec::new();
    for leaf in 0..raw.fabric.leaves {
        for n in 0..per_leaf {
            let address = |family: &Subnets| HostAddress {
                address: family.host(leaf, n),
                length: family.leaf_length(),
                gateway: family.gateway(leaf),
            };
            let mac: MacAddr = station_mac(HOST_KIND | block << 1, leaf, n);
            hosts.push(FileHost {
                name: format!("h{leaf}.{n}"),
                leaf,
                addresses: subnets.iter().map(address).collect(),
                mac: (!raw.hosts.learn).then_some(mac),
                takes_mac: !raw.hosts.learn,
                interface: interface.to_owned(),
                vlan: vlan_of(leaf.saturating_mul(per_leaf).saturating_add(n)),
            });
        }
    }
    for (index, part) in raw.host.iter().enumerate() {
        apply(raw, subnets, &mut hosts, part, index)?;
    }
    Ok(hosts)
}

/// What the file says of one host goes over what follows from its place.
fn apply(
    raw: &raw::File,
    subnets: &[Subnets],
    hosts: &mut [FileHost],
    part: &raw::Host,
    index: usize,
) -> Result<(), ConfigError> {
    let key = |field: &str| format!("host[{index}].{field}");
    if raw.host[..index]
        .iter()
        .any(|other| other.name == part.name)
    {
        let message = format!("{} is described twice; join the two", part.name);
        return Err(ConfigError::new(key("name"), message));
    }
    let (first, last) = (
        hosts
            .first()
            .map(|host| host.name.clone())
            .unwrap_or_default(),
        hosts
            .last()
            .map(|host| host.name.clone())
            .unwrap_or_default(),
    );
    let Some(host) = hosts.iter_mut().find(|host| host.name == part.name) else {
        let message = format!(
            "\"{}\" is none of the hosts {first} to {last}; write h<leaf>.<n>",
            part.name
        );
        return Err(ConfigError::new(key("name"), message));
    };
    if let Some(mac) = part.mac {
        port::check_mac(mac.0, &key("mac"))?;
        host.mac = Some(mac.0);
        host.takes_mac = false;
    }
    if let Some(interface) = &part.interface {
        check_interface(interface, &key("interface"))?;
        host.interface.clone_from(interface);
    }
    let Some(texts) = &part.addresses else {
        return Ok(());
    };
    if texts.is_empty() {
        let message = "a host needs an address; give it one, or take this out";
        return Err(ConfigError::new(key("addresses"), message));
    }
    host.addresses.clear();
    for (place, text) in texts.iter().enumerate() {
        let key = key(&format!("addresses[{place}]"));
        let address = std::net::IpAddr::from(port::address(text, &key)?);
        let Some(family) = subnets.iter().find(|s| s.is_of_leaf(host.leaf, address)) else {
            let all: Vec<String> = subnets.iter().map(|s| s.leaf(host.leaf)).collect();
            let message = format!(
                "{text} is not in the part of {}, {}; choose one from it",
                LeafId(host.leaf),
                all.join(" or ")
            );
            return Err(ConfigError::new(key, message));
        };
        host.addresses.push(HostAddress {
            address,
            length: family.leaf_length(),
            gateway: family.gateway(host.leaf),
        });
    }
    Ok(())
}

/// A name of an interface goes into commands, so it is what the kernel allows and a shell leaves alone.
fn check_interface(name: &str, key: &str) -> Result<(), ConfigError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // IFNAMSIZ is 16, with the zero at the end.
    if !name.is_empty() && name.len() <= 15 && name.chars().all(is_plain) && !name.starts_with('-')
    {
        return Ok(());
    }
    let message = format!(
        "\"{name}\" cannot name an interface; use up to 15 letters, digits, \"-\", \"_\" and \".\""
    );
    Err(ConfigError::new(key, message))
}
