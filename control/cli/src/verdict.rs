//! Whether the links that were named are the links that lost packets.

use std::collections::BTreeSet;

use agent::result::TestbedResult;
use detector::Link;

/// The comparison of what was injected with what was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Links that lost packets and were named.
    pub(crate) found: BTreeSet<Link>,
    /// Links that lost packets and were not.
    pub(crate) missed: BTreeSet<Link>,
    /// Links that were named and lost nothing.
    pub(crate) false_alarms: BTreeSet<Link>,
    /// Whether all packets are accounted for.
    pub(crate) is_conserved: bool,
    /// Whether hosts received what was sent.
    pub(crate) is_intact: bool,
}

impl Verdict {
    /// Of a result: a fault counts if it lost packets, for one that lost none cannot be found.
    pub(crate) fn of(result: &TestbedResult) -> Verdict {
        let lossy = result
            .injected
            .iter()
            .filter(|injected| injected.packets_dropped > 0);
        let lossy: BTreeSet<Link> = lossy.map(|injected| injected.link).collect();
        let named: BTreeSet<Link> = result.convicted.iter().map(|c| c.link).collect();
        Verdict {
            found: lossy.intersection(&named).copied().collect(),
            missed: lossy.difference(&named).copied().collect(),
            false_alarms: named.difference(&lossy).copied().collect(),
            is_conserved: result.conservation.ok,
            is_intact: result.flows.host_errors == 0,
        }
    }

    /// Whether exactly the links that lost packets were named, every packet is accounted for, and
    /// hosts received what was sent.
    pub(crate) fn is_yes(&self) -> bool {
        let is_exact = self.missed.is_empty() && self.false_alarms.is_empty();
        is_exact && self.is_conserved && self.is_intact
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let mut parts = Vec::new();
        match (self.found.is_empty(), self.missed.is_empty()) {
            (false, true) if self.false_alarms.is_empty() => {
                parts.push(format!(
                    "exactly the links that lost packets were named: {}",
                    list(&self.found)
                ));
            }
            (true, true) if self.false_alarms.is_empty() => {
                parts.push("no link lost packets, and none was named".to_owned());
            }
            (false, _) => parts.push(format!("named rightly: {}", list(&self.found))),
            (true, _) => {}
        }
        if !self.missed.is_empty() {
            parts.push(format!(
                "lost packets and was not named: {}",
                list(&self.missed)
            ));
        }
        if !self.false_alarms.is_empty() {
            parts.push(format!(
                "named but lost nothing: {}",
                list(&self.false_alarms)
            ));
        }
        if !self.is_conserved {
            parts.push("packets are unaccounted for".to_owned());
        }
        if !self.is_intact {
            parts.push("hosts received wrong data".to_owned());
        }
        format!(
            "{}: {}",
            if self.is_yes() { "YES" } else { "NO" },
            parts.join("; ")
        )
    }
}

fn list(links: &BTreeSet<Link>) -> String {
    links
        .iter()
        .map(Link::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
