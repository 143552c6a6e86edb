//! Every verb, with both recoveries, over a wire that loses, doubles and reorders.

mod wire;

use endpoint::{Event, Flow, HostConfig, PathMtu, QpId, Recovery, Verb};
use packet::Psn;
use proptest::prelude::*;
use wire::{Dice, Wire, in_order};

const MS: u64 = 1_000_000;

fn flow(verb: Verb, bytes: u64, message_bytes: u64) -> Flow {
    Flow {
        verb,
        flow_id: 9,
        bytes,
        message_bytes,
        announce: true,
    }
}

/// Bytes that host `host` was told to have received, and its messages.
fn received(events: &[(usize, Event)], host: usize) -> (u64, u32) {
    let mut sum = (0, 0);
    for event in events {
        if let (
            at,
            Event::Received {
                bytes, messages, ..
            },
        ) = event
            && *at == host
        {
            sum = (sum.0 + bytes, sum.1 + messages);
        }
    }
    sum
}

fn completions(events: &[(usize, Event)]) -> usize {
    let done = |e: &&(usize, Event)| matches!(e.1, Event::SendComplete { .. });
    events.iter().filter(done).count()
}

/// Goal: in order, each verb costs exactly its packets, and its bytes arrive once.
#[test]
fn in_order_costs_exactly_its_packets() {
    for recovery in [Recovery::SELECTIVE_REPEAT, Recovery::GO_BACK_N] {
        for verb in Verb::ALL {
            for (bytes, message_bytes, packets) in
                [(1, 9, 1), (50_001, 20_000, 13), (4096, 4096, 1)]
            {
                let (mut wire, qp) = Wire::pair(|c| c.recovery = recovery, 0xff_fffc);
                let flow = flow(verb, bytes, message_bytes);
                wire.hosts[0].post(0, qp, flow).unwrap();
                let events = wire.run(1000 * MS, in_order);
                let (a, b) = (wire.counters(0), wire.counters(1));
                let what = format!("{verb:?} of {bytes}: {a:?}\n{b:?}");
                assert_eq!(completions(&events), 1, "{what}");
                let (from, to) = if verb == Verb::Read { (b, a) } else { (a, b) };
                assert_eq!((from.sent, to.received), (packets, packets), "{what}");
                assert_eq!((to.received_bytes, to.payload_errors), (bytes, 0), "{what}");
                let again = a.retransmitted + b.retransmitted + a.naks_sent + b.naks_sent;
                assert_eq!((again, a.timeouts, b.spurious), (0, 0, 0), "{what}");
                let messages = bytes.div_ceil(message_bytes);
                if verb == Verb::Read {
                    assert_eq!(received(&events, 1), (0, 0), "{what}");
                    assert_eq!(a.read_requests_sent, messages, "{what}");
                    assert_eq!(a.announced, 0, "{what}");
                } else {
                    assert_eq!(received(&events, 1), (bytes, messages as u32), "{what}");
                    let immediates = matches!(verb, Verb::WriteImmediate | Verb::SendImmediate);
                    assert_eq!(
                        b.immediates,
                        if immediates { messages } else { 0 },
                        "{what}"
                    );
                }
            }
        }
    }
}

/// Goal: a request takes the PSNs of its answer, the answer echoes them, and what follows comes
/// behind; no acknowledgement goes ahead of the answer.
#[test]
fn a_read_takes_the_psns_of_its_answer() {
    let (mut wire, qp) = Wire::pair(|_| (), 0xff_fffe);
    for (verb, bytes) in [
        (Verb::Read, 3 * 4096 + 1),
        (Verb::Write, 1),
        (Verb::Read, 7),
    ] {
        wire.hosts[0]
            .post(0, qp, flow(verb, bytes, 1 << 20))
            .unwrap();
    }
    let mut said = Vec::new();
    let events = wire.run(100 * MS, |frame| {
        if frame.bytes[36..38] == [0x12, 0xb7] {
            said.push((frame.from, frame.opcode, frame.psn.number()));
        }
        [Some(1000), None]
    });
    assert_eq!(completions(&events), 3);
    let requests: Vec<_> = said.iter().filter(|s| s.0 == 0).collect();
    let wanted = [(0, 0x0c, 0xff_fffe), (0, 0x0a, 2), (0, 0x0c, 3)];
    assert_eq!(requests, wanted.iter().collect::<Vec<_>>());
    let answers: Vec<_> = said
        .iter()
        .filter(|s| s.0 == 1)
        .map(|s| (s.1, s.2))
        .collect();
    let first = [(0x0d, 0xff_fffe), (0x0e, 0xff_ffff), (0x0e, 0), (0x0f, 1)];
    assert_eq!(answers[..4], first);
    assert!(answers[4..].contains(&(0x10, 3)), "{answers:?}");
}

/// Goal: one lost packet of an answer is read again, alone; a lost request as a whole, once.
#[test]
fn a_lost_answer_is_read_again() {
    for (from, psn, opcode) in [(1, 20, 0x0e), (1, 16, 0x0d), (0, 16, 0x0c), (1, 63, 0x0f)] {
        let (mut wire, qp) = Wire::pair(|c| c.window_packets = 256, 0);
        wire.hosts[0]
            .post(0, qp, flow(Verb::Read, 4 << 20, 64 << 10))
            .unwrap();
        let mut dropped = 0;
        let events = wire.run(1000 * MS, |frame| {
            let hit = (frame.from, frame.psn, frame.opcode) == (from, Psn::new(psn), opcode);
            if hit && dropped == 0 {
                dropped += 1;
                return [None, None];
            }
            [Some(1000), None]
        });
        let (a, b) = (wire.counters(0), wire.counters(1));
        let what = format!("{opcode:#x} of {psn}: {a:?}\n{b:?}");
        assert_eq!((completions(&events), dropped), (1, 1), "{what}");
        assert_eq!(
            (a.received, a.spurious, a.payload_errors),
            (1024, 0, 0),
            "{what}"
        );
        let again = if from == 0 { 0 } else { 1 };
        assert_eq!((b.sent, b.retransmitted), (1024 + again, again), "{what}");
        assert_eq!(a.read_requests_sent, 65, "{what}");
    }
}

/// Goal: answers that overtake each other within the reorder window repair nothing.
#[test]
fn spraying_repairs_no_answer() {
    let (mut wire, qp) = Wire::pair(|c| c.window_packets = 256, 0xff_ff00);
    wire.hosts[0]
        .post(0, qp, flow(Verb::Read, 16 << 20, 1 << 20))
        .unwrap();
    let mut dice = Dice(2);
    let events = wire.run(1000 * MS, |_| [Some(1000 + dice.below(30_000)), None]);
    let (a, b) = (wire.counters(0), wire.counters(1));
    assert_eq!(completions(&events), 1, "{a:?}");
    assert!(a.out_of_order > 1000, "{a:?}");
    assert_eq!(
        (a.spurious, b.retransmitted, a.timeouts),
        (0, 0, 0),
        "{a:?}\n{b:?}"
    );
}

/// Goal: without receive requests a message waits and is tried again; with them it goes on where
/// it was, and nothing arrives twice that was taken once.
#[test]
fn a_receiver_that_is_not_ready_is_waited_for() {
    for recovery in [Recovery::SELECTIVE_REPEAT, Recovery::GO_BACK_N] {
        for verb in [
            Verb::Send,
            Verb::SendImmediate,
            Verb::WriteImmediate,
            Verb::Write,
        ] {
            let (mut wire, qp) = Wire::pair(|c| c.recovery = recovery, 7);
            wire.hosts[1].post_receives(qp, 2).unwrap();
            wire.hosts[0]
                .post(0, qp, flow(verb, 100_000, 20_000))
                .unwrap();
            let mut events = wire.run(20 * MS, in_order);
            let taken = if verb == Verb::Write { 5 } else { 2 };
            assert_eq!(
                received(&events, 1),
                (taken * 20_000, taken as u32),
                "{verb:?}"
            );
            if verb == Verb::Write {
                continue;
            }
            let (a, b) = (wire.counters(0), wire.counters(1));
            // 640 us of wait: about thirty tries.
            assert!((10..40).contains(&a.rnr_naks_received), "{a:?}\n{b:?}");
            assert_eq!(completions(&events), 0);
            wire.hosts[1].post_receives(qp, 3).unwrap();
            events.extend(wire.run(1000 * MS, in_order));
            assert_eq!(received(&events, 1), (100_000, 5), "{verb:?} {recovery:?}");
            assert_eq!(
                (completions(&events), wire.counters(1).payload_errors),
                (1, 0)
            );
        }
    }
}

/// Goal: with a limit of tries the connection fails, says so, and withdraws what it announced.
#[test]
fn a_receiver_that_is_never_ready_fails_the_connection() {
    let (mut wire, qp) = Wire::pair(|c| c.rnr_retry_max = 3, 7);
    wire.hosts[1].post_receives(qp, 0).unwrap();
    wire.hosts[0]
        .post(0, qp, flow(Verb::Send, 100_000, 20_000))
        .unwrap();
    let events = wire.run(1000 * MS, in_order);
    let reason = endpoint::FailReason::ReceiverNotReady;
    let failed = Event::Failed {
        qp: QpId(0),
        reason,
        flows: 1,
    };
    assert_eq!(events, [(0, failed)]);
    let a = wire.counters(0);
    assert_eq!(
        (a.rnr_naks_received, a.announced, a.withdrawn),
        (4, 1, 1),
        "{a:?}"
    );
    assert_eq!(wire.counters(1).messages, 2, "open and withdraw");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Goal: whatever is lost, doubled or reordered, every byte of every verb arrives once and is
    /// right, both ways at once, in bounded time.
    #[test]
    fn every_byte_arrives_once(
        seed: u64,
        first_psn in prop_oneof![Just(0xff_fff0u32), 0u32..(1 << 24)],
        flows in proptest::collection::vec((0usize..2, 0usize..5, 1u64..700_000, 1u64..300), 1..5),
        loss_per_mille in 0u64..=50,
        doubled_per_mille in 0u64..=50,
        jitter_ns in 1u64..60_000,
        mtu_shift in 8u32..=12,
        window in 1u32..400,
        receives in proptest::option::of(0u32..4),
        go_back in proptest::bool::weighted(0.4),
        room in prop_oneof![Just(4400usize), Just(endpoint::HEADER_ROOM)],
    ) {
        let change = |c: &mut HostConfig| {
            c.window_packets = window;
            c.mtu = PathMtu::new(1 << mtu_shift).unwrap();
            c.retry_max = 20;
            c.rnr_timer = 5;
            if go_back { c.recovery = Recovery::GO_BACK_N; }
        };
        let (mut wire, qp) = Wire::pair(change, first_psn);
        wire.room = room;
        let mut dice = Dice(seed);
        // Go-back-N is for networks that keep order.
        let jitter_ns = if go_back { 1 } else { jitter_ns };
        let (mut wanted, mut reads, mut messages) = ([0u64; 2], [0u64; 2], [0u64; 2]);
        for &(from, verb, bytes, message_kib) in &flows {
            let verb = Verb::ALL[verb];
            wire.hosts[from].post(0, qp, flow(verb, bytes, message_kib << 10)).unwrap();
            if verb == Verb::Read {
                reads[from] += bytes;
            } else {
                wanted[1 - from] += bytes;
                if verb != Verb::Write {
                    messages[1 - from] += bytes.div_ceil(message_kib << 10);
                }
            }
        }
        if let Some(receives) = receives {
            for host in 0..2 {
                wire.hosts[host].post_receives(qp, receives).unwrap();
            }
        }
        let mut rule = |_: &wire::Frame<'_>| {
            if dice.below(1000) < loss_per_mille {
                return [None, None];
            }
            let mut delay = || Some(1000 + dice.below(jitter_ns));
            let first = delay();
            let second = delay();
            [first, second.filter(|_| dice.below(1000) < doubled_per_mille)]
        };
        let mut events = Vec::new();
        if receives.is_some() {
            events.extend(wire.run(3 * MS, &mut rule));
            for (host, messages) in messages.iter().enumerate() {
                wire.hosts[host].post_receives(qp, *messages as u32).unwrap();
            }
        }
        events.extend(wire.run(60_000 * MS, &mut rule));
        let (a, b) = (wire.counters(0), wire.counters(1));
        let what = format!("at {} ns\n{a:?}\n{b:?}", wire.now);
        prop_assert_eq!(completions(&events), flows.len(), "{}", what);
        for host in 0..2 {
            prop_assert_eq!(received(&events, host).0, wanted[host], "{}", what);
            let c = wire.counters(host);
            prop_assert_eq!(c.received_bytes, wanted[host] + reads[host], "{}", what);
            prop_assert_eq!((c.payload_errors, c.bad_length, c.beyond_window), (0, 0, 0), "{}", what);
        }
        prop_assert!(wire.now < 60_000 * MS, "ends by itself: {}", what);
        let quiet = loss_per_mille == 0 && doubled_per_mille == 0 && receives.is_none();
        if !go_back && quiet && jitter_ns < 30_000 {
            prop_assert_eq!(a.spurious + b.spurious, 0, "{}", what);
        }
    }
}
