//! Which row of a fixed table belongs to which flow: hash buckets, chained through the rows.
//!
//! The destination leaf keeps what it counts in rows of that number; this file only gives numbers
//! out and takes them back. It allocates at start alone.

use packet::{Address, Qpn, Space};

use crate::types::FlowKey;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Slot {
    key: FlowKey,
    /// The next row of the same bucket, or of the free list.
    next: u32,
    in_use: bool,
}

/// Rows by flow.
pub struct FlowTable {
    slots: Vec<Slot>,
    buckets: Vec<u32>,
    free: u32,
}

impl FlowTable {
    /// A table of `rows` rows (at least one), all free.
    pub fn new(rows: usize) -> FlowTable {
        let key = FlowKey {
            source: Address(0),
            destination: Address(0),
            qpn: Qpn(0),
            space: Space::Requests,
        };
        let rows = rows.max(1);
        let slot = |index| Slot {
            key,
            next: if index + 1 == rows {
                NONE
            } else {
                index as u32 + 1
            },
            in_use: false,
        };
        FlowTable {
            slots: (0..rows).map(slot).collect(),
            buckets: vec![NONE; (rows * 2).next_power_of_two()],
            free: 0,
        }
    }

    /// Bytes of the table.
    pub fn state_bytes(&self) -> usize {
        size_of_val(&self.slots[..]) + size_of_val(&self.buckets[..])
    }

    /// Rows, free ones included.
    pub fn rows(&self) -> usize {
        self.slots.len()
    }

    /// Whether no row is free.
    pub fn is_full(&self) -> bool {
        self.free == NONE
    }

    /// The flow of `row`, if it has one.
    pub fn key(&self, row: usize) -> Option<&FlowKey> {
        let slot = self.slots.get(row)?;
        slot.in_use.then_some(&slot.key)
    }

    #[inline(always)]
    fn bucket(&self, key: &FlowKey) -> usize {
        (key.hash() >> 32) as usize & (self.buckets.len() - 1)
    }

    /// The row of `key`.
    #[inline(always)]
    pub fn find(&self, key: &FlowKey) -> Option<usize> {
        let mut at = self.buckets[self.bucket(key)];
        while let Some(slot) = self.slots.get(at as usize) {
            if slot.key == *key {
                return Some(at as usize);
            }
            at = slot.next;
        }
        None
    }

    /// Gives a free row, if there is one, to `key`, which has none.
    pub fn insert(&mut self, key: &FlowKey) -> Option<usize> {
        let row = self.free;
        let bucket = self.bucket(key);
        let slot = self.slots.get_mut(row as usize)?;
        self.free = slot.next;
        *slot = Slot {
            key: *key,
            next: self.buckets[bucket],
            in_use: true,
        };
        self.buckets[bucket] = row;
        Some(row as usize)
    }

    /// Takes `row`, which is in use, from its flow.
    pub fn release(&mut self, row: usize) {
        let Slot { key, next, .. } = self.slots[row];
        let bucket = self.bucket(&key);
        if self.buckets[bucket] == row as u32 {
            self.buckets[bucket] = next;
        } else {
            let mut at = self.buckets[bucket] as usize;
            while self.slots[at].next != row as u32 {
                at = self.slots[at].next as usize;
            }
            self.slots[at].next = next;
        }
        self.slots[row].in_use = false;
        self.slots[row].next = self.free;
        self.free = row as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Whatever is put in and taken out, the table agrees with a map, and rows are unique.
        #[test]
        fn agrees_with_a_map(moves in proptest::collection::vec((any::<bool>(), 0u32..24), 1..300)) {
            let mut table = FlowTable::new(16);
            let mut map: HashMap<u32, usize> = HashMap::new();
            let key = |n: u32| FlowKey {
                source: Address::v4(1), destination: Address::v4(2), qpn: Qpn(n), space: Space::Requests,
            };
            for (insert, n) in moves {
                prop_assert_eq!(table.find(&key(n)), map.get(&n).copied());
                match (insert, map.contains_key(&n)) {
                    (true, false) => {
                        let row = table.insert(&key(n));
                        prop_assert_eq!(row.is_some(), map.len() < 16);
                        if let Some(row) = row {
                            prop_assert!(map.values().all(|&other| other != row));
                            map.insert(n, row);
                        }
                    }
                    (false, true) => table.release(map.remove(&n).unwrap_or_default()),
                    (true, true) | (false, false) => {}
                }
                prop_assert_eq!(table.is_full(), map.len() == 16);
                prop_assert!(map.iter().all(|(&n, &row)| table.key(row) == Some(&key(n))));
            }
        }
    }
}
