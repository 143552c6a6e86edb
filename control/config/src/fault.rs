//! Faults as people write them, `LINK:SPEC`, and links that are taken out of routing.
//!
//! `leaf3>spine5:drop=0.01` is a fault of one direction, `leaf3-spine5:down` of both. The spec's
//! own text is what reports show, so reading and showing are each other's inverse.

use std::fmt;
use std::str::FromStr;

use detector::Link;
use packet::Qpn;
use pipeline::fault::{Action, Fault};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::nearest;
use crate::quantity::{Probability, Time, text};

const FORMS: &str = "drop=0.01, burst=P_ENTER,P_EXIT,LOSS, corrupt=0.001, delay=5us, down, \
                     flap=PERIOD,DOWN, match=QPN:+N[:OCCURRENCE],action=drop|ecn|corrupt";

/// What is wrong with the text of a fault or a link, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FaultError(String);

/// A fault without its link: `drop=0.01`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultSpec(pub Fault);

/// A fault of one link: `leaf3>spine5:drop=0.01`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkFault {
    /// The link.
    pub link: Link,
    /// What is wrong with it.
    pub fault: Fault,
}

impl LinkFault {
    /// The text of the fault without its link.
    pub fn spec(&self) -> String {
        FaultSpec(self.fault).to_string()
    }

    /// Whether it makes packets vanish unseen: what the detector is there to find. A link that is
    /// down is seen by its ends, a delay and an ECN mark lose nothing.
    pub fn is_lossy(&self) -> bool {
        match self.fault {
            Fault::Drop(p) | Fault::Corrupt(p) => p > 0.0,
            Fault::Burst { enter, loss, .. } => enter > 0.0 && loss > 0.0,
            Fault::Match { action, .. } => action != Action::Ecn,
            Fault::Delay { .. } | Fault::Down | Fault::Flap { .. } => false,
        }
    }
}

/// The faults that one `--fail` gives: none for `none`, two for a cable, else one.
pub fn read_faults(text: &str) -> Result<Vec<LinkFault>, FaultError> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let Some((links, spec)) = text.split_once(':') else {
        return Err(FaultError(format!(
            "\"{text}\" is no fault; write LINK:SPEC like leaf3>spine5:drop=0.01, or none"
        )));
    };
    let FaultSpec(fault) = spec.parse()?;
    let links = read_links(links)?;
    Ok(links
        .into_iter()
        .map(|link| LinkFault { link, fault })
        .collect())
}

/// The links that a name means: both directions for a cable, `leaf3-spine5`.
pub fn read_links(name: &str) -> Result<Vec<Link>, FaultError> {
    let wrong = || {
        FaultError(format!(
            "\"{name}\" is no link; write one direction like leaf3>spine5 or spine5>leaf3, or \
             both like leaf3-spine5"
        ))
    };
    if let Some((a, b)) = name.split_once('-') {
        let there: Link = format!("{a}>{b}").parse().map_err(|_| wrong())?;
        let back: Link = format!("{b}>{a}").parse().map_err(|_| wrong())?;
        return Ok(vec![there, back]);
    }
    Ok(vec![name.parse().map_err(|_| wrong())?])
}

impl FromStr for FaultSpec {
    type Err = FaultError;

    fn from_str(spec: &str) -> Result<FaultSpec, FaultError> {
        let (kind, rest) = match spec.split_once('=') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (spec, None),
        };
        let need = |form: &str| FaultError(format!("\"{spec}\" is no fault; write {form}"));
        let fault = match (kind, rest) {
            ("down", None) => Fault::Down,
            ("drop", Some(p)) => Fault::Drop(probability(spec, p)?),
            ("corrupt", Some(p)) => Fault::Corrupt(probability(spec, p)?),
            ("delay", Some(time)) => Fault::Delay {
                nanos: nanos(spec, time)?,
            },
            ("burst", Some(rest)) => {
                let parts: Vec<&str> = rest.split(',').collect();
                let [enter, exit, loss] = parts[..] else {
                    return Err(need("burst=P_ENTER,P_EXIT,LOSS like burst=0.0001,0.1,0.5"));
                };
                Fault::Burst {
                    enter: probability(spec, enter)?,
                    exit: probability(spec, exit)?,
                    loss: probability(spec, loss)?,
                }
            }
            ("flap", Some(rest)) => {
                let Some((period, down)) = rest.split_once(',') else {
                    return Err(need("flap=PERIOD,DOWN like flap=100ms,5ms"));
                };
                let (period_ns, down_ns) = (nanos(spec, period)?, nanos(spec, down)?);
                if down_ns == 0 || down_ns >= period_ns {
                    return Err(FaultError(format!(
                        "\"{spec}\" is down for {down} of every {period}; the second time must be \
                         above zero and below the first, like flap=100ms,5ms"
                    )));
                }
                Fault::Flap { period_ns, down_ns }
            }
            ("match", Some(rest)) => packet_match(spec, rest)?,
            ("down", Some(_)) => return Err(need("down, without a value")),
            ("drop" | "corrupt", None) => return Err(need(&format!("{kind}=0.01"))),
            ("delay", None) => return Err(need("delay=5us")),
            ("burst", None) => return Err(need("burst=P_ENTER,P_EXIT,LOSS")),
            ("flap", None) => return Err(need("flap=PERIOD,DOWN")),
            ("match", None) => return Err(need("match=QPN:+N[:OCCURRENCE],action=drop")),
            _ => {
                let kinds = ["drop", "burst", "corrupt", "delay", "down", "flap", "match"];
                let hint = match nearest(kind, kinds) {
                    Some(meant) => format!("did you mean \"{meant}\"? The forms are"),
                    None => "write one of".to_owned(),
                };
                return Err(FaultError(format!(
                    "\"{spec}\" is no fault; {hint} {FORMS}"
                )));
            }
        };
        Ok(FaultSpec(fault))
    }
}

fn probability(spec: &str, text: &str) -> Result<f64, FaultError> {
    match text.parse::<Probability>() {
        Ok(p) => Ok(p.value()),
        Err(error) => Err(FaultError(format!("\"{spec}\": {error}"))),
    }
}

fn nanos(spec: &str, text: &str) -> Result<u64, FaultError> {
    match text.parse::<Time>() {
        Ok(time) => Ok(time.nanos()),
        Err(error) => Err(FaultError(format!("\"{spec}\": {error}"))),
    }
}

/// `QPN:+N[:OCCURRENCE],action=..`.
fn packet_match(spec: &str, rest: &str) -> Result<Fault, FaultError> {
    let wrong = |why: &str| {
        FaultError(format!(
            "\"{spec}\" is no match ({why}); write match=QPN:+N[:OCCURRENCE],action=drop|ecn|corrupt \
             like match=18:+100:1,action=drop"
        ))
    };
    let (which, action) = rest
        .split_once(",action=")
        .ok_or_else(|| wrong("no action"))?;
    let action = match action {
        "drop" => Action::Drop,
        "ecn" => Action::Ecn,
        "corrupt" => Action::Corrupt,
        _ => return Err(wrong("the action is none of drop, ecn, corrupt")),
    };
    let mut parts = which.split(':');
    let qpn = parts.next().and_then(|qpn| qpn.parse().ok());
    let qpn: u32 = qpn.ok_or_else(|| wrong("the QPN is no number"))?;
    if qpn >= 1 << 24 {
        return Err(wrong("a QPN has 24 bits"));
    }
    let nth = parts.next().and_then(|nth| nth.strip_prefix('+'));
    let nth = nth.filter(|nth| nth.starts_with(|c: char| c.is_ascii_digit()));
    let nth = nth.and_then(|nth| nth.parse().ok());
    let nth: u64 = nth.ok_or_else(|| wrong("the packet is written +N, from +0"))?;
    let occurrence: u32 = match parts.next() {
        Some(text) => match text.parse() {
            Ok(occurrence) if occurrence > 0 => occurrence,
            _ => return Err(wrong("the occurrence counts from 1")),
        },
        None => 1,
    };
    if parts.next().is_some() {
        return Err(wrong("too many colons"));
    }
    Ok(Fault::Match {
        qpn: Qpn(qpn),
        nth,
        occurrence,
        action,
    })
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::Drop(p) => write!(f, "drop={p}"),
            Fault::Corrupt(p) => write!(f, "corrupt={p}"),
            Fault::Burst { enter, exit, loss } => write!(f, "burst={enter},{exit},{loss}"),
            Fault::Delay { nanos } => write!(f, "delay={}", Time::new(nanos)),
            Fault::Down => f.write_str("down"),
            Fault::Flap { period_ns, down_ns } => {
                write!(f, "flap={},{}", Time::new(period_ns), Time::new(down_ns))
            }
            Fault::Match {
                qpn,
                nth,
                occurrence,
                action,
            } => {
                write!(f, "match={}:+{nth}", qpn.0)?;
                if occurrence != 1 {
                    write!(f, ":{occurrence}")?;
                }
                f.write_str(match action {
                    Action::Drop => ",action=drop",
                    Action::Ecn => ",action=ecn",
                    Action::Corrupt => ",action=corrupt",
                })
            }
        }
    }
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.link, FaultSpec(self.fault))
    }
}

impl FromStr for LinkFault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<LinkFault, FaultError> {
        match read_faults(text)?[..] {
            [fault] => Ok(fault),
            _ => Err(FaultError(format!(
                "\"{text}\" is not the fault of one link"
            ))),
        }
    }
}

impl Serialize for LinkFault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LinkFault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LinkFault, D::Error> {
        text::read(deserializer, "a fault such as \"leaf3>spine5:drop=0.01\"")
    }
}

#[cfg(test)]
mod tests;
