// SPDX-License-Identifier: MIT OR Apache-2.0
//! Half MD4: MD4's three rounds (RFC 1320) of eight steps each instead of sixteen, over blocks of 32 characters.

use super::lanes::Word;
use super::load_words;

/// Round constants of MD4.
const CONSTANTS: [u32; 3] = [0, 0x5A82_7999, 0x6ED9_EBA1];
/// Order in which each round takes the words of a block.
const ORDER: [[usize; 8]; 3] = [[0, 1, 2, 3, 4, 5, 6, 7], [1, 3, 5, 7, 0, 2, 4, 6], [3, 7, 2, 6, 1, 5, 0, 4]];
/// Rotations of each round, as in MD4.
const ROTATIONS: [[u32; 4]; 3] = [[3, 7, 11, 19], [3, 5, 9, 13], [3, 9, 11, 15]];

#[inline(always)]
pub(super) fn hash(seed: &[u32; 4], name: &[u8], number: impl Fn(u8) -> u32) -> (u32, u32) {
    let mut state = *seed;
    let mut rest = name;
    while !rest.is_empty() {
        let words = load_words::<8>(rest, &number);
        state = compress(state, &words);
        rest = rest.get(32..).unwrap_or_default();
    }
    (state[1], state[2])
}

/// Takes a block in.
#[inline(always)]
pub(super) fn compress<W: Word>(state: [W; 4], words: &[W; 8]) -> [W; 4] {
    let [mut a, mut b, mut c, mut d] = state;
    for round in 0..3 {
        for step in 0..8 {
            let mixed = match round {
                0 => d.xor(b.and(c.xor(d))),
                1 => b.and(c).or(d.and(b.or(c))),
                _ => b.xor(c).xor(d),
            };
            let word = words[ORDER[round][step]].add(W::splat(CONSTANTS[round]));
            let next = a.add(mixed).add(word).rotate_left(ROTATIONS[round][step % 4]);
            (a, b, c, d) = (d, next, b, c);
        }
    }
    [state[0].add(a), state[1].add(b), state[2].add(c), state[3].add(d)]
}
