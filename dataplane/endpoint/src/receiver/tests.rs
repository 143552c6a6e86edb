//! The receiver against a model that keeps every packet it has seen.

use std::collections::BTreeSet;

use packet::{Address, MacAddr};
use proptest::prelude::*;

use super::*;
use crate::config::Recovery;

const WINDOW: u32 = 64;
const REORDER: u32 = 16;
const HOLE_NS: u64 = 1000;

fn packet(len: u32, ends_message: bool) -> Packet {
    Packet {
        len,
        ends_message,
        ack_req: false,
        takes_receive: false,
    }
}

fn config() -> HostConfig {
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    HostConfig {
        window_packets: WINDOW,
        receive_window_packets: WINDOW,
        ack_every_packets: 4,
        recovery: Recovery::SelectiveRepeat {
            reorder_window_packets: REORDER,
            hole_timeout_ns: HOLE_NS,
            rto_low_ns: 1,
            rto_high_ns: 1,
        },
        ..HostConfig::new(Address::v4(1), mac, mac)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Goal: each packet is new once, acknowledgements are the unbroken prefix, and only what is
    /// missing, and far or long enough behind, is asked for.
    #[test]
    fn agrees_with_a_model(steps in proptest::collection::vec((-20i64..80, 0u64..400), 1..400)) {
        let config = config();
        let first = Psn::new(0xff_fff8);
        let mut receiver = Receiver::new(first, &config);
        let mut seen = BTreeSet::new();
        // When the packet was first overtaken.
        let mut overtaken = std::collections::BTreeMap::new();
        let (mut now, mut prefix, mut top) = (0, 0i64, 0i64);
        for (offset, wait) in steps {
            now += wait;
            while receiver.deadline() <= now {
                receiver.tick(now, &config);
            }
            let index = prefix + offset;
            let psn = first.plus(index as u32);
            prop_assert_eq!(receiver.index(psn), index);
            let arrival = receiver.arrive(now, index, packet(100, index % 5 == 4), &config);
            let is_old = index < prefix || seen.contains(&index);
            let wanted = if is_old {
                Arrival::Duplicate
            } else if index >= prefix + i64::from(WINDOW) {
                Arrival::Beyond
            } else {
                Arrival::New { behind: (top - 1 - index).max(0) as u64 }
            };
            prop_assert_eq!(arrival, wanted, "packet {} of prefix {}", index, prefix);
            if let Arrival::New { .. } = arrival {
                seen.insert(index);
                for missing in top..index {
                    overtaken.insert(missing, now);
                }
                top = top.max(index + 1);
                while seen.contains(&prefix) {
                    prefix += 1;
                }
            }
            let mut notices = Vec::new();
            while let Some(notice) = receiver.take_notice(now, &config) {
                notices.push(notice);
            }
            for notice in notices {
                let psn = match notice {
                    Notice::Nak(psn) => psn,
                    Notice::Ack(psn) => {
                        prop_assert_eq!(i64::from(psn.ahead_of(first)), prefix - 1);
                        continue;
                    }
                    Notice::NotReady(_) => panic!("receives are never short"),
                };
                let asked = i64::from(psn.ahead_of(first));
                prop_assert!(asked >= prefix && !seen.contains(&asked), "{} has arrived", asked);
                let is_far = top - 1 - asked >= i64::from(REORDER);
                let age = now - overtaken[&asked];
                prop_assert!(is_far || age >= HOLE_NS, "{} of {}, {} ns old", asked, top, age);
            }
            prop_assert!(receiver.inbox.unacknowledged < 4);
            prop_assert_eq!(receiver.delivered_bytes(), 100 * prefix as u64);
            prop_assert_eq!(i64::from(receiver.messages()), prefix / 5);
        }
        let (bytes, messages) = receiver.take_report();
        prop_assert_eq!((bytes, messages), (prefix as u64 / 5 * 500, prefix as u32 / 5));
    }
}

/// Goal: with more holes than the table holds, all are asked for in the end.
#[test]
fn more_holes_than_room_are_asked_for_in_turn() {
    let config = HostConfig {
        receive_window_packets: 1024,
        ..config()
    };
    let mut receiver = Receiver::new(Psn::new(0), &config);
    for index in (1..1000).step_by(2) {
        receiver.arrive(0, index, packet(1, false), &config);
    }
    let (mut now, mut asked) = (0, BTreeSet::new());
    while receiver.deadline() != NEVER || receiver.has_notice() {
        while let Some(notice) = receiver.take_notice(now, &config) {
            if let Notice::Nak(psn) = notice {
                asked.insert(psn.number());
                receiver.arrive(now, psn.number().into(), packet(1, false), &config);
            }
        }
        now = receiver.deadline().max(now + 1).min(now + HOLE_NS);
        receiver.tick(now, &config);
    }
    assert_eq!(asked.len(), 500, "every even packet below 1,000, once");
    assert_eq!(receiver.delivered_bytes(), 1000);
}
