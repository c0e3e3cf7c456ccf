// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hash of names: SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF").

use crate::directory::TIES;

/// The lowest key that a name can have; the others with its hash follow.
pub fn name_key(hash_key: &[u8; 16], name: &[u8]) -> u64 {
    let hash = siphash(hash_key, name) & ((1 << 59) - 1);
    hash.max(1) * TIES
}

fn siphash(key: &[u8; 16], bytes: &[u8]) -> u64 {
    let (low, high) = (crate::bytes::get_u64(key, 0), crate::bytes::get_u64(key, 8));
    let mut v = [
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ];
    let mut take = |word: u64| {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    };
    let chunks = bytes.chunks_exact(8);
    let rest = chunks.remainder();
    chunks.for_each(|chunk| take(crate::bytes::get_u64(chunk, 0)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    take(u64::from_le_bytes(last));
    v[2] ^= 0xFF;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_its_inventors() {
        // The example of the paper: key 00..0f, bytes 00..0e.
        let key: Vec<u8> = (0..16).collect();
        let bytes: Vec<u8> = (0..15).collect();
        let key = key.first_chunk().expect("sixteen bytes");
        assert_eq!(siphash(key, &bytes), 0xa129_ca61_49be_45e5);
    }
}
