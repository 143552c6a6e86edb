//! The conversation of a capture on the control socket.
//!
//! One line asks: `{"capture": {"ports": ["leaf0.h"], "filter": "roce", ..}}`. The answer is a line with
//! the interfaces, then chunks: a line `{"bytes": N, "captured": M}` and N bytes of pcapng; at the end a
//! line with why it ended and what was counted. The client ends a capture by closing its writing side.
//! A client that does not read costs missed packets, which are counted, and after a while its capture.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep, timeout};

use super::tap::{SNAPLEN_MAX, Tap, Wanted};
use super::{CAPTURES_MAX, pcapng};
use crate::control::State;

/// How often the slots are emptied: a lane of them lasts longer than this at any rate that an lcore
/// reaches with small frames cut short.
const ROUND: Duration = Duration::from_millis(1);
/// Packets of one chunk.
const CHUNK_PACKETS: usize = 1024;
/// How long a client may not read.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a client asks for.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaptureRequest {
    /// Ports, as `leaf0.host0`, or `host0` for that of every switch; all if there are none.
    #[serde(default)]
    ports: Vec<String>,
    /// Of `in`, `out`, `dropped`; all if there are none.
    #[serde(default)]
    directions: Vec<String>,
    #[serde(default)]
    filter: String,
    #[serde(default)]
    sample: Option<u64>,
    #[serde(default)]
    snaplen: Option<usize>,
    #[serde(default)]
    count: Option<u64>,
    #[serde(default)]
    seconds: Option<u64>,
}

/// A capture that runs, for `show captures`.
pub(crate) struct Running {
    pub(crate) tap: Arc<Tap>,
    pub(crate) what: String,
    pub(crate) captured: u64,
}

/// The captures of a process.
#[derive(Default)]
pub(crate) struct Captures {
    /// By place; a place is free when its capture has ended and no lcore has its tap.
    pub(crate) running: [Option<Running>; CAPTURES_MAX],
    /// Ended ones that an lcore still has.
    ending: Vec<Arc<Tap>>,
    /// Packets that captures which have ended have missed.
    missed: u64,
}

impl Captures {
    /// Lets go of taps that no lcore has any more.
    pub(crate) fn sweep(&mut self) {
        self.ending.retain(|tap| Arc::strong_count(tap) > 1);
    }

    /// Packets that captures have missed so far.
    pub(crate) fn missed(&self) -> u64 {
        let running = self.running.iter().flatten();
        self.missed + running.map(|one| one.tap.missed()).sum::<u64>()
    }

    fn end(&mut self, place: usize) {
        if let Some(one) = self.running[place].take() {
            one.tap.end();
            self.missed += one.tap.missed();
            self.ending.push(one.tap);
        }
    }
}

/// Ends a capture whatever becomes of its task.
struct Place {
    state: Rc<RefCell<State>>,
    place: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.state.borrow_mut().captures.end(self.place);
    }
}

/// Answers a client that wants a capture, until it ends.
pub(crate) async fn serve(
    request: CaptureRequest,
    mut reader: BufReader<OwnedReadHalf>,
    mut writer: OwnedWriteHalf,
    state: Rc<RefCell<State>>,
) -> io::Result<()> {
    let opened = open(&request, &mut state.borrow_mut());
    let (place, tap, names) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let line = format!("{}\n", json!({ "error": error }));
            return writer.write_all(line.as_bytes()).await;
        }
    };
    let place = Place { state, place };
    let now_ns = || {
        let shared = &place.state.borrow().shared;
        shared.status.now_ns.load(Ordering::Relaxed)
    };
    let since_ns = unix_ns().saturating_sub(now_ns());
    let mut bytes = Vec::new();
    let version = env!("CARGO_PKG_VERSION");
    pcapng::section(&mut bytes, &format!("spraycheck {version}"));
    for name in &names {
        pcapng::interface(&mut bytes, name, tap.snaplen());
    }
    say(&mut writer, &json!({ "interfaces": names }), &[]).await?;
    let most = request.count.unwrap_or(u64::MAX);
    let until = request
        .seconds
        .map(|s| Instant::now() + Duration::from_secs(s));
    let mut captured = 0u64;
    let reason = loop {
        let room = usize::try_from(most - captured).unwrap_or(usize::MAX);
        let taken = tap.drain(room.min(CHUNK_PACKETS), |slot| {
            pcapng::packet(&mut bytes, since_ns + slot.now_ns, slot);
        });
        captured += taken as u64;
        if let Some(one) = &mut place.state.borrow_mut().captures.running[place.place] {
            one.captured = captured;
        }
        if !bytes.is_empty() {
            let head = json!({ "bytes": bytes.len(), "captured": captured });
            say(&mut writer, &head, &bytes).await?;
            bytes.clear();
        }
        if captured == most {
            break "count";
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            break "seconds";
        }
        // A full chunk is followed at once, by way of the others of this thread.
        let pause = if taken == CHUNK_PACKETS {
            Duration::ZERO
        } else {
            ROUND
        };
        let mut ignored = [0; 64];
        tokio::select! {
            biased;
            // What a client says now is not understood; that it ends is.
            read = reader.read(&mut ignored) => if read? == 0 { break "client" },
            () = sleep(pause) => {}
        }
    };
    let unix_ns = since_ns + now_ns();
    for (interface, counts) in (0..).zip(tap.counts()) {
        let wanted = counts.wanted.load(Ordering::Relaxed);
        let missed = counts.missed.load(Ordering::Relaxed);
        pcapng::statistics(&mut bytes, unix_ns, interface, wanted, missed);
    }
    let head = json!({ "bytes": bytes.len(), "captured": captured });
    say(&mut writer, &head, &bytes).await?;
    let end = json!({ "end": reason, "captured": captured, "missed": tap.missed() });
    say(&mut writer, &end, &[]).await
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// A line and what follows it, unless the client does not read for too long.
async fn say(writer: &mut OwnedWriteHalf, head: &Value, bytes: &[u8]) -> io::Result<()> {
    let mut text = head.to_string();
    text.push('\n');
    let write = async {
        writer.write_all(text.as_bytes()).await?;
        writer.write_all(bytes).await
    };
    timeout(PATIENCE, write).await?
}

type Opened = (usize, Arc<Tap>, Vec<String>);

/// Makes the tap and gives it to the lcores.
fn open(request: &CaptureRequest, state: &mut State) -> Result<Opened, String> {
    let (interfaces, names) = interfaces(&request.ports, &state.config.switches)?;
    let wanted = Wanted {
        filter: request.filter.parse()?,
        events: events(&request.directions)?,
        sample: match request.sample {
            Some(0) => return Err("a sample is of 1 packet in 1 or more".into()),
            sample => sample.unwrap_or(1),
        },
        snaplen: match request.snaplen {
            Some(bytes) if !(1..=SNAPLEN_MAX).contains(&bytes) => {
                return Err(format!("a snaplen is of 1 to {SNAPLEN_MAX} bytes"));
            }
            snaplen => snaplen.unwrap_or(SNAPLEN_MAX),
        },
    };
    let captures = &mut state.captures;
    captures.sweep();
    // Each lcore has room for so many.
    let is_full = captures.ending.len() + captures.running.iter().flatten().count() >= CAPTURES_MAX;
    let place = captures.running.iter().position(Option::is_none);
    let Some(place) = place.filter(|_| !is_full) else {
        return Err(format!(
            "{CAPTURES_MAX} captures run, which is all that may; end one of `spraycheck show captures`"
        ));
    };
    let lcores = state.shared.lcores.len();
    let tap = Arc::new(Tap::new(lcores, &interfaces, wanted));
    for lcore in 0..lcores {
        if state
            .shared
            .seam
            .taps_of(lcore)
            .push(Arc::clone(&tap))
            .is_err()
        {
            tap.end();
            captures.ending.push(tap);
            return Err(format!(
                "lcore {} does not take a capture now; is it stuck?",
                lcore + 1
            ));
        }
    }
    let filter = Some(request.filter.as_str()).filter(|text| !text.is_empty());
    captures.running[place] = Some(Running {
        tap: Arc::clone(&tap),
        what: filter.unwrap_or("all").to_owned(),
        captured: 0,
    });
    Ok((place, tap, names))
}

fn events(directions: &[String]) -> Result<[bool; 3], String> {
    let mut events = [directions.is_empty(); 3];
    for direction in directions {
        let place = ["in", "out", "dropped"].iter().position(|d| d == direction);
        let Some(place) = place else {
            return Err(format!(
                "direction \"{direction}\" is none of in, out, dropped"
            ));
        };
        events[place] = true;
    }
    Ok(events)
}

type Switches = [(String, Vec<String>)];

/// Which interfaces are captured, per switch by port and then for packets without a port, and their
/// names.
fn interfaces(
    ports: &[String],
    switches: &Switches,
) -> Result<(Vec<Vec<bool>>, Vec<String>), String> {
    let is_of = |wanted: &str, switch: &str, port: &str| {
        wanted == port
            || wanted
                .strip_prefix(switch)
                .and_then(|rest| rest.strip_prefix('.'))
                == Some(port)
    };
    let all = || {
        switches
            .iter()
            .flat_map(|(s, ports)| ports.iter().map(move |p| (s, p)))
    };
    for wanted in ports {
        if !all().any(|(switch, port)| is_of(wanted, switch, port)) {
            let some = all()
                .take(6)
                .map(|(switch, port)| format!("{switch}.{port}"));
            let some: Vec<String> = some.collect();
            return Err(format!(
                "no port is called \"{wanted}\"; `spraycheck show ports` has all, like {}",
                some.join(", ")
            ));
        }
    }
    let (mut chosen, mut names) = (Vec::new(), Vec::new());
    for (switch, own) in switches {
        let mut of_switch: Vec<bool> = own
            .iter()
            .map(|port| ports.is_empty() || ports.iter().any(|wanted| is_of(wanted, switch, port)))
            .collect();
        of_switch.push(ports.is_empty());
        let taken = own
            .iter()
            .zip(&of_switch)
            .filter(|&(_, &is_chosen)| is_chosen);
        names.extend(taken.map(|(port, _)| format!("{switch}.{port}")));
        if ports.is_empty() {
            names.push(switch.clone());
        }
        chosen.push(of_switch);
    }
    Ok((chosen, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switches() -> Vec<(String, Vec<String>)> {
        let ports = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        vec![
            ("leaf0".into(), ports(&["h", "up0"])),
            ("leaf1".into(), ports(&["h"])),
        ]
    }

    #[test]
    fn ports_are_found_by_both_names() {
        let named = |ports: &[&str]| {
            let ports: Vec<String> = ports.iter().map(|port| (*port).to_owned()).collect();
            interfaces(&ports, &switches())
        };
        let (chosen, names) = named(&["leaf0.up0", "h"]).unwrap();
        assert_eq!(chosen, [vec![true, true, false], vec![true, false]]);
        assert_eq!(names, ["leaf0.h", "leaf0.up0", "leaf1.h"]);
        let (chosen, names) = named(&["leaf1.h"]).unwrap();
        assert_eq!(chosen, [vec![false; 3], vec![true, false]]);
        assert_eq!(names, ["leaf1.h"]);
        let (chosen, names) = named(&[]).unwrap();
        assert!(chosen.iter().flatten().all(|&is_chosen| is_chosen));
        assert_eq!(names, ["leaf0.h", "leaf0.up0", "leaf0", "leaf1.h", "leaf1"]);
        let error = named(&["h", "up9"]).unwrap_err();
        assert!(
            error.contains("up9") && error.contains("leaf0.up0"),
            "{error}"
        );
    }

    #[test]
    fn directions_are_chosen() {
        let events = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            events(&words)
        };
        assert_eq!(events(&[]), Ok([true; 3]));
        assert_eq!(events(&["dropped", "in"]), Ok([true, false, true]));
        assert!(events(&["up"]).unwrap_err().contains("\"up\""));
    }
}
