// SPDX-License-Identifier: MIT OR Apache-2.0
//! A seeded random source (SplitMix64) for tests, damage and workloads: same seed, same sequence, on every
//! machine and in every version.

/// SplitMix64, as published by Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (2014).
#[derive(Clone, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// The sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        SeededRandom(seed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_fixed_forever() {
        let mut random = SeededRandom::new(0);
        assert_eq!(random.next_u64(), 0xE220_A839_7B1D_CDAF);
        assert!((0..1000).all(|_| random.below(10) < 10));
    }
}
