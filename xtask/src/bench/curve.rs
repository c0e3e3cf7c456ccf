// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plot of some curves over the number of workers, as an SVG.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const MARGIN: f64 = 48.0;
const COLOURS: [&str; 6] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2"];
/// The paper's best: times e2fsck, at this number of threads.
const PAPER: (usize, f64) = (16, 2.6);
const FACTOR_MAX: f64 = 64.0;

/// Where a point lies; both axes are logarithmic.
fn place(workers: usize, times: f64) -> (f64, f64) {
    let part = |value: f64| value.max(1.0).log2() / FACTOR_MAX.log2();
    let x = MARGIN + part(workers as f64) * (WIDTH - 2.0 * MARGIN);
    (x, HEIGHT - MARGIN - part(times) * (HEIGHT - 2.0 * MARGIN))
}

/// The curves, with the limit, the aim, and the paper's best.
pub fn draw(curves: &[(String, Vec<(usize, f64)>)], aim_workers: usize, aim: f64) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for factor in [1, 2, 4, 8, 16, 32, 64] {
        let (x, y) = place(factor, factor as f64);
        let (left, bottom) = place(1, 1.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{factor}</text>\n\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{factor}</text>\n\
             <path d=\"M{left:.0} {y:.0}H{:.0}M{x:.0} {bottom:.0}V{MARGIN}\" stroke=\"#dddddd\"/>",
            bottom + 16.0,
            left - 6.0,
            y + 4.0,
            WIDTH - MARGIN
        );
    }
    let ideal = [1, 64].map(|workers| (workers, workers as f64));
    svg.push_str(&line(&ideal, "#888888", " stroke-dasharray=\"4 4\""));
    for (number, (name, points)) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        svg.push_str(&line(points, colour, ""));
        let y = MARGIN + 16.0 * (number as f64 + 1.0);
        let _ =
            writeln!(svg, "<text x=\"{:.0}\" y=\"{y:.0}\" fill=\"{colour}\">{name}</text>", MARGIN + 12.0);
    }
    svg.push_str(&mark(aim_workers, aim, "aim"));
    svg.push_str(&mark(PAPER.0, PAPER.1, "paper: times e2fsck"));
    let _ = writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">workers</text>\n\
         <text x=\"{MARGIN}\" y=\"{:.0}\">times one worker</text>\n</svg>",
        WIDTH / 2.0,
        HEIGHT - 10.0,
        MARGIN - 14.0
    );
    svg
}

fn line(points: &[(usize, f64)], colour: &str, more: &str) -> String {
    let points: Vec<String> = points
        .iter()
        .map(|(workers, times)| place(*workers, *times))
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    format!(
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{more} points=\"{}\"/>\n",
        points.join(" ")
    )
}

fn mark(workers: usize, times: f64, name: &str) -> String {
    let (x, y) = place(workers, times);
    format!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"black\"/>\n<text x=\"{:.0}\" y=\"{:.0}\">{name}</text>\n",
        x + 8.0,
        y + 14.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_workers_are_one_step() {
        let step = |from| place(2 * from, 1.0).0 - place(from, 1.0).0;
        assert!((step(1) - step(16)).abs() < 1e-9);
        assert!(place(1, 64.0).1 < place(1, 1.0).1, "more is higher");
        assert!(draw(&[("files".to_owned(), vec![(1, 1.0), (2, 1.9)])], 16, 12.0).contains("files"));
    }
}
