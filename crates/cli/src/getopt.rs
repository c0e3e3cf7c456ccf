// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line as getopt reads it: clustered letters, values behind a letter or in the next word, options and
//! operands in any order, `--` before operands that begin with a dash.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use lexopt::Arg;

/// The name out of `names` by which a command line calls the program, and the arguments: its own name, or its first argument (so that it can be tried
/// without a link).
pub fn called_by<'a>(names: &[&str], arguments: &'a [OsString]) -> Option<(String, &'a [OsString])> {
    let known = |word: &OsStr| {
        let name = Path::new(word).file_name()?.to_str()?;
        names.contains(&name).then(|| name.to_owned())
    };
    let (program, rest) = arguments.split_first()?;
    if let Some(name) = known(program) {
        return Some((name, rest));
    }
    let (first, rest) = rest.split_first()?;
    let is_word = !first.to_string_lossy().contains('/');
    known(first).filter(|_| is_word).map(|name| (name, rest))
}

/// What stands on a command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The options in their order, each with its value if it takes one.
    pub options: Vec<(char, Option<OsString>)>,
    /// Everything else.
    pub operands: Vec<OsString>,
}

/// Why a command line cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A letter that is none of the options.
    Unknown(char),
    /// An option that needs a value stands at the end.
    ValueMissing(char),
}

/// Reads `arguments` (without the program's name). `letters` lists the options as getopt does: a colon follows those that
/// take a value.
pub fn parse(arguments: &[OsString], letters: &str) -> Result<Words, Trouble> {
    let mut words = Words::default();
    let mut parser = lexopt::Parser::from_args(arguments.to_vec());
    loop {
        match parser.next() {
            Ok(None) => return Ok(words),
            Ok(Some(Arg::Value(operand))) => words.operands.push(operand),
            Ok(Some(Arg::Short(letter))) => {
                let value = match takes_value(letter, letters).ok_or(Trouble::Unknown(letter))? {
                    true => Some(parser.value().map_err(|_| Trouble::ValueMissing(letter))?),
                    false => None,
                };
                words.options.push((letter, value));
            }
            // Here the second dash is a letter, and so is what stands behind a letter without a value.
            Ok(Some(Arg::Long(_))) => return Err(Trouble::Unknown('-')),
            Err(_) => return Err(Trouble::Unknown('=')),
        }
    }
}

/// Whether the option takes a value; `None` when it is none.
fn takes_value(letter: char, letters: &str) -> Option<bool> {
    let at = letters.find(letter).filter(|_| letter != ':')?;
    Some(letters[at + letter.len_utf8()..].starts_with(':'))
}

/// A number as C reads it: decimal, octal behind `0`, hexadecimal behind `0x`.
pub fn number(text: &OsStr) -> Option<i64> {
    let text = text.to_str()?;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    };
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let value = i64::from_str_radix(digits, radix).ok()?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect()
    }

    #[test]
    fn letters_cluster_and_operands_stand_anywhere() {
        let read = parse(&words("-fyC5 /dev/sda -b 32768 -- -odd"), "fyC:b:").unwrap();
        let value = |text: &str| Some(OsString::from(text));
        assert_eq!(read.options, [('f', None), ('y', None), ('C', value("5")), ('b', value("32768"))]);
        assert_eq!(read.operands, ["/dev/sda", "-odd"]);
    }

    #[test]
    fn negative_values_are_values() {
        let read = parse(&words("-C -1 -"), "C:").unwrap();
        assert_eq!(read.options, [('C', Some("-1".into()))]);
        assert_eq!(read.operands, ["-"]);
    }

    #[test]
    fn what_cannot_be_read() {
        assert_eq!(parse(&words("-fQ"), "f"), Err(Trouble::Unknown('Q')));
        assert_eq!(parse(&words("-:"), "f:"), Err(Trouble::Unknown(':')));
        assert_eq!(parse(&words("--force"), "f"), Err(Trouble::Unknown('-')));
        assert_eq!(parse(&words("-f=1"), "f"), Err(Trouble::Unknown('=')));
        assert_eq!(parse(&words("x -fC"), "fC:"), Err(Trouble::ValueMissing('C')));
    }

    #[test]
    fn numbers_of_c() {
        let value = |text: &str| number(OsStr::new(text));
        assert_eq!(
            [value("42"), value("-3"), value("0x10"), value("010"), value("0")],
            [Some(42), Some(-3), Some(16), Some(8), Some(0)]
        );
        assert_eq!([value(""), value("x"), value("1x"), value("--1"), value("09")], [None; 5]);
    }
}
