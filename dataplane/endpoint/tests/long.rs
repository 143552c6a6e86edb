//! A flow longer than the PSN space.

mod wire;

use endpoint::{Event, Flow, HostConfig, PathMtu, QpId};
use wire::Wire;

/// Goal: PSNs may come round within one flow; nothing is repeated or taken twice.
#[test]
fn a_flow_outlasts_the_psn_space() {
    let change = |c: &mut HostConfig| {
        c.mtu = PathMtu::new(256).unwrap();
        c.slack_ns = 1_000_000;
    };
    let (mut wire, qp) = Wire::pair(change, 0xff_0000);
    let packets = (1u64 << 24) + 1000;
    let flow = Flow {
        verb: endpoint::Verb::Write,
        flow_id: 1,
        bytes: packets * 256,
        message_bytes: 1 << 30,
        announce: true,
    };
    wire.hosts[0].post(0, qp, flow).unwrap();
    let mut frame = [0u8; endpoint::HEADER_ROOM];
    let [mut sender, mut receiver]: [_; 2] = std::mem::take(&mut wire.hosts).try_into().unwrap();
    let mut now = 0;
    let done = loop {
        now += 100_000;
        let mut moved = false;
        while let Some(emitted) = sender.transmit(now, &mut frame) {
            receiver.receive(
                now,
                &frame[..emitted.header_len as usize],
                emitted.wire_len as usize,
            );
            moved = true;
        }
        while let Some(emitted) = receiver.transmit(now, &mut frame) {
            sender.receive(
                now,
                &frame[..emitted.header_len as usize],
                emitted.wire_len as usize,
            );
            moved = true;
        }
        if let Some(event) = sender.poll_event() {
            break event;
        }
        assert!(moved, "stuck: {:?}", sender.counters());
    };
    assert!(
        matches!(done, Event::SendComplete { qp: QpId(0), .. }),
        "{done:?}"
    );
    let (sent, got) = (sender.counters(), receiver.counters());
    assert_eq!(
        (sent.sent, got.received, got.spurious),
        (packets, packets, 0),
        "{got:?}"
    );
}
