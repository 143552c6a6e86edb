//! How fast a connection may send: not limited, a fixed rate, or DCQCN.
//!
//! DCQCN (Zhu et al., SIGCOMM 2015, section 5): a notification cuts the rate by half of alpha, an
//! estimate of how much of the traffic is marked; without notifications the rate comes back to
//! where it was in halving steps (fast recovery), and goes beyond it by fixed ones. A timer and a
//! byte counter make the steps. Time is looked at when something is sent or a notification comes:
//! what timers would have done until then is done at once. Whole numbers throughout, so that every
//! machine finds the same rates.

mod presets;

pub use presets::{DcqcnConfig, DcqcnPreset};

use crate::pacer::Pacer;
use crate::units::BitRate;

/// One, in the fixed point of alpha.
const ONE: u64 = 1 << 30;

/// How fast each connection may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateControl {
    /// As fast as the link.
    Off,
    /// So fast, whatever comes.
    Fixed(BitRate),
    /// By congestion notifications, which a receiver with the same setting sends.
    Dcqcn(DcqcnConfig),
}

impl RateControl {
    /// Names a parameter that cannot work: its name, value, and what it must be.
    pub(crate) fn check(&self) -> Result<(), (&'static str, u64, &'static str)> {
        let RateControl::Dcqcn(c) = self else {
            return Ok(());
        };
        if c.gain_per_1024 == 0 || c.gain_per_1024 > 1024 {
            return Err(("dcqcn gain_per_1024", c.gain_per_1024, "1 to 1024"));
        }
        if c.alpha_initial_per_1024 > 1024 {
            let key = "dcqcn alpha_initial_per_1024";
            return Err((key, c.alpha_initial_per_1024, "0 to 1024"));
        }
        for (key, value) in [
            ("dcqcn alpha_timer_ns", c.alpha_timer_ns),
            ("dcqcn increase_timer_ns", c.increase_timer_ns),
        ] {
            if value == 0 || value > 1 << 40 {
                return Err((key, value, "1 ns to 2^40 ns"));
            }
        }
        Ok(())
    }
}

/// What a connection may send, and when next.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// Whether the rate is below the link's.
    is_limited: bool,
    pacer: Pacer,
    dcqcn: Option<Dcqcn>,
}

impl Limiter {
    pub(crate) fn new(control: &RateControl, link: BitRate, slack_ns: u64) -> Limiter {
        let (rate, dcqcn) = match control {
            RateControl::Off => (link, None),
            RateControl::Fixed(rate) => (*rate, None),
            RateControl::Dcqcn(config) => (link, Some(Dcqcn::new(*config, link))),
        };
        Limiter {
            is_limited: rate < link,
            pacer: Pacer::new(rate, slack_ns),
            dcqcn,
        }
    }

    /// Whether the rate is below the link's.
    #[inline]
    pub(crate) fn limits(&self) -> bool {
        self.is_limited
    }

    /// When the next data packet may go; 0 when the link alone says so.
    #[inline]
    pub(crate) fn ready_ns(&self) -> u64 {
        if self.is_limited {
            self.pacer.ready_ns()
        } else {
            0
        }
    }

    /// A data packet of so many bytes on the link goes at `now`.
    #[inline]
    pub(crate) fn sent(&mut self, now: u64, bytes: u32) {
        if !self.is_limited {
            return;
        }
        if let Some(dcqcn) = &mut self.dcqcn {
            let before = dcqcn.rate;
            dcqcn.sent(now, bytes);
            self.follow(before);
        }
        self.pacer.spend(now, bytes);
    }

    /// A congestion notification has come; true when it cuts the rate.
    pub(crate) fn notified(&mut self, now: u64) -> bool {
        let Some(dcqcn) = &mut self.dcqcn else {
            return false;
        };
        let before = dcqcn.rate;
        let cuts = dcqcn.notified(now);
        self.follow(before);
        cuts
    }

    fn follow(&mut self, before: u64) {
        let Some(dcqcn) = &self.dcqcn else {
            return;
        };
        if dcqcn.rate != before {
            self.is_limited = dcqcn.rate < dcqcn.link;
            self.pacer.set_rate(dcqcn.rate);
        }
    }

    /// Bits per second that the connection may send at, as of the last packet or notification.
    pub(crate) fn rate(&self) -> u64 {
        self.pacer.rate()
    }
}

/// The reaction point of one connection. Rates are bits per second.
#[derive(Debug)]
struct Dcqcn {
    config: DcqcnConfig,
    link: u64,
    rate: u64,
    target: u64,
    /// In units of 1 / [`ONE`].
    alpha: u64,
    /// When alpha was last brought up to date, the rate last cut, and the timer last expired.
    alpha_ns: u64,
    cut_ns: Option<u64>,
    timer_ns: u64,
    bytes: u64,
    /// Expiries of timer and byte counter since the last cut.
    timer_stage: u32,
    byte_stage: u32,
}

impl Dcqcn {
    fn new(config: DcqcnConfig, link: BitRate) -> Dcqcn {
        let link = link.bits_per_second();
        Dcqcn {
            config,
            link,
            rate: link,
            target: link,
            alpha: config.alpha_initial_per_1024 * (ONE >> 10),
            alpha_ns: 0,
            cut_ns: None,
            timer_ns: 0,
            bytes: 0,
            timer_stage: 0,
            byte_stage: 0,
        }
    }

    fn gain(&self) -> u64 {
        self.config.gain_per_1024 * (ONE >> 10)
    }

    /// A notification: cut, unless that was done within the gap.
    fn notified(&mut self, now: u64) -> bool {
        self.pass(now);
        if self
            .cut_ns
            .is_some_and(|at| now < at.saturating_add(self.config.cut_gap_ns))
        {
            return false;
        }
        self.decay_alpha(now);
        self.target = self.rate;
        let cut = (u128::from(self.rate) * u128::from(self.alpha / 2)) >> 30;
        let least = self.config.rate_min_bps.min(self.link);
        self.rate = (self.rate - cut as u64).max(least);
        self.alpha = (self.alpha - scale(self.alpha, self.gain())) + self.gain();
        self.alpha_ns = now;
        self.cut_ns = Some(now);
        self.timer_ns = now;
        (self.bytes, self.timer_stage, self.byte_stage) = (0, 0, 0);
        true
    }

    /// What the alpha timer has done until now: alpha times (1 - g) each time it expired.
    fn decay_alpha(&mut self, now: u64) {
        if self.cut_ns.is_none() {
            return;
        }
        let mut times = now.saturating_sub(self.alpha_ns) / self.config.alpha_timer_ns;
        self.alpha_ns += times * self.config.alpha_timer_ns;
        let mut factor = ONE - self.gain();
        while times > 0 && self.alpha > 0 {
            if times & 1 == 1 {
                self.alpha = scale(self.alpha, factor);
            }
            factor = scale(factor, factor);
            times >>= 1;
        }
    }

    /// Steps of the timer until now.
    fn pass(&mut self, now: u64) {
        while self.rate < self.link && now >= self.timer_ns + self.config.increase_timer_ns {
            self.timer_ns += self.config.increase_timer_ns;
            self.timer_stage += 1;
            self.increase();
        }
    }

    fn sent(&mut self, now: u64, bytes: u32) {
        self.pass(now);
        if self.config.byte_counter == 0 {
            return;
        }
        self.bytes += u64::from(bytes);
        if self.bytes >= self.config.byte_counter {
            self.bytes -= self.config.byte_counter;
            self.byte_stage += 1;
            self.increase();
        }
    }

    fn increase(&mut self) {
        let stages = self.config.fast_recovery_stages;
        let (least, most) = if self.config.byte_counter == 0 {
            (self.timer_stage, self.timer_stage)
        } else {
            (
                self.timer_stage.min(self.byte_stage),
                self.timer_stage.max(self.byte_stage),
            )
        };
        if least > stages {
            self.target += self.config.hyper_increase_bps;
        } else if most > stages {
            self.target += self.config.additive_increase_bps;
        }
        self.target = self.target.min(self.link);
        self.rate = (self.rate + self.target) / 2;
        // Halving alone would come within a bit per second of the target and stay there.
        if self.target - self.rate <= self.link >> 12 {
            self.rate = self.target;
        }
    }
}

/// A product in fixed point.
fn scale(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 30) as u64
}

#[cfg(test)]
mod tests;
