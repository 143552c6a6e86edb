//! An experiment as a plot: one line for each way of spraying, in SVG.

use std::collections::BTreeMap;
use std::path::Path;

use fabric::experiment::{Experiment, Rows};
use plotters::prelude::*;

use crate::failure::{ENVIRONMENT, Failure};

const SIZE: (u32, u32) = (960, 600);
/// Okabe and Ito's colours, which colour-blind readers tell apart.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

/// Draws the rows' values over their places.
pub(super) fn write(path: &Path, experiment: &Experiment, rows: &Rows) -> Result<(), Failure> {
    draw(path, experiment, rows)
        .map_err(|error| Failure::new(ENVIRONMENT, format!("--plot: {}: {error}", path.display())))
}

fn draw(
    path: &Path,
    experiment: &Experiment,
    rows: &Rows,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows {
        let (series, x) = row.place();
        lines.entry(series).or_default().push((x, row.value));
    }
    let xs = || rows.iter().map(|row| row.place().1);
    let (low, high) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    let top = rows
        .iter()
        .map(|row| row.value)
        .fold(0.0, f64::max)
        .max(1e-3);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let left = if low.is_finite() { low.min(0.0) } else { 0.0 };
    let mut chart = ChartBuilder::on(&root)
        .caption(
            format!("{}: {}", experiment.name, experiment.about),
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(left..high.max(left + 1e-6) * 1.02, 0.0..top * 1.1)?;
    chart
        .configure_mesh()
        .x_desc(experiment.axes[0])
        .y_desc(experiment.axes[1])
        .draw()?;
    for (index, (name, mut points)) in lines.into_iter().enumerate() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let colour = COLOURS[index % COLOURS.len()];
        chart
            .draw_series(LineSeries::new(
                points.iter().copied(),
                colour.stroke_width(2),
            ))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}
