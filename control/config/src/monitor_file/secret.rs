//! Secrets in files, which nobody but their owner may read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::ConfigError;

/// Shortest token of the monitor's own: 96 bits in base 64.
const TOKEN_MIN: usize = 16;

/// The text of a file that others than its owner must not read.
pub(super) fn read(key: &str, path: &Path) -> Result<String, ConfigError> {
    let wrong = |what: String| ConfigError::new(key, format!("{}: {what}", path.display()));
    let cannot = |error| wrong(format!("cannot be read: {error}"));
    let meta = std::fs::metadata(path).map_err(cannot)?;
    if meta.permissions().mode() & 0o077 != 0 {
        return Err(wrong("others may read it; chmod 600".to_owned()));
    }
    std::fs::read_to_string(path).map_err(cannot)
}

/// A word that another system has given: what goes into one line of a header.
pub(super) fn word(key: &str, path: &Path) -> Result<String, ConfigError> {
    let text = read(key, path)?;
    let word = text.trim();
    if word.is_empty() || !word.bytes().all(|b| b.is_ascii_graphic()) {
        let message = format!(
            "{}: it is no word of letters, digits and signs; write the secret alone into it",
            path.display()
        );
        return Err(ConfigError::new(key, message));
    }
    Ok(word.to_owned())
}

/// A token of the monitor's own.
pub(super) fn token(key: &str, path: &Path) -> Result<String, ConfigError> {
    let text = read(key, path)?;
    let token = text.trim();
    if token.len() < TOKEN_MIN || !token.bytes().all(|b| b.is_ascii_graphic()) {
        let message = format!(
            "{}: it is no token of {TOKEN_MIN} or more letters and digits; make one: openssl rand -hex 16",
            path.display()
        );
        return Err(ConfigError::new(key, message));
    }
    Ok(token.to_owned())
}
