//! The packet path allocates nothing: counted, not believed.

use endpoint::dcqcn::DcqcnConfig;
use endpoint::{Flow, Host, HostConfig, QpConfig, QpId, RateControl, Verb};
use packet::{Address, MacAddr, Psn, Qpn};

const QPS: u32 = 2000;

fn host(address: u32, peer: u32) -> Host {
    let mac = MacAddr([2, 0, 0, 0, 0, address as u8]);
    let config = HostConfig {
        qps_max: QPS,
        slack_ns: 1_000_000,
        rate_control: RateControl::Dcqcn(DcqcnConfig::PAPER),
        ..HostConfig::new(Address::v4(address), mac, MacAddr([2, 0, 0, 1, 0, 0]))
    };
    let mut host = Host::new(config).unwrap();
    for qp in 0..QPS {
        host.open_qp(QpConfig {
            local_qpn: Qpn(17 + qp),
            remote_qpn: Qpn(17 + qp),
            remote_address: Address::v4(peer),
            udp_source_port: 0xc000,
            first_psn: Psn::new(0xff_fff0),
            remote_first_psn: Psn::new(0xff_fff0),
        })
        .unwrap();
    }
    host
}

/// Goal: with 2,000 connections and all verbs, posting, sending, marking, losing, repairing, receiving, timers and events allocate nothing.
#[test]
fn the_packet_path_allocates_nothing() {
    let (mut a, mut b) = (host(1, 2), host(2, 1));
    let mut frame = vec![0u8; 4224];
    let mut late = vec![0u8; 4224];
    let mut late_len = 0;
    let (mut completed, mut posted, mut now, mut count) = (0, 0, 0u64, 0u64);
    let info = allocation_counter::measure(|| {
        while completed < 2000 && now < 10_000_000_000 {
            for qp in 0..QPS {
                let flow = Flow {
                    verb: Verb::ALL[qp as usize % 5],
                    flow_id: 7,
                    bytes: 100_000,
                    message_bytes: 30_000,
                    announce: true,
                };
                posted += u32::from(posted < 2000 && a.post(now, QpId(qp), flow).is_ok());
            }
            now += 5_000;
            for _ in 0..32 {
                if let Some(emitted) = a.transmit(now, &mut frame) {
                    let len = emitted.wire_len as usize;
                    count += 1;
                    // One in 50 is lost, one in 7 is overtaken.
                    if count % 7 == 0 && late_len == 0 {
                        late[..len].copy_from_slice(&frame[..len]);
                        late_len = len;
                    } else if count % 11 == 0 {
                        packet::ecn::mark(&mut frame[..len]);
                        b.receive(now, &frame[..len], len);
                    } else if count % 50 != 0 {
                        b.receive(now, &frame[..len], len);
                    }
                }
                if count % 7 == 3 && late_len > 0 {
                    b.receive(now, &late[..late_len], late_len);
                    late_len = 0;
                }
                if let Some(emitted) = b.transmit(now, &mut frame) {
                    let len = emitted.wire_len as usize;
                    if count % 30 == 0 {
                        packet::ecn::mark(&mut frame[..len]);
                    }
                    a.receive(now, &frame[..len], len);
                }
            }
            a.tick(now);
            b.tick(now);
            while let Some(event) = a.poll_event() {
                completed += u32::from(matches!(event, endpoint::Event::SendComplete { .. }));
            }
            while b.poll_event().is_some() {}
        }
    });
    let (sent, got) = (a.counters(), b.counters());
    assert_eq!(
        (completed, got.payload_errors + sent.payload_errors),
        (2000, 0),
        "{sent:?}\n{got:?}"
    );
    assert!(
        sent.responses_received > 1000 && sent.rate_cuts > 100 && got.rate_cuts > 10,
        "{sent:?}\n{got:?}"
    );
    assert!(
        sent.retransmitted > 100 && got.out_of_order > 50,
        "{sent:?}\n{got:?}"
    );
    assert_eq!(
        (info.count_total, info.bytes_total),
        (0, 0),
        "allocations for {} packets",
        sent.sent
    );
}
