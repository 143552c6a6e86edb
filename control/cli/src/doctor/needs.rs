//! What the switches of some files need of a machine; without files, what any switch does.

use config::{Device, Memory, SwitchSet};

/// Needs of a process of switches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Needs {
    /// Whether ordinary pages will not do: MiB of hugepages.
    pub(crate) hugepages_mib: Option<u64>,
    /// PCI addresses.
    pub(crate) pci: Vec<String>,
    /// Interfaces by which NICs are named.
    pub(crate) nics: Vec<String>,
    /// Interfaces of the kernel, and the devices that are on them.
    pub(crate) interfaces: Vec<(String, String)>,
    /// CPUs that are listed.
    pub(crate) cpus: Vec<u32>,
}

impl Needs {
    pub(crate) fn of(set: &SwitchSet) -> Needs {
        let mut needs = Needs {
            cpus: set.eal.cpus.iter().map(|&cpu| u32::from(cpu)).collect(),
            ..Needs::default()
        };
        for shared in &set.devices {
            let name = shared.device.name().to_owned();
            match &shared.device {
                Device::Pci(_) => needs.pci.push(name),
                Device::Interface(_) => {
                    let interface = shared.device.interface().unwrap_or_default();
                    needs.nics.push(interface.to_owned());
                }
                Device::Vdev(text) => {
                    // Those that are on an interface that must be there; a tap makes its own.
                    let is_of_kernel =
                        name.starts_with("net_af_packet") || name.starts_with("net_af_xdp");
                    let interface = text.split(',').find_map(|part| part.strip_prefix("iface="));
                    if let (true, Some(interface)) = (is_of_kernel, interface) {
                        needs.interfaces.push((interface.to_owned(), name));
                    }
                }
            }
        }
        if set.eal.memory == Memory::Hugepages {
            needs.hugepages_mib = Some(set.eal.size.bytes() >> 20);
        }
        needs
    }
}
