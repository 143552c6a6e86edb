//! `spraycheck check`: files validated and printed as they will be used.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::args::CheckArgs;
use crate::failure::{Failure, USAGE};
use crate::output;

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let code = files(&args.files, args.together)?;
    if args.fabric && code == ExitCode::SUCCESS {
        fabric(&args.files)?;
    }
    Ok(code)
}

/// Checks switches against each other as a whole fabric, wherever each of them runs.
pub(crate) fn fabric(files: &[PathBuf]) -> Result<(), Failure> {
    let specs: Result<Vec<_>, _> = files
        .iter()
        .map(|file| config::SwitchSpec::read(file))
        .collect();
    let specs = specs?;
    let specs: Vec<&config::SwitchSpec> = specs.iter().collect();
    Ok(config::agree::complete(&specs, files)?)
}

/// Checks and prints each of `files`; switches `together` against each other as well.
pub(crate) fn files(files: &[PathBuf], together: bool) -> Result<ExitCode, Failure> {
    let mut wrong = 0;
    for file in files {
        match check(file) {
            Ok(text) => output::print(&text)?,
            Err(failure) => {
                crate::log::fail(&failure.to_string());
                wrong += 1;
            }
        }
    }
    if wrong == 0 && together {
        let set = config::SwitchSet::read(files)?;
        let specs: Vec<&config::SwitchSpec> = set.switches.iter().collect();
        config::agree::pairwise(&specs, files)?;
    }
    match wrong {
        0 => Ok(ExitCode::SUCCESS),
        // Each has been named above.
        _ => Ok(ExitCode::from(USAGE)),
    }
}

/// What `file` comes to, for people.
fn check(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(USAGE, format!("cannot read {}: {error}", file.display())))?;
    Ok(config::check::check(file, &text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: files of both kinds are told apart, and one wrong file makes the whole command fail.
    #[test]
    fn every_file_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let leaf = write(
            "leaf0.toml",
            include_str!("../../../docs/examples/leaf0.toml"),
        );
        let testbed = write("testbed.toml", "leaves = 4\n");
        let wrong = write("wrong.toml", "leaves = 4\nspnes = 3\n");
        assert!(check(&leaf).unwrap().starts_with("switch "));
        assert!(check(&testbed).unwrap().starts_with("testbed "));
        let failure = check(&wrong).unwrap_err();
        assert_eq!(failure.code, USAGE);
        let text = failure.to_string();
        let expected = ":2: spnes: unknown key \"spnes\"; did you mean \"spines\"?";
        assert!(
            text.starts_with(&format!("{}{expected}", wrong.display())),
            "{text}"
        );
        let code = |files: &[&Path]| {
            let files = files.iter().map(|file| (*file).to_owned()).collect();
            run(&CheckArgs {
                files,
                together: false,
                fabric: false,
            })
            .unwrap()
        };
        assert_eq!(code(&[&leaf, &testbed]), ExitCode::SUCCESS);
        assert_eq!(code(&[&leaf, &wrong, &testbed]), ExitCode::from(USAGE));
        assert_eq!(
            code(&[&folder.path().join("absent.toml")]),
            ExitCode::from(USAGE)
        );
    }
}
