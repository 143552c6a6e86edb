//! A packet of the simulator: its headers as real bytes, its payload as a length.
//!
//! The pipeline owns frames as its tokens. They are boxes from a pool: in a run that goes steadily
//! nothing is allocated for a packet.

use agent::seam::FromSwitch;
use endpoint::HEADER_ROOM;
use pipeline::{DropReason, PortId, Report, Sink, Token};

/// Bytes of a frame that lie in the first two cache lines; with the lengths before them, a WRITE
/// Middle's headers (54) need one.
const NEAR: usize = 120;
const _: () = assert!(NEAR >= HEADER_ROOM, "a host writes its headers here");

/// What a frame is made of. Longer headers than `near` are our own messages with counts of many
/// spines.
#[repr(C, align(64))]
#[derive(Debug)]
struct Packet {
    wire_len: u32,
    header_len: u32,
    near: [u8; NEAR],
    far: Vec<u8>,
}

/// A frame in flight or in a queue.
#[derive(Debug)]
pub struct Frame(Box<Packet>);

impl Frame {
    fn new() -> Frame {
        Frame(Box::new(Packet {
            wire_len: 0,
            header_len: 0,
            near: [0; NEAR],
            far: Vec::new(),
        }))
    }

    /// A frame of `wire_len` bytes that begins like this.
    pub fn of(header: &[u8], wire_len: u32) -> Frame {
        let mut frame = Frame::new();
        frame.clear(header.len());
        frame.header_mut().copy_from_slice(header);
        frame.0.wire_len = wire_len;
        frame
    }

    /// Room for a host's headers; [`Frame::set_lens`] says how much of it was used.
    #[inline(always)]
    pub fn room(&mut self) -> &mut [u8; HEADER_ROOM] {
        // Checked when it is compiled: NEAR is no less.
        match self.0.near.first_chunk_mut() {
            Some(room) => room,
            None => unreachable!("{NEAR} bytes hold a host's headers"),
        }
    }

    /// What is in it: so many bytes of headers, of a frame of `wire_len` bytes.
    #[inline(always)]
    pub fn set_lens(&mut self, header_len: u32, wire_len: u32) {
        self.0.header_len = header_len.min(NEAR as u32);
        self.0.wire_len = wire_len;
    }

    /// Makes it an empty one of `len` zero bytes, all of them kept.
    fn clear(&mut self, len: usize) {
        let packet = &mut *self.0;
        packet.wire_len = len as u32;
        packet.header_len = len as u32;
        packet.far.clear();
        if len <= NEAR {
            packet.near[..len].fill(0);
        } else {
            packet.far.resize(len, 0);
        }
    }
}

impl Token for Frame {
    #[inline(always)]
    fn header(&self) -> &[u8] {
        let len = self.0.header_len as usize;
        match self.0.near.get(..len) {
            Some(near) => near,
            None => &self.0.far,
        }
    }

    #[inline(always)]
    fn header_mut(&mut self) -> &mut [u8] {
        let Packet {
            header_len,
            near,
            far,
            ..
        } = &mut *self.0;
        match near.get_mut(..*header_len as usize) {
            Some(near) => near,
            None => far,
        }
    }

    #[inline(always)]
    fn wire_len(&self) -> u32 {
        self.0.wire_len
    }
}

/// Where frames come from and go back to, and where switches report.
#[derive(Debug, Default)]
pub struct SimSink {
    free: Vec<Frame>,
    made: u64,
    /// What switches have reported since it was last taken.
    pub reports: Vec<FromSwitch>,
    /// The switch that is being driven.
    pub switch: u16,
    /// What it has cut through, and the port.
    cut: Option<(PortId, Frame)>,
}

impl SimSink {
    /// A frame, of whatever content.
    #[inline(always)]
    pub fn take(&mut self) -> Frame {
        match self.free.pop() {
            Some(frame) => frame,
            None => self.make(),
        }
    }

    #[cold]
    fn make(&mut self) -> Frame {
        self.made += 1;
        Frame::new()
    }

    /// Takes a frame back.
    #[inline(always)]
    pub fn give(&mut self, frame: Frame) {
        self.free.push(frame);
    }

    /// What the switch that is being driven has cut through, and by which port it leaves.
    #[inline(always)]
    pub fn take_cut(&mut self) -> Option<(PortId, Frame)> {
        self.cut.take()
    }

    /// Frames that are out.
    pub fn out(&self) -> u64 {
        self.made - self.free.len() as u64
    }
}

impl Sink<Frame> for SimSink {
    fn alloc(&mut self, len: usize) -> Option<Frame> {
        let mut frame = self.take();
        frame.clear(len);
        Some(frame)
    }

    fn discard(&mut self, token: Frame, _reason: DropReason) {
        self.give(token);
    }

    fn consume(&mut self, token: Frame) {
        self.give(token);
    }

    const CUTS_THROUGH: bool = true;

    #[inline(always)]
    fn cut_through(&mut self, port: PortId, token: Frame) -> Result<(), Frame> {
        if self.cut.is_some() {
            return Err(token);
        }
        self.cut = Some((port, token));
        Ok(())
    }

    fn report(&mut self, report: Report<'_>) -> bool {
        self.reports.push(FromSwitch::new(self.switch, report));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: frames of every length keep their bytes, and a frame that was used comes back zeroed.
    #[test]
    fn frames_are_reused_clean() {
        let mut sink = SimSink::default();
        for len in [1, 62, NEAR, NEAR + 1, 700, 62] {
            let mut frame = sink.alloc(len).expect("frames are never short");
            assert_eq!(frame.header(), vec![0; len], "{len} bytes");
            frame.header_mut().fill(0xa5);
            assert_eq!(
                (frame.header()[len - 1], frame.wire_len()),
                (0xa5, len as u32)
            );
            sink.consume(frame);
        }
        assert_eq!(
            (sink.made, sink.out()),
            (1, 0),
            "one frame was made and used six times"
        );
    }
}
