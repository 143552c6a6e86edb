//! What the machine offers a run: CPUs, EAL, packet memory.

use core_affinity::CoreId;
use dpdk::{Eal, EalConfig, Memory};

/// The CPUs this process may use, read before EAL pins anything.
#[derive(Clone, Debug)]
pub struct Cpus(Vec<usize>);

impl Cpus {
    /// Those of the calling thread's mask; call it first thing in the process.
    pub fn read() -> Cpus {
        let cpus: Vec<usize> = core_affinity::get_core_ids()
            .unwrap_or_default()
            .into_iter()
            .map(|core| core.id)
            .collect();
        Cpus(if cpus.is_empty() { vec![0] } else { cpus })
    }

    /// Those of a list, in its order, for tests.
    pub fn of(cpus: Vec<usize>) -> Cpus {
        Cpus(cpus)
    }

    /// Whether this process may use that one.
    pub fn has(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// The one for control and everything else that is no poll loop.
    pub fn control(&self) -> usize {
        self.0[0]
    }

    /// The one for the poll loop: another than control's, if there is one.
    pub fn poll(&self) -> usize {
        self.0[self.0.len() - 1]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none, which cannot be.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one for poll loop number `index`: from the last on, control's at the very end.
    pub fn poll_of(&self, index: usize) -> usize {
        self.0[self.0.len() - 1 - index % self.0.len()]
    }

    /// Pins the calling thread to control's CPU.
    pub fn pin_control(&self) {
        let id = self.control();
        // A mask that has changed meanwhile leaves the thread where it is, which works as well.
        if self.0.contains(&id) && id < 1024 {
            core_affinity::set_for_current(CoreId { id });
        }
    }
}

impl std::fmt::Display for Cpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

/// The lcore that polls.
pub const POLL_LCORE: u32 = 1;

/// EAL for a run without devices, or with virtual ones.
pub fn eal_config(
    name: &str,
    cpus: &Cpus,
    mib: u32,
    vdevs: Vec<String>,
    extra: Vec<String>,
) -> EalConfig {
    EalConfig {
        program: name.to_owned(),
        lcores: vec![(0, cpus.control() as u32), (POLL_LCORE, cpus.poll() as u32)],
        main_lcore: 0,
        memory: Memory::Auto { mib },
        vdevs,
        file_prefix: format!("{name}-{}", std::process::id()),
        extra,
        ..EalConfig::default()
    }
}

/// MiB for `buffers` packets of `room` bytes each, rings and DPDK itself.
pub fn mib_for(buffers: u32, room: u32) -> u32 {
    // An mbuf is 128 bytes of header, 128 of headroom and some for its place in the pool.
    let bytes = u64::from(buffers) * (u64::from(room) + 320);
    (bytes >> 20) as u32 + 64
}

/// Starts EAL, with the cause and the cure if that fails.
///
/// # Errors
/// What DPDK says.
pub fn start(config: EalConfig) -> Result<Eal, dpdk::Error> {
    Eal::init(config)
}
