// SPDX-License-Identifier: MIT OR Apache-2.0
//! A figure of the paper, as a table and a plot of ours.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::plot::{self, Plot};

/// Rows under headings.
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Without rows.
    pub fn new(headings: &[&str]) -> Self {
        Table { headings: headings.iter().map(|word| (*word).to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table, in Markdown.
    pub fn text(&self) -> String {
        let mut text =
            format!("| {} |\n|{}\n", self.headings.join(" | "), "---|".repeat(self.headings.len()));
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

/// A figure.
pub struct Figure {
    /// Its number in the paper.
    pub number: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// What the paper says.
    pub paper: &'static str,
    /// What we measured.
    pub table: Table,
    /// Where and why we differ.
    pub ours: &'static str,
    /// The same as curves.
    pub plot: Option<Plot>,
}

impl Figure {
    /// The figure for the document; its plot goes into a file in `folder`.
    pub fn text(&self, folder: &Path) -> io::Result<String> {
        let mut text = format!("## Figure {}: {}\n\nThe paper: {}.\n\n", self.number, self.title, self.paper);
        text.push_str(&self.table.text());
        if let Some(plot) = &self.plot {
            let name = format!("paper-ffsck-{}.svg", self.number.replace(' ', ""));
            std::fs::write(folder.join(&name), plot::draw(plot))?;
            let _ = write!(text, "\n![Figure {}]({name})\n", self.number);
        }
        if !self.ours.is_empty() {
            let _ = write!(text, "\n{}\n", self.ours);
        }
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_what_markdown_wants() {
        let mut table = Table::new(&["a", "b"]);
        table.push(vec!["1".to_owned(), "2".to_owned()]);
        assert_eq!(table.text(), "| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
