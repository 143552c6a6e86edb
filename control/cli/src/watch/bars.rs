//! A spine a line: how many marked packets came over it, as a bar with the threshold as a mark in it.

use ratatui::text::{Line, Span};

use super::events::Tone;
use super::look::{Counted, Test};
use super::theme::Theme;
use crate::number::{grouped, percent};

/// Columns of a bar, at least; with less room there is none.
const BAR_MIN: usize = 6;
/// And at most.
const BAR_MAX: usize = 30;

/// One line, before it is laid out.
pub(super) struct Bar {
    name: String,
    /// How much of it is full, 0 to 1.
    share: f64,
    /// Where the mark is, 0 to 1.
    mark: Option<f64>,
    text: String,
    tone: Tone,
}

/// Of a window that is counted: the whole bar is an even share of it.
pub(super) fn of_counted(row: &Counted) -> Bar {
    let expected = row.expected.filter(|&expected| expected > 0.0);
    let counted = row.counted as f64;
    let threshold = row.threshold.map(|threshold| threshold as f64);
    // What has not come yet is not missing.
    let is_below =
        row.state != "open" && !row.void && threshold.is_some_and(|threshold| counted < threshold);
    let (tone, state) = match (row.void, is_below) {
        (true, _) => (Tone::Warn, "  void"),
        (_, true) => (Tone::Bad, "  below"),
        _ => (Tone::Plain, ""),
    };
    let of = expected.map_or(String::new(), |e| {
        format!(" of {}", grouped(e.round() as u64))
    });
    Bar {
        name: row.via.clone(),
        share: expected.map_or(0.0, |expected| counted / expected),
        mark: expected.and_then(|expected| Some(threshold? / expected)),
        text: format!("{}{of}{state}", grouped(row.counted)),
        tone,
    }
}

/// Of a path that was judged: the threshold is the middle, what was expected the end, so that losses of a
/// few in a thousand are seen.
pub(super) fn of_judged(test: &Test) -> Bar {
    let room = test.expected - test.threshold;
    // A test adds its own drops to what it has received: they are no loss.
    let arrived = test.expected - test.lost;
    let share = if room > 0.0 {
        0.5 + 0.5 * (arrived - test.threshold) / room
    } else {
        arrived / test.expected.max(1.0)
    };
    let (tone, word) = match test.state() {
        "failed" => (Tone::Bad, "failed"),
        "healthy" => (Tone::Good, "healthy"),
        "void" => (Tone::Warn, "void"),
        _ => (Tone::Plain, "too few"),
    };
    let rate = (test.lost / test.expected.max(1.0)).max(0.0);
    Bar {
        name: test.via.clone(),
        share,
        mark: (room > 0.0).then_some(0.5),
        text: format!(
            "{} of {}  lost {}  {word}",
            grouped(test.received),
            grouped(test.expected.round() as u64),
            percent(rate)
        ),
        tone,
    }
}

/// The bars as lines of `width` columns, `lines` at most: if there are more, those with the least come first.
pub(super) fn lay_out(
    mut bars: Vec<Bar>,
    width: usize,
    lines: usize,
    theme: Theme,
) -> Vec<Line<'static>> {
    let hidden = match bars.len() > lines {
        true => bars.len() - lines.saturating_sub(1),
        false => 0,
    };
    if hidden > 0 {
        bars.sort_by(|a, b| a.share.total_cmp(&b.share));
        bars.truncate(lines.saturating_sub(1));
    }
    let longest = |text: fn(&Bar) -> &str| {
        let each = bars.iter().map(|bar| text(bar).chars().count());
        each.max().unwrap_or(0)
    };
    let (name, text) = (longest(|bar| &bar.name), longest(|bar| &bar.text));
    // A space and two edges around the bar, and one before the text.
    let room = width.saturating_sub(name + text + 4).min(BAR_MAX);
    let mut all: Vec<Line<'static>> = bars
        .iter()
        .map(|bar| {
            let mut spans = vec![Span::raw(format!("{:<name$} ", bar.name))];
            if room >= BAR_MIN {
                spans.push(Span::styled(draw(bar, room), theme.tone(bar.tone)));
                spans.push(Span::raw(" "));
            }
            spans.push(Span::styled(bar.text.clone(), theme.tone(bar.tone)));
            Line::from(spans)
        })
        .collect();
    if hidden > 0 && lines > 0 {
        all.push(Line::styled(
            format!("and {hidden} spines with more"),
            theme.dim(),
        ));
    }
    all
}

/// `[======|==  ]`: letters that every terminal has.
fn draw(bar: &Bar, room: usize) -> String {
    let place = |share: f64| (share.clamp(0.0, 1.0) * room as f64).round() as usize;
    let full = place(bar.share);
    let mark = bar.mark.map(|mark| place(mark).min(room - 1));
    let cell = |column: usize| match (Some(column) == mark, column < full) {
        (true, _) => '|',
        (_, true) => '=',
        _ => ' ',
    };
    let cells: String = (0..room).map(cell).collect();
    format!("[{cells}]")
}
