//! Traffic that is not RoCE: segments that look like TCP, for queues that are not empty.
//!
//! One stream from a host to another, at a fixed rate or by additive increase and multiplicative
//! decrease. Nobody measures it: it is no reliable transport, nothing is sent again and its
//! payload is zeros. The receiver answers every sixteenth segment; beside the number of the
//! byte that it expects next it says, in the sequence number, how many segments it has had.

use packet::ip::{self, IpFields};
use packet::{Address, be, checksum, ethernet};

use crate::config::HostConfig;
use crate::frame::Emitted;
use crate::pacer::Pacer;
use crate::timers::NEVER;
use crate::units::BitRate;

/// IP protocol of TCP.
pub(crate) const TCP: u8 = 6;
/// TCP header without options.
pub(crate) const HEADER_LEN: usize = 20;
/// Payload of a segment: what fits an Ethernet MTU of 1500 over IPv4.
const SEGMENT_BYTES: u32 = 1460;
/// Segments for each answer.
const ANSWER_EVERY: u32 = 16;
/// The rate grows by this part of its most with each answer without loss, and is cut to half.
const INCREASE_PART: u64 = 64;
/// The least rate is this part of the most.
const LEAST_PART: u64 = 256;
/// How late a segment may go: the time of four of the longest frames, on 1 Gbit/s.
const LATE_BITS_NS: u64 = 4 * 4224 * 8;
const SOURCE_PORT: u16 = 0xd000;
/// The port of iperf, so that captures read well.
const PORT: u16 = 5001;
/// ACK; and PSH with it, in segments with data.
const ACK: u16 = 0x10;
const PSH: u16 = 0x08;
const TTL: u8 = 64;

/// How a host's background traffic behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Background {
    /// To whom it goes, of the host's family; `None` sends nothing.
    pub to: Option<Address>,
    /// From whom it comes; others are counted as not for this host.
    pub from: Option<Address>,
    /// Its rate on the link, and the most that it grows to.
    pub rate: BitRate,
    /// Whether it halves its rate for loss and grows otherwise.
    pub adapts: bool,
}

/// Both ends of a host's background traffic.
#[derive(Debug)]
pub(crate) struct Stream {
    config: Background,
    source: Address,
    macs: [packet::MacAddr; 2],
    is_stopped: bool,
    pacer: Pacer,
    rate_bps: u64,
    sent: u32,
    /// Segments known to be lost.
    lost: u32,
    /// As a receiver: one past the latest segment, those that came, and those not answered.
    top: u32,
    received: u32,
    unanswered: u32,
    answer_due: bool,
}

/// What a segment of the peer was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Segment {
    Data,
    /// An answer: segments lost since the one before.
    Answer {
        lost: u32,
    },
}

impl Stream {
    pub(crate) fn new(config: Background, host: &HostConfig) -> Stream {
        let link_gbps = (host.link_rate.bits_per_second() / 1_000_000_000).max(1);
        Stream {
            config,
            source: host.address,
            macs: [host.gateway_mac, host.mac],
            is_stopped: false,
            // A segment that finds the link busy is caught up on.
            pacer: Pacer::new(config.rate, host.slack_ns + LATE_BITS_NS / link_gbps),
            rate_bps: config.rate.bits_per_second(),
            sent: 0,
            lost: 0,
            top: 0,
            received: 0,
            unanswered: 0,
            answer_due: false,
        }
    }

    /// Sends no more data; what comes is still answered.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// When it has something to send.
    #[inline]
    pub(crate) fn ready_ns(&self) -> u64 {
        if self.answer_due {
            0
        } else if self.is_stopped || self.config.to.is_none() {
            NEVER
        } else {
            self.pacer.ready_ns()
        }
    }

    /// Writes a segment, whole if there is room.
    pub(crate) fn transmit(
        &mut self,
        now: u64,
        frame: &mut [u8],
        overhead_bytes: u32,
    ) -> Option<Emitted> {
        if std::mem::take(&mut self.answer_due) {
            let bytes = self.top.wrapping_mul(SEGMENT_BYTES);
            let to = self.config.from?;
            return Some(self.write(frame, to, [self.received, bytes], [PORT, SOURCE_PORT], 0));
        }
        let to = self.config.to?;
        let at = self.sent.wrapping_mul(SEGMENT_BYTES);
        self.sent = self.sent.wrapping_add(1);
        let len = SEGMENT_BYTES as usize;
        let emitted = self.write(frame, to, [at, 0], [SOURCE_PORT, PORT], len);
        self.pacer.spend(now, emitted.wire_len + overhead_bytes);
        Some(emitted)
    }

    /// Takes a TCP segment whose header is `segment` and which carries `len` bytes; `None` when it
    /// belongs to no stream of this host.
    pub(crate) fn receive(
        &mut self,
        source: Address,
        segment: &[u8],
        len: usize,
    ) -> Option<Segment> {
        if segment.len() < HEADER_LEN {
            return None;
        }
        let ports = [be::get16(segment, 0), be::get16(segment, 2)];
        let (number, expects) = (be::get32(segment, 4), be::get32(segment, 8));
        if ports == [SOURCE_PORT, PORT] && Some(source) == self.config.from {
            let is_whole = len == SEGMENT_BYTES as usize;
            if !is_whole {
                return None;
            }
            self.received = self.received.wrapping_add(1);
            // In units of segments: the stream's bytes wrap long before its segments do.
            let behind = self.top.wrapping_mul(SEGMENT_BYTES).wrapping_sub(number) as i32;
            if behind <= 0 {
                self.top = self
                    .top
                    .wrapping_add(behind.unsigned_abs() / SEGMENT_BYTES + 1);
            }
            self.unanswered += 1;
            if self.unanswered >= ANSWER_EVERY {
                self.unanswered = 0;
                self.answer_due = true;
            }
            return Some(Segment::Data);
        }
        if ports != [PORT, SOURCE_PORT] || Some(source) != self.config.to || len != 0 {
            return None;
        }
        Some(Segment::Answer {
            lost: self.answered(number, expects),
        })
    }

    /// The peer has had `received` segments and expects byte `expects` next.
    fn answered(&mut self, received: u32, expects: u32) -> u32 {
        // The latest segment that can have been meant: none is sent twice, so it was sent.
        let unsent = self.sent.wrapping_mul(SEGMENT_BYTES).wrapping_sub(expects);
        let top = self.sent.wrapping_sub(unsent / SEGMENT_BYTES);
        let Some(lost) = top.checked_sub(received).filter(|_| top <= self.sent) else {
            return 0;
        };
        let more = lost.saturating_sub(self.lost);
        self.lost = self.lost.max(lost);
        if self.config.adapts {
            let most = self.config.rate.bits_per_second();
            self.rate_bps = if more > 0 {
                (self.rate_bps / 2).max(most / LEAST_PART).max(1)
            } else {
                (self.rate_bps + most / INCREASE_PART).min(most)
            };
            self.pacer.set_rate(self.rate_bps);
        }
        more
    }

    fn write(
        &self,
        frame: &mut [u8],
        to: Address,
        [number, expects]: [u32; 2],
        [source_port, port]: [u16; 2],
        len: usize,
    ) -> Emitted {
        ethernet::set_addresses(frame, self.macs[0], self.macs[1]);
        let is_v4 = to.as_v4().is_some();
        let kind = if is_v4 {
            ethernet::IPV4
        } else {
            ethernet::IPV6
        };
        be::put16(frame, ethernet::ETHERTYPE, kind);
        let fields = IpFields {
            source: self.source,
            destination: to,
            traffic_class: 0,
            ttl: TTL,
            payload_len: (HEADER_LEN + len) as u16,
        };
        let network = &mut frame[ethernet::HEADER_LEN..];
        let at = ethernet::HEADER_LEN + ip::write_carrying(network, &fields, TCP);
        let tcp = &mut frame[at..at + HEADER_LEN];
        be::put16(tcp, 0, source_port);
        be::put16(tcp, 2, port);
        be::put32(tcp, 4, number);
        be::put32(tcp, 8, expects);
        let flags = if len > 0 { ACK | PSH } else { ACK };
        be::put16(tcp, 12, 5 << 12 | flags);
        be::put16(tcp, 14, 0xffff);
        be::put32(tcp, 16, 0);
        // The payload is zeros and adds nothing to the sum; nor does what makes an IPv6 address of
        // an IPv4 one, so that one pseudo-header does for both.
        let pseudo = checksum::pseudo_v6(self.source, to, HEADER_LEN + len, TCP);
        let sum = checksum::finish(checksum::add(pseudo, tcp));
        be::put16(tcp, 16, sum);
        let header_len = at + HEADER_LEN;
        if let Some(payload) = frame.get_mut(header_len..header_len + len) {
            payload.fill(0);
        }
        Emitted {
            header_len: header_len as u32,
            wire_len: (header_len + len) as u32,
        }
    }
}

#[cfg(test)]
mod tests;
