//! Ethernet ports: found by name, configured, started, and closed after their last user.
//!
//! `main` takes a [`Port`], starts it, and hands its queues to the lcores that poll them. The
//! queues and every clone of [`StartedPort`] share the port; when the last is gone the port is
//! stopped and closed, and only then are its pool and EAL let go. No offload is ever switched
//! on: what arrives is what was on the wire.

mod config;
mod facts;
mod queue;
mod watch;

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpdk_sys as sys;

use crate::eal::{Eal, EalInner};
use crate::error::{Error, c_string, check, text_of};
use crate::mempool::Mempool;

pub use config::{PortConfig, frame_bytes_max};
pub use facts::{Capabilities, Descriptors, Link, PortStats};
pub use queue::{RxQueue, TxQueue};
pub use watch::LinkWatch;

/// Ports that somebody has: two holders of one could poll the same queue from two threads. The
/// lock is also held while devices come, go or are listed, which DPDK does not order itself.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port, not started yet. It cannot be taken a second time while this exists.
#[derive(Debug)]
pub struct Port {
    inner: Arc<PortInner>,
}

/// What [`Port::start`] gives.
#[derive(Debug)]
pub struct Started {
    /// For link state and statistics.
    pub port: StartedPort,
    /// The receive queues, by number.
    pub rx: Vec<RxQueue>,
    /// The transmit queues, by number.
    pub tx: Vec<TxQueue>,
    /// What the device could not give as asked; worth a line in the log each.
    pub warnings: Vec<String>,
}

/// A port that runs. Clones share it; it runs until they and all its queues are gone.
#[derive(Debug, Clone)]
pub struct StartedPort {
    inner: Arc<PortInner>,
}

#[derive(Debug)]
struct PortInner {
    id: u16,
    name: String,
    /// DPDK's control calls for one port must not overlap.
    control: Mutex<()>,
    /// Once the port has been touched it must be closed, which must precede the pool's end.
    pool: Option<Mempool>,
    _eal: Arc<EalInner>,
}

impl Port {
    /// Takes the port of this name: for a virtual device its own name, such as `net_null0`, for
    /// a PCI device its address.
    pub fn by_name(eal: &Eal, name: &str) -> Result<Self, Error> {
        let c_name = c_string("port name", name)?;
        let mut id = 0;
        let mut taken = lock_devices();
        // SAFETY: EAL is up, the name is NUL-terminated and `id` a place for the answer.
        let result = unsafe { sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &raw mut id) };
        check(result).map_err(|errno| {
            Error::call(
                "rte_eth_dev_get_port_by_name",
                format!("port `{name}`"),
                errno,
                format!("name one of {:?}, or add the device", list_names()),
            )
        })?;
        if !taken.insert(id) {
            return Err(Error::config(
                format!("port `{name}` is already taken in this process"),
                "take it once and share its queues and its `StartedPort`",
            ));
        }
        let inner = PortInner {
            id,
            name: name.to_owned(),
            control: Mutex::new(()),
            pool: None,
            _eal: eal.inner(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The names of all ports there are, taken or not.
    pub fn names(_eal: &Eal) -> Vec<String> {
        let _devices = lock_devices();
        list_names()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What the device can do.
    pub fn capabilities(&self) -> Result<Capabilities, Error> {
        self.inner.capabilities()
    }

    /// Configures and starts it. Counts beyond the device's limits are clamped and reported in
    /// `warnings`; an MTU it cannot do, or one whose frames do not fit the pool's buffers, is an
    /// error, since such frames would be cut or lost without a trace. After an error the port
    /// is closed and does not come back.
    pub fn start(self, config: PortConfig) -> Result<Started, Error> {
        config::start(self, config)
    }
}

impl StartedPort {
    /// DPDK's number of the port.
    pub fn id(&self) -> u16 {
        self.inner.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What the device can do.
    pub fn capabilities(&self) -> Result<Capabilities, Error> {
        self.inner.capabilities()
    }

    /// The link's state, without waiting for a negotiation to end. Several virtual devices
    /// (`net_null`, `net_ring`, `net_af_packet`) always say up.
    pub fn link(&self) -> Result<Link, Error> {
        self.inner.link()
    }

    /// Takes the link up or down, where the driver can: what the other end sees is the driver's.
    pub fn set_link(&self, up: bool) -> Result<(), Error> {
        let advice = "not every driver can";
        if up {
            self.inner
                .control("rte_eth_dev_set_link_up", advice, |id| {
                    // SAFETY: the port exists.
                    unsafe { sys::rte_eth_dev_set_link_up(id) }
                })?;
        } else {
            self.inner
                .control("rte_eth_dev_set_link_down", advice, |id| {
                    // SAFETY: the port exists.
                    unsafe { sys::rte_eth_dev_set_link_down(id) }
                })?;
        }
        Ok(())
    }

    /// Calls `changed` whenever the driver tells that the link has changed, from a thread of EAL's,
    /// until what this gives is dropped. Drivers that never tell never call; one watch per port.
    pub fn watch_link(
        &self,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> Result<LinkWatch, Error> {
        LinkWatch::new(std::sync::Arc::clone(&self.inner), Box::new(changed))
    }

    /// Its hardware address.
    pub fn mac(&self) -> Result<[u8; 6], Error> {
        self.inner.mac()
    }

    /// The MTU that DPDK has for it. What really passes may be more on `net_af_packet`.
    pub fn mtu(&self) -> Result<u16, Error> {
        self.inner.mtu()
    }

    /// The basic counters.
    pub fn stats(&self) -> Result<PortStats, Error> {
        self.inner.stats()
    }

    /// All counters that the driver has, by name.
    pub fn xstats(&self) -> Result<Vec<(String, u64)>, Error> {
        self.inner.xstats()
    }
}

impl PortInner {
    /// One control call at a time, with its failure turned into an error.
    fn control(
        &self,
        call: &'static str,
        advice: &str,
        run: impl FnOnce(u16) -> c_int,
    ) -> Result<u32, Error> {
        let _one_at_a_time = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let result = run(self.id);
        check(result)
            .map_err(|errno| Error::call(call, format!("port `{}`", self.name), errno, advice))
    }
}

impl Drop for PortInner {
    fn drop(&mut self) {
        let mut taken = lock_devices();
        if self.pool.is_some() {
            // SAFETY: the port exists, and as its last holder is here nobody polls it.
            let stopped = unsafe { sys::rte_eth_dev_stop(self.id) };
            // SAFETY: as above, and it is stopped.
            let closed = unsafe { sys::rte_eth_dev_close(self.id) };
            for (call, result) in [("rte_eth_dev_stop", stopped), ("rte_eth_dev_close", closed)] {
                if let Err(errno) = check(result) {
                    eprintln!("{call} failed for port `{}`: {errno}", self.name);
                }
            }
        }
        taken.remove(&self.id);
    }
}

/// Keeps the set of devices as it is while held.
pub(crate) fn lock_devices() -> MutexGuard<'static, BTreeSet<u16>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn list_names() -> Vec<String> {
    port_ids().filter_map(port_name).collect()
}

/// Whether a port stands for the device of this name.
pub(crate) fn exists_for_device(name: &str) -> bool {
    let _devices = lock_devices();
    port_ids().any(|port| {
        facts::raw_info(port).is_ok_and(|info| text_of(&info.device) == name)
            || port_name(port).is_some_and(|port| port == name)
    })
}

/// The ids of all ports, ascending.
fn port_ids() -> impl Iterator<Item = u16> {
    let next = |from: u16| {
        // SAFETY: any number is accepted.
        let id = unsafe { sys::rte_eth_find_next(from) };
        // Asking about the number that means "none left" would log an error.
        (u32::from(id) < sys::RTE_MAX_ETHPORTS).then_some(id)
    };
    std::iter::successors(next(0), move |&last| next(last + 1))
}

fn port_name(port: u16) -> Option<String> {
    let mut name = [0; sys::RTE_ETH_NAME_MAX_LEN as usize];
    // SAFETY: the array is as long as DPDK asks for; an unknown port is refused.
    let result = unsafe { sys::rte_eth_dev_get_name_by_port(port, name.as_mut_ptr()) };
    (result == 0).then(|| text_of(&name))
}
