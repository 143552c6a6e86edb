//! A link of a testbed gets faults while packets pass it, as control tells it: nothing is allocated where
//! it is polled, and nothing is lost but by the faults.

use dpdk::{Burst, test_support};
use lcore::wire::Wire;
use pipeline::Nanos;
use pipeline::fault::{Fault, LinkFaults};

/// Packets in all: more than a ring holds, so that they wait in the link.
const PACKETS: u32 = 1_500;

/// Goal: a healthy link is given a delay, then damage, then none; what it holds meanwhile needs no memory.
#[test]
fn faults_that_come_later_need_no_memory() {
    let eal = test_support::eal();
    let pool = test_support::pool("wire", 2047, 2048);
    let mut wire = Wire::new(eal, "wire", &[], 1).expect("a ring");
    let of = |fault| Some(LinkFaults::new(&[fault], 7));
    // Made where control runs.
    let mut faults = [
        of(Fault::Delay { nanos: 1_000_000 }),
        of(Fault::Corrupt(1.0)),
        None,
    ];
    let (mut burst, mut damaged) = (Burst::new(), 0);
    let memory = allocation_counter::measure(|| {
        let mut now = Nanos(0);
        for faults in &mut faults {
            wire.swap_faults(faults);
            for _ in 0..PACKETS / 3 {
                let mut mbuf = pool.alloc().expect("packet memory");
                mbuf.set_len(64).expect("room");
                assert!(wire.room() > 0, "it holds more than a ring");
                burst.push(mbuf).expect("room");
                wire.send(now, &mut burst);
                now = Nanos(now.0 + 1_000);
                if wire.in_flight() > 700 {
                    wire.receive(now, &mut burst);
                    burst.clear();
                }
            }
        }
        now = Nanos(now.0 + 10_000_000);
        while !wire.is_idle() {
            wire.receive(now, &mut burst);
            burst.clear();
            damaged += u32::from(wire.receive_damaged().is_some());
        }
    });
    assert_eq!(memory.count_total, 0, "allocated: {memory:?}");
    assert_eq!((damaged, wire.lost), (PACKETS / 3, 0));
    assert_eq!(
        (wire.sent, wire.received),
        (u64::from(PACKETS), u64::from(PACKETS))
    );
    assert_eq!(pool.in_use(), 0, "every packet is back");
    // What control gets back is what the link had.
    assert!(faults.iter().all(Option::is_some));
}
