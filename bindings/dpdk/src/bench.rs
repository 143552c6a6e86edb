//! What a benchmark measures against: a plain receive and transmit loop in C.
//!
//! `net_null` gives the same buffers again and again, so a frame that was changed on its way must
//! get its old bytes back before it counts as received. [`Stamp`] does it, for the loop in C and
//! for the switch under test by the same C function, so that it costs both the same.

use dpdk_sys as sys;

use crate::burst::{BURST_MAX, Burst};
use crate::port::{RxQueue, TxQueue};

/// Queues that [`c_loop`] sends to at most.
const TX_MAX: usize = 64;

/// Where the IPv4 header's fields and the BTH's stand in an untagged frame without options.
const TTL: usize = 22;
/// Source and destination.
const ADDRESSES: usize = 26;
const CHECKSUM: usize = 24;
const FLAGS: usize = 46;
/// AckReq and the PSN.
const PSN: usize = 50;

/// Gives frames their MAC addresses, TTL, checksum, BTH flags, destination QP and the next PSN; with
/// several flows, to each frame those of the next flow, and its addresses.
#[derive(Debug, Clone)]
pub struct Stamp {
    fields: sys::shim_stamp,
    /// Empty when there is one flow.
    flows: Vec<sys::shim_flow>,
}

impl Stamp {
    /// That of an untagged RoCEv2 frame over IPv4 without options; frames that it is applied to
    /// are like this one. `None` if it is shorter than such a frame's headers.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let head: &[u8; sys::SHIM_STAMP_FRAME_BYTES as usize] = frame.first_chunk()?;
        let fields = sys::shim_stamp {
            macs: *head.first_chunk()?,
            checksum: [head[CHECKSUM], head[CHECKSUM + 1]],
            ttl: head[TTL],
            flags_qp: *head[FLAGS..].first_chunk()?,
            psn: u32::from_be_bytes(*head[PSN..].first_chunk()?) & 0x00ff_ffff,
            next: 0,
        };
        let flows = Vec::new();
        Some(Self { fields, flows })
    }

    /// That of several flows, each as a frame of it, which frames are of in turn. `None` if there is
    /// none, one is too short, or their IP checksums differ: all get that of the first.
    pub fn of_flows<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut stamps = frames.into_iter().map(|frame| (Self::of(frame), frame));
        let (first, frame) = stamps.next()?;
        let mut all = first?;
        all.flows.push(all.flow(frame)?);
        for (stamp, frame) in stamps {
            let stamp = stamp?;
            if stamp.fields.checksum != all.fields.checksum {
                return None;
            }
            all.flows.push(stamp.flow(frame)?);
        }
        Some(all)
    }

    fn flow(&self, frame: &[u8]) -> Option<sys::shim_flow> {
        Some(sys::shim_flow {
            addresses: *frame.get(ADDRESSES..)?.first_chunk()?,
            flags_qp: self.fields.flags_qp,
            psn: self.fields.psn,
        })
    }

    /// Restamps all packets of the burst in order; shorter frames are left alone.
    #[inline]
    pub fn apply(&mut self, burst: &mut Burst) {
        let mbufs = burst.as_mut_ptr().cast::<*mut sys::rte_mbuf>();
        let count = u32::try_from(burst.len()).unwrap_or(0);
        // SAFETY: `mbufs` points at `count` live mbufs that are borrowed exclusively.
        // `flows` are as many as is said, and `next` is below that, for it begins at 0.
        unsafe {
            sys::shim_bench_stamp(
                mbufs,
                count,
                &raw mut self.fields,
                self.flows.as_mut_ptr(),
                self.flows.len() as u32,
            )
        }
    }
}

/// Receives bursts of at most `burst` packets, restamps them and sends each burst to the next of
/// `tx`, for `rounds` rounds. Returns how many packets were sent.
pub fn c_loop(
    rx: &mut RxQueue,
    tx: &mut [TxQueue],
    burst: u16,
    rounds: u64,
    stamp: &mut Stamp,
) -> u64 {
    let mut queues = [sys::shim_queue { port: 0, queue: 0 }; TX_MAX];
    for (place, queue) in queues.iter_mut().zip(tx.iter()) {
        *place = queue.raw();
    }
    let count = u32::try_from(tx.len().min(TX_MAX)).unwrap_or(0);
    let burst = burst.min(BURST_MAX as u16);
    let flows = stamp.flows.as_mut_ptr();
    let flow_count = stamp.flows.len() as u32;
    let stamp = &raw mut stamp.fields;
    // SAFETY: the ports run while their queues are held, both exclusively here, the first `count`
    // places of `queues` are such queues, and the flows are as many as is said.
    unsafe {
        sys::shim_bench_loop(
            rx.raw(),
            queues.as_ptr(),
            count,
            burst,
            rounds,
            stamp,
            flows,
            flow_count,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support;

    /// Stamped fields come back whatever happened to them, PSNs count on and wrap, the rest stays.
    #[test]
    fn frames_are_restamped() {
        let mut template = [0x11_u8; 64];
        template[PSN + 1..PSN + 4].fill(0xff);
        let mut stamp = Stamp::of(&template).unwrap();
        assert!(Stamp::of(&template[..53]).is_none());
        let pool = test_support::pool("bench_stamp", 7, 64);
        let mut burst = Burst::new();
        for len in [64, 64, 53] {
            let mut mbuf = pool.alloc().unwrap();
            mbuf.write(&[0x22; 64][..len]).unwrap();
            burst.push(mbuf).unwrap();
        }
        stamp.apply(&mut burst);
        let psn = |place: usize| burst[place].data()[PSN..PSN + 4].to_vec();
        assert_eq!((psn(0), psn(1)), (vec![0, 0xff, 0xff, 0xff], vec![0; 4]));
        assert_eq!(stamp.fields.psn, 1);
        let stamped = [
            (0..12),
            (TTL..TTL + 1),
            (CHECKSUM..CHECKSUM + 2),
            (FLAGS..FLAGS + 4),
        ];
        for (at, &byte) in burst[1].data().iter().enumerate() {
            let is_stamped = stamped.iter().any(|range| range.contains(&at));
            if !(PSN..PSN + 4).contains(&at) {
                assert_eq!(byte, if is_stamped { 0x11 } else { 0x22 }, "byte {at}");
            }
        }
        assert_eq!(burst[2].data(), [0x22; 53], "too short to be stamped");
    }

    /// Frames are of each flow in turn, and every flow has PSNs of its own.
    #[test]
    fn flows_take_turns() {
        let template = |flow: u8| {
            let mut frame = [0x11_u8; 64];
            frame[ADDRESSES..ADDRESSES + 8].fill(flow);
            frame[FLAGS + 3] = flow;
            frame
        };
        let frames: Vec<[u8; 64]> = (1..=3).map(template).collect();
        let mut stamp = Stamp::of_flows(frames.iter().map(|frame| &frame[..])).unwrap();
        let mut other = frames[0];
        other[CHECKSUM] = 0;
        assert!(Stamp::of_flows([&frames[0][..], &other]).is_none());
        assert!(Stamp::of_flows([]).is_none());
        let pool = test_support::pool("bench_flows", 15, 64);
        let mut burst = Burst::new();
        for _ in 0..5 {
            let mut mbuf = pool.alloc().unwrap();
            mbuf.write(&[0x22; 64]).unwrap();
            burst.push(mbuf).unwrap();
        }
        for round in 0..2_u8 {
            stamp.apply(&mut burst);
            for (place, mbuf) in burst.iter().enumerate() {
                let number = usize::from(round) * 5 + place;
                let (flow, turn) = (1 + (number % 3) as u8, (number / 3) as u8);
                let data = mbuf.data();
                assert_eq!(data[ADDRESSES..ADDRESSES + 8], [flow; 8], "frame {number}");
                assert_eq!(data[FLAGS + 3], flow);
                assert_eq!(data[PSN + 1..PSN + 4], [0x11, 0x11, 0x11 + turn]);
            }
        }
    }
}
