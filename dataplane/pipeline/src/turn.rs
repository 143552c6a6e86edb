//! Whose turn it is to be measured: fair over destinations, then over host ports.
//!
//! The lowest destination that is available and not in `history` is next, and of the ports that
//! have a flow to it the one whose turn it is; history is cleared when no destination is left
//! (paper 3.4). Announced and found flows each have their own turns.

use crate::types::{LeafId, LeafSet, PortId};

/// Which destinations were covered lately, and by which port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    history: LeafSet,
    /// The port that was measured last.
    last_port: usize,
}

impl Turns {
    /// Forgets which destinations were covered.
    pub fn clear(&mut self) {
        self.history = LeafSet::EMPTY;
    }

    /// The next of those that are `available` (destinations by port) and that `is_ready` allows.
    pub fn next(
        &mut self,
        available: &[LeafSet],
        is_ready: impl Fn(usize, usize) -> bool,
    ) -> Option<(PortId, LeafId)> {
        let ports = available.len();
        let mut ready = LeafSet::EMPTY;
        for (port, leaves) in available.iter().enumerate() {
            for leaf in leaves.without(ready).iter() {
                if is_ready(port, leaf) {
                    ready.insert(leaf);
                }
            }
        }
        if ready.without(self.history).is_empty() {
            self.history = LeafSet::EMPTY;
        }
        let leaf = ready.without(self.history).lowest()?;
        let port = (1..=ports)
            .map(|step| (self.last_port + step) % ports)
            .find(|&port| available[port].has(leaf) && is_ready(port, leaf))?;
        Some((PortId(port as u16), LeafId(leaf as u16)))
    }

    /// The flow of `port` to `leaf` is measured now: others come first after it.
    pub fn take(&mut self, port: PortId, leaf: LeafId) {
        self.history.insert(leaf.index());
        self.last_port = port.index();
    }
}
