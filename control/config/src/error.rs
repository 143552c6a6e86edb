//! One error type for all that people write: which file and line, which key, what is wrong with
//! the value, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// A mistake in a configuration. Shown as `FILE:LINE: KEY: MESSAGE`, as far as each is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file it is in; `None` for flags.
    pub file: Option<PathBuf>,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The key, such as `port[2].mac`; empty when the mistake is in no single one.
    pub key: String,
    /// What is wrong, with the value, and the cure.
    pub message: String,
}

impl ConfigError {
    /// A mistake of `key` whose `message` names the value and the cure.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> ConfigError {
        ConfigError {
            file: None,
            line: None,
            key: key.into(),
            message: message.into(),
        }
    }

    /// The same mistake, in that file.
    #[must_use]
    pub fn in_file(mut self, file: &Path) -> ConfigError {
        self.file = Some(file.to_owned());
        self
    }

    /// The same mistake, on that line.
    #[must_use]
    pub fn on_line(mut self, line: Option<usize>) -> ConfigError {
        self.line = self.line.or(line);
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}: ", file.display())?,
            (Some(file), None) => write!(f, "{}: ", file.display())?,
            (None, Some(line)) => write!(f, "line {line}: ")?,
            (None, None) => {}
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// The one of `known` that `word` is probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&word, &candidate.to_lowercase()),
                candidate,
            )
        })
        // A third of its letters may be wrong: more is another word.
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a slip finds its word, and another word finds none.
    #[test]
    fn slips_are_recognized() {
        let known = ["link_rate", "host_rate", "leaves", "qps"];
        for (word, meant) in [
            ("linkrate", Some("link_rate")),
            ("link-rate", Some("link_rate")),
            ("leafs", Some("leaves")),
            ("Leaves", Some("leaves")),
            ("qp", Some("qps")),
            ("password", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }

    /// Goal: the message has the form that editors jump to.
    #[test]
    fn the_place_comes_first() {
        let error = ConfigError::new("queue.limit", "\"x\" is no size");
        assert_eq!(error.to_string(), "queue.limit: \"x\" is no size");
        let error = error.on_line(Some(7)).in_file(Path::new("leaf0.toml"));
        assert_eq!(
            error.to_string(),
            "leaf0.toml:7: queue.limit: \"x\" is no size"
        );
    }
}
