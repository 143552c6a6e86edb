//! The history: every verdict, every event and the links' states, in one SQLite file.
//!
//! A verdict is acknowledged to who sent it only when [`History::commit`] has returned: the file then has it,
//! whatever happens to this process (write-ahead log, a sync per commit). A verdict that comes again is known
//! by its stream and number ([`crate::seen`]) and written once. What was committed together lies in one row
//! per stream ([`codec`]), so that ten thousand verdicts a second are some hundred rows. Readers have a
//! connection of their own ([`read`]) and wait for nobody.

pub mod codec;
pub mod read;
mod retain;

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::verdict::WindowVerdict;
use detector::{Fabric, Link};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::core::Event;
use crate::seen::Seen;
use crate::standing::Standing;

pub use retain::Retention;

/// Version of the tables.
const SCHEMA: i64 = 1;
/// Streams that are remembered: each start of a switch is one.
const STREAMS_MAX: usize = 4096;

const TABLES: &str = "
create table if not exists meta (name text primary key, value integer not null) without rowid;
create table if not exists stream (
  id integer primary key, leaf text not null, boot integer not null, floor integer not null,
  used_ns integer not null, unique (leaf, boot));
create table if not exists verdicts (
  id integer primary key, stream integer not null, first integer not null, last integer not null,
  count integer not null, from_ns integer not null, to_ns integer not null, body blob not null);
create index if not exists verdicts_by_stream on verdicts (stream, last);
create index if not exists verdicts_by_time on verdicts (to_ns);
create table if not exists event (
  id integer primary key autoincrement, at_ns integer not null, kind text not null, link text not null,
  body text not null);
create index if not exists event_by_time on event (at_ns);
create index if not exists event_by_link on event (link, id);
create table if not exists standing (link text primary key, body text not null) without rowid;
";

/// One start of one switch: its verdicts are numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// Name of the switch, or of the process that has several.
    pub leaf: Arc<str>,
    /// Drawn at its start.
    pub boot: u64,
}

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// SQLite says no.
    #[error("history {}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: rusqlite::Error,
    },
    /// The file cannot be used.
    #[error("history {}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why, and the cure.
        what: String,
    },
}

/// What a history knew when it was opened.
#[derive(Debug, Default)]
pub struct Restored {
    /// Links' states.
    pub standings: Vec<(Link, Standing)>,
    /// The verdicts of the last horizon, by time.
    pub recent: Vec<WindowVerdict>,
}

/// The open file; one process at a time.
#[derive(Debug)]
pub struct History {
    db: Connection,
    path: PathBuf,
    streams: BTreeMap<Stream, (i64, Seen)>,
    verdicts: u64,
    /// Held as long as the history is open.
    _lock: File,
}

impl History {
    /// Opens or makes the file of a fabric. Verdicts since `recent_ns` come back, for the localizer.
    ///
    /// # Errors
    /// When another process has it, it is of another fabric or version, or cannot be written.
    pub fn open(
        path: &Path,
        fabric: Fabric,
        recent_ns: u64,
    ) -> Result<(History, Restored), HistoryError> {
        let file = |what: String| HistoryError::File {
            path: path.to_owned(),
            what,
        };
        let sqlite = |source| HistoryError::Sqlite {
            path: path.to_owned(),
            source,
        };
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder)
                .map_err(|error| file(format!("cannot make its folder: {error}")))?;
        }
        let lock = File::create(path.with_extension("lock"))
            .map_err(|error| file(format!("cannot make its lock: {error}")))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let what = "another monitor has it; stop that one, or name another file";
                return Err(file(what.to_owned()));
            }
            Err(TryLockError::Error(error)) => {
                return Err(file(format!("cannot lock it: {error}")));
            }
        }
        let db = Connection::open(path).map_err(sqlite)?;
        prepare(&db).map_err(sqlite)?;
        for (name, wanted) in [
            ("schema", SCHEMA),
            ("leaves", i64::from(fabric.leaves)),
            ("spines", i64::from(fabric.spines)),
        ] {
            let found = meta(&db, name, wanted).map_err(sqlite)?;
            if found != wanted {
                return Err(file(format!(
                    "its {name} is {found} and not {wanted}; it is of another fabric or version: name another file"
                )));
            }
        }
        let mut history = History {
            db,
            path: path.to_owned(),
            streams: BTreeMap::new(),
            verdicts: 0,
            _lock: lock,
        };
        let restored = history.restore(recent_ns).map_err(sqlite)?;
        Ok((history, restored))
    }

    /// Writes verdicts that are not there yet, and gives those back. When this returns, they are kept.
    ///
    /// # Errors
    /// What SQLite says; then none of them is kept, and the same call may be made again.
    pub fn commit(
        &mut self,
        batch: Vec<(Stream, WindowVerdict)>,
        now_ns: u64,
    ) -> Result<Vec<WindowVerdict>, HistoryError> {
        self.write(batch, now_ns)
            .map_err(|source| HistoryError::Sqlite {
                path: self.path.clone(),
                source,
            })
    }

    /// Writes events, which get their numbers, and the states of links as they are then.
    ///
    /// # Errors
    /// What SQLite says; then nothing is kept.
    pub fn record(
        &mut self,
        events: &mut [Event],
        standings: &[(Link, Standing)],
    ) -> Result<(), HistoryError> {
        self.write_events(events, standings)
            .map_err(|source| HistoryError::Sqlite {
                path: self.path.clone(),
                source,
            })
    }

    /// The number from which on a stream is still to come.
    pub fn floor(&self, stream: &Stream) -> u64 {
        self.streams.get(stream).map_or(1, |(_, seen)| seen.floor())
    }

    /// That of every stream.
    pub fn floors(&self) -> BTreeMap<Stream, u64> {
        let streams = self.streams.iter();
        streams
            .map(|(stream, (_, seen))| (stream.clone(), seen.floor()))
            .collect()
    }

    /// Keeps up to which event an outlet has told.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn delivered(&mut self, outlet: &str, event: u64) -> Result<(), HistoryError> {
        let written = (self.db)
            .prepare_cached("insert or replace into meta values (?, ?)")
            .and_then(|mut write| write.execute(params![outlet, event as i64]));
        written.map(drop).map_err(|source| HistoryError::Sqlite {
            path: self.path.clone(),
            source,
        })
    }

    /// Verdicts below `oldest` will not come: the switch no longer keeps them. How many those are.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn skip_to(
        &mut self,
        stream: &Stream,
        oldest: u64,
        now_ns: u64,
    ) -> Result<u64, HistoryError> {
        if oldest <= self.floor(stream) {
            return Ok(0);
        }
        let explain = |source| HistoryError::Sqlite {
            path: self.path.clone(),
            source,
        };
        let tx = self.db.transaction().map_err(explain)?;
        let (id, mut seen) = match self.streams.get(stream) {
            Some((id, seen)) => (*id, seen.clone()),
            None => (
                insert_stream(&tx, stream, now_ns).map_err(explain)?,
                Seen::default(),
            ),
        };
        let lost = seen.skip_to(oldest);
        update_stream(&tx, id, &seen, now_ns).map_err(explain)?;
        tx.commit().map_err(explain)?;
        self.streams.insert(stream.clone(), (id, seen));
        Ok(lost)
    }

    /// Verdicts written since the file was made.
    pub fn verdicts(&self) -> u64 {
        self.verdicts
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn restore(&mut self, recent_ns: u64) -> rusqlite::Result<Restored> {
        let mut restored = Restored::default();
        let mut streams = BTreeMap::new();
        {
            let mut rows = self
                .db
                .prepare("select id, leaf, boot, floor from stream")?;
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                let (id, leaf): (i64, String) = (row.get(0)?, row.get(1)?);
                let (boot, floor): (i64, i64) = (row.get(2)?, row.get(3)?);
                let stream = Stream {
                    leaf: leaf.into(),
                    boot: boot as u64,
                };
                streams.insert(stream, (id, floor as u64));
            }
        }
        for (stream, (id, floor)) in streams {
            let mut chunks = (self.db)
                .prepare_cached("select body from verdicts where stream = ? and last >= ?")?;
            let mut rows = chunks.query(params![id, floor as i64])?;
            let mut early = Vec::new();
            while let Some(row) = rows.next()? {
                let body = codec::read(row.get_ref(0)?.as_blob()?);
                early.extend(body.iter().map(|v| v.seq).filter(|&seq| seq >= floor));
            }
            self.streams.insert(stream, (id, Seen::from(floor, early)));
        }
        let mut chunks =
            (self.db).prepare("select body from verdicts where to_ns >= ? order by to_ns")?;
        let mut rows = chunks.query([recent_ns as i64])?;
        while let Some(row) = rows.next()? {
            let body = codec::read(row.get_ref(0)?.as_blob()?).into_iter();
            (restored.recent).extend(body.filter(|verdict| verdict.at_ns >= recent_ns));
        }
        drop(rows);
        drop(chunks);
        restored.standings = read::standings(&self.db)?;
        self.verdicts = meta(&self.db, "verdicts", 0)? as u64;
        Ok(restored)
    }

    fn write(
        &mut self,
        batch: Vec<(Stream, WindowVerdict)>,
        now_ns: u64,
    ) -> rusqlite::Result<Vec<WindowVerdict>> {
        let tx = self.db.transaction()?;
        let mut touched: BTreeMap<Stream, (i64, Seen, Vec<WindowVerdict>)> = BTreeMap::new();
        for (stream, verdict) in batch {
            let (_, seen, fresh) = match touched.entry(stream) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    let known = self.streams.get(entry.key()).cloned();
                    let (id, seen) = match known {
                        Some(known) => known,
                        None => (insert_stream(&tx, entry.key(), now_ns)?, Seen::default()),
                    };
                    entry.insert((id, seen, Vec::new()))
                }
            };
            if seen.take(verdict.seq) {
                fresh.push(verdict);
            }
        }
        let mut added = 0;
        for (id, seen, fresh) in touched.values_mut() {
            update_stream(&tx, *id, seen, now_ns)?;
            fresh.sort_by_key(|verdict| verdict.seq);
            let (Some(first), Some(last)) = (fresh.first(), fresh.last()) else {
                continue;
            };
            let times = fresh.iter().map(|verdict| verdict.at_ns);
            let mut insert = tx.prepare_cached(
                "insert into verdicts (stream, first, last, count, from_ns, to_ns, body) values (?, ?, ?, ?, ?, ?, ?)",
            )?;
            insert.execute(params![
                *id,
                first.seq as i64,
                last.seq as i64,
                fresh.len() as i64,
                times.clone().min().unwrap_or(0) as i64,
                times.max().unwrap_or(0) as i64,
                codec::write(fresh),
            ])?;
            added += fresh.len() as u64;
        }
        let total = self.verdicts + added;
        tx.prepare_cached("insert or replace into meta values ('verdicts', ?)")?
            .execute([total as i64])?;
        tx.commit()?;
        self.verdicts = total;
        let mut all = Vec::with_capacity(added as usize);
        for (stream, (id, seen, fresh)) in touched {
            self.streams.insert(stream, (id, seen));
            all.extend(fresh);
        }
        if self.streams.len() > STREAMS_MAX {
            self.forget_streams()?;
        }
        Ok(all)
    }

    fn write_events(
        &mut self,
        events: &mut [Event],
        standings: &[(Link, Standing)],
    ) -> rusqlite::Result<()> {
        let tx = self.db.transaction()?;
        for event in events.iter_mut() {
            let mut insert = tx.prepare_cached(
                "insert into event (at_ns, kind, link, body) values (?, ?, ?, ?)",
            )?;
            event.id = 0;
            insert.execute(params![
                event.at_ns as i64,
                event.kind.name(),
                event.link.to_string(),
                json(event)?,
            ])?;
            event.id = tx.last_insert_rowid() as u64;
        }
        for (link, standing) in standings {
            tx.prepare_cached("insert or replace into standing (link, body) values (?, ?)")?
                .execute(params![link.to_string(), json(standing)?])?;
        }
        tx.commit()
    }

    /// Forgets the streams that were used longest ago.
    fn forget_streams(&mut self) -> rusqlite::Result<()> {
        let excess = (self.streams.len() - STREAMS_MAX / 2) as i64;
        let mut oldest = (self.db).prepare("select id from stream order by used_ns limit ?")?;
        let ids: Vec<i64> = oldest
            .query_map([excess], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        drop(oldest);
        self.db.execute(
            "delete from stream where id in (select id from stream order by used_ns limit ?)",
            [excess],
        )?;
        self.streams.retain(|_, (id, _)| !ids.contains(id));
        Ok(())
    }
}

/// What SQLite is told before anything else.
fn prepare(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "journal_mode", "wal")?;
    // A commit is on the disk when it returns: what is acknowledged survives a power failure too.
    db.pragma_update(None, "synchronous", "full")?;
    db.pragma_update(None, "wal_autocheckpoint", 4096)?;
    // The log is cut back to this after a checkpoint.
    db.pragma_update(None, "journal_size_limit", 64 << 20)?;
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.execute_batch(TABLES)
}

/// A number of the file itself, which is set to `default` if it is not there.
fn meta(db: &Connection, name: &str, default: i64) -> rusqlite::Result<i64> {
    let found = db
        .query_row("select value from meta where name = ?", [name], |row| {
            row.get(0)
        })
        .optional()?;
    match found {
        Some(value) => Ok(value),
        None => {
            db.execute(
                "insert into meta (name, value) values (?, ?)",
                params![name, default],
            )?;
            Ok(default)
        }
    }
}

fn insert_stream(tx: &Transaction<'_>, stream: &Stream, now_ns: u64) -> rusqlite::Result<i64> {
    tx.execute(
        "insert into stream (leaf, boot, floor, used_ns) values (?, ?, 1, ?)",
        params![&*stream.leaf, stream.boot as i64, now_ns as i64],
    )?;
    Ok(tx.last_insert_rowid())
}

fn update_stream(
    tx: &Transaction<'_>,
    id: i64,
    seen: &Seen,
    now_ns: u64,
) -> rusqlite::Result<usize> {
    tx.prepare_cached("update stream set floor = ?, used_ns = ? where id = ?")?
        .execute(params![seen.floor() as i64, now_ns as i64, id])
}

fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

#[cfg(test)]
#[path = "history/tests.rs"]
mod tests;
