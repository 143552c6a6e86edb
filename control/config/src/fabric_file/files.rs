//! What `spraycheck generate` writes: the switches' files, the hosts' names and commands, the cables.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::{Cable, CableEnd, FabricFile, FileHost};

impl FabricFile {
    /// Every file, by its name, in the order of writing.
    pub fn files(&self) -> Vec<(String, String)> {
        let mut files: Vec<(String, String)> = self
            .switches
            .iter()
            .map(|switch| (format!("{}.toml", switch.role), switch.text.clone()))
            .collect();
        files.push(("hosts".to_owned(), self.hosts_file()));
        files.push(("hosts.sh".to_owned(), self.host_commands()));
        files.push(("cables.tsv".to_owned(), self.cable_list()));
        files
    }

    /// Lines for `/etc/hosts`: hosts by name, and switches by theirs.
    fn hosts_file(&self) -> String {
        let mut text = "# Hosts and switches of the fabric, as in /etc/hosts.\n".to_owned();
        for host in &self.hosts {
            for address in &host.addresses {
                line(
                    &mut text,
                    format_args!("{}\t{}", address.address, host.name),
                );
            }
        }
        for switch in &self.switches {
            for &address in &switch.spec.config.gateway.addresses {
                line(
                    &mut text,
                    format_args!("{}\t{}", IpAddr::from(address), switch.role),
                );
            }
        }
        text
    }

    /// A script that sets a host's addresses up: `sh hosts.sh h0.0 [INTERFACE]`.
    fn host_commands(&self) -> String {
        let mut text = "#!/bin/sh\n\
            # Sets up the interface of a host of the fabric. As root on that host:\n\
            #   sh hosts.sh HOST [INTERFACE]\n\
            # It may be run again. Offloads that need a NIC at the other end are turned off where the\n\
            # interface has them: a switch passes packets on as they are, half-made checksums too.\n\
            set -eu\n\
            host=${1:-}\n\
            offloads() { command -v ethtool > /dev/null && ethtool -K \"$1\" tx off tso off gso off gro off > /dev/null 2>&1 || true; }\n\
            case $host in\n"
            .to_owned();
        for host in &self.hosts {
            self.commands_of(&mut text, host);
        }
        text += "*)\n  echo \"usage: sh hosts.sh HOST [INTERFACE], with HOST one of:";
        for host in &self.hosts {
            text += " ";
            text += &host.name;
        }
        text += "\" >&2\n  exit 2\n  ;;\nesac\n";
        text
    }

    fn commands_of(&self, text: &mut String, host: &FileHost) {
        line(text, format_args!("{})", host.name));
        line(text, format_args!("  dev=${{2:-{}}}", host.interface));
        if let Some(vlan) = host.vlan {
            line(
                text,
                format_args!(
                    "  ip link show dev \"$dev.{vlan}\" > /dev/null 2>&1 || ip link add link \"$dev\" name \"$dev.{vlan}\" type vlan id {vlan}"
                ),
            );
            line(text, "  ip link set dev \"$dev\" up");
            line(text, format_args!("  dev=$dev.{vlan}"));
        }
        if let (true, Some(mac)) = (host.takes_mac, host.mac) {
            line(
                text,
                format_args!("  ip link set dev \"$dev\" address {mac}"),
            );
        }
        line(
            text,
            format_args!("  ip link set dev \"$dev\" mtu {} up", self.mtu),
        );
        line(text, "  offloads \"$dev\"");
        for address in &host.addresses {
            let (family, more) = match address.address {
                IpAddr::V4(_) => ("-4", ""),
                IpAddr::V6(_) => ("-6", " nodad"),
            };
            line(
                text,
                format_args!(
                    "  ip {family} address replace {}/{} dev \"$dev\"{more}",
                    address.address, address.length
                ),
            );
            let is_v6 = address.address.is_ipv6();
            for prefix in self
                .prefixes
                .iter()
                .filter(|prefix| prefix.contains(':') == is_v6)
            {
                line(
                    text,
                    format_args!(
                        "  ip {family} route replace {prefix} via {} dev \"$dev\"",
                        address.gateway
                    ),
                );
            }
        }
        line(text, "  ;;");
    }

    /// One line per cable: both ends (node, port, device), rate, VLAN, with tabs between.
    fn cable_list(&self) -> String {
        let mut text =
            "# node\tport\tdevice\tpeer\tpeer-port\tpeer-device\trate\tvlan\n".to_owned();
        for Cable { a, b, rate, vlan } in &self.cables {
            let vlan = vlan.map_or("-".to_owned(), |vlan| vlan.to_string());
            line(
                &mut text,
                format_args!("{}\t{}\t{rate}\t{vlan}", end(a), end(b)),
            );
        }
        text
    }
}

fn end(end: &CableEnd) -> String {
    let device = end.device.as_deref().unwrap_or("-");
    format!("{}\t{}\t{device}", end.node, end.port)
}

fn line(text: &mut String, line: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}
