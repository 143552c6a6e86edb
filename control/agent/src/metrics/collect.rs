//! One scrape: each family, with one series for each switch, port, queue, reason or device.

use std::fmt;
use std::sync::atomic::Ordering;

use pipeline::{DropReason, Note};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric, MetricEncoder,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::{Found, Source};
use crate::published::{PortSnapshot, sum_counters, sum_ports};

/// Driver counters of one device that are shown at most: some drivers have one for each queue.
const DRIVER_COUNTERS_MAX: usize = 256;

/// Collects from a source.
#[derive(Debug)]
pub(super) struct Collect {
    pub(super) source: Source,
    pub(super) started_s: f64,
}

/// One family while it is written.
struct Family<'a>(MetricEncoder<'a>);

impl Family<'_> {
    fn counter<const N: usize>(
        &mut self,
        labels: [(&str, &str); N],
        value: impl EncodeCounterValue,
    ) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_family(&labels)?)
    }

    fn gauge<const N: usize>(
        &mut self,
        labels: [(&str, &str); N],
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        ConstGauge::new(value).encode(self.0.encode_family(&labels)?)
    }
}

/// A switch's ports: its name, and each port's name and state.
type SwitchPorts<'a> = (&'a str, Vec<(&'a str, PortSnapshot)>);

impl Collector for Collect {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let shared = &self.source.shared;
        let named = self.source.switches.iter().zip(shared.switches());
        let ports: Vec<SwitchPorts<'_>> = named
            .map(|((switch, names), parts)| {
                let ports = names.iter().map(String::as_str).zip(sum_ports(parts));
                (switch.as_str(), ports.collect())
            })
            .collect();
        self.process(encoder)?;
        interfaces(encoder, &ports)?;
        queues(encoder, &ports)?;
        self.switches(encoder)?;
        self.lcores(encoder)?;
        self.devices(encoder)?;
        findings(encoder, &shared.findings.get())
    }
}

/// Begins a family.
fn family<'s>(
    encoder: &'s mut DescriptorEncoder<'_>,
    name: &'s str,
    help: &'s str,
    unit: Option<&'s Unit>,
    kind: MetricType,
) -> Result<Family<'s>, fmt::Error> {
    Ok(Family(encoder.encode_descriptor(name, help, unit, kind)?))
}

/// A number of a port: the family's name, its help, and where the number is.
type PortNumber = (&'static str, &'static str, fn(&PortSnapshot) -> u64);

/// openconfig-interfaces, `interfaces/interface/state/counters`.
const INTERFACE: [PortNumber; 5] = [
    ("interface_in_pkts", "Packets received by a port", |p| {
        p.counters.rx_packets
    }),
    (
        "interface_in_octets",
        "Bytes received by a port, without FCS",
        |p| p.counters.rx_bytes,
    ),
    ("interface_out_pkts", "Packets sent by a port", |p| {
        p.counters.tx_packets
    }),
    (
        "interface_out_octets",
        "Bytes sent by a port, without FCS",
        |p| p.counters.tx_bytes,
    ),
    (
        "interface_out_discards",
        "Packets that a port's queues had no room for, or that were queued when its link went down",
        |p| p.counters.tail_drops.iter().sum::<u64>() + p.counters.flushed,
    ),
];

fn interfaces(encoder: &mut DescriptorEncoder<'_>, all: &[SwitchPorts<'_>]) -> fmt::Result {
    for (name, help, number) in INTERFACE {
        let mut family = family(encoder, name, help, None, MetricType::Counter)?;
        for (switch, ports) in all {
            for (port, snapshot) in ports {
                family.counter([("switch", *switch), ("port", *port)], number(snapshot))?;
            }
        }
    }
    let help = "Whether a port's link is up (1) or down (0)";
    let mut family = family(
        encoder,
        "interface_oper_status",
        help,
        None,
        MetricType::Gauge,
    )?;
    for (switch, ports) in all {
        for (port, snapshot) in ports {
            family.gauge(
                [("switch", *switch), ("port", *port)],
                i64::from(snapshot.is_up),
            )?;
        }
    }
    Ok(())
}

/// A number of each queue of a port: the family's name, its help, and where the numbers are.
type QueueNumbers = (&'static str, &'static str, fn(&PortSnapshot) -> [u64; 8]);

/// openconfig-qos, `qos/interfaces/interface/output/queues/queue/state`.
fn queues(encoder: &mut DescriptorEncoder<'_>, all: &[SwitchPorts<'_>]) -> fmt::Result {
    const QUEUES: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let bytes = Some(&Unit::Bytes);
    let help = "Bytes in a queue";
    let mut len = family(encoder, "queue_len", help, bytes, MetricType::Gauge)?;
    for (switch, ports) in all {
        for (port, snapshot) in ports {
            for (queue, depth) in QUEUES.iter().zip(snapshot.queue_bytes) {
                len.gauge(
                    [("switch", *switch), ("port", *port), ("queue", queue)],
                    depth,
                )?;
            }
        }
    }
    let help = "Most bytes that all queues of a port held at once";
    let mut most = family(
        encoder,
        "queue_max_queue_len",
        help,
        bytes,
        MetricType::Gauge,
    )?;
    for (switch, ports) in all {
        for (port, snapshot) in ports {
            let labels = [("switch", *switch), ("port", *port)];
            most.gauge(labels, snapshot.counters.backlog_bytes_max)?;
        }
    }
    let of_queue: [QueueNumbers; 2] = [
        (
            "queue_dropped_pkts",
            "Packets that a queue had no room for",
            |p| p.counters.tail_drops,
        ),
        (
            "queue_starved",
            "How often a queue with packets was not served for long",
            |p| p.counters.starved,
        ),
    ];
    for (name, help, numbers) in of_queue {
        let mut family = family(encoder, name, help, None, MetricType::Counter)?;
        for (switch, ports) in all {
            for (port, snapshot) in ports {
                for (queue, number) in QUEUES.iter().zip(numbers(snapshot)) {
                    family.counter(
                        [("switch", *switch), ("port", *port), ("queue", queue)],
                        number,
                    )?;
                }
            }
        }
    }
    Ok(())
}

impl Collect {
    fn process(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let seconds = Some(&Unit::Seconds);
        let help = "When the process started, since 1970: counters began at zero then";
        family(
            encoder,
            "process_start_time",
            help,
            seconds,
            MetricType::Gauge,
        )?
        .gauge([], self.started_s)?;
        let mut builds = family(encoder, "build", "What runs", None, MetricType::Info)?;
        for (part, version) in &self.source.versions {
            let labels = [("part", part.as_str()), ("version", version.as_str())];
            builds.0.encode_info(&labels)?;
        }
        Ok(())
    }

    /// Every packet's fate: received + generated = sent + consumed + dropped + queued.
    fn switches(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let named = self
            .source
            .switches
            .iter()
            .zip(self.source.shared.switches());
        let all: Vec<_> = named
            .map(|((name, _), parts)| (name.as_str(), sum_counters(parts)))
            .collect();
        let help = "Packets of a switch: received, generated, sent and consumed by it";
        let mut fates = family(encoder, "packets", help, None, MetricType::Counter)?;
        for (switch, c) in &all {
            for (fate, packets) in [
                ("received", c.rx),
                ("generated", c.generated),
                ("sent", c.tx),
                ("consumed", c.consumed),
            ] {
                fates.counter([("switch", *switch), ("fate", fate)], packets)?;
            }
        }
        let help = "Packets that are queued in a switch";
        let mut queued = family(encoder, "queued_packets", help, None, MetricType::Gauge)?;
        for (switch, c) in &all {
            queued.gauge([("switch", *switch)], c.queued)?;
        }
        let help = "Packets that a switch has dropped, by reason (spraycheck show drops)";
        let mut drops = family(encoder, "drops", help, None, MetricType::Counter)?;
        for (switch, c) in &all {
            for &reason in DropReason::ALL {
                drops.counter(
                    [("switch", *switch), ("reason", reason.name())],
                    c.dropped(reason),
                )?;
            }
        }
        let help = "Packets that were remarkable and not dropped, by what they were";
        let mut notes = family(encoder, "notes", help, None, MetricType::Counter)?;
        for (switch, c) in &all {
            for &note in Note::ALL {
                notes.counter([("switch", *switch), ("note", note.name())], c.noted(note))?;
            }
        }
        Ok(())
    }

    fn lcores(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let statuses = &self.source.shared.lcores;
        let help = "Time of a poll loop: busy in rounds that moved a packet, idle in others";
        let seconds = Some(&Unit::Seconds);
        let mut times = family(encoder, "lcore", help, seconds, MetricType::Counter)?;
        for (index, status) in statuses.iter().enumerate() {
            let lcore = (index + 1).to_string();
            let times_ns = [("busy", &status.busy_ns), ("idle", &status.idle_ns)];
            // A testbed's loop has a time of its own and tells none.
            if times_ns
                .iter()
                .all(|(_, ns)| ns.load(Ordering::Relaxed) == 0)
            {
                continue;
            }
            for (state, ns) in times_ns {
                let s = ns.load(Ordering::Relaxed) as f64 / 1e9;
                times.counter([("lcore", &lcore), ("state", state)], s)?;
            }
        }
        let help = "Rounds of a poll loop: busy ones moved a packet";
        let mut rounds = family(encoder, "lcore_rounds", help, None, MetricType::Counter)?;
        for (index, status) in statuses.iter().enumerate() {
            let lcore = (index + 1).to_string();
            let busy = status.busy_rounds.load(Ordering::Relaxed);
            let all = status.rounds.load(Ordering::Relaxed);
            for (state, count) in [("busy", busy), ("idle", all.saturating_sub(busy))] {
                rounds.counter([("lcore", &lcore), ("state", state)], count)?;
            }
        }
        Ok(())
    }

    fn devices(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help =
            "Packets that a device's ports did not get, by what they lacked; what faults took";
        let mut own = family(encoder, "device_drops", help, None, MetricType::Counter)?;
        for (device, counter, packets) in self.source.shared.devices.read() {
            own.counter([("device", &device), ("counter", counter)], packets)?;
        }
        let help = "What a device's driver counts (DPDK's xstats)";
        let mut drivers = family(encoder, "dpdk_xstats", help, None, MetricType::Counter)?;
        let (mut device_now, mut shown) = (String::new(), 0);
        for (device, counter, value) in (self.source.drivers)() {
            if device != device_now {
                (device_now, shown) = (device.clone(), 0);
            }
            shown += 1;
            if shown <= DRIVER_COUNTERS_MAX {
                drivers.counter([("device", &device), ("counter", &counter)], value)?;
            }
        }
        Ok(())
    }
}

fn findings(encoder: &mut DescriptorEncoder<'_>, found: &Found) -> fmt::Result {
    let help = "Measured windows that have ended";
    family(encoder, "windows", help, None, MetricType::Counter)?.counter([], found.windows)?;
    let help = "Tests of paths, by outcome";
    let mut tests = family(encoder, "path_tests", help, None, MetricType::Counter)?;
    for &(state, count) in &found.tests {
        tests.counter([("state", state)], count)?;
    }
    let help = "Loss rate of each link that is named; links that are not named have no series";
    let mut links = family(
        encoder,
        "link_drop_rate",
        help,
        Some(&Unit::Ratios),
        MetricType::Gauge,
    )?;
    for (link, state, rate) in &found.links {
        links.gauge([("link", link.as_str()), ("state", state)], *rate)?;
    }
    let help = "Commands of control that an lcore's full ring refused";
    family(encoder, "commands_refused", help, None, MetricType::Counter)?
        .counter([], found.commands_refused)
}
