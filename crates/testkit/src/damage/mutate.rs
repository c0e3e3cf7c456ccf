// SPDX-License-Identifier: MIT OR Apache-2.0
//! The eight ways in which XFS's field fuzzer damages a field.

use fsmend_base::SeededRandom;

/// A way to damage a little-endian field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// All bits clear.
    Zero,
    /// All bits set.
    Ones,
    /// The highest bit flipped.
    FlipTop,
    /// The middle bit flipped.
    FlipMiddle,
    /// The lowest bit flipped.
    FlipLow,
    /// A small number added.
    Add,
    /// A small number subtracted.
    Subtract,
    /// Anything.
    Random,
}

/// All of them.
pub const MUTATIONS: [Mutation; 8] = [
    Mutation::Zero,
    Mutation::Ones,
    Mutation::FlipTop,
    Mutation::FlipMiddle,
    Mutation::FlipLow,
    Mutation::Add,
    Mutation::Subtract,
    Mutation::Random,
];

impl Mutation {
    /// Damages the field.
    pub fn apply(self, field: &mut [u8], random: &mut SeededRandom) {
        let (first, middle, last) = (0, field.len() / 2, field.len().saturating_sub(1));
        match self {
            Mutation::Zero => field.fill(0),
            Mutation::Ones => field.fill(0xFF),
            Mutation::FlipTop => field[last] ^= 0x80,
            Mutation::FlipMiddle => field[middle] ^= if field.len() == 1 { 0x10 } else { 0x01 },
            Mutation::FlipLow => field[first] ^= 1,
            Mutation::Add => add(field, 17),
            Mutation::Subtract => add(field, 17_u64.wrapping_neg()),
            Mutation::Random => field.fill_with(|| random.next_u64() as u8),
        }
    }
}

/// Adds to the first eight bytes of a field, as far as it has them.
fn add(field: &mut [u8], number: u64) {
    let len = field.len().min(8);
    let mut value = [0; 8];
    value[..len].copy_from_slice(&field[..len]);
    let value = u64::from_le_bytes(value).wrapping_add(number).to_le_bytes();
    field[..len].copy_from_slice(&value[..len]);
}
