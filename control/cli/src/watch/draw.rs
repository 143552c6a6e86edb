//! The view on the terminal: wide, narrow, or so small that only the answer fits.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::bars;
use super::events::Tone;
use super::ports;
use super::theme::Theme;
use super::view::View;
use crate::number::{grouped, percent};

/// From so many columns on two panes stand side by side.
const WIDE_COLUMNS: u16 = 110;
/// With less there is no room for a pane.
const PANE_COLUMNS: u16 = 40;
const PANE_LINES: u16 = 10;

const HELP: &[&str] = &[
    "q        quit",
    "space    pause, go on",
    "n, N     next switch, the one before",
    "up, down scroll the ports",
    "?        this help",
    "",
    "counting  marked packets of the window under way,",
    "          spine by spine; | is the threshold, the",
    "          whole bar an even share",
    "judged    the paths tested last; | is the threshold,",
    "          the whole bar no loss at all",
    "named     links that the evidence names",
];

/// Draws all of it; `now` is the time since the view began.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, now: Duration, theme: Theme) {
    let area = frame.area();
    if area.width < PANE_COLUMNS || area.height < PANE_LINES {
        small(frame, area, view, now, theme);
        return;
    }
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(title(view, now)).style(theme.edge()), top);
    let keys = " q quit  space pause  n next switch  ? help";
    frame.render_widget(Paragraph::new(keys).style(theme.edge()), bottom);
    let middle = gone(frame, middle, view, now, theme);
    if area.width >= WIDE_COLUMNS {
        wide(frame, middle, view, theme);
    } else {
        narrow(frame, middle, view, theme);
    }
    if view.is_help {
        help(frame, area);
    }
}

/// What is watched, and how it does.
fn title(view: &View, now: Duration) -> String {
    let mut parts = vec![" spraycheck".to_owned()];
    match view.position() {
        Some((name, at, all)) => {
            parts.push(format!("{name} ({at} of {all})"));
            let ports = view.ports();
            let up = ports.iter().filter(|row| row.port.is_up()).count();
            parts.push(format!("{up} of {} ports up", ports.len()));
        }
        None => parts.push("nothing seen yet".to_owned()),
    }
    if let Some(busy) = view.busy() {
        parts.push(format!("busy {:.0} %", 100.0 * busy));
    }
    parts.push(clock(now));
    if view.is_paused {
        parts.push("PAUSED".to_owned());
    }
    parts.join("  ")
}

/// Says who does not answer, and returns what room is left.
fn gone(frame: &mut Frame<'_>, area: Rect, view: &View, now: Duration, theme: Theme) -> Rect {
    let lines = gone_lines(view, now);
    let height = (lines.len() as u16).min(area.height / 2);
    let [top, rest] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(area);
    let lines = lines
        .into_iter()
        .map(|line| Line::styled(line, theme.tone(Tone::Bad)));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), top);
    rest
}

fn gone_lines(view: &View, now: Duration) -> Vec<String> {
    let gone = view.sources.iter().filter_map(|source| {
        let (since, why) = source.gone.as_ref()?;
        let seconds = now.saturating_sub(*since).as_secs();
        let name = &source.name;
        Some(format!(
            "GONE for {seconds} s, connecting again: {name}: {why}"
        ))
    });
    gone.collect()
}

fn wide(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(area);
    let named = view.look().map_or(0, |look| look.links.len()).clamp(1, 8) as u16;
    let [upper, lower] =
        Layout::vertical([Constraint::Min(4), Constraint::Length(named + 2)]).areas(left);
    ports::draw(frame, upper, view, theme);
    links(frame, lower, view, theme);
    // What has few spines leaves its room to what happened.
    let need = |bars: usize| Constraint::Length((bars.max(1) as u16 + 2).min(area.height * 2 / 5));
    let [first, second, third] = Layout::vertical([
        need(view.counted().len()),
        need(view.judged().len()),
        Constraint::Min(0),
    ])
    .areas(right);
    counting(frame, first, view, theme);
    judged(frame, second, view, theme);
    events(frame, third, view, theme);
}

fn narrow(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    // The answer first; what has no room is left out.
    let [named, first, second, third, fourth] = if area.height >= 24 {
        Layout::vertical([
            Constraint::Length(4),
            Constraint::Fill(3),
            Constraint::Fill(3),
            Constraint::Fill(3),
            Constraint::Fill(2),
        ])
    } else {
        Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(0),
            Constraint::Fill(1),
            Constraint::Fill(1),
            Constraint::Length(0),
        ])
    }
    .areas(area);
    links(frame, named, view, theme);
    counting(frame, first, view, theme);
    judged(frame, second, view, theme);
    ports::draw(frame, third, view, theme);
    events(frame, fourth, view, theme);
}

/// A line of state and what is named: for a corner of a screen.
fn small(frame: &mut Frame<'_>, area: Rect, view: &View, now: Duration, theme: Theme) {
    let mut lines = vec![Line::styled(title(view, now), theme.edge())];
    let gone = gone_lines(view, now);
    lines.extend(
        gone.into_iter()
            .map(|text| Line::styled(text, theme.tone(Tone::Bad))),
    );
    lines.extend(link_lines(view, theme));
    frame.render_widget(Paragraph::new(lines), area);
}

fn pane(frame: &mut Frame<'_>, area: Rect, title: String, lines: Vec<Line<'_>>) {
    if area.height >= 3 {
        let block = Block::bordered().title(title);
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }
}

fn inner(area: Rect) -> (usize, usize) {
    (
        usize::from(area.width.saturating_sub(2)),
        usize::from(area.height.saturating_sub(2)),
    )
}

fn counting(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    let rows = view.counted();
    let (width, lines) = inner(area);
    let Some(first) = rows.first() else {
        let why = match view.position() {
            Some((name, _, _)) if name.contains("spine") => "a spine judges nothing; n goes on",
            _ => "no window yet",
        };
        let text = vec![Line::styled(why, theme.dim())];
        return pane(frame, area, " counting ".to_owned(), text);
    };
    let state = match (first.state.as_str(), first.announced) {
        ("open", 0) => format!("{} packets", grouped(first.counted_in_all)),
        ("open", all) => {
            let share = 100.0 * first.counted_in_all as f64 / all as f64;
            format!("{share:.0} % of {} packets", grouped(all))
        }
        _ => format!("ended, {} packets", grouped(first.counted_in_all)),
    };
    let title = format!(" counting {} epoch {}: {state} ", first.src, first.epoch);
    let all = rows.into_iter().map(bars::of_counted).collect();
    let lines = bars::lay_out(all, width, lines, theme);
    pane(frame, area, title, lines);
}

fn judged(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    let tests = view.judged();
    let (width, lines) = inner(area);
    let title = match tests.first() {
        Some(test) => format!(" judged {} to {} ", test.src, test.dst),
        None => " judged ".to_owned(),
    };
    let text = match tests.is_empty() {
        true => vec![Line::styled("no path to this switch yet", theme.dim())],
        false => {
            let all = tests.into_iter().map(bars::of_judged).collect();
            bars::lay_out(all, width, lines, theme)
        }
    };
    pane(frame, area, title, text);
}

fn links(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    pane(frame, area, " named ".to_owned(), link_lines(view, theme));
}

fn link_lines(view: &View, theme: Theme) -> Vec<Line<'static>> {
    let looks = view
        .sources
        .iter()
        .filter_map(|source| source.look.as_ref());
    let mut named: Vec<_> = looks.flat_map(|look| &look.links).collect();
    named.sort_by(|a, b| {
        let order = b.is_convicted().cmp(&a.is_convicted());
        order.then(b.drop_rate.total_cmp(&a.drop_rate))
    });
    if named.is_empty() {
        return vec![Line::styled("no link", theme.dim())];
    }
    let line = |named: &super::look::Named| {
        let tone = if named.is_convicted() {
            Tone::Bad
        } else {
            Tone::Warn
        };
        let mut rest = format!(" {} loses {}", named.state, percent(named.drop_rate));
        if let Some([from, to]) = named.ci95 {
            rest += &format!(" (95 %: {} to {})", percent(from), percent(to));
        }
        rest += &match &named.missing {
            Some(missing) => format!("; missing: {missing}"),
            None => format!("; {} paths", named.paths),
        };
        Line::from(vec![
            Span::styled(named.link.clone(), theme.bold()),
            Span::styled(rest, theme.tone(tone)),
        ])
    };
    named.into_iter().map(line).collect()
}

fn events(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    let (_, lines) = inner(area);
    let skipped = view.events.lines.len().saturating_sub(lines);
    let text = view.events.lines.iter().skip(skipped).map(|event| {
        Line::from(vec![
            Span::styled(format!("{} ", clock(event.at)), theme.dim()),
            Span::styled(event.text.clone(), theme.tone(event.tone)),
        ])
    });
    let text = text.collect();
    pane(frame, area, " what happened ".to_owned(), text);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let width = 58.min(area.width);
    let height = (HELP.len() as u16 + 2).min(area.height);
    let over = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, over);
    let lines = HELP.iter().copied().map(Line::raw).collect::<Vec<_>>();
    let block = Block::bordered().title(" help ");
    frame.render_widget(Paragraph::new(lines).block(block), over);
}

/// `0:07`, `12:34`, `100:00`: minutes and seconds.
fn clock(at: Duration) -> String {
    let seconds = at.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
