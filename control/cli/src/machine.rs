//! What the kernel says of this machine in /proc and /sys, as far as DPDK cares. Everything is read
//! below a root, so that tests can say what a machine is like.

use std::fs;
use std::path::PathBuf;

/// A machine, at `/` or below a test's folder.
pub(crate) struct Machine(PathBuf);

/// Hugepages of one size on one NUMA node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hugepages {
    pub(crate) node: u32,
    pub(crate) page_kib: u64,
    pub(crate) total: u64,
    pub(crate) free: u64,
}

/// A network device on the PCI bus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Nic {
    /// `0000:03:00.0`
    pub(crate) address: String,
    /// Vendor and device, `15b3:1017`.
    pub(crate) id: String,
    pub(crate) driver: Option<String>,
    /// The kernel's interfaces on it.
    pub(crate) interfaces: Vec<String>,
    /// `None` where the machine does not say.
    pub(crate) node: Option<u32>,
    pub(crate) iommu_group: Option<String>,
}

impl Machine {
    /// This one.
    pub(crate) fn this() -> Machine {
        Machine(PathBuf::from("/"))
    }

    #[cfg(test)]
    pub(crate) fn at(root: &std::path::Path) -> Machine {
        Machine(root.to_owned())
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// The content of a file, without the newline at its end.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(path)).ok()?;
        Some(text.trim_end().to_owned())
    }

    pub(crate) fn is_there(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The names in a folder, sorted.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        names
    }

    /// The last part of where a link leads.
    fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// NUMA nodes; 0 alone where the kernel has no notion of them.
    pub(crate) fn nodes(&self) -> Vec<u32> {
        let names = self.names("sys/devices/system/node");
        let nodes = names
            .iter()
            .filter_map(|name| name.strip_prefix("node")?.parse().ok());
        let nodes: Vec<u32> = nodes.collect();
        if nodes.is_empty() { vec![0] } else { nodes }
    }

    /// Hugepages of every size and node, those that there are none of included.
    pub(crate) fn hugepages(&self) -> Vec<Hugepages> {
        let mut all = Vec::new();
        for node in self.nodes() {
            let folder = format!("sys/devices/system/node/node{node}/hugepages");
            for name in self.names(&folder) {
                let size = name
                    .strip_prefix("hugepages-")
                    .and_then(|s| s.strip_suffix("kB"));
                let Some(page_kib) = size.and_then(|size| size.parse().ok()) else {
                    continue;
                };
                let count = |which: &str| {
                    let text = self.text(&format!("{folder}/{name}/{which}"));
                    text.and_then(|text| text.parse().ok()).unwrap_or(0)
                };
                all.push(Hugepages {
                    node,
                    page_kib,
                    total: count("nr_hugepages"),
                    free: count("free_hugepages"),
                });
            }
        }
        all
    }

    /// Network devices on the PCI bus (class 02).
    pub(crate) fn nics(&self) -> Vec<Nic> {
        let names = self.names("sys/bus/pci/devices");
        let nics = names.iter().filter(|name| {
            let class = self.text(&format!("sys/bus/pci/devices/{name}/class"));
            class.is_some_and(|class| class.starts_with("0x02"))
        });
        nics.filter_map(|name| self.nic(name)).collect()
    }

    /// The PCI device at an address, with or without the domain; `None` if there is none.
    pub(crate) fn nic(&self, address: &str) -> Option<Nic> {
        let address = match address.matches(':').count() {
            1 => format!("0000:{address}"),
            _ => address.to_owned(),
        };
        let folder = format!("sys/bus/pci/devices/{}", address.to_lowercase());
        if !self.is_there(&folder) {
            return None;
        }
        let id = |which: &str| {
            let text = self.text(&format!("{folder}/{which}")).unwrap_or_default();
            text.trim_start_matches("0x").to_owned()
        };
        let node = self.text(&format!("{folder}/numa_node"));
        Some(Nic {
            id: format!("{}:{}", id("vendor"), id("device")),
            driver: self.link_name(&format!("{folder}/driver")),
            interfaces: self.names(&format!("{folder}/net")),
            // -1: the firmware says nothing.
            node: node.and_then(|node| node.parse().ok()),
            iommu_group: self.link_name(&format!("{folder}/iommu_group")),
            address: address.to_lowercase(),
        })
    }

    /// The NIC of an interface; `None` if it is of none on the PCI bus.
    pub(crate) fn nic_of(&self, interface: &str) -> Option<Nic> {
        let address = self.link_name(&format!("sys/class/net/{interface}/device"))?;
        self.nic(&address)
    }

    /// The value of a line `KEY: VALUE` of a file.
    pub(crate) fn field(&self, path: &str, key: &str) -> Option<String> {
        let text = self.text(path)?;
        let mut lines = text.lines();
        lines.find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
    }

    /// The CPUs of a list such as `0-3,8`.
    pub(crate) fn cpu_list(text: &str) -> Vec<u32> {
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>())
            {
                cpus.extend(first..=last);
            }
        }
        cpus
    }

    /// The CPUs that this process may use.
    pub(crate) fn allowed_cpus(&self) -> Vec<u32> {
        let list = self.field("proc/self/status", "Cpus_allowed_list");
        Machine::cpu_list(&list.unwrap_or_default())
    }
}

/// Drivers that a device has while DPDK drives it.
pub(crate) const DPDK_DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];
/// Drivers that stay, for DPDK works beside them (bifurcated).
pub(crate) const SHARING_DRIVERS: [&str; 3] = ["mlx5_core", "mlx4_core", "mana"];

impl Nic {
    /// Whether DPDK can take it as it is.
    pub(crate) fn is_usable(&self) -> bool {
        self.driver.as_deref().is_some_and(|driver| {
            DPDK_DRIVERS.contains(&driver) || SHARING_DRIVERS.contains(&driver)
        })
    }
}
