//! TOML with places: values of a type, or an error that names line and key.
//!
//! The TOML reader knows where a value of the wrong form is, but not what its key is called; a
//! check that comes later knows the key, but not the line. Both are found here, by walking the
//! document a second time. Only mistakes pay for it.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use crate::error::{ConfigError, nearest};

/// Flags whose key has another name: a list of faults is no order to fail.
const SYNONYMS: &[(&str, &str)] = &[("fail", "faults"), ("disable", "disabled")];

/// Reads `text` into a `T`, whose unknown keys are refused with the key probably meant.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let span = error.span();
        let key = span
            .clone()
            .and_then(|span| key_at(text, &span))
            .unwrap_or_default();
        let line = span.map(|span| line_at(text, span.start));
        ConfigError::new(key, explain(error.message())).on_line(line)
    })
}

/// The line, from 1, of the value with that key (such as `port[2].mac`); of the table that lacks
/// it, if the last part is missing.
pub(crate) fn line_of(text: &str, key: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut at = None;
    walk(document.get_ref(), "", &mut |path, span| {
        let is_owner = key
            .strip_prefix(path)
            .is_some_and(|rest| rest.starts_with(['.', '[']));
        if path == key || is_owner {
            at = Some(span.start);
        }
    });
    at.map(|at| line_at(text, at))
}

/// Whether the document has one of these keys at its top. A text that is no TOML has none.
pub(crate) fn has_any(text: &str, keys: &[&str]) -> bool {
    let (document, _) = DeTable::parse_recoverable(text);
    document
        .get_ref()
        .keys()
        .any(|name| keys.contains(&name.get_ref().as_ref()))
}

/// The key of the innermost value around `span`.
fn key_at(text: &str, span: &Range<usize>) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let mut found = None;
    walk(document.get_ref(), "", &mut |path, value| {
        if value.start <= span.start && span.end <= value.end {
            found = Some(path.to_owned());
        }
    });
    found
}

/// Visits every key with the span from its name to the end of its value, outer before inner.
fn walk(table: &DeTable<'_>, prefix: &str, visit: &mut dyn FnMut(&str, Range<usize>)) {
    for (name, value) in table {
        let path = match prefix {
            "" => name.get_ref().to_string(),
            prefix => format!("{prefix}.{}", name.get_ref()),
        };
        visit(
            &path,
            name.span().start..value.span().end.max(name.span().end),
        );
        walk_value(value.get_ref(), &path, visit);
    }
}

fn walk_value(value: &DeValue<'_>, path: &str, visit: &mut dyn FnMut(&str, Range<usize>)) {
    if let DeValue::Table(table) = value {
        walk(table, path, visit);
    }
    if let DeValue::Array(items) = value {
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            visit(&path, item.span());
            walk_value(item.get_ref(), &path, visit);
        }
    }
}

fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}

/// The reader's message in our words. Serde words an unknown key as "unknown field `a`, expected
/// one of `b`, `c`"; other messages are good as they are.
fn explain(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field")
        && let Some(unknown) = names.next()
    {
        let known: Vec<&str> = names.collect();
        let synonym = SYNONYMS
            .iter()
            .find(|(flag, key)| *flag == unknown && known.contains(key));
        let meant = synonym.map(|(_, key)| *key);
        return match meant.or_else(|| nearest(unknown, known.iter().copied())) {
            Some(meant) => format!("unknown key \"{unknown}\"; did you mean \"{meant}\"?"),
            None => format!(
                "unknown key \"{unknown}\"; the keys here are {}",
                known.join(", ")
            ),
        };
    }
    if message.starts_with("missing field")
        && let Some(missing) = names.next()
    {
        return format!("key \"{missing}\" is missing; add it");
    }
    message.trim_end().replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::TestbedLayer;

    const TEXT: &str =
        "seed = 1\n\n[queue]\nlimit = 3\n[[port]]\na = 1\n[[port]]\na = 2\nmac = [\n 1,\n 2]\n";

    /// Goal: every kind of key finds its line, and a missing one the line of its table.
    #[test]
    fn keys_find_their_lines() {
        for (key, line) in [
            ("seed", Some(1)),
            ("queue.limit", Some(4)),
            ("queue.other", Some(3)),
            ("port[0].a", Some(6)),
            ("port[1].a", Some(8)),
            ("port[1].peer", Some(7)),
            ("port[1].mac[1]", Some(11)),
            ("absent", None),
        ] {
            assert_eq!(line_of(TEXT, key), line, "{key}");
        }
    }

    /// Goal: a value of the wrong form is named by key and line.
    #[test]
    fn wrong_values_are_placed() {
        for (text, message) in [
            (
                "seed = 1\nlink_rate = \"10\"\n",
                "line 2: link_rate: \"10\" is no rate",
            ),
            ("seed = -1\n", "line 1: seed: "),
            (
                "\nlinkrate = \"1Gbps\"\n",
                "line 2: linkrate: unknown key \"linkrate\"; did you mean \"link_rate\"?",
            ),
            ("seed = 1\nseed = 2\n", "line 2: "),
            (
                "faults = [\n \"leaf0>spine0:drop=2\"]\n",
                "line 1: faults: \"drop=2\": \"2\" is no probability",
            ),
        ] {
            let error = parse::<TestbedLayer>(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
