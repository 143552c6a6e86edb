//! The one error type of this crate, and the small conversions at the border to C.
//!
//! Every fallible function here returns [`Error`]. Each message names the DPDK call or the
//! setting, the value, and what to do about it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;

use dpdk_sys as sys;

/// What went wrong and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `Eal::init` was called a second time.
    #[error("EAL was already started in this process; start it once and share that `Eal`")]
    AlreadyStarted,

    /// EAL is asked to go while ports, pools, rings or lcores still need it.
    #[error(
        "EAL cannot be cleaned up yet: {holders} ports, pools, rings or running lcores still use \
         it; drop or join them first (clean-up then follows by itself)"
    )]
    StillInUse {
        /// How many handles are left.
        holders: usize,
    },

    /// Hugepages were demanded and there are too few.
    #[error(
        "not enough free hugepages: need {need_mib} MiB, have {free_mib} MiB; reserve them \
         (`scripts/hugepages MIB`), stop what holds them, or choose memory without hugepages"
    )]
    Hugepages {
        /// What the configuration asks for.
        need_mib: u64,
        /// What the kernel has free.
        free_mib: u64,
    },

    /// A setting that cannot work, found before DPDK was asked.
    #[error("{what}; {advice}")]
    Config {
        /// The setting and its value.
        what: String,
        /// What to do.
        advice: String,
    },

    /// The shared libraries found at run time are of another release than the headers.
    #[error(
        "built against DPDK {built}, but the loaded libraries are DPDK {running}; rebuild, or \
         point LD_LIBRARY_PATH at the DPDK it was built with"
    )]
    Version {
        /// Release of the headers.
        built: String,
        /// Release of the libraries.
        running: String,
    },

    /// Another process runs with the same file prefix.
    #[error(
        "another process (pid {holder}) runs with file prefix `{file_prefix}`; stop it, or choose \
         another prefix"
    )]
    PrefixTaken {
        /// The prefix.
        file_prefix: String,
        /// The process that has it.
        holder: String,
    },

    /// EAL reported success although this device did not come up.
    #[error(
        "device `{device}` did not come up as a port (EAL itself reports success); check its \
         arguments, that files or interfaces it names exist, and that this user may open them"
    )]
    DeviceMissing {
        /// The device as it was asked for, with its arguments.
        device: String,
    },

    /// A DPDK call failed.
    #[error("{call} failed for {object}: {errno}; {advice}")]
    Call {
        /// The DPDK function.
        call: &'static str,
        /// What it was called for.
        object: String,
        /// Why it says it failed.
        errno: Errno,
        /// What to do.
        advice: String,
    },
}

impl Error {
    pub(crate) fn config(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Config {
            what: what.into(),
            advice: advice.into(),
        }
    }

    pub(crate) fn call(
        call: &'static str,
        object: impl Into<String>,
        errno: Errno,
        advice: impl Into<String>,
    ) -> Self {
        Self::Call {
            call,
            object: object.into(),
            errno,
            advice: advice.into(),
        }
    }
}

/// An error number of the C library or of DPDK, always positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The calling thread's `rte_errno`, for calls that report failure by NULL or -1.
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local integer.
        Self(unsafe { sys::shim_errno() })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: takes any number; the text lives in a thread-local buffer or is static.
        let text = unsafe { sys::rte_strerror(self.0) };
        // SAFETY: `text` is NUL-terminated and no other DPDK call happens before its use ends.
        let text = unsafe { CStr::from_ptr(text) };
        write!(f, "{} (errno {})", text.to_string_lossy(), self.0)
    }
}

/// Turns a DPDK return value (negative errno on failure) into a result.
pub(crate) fn check(result: c_int) -> Result<u32, Errno> {
    // Some calls return a bare -1 and put the reason into rte_errno.
    u32::try_from(result).map_err(|_| match (result, Errno::last()) {
        (-1, last) if last.0 != 0 => last,
        _ => Errno(result.saturating_neg()),
    })
}

/// A string for C; a NUL inside is a configuration error.
pub(crate) fn c_string(what: &str, text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| {
        Error::config(
            format!("{what} {text:?} contains a NUL byte"),
            "remove it, C strings end there",
        )
    })
}

/// Copies a NUL-terminated string out of a fixed array that C filled.
pub(crate) fn text_of(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array
        .iter()
        .take_while(|&&c| c != 0)
        .map(|&c| c.cast_unsigned())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An errno shows its text and its number.
    #[test]
    fn errno_has_text() {
        assert_eq!(Errno(2).to_string(), "No such file or directory (errno 2)");
    }

    /// A negative return value becomes the errno, a count passes.
    #[test]
    fn check_splits_counts_from_errors() {
        assert_eq!(check(7), Ok(7));
        assert_eq!(check(-22), Err(Errno(22)));
    }
}
