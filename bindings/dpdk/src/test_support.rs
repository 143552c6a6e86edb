//! EAL for tests: started once per process, small, without hugepages, devices or root.
//!
//! For tests of this crate and, with feature `test-support`, of those built on it. Works alike
//! under nextest (a process per test) and `cargo test` (threads of one process): names of pools,
//! rings and devices must only be unique within a test binary.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::eal::{Eal, EalConfig, Memory};
use crate::mempool::Mempool;

static EAL: OnceLock<Eal> = OnceLock::new();
static LCORE_1: Mutex<()> = Mutex::new(());

/// Packet memory of the tests of one process.
const MIB: u32 = 64;

/// What tests start EAL with: lcores 0 and 1 on one CPU, 64 MiB, a file prefix of their own.
pub fn config() -> EalConfig {
    let cpu = first_allowed_cpu();
    EalConfig {
        program: "test".into(),
        lcores: vec![(0, cpu), (1, cpu)],
        main_lcore: 0,
        memory: Memory::NoHuge { mib: MIB },
        file_prefix: format!("test-{}", std::process::id()),
        ..EalConfig::default()
    }
}

/// This process's EAL; the first call starts it.
///
/// # Panics
/// If EAL does not start: no test can go on then.
pub fn eal() -> &'static Eal {
    EAL.get_or_init(|| match Eal::init(config()) {
        Ok(eal) => eal,
        Err(reason) => panic!("EAL did not start for tests: {reason}"),
    })
}

/// A tiny pool, so that exhaustion is cheap to test.
///
/// # Panics
/// If it cannot be had.
pub fn pool(name: &str, count: u32, data_room_bytes: u32) -> Mempool {
    match Mempool::create(eal(), name, count, 0, data_room_bytes, None) {
        Ok(pool) => pool,
        Err(reason) => panic!("no pool for tests: {reason}"),
    }
}

/// Held by a test for as long as it uses lcore 1, of which there is one for all.
pub fn lcore_turn() -> MutexGuard<'static, ()> {
    LCORE_1.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lowest CPU this process may run on; containers do not always have CPU 0.
fn first_allowed_cpu() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .and_then(|list| list.trim().split([',', '-']).next()?.parse().ok())
        .unwrap_or(0)
}
