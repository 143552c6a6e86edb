//! What the monitor counts, as OpenMetrics. Series are those of states, kinds and accused links, whatever
//! switches send; how often a link was named is in the history.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::core::Kind;
use crate::shared::Shared;
use crate::standing::State;

/// Accused links with series of their own; more are counted by state only.
const LINKS_MAX: usize = 256;

/// All metrics as OpenMetrics text.
pub fn text(shared: &Arc<Shared>) -> String {
    let mut registry = Registry::with_prefix("spraycheck_monitor");
    registry.register_collector(Box::new(Collect(Arc::clone(shared))));
    agent::metrics::text(&registry)
}

#[derive(Debug)]
struct Collect(Arc<Shared>);

/// A family of one label: name, help, label, and a number for each of its values.
type Family<'a> = (&'a str, &'a str, &'a str, Vec<(&'a str, u64)>);

impl Collector for Collect {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let summary = self.0.summary();
        let counts = summary.counts;
        let other = counts.paths.saturating_sub(counts.failed + counts.void);
        let sources = self.0.sources();
        let connected = sources.iter().filter(|source| source.connected).count() as u64;
        let sum = |of: fn(&crate::shared::Source) -> u64| sources.iter().map(of).sum::<u64>();
        let told = Kind::ALL.iter().zip(&self.0.told);
        let counters: [Family<'_>; 4] = [
            (
                "verdicts",
                "Verdicts taken since the start",
                "fate",
                vec![("taken", counts.verdicts), ("ahead", counts.ahead)],
            ),
            (
                "paths",
                "Path tests, by what they came to",
                "outcome",
                vec![
                    ("failed", counts.failed),
                    ("void", counts.void),
                    ("other", other),
                ],
            ),
            (
                "verdicts_lost",
                "Verdicts that a switch no longer had, or that were none of this fabric",
                "why",
                vec![
                    ("missed", sum(|s| s.missed)),
                    ("refused", sum(|s| s.refused)),
                ],
            ),
            (
                "events",
                "Changes of links that were told",
                "kind",
                told.map(|(kind, told)| (kind.name(), told.load(Ordering::Relaxed)))
                    .collect(),
            ),
        ];
        for (name, help, label, rows) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (value, number) in rows {
                ConstCounter::new(number).encode(family.encode_family(&[(label, value)])?)?;
            }
        }
        let outlets = self.0.outlets();
        let mut events = encoder.encode_descriptor(
            "outlet_events",
            "Events to those who are told: taken, refused for good, and attempts that failed",
            None,
            MetricType::Counter,
        )?;
        for (name, outlet) in &outlets {
            let fates = [
                ("delivered", outlet.delivered),
                ("refused", outlet.refused),
                ("failed", outlet.failed),
            ];
            for (fate, number) in fates {
                let labels = [("outlet", *name), ("fate", fate)];
                ConstCounter::new(number).encode(events.encode_family(&labels)?)?;
            }
        }
        let gauges: [Family<'_>; 3] = [
            (
                "links",
                "Links by state",
                "state",
                summary
                    .states
                    .iter()
                    .map(|(state, n)| (*state, *n))
                    .collect(),
            ),
            (
                "sources",
                "Switches that are heard",
                "state",
                vec![
                    ("connected", connected),
                    ("away", sources.len() as u64 - connected),
                ],
            ),
            (
                "intake",
                "Verdicts that wait; whether the history cannot be written",
                "state",
                vec![
                    ("waiting", summary.waiting as u64),
                    ("failing", u64::from(summary.trouble.is_some())),
                ],
            ),
        ];
        for (name, help, label, rows) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (value, number) in rows {
                let gauge = ConstGauge::new(number as i64);
                gauge.encode(family.encode_family(&[(label, value)])?)?;
            }
        }
        let help = "Bytes of the history in use";
        let history =
            encoder.encode_descriptor("history", help, Some(&Unit::Bytes), MetricType::Gauge)?;
        ConstGauge::new(summary.history_bytes as i64).encode(history)?;
        let help = "Loss rate of accused links";
        let mut family = encoder.encode_descriptor(
            "link_drop_rate",
            help,
            Some(&Unit::Ratios),
            MetricType::Gauge,
        )?;
        let links = self.0.links();
        let is_accused = |state| matches!(state, State::Convicted | State::Suspect);
        for row in links
            .rows()
            .filter(|row| is_accused(row.state))
            .take(LINKS_MAX)
        {
            let link = row.link.to_string();
            let labels = [("link", link.as_str()), ("state", row.state.name())];
            ConstGauge::new(row.drop_rate).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
