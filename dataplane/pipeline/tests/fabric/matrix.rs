//! The fault matrix of `docs/faults.md` is what the tests say of themselves, and every test that the
//! pages on faults and security name is there.
//!
//! A test of a fault says so in its comment: `Fault:`, and once for each fault `Forwarding:`,
//! `Verdicts:`, `Counter:` and `Right again:`. Other tests of the same fault have `Fault:` alone. The
//! matrix has the faults in the order of [`SOURCES`] and of their tests. `FAULTS_WRITE=1` writes it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pipeline::{DropReason, Note};

/// Where faults are tested: files and folders, in the order of the matrix.
const SOURCES: &[&str] = &[
    "dataplane/pipeline/tests/fabric/faults.rs",
    "dataplane/pipeline/tests/fabric",
    "dataplane/fabric/tests",
    "dataplane/lcore/tests",
    "control/agent/src",
    "control/monitor/src",
    "control/monitor/tests",
    "tests/end_to_end",
];
/// Where tests are looked for by name.
const ALL: &[&str] = &["dataplane", "control", "bindings", "tests/end_to_end"];
const BEGIN: &str =
    "<!-- Written from the tests: FAULTS_WRITE=1 cargo test -p pipeline --test fabric matrix -->\n";
const END: &str = "<!-- The end of the matrix -->\n";
/// Counters of other parts than switches.
const OTHER_COUNTERS: &[&str] = &["missed", "captures-missed", "spread-full"];

/// A row of the matrix.
#[derive(Default)]
struct Row {
    fault: String,
    /// Forwarding, verdicts, counter, right again.
    said: [Option<String>; 4],
    tests: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Rust files of a place, by name.
fn sources(place: &Path, found: &mut Vec<PathBuf>) {
    if place.is_file() {
        if place.extension().is_some_and(|end| end == "rs") && !found.iter().any(|p| p == place) {
            found.push(place.to_owned());
        }
        return;
    }
    let entries = std::fs::read_dir(place);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a name").path()).collect();
    paths.sort();
    let is_built = |path: &PathBuf| path.ends_with("target");
    paths
        .iter()
        .filter(|path| !is_built(path))
        .for_each(|path| sources(path, found));
}

/// The name of a function that such a line begins.
fn function(line: &str) -> Option<&str> {
    let rest = line
        .trim_start()
        .strip_prefix("pub(crate) ")
        .unwrap_or(line.trim_start());
    let rest = rest
        .strip_prefix("async ")
        .unwrap_or(rest)
        .strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

/// Adds what the tests of a file say of faults.
fn add(path: &Path, rows: &mut Vec<Row>) {
    let text = read(path);
    let mut row: Option<Row> = None;
    for line in text.lines() {
        let said = line
            .trim_start()
            .strip_prefix("/// ")
            .and_then(|line| line.split_once(": "));
        match (said, &mut row) {
            (Some(("Fault", fault)), _) => {
                row = Some(Row {
                    fault: fault.to_owned(),
                    ..Row::default()
                });
            }
            (Some((key, said)), Some(row)) => {
                let keys = ["Forwarding", "Verdicts", "Counter", "Right again"];
                let place = keys.iter().position(|&known| known == key);
                let place = place.unwrap_or_else(|| panic!("{}: {line}", path.display()));
                row.said[place] = Some(said.to_owned());
            }
            (None, Some(open)) => {
                let Some(test) = function(line) else { continue };
                let test = test.to_owned();
                match rows.iter_mut().find(|known| known.fault == open.fault) {
                    Some(known) => {
                        known.tests.push(test);
                        for (known, said) in known.said.iter_mut().zip(&mut open.said) {
                            assert!(
                                known.is_none() || said.is_none(),
                                "{}: said twice",
                                open.fault
                            );
                            *known = known.take().or(said.take());
                        }
                    }
                    None => {
                        open.tests.push(test);
                        rows.extend(row.take());
                    }
                }
                row = None;
            }
            _ => {}
        }
    }
    assert!(row.is_none(), "{}: a fault without a test", path.display());
}

/// Words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Goal: the page's matrix is that of the tests, every row says all, and its counters exist.
#[test]
fn the_fault_matrix_is_what_the_tests_say() {
    let (mut rows, mut files) = (Vec::new(), Vec::new());
    SOURCES
        .iter()
        .for_each(|place| sources(&root().join(place), &mut files));
    files.retain(|path| !path.ends_with("matrix.rs"));
    files.iter().for_each(|path| add(path, &mut rows));
    let mut names: BTreeSet<&str> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
    names.extend(Note::ALL.iter().map(|note| note.name()));
    names.extend(OTHER_COUNTERS);
    let mut table = String::from(
        "| fault | forwarding | verdicts | counter | right again | test |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in &rows {
        let said: Vec<&str> = row.said.iter().flatten().map(String::as_str).collect();
        let [forwarding, verdicts, counter, again] = said[..] else {
            panic!("\"{}\" does not say all of it: {:?}", row.fault, row.said);
        };
        for name in quoted(counter) {
            assert!(
                names.contains(name),
                "\"{}\": there is no counter {name}",
                row.fault
            );
        }
        let tests: Vec<String> = row.tests.iter().map(|test| format!("`{test}`")).collect();
        let (fault, tests) = (&row.fault, tests.join(", "));
        table +=
            &format!("| {fault} | {forwarding} | {verdicts} | {counter} | {again} | {tests} |\n");
    }
    let path = root().join("docs/faults.md");
    let page = read(&path);
    let (before, rest) = page.split_once(BEGIN).expect("the matrix begins");
    let (is, after) = rest.split_once(END).expect("the matrix ends");
    if std::env::var_os("FAULTS_WRITE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}"))
            .expect("the page is ours");
        return;
    }
    let differing: Vec<_> = is
        .lines()
        .zip(table.lines())
        .find(|(is, said)| is != said)
        .into_iter()
        .collect();
    assert!(
        is == table,
        "docs/faults.md is not what the tests say; write it with FAULTS_WRITE=1 (this file's comment). \
         First difference: {differing:#?}"
    );
}

/// Goal: what the pages name as proof exists.
#[test]
fn every_test_that_the_pages_name_exists() {
    let mut files = Vec::new();
    ALL.iter()
        .for_each(|place| sources(&root().join(place), &mut files));
    let mut tests = BTreeSet::new();
    for path in &files {
        let text = read(path);
        let mut is_test = false;
        for line in text.lines() {
            is_test |= line.contains("#[test]") || line.contains("#[tokio::test");
            if let Some(name) = function(line)
                && std::mem::take(&mut is_test)
            {
                tests.insert(name.to_owned());
            }
        }
    }
    assert!(tests.len() > 500, "{} tests", tests.len());
    for page in ["docs/security.md", "docs/faults.md", "docs/measurement.md"] {
        let text = read(&root().join(page));
        let rows = text.lines().filter(|line| line.starts_with("| "));
        let proofs = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit_once(" | "));
        // Names of several words are those of tests; files and folders have other marks.
        let is_name = |word: &&str| {
            let is_plain = |b: u8| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit();
            word.matches('_').count() >= 2 && word.bytes().all(is_plain)
        };
        let mut count = 0;
        for name in proofs.flat_map(|(_, proof)| quoted(proof).filter(is_name)) {
            assert!(
                tests.contains(name),
                "{page} names `{name}`, which is no test"
            );
            count += 1;
        }
        assert!(count > 10, "{page} names {count} tests");
    }
}
