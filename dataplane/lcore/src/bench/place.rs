//! What the figures were measured on, and what else ran meanwhile.
//!
//! The kernel's autogroups give each login session an equal share of a CPU, whatever the niceness
//! within: against another session's load a poll loop gets half of its core, and the figures half
//! of their size. A session of its own with the highest weight brings them back.

use std::fs;
use std::time::Instant;

/// Ticks of the kernel's accounting a second (`USER_HZ`, the same on every Linux for x86).
const TICKS_PER_S: f64 = 100.0;

/// Gives the process a session of its own with the highest weight. False when it has no right to.
pub fn prefer_this_process() -> bool {
    // A process that leads a session or a group already keeps it; the weight is what counts.
    let _ = rustix::process::setsid();
    fs::write("/proc/self/autogroup", "-20").is_ok()
}

/// CPU and kernel, for people.
pub fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(": ").nth(1))
            .unwrap_or("unknown")
            .to_owned()
    };
    let cpus = cpuinfo
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let kernel = read("/proc/sys/kernel/osrelease");
    let virtual_ = if field("flags").contains("hypervisor") {
        ", virtual"
    } else {
        ""
    };
    format!(
        "{cpus} CPUs {} (family {}, model {}){virtual_}, Linux {}",
        field("model name"),
        field("cpu family"),
        field("model"),
        kernel.trim()
    )
}

/// Load average over one, five and fifteen minutes.
pub fn load() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut numbers = text.split(' ').map(|word| word.parse().unwrap_or(0.0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}

/// Counts what other processes take from now on.
pub struct Others {
    at: Instant,
    all: f64,
    own: f64,
}

impl Others {
    /// Begins to count.
    pub fn new() -> Others {
        Others {
            at: Instant::now(),
            all: busy_s(),
            own: own_s(),
        }
    }

    /// CPUs that were busy with other processes, on average.
    pub fn cpus(&self) -> f64 {
        let elapsed_s = self.at.elapsed().as_secs_f64().max(0.01);
        let others_s = (busy_s() - self.all) - (own_s() - self.own);
        (others_s / elapsed_s).max(0.0)
    }
}

impl Default for Others {
    fn default() -> Others {
        Others::new()
    }
}

/// Seconds that all CPUs together were neither idle nor waiting (proc(5), `/proc/stat`).
fn busy_s() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().unwrap_or_default();
    let fields = ticks.split_whitespace().skip(1).take(8).enumerate();
    // User, nice, system, idle, iowait, irq, softirq, steal.
    let busy = fields.filter(|(index, _)| !matches!(index, 3 | 4));
    busy.map(|(_, field)| field.parse().unwrap_or(0.0))
        .sum::<f64>()
        / TICKS_PER_S
}

/// Seconds that this process ran (proc(5), `/proc/self/stat`: fields 14 and 15).
fn own_s() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let fields = behind_name.split_whitespace().skip(11).take(2);
    fields
        .map(|field| field.parse().unwrap_or(0.0))
        .sum::<f64>()
        / TICKS_PER_S
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is read from the kernel is there and plausible.
    #[test]
    fn the_machine_is_described() {
        let machine = machine();
        assert!(
            machine.contains("CPU") && machine.contains("Linux"),
            "{machine}"
        );
        assert!(
            !machine.starts_with('0') && !machine.contains("unknown"),
            "{machine}"
        );
        let others = Others::new();
        let begun = Instant::now();
        // On a busy machine it takes longer than its own time until the kernel has counted some.
        while own_s() <= 0.1 && begun.elapsed().as_secs() < 60 {
            std::hint::spin_loop();
        }
        let cpus = others.cpus();
        assert!((0.0..1024.0).contains(&cpus), "{cpus} CPUs");
        assert!(
            own_s() > 0.1 && busy_s() > own_s(),
            "{} of {}",
            own_s(),
            busy_s()
        );
    }
}
