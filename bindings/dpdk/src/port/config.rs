//! From a wanted configuration to a running port.
//!
//! Called by `Port::start` only. Numbers are fitted to the device first, by pure functions; then
//! DPDK is asked in its fixed order: configure, queues, promiscuous mode, start.

use std::sync::Arc;

use dpdk_sys as sys;

use super::facts::{Capabilities, Descriptors};
use super::{Port, PortInner, RxQueue, Started, StartedPort, TxQueue};
use crate::error::Error;
use crate::mempool::{Mempool, node};

/// Ethernet header, two VLAN tags and the frame check sequence: what a frame adds to an MTU.
const FRAME_OVERHEAD_BYTES: u32 = 14 + 2 * 4 + 4;

/// Ethernet header and frame check sequence.
const ETHERNET_BYTES: u32 = 14 + 4;

/// What ethdev reports as largest MTU for a driver that names none.
const MTU_UNLIMITED: u32 = u16::MAX as u32;

/// How a port is to be set up.
#[derive(Debug, Clone)]
pub struct PortConfig {
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Descriptors of each receive queue.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue.
    pub tx_descriptors: u16,
    /// Bytes of the largest IP packet; `None` for what the device comes with.
    pub mtu: Option<u16>,
    /// Whether to receive frames for any address. A switch wants it.
    pub promiscuous: bool,
    /// Whether the receive queues share packets by a hash of their IP addresses, if the device can
    /// ([`Capabilities::can_spread`]); else the first one receives all.
    pub spreads: bool,
    /// Where received packets are put.
    pub pool: Mempool,
}

impl PortConfig {
    /// One queue each way with 512 descriptors, the device's MTU, promiscuous.
    pub fn new(pool: Mempool) -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 512,
            tx_descriptors: 512,
            mtu: None,
            promiscuous: true,
            spreads: false,
            pool,
        }
    }
}

/// Bytes of the longest frame that an MTU allows, two VLAN tags included: the least data room
/// of a pool for it.
pub const fn frame_bytes_max(mtu: u16) -> u32 {
    mtu as u32 + FRAME_OVERHEAD_BYTES
}

pub(super) fn start(port: Port, config: PortConfig) -> Result<Started, Error> {
    let able = port.capabilities()?;
    let mut warnings = Vec::new();
    let fitted = fit(port.name(), &config, &able, &mut warnings);
    let mut device_mtu = 0;
    if let Some(mtu) = config.mtu {
        check_room(port.name(), mtu, &config.pool)?;
        device_mtu = fit_mtu(port.name(), mtu, &able, &mut warnings)?;
    }

    let mut inner = port.inner;
    if let Some(inner) = Arc::get_mut(&mut inner) {
        // From here on the port's end closes it and then lets the pool go.
        inner.pool = Some(config.pool.clone());
    }
    let spreads = i32::from(config.spreads && able.can_spread && fitted.rx_queues > 1);
    let advice = "check the number of queues and the MTU against the device";
    inner.control("rte_eth_dev_configure", advice, |id| {
        // SAFETY: the port exists and is not running.
        unsafe {
            sys::shim_port_configure(id, fitted.rx_queues, fitted.tx_queues, device_mtu, spreads)
        }
    })?;
    check_room(&inner.name, inner.mtu()?, &config.pool)?;
    set_up_queues(&inner, &fitted, &config.pool, able.socket)?;
    if let Some(warning) = set_promiscuous(&inner, config.promiscuous) {
        warnings.push(warning);
    }
    let advice = "see the driver's lines above; a frame size beyond the mbufs is a common cause";
    inner.control("rte_eth_dev_start", advice, |id| {
        // SAFETY: the port exists and all its queues are set up.
        unsafe { sys::rte_eth_dev_start(id) }
    })?;

    let rx = (0..fitted.rx_queues).map(|queue| RxQueue::new(Arc::clone(&inner), queue));
    let tx = (0..fitted.tx_queues).map(|queue| TxQueue::new(Arc::clone(&inner), queue));
    Ok(Started {
        rx: rx.collect(),
        tx: tx.collect(),
        port: StartedPort { inner },
        warnings,
    })
}

fn set_up_queues(
    inner: &PortInner,
    fitted: &Fitted,
    pool: &Mempool,
    socket: Option<u32>,
) -> Result<(), Error> {
    let advice = "check the number of descriptors, and the pool's data room against the device";
    for queue in 0..fitted.rx_queues {
        inner.control("rte_eth_rx_queue_setup", advice, |id| {
            let (count, node) = (fitted.rx_descriptors, node(socket));
            // SAFETY: the port is configured with this queue, and holds the pool while it lives.
            unsafe { sys::shim_port_rx_queue(id, queue, count, node, pool.raw()) }
        })?;
    }
    for queue in 0..fitted.tx_queues {
        inner.control("rte_eth_tx_queue_setup", advice, |id| {
            let (count, node) = (fitted.tx_descriptors, node(socket));
            // SAFETY: the port is configured with this queue.
            unsafe { sys::shim_port_tx_queue(id, queue, count, node) }
        })?;
    }
    Ok(())
}

/// Many virtual devices have no such mode and receive everything anyway: a warning at most.
fn set_promiscuous(inner: &PortInner, on: bool) -> Option<String> {
    let result = if on {
        inner.control(
            "rte_eth_promiscuous_enable",
            "frames for other addresses are lost",
            |id| {
                // SAFETY: the port exists.
                unsafe { sys::rte_eth_promiscuous_enable(id) }
            },
        )
    } else {
        inner.control(
            "rte_eth_promiscuous_disable",
            "all frames are received",
            |id| {
                // SAFETY: the port exists.
                unsafe { sys::rte_eth_promiscuous_disable(id) }
            },
        )
    };
    match result {
        Err(Error::Call { errno, .. }) if errno.0 == libc::ENOTSUP => None,
        Err(reason) => Some(reason.to_string()),
        Ok(_) => None,
    }
}

/// The configuration's counts, within the device's limits.
#[derive(Debug, PartialEq, Eq)]
struct Fitted {
    rx_queues: u16,
    tx_queues: u16,
    rx_descriptors: u16,
    tx_descriptors: u16,
}

fn fit(port: &str, config: &PortConfig, able: &Capabilities, warnings: &mut Vec<String>) -> Fitted {
    let mut note = |what: &str, asked: u16, got: u16| {
        if asked != got {
            warnings.push(format!(
                "port `{port}`: asked for {asked} {what}, the device gives {got}"
            ));
        }
        got
    };
    let (rx, tx) = (able.rx_queues_max, able.tx_queues_max);
    let rx_ring = fit_descriptors(config.rx_descriptors, able.rx_descriptors);
    let tx_ring = fit_descriptors(config.tx_descriptors, able.tx_descriptors);
    Fitted {
        rx_queues: note(
            "receive queues",
            config.rx_queues,
            at_most(config.rx_queues, rx),
        ),
        tx_queues: note(
            "transmit queues",
            config.tx_queues,
            at_most(config.tx_queues, tx),
        ),
        rx_descriptors: note("receive descriptors", config.rx_descriptors, rx_ring),
        tx_descriptors: note("transmit descriptors", config.tx_descriptors, tx_ring),
    }
}

fn at_most(asked: u16, max: u32) -> u16 {
    asked.min(u16::try_from(max).unwrap_or(u16::MAX))
}

/// Drivers without limits report zero as maximum and alignment.
fn fit_descriptors(asked: u16, limits: Descriptors) -> u16 {
    let max = if limits.max == 0 {
        u32::from(u16::MAX)
    } else {
        limits.max
    };
    let align = limits.align.max(1);
    let wanted = u32::from(asked).clamp(limits.min.min(max), max);
    let up = wanted.next_multiple_of(align);
    let fitted = if up > max { max / align * align } else { up };
    u16::try_from(fitted).unwrap_or(u16::MAX)
}

/// The MTU to configure (0 leaves the device's own), or why the device cannot do it.
fn fit_mtu(
    port: &str,
    mtu: u16,
    able: &Capabilities,
    warnings: &mut Vec<String>,
) -> Result<u32, Error> {
    let asked = u32::from(mtu);
    // ethdev's own rule for what a frame adds to the MTU, tags left out.
    let overhead = match able.rx_frame_bytes_max.checked_sub(able.mtu_max) {
        Some(overhead) if able.mtu_max != MTU_UNLIMITED => overhead,
        _ => ETHERNET_BYTES,
    };
    let mtu_max = able
        .mtu_max
        .min(able.rx_frame_bytes_max.saturating_sub(overhead));
    if (able.mtu_min..=mtu_max).contains(&asked) {
        return Ok(asked);
    }
    if able.driver == "net_af_packet" && asked > mtu_max {
        // This driver declares Ethernet's classic size and yet passes whatever its ring takes.
        warnings.push(format!(
            "port `{port}`: net_af_packet cannot be told an MTU above {mtu_max}, so {mtu} is up to \
             the interface: set it there (`ip link set IFACE mtu {mtu}`), and give the device \
             `framesz` above {} with a matching `blocksz`, as it cuts longer frames without a count",
            frame_bytes_max(mtu)
        ));
        return Ok(0);
    }
    Err(Error::config(
        format!(
            "port `{port}`: MTU {mtu} is beyond what {} can do",
            able.driver
        ),
        format!(
            "use one from {} to {mtu_max}, or another driver",
            able.mtu_min
        ),
    ))
}

fn check_room(port: &str, mtu: u16, pool: &Mempool) -> Result<(), Error> {
    let (needed, room) = (frame_bytes_max(mtu), pool.data_room_bytes());
    if needed <= room {
        return Ok(());
    }
    Err(Error::config(
        format!(
            "port `{port}`: frames of MTU {mtu} take up to {needed} bytes, but mbufs of pool `{}` \
             hold {room}",
            pool.name()
        ),
        format!("create the pool with a data room of {needed} or more, or lower the MTU"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn able(driver: &str, mtu_max: u32, rx_frame_bytes_max: u32) -> Capabilities {
        let descriptors = Descriptors {
            min: 0,
            max: 0,
            align: 0,
        };
        Capabilities {
            driver: driver.into(),
            rx_queues_max: 1,
            tx_queues_max: 1,
            mtu_min: 46,
            mtu_max,
            rx_frame_bytes_max,
            rx_descriptors: descriptors,
            tx_descriptors: descriptors,
            can_spread: false,
            socket: None,
        }
    }

    /// The MTU's limit is the device's own, or follows from the longest frame if it names none.
    #[test]
    fn mtu_fits() {
        let nic = able("net_nic", 9978, 10_000);
        let tap = able("net_tap", MTU_UNLIMITED, 1522);
        let null = able("net_null", MTU_UNLIMITED, u32::MAX);
        for (device, mtu, expected) in [
            (&nic, 9978, Some(9978)),
            (&nic, 9979, None),
            (&nic, 45, None),
            (&tap, 1504, Some(1504)),
            (&tap, 1505, None),
            (&null, 65535, Some(65535)),
        ] {
            let mut warnings = Vec::new();
            let got = fit_mtu("p", mtu, device, &mut warnings).ok();
            assert_eq!(got, expected, "MTU {mtu} on {}", device.driver);
            assert_eq!(warnings, Vec::<String>::new());
        }
    }

    /// net_af_packet keeps its own MTU and the operator is told what to set instead.
    #[test]
    fn af_packet_leaves_the_mtu_to_the_interface() {
        let mut warnings = Vec::new();
        let device = able("net_af_packet", MTU_UNLIMITED, 1518);
        assert_eq!(fit_mtu("p", 4200, &device, &mut warnings).unwrap(), 0);
        assert!(warnings[0].contains("framesz"), "{warnings:?}");
    }

    /// Descriptor counts obey minimum, maximum and alignment; zero limits mean none.
    #[test]
    fn descriptors_fit() {
        let limits = |min, max, align| Descriptors { min, max, align };
        for (asked, limits, expected) in [
            (512, limits(0, 0, 0), 512),
            (512, limits(0, 65535, 1), 512),
            (500, limits(64, 4096, 32), 512),
            (8, limits(64, 4096, 32), 64),
            (9000, limits(64, 4096, 32), 4096),
            (4095, limits(1, 4094, 4), 4092),
        ] {
            assert_eq!(
                fit_descriptors(asked, limits),
                expected,
                "{asked} in {limits:?}"
            );
        }
    }
}
