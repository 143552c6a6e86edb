//! The view of recorded states, at several sizes, as snapshots; and what keys and news do to it.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw;
use super::look::Look;
use super::reader::What;
use super::theme::Theme;
use super::view::{Key, View};

/// Two looks at a testbed of four leaves and four spines, half a second apart, while leaf1>spine1 loses 1 %.
const RECORDED: &str = include_str!("recorded.json");

fn looks() -> [Look; 2] {
    let mut looks: [Look; 2] = serde_json::from_str(RECORDED).expect("recorded looks");
    for (look, ms) in looks.iter_mut().zip([3_000, 3_500]) {
        look.at = Duration::from_millis(ms);
    }
    looks
}

fn seen() -> View {
    let mut view = View::new(["run/spraycheck.sock".to_owned()]);
    for look in looks() {
        view.take(look.at, 0, What::Look(Box::new(look)));
    }
    view
}

fn drawn(view: &View, (columns, lines): (u16, u16), now_ms: u64) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a backend");
    let theme = Theme { has_colour: false };
    let now = Duration::from_millis(now_ms);
    terminal
        .draw(|frame| draw::draw(frame, view, now, theme))
        .expect("it is drawn");
    terminal.backend().to_string()
}

#[test]
fn a_wide_terminal_has_everything() {
    let mut view = seen();
    assert!(view.choose("leaf2"));
    insta::assert_snapshot!(drawn(&view, (140, 36), 3_600));
}

#[test]
fn a_usual_terminal_has_panes_below_each_other() {
    let mut view = seen();
    assert!(view.choose("leaf2"));
    insta::assert_snapshot!(drawn(&view, (80, 24), 3_600));
}

#[test]
fn a_low_terminal_has_the_answer_and_the_ports() {
    insta::assert_snapshot!(drawn(&seen(), (60, 14), 3_600));
}

#[test]
fn a_corner_has_the_answer_alone() {
    insta::assert_snapshot!(drawn(&seen(), (34, 5), 3_600));
}

/// Goal: no size at all makes it fall over.
#[test]
fn every_size_is_drawn() {
    let mut view = seen();
    for is_help in [false, true] {
        view.is_help = is_help;
        for columns in (1..=160).step_by(3) {
            for lines in 1..=45 {
                drawn(&view, (columns, lines), 3_600);
            }
        }
    }
}

#[test]
fn nothing_seen_yet_is_said() {
    let view = View::new(["run/spraycheck.sock".to_owned()]);
    insta::assert_snapshot!(drawn(&view, (80, 12), 100));
}

#[test]
fn a_spine_and_the_help_are_shown() {
    let mut view = seen();
    assert!(view.choose("spine1"));
    view.press(Key::Pause);
    view.press(Key::Help);
    insta::assert_snapshot!(drawn(&view, (120, 30), 3_600));
}

/// Goal: who is gone is said with the reason and for how long; what was seen last stays; who comes back, is
/// said to, and a restart is no negative rate.
#[test]
fn one_who_goes_and_comes_back_is_told() {
    let mut view = seen();
    let gone = || What::Gone("no answer from run/spraycheck.sock: Broken pipe".to_owned());
    view.take(Duration::from_secs(4), 0, gone());
    view.take(Duration::from_secs(5), 0, gone());
    let screen = drawn(&view, (140, 36), 9_000);
    assert!(
        screen.contains("GONE for 5 s, connecting again"),
        "{screen}"
    );
    assert!(screen.contains("leaf0 (1 of 8)"), "{screen}");
    let [first, _] = looks();
    view.take(Duration::from_secs(10), 0, What::Look(Box::new(first)));
    let told: Vec<&str> = view.events.lines.iter().map(|event| &*event.text).collect();
    let has = |text: &str| told.iter().any(|line| line.contains(text));
    assert!(has("gone: no answer"), "{told:?}");
    assert!(has("answers again"), "{told:?}");
    assert_eq!(told.iter().filter(|line| line.contains("gone")).count(), 1);
    assert!(
        view.ports().iter().all(|row| row.in_bps.is_none()),
        "nothing to compare"
    );
    assert!(!drawn(&view, (140, 36), 11_000).contains("GONE"));
}

/// Goal: rates are differences over the lcores' own time, and none without a look before.
#[test]
fn rates_are_differences() {
    let mut view = View::new(["s".to_owned()]);
    let [first, second] = looks();
    let span = (second.time_ms() - first.time_ms()) as f64 / 1e3;
    let expected = (second.ports[0].out_octets - first.ports[0].out_octets) as f64 * 8.0 / span;
    view.take(first.at, 0, What::Look(Box::new(first)));
    assert!(view.ports()[0].out_bps.is_none());
    view.take(second.at, 0, What::Look(Box::new(second)));
    let rate = view.ports()[0].out_bps.expect("a rate");
    assert!(
        (rate - expected).abs() < 1.0 && rate > 0.0,
        "{rate} {expected}"
    );
}

/// Goal: keys go round the switches, pause keeps what is there, q closes the help first.
#[test]
fn keys_do_what_the_help_says() {
    let mut view = seen();
    let name = |view: &View| {
        view.position()
            .map(|(name, at, all)| (name.to_owned(), at, all))
    };
    assert_eq!(name(&view), Some(("leaf0".to_owned(), 1, 8)));
    view.press(Key::Previous);
    assert_eq!(name(&view), Some(("spine3".to_owned(), 8, 8)));
    view.press(Key::Next);
    view.press(Key::Next);
    assert_eq!(name(&view), Some(("leaf1".to_owned(), 2, 8)));
    for _ in 0..100 {
        view.press(Key::Down);
    }
    assert_eq!(view.scroll, view.ports().len() - 1);
    view.press(Key::Pause);
    let [first, _] = looks();
    view.take(Duration::from_secs(4), 0, What::Look(Box::new(first)));
    assert_eq!(
        view.look().map(|look| look.at),
        Some(Duration::from_millis(3_500))
    );
    view.press(Key::Help);
    assert!(!view.press(Key::Quit) && !view.is_help && view.press(Key::Quit));
}

/// Goal: what happens is told once: ports, verdicts, links that are named and no longer.
#[test]
fn news_is_told_once() {
    let mut view = seen();
    let [_, mut look] = looks();
    let before = view.events.lines.len();
    look.ports[0].oper_status = "down".to_owned();
    let mut window = look.flows.last().expect("a window").clone();
    for (failed, void) in [
        (vec!["spine1"], vec![]),
        (vec![], vec!["spine2"]),
        (vec![], vec![]),
    ] {
        window.number += 1;
        window.failed = failed.into_iter().map(str::to_owned).collect();
        window.void = void.into_iter().map(str::to_owned).collect();
        look.flows.push(window.clone());
    }
    window.number += 1;
    look.flows.push(window);
    look.links.clear();
    view.take(
        Duration::from_secs(4),
        0,
        What::Look(Box::new(look.clone())),
    );
    let told = |view: &View| -> Vec<String> {
        let new = view.events.lines.iter().skip(before);
        new.map(|event| event.text.clone()).collect()
    };
    let lines = told(&view);
    assert!(lines[0].ends_with("is down"), "{lines:?}");
    assert!(lines[1].starts_with("failed over spine1: "), "{lines:?}");
    assert!(lines[2].starts_with("void over spine2: "), "{lines:?}");
    assert!(
        lines[3].starts_with("2 windows without a failure"),
        "{lines:?}"
    );
    assert!(lines[4].ends_with("is no longer named"), "{lines:?}");
    view.take(Duration::from_secs(5), 0, What::Look(Box::new(look)));
    assert_eq!(told(&view), lines, "nothing is new");
}
