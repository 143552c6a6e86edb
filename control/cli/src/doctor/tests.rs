//! Tests of the doctor on machines that are folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::preflight;

/// A machine of two nodes, with a NIC of the kernel's, one of vfio-pci and one that shares.
fn machine(root: &Path) -> Machine {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "proc/self/status",
        "Name:\tx\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-1,4\n",
    );
    write(
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n\
         Max open files            256                  4096                 files\n\
         Max locked memory         8388608              8388608              bytes\n",
    );
    write("sys/devices/system/cpu/isolated", "\n");
    write(
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "powersave\n",
    );
    for (node, total) in [(0, 512), (1, 0)] {
        let folder = format!("sys/devices/system/node/node{node}/hugepages/hugepages-2048kB");
        write(&format!("{folder}/nr_hugepages"), &format!("{total}\n"));
        write(
            &format!("{folder}/free_hugepages"),
            &format!("{}\n", total / 2),
        );
    }
    for (slot, driver) in [
        ("03", "ixgbe"),
        ("04", "vfio-pci"),
        ("05", "mlx5_core"),
        ("06", ""),
    ] {
        let folder = format!("sys/bus/pci/devices/0000:{slot}:00.0");
        write(&format!("{folder}/class"), "0x020000\n");
        write(&format!("{folder}/vendor"), "0x8086\n");
        write(&format!("{folder}/device"), "0x10fb\n");
        write(&format!("{folder}/numa_node"), "1\n");
        if !driver.is_empty() {
            fs::create_dir_all(root.join("sys/bus/pci/drivers").join(driver)).unwrap();
            symlink(
                format!("../../drivers/{driver}"),
                root.join(&folder).join("driver"),
            )
            .unwrap();
        }
        if driver == "ixgbe" {
            write(&format!("{folder}/net/eth3/flags"), "0x1003\n");
        }
    }
    for (interface, slot) in [("eth3", "03"), ("eth5", "05")] {
        let folder = root.join("sys/class/net").join(interface);
        fs::create_dir_all(&folder).unwrap();
        symlink(format!("../../../0000:{slot}:00.0"), folder.join("device")).unwrap();
    }
    write("sys/class/net/up0/flags", "0x1003\n");
    write("sys/class/net/up1/flags", "0x1002\n");
    Machine::at(root)
}

fn needs() -> Needs {
    Needs {
        hugepages_mib: Some(2048),
        pci: vec!["0000:04:00.0".into(), "0000:03:00.0".into()],
        interfaces: vec![
            ("up0".into(), "net_af_packet0".into()),
            ("up1".into(), "net_af_packet1".into()),
        ],
        nics: vec!["eth5".into()],
        cpus: vec![1, 3],
    }
}

/// Goal: everything that is looked at is told, with what to do where something is wrong.
#[test]
fn a_machine_is_described() {
    let folder = tempfile::tempdir().unwrap();
    let machine = machine(folder.path());
    insta::assert_snapshot!("any", table(&checks::all(&machine, &Needs::default())));
    insta::assert_snapshot!("for_switches", table(&checks::all(&machine, &needs())));
    let empty = tempfile::tempdir().unwrap();
    let bare = Machine::at(empty.path());
    insta::assert_snapshot!("bare", table(&checks::all(&bare, &Needs::default())));
    let lost = checks::dpdk(Err("spraycheckd is nowhere".into()));
    assert_eq!(lost.state, State::Missing);
}

/// Goal: a device that cannot be taken is refused with the reason that DPDK does not give.
#[test]
fn devices_that_cannot_be_taken_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let machine = machine(folder.path());
    for (address, found) in [
        (
            "0000:03:00.0",
            "0000:03:00.0 is driven by the kernel's ixgbe (interface eth3)",
        ),
        ("06:00.0", "0000:06:00.0 has no driver"),
        ("0000:09:00.0", "there is no PCI device 0000:09:00.0"),
    ] {
        let (said, cure) = preflight::pci(&machine, address).unwrap_err();
        assert!(said.starts_with(found), "{said}");
        assert!(!cure.is_empty());
    }
    for address in ["04:00.0", "0000:05:00.0"] {
        let nic = preflight::pci(&machine, address).unwrap();
        assert!(nic.address.ends_with(address), "{nic:?}");
    }
    for (interface, found) in [
        ("eth3", "interface eth3 is driven by ixgbe"),
        ("up0", "interface up0 is of no NIC"),
        ("eth9", "there is no interface eth9"),
    ] {
        let (said, cure) = preflight::shared(&machine, interface).unwrap_err();
        assert!(said.starts_with(found) && !cure.is_empty(), "{said}");
    }
    let nic = preflight::shared(&machine, "eth5").unwrap();
    assert_eq!(nic.address, "0000:05:00.0");
    let group = folder
        .path()
        .join("sys/bus/pci/devices/0000:04:00.0/iommu_group");
    symlink("../../../kernel/iommu_groups/17", group).unwrap();
    let (said, _) = preflight::pci(&machine, "04:00.0").unwrap_err();
    assert!(said.contains("dev/vfio/17"), "{said}");
    assert_eq!(
        preflight::interface(&machine, "up0", "net_af_packet0"),
        Ok(())
    );
    for (name, found) in [
        ("up1", "is on interface up1, which is down"),
        ("up2", "which is not there"),
    ] {
        let (said, _) = preflight::interface(&machine, name, "net_af_packet0").unwrap_err();
        assert!(said.contains(found), "{said}");
    }
}

/// Goal: lists of CPUs are read as the kernel writes them.
#[test]
fn cpu_lists_are_read() {
    for (text, cpus) in [("0-3,8", vec![0, 1, 2, 3, 8]), ("5", vec![5]), ("", vec![])] {
        assert_eq!(Machine::cpu_list(text), cpus, "{text}");
    }
}
