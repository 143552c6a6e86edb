//! Questions to a history, on a connection that only reads.

use std::path::Path;

use detector::Link;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde_json::{Value, json};

use crate::core::{Event, Kind};
use crate::standing::{Standing, State};

/// Events that one answer has at most.
pub const EVENTS_MAX: usize = 1000;

/// Which events are asked for; all that is named must hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// At this time or later, in nanoseconds since 1970.
    pub since_ns: Option<u64>,
    /// With a number below this one: the next page.
    pub before: Option<u64>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// Of this link.
    pub link: Option<Link>,
    /// So many at most.
    pub limit: Option<usize>,
}

/// A connection that only reads.
#[derive(Debug)]
pub struct Reader(Connection);

impl Reader {
    /// Opens the file of a history.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn open(path: &Path) -> rusqlite::Result<Reader> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(std::time::Duration::from_secs(2))?;
        Ok(Reader(db))
    }

    /// Events, the latest first.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn events(&self, filter: &Filter) -> rusqlite::Result<Vec<Event>> {
        let mut text = "select id, body from event where 1".to_owned();
        let mut values: Vec<Sql> = Vec::new();
        let mut add = |condition: &str, value: Sql| {
            text.push_str(condition);
            values.push(value);
        };
        if let Some(since) = filter.since_ns {
            add(" and at_ns >= ?", Sql::from(since as i64));
        }
        if let Some(before) = filter.before {
            add(" and id < ?", Sql::from(before as i64));
        }
        if let Some(kind) = filter.kind {
            add(" and kind = ?", Sql::from(kind.name().to_owned()));
        }
        if let Some(link) = filter.link {
            add(" and link = ?", Sql::from(link.to_string()));
        }
        let limit = filter.limit.unwrap_or(EVENTS_MAX).min(EVENTS_MAX);
        add(" order by id desc limit ?", Sql::from(limit as i64));
        let mut query = self.0.prepare_cached(&text)?;
        let mut rows = query.query(rusqlite::params_from_iter(values))?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            events.extend(event_of(row)?);
        }
        Ok(events)
    }

    /// Events after a number, in their order.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn events_after(&self, id: u64) -> rusqlite::Result<Vec<Event>> {
        let text = "select id, body from event where id > ? order by id limit ?";
        let mut query = self.0.prepare_cached(text)?;
        let after = i64::try_from(id).unwrap_or(i64::MAX);
        let mut rows = query.query([after, EVENTS_MAX as i64])?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            events.extend(event_of(row)?);
        }
        Ok(events)
    }

    /// Up to which event an outlet has told; one that is new begins with what comes.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn delivered(&self, outlet: &str) -> rusqlite::Result<u64> {
        let known = (self
            .0
            .prepare_cached("select value from meta where name = ?")?)
        .query_row([outlet], |row| row.get::<_, i64>(0))
        .optional()?;
        let latest = || {
            let mut query = (self.0).prepare_cached("select coalesce(max(id), 0) from event")?;
            query.query_row([], |row| row.get::<_, i64>(0))
        };
        Ok(known.map_or_else(latest, Ok)? as u64)
    }

    /// The links of which something was told since then, or that are not well: what
    /// `spraycheck show links --since` prints.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn links_since(&self, since_ns: u64, now_ns: u64) -> rusqlite::Result<Vec<Value>> {
        let events = self.events(&Filter {
            since_ns: Some(since_ns),
            ..Filter::default()
        })?;
        let mut rows = Vec::new();
        for (link, standing) in standings(&self.0)? {
            let of_link = || events.iter().filter(|event| event.link == link);
            let is_bad = matches!(standing.state, State::Convicted | State::Suspect);
            let Some(age) = (of_link().next().is_some() || is_bad)
                .then(|| now_ns.saturating_sub(standing.since.0))
            else {
                continue;
            };
            let count = |kind| of_link().filter(|event| event.kind == kind).count();
            let worst = of_link()
                .map(|event| event.drop_rate)
                .fold(standing.rate, f64::max);
            rows.push(json!({
                "link": link, "state": standing.state, "for_s": age / 1_000_000_000, "drop_rate": standing.rate,
                "worst_rate": worst, "convicted": count(Kind::Convicted), "suspected": count(Kind::Suspected),
                "cleared": count(Kind::Cleared),
                "acknowledged": standing.acknowledged.map(|by| by.by),
            }));
        }
        Ok(rows)
    }
}

/// The event of a row of number and body; `None` if the body is none.
fn event_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Event>> {
    let id = row.get::<_, i64>(0)? as u64;
    let event = serde_json::from_str::<Event>(row.get_ref(1)?.as_str()?);
    Ok(event.ok().map(|event| Event { id, ..event }))
}

/// The links' states, as last written.
pub(super) fn standings(db: &Connection) -> rusqlite::Result<Vec<(Link, Standing)>> {
    let mut query = db.prepare("select link, body from standing")?;
    let mut rows = query.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let link = row.get_ref(0)?.as_str()?.parse::<Link>();
        let standing = serde_json::from_str(row.get_ref(1)?.as_str()?);
        if let (Ok(link), Ok(standing)) = (link, standing) {
            all.push((link, standing));
        }
    }
    all.sort_by_key(|(link, _): &(Link, Standing)| *link);
    Ok(all)
}
