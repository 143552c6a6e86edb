//! Which packets a capture takes: terms that must all hold.

use std::net::IpAddr;
use std::str::FromStr;

use packet::bth::{self, Qpn};
use packet::{Address, Kind, parse};

/// Most terms of a filter: it is evaluated for every packet of the ports captured.
const TERMS_MAX: usize = 8;

/// One condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Term {
    /// RoCEv2.
    Roce,
    /// RoCEv2 to that queue pair.
    Qpn(Qpn),
    /// From or to that address.
    Ip(Address),
    /// Dropped by the switch.
    Dropped,
    /// Marked: counted by the measurement of its flow.
    Marked,
}

/// A filter; the default takes all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    terms: Vec<Term>,
}

impl FromStr for Filter {
    type Err = String;

    /// Terms by commas: `roce`, `qpn=N`, `ip=A`, `dropped`, `marked`.
    fn from_str(text: &str) -> Result<Filter, String> {
        let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
        let terms: Vec<Term> = words.map(term).collect::<Result<_, _>>()?;
        if terms.len() > TERMS_MAX {
            return Err(format!("a filter has at most {TERMS_MAX} terms"));
        }
        Ok(Filter { terms })
    }
}

fn term(word: &str) -> Result<Term, String> {
    match word.split_once('=') {
        None if word == "roce" => Ok(Term::Roce),
        None if word == "dropped" => Ok(Term::Dropped),
        None if word == "marked" => Ok(Term::Marked),
        Some(("qpn", number)) => {
            let hex = number.strip_prefix("0x");
            let read = match hex {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            match read {
                Ok(qpn) if qpn < 1 << 24 => Ok(Term::Qpn(Qpn(qpn))),
                _ => Err(format!(
                    "qpn={number}: write a number below 16777216, like qpn=17 or qpn=0x11"
                )),
            }
        }
        Some(("ip", address)) => match address.parse::<IpAddr>() {
            Ok(address) => Ok(Term::Ip(address.into())),
            Err(_) => Err(format!(
                "ip={address}: write an address, like ip=10.0.0.1 or ip=fd00::1"
            )),
        },
        _ => Err(format!(
            "filter term \"{word}\" is none of roce, qpn=N, ip=A, dropped, marked"
        )),
    }
}

impl Filter {
    /// Whether it takes this frame. Frames that are no IP packets have no address, queue pair or mark.
    pub fn takes(&self, frame: &[u8], wire_len: usize, is_dropped: bool) -> bool {
        if self.terms.is_empty() {
            return true;
        }
        // Spraycheck's own messages are plain UDP here: no port is theirs.
        let parsed = parse(frame, wire_len, 0).ok();
        let roce = parsed.filter(|parsed| parsed.kind == Kind::Roce);
        self.terms.iter().all(|term| match *term {
            Term::Dropped => is_dropped,
            Term::Ip(address) => parsed.is_some_and(|parsed| {
                parsed.kind != Kind::Arp
                    && (parsed.source == address || parsed.destination == address)
            }),
            Term::Roce => roce.is_some(),
            Term::Qpn(qpn) => {
                let at = |payload: u16| bth::destination_qp(frame, usize::from(payload));
                roce.is_some_and(|roce| at(roce.payload) == qpn)
            }
            Term::Marked => roce.is_some_and(|roce| {
                let at = usize::from(roce.payload) + bth::RESV8A;
                frame.get(at).is_some_and(|byte| byte & bth::MARK != 0)
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A RoCEv2 frame over IPv4 from 10.0.0.1 to 10.1.0.1, QPN 17, marked or not.
    fn roce(is_marked: bool) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 8 + bth::HEADER_LEN + 64 + bth::ICRC_LEN];
        frame[12] = 8;
        let payload_len = frame.len() - 14 - 20;
        let number = |text: &str| text.parse::<IpAddr>().unwrap().into();
        let fields = packet::ip::IpFields {
            source: number("10.0.0.1"),
            destination: number("10.1.0.1"),
            traffic_class: 0,
            ttl: 64,
            payload_len: payload_len as u16,
        };
        packet::ip::write_carrying(&mut frame[14..], &fields, packet::ip::UDP);
        packet::ip::write_udp(
            &mut frame[34..],
            49152,
            packet::ROCE_PORT,
            (payload_len - 8) as u16,
        );
        frame[42 + bth::DESTINATION_QP + 2] = 17;
        frame[42 + bth::RESV8A] = u8::from(is_marked);
        frame
    }

    #[test]
    fn all_terms_must_hold() {
        let (plain, marked) = (roce(false), roce(true));
        let takes = |text: &str, frame: &[u8], is_dropped| {
            let filter: Filter = text.parse().unwrap();
            filter.takes(frame, frame.len(), is_dropped)
        };
        for (text, plain_taken, marked_taken) in [
            ("", true, true),
            ("roce", true, true),
            ("marked", false, true),
            ("qpn=17", true, true),
            ("qpn=0x12", false, false),
            ("ip=10.1.0.1", true, true),
            ("ip=10.1.0.1, ip=10.0.0.1", true, true),
            ("ip=10.1.0.2", false, false),
            ("roce,qpn=17,marked", false, true),
            ("dropped", false, false),
        ] {
            assert_eq!(takes(text, &plain, false), plain_taken, "{text}");
            assert_eq!(takes(text, &marked, false), marked_taken, "{text}");
        }
        assert!(takes("dropped,roce", &plain, true));
        assert!(takes("dropped", &[1, 2, 3], true) && !takes("roce", &[1, 2, 3], true));
    }

    #[test]
    fn wrong_terms_are_named() {
        for (text, told) in [
            ("rose", "\"rose\""),
            ("qpn=16777216", "qpn=16777216"),
            ("ip=ten", "ip=ten"),
            ("roce,roce,roce,roce,roce,roce,roce,roce,roce", "at most 8"),
        ] {
            let error = text.parse::<Filter>().unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
