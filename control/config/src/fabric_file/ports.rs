//! The ports of each switch of a fabric, in their order: hosts, then uplinks by spine; or downlinks by
//! leaf.

use detector::{LeafId, Link, SpineId};
use packet::MacAddr;

use super::FileHost;
use super::plan::{Place, Plan};
use crate::fabric::station_mac;
use crate::quantity::Rate;

/// A port on its way into a file.
pub(super) struct Port<'a> {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) mac: MacAddr,
    /// The switch at the other end and its port's address.
    pub(super) peer: Option<(String, MacAddr)>,
    /// The leaf of its cable.
    pub(super) leaf: u16,
    /// The spine of its cable.
    pub(super) spine: Option<u16>,
    /// The number of its host at the leaf, and what is known of it.
    pub(super) host: Option<(u16, &'a FileHost)>,
    pub(super) vlan: Option<u16>,
    pub(super) rate: Rate,
    /// The link that it sends into.
    pub(super) link: Option<Link>,
}

impl Plan<'_> {
    /// The ports of the switch at a place.
    pub(super) fn ports(&self, place: Place) -> Vec<Port<'_>> {
        match place {
            Place::Leaf(leaf) => {
                let own = self.hosts.iter().filter(|host| host.leaf == leaf);
                let hosts = (0u16..).zip(own).map(|(n, host)| Port {
                    name: format!("host{n}"),
                    kind: "host",
                    mac: self.port_mac(leaf, n),
                    peer: None,
                    leaf,
                    spine: None,
                    host: Some((n, host)),
                    vlan: host.vlan,
                    rate: self.host_rate,
                    link: None,
                });
                let uplinks = (0..self.raw.fabric.spines).map(|spine| self.uplink(leaf, spine));
                hosts.chain(uplinks).collect()
            }
            Place::Spine(spine) => (0..self.raw.fabric.leaves)
                .map(|leaf| self.downlink(leaf, spine))
                .collect(),
        }
    }

    fn uplink(&self, leaf: u16, spine: u16) -> Port<'_> {
        let (own, other) = self.cable_macs(leaf, spine);
        let (leaf_id, spine_id) = (LeafId(leaf), SpineId(spine));
        Port {
            name: format!("up{spine}"),
            kind: "uplink",
            mac: own,
            peer: Some((spine_id.to_string(), other)),
            leaf,
            spine: Some(spine),
            host: None,
            vlan: self.vlan(leaf, spine),
            rate: self.rate,
            link: Some(Link::Up {
                leaf: leaf_id,
                spine: spine_id,
            }),
        }
    }

    fn downlink(&self, leaf: u16, spine: u16) -> Port<'_> {
        let (other, own) = self.cable_macs(leaf, spine);
        let (leaf_id, spine_id) = (LeafId(leaf), SpineId(spine));
        Port {
            name: format!("down{leaf}"),
            kind: "downlink",
            mac: own,
            peer: Some((leaf_id.to_string(), other)),
            link: Some(Link::Down {
                spine: spine_id,
                leaf: leaf_id,
            }),
            ..self.uplink(leaf, spine)
        }
    }

    /// The addresses at the two ends of a cable: the leaf's, the spine's.
    fn cable_macs(&self, leaf: u16, spine: u16) -> (MacAddr, MacAddr) {
        let leaves = self.raw.fabric.leaves;
        let per_leaf = (self.hosts.len() / usize::from(leaves)) as u16;
        (
            self.port_mac(leaf, per_leaf + spine),
            self.port_mac(leaves + spine, leaf),
        )
    }

    fn port_mac(&self, switch: u16, port: u16) -> MacAddr {
        station_mac(self.block << 1, switch, port)
    }
}
