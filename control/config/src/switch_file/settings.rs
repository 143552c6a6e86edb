//! Queues, measurement, link state and EAL of a switch, with their defaults.

use packet::message::DEFAULT_PORT;
use pipeline::{PortConfig, PortKind, QueueConfig};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{classes, raw, windows};
use crate::choice::{Mark, Preset, Tie};
use crate::error::ConfigError;
use crate::fabric::{DSCP_PRIORITY, OVERHEAD_BYTES};
use crate::quantity::{Bytes, Time, text};

/// Room that DPDK keeps before each packet (RTE_PKTMBUF_HEADROOM).
const HEADROOM_BYTES: u64 = 128;

/// Where packet memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// Hugepages if enough are free, ordinary pages otherwise.
    Auto,
    /// Hugepages, or an error.
    Hugepages,
    /// Ordinary pages.
    NoHuge,
}

/// What the lcore does while there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// Poll on: the shortest delay, and a whole CPU.
    Poll,
    /// Sleep for some 50 us at a time: for devices of the kernel and several switches on one CPU.
    Sleep,
}

/// How many poll loops there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lcores {
    /// As many as there are devices, as far as the process has CPUs for them.
    Auto,
    /// So many.
    Count(u16),
}

/// Most poll loops of a process.
pub const LCORES_MAX: u16 = 32;

impl<'de> Deserialize<'de> for Lcores {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Lcores, D::Error> {
        text::read(deserializer, "a number of lcores, or auto")
    }
}

impl std::str::FromStr for Lcores {
    type Err = String;

    fn from_str(text: &str) -> Result<Lcores, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Lcores::Auto),
            (_, Ok(count @ 1..=LCORES_MAX)) => Ok(Lcores::Count(count)),
            _ => Err(format!(
                "\"{text}\" is no number of lcores; write 1 to {LCORES_MAX}, or auto"
            )),
        }
    }
}

impl std::fmt::Display for Lcores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Lcores::Auto => f.write_str("auto"),
            Lcores::Count(count) => write!(f, "{count}"),
        }
    }
}

/// How DPDK is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EalSpec {
    /// Where packet memory comes from.
    pub memory: Memory,
    /// How much of it.
    pub size: Bytes,
    /// Data room of a packet buffer, headroom included: holds the largest frame of every port.
    pub buffer_bytes: u32,
    /// What the lcore does while there is nothing to do.
    pub idle: Idle,
    /// How many poll loops there are.
    pub lcores: Lcores,
    /// The CPUs of the poll loops, one each; empty: chosen from those of the process.
    pub cpus: Vec<u16>,
    /// Packet buffers; `None`: as many as can be out at once.
    pub buffers: Option<u32>,
    /// Further arguments, as they are.
    pub arguments: Vec<String>,
}

pub(super) fn within<T: PartialOrd + std::fmt::Display>(
    key: &str,
    value: T,
    least: T,
    most: T,
) -> Result<T, ConfigError> {
    if value >= least && value <= most {
        return Ok(value);
    }
    let message = format!("{value} is out of range; choose {least} to {most}");
    Err(ConfigError::new(key, message))
}

fn largest_frame(ports: &[PortConfig]) -> u32 {
    ports
        .iter()
        .map(|port| port.frame_max_bytes)
        .max()
        .unwrap_or(0)
}

pub(super) fn message_port(fabric: &raw::Fabric) -> Result<u16, ConfigError> {
    match fabric.message_port.unwrap_or(DEFAULT_PORT) {
        port @ (0 | packet::ROCE_PORT) => {
            let message = format!("{port} is taken; choose another, such as {DEFAULT_PORT}");
            Err(ConfigError::new("fabric.message_port", message))
        }
        port => Ok(port),
    }
}

pub(super) fn link_state_ns(fabric: &raw::Fabric) -> Result<Option<u64>, ConfigError> {
    let key = "fabric.link_state";
    let time = match fabric.link_state.as_deref() {
        Some("off") => return Ok(None),
        Some(text) => text.parse().map_err(|error| {
            ConfigError::new(
                key,
                format!("{error}, or off for a switch alone, as in a replay"),
            )
        })?,
        None => Time::new(100_000_000),
    };
    let (least, most) = (Time::new(1_000_000), Time::new(10_000_000_000));
    within(key, time, least, most).map(|time| Some(time.nanos()))
}

/// How long a fabric link that came back is not used: one interval of link state unless said, so
/// that what the spine reaches has been heard, and a link that flaps faster stays out.
pub(super) fn hold_down_ns(fabric: &raw::Fabric) -> Result<u64, ConfigError> {
    let time = fabric.hold_down.unwrap_or(Time::new(100_000_000));
    let most = Time::new(3_600_000_000_000);
    within("fabric.hold_down", time, Time::new(0), most).map(Time::nanos)
}

pub(super) fn queue(raw: &raw::Queue, ports: &[PortConfig]) -> Result<QueueConfig, ConfigError> {
    let limit = raw.limit.unwrap_or(Bytes::new(1 << 20));
    let frame = Bytes::new(u64::from(largest_frame(ports)));
    if limit < frame {
        let message = format!(
            "{limit} holds no whole frame of {frame} bytes (the largest mtu and its headers); \
             choose 64KiB or more, or lower mtu"
        );
        return Err(ConfigError::new("queue.limit", message));
    }
    let limit = within("queue.limit", limit, frame, Bytes::new(1 << 30))?;
    let room = ports.len() as u64 * 8 * limit.bytes().div_ceil(64);
    let packets = raw.packets.unwrap_or(room.clamp(1 << 10, 1 << 15) as u32);
    let slack = raw.slack.unwrap_or(Time::new(20_000));
    let slack = within("queue.slack", slack, Time::new(0), Time::new(1_000_000_000))?;
    let mut dscp_priority = DSCP_PRIORITY;
    classes::read_map("dscp", &raw.dscp, &mut dscp_priority)?;
    Ok(QueueConfig {
        limit_bytes: limit.bytes(),
        packets_max: within("queue.packets", packets, 64, 1 << 20)?,
        slack_ns: slack.nanos(),
        overhead_bytes: within(
            "queue.overhead",
            raw.overhead.unwrap_or(OVERHEAD_BYTES),
            0,
            64,
        )?,
        dscp_priority,
        pcp_priority: classes::pcp(raw)?,
        ecn: classes::ecn(raw, limit, ports)?,
    })
}

/// What decides ties unless said: the way that goes with the protocol.
pub(super) fn tie(raw: &raw::Measurement) -> Tie {
    match raw.protocol.unwrap_or(Preset::Default) {
        Preset::Default => Tie::FewestMeasured,
        Preset::Paper => Tie::Random,
    }
}

pub(super) fn measurement(
    switch: &raw::Switch,
    queue: &QueueConfig,
    ports: &[PortConfig],
) -> Result<pipeline::Measurement, ConfigError> {
    let raw = &switch.measurement;
    let is_paper = raw.protocol == Some(Preset::Paper);
    let mark = raw
        .mark
        .unwrap_or(if is_paper { Mark::All } else { Mark::First });
    if is_paper && mark == Mark::First {
        let message = "first is not the paper's protocol, whose windows count all copies; leave \
                       it all, or take protocol default";
        return Err(ConfigError::new("measurement.mark", message));
    }
    let second = Time::new(1_000_000_000);
    let minute = Time::new(60_000_000_000);
    let time = |key: &str, value: Option<Time>, default: Time| {
        let key = format!("measurement.{key}");
        let value = value.unwrap_or(default);
        within(&key, value, Time::new(1_000), Time::new(3_600_000_000_000)).map(Time::nanos)
    };
    let window_packets = raw.window_packets.unwrap_or(1 << 26);
    let rows = raw.rows.unwrap_or(1024);
    let path_delay_ns_max = time("path_delay", raw.path_delay, path_delay(queue, ports))?;
    Ok(pipeline::Measurement {
        is_paper,
        mark: mark.into(),
        window_packets_max: within("measurement.window_packets", window_packets, 1, 1 << 40)?,
        window_ns_max: time("window", raw.window, minute)?,
        idle_ns_max: time("idle", raw.idle, second)?,
        path_delay_ns_max,
        rows_max: within("measurement.rows", rows, 1, 1 << 16)?,
        row_ns_max: time("row", raw.row, minute)?,
        windows: windows::plan(switch, path_delay_ns_max)?,
    })
}

/// Three full queues at the slowest fabric link, each polled as late as the slack allows.
fn path_delay(queue: &QueueConfig, ports: &[PortConfig]) -> Time {
    let is_fabric = |port: &&PortConfig| port.kind != PortKind::Host;
    let slowest = ports
        .iter()
        .filter(is_fabric)
        .map(|port| port.rate_bps)
        .min()
        .unwrap_or(1);
    let bits = 8 * (queue.limit_bytes + u64::from(largest_frame(ports)));
    let queue_ns = (u128::from(bits) * 1_000_000_000).div_ceil(u128::from(slowest.max(1)));
    // An hour is the most that the key allows.
    let queue_ns = queue_ns.min(1_000_000_000_000) as u64;
    Time::new(3 * (queue_ns + queue.slack_ns))
}

/// `ring_bytes`: what frames of the devices' rings need of a buffer, beside the headroom.
pub(super) fn eal(
    raw: &raw::Eal,
    ports: &[PortConfig],
    ring_bytes: u32,
) -> Result<EalSpec, ConfigError> {
    let need = u64::from(largest_frame(ports)) + HEADROOM_BYTES;
    let of_ring = u64::from(ring_bytes) + HEADROOM_BYTES;
    // A default buffer of DPDK holds 2,048 bytes and the headroom; cache lines beyond that.
    let default = need.max(of_ring).max(2048 + HEADROOM_BYTES);
    let default = default.next_multiple_of(64);
    let buffer = raw.buffer.unwrap_or(Bytes::new(default)).bytes();
    if (need..of_ring).contains(&buffer) {
        let message = format!(
            "{buffer} bytes hold no frame of a device's ring (framesz) and the headroom of \
             {HEADROOM_BYTES}; give {of_ring} or more, or leave it out"
        );
        return Err(ConfigError::new("eal.buffer", message));
    }
    if buffer < need {
        let message = format!(
            "{buffer} bytes hold no frame of {} and the headroom of {HEADROOM_BYTES}; give {need} \
             or more, or lower mtu",
            largest_frame(ports)
        );
        return Err(ConfigError::new("eal.buffer", message));
    }
    let buffer_bytes = within("eal.buffer", buffer, need, 65_472)? as u32;
    let size = raw.size.unwrap_or(Bytes::new(256 << 20));
    let size = within("eal.size", size, Bytes::new(64 << 20), Bytes::new(1 << 40))?;
    let derived = [
        "--vdev",
        "--allow",
        "-a",
        "--no-pci",
        "--file-prefix",
        "--no-huge",
        "--in-memory",
        "-m",
    ];
    for (index, argument) in raw.arguments.iter().enumerate() {
        let name = argument.split('=').next().unwrap_or_default();
        if derived.contains(&name) {
            let message = format!(
                "\"{argument}\" is derived from other keys; take it out, and set device of the \
                 ports, name, eal.memory or eal.size"
            );
            return Err(ConfigError::new(format!("eal.arguments[{index}]"), message));
        }
    }
    let lcores = lcores(raw)?;
    Ok(EalSpec {
        memory: raw.memory.unwrap_or(Memory::Auto),
        size,
        buffer_bytes,
        idle: raw.idle.unwrap_or(Idle::Poll),
        lcores,
        cpus: raw.cpus.clone(),
        buffers: raw.buffers,
        arguments: raw.arguments.clone(),
    })
}

/// Where metrics are asked for.
pub(crate) fn metrics(raw: &raw::Metrics) -> Result<Option<std::net::SocketAddr>, ConfigError> {
    let Some(text) = raw.listen.as_deref() else {
        return Ok(None);
    };
    match text.parse() {
        Ok(address) => Ok(Some(address)),
        Err(_) => {
            let message = format!(
                "\"{text}\" is no address with a port; write it like 127.0.0.1:9111 (this machine \
                 alone) or 0.0.0.0:9111 (everybody who reaches it)"
            );
            Err(ConfigError::new("metrics.listen", message))
        }
    }
}

/// The number of poll loops; a list of CPUs tells it as well.
fn lcores(raw: &raw::Eal) -> Result<Lcores, ConfigError> {
    for (index, cpu) in raw.cpus.iter().enumerate() {
        if raw.cpus[..index].contains(cpu) {
            let message = format!("CPU {cpu} is listed twice; each poll loop needs its own");
            return Err(ConfigError::new(format!("eal.cpus[{index}]"), message));
        }
    }
    let listed = raw.cpus.len();
    match raw.lcores {
        None if listed == 0 => Ok(Lcores::Count(1)),
        None if listed <= usize::from(LCORES_MAX) => Ok(Lcores::Count(listed as u16)),
        None => {
            let message = format!("{listed} CPUs are more than {LCORES_MAX} lcores; list fewer");
            Err(ConfigError::new("eal.cpus", message))
        }
        Some(Lcores::Count(count)) if listed != 0 && listed != usize::from(count) => {
            let message = format!(
                "{listed} CPUs for {count} lcores; list one for each, or leave eal.lcores out"
            );
            Err(ConfigError::new("eal.cpus", message))
        }
        Some(lcores) => Ok(lcores),
    }
}
