//! What a history forgets: what is too old, and the oldest of what is too much.

use detector::Nanos;
use rusqlite::params;

use super::{History, HistoryError};

/// How long and how much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Verdicts are kept for so long.
    pub verdicts: Nanos,
    /// Events are kept for so long.
    pub events: Nanos,
    /// Bytes of the file in use, beyond which the oldest verdicts go.
    pub bytes_max: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        let day = 86_400_000_000_000;
        Retention {
            verdicts: Nanos(day),
            events: Nanos(90 * day),
            bytes_max: 4 << 30,
        }
    }
}

/// Rows that one step deletes at most: the writer is held up for a moment only.
const STEP_ROWS: i64 = 512;

impl History {
    /// Forgets a step's worth; true if there is more to forget.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn retain(&mut self, now: Nanos, keep: &Retention) -> Result<bool, HistoryError> {
        let step = |history: &History| -> rusqlite::Result<bool> {
            let db = &history.db;
            let before = |age: Nanos| now.0.saturating_sub(age.0) as i64;
            let old = db.execute(
                "delete from verdicts where id in (select id from verdicts where to_ns < ? order by to_ns limit ?)",
                params![before(keep.verdicts), STEP_ROWS],
            )?;
            let events = db.execute(
                "delete from event where id in (select id from event where at_ns < ? order by at_ns limit ?)",
                params![before(keep.events), STEP_ROWS],
            )?;
            let much = if history.bytes()? > keep.bytes_max {
                db.execute(
                    "delete from verdicts where id in (select id from verdicts order by to_ns limit ?)",
                    [STEP_ROWS],
                )?
            } else {
                0
            };
            Ok((old + much + events) as i64 >= STEP_ROWS)
        };
        step(self).map_err(|source| HistoryError::Sqlite {
            path: self.path.clone(),
            source,
        })
    }

    /// Bytes of the file that are in use.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn bytes(&self) -> rusqlite::Result<u64> {
        let pragma = |name: &str| {
            self.db
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
        };
        let pages = pragma("page_count")? - pragma("freelist_count")?;
        Ok((pages * pragma("page_size")?).max(0) as u64)
    }
}
