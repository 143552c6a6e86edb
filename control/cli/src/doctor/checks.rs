//! The checks, one function each. Thresholds are those at which a switch does not start, or is known
//! to be slow.

use std::collections::BTreeMap;

use super::Finding;
use super::needs::Needs;
use crate::machine::{Machine, Nic};

/// Bits of capabilities (linux/capability.h).
const CAPABILITIES: [(u32, &str); 4] = [
    (12, "CAP_NET_ADMIN"),
    (13, "CAP_NET_RAW"),
    (14, "CAP_IPC_LOCK"),
    (21, "CAP_SYS_ADMIN"),
];
/// Open files that a switch needs: devices, queues, sockets, and some to spare.
const FILES_MIN: u64 = 1024;

/// All that need nothing but the machine.
pub(crate) fn all(machine: &Machine, needs: &Needs) -> Vec<Finding> {
    let mut findings = vec![
        cpus(machine, needs),
        isolated(machine),
        governor(machine),
        hugepages(machine, needs),
        numa(machine),
        iommu(machine, needs),
        driver(machine, needs),
    ];
    findings.extend(nics(machine, needs));
    findings.extend(interfaces(machine, needs));
    findings.push(locked_memory(machine, needs));
    findings.push(files(machine));
    findings.push(capabilities(machine));
    findings
}

/// The part that links DPDK: its release, or why there is none.
pub(crate) fn dpdk(version: Result<String, String>) -> Finding {
    match version {
        Ok(version) => Finding::ok("dpdk", version),
        Err(why) => Finding::missing(
            "dpdk",
            why,
            "install DPDK (scripts/packages) and build: cargo build --release -p spraycheck -p lcore",
        ),
    }
}

fn cpus(machine: &Machine, needs: &Needs) -> Finding {
    let allowed = machine.allowed_cpus();
    let foreign: Vec<String> = needs
        .cpus
        .iter()
        .filter(|cpu| !allowed.contains(cpu))
        .map(u32::to_string)
        .collect();
    let found = format!("{} that this process may use", allowed.len());
    if !foreign.is_empty() {
        let found = format!("{found}, without {} of eal.cpus", foreign.join(", "));
        return Finding::missing(
            "cpus",
            found,
            "widen its CPU set (taskset, cpuset, AllowedCPUs= of systemd), or list others",
        );
    }
    if allowed.len() < 2 {
        return Finding::warning(
            "cpus",
            found,
            "a poll loop takes one whole and control another; give it two, or set eal.idle = \"sleep\"",
        );
    }
    Finding::ok("cpus", found)
}

fn isolated(machine: &Machine) -> Finding {
    match machine.text("sys/devices/system/cpu/isolated") {
        Some(list) if !list.is_empty() => Finding::ok("isolated", format!("CPUs {list}")),
        _ => Finding::warning(
            "isolated",
            "no CPU is kept free of other work",
            "for steady latency add isolcpus=LIST nohz_full=LIST rcu_nocbs=LIST to the kernel's \
             command line, and list them in eal.cpus",
        ),
    }
}

fn governor(machine: &Machine) -> Finding {
    let mut governors: BTreeMap<String, usize> = BTreeMap::new();
    for cpu in machine.names("sys/devices/system/cpu") {
        let path = format!("sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor");
        if let Some(governor) = machine.text(&path) {
            *governors.entry(governor).or_default() += 1;
        }
    }
    if governors.is_empty() {
        return Finding::ok(
            "governor",
            "the machine does not change its frequency, or does not say",
        );
    }
    let found: Vec<String> = governors
        .iter()
        .map(|(name, count)| format!("{name} on {count}"))
        .collect();
    let found = found.join(", ");
    if governors.keys().all(|name| name == "performance") {
        Finding::ok("governor", found)
    } else {
        Finding::warning("governor", found, "cpupower frequency-set -g performance")
    }
}

fn hugepages(machine: &Machine, needs: &Needs) -> Finding {
    let all = machine.hugepages();
    let sum = |count: fn(&crate::machine::Hugepages) -> u64| {
        all.iter()
            .map(|pages| count(pages) * pages.page_kib)
            .sum::<u64>()
            >> 10
    };
    let (total_mib, free_mib) = (sum(|pages| pages.total), sum(|pages| pages.free));
    let found = format!("{free_mib} MiB free of {total_mib} MiB");
    let cure = |mib: u64| format!("scripts/hugepages {mib} (as root)");
    match needs.hugepages_mib {
        Some(need) if free_mib < need => Finding::missing(
            "hugepages",
            format!("{found}, {need} MiB needed"),
            format!(
                "{}, or set eal.memory = \"no-huge\" for virtual devices",
                cure(need)
            ),
        ),
        None if !needs.pci.is_empty() && free_mib == 0 => Finding::missing(
            "hugepages",
            format!("{found}, and NICs take their packets from them"),
            cure(1024),
        ),
        _ if total_mib == 0 => Finding::warning(
            "hugepages",
            found,
            format!(
                "NICs need them, virtual devices do without (eal.memory = \"no-huge\" or \"auto\"): {}",
                cure(1024)
            ),
        ),
        _ => Finding::ok("hugepages", found),
    }
}

fn numa(machine: &Machine) -> Finding {
    let nodes = machine.nodes();
    let pages = machine.hugepages();
    let bare = nodes.iter().filter(|node| {
        let of_node = pages.iter().filter(|pages| pages.node == **node);
        of_node.map(|pages| pages.total).sum::<u64>() == 0
    });
    let bare: Vec<String> = bare.map(u32::to_string).collect();
    let found = format!(
        "{} {}",
        nodes.len(),
        if nodes.len() == 1 { "node" } else { "nodes" }
    );
    if nodes.len() > 1 && !bare.is_empty() && bare.len() < nodes.len() {
        return Finding::warning(
            "numa",
            format!("{found}, no hugepages on {}", bare.join(", ")),
            "a device takes packets from its own node: scripts/hugepages MIB reserves on all",
        );
    }
    Finding::ok("numa", found)
}

fn iommu(machine: &Machine, needs: &Needs) -> Finding {
    let groups = machine.names("sys/kernel/iommu_groups").len();
    if groups > 0 {
        return Finding::ok("iommu", format!("on, {groups} groups"));
    }
    let unsafe_mode = machine.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    if unsafe_mode.as_deref() == Some("Y") {
        return Finding::warning(
            "iommu",
            "off; vfio works without (enable_unsafe_noiommu_mode), and a device may write anywhere",
            "turn it on in the firmware, and add intel_iommu=on (or amd_iommu=on) iommu=pt to the \
             kernel's command line",
        );
    }
    let shares = |address: &String| machine.nic(address).is_some_and(|nic| nic.is_usable());
    let cure = "turn it on in the firmware and add intel_iommu=on (or amd_iommu=on) iommu=pt to the \
                kernel's command line; in a VM without one: \
                echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    if needs.pci.iter().all(shares) {
        Finding::warning(
            "iommu",
            "off or hidden; vfio-pci needs it, virtual devices and mlx5 do not",
            cure,
        )
    } else {
        Finding::missing("iommu", "off or hidden, and vfio-pci needs it", cure)
    }
}

fn driver(machine: &Machine, needs: &Needs) -> Finding {
    let loaded: Vec<&str> = [
        ("vfio_pci", "vfio-pci"),
        ("uio_pci_generic", "uio_pci_generic"),
        ("mlx5_core", "mlx5_core"),
    ]
    .into_iter()
    .filter(|(module, driver)| {
        machine.is_there(&format!("sys/module/{module}"))
            || machine.is_there(&format!("sys/bus/pci/drivers/{driver}"))
    })
    .map(|(_, driver)| driver)
    .collect();
    if !loaded.is_empty() {
        return Finding::ok("driver", loaded.join(", "));
    }
    let found = "none of vfio-pci, uio_pci_generic, mlx5_core is loaded";
    let cure =
        "modprobe vfio-pci (the kernel's package linux-image-amd64 has it; -cloud- kernels do not)";
    if needs.pci.is_empty() {
        Finding::warning(
            "driver",
            format!("{found}; virtual devices need none"),
            cure,
        )
    } else {
        Finding::missing("driver", found, cure)
    }
}

/// Each NIC; those that are needed must be there and have the right driver.
fn nics(machine: &Machine, needs: &Needs) -> Vec<Finding> {
    let mut findings = Vec::new();
    for address in &needs.pci {
        findings.push(match crate::preflight::pci(machine, address) {
            Ok(nic) => Finding::ok("nic", describe(&nic)),
            Err((found, cure)) => Finding::missing("nic", found, cure),
        });
    }
    for interface in &needs.nics {
        findings.push(match crate::preflight::shared(machine, interface) {
            Ok(nic) => Finding::ok("nic", describe(&nic)),
            Err((found, cure)) => Finding::missing("nic", found, cure),
        });
    }
    if needs.pci.is_empty() && needs.nics.is_empty() {
        findings.extend(machine.nics().iter().map(|nic| {
            let found = describe(nic);
            if nic.is_usable() {
                return Finding::ok("nic", found);
            }
            let cure = format!("to use it: scripts/bind-ports {} (as root)", nic.address);
            Finding::warning("nic", found, cure)
        }));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            "nic",
            "none on the PCI bus; virtual devices need none",
        ));
    }
    findings
}

fn describe(nic: &Nic) -> String {
    let driver = nic.driver.as_deref().unwrap_or("no driver");
    let node = nic
        .node
        .map(|node| format!(", NUMA node {node}"))
        .unwrap_or_default();
    let interfaces = if nic.interfaces.is_empty() {
        String::new()
    } else {
        format!(", interface {}", nic.interfaces.join(", "))
    };
    format!("{} ({}) on {driver}{interfaces}{node}", nic.address, nic.id)
}

/// Interfaces that virtual devices are on.
fn interfaces(machine: &Machine, needs: &Needs) -> Vec<Finding> {
    let check = |(interface, device): &(String, String)| match crate::preflight::interface(
        machine, interface, device,
    ) {
        Ok(()) => Finding::ok("interface", format!("{interface}, of {device}")),
        Err((found, cure)) => Finding::missing("interface", found, cure),
    };
    needs.interfaces.iter().map(check).collect()
}

/// The soft limit of a line of /proc/self/limits; `None` is no limit.
fn limit(machine: &Machine, name: &str) -> Option<u64> {
    let text = machine.text("proc/self/limits")?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_whitespace().next()?.parse().ok()
}

fn locked_memory(machine: &Machine, needs: &Needs) -> Finding {
    let Some(bytes) = limit(machine, "Max locked memory") else {
        return Finding::ok("memlock", "no limit of locked memory");
    };
    let found = format!("{} MiB of memory may be locked", bytes >> 20);
    let has_lock = has_capability(machine, 14).unwrap_or(false);
    let cure = "ulimit -l unlimited, or LimitMEMLOCK=infinity of systemd";
    if has_lock {
        Finding::ok("memlock", format!("{found}, and CAP_IPC_LOCK goes over it"))
    } else if needs.pci.is_empty() {
        Finding::warning(
            "memlock",
            format!("{found}; vfio locks all packet memory"),
            cure,
        )
    } else {
        Finding::missing(
            "memlock",
            format!("{found}; vfio locks all packet memory"),
            cure,
        )
    }
}

fn files(machine: &Machine) -> Finding {
    match limit(machine, "Max open files") {
        Some(count) if count < FILES_MIN => Finding::warning(
            "files",
            format!("{count} may be open"),
            format!("ulimit -n {FILES_MIN}, or LimitNOFILE= of systemd"),
        ),
        Some(count) => Finding::ok("files", format!("{count} may be open")),
        None => Finding::ok("files", "no limit of open files"),
    }
}

fn has_capability(machine: &Machine, bit: u32) -> Option<bool> {
    let text = machine.field("proc/self/status", "CapEff")?;
    let set = u64::from_str_radix(&text, 16).ok()?;
    Some(set >> bit & 1 == 1)
}

fn capabilities(machine: &Machine) -> Finding {
    let lacking = CAPABILITIES
        .iter()
        .filter(|(bit, _)| has_capability(machine, *bit) == Some(false));
    let lacking: Vec<&str> = lacking.map(|(_, name)| *name).collect();
    if lacking.is_empty() {
        return Finding::ok("rights", "all that devices of any kind need");
    }
    Finding::warning(
        "rights",
        format!("without {}", lacking.join(", ")),
        "run as root, or with these capabilities: taps and AF_PACKET need the NET ones, physical \
         addresses SYS_ADMIN; net_null, net_ring and net_pcap on files need none",
    )
}
