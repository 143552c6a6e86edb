//! What the terminal shows, as a value: the latest looks, the lines of what happened, and what the person has
//! chosen. Pure: looks, keys and the time come from outside.

use std::time::Duration;

use super::events::{Events, Tone};
use super::look::{Counted, Look, Port, Queue, Test};
use super::reader::What;

/// A socket that is watched.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) look: Option<Look>,
    /// The one before, for rates.
    pub(super) before: Option<Look>,
    /// Since when nobody answers, and why.
    pub(super) gone: Option<(Duration, String)>,
}

/// What a person can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Quit,
    Pause,
    Next,
    Previous,
    Up,
    Down,
    Help,
}

/// The whole view.
#[derive(Debug)]
pub(super) struct View {
    pub(super) sources: Vec<Source>,
    pub(super) events: Events,
    /// The switch that is shown, and the socket that has it.
    pub(super) chosen: Option<(usize, String)>,
    pub(super) is_paused: bool,
    pub(super) is_help: bool,
    /// Ports scrolled away at the top.
    pub(super) scroll: usize,
}

/// A port with its rates, per second of the lcores' time.
pub(super) struct PortRow<'a> {
    pub(super) port: &'a Port,
    pub(super) queue: Option<&'a Queue>,
    pub(super) in_bps: Option<f64>,
    pub(super) out_bps: Option<f64>,
    pub(super) out_pps: Option<f64>,
    pub(super) discards_ps: Option<f64>,
}

impl<'a> PortRow<'a> {
    /// `span` is the seconds since the look before.
    fn of(source: &'a Source, look: &'a Look, port: &'a Port, span: Option<f64>) -> PortRow<'a> {
        let before = source.before.iter().flat_map(|before| &before.ports);
        let old = before
            .into_iter()
            .find(|old| (&old.switch, &old.port) == (&port.switch, &port.port));
        let rate =
            |value: fn(&Port) -> u64| Some(value(port).checked_sub(value(old?))? as f64 / span?);
        PortRow {
            port,
            queue: look
                .queues
                .iter()
                .find(|queue| (&queue.switch, &queue.port) == (&port.switch, &port.port)),
            in_bps: rate(|port| port.in_octets).map(|rate| 8.0 * rate),
            out_bps: rate(|port| port.out_octets).map(|rate| 8.0 * rate),
            out_pps: rate(|port| port.out_pkts),
            discards_ps: rate(|port| port.out_discards),
        }
    }
}

impl View {
    /// Nothing seen yet of these sockets.
    pub(super) fn new(sources: impl IntoIterator<Item = String>) -> View {
        View {
            sources: sources
                .into_iter()
                .map(|name| Source {
                    name,
                    look: None,
                    before: None,
                    gone: None,
                })
                .collect(),
            events: Events::default(),
            chosen: None,
            is_paused: false,
            is_help: false,
            scroll: 0,
        }
    }

    /// Takes what a reader tells; `now` is the time since the view began.
    pub(super) fn take(&mut self, now: Duration, place: usize, what: What) {
        let Some(source) = self.sources.get_mut(place) else {
            return;
        };
        match what {
            What::Gone(why) => {
                if source.gone.is_none() {
                    let text = format!("{}: gone: {why}", source.name);
                    self.events.add(now, Tone::Bad, text);
                    source.gone = Some((now, why));
                } else if let Some((_, old)) = &mut source.gone {
                    *old = why;
                }
            }
            What::Look(look) => {
                if source.gone.take().is_some() {
                    let text = format!("{}: answers again", source.name);
                    self.events.add(now, Tone::Good, text);
                    // A connection breaks when its process ends: this is another one, with other counters.
                    source.look = None;
                }
                if self.is_paused {
                    return;
                }
                // What begins at zero again, or has not begun yet, cannot be compared with.
                let is_other = |old: &Look| {
                    let sum = |look: &Look| -> u64 {
                        look.ports
                            .iter()
                            .map(|port| port.in_pkts + port.out_pkts)
                            .sum()
                    };
                    sum(&look) < sum(old) || look.switches() != old.switches() || old.time_ms() == 0
                };
                if source.look.as_ref().is_some_and(is_other) {
                    source.look = None;
                }
                self.events.compare(source.look.as_ref(), &look);
                source.before = source.look.replace(*look);
                self.choose_one();
            }
        }
    }

    /// Every switch with its socket.
    pub(super) fn switches(&self) -> Vec<(usize, String)> {
        let each = self.sources.iter().enumerate();
        each.flat_map(|(place, source)| {
            let names = source.look.as_ref().map(Look::switches).unwrap_or_default();
            names
                .into_iter()
                .map(move |name| (place, name.to_owned()))
                .collect::<Vec<_>>()
        })
        .collect()
    }

    /// Chooses the switch of that name, if it is there.
    pub(super) fn choose(&mut self, name: &str) -> bool {
        let found = self.switches().into_iter().find(|(_, own)| own == name);
        let is_there = found.is_some();
        self.chosen = found.or(self.chosen.take());
        is_there
    }

    fn choose_one(&mut self) {
        let all = self.switches();
        if self
            .chosen
            .as_ref()
            .is_none_or(|chosen| !all.contains(chosen))
        {
            self.chosen = all.into_iter().next();
            self.scroll = 0;
        }
    }

    /// What a key does; true if the view is to end.
    pub(super) fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Quit if self.is_help => self.is_help = false,
            Key::Quit => return true,
            Key::Help => self.is_help = !self.is_help,
            Key::Pause => self.is_paused = !self.is_paused,
            Key::Next => self.turn(1),
            Key::Previous => self.turn(-1),
            Key::Up => self.scroll = self.scroll.saturating_sub(1),
            Key::Down => {
                self.scroll = (self.scroll + 1).min(self.ports().len().saturating_sub(1));
            }
        }
        false
    }

    fn turn(&mut self, by: isize) {
        let all = self.switches();
        let at = self.place_of(&all).unwrap_or(0) as isize;
        if !all.is_empty() {
            let next = (at + by).rem_euclid(all.len() as isize) as usize;
            self.chosen = all.into_iter().nth(next);
            self.scroll = 0;
        }
    }

    fn place_of(&self, all: &[(usize, String)]) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        all.iter().position(|one| one == chosen)
    }

    /// Name of the chosen switch, its number from 1, and of how many.
    pub(super) fn position(&self) -> Option<(&str, usize, usize)> {
        let all = self.switches();
        let at = self.place_of(&all)?;
        let (_, name) = self.chosen.as_ref()?;
        Some((name, at + 1, all.len()))
    }

    fn source(&self) -> Option<(&Source, &str)> {
        let (place, name) = self.chosen.as_ref()?;
        Some((self.sources.get(*place)?, name))
    }

    /// The look at the socket of the chosen switch.
    pub(super) fn look(&self) -> Option<&Look> {
        self.source()?.0.look.as_ref()
    }

    /// The ports of the chosen switch.
    pub(super) fn ports(&self) -> Vec<PortRow<'_>> {
        let Some((source, name)) = self.source() else {
            return Vec::new();
        };
        let Some(look) = &source.look else {
            return Vec::new();
        };
        let span = seconds(source.before.as_ref(), look);
        let own = look.ports.iter().filter(|port| port.switch == name);
        own.map(|port| PortRow::of(source, look, port, span))
            .collect()
    }

    /// Part of their rounds in which the lcores of the chosen switch's process moved packets.
    pub(super) fn busy(&self) -> Option<f64> {
        let source = self.source()?.0;
        let sum = |look: &Look| {
            let each = look.lcores.iter();
            each.fold((0, 0), |(all, busy), l| {
                (all + l.rounds, busy + l.busy_rounds)
            })
        };
        let (all, busy) = sum(source.look.as_ref()?);
        let (all_before, busy_before) = sum(source.before.as_ref()?);
        let rounds = all.checked_sub(all_before).filter(|&rounds| rounds > 0)?;
        Some(busy.checked_sub(busy_before)? as f64 / rounds as f64)
    }

    /// The window that the chosen switch counts, or counted last, by spine.
    pub(super) fn counted(&self) -> Vec<&Counted> {
        let (Some(look), Some((_, name))) = (self.look(), self.source()) else {
            return Vec::new();
        };
        let own: Vec<&Counted> = look
            .measured
            .iter()
            .filter(|row| row.switch == name)
            .collect();
        // Each lcore has one; the one that runs, if any does, or the latest.
        let best = own
            .iter()
            .map(|row| (row.state == "open", row.epoch, &*row.src))
            .max();
        own.into_iter()
            .filter(|row| Some((row.state == "open", row.epoch, &*row.src)) == best)
            .collect()
    }

    /// The paths to the chosen switch that were tested last, of one source leaf.
    pub(super) fn judged(&self) -> Vec<&Test> {
        let (Some(look), Some((_, name))) = (self.look(), self.source()) else {
            return Vec::new();
        };
        // `lab-leaf0` is leaf0 of the fabric `lab`.
        let is_own = |dst: &str| {
            name == dst
                || name
                    .strip_suffix(dst)
                    .is_some_and(|rest| rest.ends_with('-'))
        };
        let Some(last) = look.tests.iter().rev().find(|test| is_own(&test.dst)) else {
            return Vec::new();
        };
        let mut paths: Vec<&Test> = Vec::new();
        for test in look.tests.iter().rev() {
            let is_of = (&test.src, &test.dst) == (&last.src, &last.dst);
            if is_of && !paths.iter().any(|path| path.via == test.via) {
                paths.push(test);
            }
        }
        // spine2 before spine10.
        paths.sort_by(|a, b| (a.via.len(), &a.via).cmp(&(b.via.len(), &b.via)));
        paths
    }
}

/// Seconds between two looks, of the lcores' time if that moves.
fn seconds(before: Option<&Look>, look: &Look) -> Option<f64> {
    let before = before?;
    let own = look.time_ms().saturating_sub(before.time_ms()) as f64 / 1e3;
    let seconds = if own > 0.0 {
        own
    } else {
        look.at.saturating_sub(before.at).as_secs_f64()
    };
    (seconds > 0.0).then_some(seconds)
}
