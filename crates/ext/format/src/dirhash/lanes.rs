// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names hashed side by side: one hash waits for itself at every step, those of several names do not wait for each other.
//!
//! The words of eight names stand lane by lane, so that each step of the rounds is one operation on eight numbers: plain Rust,
//! which compilers turn into vector instructions.

#[cfg(target_arch = "x86_64")]
use super::wide;
use super::{NOT_ASCII, effective_seed, finish, half_md4, hash, load_words, signed, tea, unsigned};
use crate::htree::hash_version;
use fsmend_base::width::low_u32;

/// How many names are hashed at once.
pub const LANES: usize = 16;
/// How many of them where the processor has no wider vectors than most.
const EIGHT: usize = 8;

/// A name, with what happens to stand behind it: names in a block are read in whole vectors.
#[derive(Clone, Copy, Default, Debug)]
pub struct NameAt<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl<'a> NameAt<'a> {
    /// The name of the first `len` bytes (at most all of them).
    #[inline]
    pub fn new(bytes: &'a [u8], len: usize) -> Self {
        NameAt { bytes, len: len.min(bytes.len()) }
    }

    /// The name alone.
    pub fn name(&self) -> &'a [u8] {
        &self.bytes[..self.len]
    }

    /// What is left from `start` on; `None` if that is nothing.
    #[inline(always)]
    fn from(&self, start: usize) -> Option<NameAt<'a>> {
        let len = self.len.checked_sub(start).filter(|len| *len > 0)?;
        Some(NameAt { bytes: self.bytes.get(start..)?, len })
    }

    /// The same words as [`load_words`] has, without a branch that depends on the length of the name.
    #[inline(always)]
    fn words<const N: usize>(&self, number: &impl Fn(u8) -> u32) -> [u32; N] {
        let (whole, _) = self.bytes.as_chunks::<4>();
        let Some(whole) = whole.first_chunk::<N>() else { return load_words(self.name(), number) };
        let pad = ((self.len as u64 & 0xFF) * 0x0101_0101) << 32;
        let bits = 8 * low_u32(self.len.min(4 * N) as u64);
        let mut words = [0; N];
        let mut all = 0;
        for (at, word) in words.iter_mut().enumerate() {
            let beyond = 32 - bits.saturating_sub(32 * low_u32(at as u64)).min(32);
            *word = low_u32((pad | u64::from(u32::from_be_bytes(whole[at]))) >> beyond);
            all |= *word;
        }
        if all & NOT_ASCII != 0 { load_words(self.name(), number) } else { words }
    }
}

/// What the rounds of a hash do to a word; a word of each of eight names is one, too.
pub(super) trait Word: Copy {
    fn splat(value: u32) -> Self;
    fn add(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn rotate_left(self, bits: u32) -> Self;
    fn shift_left(self, bits: u32) -> Self;
    fn shift_right(self, bits: u32) -> Self;
}

macro_rules! word {
    ($type:ty, $splat:expr, $each:expr) => {
        impl Word for $type {
            #[inline(always)]
            fn splat(value: u32) -> Self {
                $splat(value)
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $each(self, other, |one, two| u32::wrapping_add(one, two))
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                $each(self, other, |one, two| one & two)
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                $each(self, other, |one, two| one | two)
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                $each(self, other, |one, two| one ^ two)
            }
            #[inline(always)]
            fn rotate_left(self, bits: u32) -> Self {
                $each(self, self, |one, _| u32::rotate_left(one, bits))
            }
            #[inline(always)]
            fn shift_left(self, bits: u32) -> Self {
                $each(self, self, |one, _| one << bits)
            }
            #[inline(always)]
            fn shift_right(self, bits: u32) -> Self {
                $each(self, self, |one, _| one >> bits)
            }
        }
    };
}

word!(u32, |value| value, alone);
word!([u32; EIGHT], |value| [value; EIGHT], lane_by_lane);

#[inline(always)]
fn alone(one: u32, two: u32, work: impl Fn(u32, u32) -> u32) -> u32 {
    work(one, two)
}

#[inline(always)]
fn lane_by_lane(one: [u32; EIGHT], two: [u32; EIGHT], work: impl Fn(u32, u32) -> u32) -> [u32; EIGHT] {
    let mut result = [0; EIGHT];
    for lane in 0..EIGHT {
        result[lane] = work(one[lane], two[lane]);
    }
    result
}

/// The major hashes of sixteen names, as [`hash`] gives them one by one; `None` for versions that cannot be computed.
pub fn majors(version: u8, seed: &[u32; 4], names: &[NameAt<'_>; LANES]) -> Option<[u32; LANES]> {
    if matches!(version, hash_version::HALF_MD4 | hash_version::HALF_MD4_UNSIGNED)
        && let Some(majors) = short_ones(effective_seed(seed), names)
    {
        return Some(majors.map(finish));
    }
    let mut majors = [0; LANES];
    let (halves, _) = majors.as_chunks_mut::<EIGHT>();
    for (half, names) in halves.iter_mut().zip(names.as_chunks::<EIGHT>().0) {
        *half = majors_of_eight(version, seed, names)?;
    }
    Some(majors)
}

/// Half MD4 of short names by the widest instructions; `None` where the processor has none, or not for such names.
#[inline]
fn short_ones(seed: &[u32; 4], names: &[NameAt<'_>; LANES]) -> Option<[u32; LANES]> {
    #[cfg(target_arch = "x86_64")]
    if wide::is_available() {
        let pairs = names.each_ref().map(|name| (name.bytes, name.len));
        // SAFETY: the processor has the instructions, as asked above.
        #[allow(
            unsafe_code,
            reason = "measured hot loop: a sixth of the time of a check of indexed directories"
        )]
        return unsafe { wide::half_md4(seed, &pairs) };
    }
    let _ = (seed, names);
    None
}

fn majors_of_eight(version: u8, seed: &[u32; 4], names: &[NameAt<'_>; EIGHT]) -> Option<[u32; EIGHT]> {
    let start = effective_seed(seed);
    let majors = match version {
        hash_version::HALF_MD4 => half_md4_of(start, names, signed),
        hash_version::HALF_MD4_UNSIGNED => half_md4_of(start, names, unsigned),
        hash_version::TEA => tea_of(start, names, signed),
        hash_version::TEA_UNSIGNED => tea_of(start, names, unsigned),
        _ => {
            let mut majors = [0; EIGHT];
            for (major, name) in majors.iter_mut().zip(names) {
                *major = hash(version, seed, name.name())?.0;
            }
            return Some(majors);
        }
    };
    Some(majors.map(finish))
}

fn half_md4_of(seed: &[u32; 4], names: &[NameAt<'_>; EIGHT], number: impl Fn(u8) -> u32) -> [u32; EIGHT] {
    in_blocks(*seed, names, number, half_md4::compress::<[u32; EIGHT]>)[1]
}

fn tea_of(seed: &[u32; 4], names: &[NameAt<'_>; EIGHT], number: impl Fn(u8) -> u32) -> [u32; EIGHT] {
    in_blocks([seed[0], seed[1]], names, number, tea::absorb::<[u32; EIGHT]>)[0]
}

/// The states that hashing comes to: blocks of `WORDS` words go through `step`, for each name as many as it has.
#[inline(always)]
fn in_blocks<const WORDS: usize, const STATE: usize>(
    seed: [u32; STATE],
    names: &[NameAt<'_>; EIGHT],
    number: impl Fn(u8) -> u32,
    step: impl Fn([[u32; EIGHT]; STATE], &[[u32; EIGHT]; WORDS]) -> [[u32; EIGHT]; STATE],
) -> [[u32; EIGHT]; STATE] {
    let mut states = seed.map(|word| [word; EIGHT]);
    let longest = names.iter().map(|name| name.len).max().unwrap_or(0);
    for start in (0..longest).step_by(4 * WORDS) {
        let mut words = [[0; EIGHT]; WORDS];
        // All bits for names that reach into this block.
        let mut goes_on = [0; EIGHT];
        for (lane, name) in names.iter().enumerate() {
            let Some(rest) = name.from(start) else { continue };
            goes_on[lane] = u32::MAX;
            for (at, word) in rest.words::<WORDS>(&number).into_iter().enumerate() {
                words[at][lane] = word;
            }
        }
        let next = step(states, &words);
        for (state, next) in states.iter_mut().zip(next) {
            *state = state.xor(state.xor(next).and(goes_on));
        }
    }
    states
}
