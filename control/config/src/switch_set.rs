//! Several switches in one process, and the devices that they share.
//!
//! Each file is right by itself; here they are checked against each other, and the devices are
//! gathered with all ports that are on them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::error::ConfigError;
use crate::quantity::{Bytes, Rate};
use crate::switch_file::{Device, EalSpec, Idle, SwitchSpec, Trunks};

/// A port of a switch on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceLane {
    /// Which switch, in the order of their files.
    pub switch: usize,
    /// Which of its ports.
    pub port: u16,
    /// The tag of its link.
    pub vlan: Option<u16>,
}

/// A device and all ports on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedDevice {
    /// The device.
    pub device: Device,
    /// Rate of all its ports together; `None`: theirs added up.
    pub rate: Option<Rate>,
    /// The lcore that sends on it.
    pub lcore: Option<u16>,
    /// Its ports.
    pub lanes: Vec<DeviceLane>,
}

/// Checked switches of one process.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchSet {
    /// The switches, in the order of their files.
    pub switches: Vec<SwitchSpec>,
    /// Their devices, in the order in which ports name them.
    pub devices: Vec<SharedDevice>,
    /// How DPDK is started for all of them: the memory of all, the largest buffer.
    pub eal: EalSpec,
    /// Where metrics of all are asked for: the first file's that says so.
    pub metrics: Option<SocketAddr>,
}

impl SwitchSet {
    /// Reads and checks files, each by itself and against the others.
    ///
    /// # Errors
    /// The first mistake, with the file that it is in.
    pub fn read(paths: &[PathBuf]) -> Result<SwitchSet, ConfigError> {
        let specs: Result<Vec<_>, _> = paths.iter().map(|path| SwitchSpec::read(path)).collect();
        SwitchSet::new(specs?, paths)
    }

    /// Checks switches against each other; `paths` are their files.
    ///
    /// # Errors
    /// The first mistake, with the file that it is in.
    pub fn new(switches: Vec<SwitchSpec>, paths: &[PathBuf]) -> Result<SwitchSet, ConfigError> {
        let Some(first) = switches.first() else {
            return Err(ConfigError::new(
                "",
                "no switch is given; name one file at least",
            ));
        };
        let mut set = SwitchSet {
            eal: first.eal.clone(),
            metrics: None,
            devices: Vec::new(),
            switches: Vec::new(),
        };
        let mut trunks = Trunks::default();
        for (index, spec) in switches.into_iter().enumerate() {
            let file = paths.get(index).map_or(Path::new(""), PathBuf::as_path);
            set.add(index, &spec, &mut trunks)
                .map_err(|error| error.in_file(file))?;
            set.switches.push(spec);
        }
        set.check_lcores()?;
        Ok(set)
    }

    fn add(
        &mut self,
        index: usize,
        spec: &SwitchSpec,
        trunks: &mut Trunks,
    ) -> Result<(), ConfigError> {
        if self.switches.iter().any(|other| other.name == spec.name) {
            let message = format!(
                "\"{}\" is the name of another switch of this process; give each its own",
                spec.name
            );
            return Err(ConfigError::new("name", message));
        }
        self.metrics = self.metrics.or(spec.metrics);
        if index > 0 {
            join(&mut self.eal, &spec.eal)?;
        }
        for (port, device) in spec.devices.iter().enumerate() {
            let vlan = spec.vlans[port];
            let who = format!("{}.{}", spec.name, spec.port_names[port]);
            trunks.add(device.as_ref(), vlan, &who)?;
            let Some(device) = device else { continue };
            let lane = DeviceLane {
                switch: index,
                port: port as u16,
                vlan,
            };
            match self.devices.iter_mut().find(|d| d.device == *device) {
                Some(shared) => shared.lanes.push(lane),
                None => self.devices.push(SharedDevice {
                    device: device.clone(),
                    rate: None,
                    lcore: None,
                    lanes: vec![lane],
                }),
            }
        }
        for (place, setting) in spec.device_settings.iter().enumerate() {
            let of_name = |d: &&mut SharedDevice| d.device.name() == setting.name;
            let Some(device) = self.devices.iter_mut().find(of_name) else {
                continue;
            };
            let key = |field: &str| format!("device[{place}].{field}");
            agree(&mut device.rate, setting.rate, &key("rate"))?;
            agree(&mut device.lcore, setting.lcore, &key("lcore"))?;
        }
        Ok(())
    }

    /// Lcores that devices name must be there; a child's rate within its device's.
    fn check_lcores(&self) -> Result<(), ConfigError> {
        for device in &self.devices {
            let name = device.device.name();
            if let (Some(lcore), crate::Lcores::Count(count)) = (device.lcore, self.eal.lcores)
                && lcore >= count
            {
                let message = format!(
                    "lcore {lcore} of {name} is not among the {count} of eal.lcores, counted from \
                     0; choose a lower one, or raise eal.lcores"
                );
                return Err(ConfigError::new("device.lcore", message));
            }
            for lane in &device.lanes {
                let spec = &self.switches[lane.switch];
                let rate = Rate::new(spec.config.ports[usize::from(lane.port)].rate_bps);
                if device.rate.is_some_and(|most| rate > most) {
                    let message = format!(
                        "{rate} of {}.{} is more than the rate of {name}; lower it",
                        spec.name,
                        spec.port_names[usize::from(lane.port)]
                    );
                    return Err(ConfigError::new("port.rate", message));
                }
            }
        }
        Ok(())
    }
}

/// Two files that say the same thing of one device, or one of them nothing.
fn agree<T: PartialEq + Copy + std::fmt::Display>(
    known: &mut Option<T>,
    said: Option<T>,
    key: &str,
) -> Result<(), ConfigError> {
    match (*known, said) {
        (Some(known), Some(said)) if known != said => {
            let message = format!("{said} here, {known} in another file; say the same in both");
            Err(ConfigError::new(key, message))
        }
        (known_value, said) => {
            *known = known_value.or(said);
            Ok(())
        }
    }
}

/// Joins how two switches want DPDK to be: one process has one of it.
fn join(all: &mut EalSpec, other: &EalSpec) -> Result<(), ConfigError> {
    let differs = |key: &str| {
        let message = "differs from that of the first switch; one process has one of it: say the \
                       same in all files";
        Err(ConfigError::new(format!("eal.{key}"), message))
    };
    if all.memory != other.memory {
        return differs("memory");
    }
    if all.lcores != other.lcores {
        return differs("lcores");
    }
    if all.cpus != other.cpus {
        return differs("cpus");
    }
    all.size = Bytes::new(all.size.bytes().saturating_add(other.size.bytes()));
    all.buffer_bytes = all.buffer_bytes.max(other.buffer_bytes);
    all.buffers = match (all.buffers, other.buffers) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    if other.idle == Idle::Poll {
        all.idle = Idle::Poll;
    }
    for argument in &other.arguments {
        if !all.arguments.contains(argument) {
            all.arguments.push(argument.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
