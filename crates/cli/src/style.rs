// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text for a terminal: colours that can be switched off, lines that fit.

use std::io::IsTerminal;

use fsmend_engine::Severity;
pub use fsmend_session::text::printable;

use crate::common_args::When;

/// Width of text where the terminal does not say; lines are never longer than `WIDTH_MAX`.
pub const WIDTH_DEFAULT: usize = 80;
const WIDTH_MIN: usize = 40;
const WIDTH_MAX: usize = 100;

/// Stands for a blank at which no line may be broken. A control character, so that nothing [`printable`] holds it.
pub const NO_BREAK: &str = "\u{1}";

/// How text is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether to use colours.
    pub color: bool,
    /// Columns.
    pub width: usize,
}

/// What a piece of text is, for its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    /// Something is fine.
    Good,
    /// Something is wrong, this badly.
    Severity(Severity),
    /// A heading.
    Bold,
    /// Of less interest.
    Dim,
}

impl Style {
    /// The style for standard output.
    pub fn for_stdout(color: When) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let color = match color {
            When::Auto => terminal && !refused && !dumb,
            When::Always => true,
            When::Never => false,
        };
        let columns = if terminal {
            terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
        } else {
            None
        };
        Style { color, width: columns.unwrap_or(WIDTH_DEFAULT).clamp(WIDTH_MIN, WIDTH_MAX) }
    }

    /// `text` in its colour.
    pub fn paint(self, paint: Paint, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Good => "1;32",
            Paint::Severity(Severity::Critical) => "1;31",
            Paint::Severity(Severity::Major) => "31",
            Paint::Severity(Severity::Minor) => "33",
            Paint::Severity(Severity::Note) => "36",
            Paint::Bold => "1",
            Paint::Dim => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// `text` broken at blanks into lines that fit: the first one behind `first`, the others behind as many blanks.
    /// Words that are longer than a line stay whole (paths are to be copied).
    pub fn wrap(self, first: &str, text: &str) -> String {
        let indent = first.chars().count();
        let room = self.width.saturating_sub(indent).max(20);
        let mut out = String::from(first);
        let mut used = 0;
        for word in text.split(' ') {
            let len = word.chars().count();
            if used > 0 && used + 1 + len > room {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent));
                used = 0;
            } else if used > 0 {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += len;
        }
        out.push('\n');
        out.replace(NO_BREAK, " ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit() {
        let style = Style { color: false, width: 40 };
        let text = style
            .wrap("  - ", "inode 12 (/a/very/long/path/that/does/not/fit/at/all) has the wrong link count");
        assert_eq!(
            text,
            "  - inode 12\n    (/a/very/long/path/that/does/not/fit/at/all)\n    has the wrong link count\n"
        );
    }
}
