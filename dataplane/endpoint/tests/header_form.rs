//! The simulator's form of a frame: the same headers, without payload and ICRC.

mod wire;

use endpoint::{Flow, HEADER_ROOM, HostConfig, QpId};
use wire::Wire;

/// Goal: two runs of the same flow, one in whole frames and one in headers, say the same bytes to
/// each other up to the end of the headers, packet for packet, losses and repairs included.
#[test]
fn headers_are_those_of_the_whole_frame() {
    let change = |c: &mut HostConfig| c.window_packets = 256;
    let (mut whole, qp) = Wire::pair(change, 0xff_fff0);
    let (mut headers, _) = Wire::pair(change, 0xff_fff0);
    let flow = Flow {
        verb: endpoint::Verb::Write,
        flow_id: 5,
        bytes: 3_000_001,
        message_bytes: 100_000,
        announce: true,
    };
    for wire in [&mut whole, &mut headers] {
        wire.hosts[0].post(0, qp, flow).unwrap();
    }
    let mut frame = [0u8; 4400];
    let mut header = [0u8; HEADER_ROOM];
    let (mut now, mut compared, mut repeated) = (0, 0, 0);
    let mut done = false;
    while !done && now < 1_000_000_000 {
        now += 400;
        for from in 0..2 {
            whole.hosts[from].tick(now);
            headers.hosts[from].tick(now);
            let one = whole.hosts[from].transmit(now, &mut frame);
            let other = headers.hosts[from].transmit_header(now, &mut header);
            assert_eq!(one, other, "packet {compared}");
            let Some(emitted) = one else { continue };
            let (len, wire_len) = (emitted.header_len as usize, emitted.wire_len as usize);
            assert_eq!(frame[..len], header[..len], "packet {compared}");
            compared += 1;
            if compared % 97 == 3 {
                continue;
            }
            whole.hosts[1 - from].receive(now, &frame[..wire_len], wire_len);
            // A simulator may keep as many bytes as it likes, beyond the headers.
            let kept = if compared % 2 == 0 { len } else { HEADER_ROOM };
            headers.hosts[1 - from].receive_header(now, &header[..kept], wire_len);
            assert_eq!(whole.counters(1 - from), headers.counters(1 - from));
        }
        let event = whole.hosts[0].poll_event();
        assert_eq!(event, headers.hosts[0].poll_event());
        done = event.is_some();
        repeated = whole.counters(0).retransmitted;
        assert_eq!(QpId(0), qp);
    }
    assert!(
        done && compared > 750 && repeated > 5,
        "{compared} packets, {repeated} repeated"
    );
    assert_eq!(whole.counters(1).payload_errors, 0);
}
