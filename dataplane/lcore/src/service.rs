//! What a service manager is told (systemd's sd_notify): that the switch runs, that it is ending, and,
//! with a watchdog, that its poll loops still turn.
//!
//! Called by the main thread. Without a manager (no `NOTIFY_SOCKET`) nothing is done.

use std::time::{Duration, Instant};

use agent::published::LcoreStatus;
use sd_notify::NotifyState;
use std::sync::atomic::Ordering;

/// The manager, if there is one.
#[derive(Debug)]
pub struct Service {
    /// How often it wants a sign of life.
    every: Option<Duration>,
    told: Instant,
    /// Rounds of each poll loop at the last sign.
    rounds: Vec<u64>,
}

impl Default for Service {
    /// The one that the environment names.
    fn default() -> Service {
        Service::watched(std::env::var("WATCHDOG_USEC").ok().as_deref())
    }
}

impl Service {
    /// With a watchdog that wants signs within so many microseconds. Its process is not asked for:
    /// the manager has started the command, which has started this daemon.
    fn watched(usec: Option<&str>) -> Service {
        let usec = usec
            .and_then(|text| text.parse().ok())
            .filter(|&usec| usec > 0);
        Service {
            // Twice as often as it would give up (sd_watchdog_enabled(3)).
            every: usec.map(|usec: u64| Duration::from_micros(usec / 2)),
            told: Instant::now(),
            rounds: Vec::new(),
        }
    }

    /// The switch forwards.
    pub fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// It has been told to end.
    pub fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// Gives a sign of life if it is time and every poll loop has turned since the last one.
    pub fn look(&mut self, lcores: &[LcoreStatus]) {
        if self.is_alive(lcores, Instant::now()) {
            tell(&[NotifyState::Watchdog]);
        }
    }

    fn is_alive(&mut self, lcores: &[LcoreStatus], now: Instant) -> bool {
        let Some(every) = self.every else {
            return false;
        };
        if now.duration_since(self.told) < every {
            return false;
        }
        let rounds = lcores
            .iter()
            .map(|lcore| lcore.rounds.load(Ordering::Relaxed));
        let rounds: Vec<u64> = rounds.collect();
        let hangs = rounds
            .iter()
            .zip(&self.rounds)
            .any(|(now, then)| now == then);
        if hangs {
            return false;
        }
        (self.told, self.rounds) = (now, rounds);
        true
    }
}

fn tell(states: &[NotifyState<'_>]) {
    // Without a manager this does nothing; one that does not listen cannot be told so.
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("the service manager cannot be told {states:?}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: signs are given while all loops turn, and not when one of them hangs.
    #[test]
    fn a_loop_that_hangs_gives_no_sign() {
        let lcores = [LcoreStatus::default(), LcoreStatus::default()];
        let mut service = Service::watched(Some("1000000"));
        let begun = service.told;
        let at = |ms| begun + Duration::from_millis(ms);
        let turn = |which: usize| lcores[which].rounds.fetch_add(1, Ordering::Relaxed);
        assert!(!service.is_alive(&lcores, at(499)));
        assert!(service.is_alive(&lcores, at(500)));
        turn(0);
        turn(1);
        assert!(!service.is_alive(&lcores, at(999)));
        assert!(service.is_alive(&lcores, at(1000)));
        turn(0);
        assert!(
            !service.is_alive(&lcores, at(1500)),
            "the second loop hangs"
        );
        turn(1);
        assert!(service.is_alive(&lcores, at(1501)));
        for none in [None, Some(""), Some("0"), Some("soon")] {
            assert!(!Service::watched(none).is_alive(&lcores, at(9999)));
        }
    }
}
