//! How far a run is: one line that is rewritten on a terminal, few plain lines elsewhere. Always
//! on standard error, so that answers stay alone on standard output.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::log;

/// The narrowest terminal that is usual has 80.
const COLUMNS: usize = 79;

/// Shows progress until it is dropped.
pub(crate) struct Progress {
    is_silent: bool,
    is_terminal: bool,
    is_line_open: bool,
    shown: Option<(Instant, f64)>,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress {
            is_silent: false,
            is_terminal: std::io::stderr().is_terminal(),
            is_line_open: false,
            shown: None,
        }
    }

    /// Shows nothing: somebody else does.
    pub(crate) fn silent() -> Progress {
        Progress {
            is_silent: true,
            ..Progress::new()
        }
    }

    /// The run is at `percent` and does what `text` says.
    pub(crate) fn show(&mut self, percent: f64, text: &str) {
        if self.is_silent {
            return;
        }
        // Off a terminal a line every tenth, or every five seconds, is enough for a log.
        let is_due = self.shown.is_none_or(|(at, shown)| {
            percent >= shown + 10.0 || at.elapsed() >= Duration::from_secs(5)
        });
        let line = format!("{percent:3.0} %  {text}");
        if self.is_terminal && !log::is_json() {
            // A longer line would wrap, and its first part could not be rewritten.
            let line: String = line.chars().take(COLUMNS).collect();
            let _ = write!(std::io::stderr(), "\r\x1b[2K{line}");
            let _ = std::io::stderr().flush();
            self.is_line_open = true;
        } else if is_due {
            log::say(&line);
            self.shown = Some((Instant::now(), percent));
        }
    }

    /// Prints a line that stays.
    pub(crate) fn say(&mut self, line: &str) {
        if self.is_silent {
            return;
        }
        self.clear();
        log::say(line);
    }

    fn clear(&mut self) {
        if self.is_line_open {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
            let _ = std::io::stderr().flush();
            self.is_line_open = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
