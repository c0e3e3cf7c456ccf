// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading lines of files that may still grow, or that end in the middle of a line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// No line of ours is longer. What is longer is passed over.
const LINE_MAX: u64 = 64 << 20;

/// How far a file was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Behind the last whole line.
    pub offset: u64,
    /// Whether bytes without a line end follow.
    pub is_torn: bool,
}

/// Gives `take` every whole line of the file at `path` behind `from`, with its offset, and returns where to go on. What has no line end is not
/// given: its writer has not finished it, and may never do so.
pub fn read(path: &Path, from: u64, mut take: impl FnMut(u64, &[u8])) -> io::Result<Position> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() <= from {
        return Ok(Position { offset: from, is_torn: false });
    }
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let (mut offset, mut line) = (from, Vec::new());
    loop {
        line.clear();
        let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? as u64;
        match line.pop() {
            None => return Ok(Position { offset, is_torn: false }),
            Some(b'\n') => take(offset, &line),
            Some(_) if read == LINE_MAX => {
                // It is none of ours: on with the line behind it.
                let Some(rest) = pass_over(&mut reader)? else {
                    return Ok(Position { offset, is_torn: true });
                };
                offset += rest;
            }
            Some(_) => return Ok(Position { offset, is_torn: true }),
        }
        offset += read;
    }
}

/// Passes over the rest of a line; how long it is, or nothing if it does not end.
fn pass_over(reader: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut passed = 0;
    loop {
        let buffer = reader.fill_buf()?;
        let found = buffer.iter().position(|byte| *byte == b'\n');
        let used = found.map_or(buffer.len(), |at| at + 1);
        if used == 0 {
            return Ok(None);
        }
        reader.consume(used);
        passed += used as u64;
        if found.is_some() {
            return Ok(Some(passed));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::io::Write;

    #[test]
    fn a_growing_file_is_read_line_by_line() {
        let path = std::env::temp_dir().join(format!("fsmend-lines-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        let (mut seen, mut at) = (Vec::new(), Position::default());
        for (piece, is_torn) in
            [("one\ntw", true), ("o\n", false), ("", false), ("three", true), ("\n\n", false)]
        {
            file.write_all(piece.as_bytes()).unwrap();
            at = read(&path, at.offset, |_, line| seen.push(String::from_utf8(line.to_vec()).unwrap()))
                .unwrap();
            // What was read before and does not grow is not looked at again.
            assert_eq!(at.is_torn, is_torn, "{piece:?}");
        }
        assert_eq!(seen, ["one", "two", "three", ""]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let path = std::env::temp_dir().join(format!("fsmend-lines-long-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.write_all(b"a\n").unwrap();
        file.set_len(LINE_MAX + 100).unwrap();
        let mut count = 0;
        let at = read(&path, 0, |_, _| count += 1).unwrap();
        assert_eq!((count, at), (1, Position { offset: 2, is_torn: true }));
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"\nb\n").unwrap();
        let mut lines = Vec::new();
        read(&path, 0, |offset, line| lines.push((offset, line.to_vec()))).unwrap();
        assert_eq!(lines, [(0, b"a".to_vec()), (LINE_MAX + 101, b"b".to_vec())]);
        std::fs::remove_file(path).unwrap();
    }
}
