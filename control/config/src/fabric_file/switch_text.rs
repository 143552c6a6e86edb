//! The file of one switch, as text, and where each of its keys comes from.

use std::fmt::{self, Write as _};

use toml::{Table, Value};

use super::Origins;
use super::devices::Names;
use super::plan::{Place, Plan};
use super::ports::Port;
use crate::error::ConfigError;
use crate::switch_file::Device;

/// A text of TOML.
#[derive(Default)]
struct Text(String);

impl Text {
    /// A line as it is.
    fn line(&mut self, line: impl fmt::Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{line}");
    }

    /// A key whose value is a text.
    fn text(&mut self, key: &str, value: impl fmt::Display) {
        self.line(format_args!("{key} = {}", Value::String(value.to_string())));
    }

    /// A key whose value is written as it is shown.
    fn plain(&mut self, key: &str, value: impl fmt::Display) {
        self.line(format_args!("{key} = {value}"));
    }

    /// A table with what is in it.
    fn part(&mut self, name: &str, table: Table) {
        let mut whole = Table::new();
        whole.insert(name.to_owned(), Value::Table(table));
        // A table of values that were read from TOML can be written as such.
        self.line(format_args!("\n{}", whole.to_string().trim_end()));
    }
}

impl Plan<'_> {
    /// The file of the switch at a place, and the origins of its keys.
    pub(super) fn switch_text(&self, place: Place) -> Result<(String, Origins), ConfigError> {
        let role = place.to_string();
        let (mut text, mut origins) = (Text::default(), Origins::new());
        text.line(format_args!(
            "# {role}: written by `spraycheck generate`; what is changed here is lost when it runs again."
        ));
        match self.name.as_str() {
            "" => text.text("name", &role),
            name => text.text("name", format_args!("{name}-{role}")),
        }
        text.text("role", &role);
        text.plain("seed", self.raw.seed.unwrap_or(1));
        self.size(&mut text);
        text.part("gateway", self.gateway(place));
        origins.insert("gateway.addresses".to_owned(), "addressing".to_owned());
        let mut devices = Vec::new();
        for (index, port) in self.ports(place).iter().enumerate() {
            devices.extend(self.port(&mut text, &mut origins, &role, index, port)?);
        }
        self.devices(&mut text, &mut origins, &devices);
        self.routes(&mut text, place);
        for part in ["spray", "queue", "measurement"] {
            if let Some(Value::Table(table)) = self.passed.get(part) {
                text.part(part, table.clone());
            }
        }
        self.metrics(&mut text, &mut origins, &role);
        text.part("eal", self.eal(&mut origins, &role));
        Ok((text.0, origins))
    }

    fn size(&self, text: &mut Text) {
        let size = &self.raw.fabric;
        text.line("\n[fabric]");
        text.plain("leaves", size.leaves);
        text.plain("spines", size.spines);
        if let Some(port) = size.message_port {
            text.plain("message_port", port);
        }
        if let Some(time) = &size.link_state {
            text.text("link_state", time);
        }
        if let Some(time) = size.hold_down {
            text.text("hold_down", time);
        }
    }

    fn gateway(&self, place: Place) -> Table {
        let own = self.subnets.iter().map(|family| match place {
            Place::Leaf(leaf) => family.gateway(leaf),
            Place::Spine(spine) => family.spine(spine),
        });
        let own = own.map(|address| Value::String(address.to_string()));
        let mut table = Table::new();
        table.insert("addresses".to_owned(), Value::Array(own.collect()));
        if let Some(Value::Table(more)) = self.passed.get("gateway") {
            table.extend(more.clone());
        }
        table
    }

    /// One port; returns its device.
    fn port(
        &self,
        text: &mut Text,
        origins: &mut Origins,
        role: &str,
        index: usize,
        port: &Port<'_>,
    ) -> Result<Option<String>, ConfigError> {
        let mut from = |field: &str, origin: &str| {
            origins.insert(format!("port[{index}].{field}"), origin.to_owned());
        };
        let names = Names {
            switch: role,
            port: &port.name,
            leaf: port.leaf,
            spine: port.spine,
            host: port.host.map(|(n, _)| n),
        };
        let (device, device_key) = self.device(port.kind, names)?;
        let is_host = port.host.is_some();
        from("device", &device_key);
        from(
            "vlan",
            if is_host {
                "ports.host_vlan"
            } else {
                "ports.vlan"
            },
        );
        let host_rate = is_host && self.raw.links.host_rate.is_some();
        from(
            "rate",
            if host_rate {
                "links.host_rate"
            } else {
                "links.rate"
            },
        );
        from("mtu", "links.mtu");
        text.line("\n[[port]]");
        text.text("name", &port.name);
        text.text("kind", port.kind);
        text.text("mac", port.mac);
        if let Some((peer, peer_mac)) = &port.peer {
            text.text("peer", peer);
            text.text("peer_mac", peer_mac);
        }
        if let Some(device) = &device {
            text.text("device", device);
        }
        if let Some(vlan) = port.vlan {
            text.plain("vlan", vlan);
        }
        text.text("rate", port.rate);
        text.plain("mtu", self.mtu);
        if let Some((_, host)) = port.host {
            let part = self.raw.host.iter().position(|part| part.name == host.name);
            let origin = |field: &str| match part {
                Some(part) => format!("host[{part}].{field}"),
                None => "addressing".to_owned(),
            };
            text.line("hosts = [");
            for (place, address) in host.addresses.iter().enumerate() {
                let mac = host.mac.map(|mac| format!(", mac = \"{mac}\""));
                let (address, mac) = (address.address, mac.unwrap_or_default());
                text.line(format_args!("    {{ address = \"{address}\"{mac} }},"));
                from(
                    &format!("hosts[{place}].address"),
                    &origin(&format!("addresses[{place}]")),
                );
                from(&format!("hosts[{place}].mac"), &origin("mac"));
            }
            text.line("]");
        }
        let own = self
            .faults
            .iter()
            .filter(|fault| Some(fault.link) == port.link);
        let own: Vec<_> = own.collect();
        for (place, fault) in own.iter().enumerate() {
            from(&format!("faults[{place}]"), &fault.key);
        }
        if !own.is_empty() {
            let specs = own.iter().map(|fault| Value::String(fault.spec.clone()));
            text.plain("faults", Value::Array(specs.collect()));
        }
        Ok(device)
    }

    /// What is said of devices, where a port is on them.
    fn devices(&self, text: &mut Text, origins: &mut Origins, devices: &[String]) {
        let name_of = |text: &str| text.split(',').next().unwrap_or_default().to_owned();
        let mut place = 0;
        for (index, part) in self.raw.device.iter().enumerate() {
            let name = name_of(&part.name);
            if !devices.iter().any(|device| name_of(device) == name) {
                continue;
            }
            origins.insert(format!("device[{place}]"), format!("device[{index}]"));
            place += 1;
            text.line("\n[[device]]");
            text.text("name", &name);
            if let Some(rate) = part.rate {
                text.text("rate", rate);
            }
            if let Some(lcore) = part.lcore {
                text.plain("lcore", lcore);
            }
        }
    }

    /// The ways to all hosts, and from leaves to the spines' own addresses.
    fn routes(&self, text: &mut Text, place: Place) {
        let mut route = |prefix: String, to: &str, name: String| {
            text.line("\n[[route]]");
            text.text("prefix", prefix);
            text.text(to, name);
        };
        for family in &self.subnets {
            for leaf in 0..self.raw.fabric.leaves {
                if place != Place::Leaf(leaf) {
                    route(family.leaf(leaf), "leaf", format!("leaf{leaf}"));
                }
            }
            if let Place::Leaf(_) = place {
                for spine in 0..self.raw.fabric.spines {
                    let own = format!("{}/{}", family.spine(spine), family.full_length());
                    route(own, "spine", format!("spine{spine}"));
                }
            }
        }
    }

    /// Where its metrics are: what is said of it alone goes over what is said of all.
    fn metrics(&self, text: &mut Text, origins: &mut Origins, role: &str) {
        let own = self.raw.switch.iter().position(|part| part.name == role);
        let own = own.and_then(|index| {
            let listen = self.raw.switch[index].metrics.as_ref()?.listen.as_ref()?;
            Some((listen, format!("switch[{index}].metrics.listen")))
        });
        let all = || {
            let listen = self.raw.metrics.listen.as_ref()?;
            Some((listen, "metrics.listen".to_owned()))
        };
        if let Some((listen, origin)) = own.or_else(all) {
            origins.insert("metrics.listen".to_owned(), origin);
            text.line("\n[metrics]");
            text.text("listen", listen);
        }
    }

    /// `[eal]`, with what this switch has otherwise over what all have.
    fn eal(&self, origins: &mut Origins, role: &str) -> Table {
        let part = |table: &Table| match table.get("eal") {
            Some(Value::Table(table)) => table.clone(),
            _ => Table::new(),
        };
        let mut eal = part(self.passed);
        let own = self.raw.switch.iter().position(|part| part.name == role);
        if let (Some(index), Some(Value::Array(all))) = (own, self.passed.get("switch"))
            && let Some(Value::Table(own)) = all.get(index)
        {
            for (key, value) in part(own) {
                origins.insert(format!("eal.{key}"), format!("switch[{index}].eal.{key}"));
                eal.insert(key, value);
            }
        }
        eal
    }

    /// A device that is described and that no port is on.
    pub(super) fn check_devices(&self, used: &[&Device]) -> Result<(), ConfigError> {
        for (index, part) in self.raw.device.iter().enumerate() {
            let name = part.name.split(',').next().unwrap_or_default();
            if !used.iter().any(|device| device.name() == name) {
                let message = format!("no port is on {name}; name the device of a port");
                return Err(ConfigError::new(format!("device[{index}].name"), message));
            }
        }
        Ok(())
    }
}
