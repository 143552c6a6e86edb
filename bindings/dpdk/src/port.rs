//! Ethernet ports.

use dpdk_sys as sys;

use crate::error::text_of;

/// Whether a port stands for the device of this name.
pub(crate) fn exists_for_device(name: &str) -> bool {
    port_ids().any(|port| info(port).is_some_and(|info| text_of(&info.device) == name))
}

/// The ids of all ports, ascending.
fn port_ids() -> impl Iterator<Item = u16> {
    let next = |from: u16| {
        // SAFETY: any number is accepted; RTE_MAX_ETHPORTS means none is left.
        let id = unsafe { sys::rte_eth_find_next(from) };
        info(id).map(|_| id)
    };
    std::iter::successors(next(0), move |&last| next(last + 1))
}

fn info(port: u16) -> Option<sys::shim_port_info> {
    let mut info = std::mem::MaybeUninit::uninit();
    // SAFETY: `info` is a valid place; an unknown port is refused.
    let result = unsafe { sys::shim_port_info(port, info.as_mut_ptr()) };
    // SAFETY: on success the shim has written all of it.
    (result == 0).then(|| unsafe { info.assume_init() })
}
