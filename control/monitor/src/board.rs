//! All links as people see them, with the text of `/api/links` kept ready.
//!
//! Links lie in parts of 128, and a part is made anew as a whole: at once when a link in it may look different, and in
//! turn for what changes with every verdict, its coverage. So an answer copies nothing and waits for nobody, and making it
//! ready costs the same however often it is asked for. Who reads keeps the parts that it began with.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Bytes;
use detector::Link;

use crate::core::Row;
use crate::standing::State;

/// Links of a part: some 50 kB of text, written in a fraction of a millisecond.
const PART: usize = 128;

/// Some links that follow each other.
#[derive(Debug)]
struct Part {
    rows: Vec<Row>,
    /// The rows as JSON, with a comma before each but the fabric's first.
    text: Bytes,
}

/// All links, as they were published together.
#[derive(Clone, Debug, Default)]
pub struct Links(Arc<[Arc<Part>]>);

impl Links {
    /// The links, in [`Link`]'s order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.0.iter().flat_map(|part| &part.rows)
    }

    /// The same as the items of a JSON array, in pieces.
    pub fn text(&self) -> impl Iterator<Item = Bytes> {
        self.0.iter().map(|part| part.text.clone())
    }
}

/// What the engine keeps and publishes.
#[derive(Debug)]
pub(crate) struct Board {
    parts: Vec<Arc<Part>>,
    /// Links that look different and have not been told.
    untold: BTreeSet<Link>,
    /// The part whose turn is next.
    turn: usize,
}

impl Board {
    /// All links of a fabric, in [`Link`]'s order.
    pub(crate) fn new(rows: &[Row]) -> Board {
        let parts = rows.chunks(PART).enumerate();
        let parts = parts.map(|(place, rows)| Arc::new(Part::new(rows.to_vec(), place == 0)));
        Board {
            parts: parts.collect(),
            untold: BTreeSet::new(),
            turn: 0,
        }
    }

    /// How many turns make everything anew.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Makes the part whose turn it is anew, from the rows as they are now.
    pub(crate) fn turn(&mut self, row: impl Fn(Link) -> Option<Row>) {
        self.renew(self.turn, row);
        self.turn = (self.turn + 1) % self.parts.len().max(1);
    }

    /// Makes the parts anew in which these links are.
    pub(crate) fn change(&mut self, links: &[Link], row: impl Fn(Link) -> Option<Row>) {
        let parts: BTreeSet<usize> = links
            .iter()
            .filter_map(|&link| self.part_of(link))
            .collect();
        for part in parts {
            self.renew(part, &row);
        }
    }

    /// As it is now, for those who read.
    pub(crate) fn links(&self) -> Links {
        Links(self.parts.as_slice().into())
    }

    /// The links that look different since this was last called.
    pub(crate) fn take_untold(&mut self) -> Vec<Row> {
        let untold = std::mem::take(&mut self.untold);
        let row = |link| {
            let part = &self.parts[self.part_of(link)?];
            let place = part.rows.binary_search_by_key(&link, |row| row.link);
            place.ok().map(|place| part.rows[place].clone())
        };
        untold.into_iter().filter_map(row).collect()
    }

    fn part_of(&self, link: Link) -> Option<usize> {
        let begins = |part: &Arc<Part>| part.rows.first().is_some_and(|row| row.link <= link);
        self.parts.partition_point(begins).checked_sub(1)
    }

    fn renew(&mut self, place: usize, row: impl Fn(Link) -> Option<Row>) {
        let Some(part) = self.parts.get_mut(place) else {
            return;
        };
        let new = |old: &Row| row(old.link).unwrap_or_else(|| old.clone());
        let rows: Vec<Row> = part.rows.iter().map(new).collect();
        if rows == part.rows {
            return;
        }
        let pairs = part.rows.iter().zip(&rows);
        let different = pairs.filter(|(old, new)| looks_different(old, new));
        self.untold.extend(different.map(|(_, new)| new.link));
        *part = Arc::new(Part::new(rows, place == 0));
    }
}

impl Part {
    fn new(rows: Vec<Row>, is_first: bool) -> Part {
        let mut text = Vec::with_capacity(512 * rows.len());
        for (place, row) in rows.iter().enumerate() {
            if place > 0 || !is_first {
                text.push(b',');
            }
            // Plain numbers and names, into memory: it does not fail.
            let _ = serde_json::to_writer(&mut text, row);
        }
        Part {
            rows,
            text: text.into(),
        }
    }
}

/// Whether two rows look different: state, rate to three digits, acknowledgement.
fn looks_different(a: &Row, b: &Row) -> bool {
    let digits = |rate: f64| format!("{rate:.2e}");
    a.state != b.state
        || a.acknowledged != b.acknowledged
        || a.missing != b.missing
        || (a.state != State::Healthy && digits(a.drop_rate) != digits(b.drop_rate))
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
