//! Commands of our own on EAL's telemetry socket, beside DPDK's `/ethdev/stats` and the like.
//!
//! `main` registers them after `Eal::init`; an operator asks with `dpdk-telemetry.py`. Handlers
//! run on DPDK's telemetry thread, never on an lcore: let them read atomics and snapshots only.
//! A panic in one never reaches C: it yields an error reply, or, in a build whose panics abort,
//! ends the process with its message.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use dpdk_sys as sys;

use crate::eal::Eal;
use crate::error::{Errno, Error, c_string, check};

/// A handler's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Named values, at most 256. Names consist of letters, digits, `_` and `/`.
    Dict(Vec<(String, Value)>),
    /// Texts of less than 128 bytes, at most 512.
    List(Vec<String>),
    /// A text of less than 8192 bytes.
    Text(String),
}

/// One value of a [`Reply::Dict`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A text of less than 128 bytes.
    Text(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Answers a request, given the parameters behind the command's comma (empty if none).
type Handler = dyn Fn(&str) -> Reply + Send + Sync;

/// DPDK passes a callback the command's name and nothing of ours, so handlers are found by name.
static HANDLERS: Mutex<BTreeMap<String, Arc<Handler>>> = Mutex::new(BTreeMap::new());

/// Answers `command`, such as `/spraycheck/spines`, by `handler` from now on. `help` is one line
/// of less than 128 bytes. DPDK takes about 50 commands with names of less than 56 bytes.
/// Registering a command again replaces its handler.
pub fn register(
    _eal: &Eal,
    command: &str,
    help: &str,
    handler: impl Fn(&str) -> Reply + Send + Sync + 'static,
) -> Result<(), Error> {
    let c_command = c_string("telemetry command", command)?;
    let c_help = c_string("telemetry help", help)?;
    let mut handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    match handlers.entry(command.to_owned()) {
        Entry::Occupied(mut known) => {
            known.insert(Arc::new(handler));
            return Ok(());
        }
        Entry::Vacant(free) => free.insert(Arc::new(handler)),
    };
    // SAFETY: both strings are NUL-terminated and copied; `answer` may be called at any time.
    let result = unsafe {
        sys::rte_telemetry_register_cmd(c_command.as_ptr(), Some(answer), c_help.as_ptr())
    };
    check(result).map(drop).map_err(|errno| {
        handlers.remove(command);
        Error::call(
            "rte_telemetry_register_cmd",
            format!("`{command}`"),
            errno,
            "start it with `/`, keep it below 56 bytes and its help below 128, and register less",
        )
    })
}

/// What DPDK calls for each of our commands.
extern "C" fn answer(
    command: *const c_char,
    parameters: *const c_char,
    data: *mut sys::rte_tel_data,
) -> c_int {
    let reply = catch_unwind(AssertUnwindSafe(|| {
        let (command, parameters) = (text(command), text(parameters));
        let handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
        let handler = handlers.get(&command).map(Arc::clone);
        // A handler may register further commands, so the lock must not be held over it.
        drop(handlers);
        handler.map_or_else(
            || Reply::Text(format!("no handler for {command}")),
            |handler| handler(&parameters),
        )
    }))
    .unwrap_or_else(|_| Reply::Text("the handler panicked; see the process's log".into()));
    write(&reply, data)
}

/// Fills DPDK's answer. One that DPDK does not take whole becomes a text that says so.
fn write(reply: &Reply, data: *mut sys::rte_tel_data) -> c_int {
    let written = match reply {
        Reply::Text(text) => write_text(text, data),
        Reply::Dict(entries) => write_dict(entries, data),
        Reply::List(texts) => write_list(texts, data),
    };
    match written {
        Ok(()) => 0,
        Err(why) => match write_text(&format!("reply is not valid: {why}"), data) {
            Ok(()) => 0,
            Err(_) => -libc::EINVAL,
        },
    }
}

fn write_text(text: &str, data: *mut sys::rte_tel_data) -> Result<(), String> {
    let c_text = c_text(text)?;
    // SAFETY: `data` is DPDK's and valid during the callback; the text is copied.
    let result = unsafe { sys::rte_tel_data_string(data, c_text.as_ptr()) };
    took(result, "text of less than 8192 bytes")
}

fn write_dict(entries: &[(String, Value)], data: *mut sys::rte_tel_data) -> Result<(), String> {
    // SAFETY: `data` is DPDK's and valid during the callback.
    took(unsafe { sys::rte_tel_data_start_dict(data) }, "dict")?;
    for (name, value) in entries {
        let c_name = c_text(name)?;
        let result = match value {
            Value::Number(number) => {
                // SAFETY: `data` is a started dict; the name is copied.
                unsafe { sys::shim_tel_add_number(data, c_name.as_ptr(), *number) }
            }
            Value::Text(text) => {
                let c_value = c_text(text)?;
                // SAFETY: `data` is a started dict; both strings are copied.
                unsafe {
                    sys::rte_tel_data_add_dict_string(data, c_name.as_ptr(), c_value.as_ptr())
                }
            }
        };
        took(result, name)?;
    }
    Ok(())
}

fn write_list(texts: &[String], data: *mut sys::rte_tel_data) -> Result<(), String> {
    // SAFETY: `data` is DPDK's and valid during the callback.
    took(unsafe { sys::shim_tel_start_strings(data) }, "list")?;
    for text in texts {
        let c_value = c_text(text)?;
        // SAFETY: `data` is a started array of texts; the text is copied.
        let result = unsafe { sys::rte_tel_data_add_array_string(data, c_value.as_ptr()) };
        took(result, text)?;
    }
    Ok(())
}

/// These calls report a text they cut by a positive errno and other failures by a negative one.
fn took(result: c_int, what: &str) -> Result<(), String> {
    match result {
        0 => Ok(()),
        failure => Err(format!("{what}: {}", Errno(failure.saturating_abs()))),
    }
}

fn c_text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} contains a NUL byte"))
}

/// DPDK passes no parameters as NULL.
fn text(raw: *const c_char) -> String {
    if raw.is_null() {
        return String::new();
    }
    // SAFETY: DPDK passes NUL-terminated strings that stay during the callback.
    let text = unsafe { CStr::from_ptr(raw) };
    text.to_string_lossy().into_owned()
}
