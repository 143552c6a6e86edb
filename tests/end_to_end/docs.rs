//! Commands of README and docs: those that are quick are run as they stand, in the order in which they
//! stand; of the others, which take minutes, root or a NIC, subcommand and flags must be there.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::run::{binary, root};

/// Commands that begin so are run.
const RUN: [&str; 9] = [
    "spraycheck check ",
    "spraycheck generate ",
    "spraycheck sim list",
    "spraycheck doctor",
    "spraycheck completion ",
    "spraycheck reference",
    "spraycheck replay ",
    "spraycheck switch --config docs/examples/leaf0.toml --dry-run",
    "target/release/spraycheck testbed --help",
];

/// Of those, what names files that are the reader's own is not.
const OTHERS_FILES: [&str; 5] = [
    "spraycheck doctor --config leaf0.toml",
    "spraycheck doctor --config /etc/spraycheck/leaf0.toml",
    "spraycheck check FILE",
    "spraycheck check --fabric",
    "spraycheck generate fabric.toml --out fabric",
];

/// The commands of a text: indented lines and code in sentences, without comments behind them.
pub(crate) fn commands(text: &str) -> Vec<String> {
    let is_command = |line: &str| {
        let first = line.split(' ').next().unwrap_or_default();
        matches!(first, "spraycheck" | "target/release/spraycheck") && line.contains(' ')
            || first.starts_with("scripts/")
    };
    let mut all = Vec::new();
    for line in text.lines() {
        if let Some(line) = line.strip_prefix("    ") {
            let command = line.split("  ").next().unwrap_or_default().trim_end();
            if is_command(command) {
                all.push(command.to_owned());
            }
            continue;
        }
        let code = line.split('`').skip(1).step_by(2);
        all.extend(code.filter(|code| is_command(code)).map(str::to_owned));
    }
    all
}

/// The words of a command, as a shell would split them; quotes are single ones.
pub(crate) fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in command.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().expect("one at least").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What `spraycheck ARGUMENTS --help` says.
fn help(arguments: &[&str]) -> String {
    let output = Command::new(binary("spraycheck"))
        .args(arguments)
        .arg("--help")
        .output();
    let output = output.expect("it runs");
    assert!(
        output.status.success(),
        "{arguments:?} --help: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether the subcommand and all flags of a command are there.
fn check_flags(command: &str, place: &str) {
    let words = words(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((_, rest)) = words.split_first() else {
        return;
    };
    let Some((sub, flags)) = rest.split_first() else {
        return;
    };
    let mut text = help(&[sub]);
    // `fault add`, `sim pmin`: some have subcommands of their own.
    if let Some(next) = flags
        .first()
        .filter(|word| word.chars().all(|c| c.is_ascii_lowercase()))
    {
        let output = Command::new(binary("spraycheck"))
            .args([sub, next, "--help"])
            .output();
        let output = output.expect("it runs");
        text += &String::from_utf8_lossy(&output.stdout);
    }
    for flag in flags
        .iter()
        .filter(|word| word.starts_with("--") && word.len() > 2)
    {
        let name = flag.split('=').next().unwrap_or(flag);
        let has = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .any(|word| word == name);
        assert!(has, "{place}: `{command}`: spraycheck {sub} has no {name}");
    }
}

/// Whether a script is there, and knows its subcommand.
fn check_script(command: &str, place: &str) {
    let words = words(command);
    let path = root().join(&words[0]);
    let Ok(text) = std::fs::read_to_string(&path) else {
        // A folder of files, not a script.
        assert!(
            path.exists(),
            "{place}: `{command}`: there is no {}",
            words[0]
        );
        return;
    };
    let subcommands = ["scripts/trust", "scripts/netns-fabric"];
    if let (true, Some(sub)) = (subcommands.contains(&words[0].as_str()), words.get(1))
        && sub.chars().all(|c| c.is_ascii_lowercase())
    {
        let cases = text
            .lines()
            .filter_map(|line| line.trim_start().split_once(')'));
        let known = cases
            .flat_map(|(names, _)| names.split('|'))
            .any(|name| name.trim() == sub);
        assert!(known, "{place}: `{command}`: {} has no {sub}", words[0]);
    }
}

fn run(command: &str, folder: &Path, place: &str) {
    let words = words(command);
    let output = Command::new(binary("spraycheck"))
        .args(&words[1..])
        .current_dir(folder)
        .output();
    let output = output.expect("it runs");
    // doctor says with 1 that this machine lacks something.
    let is_fine =
        output.status.success() || words[1] == "doctor" && output.status.code() == Some(1);
    assert!(
        is_fine,
        "{place}: `{command}`: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn commands_of_the_documentation_work() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["docs", "tests"] {
        std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).expect("a link");
    }
    let mut files = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let docs = std::fs::read_dir(root().join("docs"))
        .expect("docs")
        .flatten();
    let mut more: Vec<_> = docs.map(|entry| entry.path()).collect();
    more.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    more.sort();
    files.extend(more);
    let (mut seen, mut ran) = (BTreeSet::new(), 0);
    for file in files {
        let place = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        for command in commands(&std::fs::read_to_string(&file).expect("a text")) {
            if !seen.insert(command.clone()) {
                continue;
            }
            let is_quick = RUN.iter().any(|begin| command.starts_with(begin));
            if is_quick && !OTHERS_FILES.contains(&command.as_str()) {
                run(&command, folder.path(), &place);
                ran += 1;
            } else if command.starts_with("scripts/") {
                check_script(&command, &place);
            } else {
                check_flags(&command, &place);
            }
        }
    }
    assert!(ran >= 8, "only {ran} commands were run");
    assert!(seen.len() > 50, "only {} commands were found", seen.len());
}
