// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of case-insensitive directories: what is the same name, and what is a name at all.
//!
//! ext4 compares canonically decomposed (NFD), fully case-folded names without the characters that are ignorable by
//! default, by the tables of Unicode 12.1; a name that is not valid UTF-8 compares, and is hashed, byte by byte.
//!
//! Our tables are newer. Results may differ for characters that Unicode took up after 12.1: to ext4 a name with such
//! a character is not valid and compares byte by byte; to us it may fold or decompose. Such characters have to be in two
//! names of one directory to make a difference that is seen, or in the name of an indexed one.
//!
//! Source: the kernel's `Documentation/admin-guide/ext4.rst` (case-insensitive file name lookups), Unicode UAX #15, UAX #44.

use bitflags::bitflags;
use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;

/// `s_encoding`: UTF-8 by the tables of Unicode 12.1.
pub const ENCODING_UTF8_12_1: u16 = 1;

bitflags! {
    /// `s_encoding_flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct EncodingFlags: u16 {
        /// Names that are not valid are refused.
        const STRICT = 0x1;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

/// Puts what `name` is compared by into `folded`. Returns whether the name was valid; if it was not, `folded` holds
/// the name as it is.
pub fn fold(name: &[u8], folded: &mut Vec<u8>) -> bool {
    folded.clear();
    let Ok(text) = std::str::from_utf8(name) else {
        folded.extend_from_slice(name);
        return false;
    };
    if text.is_ascii() {
        folded.extend(text.bytes().map(|byte| byte.to_ascii_lowercase()));
        return true;
    }
    let mut utf8 = [0; 4];
    for character in text.chars().nfd().default_case_fold().nfd().filter(|c| !is_ignorable(*c)) {
        folded.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
    }
    true
}

/// Whether `name` is valid in strict mode.
pub fn is_valid(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok()
}

/// Default_Ignorable_Code_Point.
fn is_ignorable(character: char) -> bool {
    matches!(
        u32::from(character),
        0xAD | 0x34F
            | 0x61C
            | 0x115F..=0x1160
            | 0x17B4..=0x17B5
            | 0x180B..=0x180F
            | 0x200B..=0x200F
            | 0x202A..=0x202E
            | 0x2060..=0x206F
            | 0x3164
            | 0xFE00..=0xFE0F
            | 0xFEFF
            | 0xFFA0
            | 0xFFF0..=0xFFF8
            | 0x1BCA0..=0x1BCA3
            | 0x1D173..=0x1D17A
            | 0xE0000..=0xE0FFF
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![b'x'];
        fold(name, &mut bytes);
        bytes
    }

    #[test]
    fn names_that_differ_in_case_composition_or_ignorables_are_the_same() {
        let same = [
            ("Straße", "STRASSE"),
            ("ÅNGSTRÖM", "a\u{30A}ngstro\u{308}m"),
            ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
            ("soft\u{AD}hyphen", "SOFTHYPHEN"),
            ("\u{2126}", "\u{3C9}"),
            ("Plain", "pLAIN"),
        ];
        for (one, other) in same {
            assert_eq!(folded(one.as_bytes()), folded(other.as_bytes()), "{one} {other}");
        }
        assert_ne!(folded("ı".as_bytes()), folded(b"i"), "dotless i stays itself");
        assert_ne!(folded("ﬁ".as_bytes()), folded("ﬂ".as_bytes()));
    }

    #[test]
    fn invalid_names_stay_as_they_are() {
        let mut bytes = Vec::new();
        assert!(!fold(b"A\xff", &mut bytes));
        assert_eq!(bytes, b"A\xff");
        assert!(!is_valid(b"\xed\xa0\x80") && !is_valid(b"a\xc0\xaf") && is_valid("ü".as_bytes()));
    }
}
