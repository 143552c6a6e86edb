//! docs/troubleshooting.md quotes messages and counters: each must still be in the code.

use std::path::Path;

use crate::run::root;

/// All Rust code below `folder`, with texts over several lines joined.
fn code(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            code(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a text");
            let mut lines = text.lines().map(str::trim).peekable();
            while let Some(line) = lines.next() {
                match line.strip_suffix('\\') {
                    Some(begin) if lines.peek().is_some() => all.push_str(begin),
                    _ => {
                        all.push_str(line);
                        all.push('\n');
                    }
                }
            }
        }
    }
}

/// What stands in backticks in the first column of tables whose heading is `heading`.
fn first_column<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let mut all = Vec::new();
    let mut is_ours = false;
    for line in page.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            is_ours = false;
            continue;
        };
        let first = row.split(" | ").next().unwrap_or_default();
        if first == heading {
            is_ours = true;
        } else if is_ours && first != "---" {
            all.extend(first.split('`').skip(1).step_by(2));
        }
    }
    all
}

#[test]
fn messages_of_the_page_are_those_of_the_code() {
    let page = root().join("docs/troubleshooting.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut all = String::new();
    for folder in ["control", "dataplane", "bindings"] {
        code(&root().join(folder), &mut all);
    }
    let messages: Vec<&str> = first_column(&page, "message")
        .into_iter()
        .filter(|message| !message.starts_with("spraycheck "))
        .collect();
    let reasons = first_column(&page, "reason");
    assert!(
        messages.len() >= 20 && reasons.len() >= 5,
        "{messages:?} {reasons:?}"
    );
    for message in messages {
        assert!(all.contains(message), "no message says {message:?}");
    }
    for reason in reasons {
        assert!(
            all.contains(&format!("\"{reason}\"")),
            "nothing counts {reason:?}"
        );
    }
}
