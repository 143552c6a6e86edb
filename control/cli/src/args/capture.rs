//! What can be typed behind `spraycheck capture`.

use std::path::PathBuf;

use clap::Args;

/// Write packets of a running testbed or switch as pcapng, while it goes on.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck capture --port leaf0.host0 --count 100 --out host.pcapng
  spraycheck capture --filter dropped --seconds 10 --out drops.pcapng
  spraycheck capture --filter roce,qpn=17 --out - | tshark -r -

Ends with its count, its seconds, a signal, or the switch. What the switch has no room for while the
writer is behind is counted: capture-missed. Up to 4 captures run at a time.")]
pub(crate) struct CaptureArgs {
    /// Ports, as leaf0.host0, or host0 for that of every switch [default: all]
    #[arg(long = "port", value_name = "PORT[,..]", value_delimiter = ',')]
    pub(crate) ports: Vec<String>,
    /// What of them: in, out, dropped [default: all]
    #[arg(long = "direction", value_name = "D[,..]", value_delimiter = ',', value_parser = ["in", "out", "dropped"])]
    pub(crate) directions: Vec<String>,
    /// Terms that must all hold: roce, qpn=N, ip=A, dropped, marked
    #[arg(
        long,
        value_name = "TERM[,..]",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) filter: String,
    /// One packet in so many that pass the filter, per lcore
    #[arg(long, value_name = "1/N", value_parser = one_in, default_value = "1", hide_default_value = true)]
    pub(crate) sample: u64,
    /// Bytes kept of a frame [default: all, to 9728]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=9728))]
    pub(crate) snaplen: Option<u32>,
    /// End after so many packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    /// Where to write; - for standard output
    #[arg(long, value_name = "FILE.pcapng")]
    pub(crate) out: PathBuf,
    /// Socket of the testbed or switch [default: that of the one that runs]
    #[arg(long, value_name = "P")]
    pub(crate) socket: Option<PathBuf>,
}

fn one_in(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("1/").unwrap_or(text);
    match number.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("write 1/N like 1/100".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_two_forms() {
        assert_eq!((one_in("1/100"), one_in("7")), (Ok(100), Ok(7)));
        for wrong in ["0", "1/0", "2/3", "x"] {
            assert!(one_in(wrong).is_err(), "{wrong}");
        }
    }
}
