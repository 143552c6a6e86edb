//! The order and pace in which packets leave a port.

use super::*;
use proptest::prelude::*;

fn next(queues: &mut Queues<u32>, now: u64) -> Option<u32> {
    queues.dequeue_one(Nanos(now), 0)
}

pub(super) fn queues(limit_bytes: u64, packets_max: u32, slack_ns: u64) -> Queues<u32> {
    let config = QueueConfig {
        limit_bytes,
        packets_max,
        slack_ns,
        overhead_bytes: 24,
        dscp_priority: [0; 64],
        pcp_priority: None,
        ecn: [None; 8],
    };
    let reserve = Reserve {
        bytes: 200,
        packets: 2,
    };
    Queues::new(
        &config,
        reserve,
        [(8_000_000_000, 1000), (8_000_000_000, 1000)].into_iter(),
    )
}

#[test]
fn the_highest_priority_goes_first_and_each_queue_is_fifo() {
    let mut q = queues(10_000, 16, 1_000_000);
    for (token, priority) in [(1, 0), (2, 7), (3, 3), (4, 7), (5, 0)] {
        q.enqueue(0, priority, token, 100).unwrap();
    }
    let out: Vec<u32> = std::iter::from_fn(|| next(&mut q, 1_000_000)).collect();
    assert_eq!(out, [2, 4, 3, 1, 5]);
    assert!(q.is_conserved());
}

#[test]
#[cfg_attr(miri, ignore = "50,000 steps")]
fn the_bucket_keeps_the_line_rate() {
    // 1 byte per nanosecond; 976 + 24 bytes take 1000 ns.
    let mut q = queues(1 << 20, 1024, 0);
    for token in 0..100 {
        q.enqueue(0, 0, token, 976).unwrap();
    }
    let mut sent = 0;
    for now in 0..50_000 {
        while next(&mut q, now).is_some() {
            sent += 1;
        }
    }
    assert_eq!(sent, 50, "50 us at 1 us a packet");
    assert_eq!(q.next_departure(0), Some(Nanos(50_000)));
    assert_eq!(q.next_departure(1), None);
}

#[test]
fn a_late_poll_catches_up_by_the_slack_alone() {
    let mut q = queues(1 << 20, 1024, 3_000);
    for token in 0..100 {
        q.enqueue(0, 0, token, 976).unwrap();
    }
    let burst = std::iter::from_fn(|| next(&mut q, 1_000_000)).count();
    assert_eq!(
        burst, 4,
        "three that were missed within 3 us of slack, and the one due now"
    );
}

proptest! {
    /// Goal: what leaves in bursts is what leaves one by one, at the same time.
    #[test]
    #[cfg_attr(miri, ignore = "a case takes minutes")]
    fn one_by_one_and_in_bursts_the_same_leave(
        slack_ns in 0u64..5_000,
        moves in proptest::collection::vec(
            (proptest::collection::vec((0u8..8, 1u32..1000), 0..50), 1usize..40, 0u64..60_000),
            1..60,
        ),
    ) {
        let (mut bursts, mut singles) = (queues(20_000, 200, slack_ns), queues(20_000, 200, slack_ns));
        let (mut now, mut token) = (1_000_000, 0);
        for (packets, room, wait_ns) in moves {
            for (priority, len) in packets {
                token += 1;
                let taken = bursts.enqueue(0, priority, token, len);
                prop_assert_eq!(taken, singles.enqueue(0, priority, token, len));
            }
            now += wait_ns;
            let mut burst = Vec::new();
            let sent = bursts.dequeue(Nanos(now), 0, room, &mut burst);
            prop_assert_eq!(sent, burst.len());
            let next = || singles.dequeue_one(Nanos(now), 0);
            let one_by_one: Vec<u32> = std::iter::from_fn(next).take(room).collect();
            prop_assert_eq!(burst, one_by_one);
            prop_assert_eq!(bursts.next_departure(0), singles.next_departure(0));
            prop_assert_eq!(bursts.counters(0), singles.counters(0));
            prop_assert!(bursts.is_conserved() && singles.is_conserved());
        }
    }
}

#[test]
fn every_bound_has_its_reason() {
    let mut q = queues(1_000, 3, 0);
    assert_eq!(q.enqueue(0, 0, 9, 1001), Err((9, DropReason::Oversize)));
    q.enqueue(0, 0, 1, 600).unwrap();
    assert_eq!(q.enqueue(0, 0, 2, 401), Err((2, DropReason::TailDrop)));
    q.enqueue(0, 1, 3, 600).unwrap();
    q.enqueue(1, 0, 4, 600).unwrap();
    assert_eq!(q.enqueue(1, 1, 5, 10), Err((5, DropReason::QueueMemory)));
    assert_eq!(q.counters(0).tail_drops[0], 1);
    assert_eq!(
        (
            q.depth_bytes(0, 0),
            q.depth_bytes(0, 1),
            q.depth_bytes(0, 7)
        ),
        (1200, 600, 0)
    );
    assert_eq!(q.flush(0), None, "nothing is taken from a live link");
    q.set_up(0, false);
    let flushed: Vec<_> = std::iter::from_fn(|| q.flush(0)).collect();
    assert_eq!(flushed, [(3, 1), (1, 0)]);
    assert_eq!(q.enqueue(0, 0, 6, 10), Err((6, DropReason::LinkDown)));
    q.enqueue(1, 1, 5, 10).unwrap();
    assert!(q.is_conserved());
}
