//! `cargo xtask picture`: the README's picture of a real run, as an SVG of what the terminal shows.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::Command;

const COMMAND: &str = "$ cargo run --release -- check examples/damaged.qcow2";
const COLUMNS: usize = 80;
/// Lines shown; what follows is cut off with an ellipsis.
const LINES: usize = 44;
const LINE_HEIGHT: usize = 17;
const MARGIN: usize = 16;
const FONT: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/// Runs the release build over the example image and draws what it says into docs/run.svg.
pub fn run(workspace: &Path) -> io::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--", "check", "--color", "always", "examples/damaged.qcow2"])
        .current_dir(workspace)
        .output()?;
    if output.status.code() != Some(4) {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("the check ended with {}: {said}", output.status)));
    }
    let path = workspace.join("docs/run.svg");
    std::fs::write(&path, draw(&format!("{COMMAND}\n{}", String::from_utf8_lossy(&output.stdout))))?;
    println!("{}", path.display());
    Ok(())
}

/// Text with colour codes as an SVG.
fn draw(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.len() > LINES {
        lines.truncate(LINES - 1);
        lines.push("    …");
    }
    let (width, height) = (COLUMNS * 8 + 2 * MARGIN, lines.len() * LINE_HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1e1e2e\"/>\n\
         <g font-family=\"{FONT}\" font-size=\"13\" fill=\"#cdd6f4\" xml:space=\"preserve\" style=\"white-space: pre\">\n"
    );
    for (number, line) in lines.iter().enumerate() {
        let y = MARGIN + number * LINE_HEIGHT + 13;
        let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\">{}</text>", spans(line));
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// A line with every coloured piece in a span of its own.
fn spans(line: &str) -> String {
    let mut out = String::new();
    let mut style = "";
    for (number, piece) in line.split("\x1b[").enumerate() {
        let text = match piece.split_once('m').filter(|_| number > 0) {
            Some((code, text)) => {
                style = attributes(code);
                text
            }
            None => piece,
        };
        let text = escape(text);
        match (text.is_empty(), style) {
            (true, _) => {}
            (false, "") => out.push_str(&text),
            (false, style) => {
                let _ = write!(out, "<tspan {style}>{text}</tspan>");
            }
        }
    }
    out
}

fn attributes(code: &str) -> &'static str {
    match code {
        "1;31" => "fill=\"#f38ba8\" font-weight=\"bold\"",
        "31" => "fill=\"#f38ba8\"",
        "1;32" => "fill=\"#a6e3a1\" font-weight=\"bold\"",
        "33" => "fill=\"#f9e2af\"",
        "36" => "fill=\"#89dceb\"",
        "1" => "font-weight=\"bold\"",
        "2" => "fill=\"#8087a2\"",
        _ => "",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_spans() {
        assert_eq!(
            spans("a: \x1b[1;31mb<c\x1b[0m d"),
            "a: <tspan fill=\"#f38ba8\" font-weight=\"bold\">b&lt;c</tspan> d"
        );
    }

    #[test]
    fn long_reports_are_cut() {
        let svg = draw(&"line\n".repeat(100));
        assert_eq!(svg.matches("<text").count(), LINES);
    }
}
