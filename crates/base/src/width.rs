// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers in another width, where losing bits is meant or cannot happen. Everywhere else `try_from` says what does not fit.

/// The low 8 bits of `value`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the other bits are stored elsewhere, or do not count")]
pub const fn low_u8(value: u64) -> u8 {
    value as u8
}

/// The low 16 bits of `value`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the other bits are stored elsewhere, or do not count")]
pub const fn low_u16(value: u64) -> u16 {
    value as u16
}

/// The low 32 bits of `value`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the other bits are stored elsewhere, or do not count")]
pub const fn low_u32(value: u64) -> u32 {
    value as u32
}

/// The low 64 bits of `value`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the other bits are taken apart from these")]
pub const fn low_u64(value: u128) -> u64 {
    value as u64
}

/// A length in memory in 8 bits; the largest number where it does not fit.
#[inline]
pub fn len_u8(len: usize) -> u8 {
    u8::try_from(len).unwrap_or(u8::MAX)
}

/// A length in memory in 16 bits; the largest number where it does not fit.
#[inline]
pub fn len_u16(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// A length in memory in 32 bits; the largest number where it does not fit.
#[inline]
pub fn len_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// The whole number of an estimate: 0 where it is negative or no number, the largest number where it does not fit.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such a cast stays within what fits"
)]
pub const fn whole(estimate: f64) -> u64 {
    estimate as u64
}

/// `value` as an index; where it does not fit, one that no slice has.
#[inline]
pub fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// `value` with a sign; the largest number where it does not fit.
#[inline]
pub fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit() {
        assert_eq!((low_u8(0x1_02), low_u16(0x1_0002), low_u32(0x1_0000_0002)), (2, 2, 2));
        assert_eq!((signed(u64::MAX), signed(7)), (i64::MAX, 7));
        assert_eq!(index(7), 7);
        assert_eq!((len_u8(300), len_u16(70_000), len_u32(1 << 33)), (u8::MAX, u16::MAX, u32::MAX));
        assert_eq!(low_u64((1 << 64) + 2), 2);
        assert_eq!((whole(-1.0), whole(f64::NAN), whole(2.9), whole(1e30)), (0, 0, 2, u64::MAX));
    }
}
