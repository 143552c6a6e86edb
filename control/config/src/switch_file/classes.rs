//! Priorities of packets by DSCP and PCP, and ECN marking of the queues that they go to.

use std::collections::BTreeMap;

use pipeline::{EcnConfig, PortConfig};

use super::raw;
use super::settings::within;
use crate::error::ConfigError;
use crate::fabric::{ECN_DEFAULT, PCP_PRIORITY};
use crate::quantity::Bytes;

/// Puts the entries of `queue.dscp` or `queue.pcp` over a table.
pub(super) fn read_map(
    field: &str,
    entries: &BTreeMap<String, u8>,
    table: &mut [u8],
) -> Result<(), ConfigError> {
    let name = field.to_uppercase();
    let most = table.len() - 1;
    for (class, &priority) in entries {
        let key = format!("queue.{field}.{class}");
        let slot = class.parse().ok().and_then(|at: usize| table.get_mut(at));
        let Some(slot) = slot else {
            let message = format!("\"{class}\" is no {name}; choose 0 to {most}");
            return Err(ConfigError::new(key, message));
        };
        if priority > 6 {
            let message = format!(
                "{priority} is no priority of a {name}; choose 0 to 6 (7 belongs to the measured flow)"
            );
            return Err(ConfigError::new(key, message));
        }
        *slot = priority;
    }
    Ok(())
}

/// Priorities by PCP, if the key is there.
pub(super) fn pcp(raw: &raw::Queue) -> Result<Option<[u8; 8]>, ConfigError> {
    let Some(entries) = &raw.pcp else {
        return Ok(None);
    };
    let mut table = PCP_PRIORITY;
    read_map("pcp", entries, &mut table)?;
    Ok(Some(table))
}

/// The marking curves of the queues, if the key is there.
pub(super) fn ecn(
    raw: &raw::Queue,
    limit: Bytes,
    ports: &[PortConfig],
) -> Result<[Option<EcnConfig>; 8], ConfigError> {
    let mut queues = [None; 8];
    let Some(ecn) = &raw.ecn else {
        return Ok(queues);
    };
    let mut curve = ECN_DEFAULT;
    match (ecn.kmin, ecn.kmax) {
        (None, None) => {}
        (Some(kmin), Some(kmax)) => {
            curve.at_rate_bps = None;
            curve.kmin_bytes = kmin.bytes();
            curve.kmax_bytes = kmax.bytes();
            if kmin > kmax {
                let message = format!("{kmin} is above kmax {kmax}; lower it");
                return Err(ConfigError::new("queue.ecn.kmin", message));
            }
        }
        (Some(_), None) | (None, Some(_)) => {
            let message = "kmin and kmax go together; give both, or none for 400kB and 1600kB at \
                           100Gbps, in proportion to the rate of each port";
            return Err(ConfigError::new("queue.ecn", message));
        }
    }
    let fastest = ports.iter().map(|port| port.rate_bps).max().unwrap_or(0);
    let (_, kmax) = curve.thresholds_bytes(fastest);
    if kmax > limit.bytes() {
        let message = format!(
            "kmax {} is beyond queue.limit {limit}, so packets are dropped before they are marked; \
             raise queue.limit, or lower kmin and kmax",
            Bytes::new(kmax)
        );
        return Err(ConfigError::new("queue.ecn", message));
    }
    if let Some(pmax) = ecn.pmax {
        let ppm = (pmax.value() * 1e6).round() as u32;
        curve.pmax_ppm = within("queue.ecn.pmax", ppm, 1, 1_000_000).map_err(|_| {
            let message = format!("{pmax} is out of range; choose 0.000001 to 1");
            ConfigError::new("queue.ecn.pmax", message)
        })?;
    }
    let all: Vec<u8> = (0..8).collect();
    for (index, &priority) in ecn.priorities.as_ref().unwrap_or(&all).iter().enumerate() {
        let key = format!("queue.ecn.priorities[{index}]");
        let place = within(&key, priority, 0, 7)?;
        queues[usize::from(place)] = Some(curve);
    }
    Ok(queues)
}
