//! What is changed while switches run, as it is asked for: faults of links, links in and out of routing,
//! keys of the configuration, log lines.
//!
//! `{"fault": "add", "link": "leaf0>spine1", "spec": "drop=0.01"}`, `{"fault": "list"}`,
//! `{"fault": "clear"}` (of one link with `"link"`), `{"set": "link", "link": "leaf0>spine1", "on": false}`
//! are answered with the links as they are then; `{"set": "keys", "switch": "leaf0", "keys":
//! {"spray.policy": "jsq"}}`, `{"set": "route", ..}`, `{"set": "host", ..}`, `{"set": "log", "filter": "debug"}` and
//! `{"set": "reload"}` with each change, once it is in force ([`crate::change`]).
//!
//! A change of a link is one value in a ring, which the link's
//! lcore takes between two rounds: no packet waits for it, and none is lost by it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use config::Edit;
use config::fault::FaultSpec;
use crossbeam::queue::ArrayQueue;
use pipeline::PortId;
use pipeline::fault::{Action, Fault, LinkFaults};
use pipeline::report::Command;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::control::State;
use crate::log;

/// Changes that may wait for an lcore.
const CHANGES_MAX: usize = 64;
/// How often is looked whether a change is in force.
const LOOK: Duration = Duration::from_millis(1);
/// Looks until an lcore counts as hung.
const LOOKS_MAX: u32 = 2000;
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
    /// The device, and which of its ports; of a testbed the number of the link.
    pub device: (usize, usize),
    /// A link in memory, to which anything can be done.
    pub is_wire: bool,
    /// Seed of the faults' chances.
    pub seed: u64,
    /// Its faults now.
    pub faults: Vec<Fault>,
    /// Whether routing may use it.
    pub is_on: bool,
}

/// New faults of a link, on their way to its lcore, or those before, on their way back.
pub struct FaultChange {
    /// As [`Place::device`].
    pub device: (usize, usize),
    /// Index of the switch that sends into it.
    pub switch: usize,
    /// And its port.
    pub port: PortId,
    /// All faults from now on; `None`: none.
    pub faults: Option<LinkFaults>,
}

/// The links of a process, and the rings to their lcores.
#[derive(Default)]
pub struct Links {
    places: Mutex<Vec<Place>>,
    changes: Vec<ArrayQueue<FaultChange>>,
    done: Option<ArrayQueue<FaultChange>>,
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}

impl Links {
    /// The links of switches on so many lcores.
    pub fn new(places: Vec<Place>, lcores: usize) -> Links {
        // All links may change at once, and again before that has come through.
        let room = CHANGES_MAX + 2 * places.len();
        Links {
            places: Mutex::new(places),
            changes: (0..lcores).map(|_| ArrayQueue::new(room)).collect(),
            done: Some(ArrayQueue::new(room * lcores.max(1))),
        }
    }

    /// The next change for an lcore. Called by it; never waits.
    pub fn next_change(&self, lcore: usize) -> Option<FaultChange> {
        self.changes.get(lcore)?.pop()
    }

    /// Gives a change back that is in force. Called by an lcore.
    pub fn give_back(&self, change: FaultChange) {
        if let Some(done) = &self.done {
            // Control has no more on their way than fit in here.
            let refused = done.push(change);
            debug_assert!(refused.is_ok(), "the way back has room for all changes");
        }
    }

    /// Frees what lcores have given back.
    pub(crate) fn sweep(&self) {
        let done = self.done.as_ref();
        while done.and_then(ArrayQueue::pop).is_some() {}
    }

    /// Gives each link the faults that `faults` makes of it; `None` leaves it as it is. Either all are
    /// on their way to their lcores then, or nothing has happened. Returns what has changed.
    ///
    /// # Errors
    /// What cannot be, with the cure.
    pub(crate) fn change(
        &self,
        faults: impl Fn(&Place) -> Option<Vec<Fault>>,
    ) -> Result<Vec<String>, String> {
        self.sweep();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Vec::new();
        for (index, place) in places.iter().enumerate() {
            let Some(faults) = faults(place).filter(|faults| *faults != place.faults) else {
                continue;
            };
            if faults.len() > FAULTS_MAX {
                let link = &place.link;
                return Err(format!("{link} has {FAULTS_MAX} faults; clear some"));
            }
            changes.push((index, faults));
        }
        for (lcore, ring) in self.changes.iter().enumerate() {
            let of_lcore =
                |(place, _): &&(usize, _)| places[*place].lcore % self.changes.len() == lcore;
            if ring.capacity() - ring.len() < changes.iter().filter(of_lcore).count() {
                return Err("the lcore has not taken earlier changes; ask again".to_owned());
            }
        }
        let mut said = Vec::new();
        for (index, faults) in changes {
            let place = &mut places[index];
            let change = FaultChange {
                device: place.device,
                switch: place.switch,
                port: place.port,
                faults: (!faults.is_empty()).then(|| LinkFaults::new(&faults, place.seed)),
            };
            let ring = &self.changes[place.lcore % self.changes.len()];
            if ring.push(change).is_err() {
                // Nobody else fills the ring, so what was free still is.
                return Err("the lcore has not taken earlier changes; ask again".to_owned());
            }
            said.push(format!(
                "faults of {}: {} -> {}",
                place.link,
                words(&place.faults),
                words(&faults)
            ));
            place.faults = faults;
        }
        Ok(said)
    }

    /// The links as they are.
    pub fn places(&self) -> Vec<Place> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.clone()
    }

    /// The link of that name, or both of a cable (`leaf0-spine1`), as far as they begin here.
    fn find(&self, link: &str) -> Result<Vec<Place>, String> {
        let places = self.places();
        let ways = match link.split_once('-') {
            Some((one, other)) => vec![format!("{one}>{other}"), format!("{other}>{one}")],
            None => vec![link.to_owned()],
        };
        let mut found = places.clone();
        found.retain(|place| ways.contains(&place.link));
        if !found.is_empty() {
            return Ok(found);
        }
        if places.is_empty() {
            return Err("it has no links that can be changed".to_owned());
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
#[serde(tag = "set", rename_all = "lowercase", deny_unknown_fields)]
enum SetRequest {
    Link {
        link: String,
        on: bool,
    },
    /// Keys of a switch's file with their values; `null` is the default.
    Keys {
        switch: Option<String>,
        keys: BTreeMap<String, Option<String>>,
    },
    /// Where a prefix leads; `null`: nowhere.
    Route {
        switch: Option<String>,
        prefix: String,
        to: Option<String>,
    },
    /// The port that a host is behind; `null`: none.
    Host {
        switch: Option<String>,
        address: String,
        port: Option<String>,
        mac: Option<String>,
    },
    Log {
        filter: String,
    },
    Reload,
}

/// The answer, if the line is a request of this kind.
pub(crate) fn reply(line: &str, state: &mut State) -> Option<Value> {
    let request = serde_json::from_str(line).ok()?;
    let links = |done: Result<(), String>, state: &State| {
        done.map(|()| json!({ "show": "faults", "rows": rows(&state.shared.links) }))
    };
    let said = |done: Result<Vec<String>, String>| {
        let row = |change: String| json!({ "change": change });
        done.map(|said| json!({ "show": "changes", "rows": said.into_iter().map(row).collect::<Vec<_>>() }))
    };
    let done = match request {
        Request::Fault(request) => links(fault(&request, state), state),
        Request::Set(SetRequest::Link { link, on }) => links(set_link(&link, on, state), state),
        Request::Set(SetRequest::Keys { switch, keys }) => {
            let edits: Vec<Edit> = keys
                .into_iter()
                .map(|(key, to)| Edit::Key(key, to))
                .collect();
            said(state.edit(switch.as_deref(), &edits))
        }
        Request::Set(SetRequest::Route { switch, prefix, to }) => {
            said(state.edit(switch.as_deref(), &[Edit::Route(prefix, to)]))
        }
        Request::Set(SetRequest::Host {
            switch,
            address,
            port,
            mac,
        }) => {
            let place = port.map(|port| (port, mac));
            said(state.edit(switch.as_deref(), &[Edit::Host(address, place)]))
        }
        Request::Set(SetRequest::Log { filter }) => said(log::set(&filter).map(|said| vec![said])),
        Request::Set(SetRequest::Reload) => said(state.reload()),
    };
    Some(done.unwrap_or_else(|error| json!({ "error": error })))
}

/// Waits until what was changed is in force: who is answered may rely on it.
///
/// # Errors
/// When an lcore does not take it.
pub(crate) async fn in_force(state: &Rc<RefCell<State>>) -> Result<(), String> {
    for _ in 0..LOOKS_MAX {
        if state.borrow().is_settled() {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(
        "the change is on its way, but an lcore has not taken it; does its poll loop turn? see \
         show lcores"
            .to_owned(),
    )
}

impl State {
    /// Whether no change is on its way.
    fn is_settled(&self) -> bool {
        let mut links = self.shared.links.changes.iter();
        self.pending.is_empty() && links.all(ArrayQueue::is_empty)
    }
}

fn fault(request: &FaultRequest, state: &mut State) -> Result<(), String> {
    let links = &state.shared.links;
    let said = match (
        request.fault,
        request.link.as_deref(),
        request.spec.as_deref(),
    ) {
        (FaultWord::List, None, None) => return Ok(()),
        (FaultWord::Clear, None, None) => links.change(|_| Some(Vec::new())),
        (FaultWord::Clear, Some(link), None) => {
            let found = names(&links.find(link)?);
            links.change(|place| found.contains(&place.link).then(Vec::new))
        }
        (FaultWord::Add, Some(link), Some(spec)) => {
            let places = links.find(link)?;
            let FaultSpec(fault) = spec
                .parse::<FaultSpec>()
                .map_err(|error| error.to_string())?;
            if !places.iter().all(|place| place.is_wire) {
                check(fault, spec)?;
            }
            let found = names(&places);
            links.change(|place| {
                let faults = place.faults.iter().copied().chain([fault]).collect();
                found.contains(&place.link).then_some(faults)
            })
        }
        _ => Err("write fault add with link and spec, fault list, or fault clear".to_owned()),
    }?;
    state.say(&said);
    Ok(())
}

fn names(places: &[Place]) -> Vec<String> {
    places.iter().map(|place| place.link.clone()).collect()
}

/// Faults as people write them.
fn words(faults: &[Fault]) -> String {
    let words = faults.iter().map(|&fault| FaultSpec(fault).to_string());
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(" ")
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
    let places = state.shared.links.find(link)?;
    if places.iter().any(|place| !place.is_fabric) {
        return Err(format!(
            "{link} is a host's, which has no other; only links between switches can be set"
        ));
    }
    let word = |on: bool| if on { "on" } else { "off" };
    let mut said = Vec::new();
    for found in places {
        let lcores = state.shared.lcores.len();
        for lcore in 0..lcores {
            let part = (found.switch * lcores + lcore) as u16;
            let (port, enabled) = (found.port, on);
            state.send(part, Command::SetEnabled { port, enabled });
        }
        let links = &state.shared.links;
        let mut places = links.places.lock().unwrap_or_else(PoisonError::into_inner);
        for place in places.iter_mut().filter(|place| place.link == found.link) {
            place.is_on = on;
        }
        if found.is_on != on {
            let link = &found.link;
            said.push(format!("routing of {link}: {} -> {}", word(!on), word(on)));
        }
    }
    state.say(&said);
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
