//! What happens, line by line: verdicts, links that are named or go, ports that go up and down, switches that
//! come and go. Windows without a failure are added up in one line.

use std::collections::VecDeque;
use std::time::Duration;

use super::look::Look;
use crate::number::{grouped, percent};

/// Lines that are kept.
const EVENTS_MAX: usize = 200;

/// How a line is to be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tone {
    Plain,
    Good,
    Warn,
    Bad,
}

/// One line.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Event {
    /// Since the view began.
    pub(super) at: Duration,
    pub(super) tone: Tone,
    pub(super) text: String,
}

/// The lines, the latest last.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) lines: VecDeque<Event>,
    /// Windows and healthy paths that the last line adds up, if that is what it does.
    quiet: Option<(u64, u64)>,
}

impl Events {
    pub(super) fn add(&mut self, at: Duration, tone: Tone, text: impl Into<String>) {
        self.quiet = None;
        self.push(at, tone, text.into());
    }

    fn push(&mut self, at: Duration, tone: Tone, text: String) {
        if self.lines.len() == EVENTS_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(Event { at, tone, text });
    }

    fn add_quiet(&mut self, at: Duration, paths: u64) {
        let is_more = self.quiet.is_some();
        let (windows, sum) = self.quiet.unwrap_or_default();
        let (windows, sum) = (windows + 1, sum + paths);
        if is_more {
            self.lines.pop_back();
        }
        let ending = if windows == 1 { "" } else { "s" };
        let text = format!(
            "{} window{ending} without a failure, {} healthy paths",
            grouped(windows),
            grouped(sum)
        );
        self.push(at, Tone::Good, text);
        self.quiet = Some((windows, sum));
    }

    /// What is new in `look` since the one before it.
    pub(super) fn compare(&mut self, before: Option<&Look>, look: &Look) {
        // What was there before somebody watched is no news.
        let Some(before) = before else {
            for named in &look.links {
                self.add(look.at, tone_of(named.is_convicted()), text_of(named));
            }
            return;
        };
        for port in &look.ports {
            let old = before
                .ports
                .iter()
                .find(|old| (&old.switch, &old.port) == (&port.switch, &port.port));
            if old.is_some_and(|old| old.is_up() != port.is_up()) {
                let tone = if port.is_up() { Tone::Good } else { Tone::Bad };
                let text = format!("{} {} is {}", port.switch, port.port, port.oper_status);
                self.add(look.at, tone, text);
            }
        }
        let seen = before.flows.last().map_or(0, |window| window.number);
        for window in look.flows.iter().filter(|window| window.number > seen) {
            let name = format!(
                "{} to {}, QP {}, epoch {}",
                window.src, window.dst, window.qpn, window.epoch
            );
            if !window.failed.is_empty() {
                let text = format!("failed over {}: {name}", window.failed.join(", "));
                self.add(look.at, Tone::Bad, text);
            } else if !window.void.is_empty() {
                let text = format!("void over {}: {name}", window.void.join(", "));
                self.add(look.at, Tone::Warn, text);
            } else {
                self.add_quiet(look.at, window.healthy);
            }
        }
        for named in &look.links {
            let old = before.links.iter().find(|old| old.link == named.link);
            if old.is_none_or(|old| old.state != named.state) {
                self.add(look.at, tone_of(named.is_convicted()), text_of(named));
            }
        }
        for old in &before.links {
            if !look.links.iter().any(|named| named.link == old.link) {
                self.add(
                    look.at,
                    Tone::Good,
                    format!("{} is no longer named", old.link),
                );
            }
        }
    }
}

fn tone_of(is_convicted: bool) -> Tone {
    if is_convicted { Tone::Bad } else { Tone::Warn }
}

fn text_of(named: &super::look::Named) -> String {
    let rate = percent(named.drop_rate);
    match &named.missing {
        Some(missing) => format!(
            "{} is suspect, loses {rate}; missing: {missing}",
            named.link
        ),
        None => format!("{} is {}, loses {rate}", named.link, named.state),
    }
}
