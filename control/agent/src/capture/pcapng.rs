//! The pcapng format (draft-ietf-opsawg-pcapng), as much of it as a capture writes: a section, its
//! interfaces, packets with direction, and what was counted of each interface.
//!
//! Written here: of the crates that write it, pcap-file scales nanoseconds wrongly and the others
//! read only. All numbers are little-endian, which the section's header says.

use super::tap::{Event, Slot};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Tells the byte order.
const MAGIC: u32 = 0x1a2b_3c4d;
/// Link type of Ethernet.
const ETHERNET: u16 = 1;

/// Option codes: of all blocks, of the section, of interfaces, packets and statistics.
const END: u16 = 0;
const COMMENT: u16 = 1;
const APPLICATION: u16 = 4;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;
const DROPPED: u16 = 5;
const ACCEPTED: u16 = 6;

/// Packet flags: received, sent.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

fn put32(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

fn pad(out: &mut Vec<u8>, len: usize) {
    out.resize(out.len() + len.next_multiple_of(4) - len, 0);
}

/// Writes a block: its type, its length on both sides of what `body` writes.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put32(out, kind);
    put32(out, 0);
    body(out);
    let len = (out.len() + 4 - start) as u32;
    out[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    put32(out, len);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    pad(out, value.len());
}

fn end_options(out: &mut Vec<u8>) {
    option(out, END, &[]);
}

/// A time in the two words that the format wants, high first.
fn put_time(out: &mut Vec<u8>, ns: u64) {
    put32(out, (ns >> 32) as u32);
    put32(out, ns as u32);
}

/// Begins a section written by `application`.
pub fn section(out: &mut Vec<u8>, application: &str) {
    block(out, SECTION, |out| {
        put32(out, MAGIC);
        out.extend([1, 0, 0, 0]);
        // How long the section is, is not known.
        out.extend(u64::MAX.to_le_bytes());
        option(out, APPLICATION, application.as_bytes());
        end_options(out);
    });
}

/// Describes the next interface: they are numbered from 0.
pub fn interface(out: &mut Vec<u8>, name: &str, snaplen: usize) {
    block(out, INTERFACE, |out| {
        out.extend(ETHERNET.to_le_bytes());
        out.extend([0, 0]);
        put32(out, snaplen as u32);
        option(out, NAME, name.as_bytes());
        // Stamps count nanoseconds.
        option(out, RESOLUTION, &[9]);
        end_options(out);
    });
}

/// Adds a packet, at `unix_ns`. One that was dropped says why in its comment.
pub fn packet(out: &mut Vec<u8>, unix_ns: u64, slot: &Slot) {
    block(out, PACKET, |out| {
        put32(out, slot.interface);
        put_time(out, unix_ns);
        let frame = slot.frame();
        put32(out, frame.len() as u32);
        put32(out, slot.wire_len);
        out.extend(frame);
        pad(out, frame.len());
        match slot.event {
            Event::In => option(out, FLAGS, &INBOUND.to_le_bytes()),
            Event::Out => option(out, FLAGS, &OUTBOUND.to_le_bytes()),
            // It went neither way: the format's "information not available".
            Event::Dropped(reason) => {
                option(out, COMMENT, format!("dropped: {reason}").as_bytes());
            }
        }
        end_options(out);
    });
}

/// Says at the end what an interface counted: packets that were wanted, and those that were missed.
pub fn statistics(out: &mut Vec<u8>, unix_ns: u64, interface: u32, wanted: u64, missed: u64) {
    block(out, STATISTICS, |out| {
        put32(out, interface);
        put_time(out, unix_ns);
        option(out, DROPPED, &missed.to_le_bytes());
        option(out, ACCEPTED, &wanted.to_le_bytes());
        end_options(out);
    });
}
