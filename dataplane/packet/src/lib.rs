//! The headers that a RoCEv2 fabric carries, as bytes and as meaning.
//!
//! One header a file, always in the same order: field offsets, a view or setter on bytes, the
//! meaning, tests on byte arrays. [`parse()`] walks a frame once and says where things are; nothing
//! here allocates, keeps state or trusts a length that it has not compared with the bytes at hand.
//!
//! Called by `pipeline` (every packet), `endpoint` (building and checking) and the tests.

pub mod arp;
pub mod be;
pub mod bth;
pub mod checksum;
pub mod ecn;
pub mod ethernet;
pub mod head;
pub mod icmp;
pub mod icrc;
pub mod ip;
pub mod message;
pub mod ndp;
pub mod parse;

pub use bth::{Bth, Opcode, Psn, Qpn, Space};
pub use ethernet::MacAddr;
pub use ip::Address;
pub use parse::{Kind, ParseError, Parsed, parse};

/// UDP destination port of RoCEv2 (IANA `roce`, IBTA annex A17).
pub const ROCE_PORT: u16 = 4791;
