//! Links as people see them.

use agent::verdict::WindowVerdict;
use detector::localize::Missing;
use detector::{LeafId, Link, Nanos};
use serde::Serialize;

use super::{Core, Record};
use crate::coverage::Covered;
use crate::series::Point;
use crate::standing::{Acknowledgement, State};

/// A link as people see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The link.
    pub link: Link,
    /// Its state.
    pub state: State,
    /// Since when, in nanoseconds since 1970.
    pub since_ns: u64,
    /// Loss rate, if accused.
    pub drop_rate: f64,
    /// Its 95 % interval, of a conviction.
    pub ci95: Option<[f64; 2]>,
    /// What a suspicion lacks.
    pub missing: Option<Missing>,
    /// Failed paths of a conviction.
    pub paths: u32,
    /// Its measuring.
    pub covered: Covered,
    /// Convictions that are remembered.
    pub convictions: usize,
    /// Who has seen the conviction.
    pub acknowledged: Option<Acknowledgement>,
}

impl Core {
    /// A link as people see it.
    ///
    /// # Errors
    /// A link that the fabric does not have.
    pub fn row(&self, link: Link, now: Nanos) -> Result<Row, String> {
        let record = &self.links[self.index(link)?];
        let standing = &record.standing;
        let is_convicted = standing.state == State::Convicted;
        let missing = record.missing.filter(|_| standing.state == State::Suspect);
        Ok(Row {
            link,
            state: standing.state,
            since_ns: standing.since.0,
            drop_rate: standing.rate,
            ci95: is_convicted.then_some(standing.ci95),
            missing,
            paths: (record.conviction)
                .filter(|_| is_convicted)
                .map_or(0, |c| c.paths),
            covered: (record.coverage).at(now, self.rules.localization.horizon),
            convictions: standing.convictions.len(),
            acknowledged: standing.acknowledged.clone(),
        })
    }

    /// All links, in [`Link`]'s order.
    pub fn rows(&self, now: Nanos) -> Vec<Row> {
        let links = self.rules.localization.fabric.all_links();
        links.filter_map(|link| self.row(link, now).ok()).collect()
    }

    /// The links that may look different since this was last called. Of the others only the coverage may have changed.
    pub fn take_changed(&mut self) -> Vec<Link> {
        let links = self.rules.localization.fabric.all_links();
        let changed = links
            .zip(&self.changed)
            .filter(|(_, is)| **is)
            .map(|(link, _)| link)
            .collect();
        self.changed.fill(false);
        changed
    }

    /// A link's measurements over time, oldest first.
    ///
    /// # Errors
    /// A link that the fabric does not have.
    pub fn series(&self, link: Link) -> Result<Vec<Point>, String> {
        Ok(self.links[self.index(link)?].series.points())
    }

    /// The latest verdicts of the leaf pairs whose paths lead over the link, by its far leaf.
    pub fn evidence(&self, link: Link) -> Vec<&WindowVerdict> {
        let is_over = |pair: &(LeafId, LeafId)| match link {
            Link::Up { leaf, .. } => pair.0 == leaf,
            Link::Down { leaf, .. } => pair.1 == leaf,
        };
        (self.latest.iter())
            .filter(|(pair, _)| is_over(pair))
            .map(|(_, verdict)| verdict)
            .collect()
    }

    /// How many links are in each state, in the order of [`State::ALL`].
    pub fn states(&self) -> [(State, u64); 5] {
        State::ALL.map(|state| {
            let is = |record: &&Record| record.standing.state == state;
            (state, self.links.iter().filter(is).count() as u64)
        })
    }
}
