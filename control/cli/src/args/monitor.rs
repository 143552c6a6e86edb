//! Flags of `spraycheck monitor` and `spraycheck relay`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Collect the verdicts of all switches of a fabric: name bad links, keep history, show a page.
///
/// Runs until it is told to stop. Without other word it hears the switches whose sockets the file
/// names and answers on 127.0.0.1:9180 alone.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck monitor --config docs/examples/monitor.toml
  spraycheck show links --since 1h")]
pub(crate) struct MonitorArgs {
    /// The monitor's file
    #[arg(long, value_name = "F")]
    pub(crate) config: PathBuf,
    /// Only check the file and print what it would do
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Where the page is, in place of the file's http.listen; loopback only
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Answer `spraycheck show` on this socket [default: one that show finds]
    #[arg(long, value_name = "P")]
    pub(crate) socket: Option<PathBuf>,
}

/// Send the verdicts of this machine's switches to a NATS JetStream stream, from which the monitor takes them.
///
/// It reads the switches' sockets, keeps nothing itself, and runs until it is told to stop. A switch, a
/// server or a monitor that is away is waited for.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck relay --config docs/examples/relay.toml")]
pub(crate) struct RelayArgs {
    /// The relay's file
    #[arg(long, value_name = "F")]
    pub(crate) config: PathBuf,
    /// Only check the file and print what it would do
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// A span of time back from now: `90s`, `15m`, `1h`, `7d`; in seconds.
pub(crate) fn since(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no span of time; write it like 90s, 15m, 1h or 7d");
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let is_plain = number.bytes().all(|b| b.is_ascii_digit());
    let number = number.parse::<u64>().ok().filter(|_| is_plain);
    number
        .and_then(|number| number.checked_mul(seconds))
        .filter(|&seconds| seconds > 0)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: spans are read in the units that people write, and others are refused with an example.
    #[test]
    fn spans_are_read() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3600), ("7d", 604_800)] {
            assert_eq!(since(text), Ok(seconds));
        }
        for text in [
            "",
            "1",
            "h",
            "-1h",
            "+1h",
            "1.5h",
            "0s",
            "1w",
            "9999999999999999999d",
            "1ä",
        ] {
            let error = since(text).unwrap_err();
            assert!(error.contains("write it like"), "{error}");
        }
    }
}
