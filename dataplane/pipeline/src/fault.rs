//! Faults of a link: what a testbed injects between one switch's egress and the next one's
//! ingress. A wrapper round the link, not a flag in the switch; the simulator uses the same.

use packet::{Kind, Psn, Qpn, bth, parse};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::types::Nanos;

/// What a matched packet suffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It is lost.
    Drop,
    /// It arrives marked Congestion Experienced.
    Ecn,
    /// It arrives damaged: the receiver's FCS check drops it.
    Corrupt,
}

/// One fault of one link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    /// Each packet is lost with this probability.
    Drop(f64),
    /// Gilbert-Elliott: in the bad state packets are lost with probability `loss`.
    Burst {
        /// Probability, per packet, of going bad.
        enter: f64,
        /// Probability, per packet, of going good again.
        exit: f64,
        /// Loss in the bad state.
        loss: f64,
    },
    /// Each packet arrives damaged with this probability.
    Corrupt(f64),
    /// Every packet takes so long.
    Delay {
        /// Nanoseconds.
        nanos: u64,
    },
    /// The link is down.
    Down,
    /// The link is down for the last `down_ns` of every `period_ns`.
    Flap {
        /// Nanoseconds.
        period_ns: u64,
        /// Nanoseconds.
        down_ns: u64,
    },
    /// The n-th packet of a QP through this link (from 0), at its occurrence-th passing (from 1).
    Match {
        /// Destination QP.
        qpn: Qpn,
        /// Which of its data packets.
        nth: u64,
        /// Which passing of that PSN.
        occurrence: u32,
        /// What happens to it.
        action: Action,
    },
}

/// What the link does with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It arrives, after so many nanoseconds more.
    Pass {
        /// Additional delay.
        delay_ns: u64,
    },
    /// It is lost.
    Lost,
    /// It arrives damaged.
    Corrupted,
    /// It arrives with Congestion Experienced set.
    Marked,
}

#[derive(Clone, Copy)]
struct Active {
    fault: Fault,
    is_bad: bool,
    /// Packets of the QP so far, and the PSN that was the n-th.
    passed: u64,
    target: Option<(Psn, u32)>,
}

/// The faults of one link, and what they have done.
pub struct LinkFaults {
    active: Vec<Active>,
    random: Xoshiro256PlusPlus,
    /// Packets that entered the link.
    pub seen: u64,
    /// Packets that it lost (damaged ones included).
    pub lost: u64,
}

impl LinkFaults {
    /// A link with such faults, whose chances come from `seed`.
    pub fn new(faults: &[Fault], seed: u64) -> LinkFaults {
        let active = faults
            .iter()
            .map(|&fault| Active {
                fault,
                is_bad: false,
                passed: 0,
                target: None,
            })
            .collect();
        LinkFaults {
            active,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            seen: 0,
            lost: 0,
        }
    }

    /// Whether it has any.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether the link is up at `now`.
    pub fn is_up(&self, now: Nanos) -> bool {
        self.active.iter().all(|active| match active.fault {
            Fault::Down => false,
            Fault::Flap { period_ns, down_ns } => {
                period_ns == 0 || now.0 % period_ns < period_ns.saturating_sub(down_ns)
            }
            Fault::Drop(_)
            | Fault::Burst { .. }
            | Fault::Corrupt(_)
            | Fault::Delay { .. }
            | Fault::Match { .. } => true,
        })
    }

    /// Decides on a packet that enters the link.
    pub fn judge(&mut self, frame: &[u8], wire_len: usize) -> Fate {
        self.seen += 1;
        let mut fate = Fate::Pass { delay_ns: 0 };
        for active in &mut self.active {
            let hit = match active.fault {
                Fault::Drop(p) => chance(&mut self.random, p).then_some(Action::Drop),
                Fault::Corrupt(p) => chance(&mut self.random, p).then_some(Action::Corrupt),
                Fault::Burst { enter, exit, loss } => {
                    let turn = if active.is_bad { exit } else { enter };
                    active.is_bad ^= chance(&mut self.random, turn);
                    (active.is_bad && chance(&mut self.random, loss)).then_some(Action::Drop)
                }
                Fault::Delay { nanos } => {
                    if let Fate::Pass { delay_ns } = &mut fate {
                        *delay_ns += nanos;
                    }
                    None
                }
                Fault::Match {
                    qpn,
                    nth,
                    occurrence,
                    action,
                } => active
                    .matches(frame, wire_len, qpn, nth, occurrence)
                    .then_some(action),
                Fault::Down | Fault::Flap { .. } => None,
            };
            match hit {
                None => {}
                Some(Action::Drop) => {
                    self.lost += 1;
                    return Fate::Lost;
                }
                Some(Action::Corrupt) => {
                    self.lost += 1;
                    return Fate::Corrupted;
                }
                Some(Action::Ecn) => fate = Fate::Marked,
            }
        }
        fate
    }
}

impl Active {
    fn matches(
        &mut self,
        frame: &[u8],
        wire_len: usize,
        qpn: Qpn,
        nth: u64,
        occurrence: u32,
    ) -> bool {
        let Ok(parsed) = parse(frame, wire_len, 0) else {
            return false;
        };
        let at = usize::from(parsed.payload);
        if parsed.kind != Kind::Roce
            || bth::destination_qp(frame, at) != qpn
            || !bth::opcode(frame, at).is_counted()
        {
            return false;
        }
        let psn = bth::psn(frame, at);
        if let Some((target, times)) = &mut self.target {
            if *target == psn {
                *times += 1;
                return *times == occurrence;
            }
            return false;
        }
        let is_target = self.passed == nth;
        self.passed += 1;
        if is_target {
            self.target = Some((psn, 1));
        }
        is_target && occurrence == 1
    }
}

/// True with probability `p`.
fn chance(random: &mut Xoshiro256PlusPlus, p: f64) -> bool {
    // 53 random bits are a uniform number in [0, 1) (as rand's standard distribution makes them).
    let uniform = (random.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
    uniform < p
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(faults: &[Fault], packets: u64) -> u64 {
        let mut link = LinkFaults::new(faults, 1);
        (0..packets)
            .filter(|_| link.judge(&[], 0) == Fate::Lost)
            .count() as u64
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often")]
    fn the_drop_rate_is_the_one_asked_for() {
        let lost = lost(&[Fault::Drop(0.005)], 1_000_000);
        // Five standard deviations of a binomial count.
        assert!(
            lost.abs_diff(5_000) < 5 * 71,
            "{lost} of 1,000,000 at 0.5 %"
        );
        assert_eq!(self::lost(&[Fault::Drop(0.0)], 1000), 0);
        assert_eq!(self::lost(&[Fault::Drop(1.0)], 1000), 1000);
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often")]
    fn bursts_come_as_gilbert_elliott_says() {
        // Bad one time in eleven (0.01 / (0.01 + 0.1)), and then half are lost.
        let lost = lost(
            &[Fault::Burst {
                enter: 0.01,
                exit: 0.1,
                loss: 0.5,
            }],
            1_000_000,
        );
        assert!(
            lost.abs_diff(45_454) < 2_000,
            "{lost} of 1,000,000, expected about 45,454"
        );
    }

    #[test]
    fn a_flap_is_down_at_the_end_of_its_period() {
        let link = LinkFaults::new(
            &[Fault::Flap {
                period_ns: 100,
                down_ns: 30,
            }],
            0,
        );
        let up: Vec<u64> = (0..200).filter(|&now| !link.is_up(Nanos(now))).collect();
        assert_eq!(up, (70..100).chain(170..200).collect::<Vec<_>>());
        assert!(!LinkFaults::new(&[Fault::Down], 0).is_up(Nanos(0)));
    }

    #[test]
    fn one_packet_of_one_qp_is_met_at_the_named_passing() {
        let mut frame = vec![0u8; 14 + 20 + 8 + 16];
        frame[12] = 8;
        let fields = packet::ip::IpFields {
            source: packet::Address::v4(1),
            destination: packet::Address::v4(2),
            traffic_class: 0,
            ttl: 9,
            payload_len: 24,
        };
        packet::ip::write(&mut frame[14..], &fields);
        packet::ip::write_udp(&mut frame[34..], 1, packet::ROCE_PORT, 16);
        let mut send = |link: &mut LinkFaults, qpn, psn| {
            let bth = bth::BthFields {
                opcode: packet::Opcode::WRITE_MIDDLE,
                destination_qp: Qpn(qpn),
                psn: Psn::new(psn),
                ack_req: false,
                pad: 0,
            };
            bth::write(&mut frame[42..], &bth);
            link.judge(&frame, frame.len())
        };
        let fault = Fault::Match {
            qpn: Qpn(7),
            nth: 2,
            occurrence: 2,
            action: Action::Drop,
        };
        let mut link = LinkFaults::new(&[fault], 0);
        let pass = Fate::Pass { delay_ns: 0 };
        for (qpn, psn, fate) in [
            (7, 10, pass),
            (8, 11, pass),
            (7, 18, pass),
            (7, 26, pass),
            (7, 30, pass),
            (7, 26, Fate::Lost),
            (7, 26, pass),
        ] {
            assert_eq!(send(&mut link, qpn, psn), fate, "QP {qpn}, PSN {psn}");
        }
        assert_eq!((link.seen, link.lost), (7, 1));
    }
}
