//! What a port is made of, as DPDK names it.

use std::fmt;

/// Longest name of a device that DPDK takes, its end included (RTE_ETH_NAME_MAX_LEN).
const NAME_MAX: usize = 64;

/// A device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Device {
    /// A NIC by its PCI address, such as `0000:03:00.0`, with driver arguments if any.
    Pci(String),
    /// A virtual device with its arguments, such as `net_null0,size=64`.
    Vdev(String),
}

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
             0000:03:00.0 or net_tap0,iface=tap0"
        ))
    }

    /// Its name without arguments.
    pub fn name(&self) -> &str {
        let (Device::Pci(text) | Device::Vdev(text)) = self;
        text.split(',').next().unwrap_or_default()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Device::Pci(text) | Device::Vdev(text)) = self;
        f.write_str(text)
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
}
