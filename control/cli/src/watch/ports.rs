//! The pane of ports: rates, losses, and how full the queues are.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Text;
use ratatui::widgets::{Block, Row, Table};

use super::events::Tone;
use super::theme::Theme;
use super::view::{PortRow, View};
use crate::number::significant;

const TITLES: [&str; 7] = ["port", "", "in", "out", "packets", "drops", "queue"];
const WIDTHS: [u16; 7] = [9, 4, 8, 8, 8, 6, 8];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    if area.height < 3 {
        return;
    }
    let ports = view.ports();
    let lines = usize::from(area.height.saturating_sub(3));
    // No further than to the last one.
    let first = view.scroll.min(ports.len().saturating_sub(lines));
    let title = match ports.len() > lines && lines > 0 {
        true => {
            let last = (first + lines).min(ports.len());
            format!(" ports {} to {last} of {} ", first + 1, ports.len())
        }
        false => " ports ".to_owned(),
    };
    let rows = ports.iter().skip(first).map(|port| row(port, theme));
    let header = TITLES
        .iter()
        .enumerate()
        .map(|(column, title)| cell(column, title));
    let table = Table::new(rows, WIDTHS.map(Constraint::Length))
        .header(Row::new(header).style(theme.dim()))
        .block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

fn row<'a>(row: &PortRow<'_>, theme: Theme) -> Row<'a> {
    let tone = match (row.port.is_up(), row.discards_ps) {
        (false, _) => Tone::Bad,
        (true, Some(drops)) if drops > 0.0 => Tone::Warn,
        _ => Tone::Plain,
    };
    let bits = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| scaled(rate, "b"));
    let count = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| scaled(rate, ""));
    let queue = row.queue.map_or("-".to_owned(), |queue| {
        scaled(queue.queue_bytes as f64, "B")
    });
    let cells = [
        row.port.port.clone(),
        row.port.oper_status.clone(),
        bits(row.in_bps),
        bits(row.out_bps),
        count(row.out_pps),
        count(row.discards_ps),
        queue,
    ];
    let cells = cells
        .iter()
        .enumerate()
        .map(|(column, text)| cell(column, text));
    Row::new(cells.collect::<Vec<_>>()).style(theme.tone(tone))
}

/// Names to the left, numbers to the right.
fn cell<'a>(column: usize, text: &str) -> Text<'a> {
    let text = Text::from(text.to_owned());
    if column < 2 {
        text
    } else {
        text.right_aligned()
    }
}

/// `9.87 Gb`, `12.3 k`: three digits and a prefix of the SI.
fn scaled(number: f64, unit: &str) -> String {
    let steps = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let step = steps.into_iter().find(|&(size, _)| number >= size);
    let (size, prefix) = step.unwrap_or((1.0, ""));
    let text = significant(number / size);
    match prefix.is_empty() && unit.is_empty() {
        true => text,
        false => format!("{text} {prefix}{unit}"),
    }
}
