//! Which CPU each poll loop has, and which poll loop sends on each device.
//!
//! From configuration or, where that leaves it open, chosen: one CPU for each loop, control's own
//! beside them if there is one to spare, and devices spread over loops by their rates.

use config::{EalSpec, Idle, Lcores};

use crate::failure::Failure;
use crate::machine::Cpus;

/// A device as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The lcore that is configured to send on it.
    pub lcore: Option<u16>,
    /// What it can be asked to carry, in bits per second.
    pub rate_bps: u64,
}

/// Who runs where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The CPU of each poll loop.
    pub cpus: Vec<usize>,
    /// The poll loop of each device.
    pub owners: Vec<usize>,
    /// What is not as it should be, but works.
    pub warnings: Vec<String>,
}

/// Places the poll loops of a process on the CPUs that it may use.
///
/// # Errors
/// The environment's (exit status 3) when these are too few or not those that are listed.
pub fn place(cpus: &Cpus, eal: &EalSpec, devices: &[Wish]) -> Result<Placement, Failure> {
    let has = cpus.len();
    let least = devices.iter().filter_map(|device| device.lcore).max();
    let count = match eal.lcores {
        Lcores::Count(count) => usize::from(count),
        // One CPU is left to control if there are two.
        Lcores::Auto => devices.len().min(has.saturating_sub(1)).max(1),
    };
    if let Some(least) = least.map(usize::from).filter(|&least| least >= count) {
        return Err(Failure::environment(format!(
            "a device is to be sent on by lcore {least}, but eal.lcores = \"auto\" gives {count} on \
             the {has} CPUs that this process may use; give it more CPUs, or name a lower lcore"
        )));
    }
    let shares = eal.idle == Idle::Sleep;
    if count > has && !shares {
        return Err(Failure::environment(format!(
            "eal.lcores = {count} need {count} CPUs to poll on, and one more for control if there is \
             one; this process may use {has} ({cpus}): widen its CPU set (taskset, cpuset, \
             AllowedCPUs= of systemd), lower eal.lcores to {has}, or let lcores share CPUs with \
             eal.idle = \"sleep\""
        )));
    }
    let chosen: Vec<usize> = if eal.cpus.is_empty() {
        (0..count).map(|index| cpus.poll_of(index)).collect()
    } else {
        eal.cpus.iter().map(|&cpu| usize::from(cpu)).collect()
    };
    if let Some(cpu) = chosen.iter().find(|&&cpu| !cpus.has(cpu)) {
        return Err(Failure::environment(format!(
            "eal.cpus: this process may not use CPU {cpu}, only {has} ({cpus}); widen its CPU set \
             (taskset, cpuset, AllowedCPUs= of systemd), or list others"
        )));
    }
    let mut warnings = Vec::new();
    if !shares && chosen.contains(&cpus.control()) {
        warnings.push(format!(
            "control shares CPU {} with a poll loop, which both are the slower for; give the \
             process {} CPUs",
            cpus.control(),
            count + 1
        ));
    }
    Ok(Placement {
        owners: owners(devices, count),
        cpus: chosen,
        warnings,
    })
}

/// Each device's loop: the configured one, else the one with the least to carry so far; the fastest
/// devices are dealt first.
fn owners(devices: &[Wish], count: usize) -> Vec<usize> {
    let mut load = vec![0u128; count];
    let mut owners = vec![0; devices.len()];
    for (owner, device) in owners.iter_mut().zip(devices) {
        if let Some(lcore) = device.lcore {
            *owner = usize::from(lcore);
            load[*owner] += u128::from(device.rate_bps);
        }
    }
    let mut open: Vec<usize> = (0..devices.len())
        .filter(|&index| devices[index].lcore.is_none())
        .collect();
    open.sort_by_key(|&index| std::cmp::Reverse(devices[index].rate_bps));
    for index in open {
        let least = (0..count).min_by_key(|&lcore| load[lcore]).unwrap_or(0);
        owners[index] = least;
        load[least] += u128::from(devices[index].rate_bps);
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn eal(text: &str) -> EalSpec {
        let leaf = include_str!("../../../docs/examples/leaf0.toml");
        let (head, _) = leaf.split_once("[eal]").expect("the example has that part");
        let text = format!("{head}[eal]\n{text}");
        let spec = config::SwitchSpec::parse(Path::new("x"), &text);
        spec.expect("a right file").eal
    }

    fn wish(lcore: Option<u16>, gbps: u64) -> Wish {
        Wish {
            lcore,
            rate_bps: gbps * 1_000_000_000,
        }
    }

    /// Goal: devices are dealt by rate, around what is configured.
    #[test]
    fn devices_are_dealt_by_their_rates() {
        let cpus = Cpus::of(vec![0, 1, 2, 3]);
        let devices = [
            wish(None, 10),
            wish(None, 100),
            wish(Some(1), 40),
            wish(None, 40),
        ];
        let placed = place(&cpus, &eal("lcores = 2"), &devices).unwrap();
        assert_eq!((placed.cpus, placed.owners), (vec![3, 2], vec![1, 0, 1, 1]));
        assert_eq!(placed.warnings, Vec::<String>::new());
    }

    /// Goal: auto takes a CPU for each device and leaves one to control; a list is taken as it is.
    #[test]
    fn cpus_follow_the_configuration_and_the_cpu_set() {
        let cpus = Cpus::of(vec![2, 5, 6]);
        let devices = [wish(None, 10); 8];
        let placed = place(&cpus, &eal("lcores = \"auto\""), &devices).unwrap();
        assert_eq!(placed.cpus, [6, 5]);
        let placed = place(&cpus, &eal("lcores = \"auto\""), &devices[..1]).unwrap();
        assert_eq!(placed.cpus, [6]);
        let placed = place(&cpus, &eal("cpus = [5, 2]"), &devices).unwrap();
        assert_eq!(placed.cpus, [5, 2]);
        assert!(placed.warnings[0].contains("shares CPU 2"));
        let sleepy = eal("lcores = 4\nidle = \"sleep\"");
        let placed = place(&Cpus::of(vec![0, 1]), &sleepy, &devices).unwrap();
        assert_eq!(placed.cpus, [1, 0, 1, 0]);
    }

    /// Goal: too few CPUs, or others, are the environment's lack, told with numbers and cure.
    #[test]
    fn a_cpu_set_that_is_too_small_is_told() {
        let cpus = Cpus::of(vec![0, 1]);
        for (text, message) in [
            (
                "lcores = 3",
                "eal.lcores = 3 need 3 CPUs to poll on, and one more for control if there is one; \
                 this process may use 2 (0, 1): widen its CPU set",
            ),
            (
                "cpus = [1, 4]",
                "eal.cpus: this process may not use CPU 4, only 2 (0, 1)",
            ),
        ] {
            let failure = place(&cpus, &eal(text), &[wish(None, 1)]).unwrap_err();
            assert_eq!(failure.exit_code, 3);
            assert!(failure.message.starts_with(message), "{}", failure.message);
        }
        let far = [wish(Some(2), 1), wish(None, 1)];
        let failure = place(&cpus, &eal("lcores = \"auto\""), &far).unwrap_err();
        assert!(failure.message.contains("lcore 2"), "{}", failure.message);
    }
}
