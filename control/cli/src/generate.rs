//! `spraycheck generate`: a fabric's file becomes the files of its switches and hosts.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use config::FabricFile;

use crate::args::GenerateArgs;
use crate::failure::{ENVIRONMENT, Failure};
use crate::output;

pub(crate) fn run(args: &GenerateArgs) -> Result<ExitCode, Failure> {
    let file = FabricFile::read(&args.fabric)?;
    write(&file, &args.out)?;
    let configs = file.switches.iter().map(|switch| {
        let path = args.out.join(format!("{}.toml", switch.role));
        path.display().to_string()
    });
    let configs: Vec<String> = configs.collect();
    output::print(&format!(
        "{}\n{}: names, commands (hosts.sh) and cables (cables.tsv) of {} hosts\n",
        configs.join("\n"),
        args.out.join("hosts").display(),
        file.hosts.len()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes all files into a folder, which is made; those of the same names are replaced.
fn write(file: &FabricFile, folder: &Path) -> Result<(), Failure> {
    let failure = |path: &Path, error: std::io::Error| {
        let message = format!("--out: cannot write {}: {error}", path.display());
        Failure::new(ENVIRONMENT, message)
    };
    fs::create_dir_all(folder).map_err(|error| failure(folder, error))?;
    for (name, text) in file.files() {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| failure(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is written of the example passes `check`, one by one, in one process and as a fabric.
    #[test]
    fn generated_files_pass_check() {
        let folder = tempfile::tempdir().unwrap();
        let fabric = folder.path().join("fabric.toml");
        fs::write(&fabric, include_str!("../../../docs/examples/fabric.toml")).unwrap();
        let out = folder.path().join("out");
        let args = GenerateArgs {
            fabric,
            out: out.clone(),
        };
        assert_eq!(run(&args).unwrap(), ExitCode::SUCCESS);
        // A second time over the first is no other.
        assert_eq!(run(&args).unwrap(), ExitCode::SUCCESS);
        let files: Vec<_> = ["leaf0", "leaf1", "spine0", "spine1"]
            .map(|name| out.join(format!("{name}.toml")))
            .to_vec();
        assert_eq!(
            crate::check::files(&files, true).unwrap(),
            ExitCode::SUCCESS
        );
        assert_eq!(crate::check::fabric(&files).unwrap(), ());
        let error = crate::check::fabric(&files[..3]).unwrap_err().to_string();
        assert!(error.contains("spine1 are missing"), "{error}");
    }
}
