//! What happens, line by line: verdicts, links that are named or go, ports that go up and down, switches that
//! come and go. Windows of one outcome are added up in one line.

use std::collections::VecDeque;
use std::time::Duration;

use super::look::{Look, Window};
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
    /// Since the view began; of windows added up, the latest of them.
    pub(super) at: Duration,
    pub(super) tone: Tone,
    pub(super) text: String,
    /// Windows that it adds up, if that is what it does.
    sum: Option<Sum>,
}

/// Windows of one outcome.
#[derive(Clone, PartialEq, Debug)]
struct Sum {
    /// What they have in common.
    what: String,
    windows: u64,
    healthy_paths: u64,
}

/// The lines, the latest last.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) lines: VecDeque<Event>,
}

impl Events {
    pub(super) fn add(&mut self, at: Duration, tone: Tone, text: impl Into<String>) {
        self.push(Event {
            at,
            tone,
            text: text.into(),
            sum: None,
        });
    }

    fn push(&mut self, event: Event) {
        if self.lines.len() == EVENTS_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(event);
    }

    /// Adds a window up with those of the same outcome, as far back as nothing else has happened: what
    /// comes again and again must not push away what comes once.
    fn add_window(&mut self, at: Duration, window: &Window) {
        let way = format!("{} to {}", window.src, window.dst);
        let (tone, what) = if !window.failed.is_empty() {
            let over = window.failed.join(", ");
            (Tone::Bad, format!("failed over {over}: {way}"))
        } else if !window.void.is_empty() {
            (
                Tone::Warn,
                format!("void over {}: {way}", window.void.join(", ")),
            )
        } else {
            (Tone::Good, "without a failure".to_owned())
        };
        let since = self.lines.iter_mut().rev();
        let mut since = since.take_while(|event| event.sum.is_some());
        let same = since.find(|event| event.sum.as_ref().is_some_and(|sum| sum.what == what));
        let mut sum = same
            .as_ref()
            .and_then(|event| event.sum.clone())
            .unwrap_or(Sum {
                what,
                windows: 0,
                healthy_paths: 0,
            });
        sum.windows += 1;
        sum.healthy_paths += window.healthy;
        let windows = match sum.windows {
            1 => "1 window".to_owned(),
            many => format!("{} windows", grouped(many)),
        };
        let text = match tone {
            Tone::Good => {
                let paths = grouped(sum.healthy_paths);
                format!("{windows} {}, {paths} healthy paths", sum.what)
            }
            _ => format!(
                "{}, QP {}, epoch {}; {windows}",
                sum.what, window.qpn, window.epoch
            ),
        };
        let event = Event {
            at,
            tone,
            text,
            sum: Some(sum),
        };
        match same {
            Some(line) => *line = event,
            None => self.push(event),
        }
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
            self.add_window(look.at, window);
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
