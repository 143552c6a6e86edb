//! Capture files in the classic pcap format: reading them, and writing them with nanosecond stamps.
//!
//! Written here because the writers among the crates scale nanoseconds wrongly; read with
//! `pcap-parser`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError};

use crate::failure::Failure;

/// Longest record of a capture, in bytes: as libpcap's own limit.
const RECORD_MAX: usize = 1 << 18;
/// Magic number of a file whose stamps are nanoseconds, in the writer's byte order.
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// Link type of Ethernet.
const ETHERNET: u32 = 1;

/// The frames of a classic pcap file, in order.
///
/// # Errors
/// When it cannot be read, or is no Ethernet capture of that kind.
pub fn read(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let wrong = |what: String| Failure::usage(format!("capture {}: {what}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut reader = LegacyPcapReader::new(RECORD_MAX, file).map_err(|error| {
        wrong(format!(
            "no classic pcap file ({error:?}); convert it with `editcap -F pcap`"
        ))
    })?;
    let mut frames = Vec::new();
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) if header.network.0 != 1 => {
                        return Err(wrong(format!(
                            "link type {} is not Ethernet",
                            header.network.0
                        )));
                    }
                    PcapBlockOwned::Legacy(record) => frames.push(record.data.to_vec()),
                    PcapBlockOwned::LegacyHeader(_) | PcapBlockOwned::NG(_) => {}
                }
                reader.consume(used);
            }
            Err(PcapError::Eof) => return Ok(frames),
            Err(PcapError::Incomplete(_)) => {
                reader
                    .refill()
                    .map_err(|error| wrong(format!("{error:?}")))?;
            }
            Err(error) => return Err(wrong(format!("record {}: {error:?}", frames.len()))),
        }
    }
}

/// A capture that grows frame by frame.
#[derive(Debug)]
pub struct Writer {
    out: BufWriter<File>,
}

impl Writer {
    /// An empty capture at `path`; what stood there is gone.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(path: &Path) -> io::Result<Writer> {
        let mut out = BufWriter::new(File::create(path)?);
        out.write_all(&MAGIC_NANOS.to_le_bytes())?;
        // Version 2.4, no time zone, no accuracy.
        out.write_all(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
        out.write_all(&(RECORD_MAX as u32).to_le_bytes())?;
        out.write_all(&ETHERNET.to_le_bytes())?;
        Ok(Writer { out })
    }

    /// Adds a whole frame.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&mut self, now_ns: u64, frame: &[u8]) -> io::Result<()> {
        let (seconds, nanos) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000);
        for word in [
            seconds as u32,
            nanos as u32,
            frame.len() as u32,
            frame.len() as u32,
        ] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(frame)
    }

    /// Writes out what is still in memory.
    ///
    /// # Errors
    /// What the file system says.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a capture of `frames`, a microsecond apart.
///
/// # Errors
/// What the file system says.
pub fn write<'a>(path: &Path, frames: impl IntoIterator<Item = &'a [u8]>) -> io::Result<()> {
    let mut writer = Writer::create(path)?;
    for (number, frame) in frames.into_iter().enumerate() {
        writer.write(number as u64 * 1_000, frame)?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames.pcap");
        let frames: Vec<Vec<u8>> = (0..100u8).map(|n| vec![n; usize::from(n) + 14]).collect();
        write(&path, frames.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(read(&path).unwrap(), frames);
        std::fs::write(&path, b"no capture at all, and long enough").unwrap();
        let error = read(&path).unwrap_err();
        assert!(
            error.exit_code == 2 && error.message.contains("frames.pcap"),
            "{error}"
        );
    }
}
