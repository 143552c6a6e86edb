//! The switch as a value: no clock, no I/O, no DPDK, no allocation after start.
//!
//! A driver (the DPDK lcore, or a simulator) owns a [`Switch`] and calls
//!
//! * [`Switch::ingress_burst`] with what a port received,
//! * [`Switch::egress`] for the next packet that a port may send now ([`Switch::next_departure`]
//!   tells when that will be),
//! * [`Switch::tick`] for what time alone causes (timeouts, repeated closes, link state),
//! * [`Switch::set_link`] and [`Switch::apply`] for what the world and control change.
//!
//! Packets are opaque owned [`Token`]s. What leaves other than through `egress` goes to the
//! driver's [`Sink`], each drop with its [`DropReason`]. `forward` is a packet's way, top to
//! bottom.

pub mod announced;
pub mod bucket;
pub mod busy;
pub mod change;
pub mod config;
pub mod counters;
pub mod destination;
pub mod drop;
mod exit;
pub mod fault;
pub mod flow_table;
pub mod foresee;
mod forward;
pub(crate) mod gateway;
pub mod hear;
pub mod icmp;
pub(crate) mod known;
pub mod link;
pub mod link_state;
pub mod neighbor;
pub(crate) mod own_drop;
pub mod port;
pub mod red;
pub mod report;
pub mod resolve;
pub mod route;
pub(crate) mod run;
pub mod source;
pub mod speak;
pub mod spine;
pub mod split;
pub mod spray;
pub mod switch;
pub mod token;
pub mod track;
pub mod turn;
pub mod types;
pub mod window;

pub use change::Change;
pub use config::{
    EcnConfig, GatewayConfig, HostConfig, Mark, Measurement, NeighborConfig, Peer, PortConfig,
    PortKind, QueueConfig, Role, SwitchConfig, WindowPlan,
};
pub use counters::{Counters, Note, PortCounters};
pub use drop::DropReason;
pub use report::{Command, EndReason, Opened, OwnDrop, Report, WindowReport};
pub use route::{NextHop, Prefix, Route};
pub use split::{Claim, Notice};
pub use spray::{Policy, Tie};
pub use switch::Switch;
pub use token::{Sink, Token};
pub use types::{FlowKey, LeafId, LeafSet, Nanos, PortId, SpineId, SpineSet};
