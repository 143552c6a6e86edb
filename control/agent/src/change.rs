//! Another configuration for switches that run: all of it, or nothing.
//!
//! The new configuration is whole and checked before anything happens ([`crate::subject`]). Then every
//! part gets the change that makes it what it is to be, and each comes back from its lcore with what
//! it has replaced. A window that a part reports before its change is back is void: it ran before,
//! and is judged by the rules after.

use std::sync::atomic::Ordering;

use config::Edit;
use detector::Nanos;
use pipeline::{Change, Role};

use crate::control::State;
use crate::seam::{Order, ToPart};
use crate::subject::Subject;

/// Said when a change is to follow another one too closely.
const BUSY: &str = "an earlier change is not in force yet; ask again";

/// Changes that lcores have not given back.
#[derive(Default)]
pub(crate) struct Pending {
    /// Parts, and whether windows that run there are void.
    parts: Vec<(u16, bool)>,
}

impl Pending {
    /// Whether windows of a part are void.
    pub(crate) fn voids(&self, part: u16) -> bool {
        self.parts.contains(&(part, true))
    }

    /// These parts are what they are to be.
    pub(crate) fn settle(&mut self, back: Vec<u16>) {
        self.parts.retain(|(part, _)| !back.contains(part));
    }

    /// Whether all changes are in force.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl State {
    /// Takes orders that have come back; returns the parts that have changed.
    pub(crate) fn take_back(&mut self) -> Vec<u16> {
        let mut changed = Vec::new();
        while let Some(ToPart { part, order }) = self.shared.seam.done.pop() {
            match order {
                Order::Change(_) => changed.push(part),
                Order::Neighbors(listing) => self.listings.keep(*listing),
            }
        }
        changed
    }

    /// Reads the files again and makes the switches what they say. Returns each change.
    pub(crate) fn reload(&mut self) -> Result<Vec<String>, String> {
        let (new, said) = self.config.subject.read_again()?;
        self.become_subject(new, said, true)
    }

    /// The same on a signal, to which nobody waits for an answer.
    pub(crate) fn reload_and_say(&mut self) {
        match self.reload() {
            Ok(said) if said.is_empty() => tracing::info!("the files say what is in force"),
            Ok(_) => {}
            Err(error) => tracing::error!("goes on as it was: {error}"),
        }
    }

    /// Edits one switch. Returns each change.
    pub(crate) fn edit(
        &mut self,
        switch: Option<&str>,
        edits: &[Edit],
    ) -> Result<Vec<String>, String> {
        let (new, mut said) = self.config.subject.edited(switch, edits)?;
        said.retain(|change| {
            let sides = change
                .rsplit_once(": ")
                .and_then(|(_, sides)| sides.split_once(" -> "));
            sides.is_none_or(|(old, new)| old != new)
        });
        if said.is_empty() {
            return Ok(said);
        }
        self.become_subject(new, said, false)
    }

    fn become_subject(
        &mut self,
        new: Subject,
        mut said: Vec<String>,
        is_read: bool,
    ) -> Result<Vec<String>, String> {
        if !self.pending.is_empty() {
            return Err(BUSY.to_owned());
        }
        let lcores = self.shared.lcores.len();
        let old = &self.config.subject;
        let is_judged_anew = old.judging() != new.judging();
        let mut orders = Vec::new();
        for switch in 0..old.configs().len() {
            for lcore in 0..lcores {
                let parts = (
                    old.part(switch, lcore, lcores),
                    new.part(switch, lcore, lcores),
                );
                let (Some(old), Some(new)) = parts else {
                    continue;
                };
                let mut change = Change::between(&old, &new);
                if is_judged_anew && matches!(new.role, Role::Leaf(_)) {
                    change = Some(change.map_or_else(Change::of_rules, Change::and_rules));
                }
                if let Some(change) = change {
                    let part = (switch * lcores + lcore) as u16;
                    orders.push((part, change));
                }
            }
        }
        for lcore in 0..lcores {
            let ring = self.shared.seam.orders_of(lcore);
            let count = orders
                .iter()
                .filter(|(part, _)| usize::from(*part) % lcores == lcore);
            if ring.capacity() - ring.len() < count.count() {
                return Err(BUSY.to_owned());
            }
        }
        // All or nothing: this is the last that may refuse.
        let of_links = self.change_faults(&new, is_read)?;
        said.retain(|change| !change.contains(".faults: "));
        said.extend(of_links);
        for (part, change) in orders {
            self.pending.parts.push((part, change.voids_windows()));
            let order = Order::Change(Box::new(change));
            let ring = self.shared.seam.orders_of(usize::from(part));
            if ring.push(ToPart { part, order }).is_err() {
                // Nobody else fills the ring, so what was free still is.
                unreachable!("the ring had room");
            }
        }
        if let Some((rules, test)) = new.judging() {
            self.core.configure(rules, test);
        }
        self.config.subject = new;
        self.say(&said);
        Ok(said)
    }

    /// Writes down what has changed.
    pub(crate) fn say(&mut self, said: &[String]) {
        let now = Nanos(self.shared.status.now_ns.load(Ordering::Relaxed));
        for change in said {
            tracing::info!("{change}");
            self.core.note_change(now, change.clone());
        }
    }

    /// Gives links the faults that files say; files that were not read again leave those set since.
    fn change_faults(&self, new: &Subject, is_read: bool) -> Result<Vec<String>, String> {
        let Subject::Switches { in_force, .. } = new else {
            return Ok(Vec::new());
        };
        let switches = &in_force.set.switches;
        self.shared.links.change(|place| {
            let spec = switches.get(place.switch).filter(|_| is_read)?;
            spec.faults.get(place.port.index()).cloned()
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
