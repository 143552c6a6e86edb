//! Being told of link changes instead of asking for them.
//!
//! Drivers with such an interrupt call back from a thread of EAL's; others never do, and their link
//! is asked for at intervals.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use dpdk_sys as sys;

use super::PortInner;
use crate::error::{Error, check};

type Changed = Box<dyn Fn() + Send + Sync>;

/// A registered call; ends when dropped.
pub struct LinkWatch {
    inner: Arc<PortInner>,
    /// What C holds a pointer to.
    changed: *mut Changed,
}

// SAFETY: the pointer is this value's own box, and what is in it may be called from any thread.
unsafe impl Send for LinkWatch {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl Sync for LinkWatch {}

impl fmt::Debug for LinkWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkWatch")
            .field("port", &self.inner.name)
            .finish()
    }
}

impl LinkWatch {
    pub(super) fn new(inner: Arc<PortInner>, changed: Changed) -> Result<LinkWatch, Error> {
        let changed = Box::into_raw(Box::new(changed));
        // SAFETY: `call` takes exactly what `changed` is, which lives until it is unregistered.
        let result = unsafe { sys::shim_port_on_link(inner.id, Some(call), changed.cast()) };
        let watch = LinkWatch { inner, changed };
        match check(result) {
            Ok(_) => Ok(watch),
            Err(errno) => Err(Error::call(
                "rte_eth_dev_callback_register",
                format!("port `{}`", watch.inner.name),
                errno,
                "its link is asked for at intervals all the same",
            )),
        }
    }
}

impl Drop for LinkWatch {
    fn drop(&mut self) {
        // SAFETY: the port exists; once this has returned nobody calls any more.
        unsafe { sys::shim_port_off_link(self.inner.id) };
        // SAFETY: it came from a box, and C has forgotten it.
        drop(unsafe { Box::from_raw(self.changed) });
    }
}

/// What C calls. A panic in it aborts the process.
extern "C" fn call(context: *mut c_void) {
    // SAFETY: the watch lives until it is unregistered.
    let changed = unsafe { &*context.cast::<Changed>() };
    changed();
}
