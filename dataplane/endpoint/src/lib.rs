//! A software RNIC, and the workloads that run on it.
//!
//! [`Host`] is one adapter with reliable connections: SEND, WRITE and READ, acknowledgements,
//! recovery of losses, DCQCN, and the pace of its link. [`workload`] says which connections exist and who sends
//! what next. Both are values without clock, I/O or threads: the caller gives the time and carries
//! the frames, so the DPDK testbed and the simulator run the very same code.
//!
//! Times are nanoseconds since any origin that the caller keeps. After [`Host::new`] and
//! [`Host::open_qp`] nothing allocates. Whatever a frame holds, receiving it is a counter at worst.
//!
//! Two hosts and a wire that takes no time:
//!
//! ```
//! use endpoint::{Event, Flow, Host, HostConfig, QpConfig, Verb};
//! use packet::{Address, MacAddr, Psn, Qpn};
//!
//! let gateway = MacAddr([2, 0, 0, 1, 0, 0]);
//! let mut hosts = [1, 2].map(|i| {
//!     let mac = MacAddr([2, 0, 0, 0, 0, i]);
//!     Host::new(HostConfig::new(Address::v4(i.into()), mac, gateway)).unwrap()
//! });
//! let qps = [0, 1].map(|i: usize| {
//!     let remote_address = hosts[1 - i].config().address;
//!     let qp = QpConfig {
//!         local_qpn: Qpn(17),
//!         remote_qpn: Qpn(17),
//!         remote_address,
//!         udp_source_port: 0xc000,
//!         first_psn: Psn::new(0),
//!         remote_first_psn: Psn::new(0),
//!     };
//!     hosts[i].open_qp(qp).unwrap()
//! });
//! let flow = Flow { verb: Verb::Write, flow_id: 7, bytes: 1 << 20, message_bytes: 1 << 16, announce: true };
//! hosts[0].post(0, qps[0], flow).unwrap();
//!
//! let mut frame = [0; 4224];
//! let mut now = 0;
//! let event = loop {
//!     for i in 0..2 {
//!         hosts[i].tick(now);
//!         if let Some(emitted) = hosts[i].transmit(now, &mut frame) {
//!             let wire_len = emitted.wire_len as usize;
//!             hosts[1 - i].receive(now, &frame[..wire_len], wire_len);
//!         }
//!     }
//!     if let Some(event) = hosts[0].poll_event() {
//!         break event;
//!     }
//!     now += 100;
//! };
//! assert!(matches!(event, Event::SendComplete { flow_id: 7, .. }));
//! assert_eq!(hosts[1].counters().received_bytes, 1 << 20);
//! assert_eq!(hosts[0].counters().retransmitted, 0);
//! ```

mod arrivals;
mod background;
mod config;
mod counters;
pub mod dcqcn;
mod event;
mod flows;
mod frame;
mod holes;
mod host;
mod incoming;
mod index;
mod pacer;
mod pattern;
mod qp;
mod reads;
mod receiver;
mod repairs;
mod responder;
mod route;
mod rtt;
mod segment;
mod sender;
mod timers;
mod units;
mod verb;
pub mod workload;

pub use background::Background;
pub use config::{ConfigError, Flow, HostConfig, MESSAGE_BYTES_MAX, QpConfig, Recovery};
pub use counters::Counters;
pub use dcqcn::RateControl;
pub use event::{Event, FailReason, OpenError, PostError};
pub use frame::{Emitted, HEADER_ROOM};
pub use host::Host;
pub use units::{BitRate, PathMtu, QpId};
pub use verb::Verb;
