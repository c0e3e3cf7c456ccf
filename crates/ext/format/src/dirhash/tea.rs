//! The Tiny Encryption Algorithm as a hash: each block of 16 characters is the key that encrypts the state.

use super::load_words;

const DELTA: u32 = 0x9E37_79B9;
const ROUNDS: u32 = 16;

#[inline(always)]
pub(super) fn hash(seed: &[u32; 4], name: &[u8], number: impl Fn(u8) -> u32) -> (u32, u32) {
    let mut state = [seed[0], seed[1]];
    let mut rest = name;
    while !rest.is_empty() {
        let key = load_words::<4>(rest, &number);
        let [first, second] = encrypt(state, &key);
        state = [state[0].wrapping_add(first), state[1].wrapping_add(second)];
        rest = rest.get(16..).unwrap_or_default();
    }
    (state[0], state[1])
}

#[inline(always)]
fn encrypt(state: [u32; 2], key: &[u32; 4]) -> [u32; 2] {
    let half = |value: u32, sum: u32, low: u32, high: u32| {
        (value << 4).wrapping_add(low) ^ value.wrapping_add(sum) ^ (value >> 5).wrapping_add(high)
    };
    let [mut first, mut second] = state;
    for round in 1..=ROUNDS {
        let sum = DELTA.wrapping_mul(round);
        first = first.wrapping_add(half(second, sum, key[0], key[1]));
        second = second.wrapping_add(half(first, sum, key[2], key[3]));
    }
    [first, second]
}
