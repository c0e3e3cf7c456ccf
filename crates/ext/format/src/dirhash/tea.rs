// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Tiny Encryption Algorithm as a hash: each block of 16 characters is the key that encrypts the state.

use super::lanes::Word;
use super::load_words;

const DELTA: u32 = 0x9E37_79B9;
const ROUNDS: u32 = 16;

#[inline(always)]
pub(super) fn hash(seed: &[u32; 4], name: &[u8], number: impl Fn(u8) -> u32) -> (u32, u32) {
    let mut state = [seed[0], seed[1]];
    let mut rest = name;
    while !rest.is_empty() {
        let key = load_words::<4>(rest, &number);
        state = absorb(state, &key);
        rest = rest.get(16..).unwrap_or_default();
    }
    (state[0], state[1])
}

/// Takes a block in.
#[inline(always)]
pub(super) fn absorb<W: Word>(state: [W; 2], key: &[W; 4]) -> [W; 2] {
    let [first, second] = encrypt(state, key);
    [state[0].add(first), state[1].add(second)]
}

#[inline(always)]
fn encrypt<W: Word>(state: [W; 2], key: &[W; 4]) -> [W; 2] {
    let half = |value: W, sum: u32, low: W, high: W| {
        let sum = value.add(W::splat(sum));
        value.shift_left(4).add(low).xor(sum).xor(value.shift_right(5).add(high))
    };
    let [mut first, mut second] = state;
    for round in 1..=ROUNDS {
        let sum = DELTA.wrapping_mul(round);
        first = first.add(half(second, sum, key[0], key[1]));
        second = second.add(half(first, sum, key[2], key[3]));
    }
    [first, second]
}
