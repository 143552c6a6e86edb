//! Lines from a switch's socket, bounded in length and in time.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use crate::reading::{LINE_MAX, wrong};

/// A stream says something every second; one that is silent for so long is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a line; false at the end.
pub(crate) async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    line.clear();
    let mut limited = reader.take(LINE_MAX);
    match tokio::time::timeout(PATIENCE, limited.read_until(b'\n', line)).await {
        Ok(read) => read?,
        Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "it says nothing")),
    };
    match line.last() {
        Some(b'\n') => Ok(true),
        None => Ok(false),
        Some(_) if line.len() as u64 >= LINE_MAX => {
            Err(wrong(format!("a line is longer than {LINE_MAX} bytes")))
        }
        Some(_) => Ok(false),
    }
}
