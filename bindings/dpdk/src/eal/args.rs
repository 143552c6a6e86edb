//! From a typed configuration to EAL's argument vector: a pure function.
//!
//! Called by `Eal::init`, and by a `check` command that shows the line without starting
//! anything. Guarantees that options which exclude each other never meet and that each refusal
//! names the setting.

use std::collections::BTreeSet;

use dpdk_sys as sys;

use super::FreeHugepages;
use crate::error::Error;

/// Where packet memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Hugepages if at least `mib` MiB of them are free, ordinary pages otherwise.
    Auto {
        /// MiB to reserve.
        mib: u32,
    },
    /// Hugepages, or an error.
    Hugepages {
        /// MiB to reserve.
        mib: u32,
    },
    /// Ordinary pages: about half the speed, and `mib` is a hard limit.
    NoHuge {
        /// MiB to reserve.
        mib: u32,
    },
}

/// The least severe log lines of EAL and the drivers that are still shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// Failures only.
    #[default]
    Error,
    /// And oddities.
    Warning,
    /// And normal but notable events.
    Notice,
    /// And what is going on.
    Info,
    /// Everything.
    Debug,
}

/// What EAL is started with.
#[derive(Debug, Clone)]
pub struct EalConfig {
    /// The program's name in EAL's log lines.
    pub program: String,
    /// Pairs of lcore id and the CPU it runs on. Several lcores may share a CPU; such threads
    /// must sleep when idle.
    pub lcores: Vec<(u32, u32)>,
    /// The lcore of the thread that calls `init`; one of `lcores`.
    pub main_lcore: u32,
    /// Where packet memory comes from.
    pub memory: Memory,
    /// Virtual devices with their arguments, such as `net_null0,size=64`.
    pub vdevs: Vec<String>,
    /// PCI devices to use, such as `0000:03:00.0`. None named: PCI is left alone.
    pub pci: Vec<String>,
    /// Keeps runtime files apart from those of other DPDK processes; one process each.
    pub file_prefix: String,
    /// Whether EAL opens its telemetry socket.
    pub telemetry: bool,
    /// How much EAL and the drivers log, to standard error.
    pub log_level: LogLevel,
    /// Further EAL arguments, appended as they are.
    pub extra: Vec<String>,
}

impl Default for EalConfig {
    /// One lcore on CPU 0, 256 MiB of what there is, no devices, telemetry on, errors shown.
    fn default() -> Self {
        Self {
            program: "spraycheck".into(),
            lcores: vec![(0, 0)],
            main_lcore: 0,
            memory: Memory::Auto { mib: 256 },
            vdevs: Vec::new(),
            pci: Vec::new(),
            file_prefix: "spraycheck".into(),
            telemetry: true,
            log_level: LogLevel::Error,
            extra: Vec::new(),
        }
    }
}

/// Derives the argument vector, the program's name first.
pub fn arguments(config: &EalConfig, free: FreeHugepages) -> Result<Vec<String>, Error> {
    check_lcores(config)?;
    check_devices(config)?;
    if config.file_prefix.is_empty() || config.file_prefix.contains(['/', '%']) {
        return Err(Error::config(
            format!("file prefix {:?} is not a plain name", config.file_prefix),
            "use letters, digits, `-` and `_`",
        ));
    }

    let mut arguments = vec![config.program.clone()];
    let pairs: Vec<String> = config
        .lcores
        .iter()
        .map(|(lcore, cpu)| format!("{lcore}@{cpu}"))
        .collect();
    arguments.push(format!("--lcores={}", pairs.join(",")));
    arguments.push(format!("--main-lcore={}", config.main_lcore));
    arguments.extend(memory_arguments(config.memory, free)?);
    arguments.push(format!("--file-prefix={}", config.file_prefix));
    if config.pci.is_empty() {
        arguments.push("--no-pci".into());
    }
    arguments.extend(config.pci.iter().map(|device| format!("--allow={device}")));
    arguments.extend(config.vdevs.iter().map(|device| format!("--vdev={device}")));
    if !config.telemetry {
        arguments.push("--no-telemetry".into());
    }
    let level = match config.log_level {
        LogLevel::Error => "error",
        LogLevel::Warning => "warning",
        LogLevel::Notice => "notice",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    };
    arguments.push(format!("--log-level=*:{level}"));
    arguments.extend(config.extra.iter().cloned());
    Ok(arguments)
}

/// `--in-memory` and `--no-huge` exclude each other: EAL refuses the pair.
fn memory_arguments(memory: Memory, free: FreeHugepages) -> Result<Vec<String>, Error> {
    let (mib, huge) = match memory {
        Memory::Auto { mib } => (mib, free.mib() >= u64::from(mib)),
        Memory::Hugepages { mib } => (mib, true),
        Memory::NoHuge { mib } => (mib, false),
    };
    if mib == 0 {
        return Err(Error::config(
            "0 MiB of packet memory",
            "give it at least 64 MiB",
        ));
    }
    if huge && free.mib() < u64::from(mib) {
        return Err(Error::Hugepages {
            need_mib: u64::from(mib),
            free_mib: free.mib(),
        });
    }
    // --in-memory also keeps EAL's tables out of the runtime folder; --no-shconf alone does it
    // for ordinary pages, where each run would leave a megabyte behind.
    let kind: &[&str] = if huge {
        &["--in-memory"]
    } else {
        &["--no-huge", "--no-shconf"]
    };
    let mut arguments: Vec<String> = kind.iter().map(|&flag| flag.to_owned()).collect();
    arguments.push(format!("-m{mib}"));
    Ok(arguments)
}

fn check_lcores(config: &EalConfig) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for &(lcore, cpu) in &config.lcores {
        if lcore >= sys::RTE_MAX_LCORE {
            return Err(Error::config(
                format!("lcore {lcore} (on CPU {cpu}) is out of range"),
                format!("this DPDK takes lcore ids 0 to {}", sys::RTE_MAX_LCORE - 1),
            ));
        }
        if !seen.insert(lcore) {
            return Err(Error::config(
                format!("lcore {lcore} is listed twice"),
                "give each lcore id once; several ids may share a CPU",
            ));
        }
    }
    if !seen.contains(&config.main_lcore) {
        return Err(Error::config(
            format!(
                "main lcore {} is not among the lcores {seen:?}",
                config.main_lcore
            ),
            "list it with its CPU, or choose another",
        ));
    }
    Ok(())
}

fn check_devices(config: &EalConfig) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for device in config.vdevs.iter().chain(&config.pci) {
        let name = device.split(',').next().unwrap_or_default();
        if name.is_empty() || name.len() >= sys::RTE_ETH_NAME_MAX_LEN as usize {
            return Err(Error::config(
                format!("device {device:?} has no usable name"),
                format!(
                    "name it like `net_null0,size=64`, in fewer than {} bytes",
                    sys::RTE_ETH_NAME_MAX_LEN
                ),
            ));
        }
        if !seen.insert(name) {
            return Err(Error::config(
                format!("device `{name}` is listed twice"),
                "number virtual devices apart, such as `net_null0` and `net_null1`",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
