//! Devices that several ports share: a port is (device, optional VLAN id).
//!
//! On a shared device every port has a VLAN id of its own, by which its frames are told from those
//! of the others. A port without one has its device for itself: a host behind it may use VLANs.

use std::collections::BTreeMap;

use super::device::Device;
use super::ports::Ports;
use super::{port, raw};
use crate::error::ConfigError;
use crate::quantity::Rate;

/// What is said of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceSetting {
    /// Its name, without arguments.
    pub name: String,
    /// Rate of all its ports together; `None`: theirs added up.
    pub rate: Option<Rate>,
    /// The lcore that sends on it, from 0; `None`: the least loaded one.
    pub lcore: Option<u16>,
}

/// Who is on which device.
#[derive(Default)]
pub(crate) struct Trunks(BTreeMap<String, Trunk>);

struct Trunk {
    device: Device,
    /// VLAN id, and who has it.
    lanes: Vec<(Option<u16>, String)>,
}

impl Trunks {
    /// Adds the port that `who` names, or says why it cannot be on that device.
    pub(crate) fn add(
        &mut self,
        device: Option<&Device>,
        vlan: Option<u16>,
        who: &str,
    ) -> Result<(), ConfigError> {
        if let Some(vlan) = vlan
            && !(1..=4094).contains(&vlan)
        {
            let message = format!("{vlan} is no VLAN id; choose 1 to 4094 (802.1Q, 9.6)");
            return Err(ConfigError::new(format!("{who}.vlan"), message));
        }
        let Some(device) = device else {
            return Ok(());
        };
        let trunk = self
            .0
            .entry(device.name().to_owned())
            .or_insert_with(|| Trunk {
                device: device.clone(),
                lanes: Vec::new(),
            });
        if trunk.device != *device {
            let message = format!(
                "\"{device}\" is \"{}\" at {}; write the same arguments at both",
                trunk.device, trunk.lanes[0].1
            );
            return Err(ConfigError::new(format!("{who}.device"), message));
        }
        let name = device.name();
        if let Some((_, other)) = trunk.lanes.iter().find(|(taken, _)| *taken == vlan) {
            let (key, message) = match vlan {
                Some(vlan) => (
                    "vlan",
                    format!("VLAN {vlan} of {name} is already that of {other}; choose another"),
                ),
                None => (
                    "device",
                    format!(
                        "the device {name} is already that of {other}; give each its own, or \
                         share it: a VLAN id for each"
                    ),
                ),
            };
            return Err(ConfigError::new(format!("{who}.{key}"), message));
        }
        if let Some((taken, other)) = trunk.lanes.first()
            && (taken.is_none() || vlan.is_none())
        {
            let message = format!(
                "{name} is shared with {other}, and one of the two has no VLAN id; give both one, \
                 or each its own device"
            );
            return Err(ConfigError::new(format!("{who}.vlan"), message));
        }
        trunk.lanes.push((vlan, who.to_owned()));
        Ok(())
    }
}

/// What is said of devices: each of a device that a port has, once.
pub(super) fn settings(
    raw: &[raw::DevicePart],
    parts: &Ports,
) -> Result<Vec<DeviceSetting>, ConfigError> {
    let mut settings: Vec<DeviceSetting> = Vec::new();
    for (index, part) in raw.iter().enumerate() {
        let key = |field: &str| format!("device[{index}].{field}");
        let name = part.name.split(',').next().unwrap_or_default();
        if settings.iter().any(|other| other.name == name) {
            let message = format!("{name} is described twice; join the two");
            return Err(ConfigError::new(key("name"), message));
        }
        let is_on = |device: &&Option<Device>| device.as_ref().is_some_and(|d| d.name() == name);
        if !parts.devices.iter().any(|device| is_on(&device)) {
            let message = format!("no port is on {name}; name the device of a port");
            return Err(ConfigError::new(key("name"), message));
        }
        let rate = part.rate.map(|rate| port::rate(rate, &key("rate")));
        let rate = rate.transpose()?;
        for ((device, port), place) in parts.devices.iter().zip(&parts.ports).zip(0..) {
            if let Some(rate) = rate
                && is_on(&device)
                && port.rate_bps > rate.bits_per_second()
            {
                let message = format!(
                    "{rate} is less than the {} of port[{place}]; lower that, or raise this",
                    Rate::new(port.rate_bps)
                );
                return Err(ConfigError::new(key("rate"), message));
            }
        }
        settings.push(DeviceSetting {
            name: name.to_owned(),
            rate,
            lcore: part.lcore,
        });
    }
    Ok(settings)
}
