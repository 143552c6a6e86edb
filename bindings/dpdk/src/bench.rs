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
const CHECKSUM: usize = 24;
const FLAGS: usize = 46;
/// AckReq and the PSN.
const PSN: usize = 50;

/// Gives frames their MAC addresses, TTL, checksum, BTH flags, destination QP and the next PSN.
#[derive(Debug, Clone)]
pub struct Stamp(sys::shim_stamp);

impl Stamp {
    /// That of an untagged RoCEv2 frame over IPv4 without options; frames that it is applied to
    /// are like this one. `None` if it is shorter than such a frame's headers.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let head: &[u8; sys::SHIM_STAMP_FRAME_BYTES as usize] = frame.first_chunk()?;
        Some(Self(sys::shim_stamp {
            macs: *head.first_chunk()?,
            checksum: [head[CHECKSUM], head[CHECKSUM + 1]],
            ttl: head[TTL],
            flags_qp: *head[FLAGS..].first_chunk()?,
            psn: u32::from_be_bytes(*head[PSN..].first_chunk()?) & 0x00ff_ffff,
        }))
    }

    /// The PSN that the next frame gets.
    pub fn next_psn(&self) -> u32 {
        self.0.psn
    }

    /// Restamps all packets of the burst in order; shorter frames are left alone.
    #[inline]
    pub fn apply(&mut self, burst: &mut Burst) {
        let mbufs = burst.as_mut_ptr().cast::<*mut sys::rte_mbuf>();
        let count = u32::try_from(burst.len()).unwrap_or(0);
        // SAFETY: `mbufs` points at `count` live mbufs that are borrowed exclusively.
        unsafe { sys::shim_bench_stamp(mbufs, count, &raw mut self.0) }
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
    let stamp = &raw mut stamp.0;
    // SAFETY: the ports run while their queues are held, both exclusively here, and the first
    // `count` places of `queues` are such queues.
    unsafe { sys::shim_bench_loop(rx.raw(), queues.as_ptr(), count, burst, rounds, stamp) }
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
        assert_eq!(stamp.next_psn(), 1);
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
}
