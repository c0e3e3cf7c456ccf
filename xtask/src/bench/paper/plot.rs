// SPDX-License-Identifier: MIT OR Apache-2.0
//! Curves as an SVG: a few lines over one axis, the paper's points among them.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 56.0;
const COLOURS: [&str; 6] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2"];

/// Points by the names of the curves that they are on.
pub type Curves = Vec<(String, Vec<(f64, f64)>)>;

/// What is plotted.
pub struct Plot {
    /// What lies along the lower edge.
    pub across: &'static str,
    /// What rises.
    pub upwards: &'static str,
    /// Whether a step along the lower edge is a factor.
    pub logarithmic: bool,
    /// Curves, with their names.
    pub curves: Curves,
}

/// From where to where the values of all curves reach.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    logarithmic: bool,
}

impl Frame {
    fn around(plot: &Plot) -> Self {
        let points = || plot.curves.iter().flat_map(|(_, points)| points);
        let left = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let right = points().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        let top = points().map(|point| point.1).fold(0.0, f64::max);
        Frame { left, right, top: nice(top * 1.05), logarithmic: plot.logarithmic }
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let scale = |value: f64| if self.logarithmic { value.max(1e-9).ln() } else { value };
        let width = (scale(self.right) - scale(self.left)).max(1e-9);
        let part = (scale(x) - scale(self.left)) / width;
        let height = y / self.top.max(1e-9);
        (MARGIN + part * (WIDTH - 2.0 * MARGIN), HEIGHT - MARGIN - height * (HEIGHT - 2.0 * MARGIN))
    }
}

/// The next number at or above `value` that reads well: 1, 2 or 5 and zeroes.
fn nice(value: f64) -> f64 {
    let step = 10f64.powf(value.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * step).find(|nice| *nice >= value).unwrap_or(value)
}

/// Draws it.
pub fn draw(plot: &Plot) -> String {
    let frame = Frame::around(plot);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for step in 0..=5 {
        let value = frame.top * f64::from(step) / 5.0;
        let (x, y) = frame.place((frame.left, value));
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.0} {y:.0}H{:.0}\" stroke=\"#dddddd\"/>\n<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{value}</text>",
            WIDTH - MARGIN,
            x - 6.0,
            y + 4.0
        );
    }
    let mut across: Vec<f64> =
        plot.curves.iter().flat_map(|(_, points)| points.iter().map(|point| point.0)).collect();
    across.sort_by(f64::total_cmp);
    across.dedup();
    for value in across {
        let (x, y) = frame.place((value, 0.0));
        let _ =
            writeln!(svg, "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{value}</text>", y + 16.0);
    }
    for (number, (name, points)) in plot.curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let places: Vec<(f64, f64)> = points.iter().map(|point| frame.place(*point)).collect();
        let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
            line.join(" ")
        );
        for (x, y) in places {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" fill=\"{colour}\">{name}</text>",
            MARGIN + 12.0 + 270.0 * (number % 2) as f64,
            14.0 + 15.0 * (number / 2) as f64
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\n\
         <text x=\"14\" y=\"{:.0}\" transform=\"rotate(-90 14 {:.0})\" text-anchor=\"middle\">{}</text>\n</svg>",
        WIDTH / 2.0,
        HEIGHT - 12.0,
        plot.across,
        HEIGHT / 2.0,
        HEIGHT / 2.0,
        plot.upwards
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_where_their_values_say() {
        let points = vec![(10.0, 0.0), (100.0, 40.0), (1000.0, 80.0)];
        let plot =
            Plot { across: "x", upwards: "y", logarithmic: true, curves: vec![("ours".to_owned(), points)] };
        let frame = Frame::around(&plot);
        assert_eq!(frame.top, 100.0);
        let [a, b, c] = [(10.0, 0.0), (100.0, 40.0), (1000.0, 80.0)].map(|point| frame.place(point));
        assert!((b.0 - a.0 - (c.0 - b.0)).abs() < 1e-9, "factors are steps");
        assert!(a.1 > b.1 && b.1 > c.1, "more is higher");
        let svg = draw(&plot);
        assert!(svg.contains("ours") && svg.matches("<circle").count() == 3);
    }
}
