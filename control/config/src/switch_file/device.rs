//! What a port is made of, as DPDK names it.

use std::fmt;
use std::path::Path;

/// Longest name of a device that DPDK takes, its end included (RTE_ETH_NAME_MAX_LEN).
const NAME_MAX: usize = 64;

/// A device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Device {
    /// A NIC by its PCI address, such as `0000:03:00.0`, with driver arguments if any.
    Pci(String),
    /// A NIC by its interface, such as `iface=enp4s0`, with driver arguments if any: one whose kernel
    /// driver stays while DPDK works beside it.
    Interface(String),
    /// A virtual device with its arguments, such as `net_null0,size=64`.
    Vdev(String),
}

/// What an interface's device begins with.
const IFACE: &str = "iface=";
/// Longest name of an interface, its end included (IFNAMSIZ).
const IFACE_MAX: usize = 16;

impl Device {
    /// Reads a device, or says what is wrong with it and what to write.
    pub(super) fn read(text: &str) -> Result<Device, String> {
        let name = text.split(',').next().unwrap_or_default();
        if name.len() >= NAME_MAX {
            return Err(format!(
                "\"{name}\" is too long for DPDK; use fewer than {NAME_MAX} bytes"
            ));
        }
        if is_pci(name) {
            return Ok(Device::Pci(text.to_owned()));
        }
        if let Some(interface) = name.strip_prefix(IFACE) {
            let is_plain = |c: char| c.is_ascii_graphic() && !"/:,".contains(c);
            let is_one = !interface.is_empty()
                && interface.len() < IFACE_MAX
                && !interface.starts_with('.')
                && interface.chars().all(is_plain);
            return match is_one {
                true => Ok(Device::Interface(text.to_owned())),
                false => Err(format!("\"{interface}\" cannot name an interface")),
            };
        }
        // DPDK finds the driver by the name's beginning, the rest tells instances apart.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name
            .strip_prefix("net_")
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(is_plain))
        {
            return Ok(Device::Vdev(text.to_owned()));
        }
        Err(format!(
            "\"{text}\" is neither a PCI address nor a virtual device; write it like \
             0000:03:00.0, net_tap0,iface=tap0, or iface=enp4s0 for a NIC that DPDK shares with the kernel"
        ))
    }

    /// As it is written.
    fn text(&self) -> &str {
        let (Device::Pci(text) | Device::Interface(text) | Device::Vdev(text)) = self;
        text
    }

    /// Its name without arguments.
    pub fn name(&self) -> &str {
        self.text().split(',').next().unwrap_or_default()
    }

    /// The interface by which it is named, if it is.
    pub fn interface(&self) -> Option<&str> {
        self.name().strip_prefix(IFACE)
    }

    /// As DPDK is told of it: an interface's NIC by its PCI address, which the machine whose root is `root`
    /// knows.
    ///
    /// # Errors
    /// The interface, if there is none, or none of a NIC on the PCI bus.
    pub fn on_bus(&self, root: &Path) -> Result<Device, String> {
        let Device::Interface(text) = self else {
            return Ok(self.clone());
        };
        let interface = self.interface().unwrap_or_default();
        let link = root.join("sys/class/net").join(interface).join("device");
        let target = std::fs::read_link(link).ok();
        let address = target.as_deref().and_then(Path::file_name);
        match address.and_then(|address| address.to_str()) {
            Some(address) if is_pci(address) => {
                let arguments = &text[self.name().len()..];
                Ok(Device::Pci(format!("{address}{arguments}")))
            }
            _ => Err(interface.to_owned()),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// `DDDD:BB:DD.F`, or without the domain.
fn is_pci(name: &str) -> bool {
    let shapes = ["xxxx:xx:xx.x", "xx:xx.x"];
    shapes.iter().any(|shape| {
        shape.len() == name.len()
            && shape
                .bytes()
                .zip(name.bytes())
                .all(|(want, is)| match want {
                    b'x' => is.is_ascii_hexdigit(),
                    _ => is == want,
                })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what DPDK can take is told by kind, everything else is refused.
    #[test]
    fn devices_are_told_apart() {
        for (text, is_pci) in [
            ("0000:03:00.0", true),
            ("03:00.1,mprq_en=1", true),
            ("iface=enp4s0f0np0,mprq_en=1", false),
            ("net_null0", false),
            ("net_pcap0,rx_pcap=a.pcap", false),
            ("net_af_packet1,iface=eth0", false),
        ] {
            let device = Device::read(text).unwrap();
            assert_eq!(matches!(device, Device::Pci(_)), is_pci, "{text}");
            assert_eq!(device.to_string(), text);
        }
        for wrong in [
            "",
            "eth0",
            "net_",
            "iface=",
            "iface=../x",
            "iface=longer-than-15-bytes",
            "0000:03:00",
            "03:00:0",
            "net_a b",
            &"net_".repeat(20),
        ] {
            assert!(
                Device::read(wrong).is_err(),
                "\"{wrong}\" was taken for a device"
            );
        }
    }

    /// Goal: an interface's NIC is found on the bus, with its arguments; what is no NIC is named.
    #[test]
    fn interfaces_lead_to_their_nics() {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("sys/class/net");
        std::fs::create_dir_all(net.join("enp4s0")).unwrap();
        std::fs::create_dir_all(net.join("veth0")).unwrap();
        std::os::unix::fs::symlink("../../../0000:04:00.0", net.join("enp4s0/device")).unwrap();
        let read = |text: &str| Device::read(text).unwrap();
        let device = read("iface=enp4s0,mprq_en=1");
        assert_eq!(
            (device.name(), device.interface()),
            ("iface=enp4s0", Some("enp4s0"))
        );
        let found = device.on_bus(root.path());
        assert_eq!(found, Ok(Device::Pci("0000:04:00.0,mprq_en=1".into())));
        for missing in ["veth0", "enp5s0"] {
            let device = read(&format!("iface={missing}"));
            assert_eq!(device.on_bus(root.path()), Err(missing.into()));
        }
        let other = read("net_tap0,iface=tap0");
        assert_eq!(
            (other.interface(), other.on_bus(root.path())),
            (None, Ok(other.clone()))
        );
    }
}
