//! What a scenario changes while it runs.

use config::Change;
use detector::Link;
use pipeline::fault::Fault;
use pipeline::report::Command;
use pipeline::{Nanos, PortId};

use crate::engine::Engine;

impl Engine {
    /// Carries out a change.
    #[cold]
    pub(crate) fn change(&mut self, now: Nanos, index: usize) {
        self.done_at = None;
        let change = self.config.changes[index].1.clone();
        match &change {
            Change::Fail(list) => {
                for fault in &list.0 {
                    self.change_faults(fault.link, |faults| faults.push(fault.fault));
                }
            }
            Change::Clear(links) => {
                for &link in links {
                    self.change_faults(link, Vec::clear);
                }
            }
            Change::Disable(links) => self.set_enabled(now, links, false),
            Change::Enable(links) => self.set_enabled(now, links, true),
            Change::Down(links) => self.cut(links, true),
            Change::Up(links) => self.cut(links, false),
            Change::Start(_) => {
                let task = self.task_of_change[index];
                for (number, station) in self.stations.iter_mut().enumerate() {
                    station.start(now, number, task, &mut self.net);
                }
            }
        }
        self.check_links(now);
    }

    fn link_index(&self, link: Link) -> Option<usize> {
        self.fabric
            .links
            .iter()
            .position(|known| known.link == link)
    }

    /// The special link of a link's number, unless it is out of the slice.
    fn special_of(&mut self, index: usize) -> Option<usize> {
        let link = &self.fabric.links[index];
        let (seed, port) = (link.seed, link.from.1.index());
        let (from, to) = (link.from.0, link.to.0);
        let node = self.node_of(from)?;
        self.node_of(to)?;
        let out = (node, port);
        Some(self.net.make_special(&mut self.nodes[node], out, seed))
    }

    /// Gives a link, by its number in the fabric, these faults.
    pub(crate) fn set_faults(&mut self, index: usize, faults: Vec<Fault>) {
        if let Some(special) = self.special_of(index) {
            self.net.specials[special].set(faults);
        }
    }

    fn change_faults(&mut self, link: Link, change: impl FnOnce(&mut Vec<Fault>)) {
        let Some(index) = self.link_index(link) else {
            return;
        };
        if let Some(special) = self.special_of(index) {
            let special = &mut self.net.specials[special];
            let mut list = special.list.clone();
            change(&mut list);
            special.set(list);
        }
    }

    fn cut(&mut self, links: &[Link], is_cut: bool) {
        for &link in links {
            if let Some(index) = self.link_index(link)
                && let Some(special) = self.special_of(index)
            {
                self.net.specials[special].is_cut = is_cut;
            }
        }
    }

    fn set_enabled(&mut self, now: Nanos, links: &[Link], enabled: bool) {
        for &link in links {
            let Some(index) = self.link_index(link) else {
                continue;
            };
            let (switch, port): (usize, PortId) = self.fabric.links[index].from;
            if let Some(node) = self.node_of(switch) {
                self.command(now, node, Command::SetEnabled { port, enabled });
            }
        }
    }
}
