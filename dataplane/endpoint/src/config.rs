//! What an adapter, a connection and a flow are made of.
//!
//! Filled in by the testbed and the simulator; [`HostConfig::check`] runs in
//! [`Host::new`](crate::Host::new), so that the packet path meets sound numbers only.

use packet::{Address, MacAddr, Psn, Qpn, message};
use thiserror::Error;

use crate::background::Background;
use crate::dcqcn::RateControl;
use crate::units::{BitRate, PathMtu};
use crate::verb::Verb;

/// Largest RDMA message (IBTA volume 1, 9.7.8): 2 GiB.
pub const MESSAGE_BYTES_MAX: u64 = 1 << 31;

/// How lost packets are found and sent again. Both ends of a connection use the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// The receiver takes packets in any order and asks for single ones (IRN's bitmap, but with a
    /// reorder window: in a sprayed fabric a packet that is late is not lost).
    SelectiveRepeat {
        /// A missing packet is lost once one this far ahead of it has arrived.
        reorder_window_packets: u32,
        /// It is also lost once it has been missing for between one and two times this long; a
        /// request for it is repeated after this long.
        hole_timeout_ns: u64,
        /// Least retransmission timeout while at most three packets are in flight; measured
        /// round-trip times raise both.
        rto_low_ns: u64,
        /// Least retransmission timeout otherwise.
        rto_high_ns: u64,
    },
    /// The receiver drops what is out of order and the sender goes back, as Soft-RoCE does.
    GoBackN {
        /// Least retransmission timeout; measured round-trip times raise it.
        rto_ns: u64,
    },
}

impl Recovery {
    /// Selective repeat with IRN's timeouts of a 100 Gbit/s fabric (100 and 320 us) and the
    /// reorder window of 128 packets: the paper observes at most 100.
    pub const SELECTIVE_REPEAT: Recovery = Recovery::SelectiveRepeat {
        reorder_window_packets: 128,
        hole_timeout_ns: 100_000,
        rto_low_ns: 100_000,
        rto_high_ns: 320_000,
    };

    /// Go-back-N with IRN's higher timeout.
    pub const GO_BACK_N: Recovery = Recovery::GoBackN { rto_ns: 320_000 };

    /// Whether receivers take packets in any order.
    pub(crate) const fn is_selective(&self) -> bool {
        matches!(self, Recovery::SelectiveRepeat { .. })
    }

    /// The same with every time multiplied: a testbed on shared cores is slower than a fabric.
    pub const fn slowed(self, factor: u64) -> Recovery {
        match self {
            Recovery::SelectiveRepeat {
                reorder_window_packets,
                hole_timeout_ns,
                rto_low_ns,
                rto_high_ns,
            } => Recovery::SelectiveRepeat {
                reorder_window_packets,
                hole_timeout_ns: hole_timeout_ns * factor,
                rto_low_ns: rto_low_ns * factor,
                rto_high_ns: rto_high_ns * factor,
            },
            Recovery::GoBackN { rto_ns } => Recovery::GoBackN {
                rto_ns: rto_ns * factor,
            },
        }
    }
}

/// An adapter.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig {
    /// Its IP address.
    pub address: Address,
    /// Its MAC address.
    pub mac: MacAddr,
    /// MAC address of its leaf, to which every frame goes.
    pub gateway_mac: MacAddr,
    /// Rate of its link; every frame is paced to it.
    pub link_rate: BitRate,
    /// What a frame occupies on the link beyond its bytes: preamble, FCS and gap are 24.
    pub frame_overhead_bytes: u32,
    /// How much unused link time may be caught up on when the caller comes late: the period of a
    /// poll loop; 0 in a simulator, which comes in time.
    pub slack_ns: u64,
    /// Path MTU of all its connections.
    pub mtu: PathMtu,
    /// Packets that a connection may have in flight (IRN's cap at the bandwidth-delay product).
    /// If there are fewer than the reorder window, losses are found by age alone.
    pub window_packets: u32,
    /// Packets that a receiver places ahead of a missing one: a power of two, at least the
    /// window of its peers.
    pub receive_window_packets: u32,
    /// Loss recovery.
    pub recovery: Recovery,
    /// How fast each connection may send, beside the link's rate.
    pub rate_control: RateControl,
    /// Timeouts in a row without progress after which a connection fails (IBTA allows 7).
    pub retry_max: u32,
    /// Receiver-not-ready NAKs in a row after which a connection fails; 7 is no limit (IBTA
    /// volume 1, 9.7.5.2.8).
    pub rnr_retry_max: u32,
    /// How long a peer waits before it tries again where no receive request is posted: the code
    /// of table 45, 0 to 31. 12 is 640 us.
    pub rnr_timer: u8,
    /// A receiver acknowledges every so many packets, and where the sender asks for it.
    pub ack_every_packets: u32,
    /// DSCP of all its packets, below 64. They are all ECN-capable, ECT(0).
    pub dscp: u8,
    /// DSCP of congestion notifications, below 64: 48, as adapters send them.
    pub cnp_dscp: u8,
    /// Traffic beside RoCE, if any.
    pub background: Option<Background>,
    /// UDP port of spraycheck's messages.
    pub message_port: u16,
    /// Connections that it can hold; room for them is taken at the start.
    pub qps_max: u32,
    /// Flows that a connection can hold until they are complete and their event is polled.
    pub flows_per_qp_max: u32,
    /// Whether frames with a wrong ICRC are dropped. Frames without payload (the simulator's
    /// form) have none to check.
    pub check_icrc: bool,
    /// Whether every payload byte received, and where messages begin in the stream, is compared
    /// with what a host of this crate sends.
    pub verify_payload: bool,
}

impl HostConfig {
    /// An adapter on a 100 Gbit/s link with everything at its default.
    pub fn new(address: Address, mac: MacAddr, gateway_mac: MacAddr) -> HostConfig {
        HostConfig {
            address,
            mac,
            gateway_mac,
            link_rate: BitRate::gbps(100),
            frame_overhead_bytes: 24,
            slack_ns: 0,
            mtu: PathMtu::MAX,
            window_packets: 64,
            receive_window_packets: 4096,
            recovery: Recovery::SELECTIVE_REPEAT,
            rate_control: RateControl::Off,
            retry_max: 7,
            rnr_retry_max: 7,
            rnr_timer: 12,
            ack_every_packets: 16,
            dscp: 26,
            cnp_dscp: 48,
            background: None,
            message_port: message::DEFAULT_PORT,
            qps_max: 2000,
            flows_per_qp_max: 4,
            check_icrc: true,
            verify_payload: true,
        }
    }

    /// Names the first setting that cannot work.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, value: u64, want| Err(ConfigError { key, value, want });
        let window = self.receive_window_packets;
        if !window.is_power_of_two() || window > 1 << 22 {
            let want = "a power of two up to 2^22";
            return wrong("receive_window_packets", window.into(), want);
        }
        if self.window_packets == 0 || self.window_packets > window {
            let want = "1 to receive_window_packets";
            return wrong("window_packets", self.window_packets.into(), want);
        }
        if self.ack_every_packets == 0 {
            return wrong("ack_every_packets", 0, "1 or more");
        }
        for (key, dscp) in [("dscp", self.dscp), ("cnp_dscp", self.cnp_dscp)] {
            if dscp > 63 {
                return wrong(key, dscp.into(), "0 to 63");
            }
        }
        if self.qps_max == 0 || self.qps_max > 1 << 20 {
            return wrong("qps_max", self.qps_max.into(), "1 to 2^20");
        }
        if self.flows_per_qp_max == 0 || self.flows_per_qp_max > 1 << 10 {
            let want = "1 to 1024";
            return wrong("flows_per_qp_max", self.flows_per_qp_max.into(), want);
        }
        if self.slack_ns > 1_000_000_000 {
            return wrong("slack_ns", self.slack_ns, "at most one second");
        }
        if self.retry_max > 255 {
            return wrong("retry_max", self.retry_max.into(), "0 to 255");
        }
        if self.rnr_timer > 31 {
            return wrong("rnr_timer", self.rnr_timer.into(), "0 to 31");
        }
        if let Err((key, value, want)) = self.rate_control.check() {
            return wrong(key, value, want);
        }
        let (shortest, longest) = match self.recovery {
            Recovery::SelectiveRepeat {
                hole_timeout_ns: hole,
                rto_low_ns: low,
                rto_high_ns: high,
                ..
            } => (hole.min(low).min(high), hole.max(low).max(high)),
            Recovery::GoBackN { rto_ns } => (rto_ns, rto_ns),
        };
        if shortest == 0 || longest > 1 << 40 {
            return wrong(
                "recovery",
                shortest.min(longest),
                "times of 1 ns to 2^40 ns",
            );
        }
        Ok(())
    }
}

/// A setting of [`HostConfig`] that cannot work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{key} is {value}; it must be {want}")]
pub struct ConfigError {
    /// Its name.
    pub key: &'static str,
    /// What it was.
    pub value: u64,
    /// What it may be.
    pub want: &'static str,
}

/// A reliable connection, both directions.
#[derive(Clone, Copy, Debug)]
pub struct QpConfig {
    /// Our queue pair number: above 1, below 2^24, unique in the host.
    pub local_qpn: Qpn,
    /// The peer's.
    pub remote_qpn: Qpn,
    /// The peer's address, of our family.
    pub remote_address: Address,
    /// UDP source port of our packets.
    pub udp_source_port: u16,
    /// PSN of the first packet that we send.
    pub first_psn: Psn,
    /// PSN of the first packet that the peer sends.
    pub remote_first_psn: Psn,
}

/// Bytes to move to the peer (READ: from it), as one or more messages in a row.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The operation of its messages.
    pub verb: Verb,
    /// The caller's name for it, in its event and its announcement.
    pub flow_id: u64,
    /// Payload bytes, above zero.
    pub bytes: u64,
    /// Bytes of each message but the last: 1 to 2^31. A READ is cut into requests of at most a
    /// quarter of the window, so that several are under way.
    pub message_bytes: u64,
    /// Whether an `open` message tells the switches about it first, and a `withdraw` should it
    /// fail. Of no effect on a READ.
    pub announce: bool,
}
