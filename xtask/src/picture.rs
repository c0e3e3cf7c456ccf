// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask picture`: the README's picture of a real run, as an SVG of what the terminal shows.

use std::io;
use std::path::Path;
use std::process::Command;

const COMMAND: &str = "$ cargo run --release -- check examples/damaged.qcow2";
/// Lines shown; what follows is cut off with an ellipsis.
const LINES: usize = 44;
/// Pixels that 80 columns take.
const WIDTH: usize = 720;

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
    anstyle_svg::Term::new().min_width_px(WIDTH).render_svg(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_classes() {
        let svg = draw("a: \x1b[1;31mb<c\x1b[0m d");
        assert!(svg.contains("b&lt;c") && svg.contains("class=\"fg-"), "{svg}");
        assert!(!svg.contains('\x1b'));
    }

    #[test]
    fn long_reports_are_cut() {
        let svg = draw(&"line\n".repeat(100));
        assert_eq!(svg.matches(">line").count(), LINES - 1);
    }
}
