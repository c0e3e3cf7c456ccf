// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: what is reported has a path, and what has lost its name may have had one.

pub mod filter;
pub mod former;
pub mod paths;
pub mod recovered;
pub mod report;
pub mod traces;

/// `name~number` in at most `len_max` bytes: a name that is too long for that loses its end, at the border of a character if it is UTF-8.
pub fn with_suffix(name: &[u8], number: u32, len_max: usize) -> Vec<u8> {
    let suffix = format!("~{number}");
    let mut len = name.len().min(len_max.saturating_sub(suffix.len()));
    if let Ok(text) = std::str::from_utf8(name) {
        while !text.is_char_boundary(len) {
            len -= 1;
        }
    }
    let mut with = name[..len].to_vec();
    with.extend_from_slice(suffix.as_bytes());
    with
}

#[cfg(test)]
mod tests {
    use super::with_suffix;

    #[test]
    fn a_suffix_takes_the_end_of_a_long_name() {
        assert_eq!(with_suffix(b"name", 0, 255), b"name~0");
        assert_eq!(with_suffix(b"name", 12, 4), b"n~12");
        assert_eq!(with_suffix("n\u{e4}me".as_bytes(), 1, 4), b"n~1");
        assert_eq!(with_suffix(b"n", 1, 1), b"~1");
    }
}
