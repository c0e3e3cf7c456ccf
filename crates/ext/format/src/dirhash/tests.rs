// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used)]
use super::*;
use crate::htree::hash_version::{HALF_MD4, LEGACY, TEA};

/// Bytes of 00112233-4455-6677-8899-aabbccddeeff as little-endian words.
const SEED: [u32; 4] = [0x3322_1100, 0x7766_5544, 0xBBAA_9988, 0xFFEE_DDCC];
const LONG: &str = "a-name-of-more-than-thirty-two-characters-in-length";

/// What debugfs computes for these names.
#[test]
fn hashes_are_those_of_debugfs() {
    let cases = [
        (LEGACY, [0; 4], "a", (0xe74b53e2, 0)),
        (LEGACY, SEED, "file0000001", (0x6e16ee64, 0)),
        (LEGACY, SEED, LONG, (0x16b8797a, 0)),
        (LEGACY, SEED, "Grüße", (0x7bba20ce, 0)),
        (HALF_MD4, SEED, "a", (0x93752ee6, 0x578c30ba)),
        (HALF_MD4, [0; 4], "a", (0xd5fa7d7a, 0xacb48187)),
        (HALF_MD4, SEED, "file0000001", (0x9122ba96, 0xf01db00b)),
        (HALF_MD4, [0; 4], LONG, (0xede0152a, 0x98ae7513)),
        (HALF_MD4, SEED, LONG, (0x125ccc2, 0x642ea01c)),
        (HALF_MD4, [0; 4], "Grüße", (0x8069ed98, 0x7513aca6)),
        (TEA, SEED, "a", (0xf9b90e84, 0x211795e4)),
        (TEA, [0; 4], "hello", (0x6f5bb1a8, 0x231917c2)),
        (TEA, SEED, LONG, (0x978b873c, 0x5b90a258)),
        (TEA, [0; 4], "Grüße", (0x130df4a2, 0x93073b27)),
    ];
    for (version, seed, name, expected) in cases {
        assert_eq!(hash(version, &seed, name.as_bytes()), Some(expected), "{version} {name}");
    }
}

#[test]
fn the_sign_of_characters_matters_only_above_ascii() {
    for version in [LEGACY, HALF_MD4, TEA] {
        let unsigned = effective_version(version, FLAG_UNSIGNED_HASH);
        assert_eq!(effective_version(version, 1), version);
        assert_eq!(hash(version, &SEED, b"plain"), hash(unsigned, &SEED, b"plain"));
        assert_ne!(hash(version, &SEED, "Grüße".as_bytes()), hash(unsigned, &SEED, "Grüße".as_bytes()));
    }
    assert_eq!(effective_version(6, FLAG_UNSIGNED_HASH), 6);
    assert_eq!(hash(6, &SEED, b"x"), None);
}

#[test]
fn names_side_by_side_hash_like_names_one_by_one() {
    let mut random = fsmend_base::SeededRandom::new(11);
    for round in 0..2000u64 {
        // All lengths, alike and mixed, with and without characters beyond ASCII.
        let names: [Vec<u8>; LANES] = std::array::from_fn(|_| {
            let len = match round {
                0..256 => round,
                _ if round % 2 == 0 => random.below(256),
                _ => random.below(34),
            };
            let most = if round % 3 == 0 { 256 } else { 128 };
            (0..len).map(|_| random.below(most) as u8).collect()
        });
        // Names stand in front of others, or at the end of a block.
        let behind: Vec<Vec<u8>> = names.iter().map(|name| [name, &[0xFFu8; 40][..]].concat()).collect();
        let alone = names.each_ref().map(|name| NameAt::new(name, name.len()));
        let in_block: [NameAt<'_>; LANES] =
            std::array::from_fn(|at| NameAt::new(&behind[at], names[at].len()));
        for version in 0..=7 {
            for seed in [SEED, [0; 4]] {
                let one_by_one =
                    names.each_ref().map(|name| hash(version, &seed, name).map(|(major, _)| major));
                for side_by_side in [alone, in_block].map(|names| majors(version, &seed, &names)) {
                    let side_by_side = side_by_side.map(|all| all.map(Some)).unwrap_or_default();
                    assert_eq!(side_by_side, one_by_one, "version {version}, round {round}");
                }
            }
        }
    }
}

#[test]
fn the_end_mark_is_never_a_hash() {
    assert_eq!(finish(0xFFFF_FFFF), 0xFFFF_FFFC);
    assert_eq!(finish(0xFFFF_FFFD), 0xFFFF_FFFC);
}

/// The first vectors that the authors published.
#[test]
fn siphash_test_vectors() {
    let key = [0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908];
    let data: Vec<u8> = (0..15).collect();
    assert_eq!(siphash24(key, &[]), 0x726F_DB47_DD0E_0E31);
    assert_eq!(siphash24(key, &data[..1]), 0x74F8_39C5_93DC_67FD);
    assert_eq!(siphash24(key, &data), 0xA129_CA61_49BE_45E5);
}
