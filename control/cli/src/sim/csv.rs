//! Rows as CSV (RFC 4180).

use std::path::Path;

use fabric::experiment::Rows;
use serde_json::Value;

use crate::failure::{ENVIRONMENT, Failure};

/// Writes a line of names and a line for each row.
pub(super) fn write(path: &Path, rows: &Rows) -> Result<(), Failure> {
    std::fs::write(path, text(rows))
        .map_err(|error| Failure::new(ENVIRONMENT, format!("--csv: {}: {error}", path.display())))
}

fn text(rows: &Rows) -> String {
    let rows: Vec<Value> = rows
        .iter()
        .filter_map(|row| serde_json::to_value(row).ok())
        .collect();
    let mut names: Vec<String> = Vec::new();
    for row in rows.iter().filter_map(Value::as_object) {
        for name in row
            .keys()
            .filter(|name| !names.contains(name))
            .cloned()
            .collect::<Vec<_>>()
        {
            names.push(name);
        }
    }
    let mut text = line(names.iter().map(|name| field(name)));
    for row in rows.iter().filter_map(Value::as_object) {
        text.push_str(&line(names.iter().map(|name| match row.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => field(text),
            // An interval is two numbers with a space between.
            Some(Value::Array(parts)) => {
                let parts: Vec<String> = parts.iter().map(Value::to_string).collect();
                field(&parts.join(" "))
            }
            Some(other) => other.to_string(),
        })));
    }
    text
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let mut line = fields.collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: commas and quotes are kept apart from those between fields.
    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("a"), "a");
        assert_eq!(field("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
