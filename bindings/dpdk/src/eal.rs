//! EAL, DPDK's process-wide environment: started once, cleaned up after its last user.
//!
//! `main` calls [`Eal::init`] early, before it starts threads of its own: EAL pins the calling
//! thread to the main lcore's CPU, and threads inherit that. Every pool, ring, port and running
//! lcore keeps EAL alive, so `rte_eal_cleanup` runs when the last of them is gone, in whatever
//! order they are dropped.

mod args;
mod hugepages;
mod instance;

use std::ffi::{CStr, CString, c_char};
use std::mem;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use dpdk_sys as sys;

use crate::error::{Errno, Error, c_string, check};
use crate::port;

pub use args::{EalConfig, LogLevel, Memory, arguments};
pub use hugepages::FreeHugepages;

/// Whether this process has started EAL. Never reset: EAL 22.11 cannot be started twice.
static STARTED: AtomicBool = AtomicBool::new(false);

/// What EAL was started with, kept where leak checkers see that it is in use for ever. Nothing reads
/// it, for which the compiler would leave it out.
#[used]
static ARGUMENTS: AtomicPtr<Arguments> = AtomicPtr::new(ptr::null_mut());

/// EAL reorders the array and may keep pointers into the strings, so neither is freed; the array
/// may lose a string on the way.
struct Arguments {
    _strings: Vec<*mut c_char>,
    /// NULL-terminated.
    _array: Vec<*mut c_char>,
}

/// The started environment. Functions that need EAL take a reference to it.
#[derive(Debug)]
pub struct Eal {
    inner: Arc<EalInner>,
}

/// What pools, ports, rings and lcores hold on to.
#[derive(Debug)]
pub(crate) struct EalInner {
    file_prefix: String,
}

impl Drop for EalInner {
    fn drop(&mut self) {
        // SAFETY: EAL is up, and the last handle that could use it is this one.
        let result = unsafe { sys::rte_eal_cleanup() };
        if let Err(errno) = check(result) {
            eprintln!("rte_eal_cleanup failed for {}: {errno}", self.file_prefix);
        }
    }
}

impl Eal {
    /// Starts EAL. The calling thread becomes the main lcore and is pinned to its CPU.
    ///
    /// Fails, with EAL cleaned up again, if another process has the file prefix or if a
    /// configured device did not become a port. As EAL cannot be restarted, a failure that comes
    /// after the configuration's check is final for this process.
    ///
    /// For a user who is not root and has no usable `XDG_RUNTIME_DIR`, this sets that variable
    /// to a private folder in the temporary folder: one more reason to call it before other
    /// threads run.
    pub fn init(config: EalConfig) -> Result<Self, Error> {
        check_release()?;
        let arguments = arguments(&config, FreeHugepages::read())?;
        let mut owned = Vec::with_capacity(arguments.len());
        for argument in &arguments {
            owned.push(c_string("EAL argument", argument)?);
        }
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(Error::AlreadyStarted);
        }
        instance::prepare()?;

        let strings: Vec<*mut c_char> = owned.into_iter().map(CString::into_raw).collect();
        let argc = i32::try_from(strings.len()).unwrap_or(i32::MAX);
        let mut array = strings.clone();
        array.push(ptr::null_mut());
        let argv = array.as_mut_ptr();
        let kept = Box::new(Arguments {
            _strings: strings,
            _array: array,
        });
        ARGUMENTS.store(Box::into_raw(kept), Ordering::Relaxed);
        // SAFETY: `argv` is a NULL-terminated array of `argc` writable strings that live for ever,
        // and `STARTED` makes this the only call.
        let result = unsafe { sys::rte_eal_init(argc, argv) };
        let errno = Errno::last();
        instance::runtime_dir();
        if result < 0 {
            let line = format!("`{}`", arguments.join(" "));
            return Err(Error::call(
                "rte_eal_init",
                line,
                errno,
                start_advice(errno),
            ));
        }

        let eal = Self {
            inner: Arc::new(EalInner {
                file_prefix: config.file_prefix.clone(),
            }),
        };
        instance::claim(&config.file_prefix)?;
        for device in config.vdevs.iter().chain(&config.pci) {
            eal.require_port(device)?;
        }
        Ok(eal)
    }

    /// Adds a virtual device, such as `net_null1,size=64`, to the running process.
    pub fn attach_vdev(&self, device: &str) -> Result<(), Error> {
        let (name, arguments) = device.split_once(',').unwrap_or((device, ""));
        let c_name = c_string("vdev", name)?;
        let c_arguments = c_string("vdev", arguments)?;
        let devices = port::lock_devices();
        // SAFETY: EAL is up and the three strings are NUL-terminated; DPDK copies them.
        let result = unsafe {
            sys::rte_eal_hotplug_add(c"vdev".as_ptr(), c_name.as_ptr(), c_arguments.as_ptr())
        };
        drop(devices);
        check(result).map_err(|errno| {
            Error::call(
                "rte_eal_hotplug_add",
                format!("vdev `{device}`"),
                errno,
                "check its name and arguments, that files or interfaces it names exist, and that \
                 the name is not in use",
            )
        })?;
        self.require_port(device)
    }

    /// Cleans EAL up, or says why it cannot be done yet. Dropping does the same silently.
    pub fn cleanup(self) -> Result<(), Error> {
        let inner = Arc::try_unwrap(self.inner).map_err(|inner| Error::StillInUse {
            holders: Arc::strong_count(&inner) - 1,
        })?;
        // The call is made here for its result, so the destructor must not make it again.
        let _prefix = mem::take(&mut mem::ManuallyDrop::new(inner).file_prefix);
        // SAFETY: EAL is up, and the last handle that could use it was `inner`.
        let result = unsafe { sys::rte_eal_cleanup() };
        check(result).map(drop).map_err(|errno| {
            Error::call(
                "rte_eal_cleanup",
                "this process",
                errno,
                "nothing is left to do but to exit",
            )
        })
    }

    /// The prefix that keeps this process's runtime files apart from others'.
    pub fn file_prefix(&self) -> &str {
        &self.inner.file_prefix
    }

    /// The folder of its runtime files, such as the telemetry socket.
    pub fn runtime_dir(&self) -> &'static Path {
        instance::runtime_dir()
    }

    pub(crate) fn inner(&self) -> Arc<EalInner> {
        Arc::clone(&self.inner)
    }

    /// EAL ignores a device that fails to probe; we do not.
    fn require_port(&self, device: &str) -> Result<(), Error> {
        let name = device.split(',').next().unwrap_or(device);
        if port::exists_for_device(name) {
            return Ok(());
        }
        Err(Error::DeviceMissing {
            device: device.to_owned(),
        })
    }
}

/// EAL logs the detail; this says where to look first.
fn start_advice(errno: Errno) -> &'static str {
    match errno.0 {
        libc::ENODEV => {
            "no driver knows one of the devices: the name of a virtual one starts with its \
             driver's, as in `net_null0`; EAL's line above names it"
        }
        libc::ENOMEM => "give EAL less memory, or free or reserve some",
        libc::EACCES | libc::EPERM => "run as a user who may use these CPUs, devices and folders",
        _ => "see EAL's own lines above; lcores on CPUs that this process may not use are common",
    }
}

/// The release of the DPDK libraries in use, such as `DPDK 22.11.11`.
pub fn version() -> String {
    // SAFETY: returns a static string and needs no EAL.
    let text = unsafe { sys::rte_version() };
    // SAFETY: the string is NUL-terminated and lives for ever.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// Needs no EAL. Inline functions were compiled against one release; structures change between releases but
/// not within one LTS, so year and month must agree and the patch level need not.
fn check_release() -> Result<(), Error> {
    // SAFETY: returns a constant.
    let year = unsafe { sys::rte_version_year() };
    // SAFETY: returns a constant.
    let month = unsafe { sys::rte_version_month() };
    if (year, month) == (sys::RTE_VER_YEAR, sys::RTE_VER_MONTH) {
        return Ok(());
    }
    let built = format!(
        "{}.{:02}.{}",
        sys::RTE_VER_YEAR,
        sys::RTE_VER_MONTH,
        sys::RTE_VER_MINOR
    );
    Err(Error::Version {
        built,
        running: version(),
    })
}
