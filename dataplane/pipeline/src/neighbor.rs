//! Which MAC address a learned host has: one bounded table per host port.
//!
//! A port's entries lie in a region of their own, so no port can take another's; within a port, an
//! entry is given up only when it is unanswered or has aged, never while it is in use, and those of
//! configured hosts never. Entries are found by one hash over all ports.
//!
//! An entry lives like in RFC 4861, 7.3: fresh; after its age still used but asked again; after
//! three asks without an answer unknown.

use packet::{Address, MacAddr};

use crate::config::NeighborConfig;
use crate::types::{Nanos, mix};

const NONE: u32 = u32::MAX;
/// Asks without an answer until an aged entry is forgotten (RFC 4861: MAX_UNICAST_SOLICIT).
const ASKS_MAX: u8 = 3;
/// Entries that are looked at for one to give up: a full table must not cost a scan per packet.
const LOOKS_MAX: usize = 8;

#[derive(Clone, Copy)]
struct Entry {
    address: Address,
    mac: Option<MacAddr>,
    /// Configured: its place is kept, whether it is answered or not.
    is_pinned: bool,
    asks: u8,
    /// When the MAC address was last told.
    told_at: Nanos,
    /// When it was last asked for.
    asked_at: Nanos,
    next: u32,
}

impl Entry {
    fn neighbor(&self) -> Neighbor {
        Neighbor {
            address: self.address,
            mac: self.mac,
            told_at: self.told_at,
        }
    }
}

/// The part of the table that belongs to one port.
#[derive(Clone, Copy)]
struct Region {
    start: u32,
    size: u32,
    used: u32,
    hand: u32,
}

/// A neighbour, as others see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbor {
    /// Its address.
    pub address: Address,
    /// Its MAC address; `None`: it was asked for and has not answered.
    pub mac: Option<MacAddr>,
    /// When it has told that.
    pub told_at: Nanos,
}

/// What is to be done to reach a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Its MAC address, if it is known.
    pub mac: Option<MacAddr>,
    /// Whether to ask for it now.
    pub ask: bool,
}

/// What became of an address that was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Learned {
    /// It is in the table.
    Known,
    /// The port's part of the table is full of entries in use.
    Full,
}

/// The neighbours of all host ports.
pub struct Neighbors {
    entries: Vec<Entry>,
    regions: Vec<Region>,
    buckets: Vec<u32>,
    age_ns: u64,
    ask_ns: u64,
}

impl Neighbors {
    /// Room for each of `ports`: the addresses that are configured there, and whether it has a
    /// prefix of its own, so that others are learned as well.
    pub fn new<'a>(
        config: &NeighborConfig,
        ports: impl Iterator<Item = (&'a [Address], bool)>,
    ) -> Neighbors {
        let blank = Entry {
            address: Address(0),
            mac: None,
            is_pinned: false,
            asks: 0,
            told_at: Nanos(0),
            asked_at: Nanos(0),
            next: NONE,
        };
        let mut table = Neighbors {
            entries: Vec::new(),
            regions: Vec::new(),
            buckets: Vec::new(),
            age_ns: config.age_ns,
            ask_ns: config.ask_ns,
        };
        let mut pinned = Vec::new();
        for (port, (addresses, has_prefix)) in ports.enumerate() {
            let learned = if has_prefix { config.per_port_max } else { 0 };
            let size = addresses.len() as u32 + learned;
            let start = table.entries.len() as u32;
            table
                .entries
                .resize(table.entries.len() + size as usize, blank);
            table.regions.push(Region {
                start,
                size,
                used: 0,
                hand: 0,
            });
            pinned.extend(addresses.iter().map(|&address| (port, address)));
        }
        table.buckets = vec![NONE; (table.entries.len() * 2).next_power_of_two()];
        for (port, address) in pinned {
            if let Some(at) = table.place(Nanos(0), port, address, true) {
                table.entries[at].is_pinned = true;
            }
        }
        table
    }

    #[inline(always)]
    fn bucket(&self, address: Address) -> usize {
        let hash = mix(&[address.0 as u64, (address.0 >> 64) as u64]);
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    fn find(&self, address: Address) -> Option<usize> {
        let mut at = self.buckets[self.bucket(address)];
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.address == address {
                return Some(at as usize);
            }
            at = entry.next;
        }
        None
    }

    fn unlink(&mut self, at: usize) {
        let bucket = self.bucket(self.entries[at].address);
        let next = self.entries[at].next;
        if self.buckets[bucket] == at as u32 {
            self.buckets[bucket] = next;
            return;
        }
        let mut before = self.buckets[bucket] as usize;
        while self.entries[before].next != at as u32 {
            before = self.entries[before].next as usize;
        }
        self.entries[before].next = next;
    }

    /// Makes room for `address`, which has none: unused, or that of one which may be given up.
    /// An unanswered one gives way to one that is told at once, to another unanswered one only
    /// after its time.
    fn place(&mut self, now: Nanos, port: usize, address: Address, is_told: bool) -> Option<usize> {
        let region = self.regions[port];
        let at = if region.used < region.size {
            self.regions[port].used += 1;
            (region.start + region.used) as usize
        } else {
            let at = self.spare(now, port, is_told)?;
            self.unlink(at);
            at
        };
        let bucket = self.bucket(address);
        self.entries[at] = Entry {
            address,
            mac: None,
            is_pinned: false,
            asks: 0,
            told_at: now,
            asked_at: Nanos(0),
            next: self.buckets[bucket],
        };
        self.buckets[bucket] = at as u32;
        Some(at)
    }

    fn spare(&mut self, now: Nanos, port: usize, is_told: bool) -> Option<usize> {
        let (age_ns, ask_ns) = (self.age_ns, self.ask_ns);
        let region = &mut self.regions[port];
        for _ in 0..LOOKS_MAX.min(region.size as usize) {
            let at = (region.start + region.hand) as usize;
            region.hand = if region.hand + 1 == region.size {
                0
            } else {
                region.hand + 1
            };
            let entry = &self.entries[at];
            let is_over = match entry.mac {
                Some(_) => now >= entry.told_at.plus(age_ns),
                None => is_told || now >= entry.asked_at.plus(ask_ns),
            };
            if is_over && !entry.is_pinned {
                return Some(at);
            }
        }
        None
    }

    /// The host behind `port` with that address has told its MAC address.
    pub fn learn(&mut self, now: Nanos, port: usize, address: Address, mac: MacAddr) -> Learned {
        let found = self.find(address);
        let Some(at) = found.or_else(|| self.place(now, port, address, true)) else {
            return Learned::Full;
        };
        let entry = &mut self.entries[at];
        entry.mac = Some(mac);
        entry.told_at = now;
        entry.asks = 0;
        Learned::Known
    }

    /// The neighbours that have told their MAC addresses, with their ports.
    pub fn known(&self) -> impl Iterator<Item = (usize, Neighbor)> {
        let regions = self.regions.iter().enumerate();
        regions.flat_map(|(port, region)| {
            let used = region.start as usize..(region.start + region.used) as usize;
            let known = self.entries[used].iter().filter(|e| e.mac.is_some());
            known.map(move |entry| (port, entry.neighbor()))
        })
    }

    /// Those from place `from` on, up to `room` of all places, and those that have not answered as
    /// well; the place that is next, if there is one.
    pub fn list(
        &self,
        from: usize,
        room: usize,
        mut take: impl FnMut(usize, Neighbor),
    ) -> Option<usize> {
        let end = self.entries.len().min(from.saturating_add(room));
        for at in from..end {
            let owner =
                |region: &Region| (region.start..region.start + region.used).contains(&(at as u32));
            if let Some(port) = self.regions.iter().position(owner) {
                take(port, self.entries[at].neighbor());
            }
        }
        (end < self.entries.len()).then_some(end)
    }

    /// Takes over a neighbour that another table has known, with its age.
    pub fn restore(&mut self, now: Nanos, port: usize, neighbor: Neighbor) {
        let Some(mac) = neighbor.mac else { return };
        if self.learn(now, port, neighbor.address, mac) == Learned::Known
            && let Some(at) = self.find(neighbor.address)
        {
            self.entries[at].told_at = neighbor.told_at;
        }
    }

    /// The MAC address that `address` has, and until when it need not be asked for again.
    pub fn fresh(&self, address: Address) -> Option<(MacAddr, Nanos)> {
        let entry = &self.entries[self.find(address)?];
        Some((entry.mac?, entry.told_at.plus(self.age_ns)))
    }

    /// How to reach `address` behind `port` now. An ask that is told to be made counts as made.
    #[inline]
    pub fn way(&mut self, now: Nanos, port: usize, address: Address) -> Way {
        let found = self.find(address);
        let Some(at) = found.or_else(|| self.place(now, port, address, false)) else {
            // No room even to remember that it was asked for: it is not.
            return Way {
                mac: None,
                ask: false,
            };
        };
        let entry = &mut self.entries[at];
        if entry.mac.is_some() && now < entry.told_at.plus(self.age_ns) {
            return Way {
                mac: entry.mac,
                ask: false,
            };
        }
        let is_first = entry.asks == 0;
        let is_due = is_first || now >= entry.asked_at.plus(self.ask_ns);
        if is_due {
            if entry.asks >= ASKS_MAX {
                entry.mac = None;
            }
            entry.asks = entry.asks.saturating_add(1).min(ASKS_MAX);
            entry.asked_at = now;
        }
        Way {
            mac: entry.mac,
            ask: is_due,
        }
    }
}

#[cfg(test)]
mod tests;
