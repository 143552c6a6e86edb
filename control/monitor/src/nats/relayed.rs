//! What a relay has done, and its metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::watch;

use super::Line;
use crate::shared::now;

/// What it has done, of all switches together.
#[derive(Debug, Default)]
pub struct Relayed {
    /// Verdicts that the server has acknowledged, repeated ones included.
    pub verdicts: AtomicU64,
    /// Messages that they came in.
    pub messages: AtomicU64,
    /// Messages that had to be sent again.
    pub retries: AtomicU64,
    /// Verdicts that a switch no longer had before they could be sent.
    pub missed: AtomicU64,
    switches: Mutex<BTreeMap<PathBuf, Heard>>,
}

/// One switch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// Whether it answers.
    pub(super) is_connected: bool,
    /// When the oldest of the verdicts was told that the server has not acknowledged, in nanoseconds since 1970.
    pub(super) waits_since_ns: Option<u64>,
}

impl Relayed {
    /// Changes what is known of a switch.
    pub(super) fn switch(&self, path: &Path, change: impl FnOnce(&mut Heard)) {
        let mut switches = self.switches.lock().unwrap_or_else(PoisonError::into_inner);
        change(switches.entry(path.to_owned()).or_default());
    }

    /// Forgets a switch.
    pub(super) fn forget(&self, path: &Path) {
        let mut switches = self.switches.lock().unwrap_or_else(PoisonError::into_inner);
        switches.remove(path);
    }

    fn switches(&self) -> Vec<Heard> {
        let switches = self.switches.lock().unwrap_or_else(PoisonError::into_inner);
        switches.values().copied().collect()
    }

    /// How old the oldest verdict is that was read and has not been acknowledged, in seconds; 0 without one.
    fn lag_s(&self, now_ns: u64) -> f64 {
        let switches = self.switches();
        let oldest = switches.iter().filter_map(|heard| heard.waits_since_ns);
        oldest
            .min()
            .map_or(0.0, |since| now_ns.saturating_sub(since) as f64 / 1e9)
    }
}

/// The metrics of a relay, over a connection like this.
pub(super) fn registry(relayed: Arc<Relayed>, line: watch::Receiver<Line>) -> Registry {
    let mut registry = Registry::with_prefix("spraycheck_relay");
    registry.register_collector(Box::new(Collect { relayed, line }));
    registry
}

#[derive(Debug)]
struct Collect {
    relayed: Arc<Relayed>,
    line: watch::Receiver<Line>,
}

/// A family of one label: name, help, label, and a number for each of its values.
type Family = (
    &'static str,
    &'static str,
    &'static str,
    [(&'static str, u64); 2],
);

impl Collector for Collect {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let relayed = &*self.relayed;
        let (switches, line) = (relayed.switches(), self.line.borrow().clone());
        let connected = switches.iter().filter(|heard| heard.is_connected).count() as u64;
        let away = switches.len() as u64 - connected;
        let counters: [Family; 2] = [
            (
                "verdicts",
                "Verdicts that the server has acknowledged, and those that a switch no longer had before they could be sent",
                "fate",
                [
                    ("sent", of(&relayed.verdicts)),
                    ("missed", of(&relayed.missed)),
                ],
            ),
            (
                "messages",
                "Messages that the server has acknowledged, and attempts that failed and were made again",
                "fate",
                [
                    ("sent", of(&relayed.messages)),
                    ("retried", of(&relayed.retries)),
                ],
            ),
        ];
        for (name, help, label, rows) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (value, number) in rows {
                ConstCounter::new(number).encode(family.encode_family(&[(label, value)])?)?;
            }
        }
        let help = "How often the connection to the server was lost";
        let lost = encoder.encode_descriptor("server_lost", help, None, MetricType::Counter)?;
        ConstCounter::new(line.lost).encode(lost)?;
        let help = "Whether the server answers";
        let up = encoder.encode_descriptor("server_up", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::from(line.is_up)).encode(up)?;
        let help = "Switches that are heard";
        let mut family = encoder.encode_descriptor("sources", help, None, MetricType::Gauge)?;
        for (state, number) in [("connected", connected), ("away", away)] {
            let gauge = ConstGauge::new(number as i64);
            gauge.encode(family.encode_family(&[("state", state)])?)?;
        }
        let help =
            "Age of the oldest verdict that was read and that the server has not acknowledged";
        let lag =
            encoder.encode_descriptor("lag", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        ConstGauge::new(relayed.lag_s(now().0)).encode(lag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is sent, missed, tried again and late is in the metrics, of all switches together; one that has gone is not.
    #[test]
    fn what_it_has_done_is_told() {
        let relayed = Arc::new(Relayed::default());
        let (line, seen) = watch::channel(Line::default());
        line.send_modify(|line| (line.is_up, line.lost) = (true, 2));
        relayed.verdicts.store(40, Ordering::Relaxed);
        relayed.messages.store(7, Ordering::Relaxed);
        relayed.retries.store(3, Ordering::Relaxed);
        relayed.missed.store(5, Ordering::Relaxed);
        let (one, two) = (Path::new("leaf1.sock"), Path::new("leaf2.sock"));
        relayed.switch(one, |heard| {
            (heard.is_connected, heard.waits_since_ns) = (true, Some(3_000_000_000));
        });
        relayed.switch(two, |heard| heard.waits_since_ns = Some(1_000_000_000));
        assert_eq!(relayed.lag_s(6_500_000_000), 5.5);
        let registry = registry(Arc::clone(&relayed), seen);
        let text = agent::metrics::text(&registry);
        for line in [
            "spraycheck_relay_verdicts_total{fate=\"sent\"} 40",
            "spraycheck_relay_verdicts_total{fate=\"missed\"} 5",
            "spraycheck_relay_messages_total{fate=\"retried\"} 3",
            "spraycheck_relay_server_lost_total 2",
            "spraycheck_relay_server_up 1",
            "spraycheck_relay_sources{state=\"away\"} 1",
            "# UNIT spraycheck_relay_lag_seconds seconds",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        relayed.forget(two);
        assert_eq!(relayed.lag_s(6_500_000_000), 3.5);
        relayed.switch(one, |heard| heard.waits_since_ns = None);
        assert_eq!(relayed.lag_s(6_500_000_000), 0.0);
    }
}
