//! What ports are made of: patterns in which `{switch}`, `{port}`, `{leaf}`, `{spine}` and `{host}` are
//! filled in for each.

use crate::error::{ConfigError, nearest};

/// What is known of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    /// Role of its switch: `leaf0`.
    pub(super) switch: &'a str,
    /// Its own name: `up1`.
    pub(super) port: &'a str,
    /// The leaf of its cable.
    pub(super) leaf: u16,
    /// The spine of its cable, if it is one between switches.
    pub(super) spine: Option<u16>,
    /// The host of its cable, counted at its leaf, if it is a host's.
    pub(super) host: Option<u16>,
}

/// The device of a port.
pub(super) fn fill(pattern: &str, names: Names<'_>, key: &str) -> Result<String, ConfigError> {
    let wrong = |message: String| Err(ConfigError::new(key, message));
    let mut filled = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            return wrong(format!("\"{pattern}\" has a {{ without its }}; close it"));
        };
        let (leaf, spine) = (names.leaf.to_string(), names.spine.map(|n| n.to_string()));
        let host = names.host.map(|n| n.to_string());
        let known = [
            ("switch", Some(names.switch)),
            ("port", Some(names.port)),
            ("leaf", Some(leaf.as_str())),
            ("spine", spine.as_deref()),
            ("host", host.as_deref()),
        ];
        match known.iter().find(|(known, _)| *known == name) {
            Some((_, Some(value))) => filled.push_str(value),
            Some((_, None)) => {
                let (other, has) = if name == "spine" {
                    ("host", "a cable to a host has no spine")
                } else {
                    ("spine", "a cable between switches has no host")
                };
                return wrong(format!(
                    "\"{pattern}\": {has}; take {{{name}}} out, or write {{{other}}}"
                ));
            }
            None => {
                let words = known.map(|(word, _)| word);
                let meant = match nearest(name, words) {
                    Some(meant) => format!("did you mean {{{meant}}}?"),
                    None => "write {switch}, {port}, {leaf}, {spine} or {host}".to_owned(),
                };
                return wrong(format!("\"{pattern}\" has {{{name}}}; {meant}"));
            }
        }
        rest = behind;
    }
    if rest.contains('}') {
        return wrong(format!("\"{pattern}\" has a }} without its {{; open it"));
    }
    filled.push_str(rest);
    Ok(filled)
}
