//! `spraycheck completion`: what a shell completes, generated from the flags themselves.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Cli, CompletionArgs};
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(args: &CompletionArgs) -> Result<ExitCode, Failure> {
    output::print(&text(args.shell))?;
    Ok(ExitCode::SUCCESS)
}

fn text(shell: clap_complete::Shell) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "spraycheck", &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Goal: every shell gets all commands, and bash takes what it gets.
    #[test]
    fn completions_name_all_commands() {
        for shell in [
            clap_complete::Shell::Bash,
            clap_complete::Shell::Zsh,
            clap_complete::Shell::Fish,
        ] {
            let text = text(shell);
            for command in Cli::command().get_subcommands() {
                assert!(
                    text.contains(command.get_name()),
                    "{shell}: {}",
                    command.get_name()
                );
            }
        }
        let mut bash = Command::new("bash")
            .arg("-n")
            .stdin(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let stdin = bash.stdin.take();
        stdin
            .expect("piped")
            .write_all(text(clap_complete::Shell::Bash).as_bytes())
            .expect("bash reads");
        assert!(bash.wait().expect("bash ends").success());
    }
}
