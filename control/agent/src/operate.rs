//! What is changed while switches run: faults of links, and links in and out of routing.
//!
//! `{"fault": "add", "link": "leaf0>spine1", "spec": "drop=0.01"}`, `{"fault": "list"}`,
//! `{"fault": "clear"}` (of one link with `"link"`), `{"set": "link", "link": "leaf0>spine1", "on": false}`.
//! Each is answered with the links as they are then. A change is one value in a ring, which the link's
//! lcore takes between two rounds: no packet waits for it, and none is lost by it.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;

use config::fault::FaultSpec;
use crossbeam::queue::ArrayQueue;
use pipeline::PortId;
use pipeline::fault::{Action, Fault, LinkFaults};
use pipeline::report::Command;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::control::State;

/// Changes that may wait for an lcore.
const CHANGES_MAX: usize = 64;
/// Faults of one link.
const FAULTS_MAX: usize = 8;

/// A link of a running switch: what a port sends into.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name: `leaf0>spine1`; of a host's port `leaf0>host0`.
    pub link: String,
    /// Index of its switch, and the port.
    pub switch: usize,
    /// The port.
    pub port: PortId,
    /// Whether it joins switches, so that routing can do without.
    pub is_fabric: bool,
    /// The lcore that sends into it.
    pub lcore: usize,
    /// The device, and which of its ports.
    pub device: (usize, usize),
    /// Seed of the faults' chances.
    pub seed: u64,
    /// Its faults now.
    pub faults: Vec<Fault>,
    /// Whether routing may use it.
    pub is_on: bool,
}

/// New faults of a link, on their way to its lcore.
pub struct FaultChange {
    /// The device, and which of its ports.
    pub device: (usize, usize),
    /// All faults from now on.
    pub faults: LinkFaults,
}

/// The links of a process, and the rings to their lcores.
#[derive(Default)]
pub struct Links {
    places: Mutex<Vec<Place>>,
    changes: Vec<ArrayQueue<FaultChange>>,
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}

impl Links {
    /// The links of switches on so many lcores.
    pub fn new(places: Vec<Place>, lcores: usize) -> Links {
        Links {
            places: Mutex::new(places),
            changes: (0..lcores).map(|_| ArrayQueue::new(CHANGES_MAX)).collect(),
        }
    }

    /// The next change for an lcore. Called by it; never waits.
    pub fn next_change(&self, lcore: usize) -> Option<FaultChange> {
        self.changes.get(lcore)?.pop()
    }

    /// Gives the links that `which` names the faults that `faults` makes of those they have.
    ///
    /// # Errors
    /// What cannot be, with the cure.
    fn change(
        &self,
        which: impl Fn(&Place) -> bool,
        faults: impl Fn(&[Fault]) -> Vec<Fault>,
    ) -> Result<(), String> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        for place in places.iter_mut().filter(|place| which(place)) {
            let faults = faults(&place.faults);
            if faults == place.faults {
                continue;
            }
            if faults.len() > FAULTS_MAX {
                return Err(format!(
                    "{} has {FAULTS_MAX} faults; clear some",
                    place.link
                ));
            }
            let change = FaultChange {
                device: place.device,
                faults: LinkFaults::new(&faults, place.seed),
            };
            let ring = &self.changes[place.lcore % self.changes.len().max(1)];
            if ring.push(change).is_err() {
                return Err("the lcore has not taken earlier changes; ask again".to_owned());
            }
            place.faults = faults;
        }
        Ok(())
    }

    /// Sets the faults of every link to those that `of` tells by its name; others are kept.
    ///
    /// # Errors
    /// As a change over the socket.
    pub fn set_all(&self, of: impl Fn(usize, PortId) -> Option<Vec<Fault>>) -> Result<(), String> {
        let places: Vec<(String, Option<Vec<Fault>>)> = self
            .places()
            .into_iter()
            .map(|place| (place.link, of(place.switch, place.port)))
            .collect();
        for (link, faults) in places {
            if let Some(faults) = faults {
                self.change(|place| place.link == link, |_| faults.clone())?;
            }
        }
        Ok(())
    }

    /// The links as they are.
    pub fn places(&self) -> Vec<Place> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.clone()
    }

    fn find(&self, link: &str) -> Result<Place, String> {
        let places = self.places();
        if let Some(place) = places.iter().find(|place| place.link == link) {
            return Ok(place.clone());
        }
        if places.is_empty() {
            return Err(
                "its links cannot be changed; only those of `spraycheck switch` can".to_owned(),
            );
        }
        let names = places.iter().map(|place| place.link.as_str());
        let hint = match config::error::nearest(link, names.clone()) {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None => format!("its links are {}", names.collect::<Vec<_>>().join(", ")),
        };
        Err(format!("nothing here sends into \"{link}\"; {hint}"))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Request {
    Fault(FaultRequest),
    Set(SetRequest),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultRequest {
    fault: FaultWord,
    link: Option<String>,
    spec: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum FaultWord {
    Add,
    List,
    Clear,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetRequest {
    set: SetWord,
    link: String,
    on: bool,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum SetWord {
    Link,
}

/// The answer, if the line is a request of this kind.
pub(crate) fn reply(line: &str, state: &mut State) -> Option<Value> {
    let request = serde_json::from_str(line).ok()?;
    let done = match request {
        Request::Fault(request) => fault(&request, state),
        Request::Set(SetRequest {
            set: SetWord::Link,
            link,
            on,
        }) => set_link(&link, on, state),
    };
    Some(match done {
        Ok(()) => json!({ "show": "faults", "rows": rows(&state.shared.links) }),
        Err(error) => json!({ "error": error }),
    })
}

fn fault(request: &FaultRequest, state: &State) -> Result<(), String> {
    let links = &state.shared.links;
    match (
        request.fault,
        request.link.as_deref(),
        request.spec.as_deref(),
    ) {
        (FaultWord::List, None, None) => Ok(()),
        (FaultWord::Clear, None, None) => links.change(|_| true, |_| Vec::new()),
        (FaultWord::Clear, Some(link), None) => {
            let found = links.find(link)?;
            links.change(|place| place.link == found.link, |_| Vec::new())
        }
        (FaultWord::Add, Some(link), Some(spec)) => {
            let found = links.find(link)?;
            let FaultSpec(fault) = spec
                .parse::<FaultSpec>()
                .map_err(|error| error.to_string())?;
            check(fault, spec)?;
            links.change(
                |place| place.link == found.link,
                |faults| faults.iter().copied().chain([fault]).collect(),
            )
        }
        _ => Err("write fault add with link and spec, fault list, or fault clear".to_owned()),
    }
}

/// What can be done to a device; a running one keeps no packet back.
fn check(fault: Fault, spec: &str) -> Result<(), String> {
    match fault {
        Fault::Drop(_)
        | Fault::Burst { .. }
        | Fault::Match {
            action: Action::Drop | Action::Ecn,
            ..
        } => Ok(()),
        Fault::Match {
            action: Action::Corrupt,
            ..
        }
        | Fault::Corrupt(_)
        | Fault::Delay { .. }
        | Fault::Down
        | Fault::Flap { .. } => Err(format!(
            "\"{spec}\" cannot be done to a device; take drop, burst or match (drop=1 is a black hole), \
             or `spraycheck set link .. off`"
        )),
    }
}

fn set_link(link: &str, on: bool, state: &mut State) -> Result<(), String> {
    let found = state.shared.links.find(link)?;
    if !found.is_fabric {
        return Err(format!(
            "{link} is a host's, which has no other; only links between switches can be set"
        ));
    }
    let lcores = state.shared.lcores.len();
    for lcore in 0..lcores {
        let part = (found.switch * lcores + lcore) as u16;
        state.send(
            part,
            Command::SetEnabled {
                port: found.port,
                enabled: on,
            },
        );
    }
    let mut places = state
        .shared
        .links
        .places
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    for place in places.iter_mut().filter(|place| place.link == found.link) {
        place.is_on = on;
    }
    Ok(())
}

fn rows(links: &Links) -> Vec<Value> {
    let row = |place: Place| {
        let faults: Vec<String> = place
            .faults
            .iter()
            .map(|&fault| FaultSpec(fault).to_string())
            .collect();
        json!({ "link": place.link, "routing": if place.is_on { "on" } else { "off" }, "faults": faults })
    };
    links.places().into_iter().map(row).collect()
}

#[cfg(test)]
mod tests;
