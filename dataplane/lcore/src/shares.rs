//! Who of a device's virtual ports may send next: a token bucket for the device above those of its
//! ports, and fair turns under it.
//!
//! Each port keeps to its own rate by its own bucket. Together they keep to the device's by this
//! one, and when that is less than what they have to send, they share it: turns by deficit (Shreedhar
//! and Varghese 1995), so that bytes are shared and not packets. A turn adds a quantum to a port's
//! credit; it sends while it has credit left, and the last packet may go beyond it, which its next
//! turns pay for. A port with nothing to send keeps no credit.

use pipeline::Nanos;

/// Bytes that a turn is worth: a frame of any size fits a few of them.
const QUANTUM_BYTES: i64 = 1536;

/// The bucket of a device, and whose turn it is.
#[derive(Clone, Debug)]
pub struct Shares {
    /// When the wire will be free, in picoseconds.
    free_at_ps: u64,
    /// Picoseconds per byte, in 1/256; 0: the ports' own rates are all there is.
    byte_ps_256: u64,
    slack_ps: u64,
    overhead_bytes: u32,
    /// Bytes that each port may still send in its turn; less than 0 if it has sent beyond.
    credit: Vec<i64>,
    turn: usize,
}

impl Shares {
    /// For `ports` ports on a device of `rate_bps` (`None`: no bound of its own), of which each frame
    /// takes `overhead_bytes` more than it is long, and that may catch up by `slack_ns`.
    pub fn new(ports: usize, rate_bps: Option<u64>, slack_ns: u64, overhead_bytes: u32) -> Shares {
        let byte_ps_256 = rate_bps.map_or(0, |rate| {
            (8_000_000_000_000u128 * 256 / u128::from(rate.max(1))) as u64
        });
        Shares {
            free_at_ps: 0,
            byte_ps_256,
            slack_ps: slack_ns * 1000,
            overhead_bytes,
            credit: vec![0; ports],
            turn: 0,
        }
    }

    /// Lets ports send at `now`, `most` packets at most. `send` takes a port's next packet that is
    /// due and returns its bytes, or `None` if there is none. Returns how many packets went.
    #[inline]
    pub fn send(
        &mut self,
        now: Nanos,
        most: usize,
        mut send: impl FnMut(usize) -> Option<u32>,
    ) -> usize {
        let now_ps = now.0.saturating_mul(1000);
        let ports = self.credit.len();
        let (mut sent, mut empty) = (0, 0);
        while empty < ports && sent < most && self.free_at_ps <= now_ps {
            let port = self.turn;
            if self.credit[port] <= 0 {
                self.credit[port] += QUANTUM_BYTES;
                if self.credit[port] <= 0 {
                    self.next();
                    continue;
                }
            }
            match send(port) {
                None => {
                    self.credit[port] = self.credit[port].min(0);
                    self.next();
                    empty += 1;
                }
                Some(len) => {
                    empty = 0;
                    sent += 1;
                    let bytes = len + self.overhead_bytes;
                    // A device that was polled late may send what it missed, within the slack.
                    let start = self.free_at_ps.max(now_ps.saturating_sub(self.slack_ps));
                    self.free_at_ps = start + ((u64::from(bytes) * self.byte_ps_256) >> 8);
                    self.credit[port] -= i64::from(bytes);
                    if self.credit[port] <= 0 {
                        self.next();
                    }
                }
            }
        }
        sent
    }

    fn next(&mut self) {
        self.turn = if self.turn + 1 == self.credit.len() {
            0
        } else {
            self.turn + 1
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port with an own bucket and packets of one size; always backlogged.
    struct Source {
        byte_ps: u64,
        len: u32,
        free_at_ps: u64,
        sent_bytes: u64,
    }

    /// How far a port may catch up: more than a turn of all others, or it would lose what it waits.
    const SLACK_PS: u64 = 20_000_000;
    const GBPS: u64 = 1_000_000_000;

    fn source(rate_bps: u64, len: u32) -> Source {
        Source {
            byte_ps: 8_000_000_000_000 / rate_bps,
            len,
            free_at_ps: 0,
            sent_bytes: 0,
        }
    }

    /// Runs for a millisecond, polled each 100 ns; the rate in bit/s of each port.
    fn run(rate_bps: Option<u64>, mut ports: Vec<Source>) -> Vec<u64> {
        let mut shares = Shares::new(ports.len(), rate_bps, 1_000, 24);
        for step in 0..10_000u64 {
            let now = Nanos(step * 100);
            shares.send(now, 64, |port| {
                let source = &mut ports[port];
                let now_ps = now.0 * 1000;
                if source.free_at_ps > now_ps {
                    return None;
                }
                let wire = u64::from(source.len + 24);
                source.free_at_ps =
                    source.free_at_ps.max(now_ps.saturating_sub(SLACK_PS)) + wire * source.byte_ps;
                source.sent_bytes += wire;
                Some(source.len)
            });
        }
        ports.iter().map(|p| p.sent_bytes * 8 * 1000).collect()
    }

    fn near(rate: u64, wanted: u64) -> bool {
        rate.abs_diff(wanted) * 50 <= wanted
    }

    /// Goal: where the device has room, every port gets exactly its own rate.
    #[test]
    fn each_port_keeps_to_its_own_rate() {
        let rates = run(
            Some(40 * GBPS),
            vec![
                source(10 * GBPS, 4096),
                source(2 * GBPS, 64),
                source(GBPS, 1500),
            ],
        );
        for (rate, wanted) in rates.iter().zip([10 * GBPS, 2 * GBPS, GBPS]) {
            assert!(near(*rate, wanted), "{rates:?}");
        }
    }

    /// Goal: where it has not, all of it is used, and shared in equal parts whatever the frames
    /// are; who wants less than a part gets that, and the others share the rest.
    #[test]
    fn ports_share_the_device_by_bytes() {
        let rates = run(
            Some(10 * GBPS),
            vec![
                source(10 * GBPS, 4096),
                source(10 * GBPS, 64),
                source(10 * GBPS, 1500),
            ],
        );
        for rate in &rates {
            assert!(near(*rate, 10 * GBPS / 3), "{rates:?}");
        }
        let rates = run(
            Some(10 * GBPS),
            vec![
                source(10 * GBPS, 4096),
                source(2 * GBPS, 1500),
                source(10 * GBPS, 1500),
            ],
        );
        for (rate, wanted) in rates.iter().zip([4 * GBPS, 2 * GBPS, 4 * GBPS]) {
            assert!(near(*rate, wanted), "{rates:?}");
        }
    }

    /// Goal: the device's rate is never exceeded by more than its slack, and nothing is sent when
    /// no port has anything.
    #[test]
    fn the_device_is_never_overdrawn() {
        let rates = run(Some(GBPS), (0..8).map(|_| source(GBPS, 9000)).collect());
        let sum: u64 = rates.iter().sum();
        // A slack of 1 us and one frame more are 10,000 bytes of a millisecond's 125,000.
        assert!(sum <= GBPS + 8 * 10_000 * 1000, "{sum}");
        assert!(sum >= GBPS * 95 / 100, "{sum}");
        let mut shares = Shares::new(3, None, 0, 24);
        assert_eq!(shares.send(Nanos(5), 64, |_| None), 0);
    }

    /// Goal: a port that was silent has saved nothing up.
    #[test]
    fn silence_is_not_saved() {
        let mut shares = Shares::new(2, None, 0, 0);
        for _ in 0..1000 {
            shares.send(Nanos(0), 64, |port| (port == 0).then_some(1000));
        }
        let mut sent = [0u64; 2];
        shares.send(Nanos(0), 600, |port| {
            sent[port] += 1;
            Some(1000)
        });
        assert!(sent[0].abs_diff(sent[1]) <= 4, "{sent:?}");
    }
}
