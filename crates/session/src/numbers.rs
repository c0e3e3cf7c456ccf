// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes as people write them, and numbers as people read them: what families and programs share.

use fsmend_base::ByteLen;

/// Parses a size: a number with an optional suffix K, M, G, T, P or E (powers of 1024; `KiB`, `KB` and lower case
/// mean the same).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "expected a size such as 4096, 512M or 4G".to_owned())?;
    let shift = match suffix.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        "e" => 60,
        _ => return Err(format!("unknown unit {suffix:?}: use K, M, G or T")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| "more than 16 EiB".to_owned())
}

/// A number with its thousands set apart: `1,000,026`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 problem`, `2 problems`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// A number of bytes: `4 KiB`, `1.5 GiB`.
pub fn bytes(number: u64) -> String {
    ByteLen(number).to_string().replace(".0 ", " ")
}

/// What share of `whole` a part is, in percent with one digit after the point.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}%", if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_understood() {
        for (text, size) in [("0", 0), ("4096", 4096), ("512M", 512 << 20), ("4g", 4 << 30), ("1KiB", 1024)] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "5X", "99999999999T", "1 G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_read_well() {
        let written: Vec<_> = [0, 999, 1000, 1_000_026, u64::MAX].into_iter().map(thousands).collect();
        assert_eq!(written, ["0", "999", "1,000", "1,000,026", "18,446,744,073,709,551,615"]);
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(counted(1, "problem", "problems"), "1 problem");
        assert_eq!(percent(1, 0), "0.0%");
    }
}
