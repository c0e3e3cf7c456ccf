// SPDX-License-Identifier: MIT OR Apache-2.0
//! The syntax of e2fsck.conf: sections in brackets, `tag = value`, `tag = { ... }`, comments behind `;` or `#`.
//!
//! Whatever the file holds, reading it ends with the relations that could be understood and the lines that could not.

/// Relations may be this deep in braces; deeper ones are skipped.
const DEPTH_MAX: usize = 8;

/// The relations of a file, each with the path of names that leads to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    relations: Vec<(Vec<String>, String)>,
    /// Numbers of lines that make no sense.
    pub odd_lines: Vec<usize>,
}

impl Profile {
    /// Reads the text of a file.
    pub fn parse(text: &str) -> Self {
        let mut profile = Profile::default();
        let mut path: Vec<String> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if profile.read_line(line.trim(), &mut path).is_none() {
                profile.odd_lines.push(number);
            }
        }
        profile
    }

    fn read_line(&mut self, line: &str, path: &mut Vec<String>) -> Option<()> {
        if line.is_empty() || line.starts_with([';', '#']) {
            return Some(());
        }
        if let Some(section) = line.strip_prefix('[') {
            let (name, _) = section.split_once(']')?;
            *path = vec![name.trim().to_owned()];
            return Some(());
        }
        if line.starts_with('}') {
            // The section itself has no brace to close.
            return if path.len() > 1 { path.pop().map(drop) } else { None };
        }
        let (tag, value) = line.split_once('=')?;
        let (tag, value) = (unquote(tag.trim().trim_end_matches('*')), value.trim());
        if tag.is_empty() || path.is_empty() {
            return None;
        }
        let mut full = path.clone();
        full.push(tag);
        if value.starts_with('{') {
            if path.len() >= DEPTH_MAX {
                return None;
            }
            *path = full;
        } else {
            self.relations.push((full, unquote(value)));
        }
        Some(())
    }

    /// The first value of a relation.
    pub fn get(&self, path: &[&str]) -> Option<&str> {
        self.relations.iter().find(|(at, _)| at == path).map(|(_, value)| value.as_str())
    }

    /// A relation that is true or false. Words that say neither count as not there.
    pub fn flag(&self, path: &[&str]) -> Option<bool> {
        match self.get(path)?.to_ascii_lowercase().as_str() {
            "y" | "yes" | "true" | "t" | "1" | "on" => Some(true),
            "n" | "no" | "false" | "nil" | "0" | "off" => Some(false),
            _ => None,
        }
    }

    /// A relation that is a number.
    pub fn number(&self, path: &[&str]) -> Option<u64> {
        let text = self.get(path)?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// The names of the subsections of a section, each once.
    pub fn subsections(&self, section: &str) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .relations
            .iter()
            .filter(|(path, _)| path.len() > 2 && path[0] == section)
            .map(|(path, _)| path[1].as_str())
            .collect();
        names.dedup();
        names
    }
}

/// Takes quotes off and resolves what backslashes stand for between them. Outside quotes the text stays as it is.
fn unquote(text: &str) -> String {
    let Some(quoted) = text.strip_prefix('"') else { return text.to_owned() };
    let mut plain = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some('b') => plain.push('\u{8}'),
                Some(other) => plain.push(other),
                None => {}
            },
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use fsmend_base::SeededRandom;

    use super::*;

    const EXAMPLE: &str = "; how we like it\n\
        [options]\n\tbroken_system_clock = yes\n  log_dir = \"/var/log/a b\\\\c\"\n# more\n  max_count_problems=16\n\
        [problems]\n 0x040002 = {\n  preen_ok = true\n  description = \"x = {\"\n }\n 0x010001 = {\n no_ok = 0\n }\n\
        [defaults]\nundo_dir = none\nundo_dir = /other\n";

    #[test]
    fn relations() {
        let profile = Profile::parse(EXAMPLE);
        assert!(profile.odd_lines.is_empty(), "{:?}", profile.odd_lines);
        assert_eq!(profile.flag(&["options", "broken_system_clock"]), Some(true));
        assert_eq!(profile.get(&["options", "log_dir"]), Some("/var/log/a b\\c"));
        assert_eq!(profile.number(&["options", "max_count_problems"]), Some(16));
        assert_eq!(profile.flag(&["problems", "0x040002", "preen_ok"]), Some(true));
        assert_eq!(profile.flag(&["problems", "0x010001", "no_ok"]), Some(false));
        assert_eq!(profile.get(&["defaults", "undo_dir"]), Some("none"), "the first one counts");
        assert_eq!(profile.get(&["options", "undo_dir"]), None);
        assert_eq!(profile.subsections("problems"), ["0x040002", "0x010001"]);
    }

    #[test]
    fn odd_lines_are_passed_over() {
        let profile =
            Profile::parse("stray = 1\n}\n[open\n[options]\nno equals\n= x\na = maybe\nb = 7x\n}\n");
        assert_eq!(profile.odd_lines, [1, 2, 3, 5, 6, 9]);
        assert_eq!(profile.flag(&["options", "a"]), None);
        assert_eq!(profile.number(&["options", "b"]), None);
    }

    /// The body of a fuzz target: any bytes are read to the end.
    fn survives(bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let profile = Profile::parse(&text);
        assert!(profile.relations.len() + profile.odd_lines.len() <= text.lines().count());
        for name in profile.subsections("problems") {
            profile.flag(&["problems", name, "preen_ok"]);
        }
    }

    #[test]
    fn any_bytes_are_survived() {
        const PIECES: [&str; 12] =
            ["[", "]", "{\n", "}\n", "=", "\"", "\\", "\n", "a", " ", "\u{e9}", "[problems]\n"];
        let mut random = SeededRandom::new(7);
        for _ in 0..2_000 {
            let mut bytes = EXAMPLE.as_bytes().to_vec();
            for _ in 0..random.below(12) {
                let at = random.below(bytes.len() as u64) as usize;
                let piece = PIECES[random.below(PIECES.len() as u64) as usize];
                bytes.splice(at..at, piece.bytes());
                bytes[at] = random.below(256) as u8;
            }
            survives(&bytes);
        }
        survives("[a]\n".repeat(10).as_bytes());
        survives(format!("[a]\n{}", "b = {\n".repeat(1000)).as_bytes());
    }
}
