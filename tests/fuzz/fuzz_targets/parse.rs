//! The frame parser, and the short form of it, which must agree.
#![no_main]

use packet::{Kind, head::Head, message, parse};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let parsed = parse(data, data.len(), message::DEFAULT_PORT);
    let Some(bytes) = data.first_chunk() else {
        return;
    };
    if let Some(head) = Head::read(bytes, data.len() as u32) {
        let parsed = parsed.expect("what has the common shape is right");
        assert_eq!(parsed.kind, Kind::Roce);
        assert_eq!(head.ends(), (parsed.source, parsed.destination));
        assert_eq!(head.qpn(), parsed.bth.destination_qp);
        assert_eq!(Head::psn(bytes), parsed.bth.psn);
    }
});
