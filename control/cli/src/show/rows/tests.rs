//! Tables of everything that `show` can ask for, as people see them.

use super::*;

/// Answers of a testbed and a switch, a few rows of each kind.
const ANSWERS: &str = include_str!("answers.json");

fn rows(what: &str) -> Vec<Map<String, Value>> {
    let answers: Map<String, Value> = serde_json::from_str(ANSWERS).expect("JSON");
    let rows = answers.get(what).unwrap_or_else(|| panic!("no {what}"));
    serde_json::from_value(rows.clone()).expect("rows")
}

/// Goal: every table is aligned, has units, and shows nothing twice.
#[test]
fn every_table_is_readable() {
    let mut all = String::new();
    for what in crate::args::WHAT {
        all.push_str(&format!("{what}\n{}\n", render(&rows(what), false)));
    }
    insta::assert_snapshot!(all);
}

/// Goal: what the daemon can be asked for, and this command asks for, are the same.
#[test]
fn all_that_can_be_asked_for_is_offered() {
    let mut offered = crate::args::WHAT.to_vec();
    // Only a monitor knows whom it hears.
    offered.retain(|what| *what != "sources");
    assert_eq!(offered, agent::show::WHAT);
}

/// Goal: colours change no width, and a socket's words cannot steer the terminal.
#[test]
fn colours_are_only_colours() {
    let rows: Vec<Map<String, Value>> = serde_json::from_str(
        r#"[{"link": "leaf0>spine1", "state": "convicted", "drop_rate": 0.0123},
            {"link": "leaf0>\u001b[31mx", "state": "suspect", "drop_rate": null}]"#,
    )
    .unwrap();
    let (plain, coloured) = (render(&rows, false), render(&rows, true));
    assert!(!plain.contains('\x1b'), "{plain}");
    assert!(coloured.contains("\x1b[31mconvicted\x1b[0m"), "{coloured}");
    let mut bare = coloured.clone();
    for code in ["0", "1", "31", "33"] {
        bare = bare.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(bare, plain);
    assert_eq!(render(&[], true), "nothing to show\n");
}
