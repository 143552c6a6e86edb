//! What a software RNIC receives: frames of two bytes of length and themselves.
#![no_main]

use endpoint::{Host, HostConfig, QpConfig};
use packet::{Address, MacAddr, Psn, Qpn};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let address = |i: u32| Address::v4(0x0a00_0001 + (i << 8));
    let gateway = MacAddr([2, 0, 0, 1, 0, 0]);
    let config = HostConfig::new(address(0), MacAddr([2, 0, 0, 0, 0, 0]), gateway);
    let mut host = Host::new(config).expect("a sound configuration");
    let qp = QpConfig {
        local_qpn: Qpn(17),
        remote_qpn: Qpn(18),
        remote_address: address(1),
        udp_source_port: 0xc001,
        first_psn: Psn::new(0),
        remote_first_psn: Psn::new(0x1234),
    };
    host.open_qp(qp).expect("room for one");
    let (mut now, mut rest) = (0, data);
    while let [high, low, tail @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]) & 0x0fff).min(tail.len());
        let (frame, next) = tail.split_at(len);
        rest = next;
        now += 1_000;
        host.receive(now, frame, frame.len());
        while host.poll_event().is_some() {}
    }
});
