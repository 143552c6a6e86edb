//! What settings of a testbed must fulfil, each with the value and the cure.

use std::fmt;
use std::ops::RangeInclusive;

use detector::{LeafId, Link, SpineId};
use pipeline::fault::Fault;

use super::TestbedConfig;
use super::preset::STEP_MAX;
use crate::choice::{Announce, Dcqcn, Evidence, Mark, PathTest, Workload};
use crate::error::ConfigError;
use crate::fabric;
use crate::quantity::{Bytes, Rate, Time};

/// QPs of a whole testbed: each takes memory at both ends.
const QPS_MAX: u64 = 1 << 17;

/// Refuses a value outside its range.
fn within<T>(key: &str, value: T, range: RangeInclusive<T>) -> Result<(), ConfigError>
where
    T: PartialOrd + fmt::Display,
{
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    let message = format!("{value} is out of range; choose {least} to {most}");
    Err(ConfigError::new(key, message))
}

impl TestbedConfig {
    /// Refuses settings that cannot work, naming the first and what to do.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_size()?;
        self.check_traffic()?;
        self.check_measurement()?;
        self.check_links()
    }

    fn check_size(&self) -> Result<(), ConfigError> {
        within("leaves", self.leaves, 2..=128)?;
        within("spines", self.spines, 1..=128)?;
        within("hosts_per_leaf", self.hosts_per_leaf, 1..=64)?;
        let rates = Rate::new(1_000_000)..=Rate::new(1_000_000_000_000);
        within("link_rate", self.link_rate, rates.clone())?;
        within("host_rate", self.host_rate, rates)?;
        within("step", self.step, Time::new(100)..=STEP_MAX)?;
        within("burst", self.burst, 1..=64)?;
        within(
            "limit",
            self.limit,
            Time::new(1_000_000)..=Time::new(86_400_000_000_000),
        )?;
        within(
            "link_state",
            self.link_state,
            Time::new(1_000_000)..=Time::new(10_000_000_000),
        )?;
        within(
            "hold_down",
            self.hold_down,
            Time::new(0)..=Time::new(3_600_000_000_000),
        )?;
        self.check_ecn()?;
        let frame = Bytes::new(u64::from(fabric::frame_max_bytes(self)));
        if self.queue_limit < frame {
            let limit = self.queue_limit;
            let message = format!(
                "{limit} holds no whole frame of {frame} bytes (mtu {}); choose 64KiB or more",
                self.mtu
            );
            return Err(ConfigError::new("queue_limit", message));
        }
        within("queue_limit", self.queue_limit, frame..=Bytes::new(1 << 30))
    }

    /// Packets must be marked before they are dropped.
    fn check_ecn(&self) -> Result<(), ConfigError> {
        let rate = self.link_rate.max(self.host_rate).bits_per_second();
        let kmax = Bytes::new(fabric::ECN_DEFAULT.thresholds_bytes(rate).1);
        if !self.ecn || kmax <= self.queue_limit {
            return Ok(());
        }
        let message = format!(
            "at {} everything is marked from {kmax} of queue on, beyond queue_limit {}; raise \
             queue_limit, or leave ecn false",
            Rate::new(rate),
            self.queue_limit
        );
        Err(ConfigError::new("ecn", message))
    }

    fn check_traffic(&self) -> Result<(), ConfigError> {
        if !matches!(self.mtu, 256 | 512 | 1024 | 2048 | 4096) {
            let message = format!(
                "{} is no path MTU of RDMA; choose 256, 512, 1024, 2048 or 4096 (payload bytes, \
                 without headers)",
                self.mtu
            );
            return Err(ConfigError::new("mtu", message));
        }
        within("qps", self.qps, 1..=1024)?;
        within("iterations", self.iterations, 1..=1_000_000)?;
        within("window_packets", self.window_packets, 1..=4096)?;
        if self.bytes.bytes() < u64::from(self.qps) && self.workload != Workload::Idle {
            let message = format!(
                "{} cannot be split over {} QPs; give each QP a byte at least, or lower qps",
                self.bytes, self.qps
            );
            return Err(ConfigError::new("bytes", message));
        }
        self.check_hosts()?;
        within("bytes", self.bytes, Bytes::new(0)..=Bytes::new(1 << 40))?;
        let qps = self.connections() * u64::from(self.qps);
        if qps > QPS_MAX {
            let message = format!(
                "{} among {} hosts with {} QPs each are {qps} QPs, more than {QPS_MAX}; take \
                 fewer hosts or QPs, or another workload",
                self.workload,
                self.hosts(),
                self.qps
            );
            return Err(ConfigError::new("workload", message));
        }
        if matches!(self.message_port, 0 | packet::ROCE_PORT) {
            let message = format!(
                "{} is taken; choose another UDP port, such as {}",
                self.message_port,
                packet::message::DEFAULT_PORT
            );
            return Err(ConfigError::new("message_port", message));
        }
        Ok(())
    }

    /// What hosts do beside their workload, and its file.
    fn check_hosts(&self) -> Result<(), ConfigError> {
        if self.qp_rate.is_some() && self.dcqcn.is_some_and(|dcqcn| dcqcn != Dcqcn::Off) {
            let message = "a fixed rate and DCQCN exclude each other; leave one of qp_rate and \
                           dcqcn out";
            return Err(ConfigError::new("qp_rate", message));
        }
        if let Some(rate) = self.qp_rate {
            within("qp_rate", rate, Rate::new(1_000_000)..=self.host_rate)?;
        }
        let background = self.background.value();
        if !(0.0..=0.95).contains(&background) {
            let message = format!("{background} is out of range; choose 0 to 0.95");
            return Err(ConfigError::new("background", message));
        }
        match (self.workload, &self.flows) {
            (Workload::Trace, None) => {
                let message = "workload trace has no flows; name a CSV file of start, source, \
                               destination and bytes";
                Err(ConfigError::new("flows", message))
            }
            (workload, Some(file)) if workload != Workload::Trace => {
                let message = format!(
                    "{} is not looked at by workload {workload}; choose workload trace",
                    file.display()
                );
                Err(ConfigError::new("flows", message))
            }
            _ => Ok(()),
        }
    }

    /// How hosts heed congestion marks: as said, or as fits the switches.
    pub fn dcqcn(&self) -> Dcqcn {
        match self.dcqcn {
            Some(dcqcn) => dcqcn,
            None if self.ecn && self.qp_rate.is_none() => Dcqcn::Paper,
            None => Dcqcn::Off,
        }
    }

    fn check_measurement(&self) -> Result<(), ConfigError> {
        if self.is_paper() && self.announce != Announce::Host {
            let message = format!(
                "{} cannot be, for the paper's threshold needs the N that hosts announce; leave \
                 it host, or take preset default",
                self.announce
            );
            return Err(ConfigError::new("announce", message));
        }
        if self.test == PathTest::Sequential && self.evidence == Evidence::ReceiveOnly {
            let message = "sequential needs to know what was sent, and evidence receive-only \
                           does not say; leave it fixed, or take evidence source-counts or \
                           hop-counts";
            return Err(ConfigError::new("test", message));
        }
        if !matches!(self.counter_bits, 16 | 32) {
            let bits = self.counter_bits;
            let message = format!("{bits} is no size of a counter; choose 32, or the paper's 16");
            return Err(ConfigError::new("counter_bits", message));
        }
        if let Some(packets) = self.spine_packets {
            if self.is_paper() {
                let message = format!(
                    "{packets} cannot be, for the paper measures whole flows; leave it out, or \
                     take preset default"
                );
                return Err(ConfigError::new("spine_packets", message));
            }
            within("spine_packets", packets, 1..=1 << 26)?;
        }
        if self.is_paper() && self.evidence != Evidence::ReceiveOnly {
            let message = format!(
                "{} needs the closes that preset paper does not send; leave it receive-only, or \
                 take preset default with tie random and mark all (the paper's spraying)",
                self.evidence
            );
            return Err(ConfigError::new("evidence", message));
        }
        if self.is_paper() && self.mark != Mark::All {
            let message = "first is not the paper's protocol, whose windows count all copies; \
                           leave it all, or take preset default";
            return Err(ConfigError::new("mark", message));
        }
        if let Some(s) = self.sensitivity {
            if !(s > 0.0 && s <= 100.0) {
                let message = format!("{s} is out of range; choose above 0, to 100");
                return Err(ConfigError::new("sensitivity", message));
            }
            if self.evidence != Evidence::ReceiveOnly {
                let message = format!(
                    "{s} has no meaning with evidence {}, whose test is exact; leave it out, or \
                     take evidence receive-only",
                    self.evidence
                );
                return Err(ConfigError::new("sensitivity", message));
            }
        }
        let (p0, alpha) = (self.p0.value(), self.alpha.value());
        if !(p0 > 0.0 && p0 <= 0.1) {
            let message = format!("{p0} is out of range; choose above 0, to 0.1, like 2e-5");
            return Err(ConfigError::new("p0", message));
        }
        if !(1e-12..=0.5).contains(&alpha) {
            let message = format!("{alpha} is out of range; choose 1e-12 to 0.5, like 0.001");
            return Err(ConfigError::new("alpha", message));
        }
        if let Some(p_min) = self.p_min {
            within("p_min", p_min, 1..=1 << 26)?;
        }
        Ok(())
    }

    fn check_links(&self) -> Result<(), ConfigError> {
        for fault in &self.faults.0 {
            self.check_link("faults", fault.link)?;
            if let Fault::Delay { nanos } = fault.fault {
                let most = Time::new(1_000_000_000);
                if Time::new(nanos) > most {
                    let message = format!("{fault} is out of range; choose a delay up to {most}");
                    return Err(ConfigError::new("faults", message));
                }
            }
        }
        for &link in &self.disabled.0 {
            self.check_link("disabled", link)?;
        }
        for source in (0..self.leaves).map(LeafId) {
            for destination in (0..self.leaves).map(LeafId).filter(|leaf| *leaf != source) {
                let mut spines = (0..self.spines).map(SpineId);
                let is_used = |link: Link| !self.disabled.0.contains(&link);
                if !self.disabled.0.is_empty()
                    && !spines.any(|spine| {
                        is_used(Link::Up {
                            leaf: source,
                            spine,
                        }) && is_used(Link::Down {
                            spine,
                            leaf: destination,
                        })
                    })
                {
                    let message = format!(
                        "no path is left from {source} to {destination}; leave at least one \
                         spine with both of its links"
                    );
                    return Err(ConfigError::new("disabled", message));
                }
            }
        }
        Ok(())
    }

    fn check_link(&self, key: &str, link: Link) -> Result<(), ConfigError> {
        if link.leaf().0 < self.leaves && link.spine().0 < self.spines {
            return Ok(());
        }
        let message = format!(
            "{link} is no link of this fabric; its leaves are leaf0 to leaf{}, its spines spine0 \
             to spine{}",
            self.leaves - 1,
            self.spines - 1
        );
        Err(ConfigError::new(key, message))
    }

    /// Hosts of the fabric.
    pub fn hosts(&self) -> u64 {
        u64::from(self.leaves) * u64::from(self.hosts_per_leaf)
    }

    /// Pairs of hosts that are connected, at most; each has [`TestbedConfig::qps`] QPs.
    pub fn connections(&self) -> u64 {
        let hosts = self.hosts();
        match self.workload {
            Workload::AllToAll => hosts * (hosts - 1),
            Workload::RingAllreduce | Workload::Permutation | Workload::Incast => hosts,
            Workload::Pairs => hosts,
            // Any host may send to any other.
            Workload::Trace => hosts * (hosts - 1),
            Workload::Idle => 0,
        }
    }
}
