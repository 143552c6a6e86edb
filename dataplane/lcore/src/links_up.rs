//! Which devices have their link, as one word that poll loops look at in every round.
//!
//! Who learns of a change (a driver's interrupt, or whoever asks drivers at intervals) writes it here
//! at once; an lcore sees the new version in its next round, before it receives or sends anything.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The links of all devices of a process.
#[derive(Debug)]
pub struct LinkWord {
    version: AtomicU64,
    up: Vec<AtomicBool>,
}

impl LinkWord {
    /// So many devices, all with their links.
    pub fn new(devices: usize) -> LinkWord {
        LinkWord {
            version: AtomicU64::new(0),
            up: (0..devices).map(|_| AtomicBool::new(true)).collect(),
        }
    }

    /// The link of a device is up or down.
    pub fn set(&self, device: usize, up: bool) {
        if self.up[device].swap(up, Ordering::AcqRel) != up {
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Changes with every change.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether a device has its link.
    pub fn is_up(&self, device: usize) -> bool {
        self.up[device].load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the version tells changes, and only changes.
    #[test]
    fn only_changes_are_told() {
        let links = LinkWord::new(2);
        links.set(1, true);
        assert_eq!(links.version(), 0);
        links.set(1, false);
        assert!(links.is_up(0) && !links.is_up(1));
        links.set(1, true);
        assert_eq!((links.version(), links.is_up(1)), (2, true));
    }
}
