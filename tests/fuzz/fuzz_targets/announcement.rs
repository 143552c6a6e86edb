//! Messages: what is read is within its bytes, and written again reads the same.
#![no_main]

use packet::message::{FLAG_HOP_FILLED, LEN_MAX, Message, write};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(message) = Message::read(data) else {
        return;
    };
    let mut header = message.header;
    let hop = message.hop();
    assert!(hop.is_none() || header.flags & FLAG_HOP_FILLED != 0);
    header.flags &= !FLAG_HOP_FILLED;
    let mut bytes = [0; LEN_MAX];
    let is_set = |index| message.is_set(index);
    let count = |index| message.count(index).unwrap_or(0);
    let len = write(&mut bytes, &header, is_set, count);
    let again = Message::read(&bytes[..len]).expect("what was written can be read");
    assert_eq!(again.header, header);
    for index in 0..usize::from(header.fanout) {
        assert_eq!(again.is_set(index), message.is_set(index));
        assert_eq!(again.count(index), message.count(index));
    }
});
