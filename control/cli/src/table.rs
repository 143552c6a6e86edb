//! Rows of named values as an aligned table: numbers to the right, everything else to the left.

use serde_json::{Map, Value};

/// The table with a line of headings; columns in the order in which rows name them.
pub(crate) fn render(rows: &[Map<String, Value>]) -> String {
    lay(rows, str::to_owned, |_, value| cell(value), |_, _| None)
}

/// The same with headings and cells as they are told by a column's name, and the terminal's code for the
/// colour of a cell, if any, by its line (0: the headings) and its text.
pub(crate) fn lay(
    rows: &[Map<String, Value>],
    heading: impl Fn(&str) -> String,
    cell: impl Fn(&str, &Value) -> String,
    code: impl Fn(usize, &str) -> Option<&'static str>,
) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for row in rows {
        for name in row.keys() {
            if !columns.contains(&name.as_str()) {
                columns.push(name);
            }
        }
    }
    if columns.is_empty() {
        return "nothing to show\n".to_owned();
    }
    let is_number = |name: &&str| {
        let mut values = rows.iter().filter_map(|row| row.get(*name));
        values.all(|v| v.is_number() || v.is_null())
    };
    let right: Vec<bool> = columns.iter().map(is_number).collect();
    let headings = columns.iter().map(|name| heading(name));
    let mut lines = vec![headings.collect::<Vec<String>>()];
    let cells = |row: &Map<String, Value>| {
        let cell = |name: &&str| row.get(*name).map(|value| cell(name, value));
        let cells = columns.iter().map(|name| cell(name).unwrap_or_default());
        cells.collect()
    };
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).map(|c| width(c).unwrap_or(0)).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let last = line.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        for (column, cell) in line.iter().enumerate().take(last + 1) {
            let pad = widths[column] - cell.chars().count();
            let (before, after) = if right[column] { (pad, 0) } else { (0, pad) };
            text.push_str(&" ".repeat(before));
            match code(number, cell) {
                Some(code) => text.push_str(&format!("\x1b[{code}m{cell}\x1b[0m")),
                None => text.push_str(cell),
            }
            if column < last {
                text.push_str(&" ".repeat(after + 2));
            }
        }
        text.push('\n');
    }
    text
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text),
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            .map(crate::number::significant)
            .unwrap_or_default(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// Without control characters: what a socket says must not steer a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: columns are aligned by kind, missing values and nested ones are readable.
    #[test]
    fn tables_are_aligned() {
        let rows: Vec<Map<String, Value>> = serde_json::from_str(
            r#"[{"switch": "leaf0", "port": "host0", "in_pkts": 5, "share": 0.123456, "drops": [0, 3]},
                {"switch": "spine10", "port": "down\u001b[31m", "in_pkts": 123456, "share": null}]"#,
        )
        .unwrap();
        insta::assert_snapshot!(render(&rows), @r"
        switch   port       in_pkts  share  drops
        leaf0    host0            5  0.123  0,3
        spine10  down [31m   123456      -
        ");
        assert_eq!(render(&[]), "nothing to show\n");
    }
}
