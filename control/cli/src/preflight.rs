//! Before a switch starts: its devices are there, can be taken by DPDK, and nobody else has them.
//!
//! EAL says of a device that it cannot take no more than that it is not there. What the kernel knows of
//! it says why, and what to do.

use std::fs::OpenOptions;

use config::SwitchSet;

use crate::doctor::Needs;
use crate::failure::{ENVIRONMENT, Failure};
use crate::machine::{Machine, Nic, SHARING_DRIVERS};

/// What is wrong, and what to do.
type Lack = (String, String);

/// Checks all devices of a process of switches.
///
/// # Errors
/// The first that cannot be used: exit status 3.
pub(crate) fn check(set: &SwitchSet) -> Result<(), Failure> {
    let (machine, needs) = (Machine::this(), Needs::of(set));
    let failure = |(found, cure): Lack| Failure::new(ENVIRONMENT, format!("{found}; {cure}"));
    for address in &needs.pci {
        pci(&machine, address).map_err(failure)?;
    }
    for interface in &needs.nics {
        shared(&machine, interface).map_err(failure)?;
    }
    for (name, device) in &needs.interfaces {
        interface(&machine, name, device).map_err(failure)?;
    }
    Ok(())
}

/// A NIC: there, with a driver that DPDK works with, and free.
pub(crate) fn pci(machine: &Machine, address: &str) -> Result<Nic, Lack> {
    let Some(nic) = machine.nic(address) else {
        return Err((
            format!("there is no PCI device {address}"),
            "see `spraycheck doctor` for those that are there, and mend the port's device".into(),
        ));
    };
    let bind = format!(
        "bind it: scripts/bind-ports {} (as root; it leaves an interface that carries this machine's \
         own traffic alone)",
        nic.address
    );
    match nic.driver.as_deref() {
        None => return Err((format!("{} has no driver", nic.address), bind)),
        Some(driver) if !nic.is_usable() => {
            let whose = match nic.interfaces.first() {
                Some(interface) => format!("the kernel's {driver} (interface {interface})"),
                None => driver.to_owned(),
            };
            return Err((
                format!(
                    "{} is driven by {whose}, not by one that DPDK works with",
                    nic.address
                ),
                bind,
            ));
        }
        Some(driver) if SHARING_DRIVERS.contains(&driver) => return Ok(nic),
        Some(_) => {}
    }
    if let Some(group) = &nic.iommu_group {
        let path = machine.path(&format!("dev/vfio/{group}"));
        // The kernel lets one process at a time open a group.
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        if let Err(error) = opened {
            let (found, cure) = match error.kind() {
                std::io::ErrorKind::ResourceBusy => (
                    format!(
                        "{} is in use by another process (IOMMU group {group})",
                        nic.address
                    ),
                    "stop that process (fuser -v /dev/vfio/*), or choose another device".to_owned(),
                ),
                std::io::ErrorKind::PermissionDenied => (
                    format!(
                        "{} may not be opened by this user ({})",
                        nic.address,
                        path.display()
                    ),
                    "run as root, or chown that file to this user".to_owned(),
                ),
                _ => (
                    format!("{}: {}: {error}", nic.address, path.display()),
                    bind,
                ),
            };
            return Err((found, cure));
        }
    }
    Ok(nic)
}

/// A NIC by its interface: there, and with a driver that stays while DPDK works beside it.
pub(crate) fn shared(machine: &Machine, interface: &str) -> Result<Nic, Lack> {
    if !machine.is_there(&format!("sys/class/net/{interface}")) {
        return Err((
            format!("there is no interface {interface}"),
            "see `ip link`, start in the network namespace that has it (ip netns exec), or mend the \
             port's device"
                .into(),
        ));
    }
    let Some(nic) = machine.nic_of(interface) else {
        return Err((
            format!("interface {interface} is of no NIC on the PCI bus"),
            format!("net_af_packet0,iface={interface} takes any interface, slowly"),
        ));
    };
    let driver = nic.driver.as_deref().unwrap_or_default();
    if SHARING_DRIVERS.contains(&driver) {
        return Ok(nic);
    }
    Err((
        format!("interface {interface} is driven by {driver}, beside which DPDK cannot work"),
        format!(
            "bind the NIC (scripts/bind-ports {0}) and write device = \"{0}\"",
            nic.address
        ),
    ))
}

/// An interface of the kernel that a virtual device is on: there, and up.
pub(crate) fn interface(machine: &Machine, name: &str, device: &str) -> Result<(), Lack> {
    let folder = format!("sys/class/net/{name}");
    if !machine.is_there(&folder) {
        return Err((
            format!("{device} is on interface {name}, which is not there"),
            "create it, start in the network namespace that has it (ip netns exec), or mend iface= of \
             the port's device"
                .into(),
        ));
    }
    let flags = machine.text(&format!("{folder}/flags")).unwrap_or_default();
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(1);
    // IFF_UP.
    if flags & 1 == 0 {
        return Err((
            format!("{device} is on interface {name}, which is down"),
            format!("ip link set dev {name} up"),
        ));
    }
    Ok(())
}
