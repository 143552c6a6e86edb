//! What a port says about itself: capabilities, link, address and counters.
//!
//! Reached through `Port` and `StartedPort`. Counters are the driver's own, count up from the
//! port's start and are never reset here; readers take differences.

use std::mem::MaybeUninit;

use dpdk_sys as sys;

use super::PortInner;
use crate::error::{Errno, Error, check, text_of};

/// What a device can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The driver's name, such as `net_null`.
    pub driver: String,
    /// Receive queues at most.
    pub rx_queues_max: u32,
    /// Transmit queues at most.
    pub tx_queues_max: u32,
    /// Smallest MTU.
    pub mtu_min: u32,
    /// Largest MTU; 65535 if the driver sets no limit.
    pub mtu_max: u32,
    /// Longest frame that the driver says it receives, in bytes.
    pub rx_frame_bytes_max: u32,
    /// Limits of a receive queue's descriptors.
    pub rx_descriptors: Descriptors,
    /// Limits of a transmit queue's descriptors.
    pub tx_descriptors: Descriptors,
    /// Whether its receive queues can share packets by a hash of their IP addresses, with a key that
    /// this crate sets.
    pub can_spread: bool,
    /// The NUMA node it sits at, if it sits at one.
    pub socket: Option<u32>,
}

/// How many descriptors a queue can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// At least.
    pub min: u32,
    /// At most.
    pub max: u32,
    /// A multiple of this.
    pub align: u32,
}

/// A link's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Whether it can carry packets.
    pub up: bool,
    /// Its speed in Mbit/s, if the driver knows.
    pub speed_mbps: Option<u32>,
    /// Whether both directions work at once.
    pub full_duplex: bool,
}

/// The counters that every driver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Packets received (`ipackets`).
    pub rx_packets: u64,
    /// Bytes received (`ibytes`).
    pub rx_bytes: u64,
    /// Packets lost because no receive descriptor was free (`imissed`).
    pub rx_missed: u64,
    /// Packets received in error (`ierrors`).
    pub rx_errors: u64,
    /// Receptions that failed because the pool was empty (`rx_nombuf`).
    pub rx_no_mbuf: u64,
    /// Packets sent (`opackets`).
    pub tx_packets: u64,
    /// Bytes sent (`obytes`).
    pub tx_bytes: u64,
    /// Packets that failed to go out (`oerrors`).
    pub tx_errors: u64,
}

impl PortInner {
    pub(super) fn capabilities(&self) -> Result<Capabilities, Error> {
        let raw = raw_info(self.id).map_err(|errno| {
            let object = format!("port `{}`", self.name);
            Error::call(
                "rte_eth_dev_info_get",
                object,
                errno,
                "the device may be gone",
            )
        })?;
        // SAFETY: reads a number; an unknown port gives -1.
        let socket = unsafe { sys::rte_eth_dev_socket_id(self.id) };
        Ok(Capabilities {
            driver: text_of(&raw.driver),
            rx_queues_max: raw.max_rx_queues,
            tx_queues_max: raw.max_tx_queues,
            mtu_min: raw.min_mtu,
            mtu_max: raw.max_mtu,
            rx_frame_bytes_max: raw.max_rx_frame,
            rx_descriptors: Descriptors {
                min: raw.rx_descriptors_min,
                max: raw.rx_descriptors_max,
                align: raw.rx_descriptors_align,
            },
            tx_descriptors: Descriptors {
                min: raw.tx_descriptors_min,
                max: raw.tx_descriptors_max,
                align: raw.tx_descriptors_align,
            },
            // SAFETY: an unknown port is refused.
            can_spread: unsafe { sys::shim_port_can_spread(self.id) } == 1,
            socket: u32::try_from(socket).ok(),
        })
    }

    pub(super) fn link(&self) -> Result<Link, Error> {
        let mut link = MaybeUninit::<sys::shim_link>::uninit();
        self.control("rte_eth_link_get_nowait", "the device may be gone", |id| {
            // SAFETY: the port exists and `link` is a place for the answer.
            unsafe { sys::shim_port_link(id, link.as_mut_ptr()) }
        })?;
        // SAFETY: on success the shim has written all of it.
        let link = unsafe { link.assume_init() };
        Ok(Link {
            up: link.up != 0,
            speed_mbps: (link.speed_mbps != u32::MAX).then_some(link.speed_mbps),
            full_duplex: link.full_duplex != 0,
        })
    }

    pub(super) fn mac(&self) -> Result<[u8; 6], Error> {
        let mut mac = [0; 6];
        self.control("rte_eth_macaddr_get", "the device may be gone", |id| {
            // SAFETY: the port exists and `mac` has the six bytes.
            unsafe { sys::shim_port_mac(id, mac.as_mut_ptr()) }
        })?;
        Ok(mac)
    }

    pub(super) fn mtu(&self) -> Result<u16, Error> {
        let mut mtu = 0;
        self.control("rte_eth_dev_get_mtu", "the device may be gone", |id| {
            // SAFETY: the port exists and `mtu` is a place for the answer.
            unsafe { sys::rte_eth_dev_get_mtu(id, &raw mut mtu) }
        })?;
        Ok(mtu)
    }

    pub(super) fn stats(&self) -> Result<PortStats, Error> {
        let mut stats = MaybeUninit::<sys::shim_port_stats>::uninit();
        let advice = "the driver keeps no counters, or the device is gone";
        self.control("rte_eth_stats_get", advice, |id| {
            // SAFETY: the port exists and `stats` is a place for the answer.
            unsafe { sys::shim_port_stats(id, stats.as_mut_ptr()) }
        })?;
        // SAFETY: on success the shim has written all of it.
        let raw = unsafe { stats.assume_init() };
        Ok(PortStats {
            rx_packets: raw.rx_packets,
            rx_bytes: raw.rx_bytes,
            rx_missed: raw.rx_missed,
            rx_errors: raw.rx_errors,
            rx_no_mbuf: raw.rx_no_mbuf,
            tx_packets: raw.tx_packets,
            tx_bytes: raw.tx_bytes,
            tx_errors: raw.tx_errors,
        })
    }

    pub(super) fn xstats(&self) -> Result<Vec<(String, u64)>, Error> {
        let empty = sys::shim_xstat {
            name: [0; sys::SHIM_NAME_BYTES as usize],
            value: 0,
        };
        let mut places = Vec::new();
        // The first turn asks how many there are; the set can grow once more in between.
        loop {
            let capacity = u32::try_from(places.len()).unwrap_or(u32::MAX);
            let count = self.control("rte_eth_xstats_get", "the device may be gone", |id| {
                // SAFETY: the port exists and `places` has `capacity` places.
                unsafe { sys::shim_port_xstats(id, places.as_mut_ptr(), capacity) }
            })? as usize;
            if count <= places.len() {
                let filled = places.iter().take(count);
                return Ok(filled
                    .map(|stat| (text_of(&stat.name), stat.value))
                    .collect());
            }
            places.resize(count, empty);
        }
    }
}

pub(super) fn raw_info(port: u16) -> Result<sys::shim_port_info, Errno> {
    let mut info = MaybeUninit::uninit();
    // SAFETY: `info` is a place for the answer; an unknown port is refused.
    let result = unsafe { sys::shim_port_info(port, info.as_mut_ptr()) };
    check(result)?;
    // SAFETY: on success the shim has written all of it.
    Ok(unsafe { info.assume_init() })
}
