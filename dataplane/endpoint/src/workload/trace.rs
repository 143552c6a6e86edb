//! A workload from a file: which host sends how much to which, and when.
//!
//! CSV with a header: `start,source,destination,bytes`. `start` is in nanoseconds since the run
//! began; hosts are named `h<leaf>.<n>` or by their number; `bytes` are those of the flow.

use std::io;

use serde::Deserialize;
use thiserror::Error;

use crate::workload::HostId;

/// Flows of a trace at most: what is kept of each is small, but bounded.
pub const TRACE_FLOWS_MAX: usize = 1 << 22;

/// One flow of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceFlow {
    /// When it begins.
    pub start_ns: u64,
    /// Who sends.
    pub source: HostId,
    /// Who receives.
    pub destination: HostId,
    /// How much, above zero.
    pub bytes: u64,
}

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    start: u64,
    source: String,
    destination: String,
    bytes: u64,
}

/// What is wrong with a trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file does not read as CSV of four columns.
    #[error("{0}; a trace has the header start,source,destination,bytes (ns, hosts, bytes)")]
    Csv(#[from] csv::Error),
    /// A host that there is not.
    #[error("line {line}: {host:?} is no host; there are h0.0 to h{leaf_last}.{host_last}")]
    NoHost {
        /// Line of the file, from 1.
        line: u64,
        /// What stands there.
        host: String,
        /// The last leaf.
        leaf_last: u32,
        /// The last host of each leaf.
        host_last: u32,
    },
    /// A flow that cannot be sent.
    #[error("line {line}: a flow needs two hosts that differ, and 1 byte to 2^50")]
    BadFlow {
        /// Line of the file, from 1.
        line: u64,
    },
    /// Too long.
    #[error("a trace has at most {TRACE_FLOWS_MAX} flows; split it")]
    TooLong,
}

/// Reads a trace for `hosts` hosts, `hosts_per_leaf` on each leaf. Flows come in the order of their
/// start, those of one time in that of the file.
///
/// # Errors
/// Names the line and what is wrong with it.
pub fn read(
    file: impl io::Read,
    hosts: u32,
    hosts_per_leaf: u32,
) -> Result<Vec<TraceFlow>, TraceError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(file);
    let mut flows = Vec::new();
    let headers = reader.headers()?.clone();
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record)? {
        let line = record.position().map_or(0, csv::Position::line);
        let read: Line = record.deserialize(Some(&headers))?;
        let host = |name: &str| {
            host_of(name, hosts, hosts_per_leaf).ok_or(TraceError::NoHost {
                line,
                host: name.to_owned(),
                leaf_last: (hosts / hosts_per_leaf.max(1)).saturating_sub(1),
                host_last: hosts_per_leaf.saturating_sub(1),
            })
        };
        let flow = TraceFlow {
            start_ns: read.start,
            source: host(&read.source)?,
            destination: host(&read.destination)?,
            bytes: read.bytes,
        };
        if flow.source == flow.destination || flow.bytes == 0 || flow.bytes > 1 << 50 {
            return Err(TraceError::BadFlow { line });
        }
        if flows.len() == TRACE_FLOWS_MAX {
            return Err(TraceError::TooLong);
        }
        flows.push(flow);
    }
    flows.sort_by_key(|flow| flow.start_ns);
    Ok(flows)
}

fn host_of(name: &str, hosts: u32, hosts_per_leaf: u32) -> Option<HostId> {
    let number = match name.strip_prefix('h') {
        None => name.parse().ok()?,
        Some(rest) => {
            let (leaf, host) = rest.split_once('.')?;
            let (leaf, host): (u32, u32) = (leaf.parse().ok()?, host.parse().ok()?);
            if host >= hosts_per_leaf {
                return None;
            }
            leaf.checked_mul(hosts_per_leaf)?.checked_add(host)?
        }
    };
    (number < hosts).then_some(HostId(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: names and numbers read, flows are in order of time, and errors name the line.
    #[test]
    fn traces_read() {
        let text = "start,source,destination,bytes\n500, h1.1 ,0,7\n# late\n20,2,h0.1,4096\n";
        let flows = read(text.as_bytes(), 4, 2).unwrap();
        let flow = |start_ns, source, destination, bytes| TraceFlow {
            start_ns,
            source: HostId(source),
            destination: HostId(destination),
            bytes,
        };
        assert_eq!(flows, [flow(20, 2, 1, 4096), flow(500, 3, 0, 7)]);
        let error = |lines: &str| {
            let text = format!("start,source,destination,bytes\n{lines}");
            read(text.as_bytes(), 4, 2).unwrap_err().to_string()
        };
        let no_host = error("0,0,1,1\n0,h1.2,1,1\n");
        assert_eq!(
            no_host,
            "line 3: \"h1.2\" is no host; there are h0.0 to h1.1"
        );
        assert!(error("0,4,1,1").starts_with("line 2: \"4\" is no host"));
        assert!(error("0,1,1,1").starts_with("line 2: a flow needs two hosts"));
        assert!(error("0,1,0,0").starts_with("line 2: a flow needs two hosts"));
        assert!(error("soon,1,0,5").contains("a trace has the header"));
        assert!(error("1,0,5").contains("a trace has the header"));
        assert_eq!(
            read(&b"start,source,destination,bytes\n"[..], 4, 2).unwrap(),
            []
        );
    }
}
