// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words for what became of a volume, from best to worst. They are those of a report on one target, and `crashed`.

/// Nothing is wrong.
pub const SOUND: &str = "sound";
/// Something was suspected that could not be confirmed.
pub const UNCONFIRMED: &str = "unconfirmed";
/// It could not be checked.
pub const REFUSED: &str = "refused";
/// Its check did not come to an end, however often it was tried.
pub const CRASHED: &str = "crashed";
/// Something is wrong.
pub const DAMAGED: &str = "damaged";

/// Whether the word tells of a check that came to its end.
pub fn is_of_check(verdict: &str) -> bool {
    matches!(verdict, SOUND | UNCONFIRMED | DAMAGED)
}

/// How bad it is: a report begins with the highest.
pub fn rank(verdict: &str) -> u8 {
    match verdict {
        SOUND => 0,
        UNCONFIRMED => 1,
        REFUSED => 2,
        CRASHED => 3,
        DAMAGED => 4,
        _ => 2,
    }
}

/// The bits of an exit status for a record that has none.
pub fn exit_code(verdict: &str) -> u8 {
    match verdict {
        SOUND => 0,
        DAMAGED => 4,
        _ => 8,
    }
}
