//! Faults that a port injects into what it sends: `faults = ["drop=0.02"]`.

use pipeline::fault::{Action, Fault};

use crate::error::ConfigError;
use crate::fault::FaultSpec;

/// Reads the faults of the link that port `index` sends into.
pub(super) fn read(texts: &[String], index: usize) -> Result<Vec<Fault>, ConfigError> {
    let read = |(place, text): (usize, &String)| {
        let wrong =
            |message: String| ConfigError::new(format!("port[{index}].faults[{place}]"), message);
        let FaultSpec(fault) = text
            .parse()
            .map_err(|error: crate::fault::FaultError| wrong(error.to_string()))?;
        match fault {
            Fault::Drop(_)
            | Fault::Burst { .. }
            | Fault::Match {
                action: Action::Drop | Action::Ecn,
                ..
            } => Ok(fault),
            // A device computes its own FCS, keeps no packet back, and knows best whether it is up.
            Fault::Match {
                action: Action::Corrupt,
                ..
            }
            | Fault::Corrupt(_)
            | Fault::Delay { .. }
            | Fault::Down
            | Fault::Flap { .. } => Err(wrong(format!(
                "\"{text}\" cannot be done to a device; take drop, burst or match (drop=1 is a black \
                 hole), or a testbed"
            ))),
        }
    };
    texts.iter().enumerate().map(read).collect()
}
