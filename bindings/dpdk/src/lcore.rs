//! Running a function on an lcore, and waiting for it without burning a CPU.
//!
//! `main` launches each worker's poll loop here and joins it at shutdown. A panic on an lcore
//! prints its message and aborts the process: the thread belongs to DPDK, whose C frames must
//! not be unwound through, and a switch without one of its workers is not worth keeping alive.

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use dpdk_sys as sys;

use crate::eal::{Eal, EalInner};
use crate::error::{Error, check};

/// How long a joining thread sleeps between looks.
const POLL: Duration = Duration::from_micros(200);

/// EAL checks that an lcore is idle and then writes its job, without a lock between threads.
static LAUNCHING: Mutex<()> = Mutex::new(());

type Job = Box<dyn FnOnce() + Send>;

/// A function at work on an lcore.
///
/// Dropping it without `join` lets the function run on. EAL then stays up until the process
/// ends, as its thread may be in use.
#[derive(Debug)]
#[must_use = "join it to wait for its end and to get its result"]
pub struct Running<T> {
    lcore: u32,
    result: Receiver<T>,
    eal: Option<Arc<EalInner>>,
}

/// The lcores that `launch` accepts: all but the main one, in ascending order.
pub fn workers(_eal: &Eal) -> Vec<u32> {
    let mut lcores = Vec::new();
    // Before the first: counting starts at the id after it.
    let mut last = u32::MAX;
    loop {
        // SAFETY: EAL is up; any number is accepted, and the last one is RTE_MAX_LCORE.
        last = unsafe { sys::rte_get_next_lcore(last, 1, 0) };
        if last >= sys::RTE_MAX_LCORE {
            return lcores;
        }
        lcores.push(last);
    }
}

/// The main lcore: the thread that started EAL.
pub fn main(_eal: &Eal) -> u32 {
    // SAFETY: EAL is up.
    unsafe { sys::rte_get_main_lcore() }
}

/// The NUMA node of an lcore's CPU; 0 where there is one alone.
pub fn socket(_eal: &Eal, lcore: u32) -> u32 {
    // SAFETY: EAL is up; an unknown lcore gives a number as well.
    unsafe { sys::shim_lcore_socket(lcore.min(sys::RTE_MAX_LCORE - 1)) }
}

/// The lcore that the calling thread is, if it is one.
pub fn current() -> Option<u32> {
    // SAFETY: reads a thread-local number; LCORE_ID_ANY is the largest one.
    let lcore = unsafe { sys::shim_lcore_id() };
    (lcore < sys::RTE_MAX_LCORE).then_some(lcore)
}

/// Runs `function` on a worker lcore that is idle.
pub fn launch<T, F>(eal: &Eal, lcore: u32, function: F) -> Result<Running<T>, Error>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let workers = workers(eal);
    if !workers.contains(&lcore) {
        return Err(Error::config(
            format!("lcore {lcore} cannot be launched on"),
            format!(
                "use one of the worker lcores {workers:?}; the main lcore runs functions itself"
            ),
        ));
    }
    let (sender, result) = sync_channel(1);
    let job: Job = Box::new(move || {
        // The receiver may be gone: then nobody wants the result.
        let _ = sender.send(function());
    });
    let argument = Box::into_raw(Box::new(job));
    let launched = {
        let _one_at_a_time = LAUNCHING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lcore is a worker, and `run` takes exactly what `argument` is.
        unsafe { sys::rte_eal_remote_launch(Some(run), argument.cast(), lcore) }
    };
    if let Err(errno) = check(launched) {
        // SAFETY: EAL did not take the job, so the box is still ours.
        drop(unsafe { Box::from_raw(argument) });
        return Err(Error::call(
            "rte_eal_remote_launch",
            format!("lcore {lcore}"),
            errno,
            "join what runs there first",
        ));
    }
    Ok(Running {
        lcore,
        result,
        eal: Some(eal.inner()),
    })
}

/// What EAL calls on the lcore. A panic cannot leave an `extern "C"` function: after the panic's
/// own message the process aborts.
extern "C" fn run(argument: *mut c_void) -> c_int {
    // SAFETY: `launch` passed a boxed job and gave it up.
    let job = unsafe { Box::from_raw(argument.cast::<Job>()) };
    job();
    0
}

impl<T> Running<T> {
    /// The lcore it runs on.
    pub fn lcore(&self) -> u32 {
        self.lcore
    }

    /// Whether the lcore is idle again, so that `join` returns at once.
    pub fn is_finished(&self) -> bool {
        // SAFETY: the lcore exists, as a function was launched on it.
        unsafe { sys::shim_lcore_is_waiting(self.lcore) != 0 }
    }

    /// Waits, asleep, until the function has returned and its lcore is idle.
    pub fn join(mut self) -> T {
        let Ok(value) = self.result.recv() else {
            // A panicking job takes the process down before it could drop its sender.
            unreachable!("a job on an lcore either sends its result or aborts the process");
        };
        // rte_eal_wait_lcore would spin; the few microseconds left may be a time slice on a
        // shared CPU.
        while !self.is_finished() {
            thread::sleep(POLL);
        }
        self.eal = None;
        value
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        // Still set unless joined: the thread may use EAL's memory for as long as it likes.
        mem::forget(self.eal.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support;

    /// A function runs on the lcore it was given, a second one waits its turn, results return.
    #[test]
    fn launch_and_join() {
        let eal = test_support::eal();
        let _turn = test_support::lcore_turn();
        assert_eq!((main(eal), workers(eal)), (0, vec![1]));
        let (go, wait) = sync_channel::<u64>(0);
        let running = launch(eal, 1, move || (current(), wait.recv().unwrap() + 1)).unwrap();
        assert!(!running.is_finished());
        let busy = launch(eal, 1, || ()).unwrap_err().to_string();
        assert!(busy.contains("join what runs there"), "{busy}");
        go.send(41).unwrap();
        assert_eq!(running.join(), (Some(1), 42));
        assert_eq!(launch(eal, 1, || "again").unwrap().join(), "again");
    }

    /// The main lcore and lcores that do not exist are refused by name.
    #[test]
    fn only_workers() {
        let eal = test_support::eal();
        for lcore in [0, 2, 5000] {
            let message = launch(eal, lcore, || ()).unwrap_err().to_string();
            assert!(message.contains(&format!("lcore {lcore}")), "{message}");
        }
    }
}
