// SPDX-License-Identifier: MIT OR Apache-2.0
//! SipHash-2-4, which hashes the names of encrypted case-insensitive directories.
//!
//! A checker cannot compute those hashes, as it does not have the directory's key: they are stored with the entries.
//! The function is here for images that are made with a known key.

/// SipHash-2-4 of `data` under `key`.
pub fn siphash24(key: [u64; 2], data: &[u8]) -> u64 {
    let mut state = State([
        key[0] ^ 0x736F_6D65_7073_6575,
        key[1] ^ 0x646F_7261_6E64_6F6D,
        key[0] ^ 0x6C79_6765_6E65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ]);
    let (words, rest) = data.as_chunks::<8>();
    for word in words {
        state.absorb(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = fsmend_base::width::low_u8(data.len() as u64);
    state.absorb(u64::from_le_bytes(last));
    state.0[2] ^= 0xFF;
    (0..4).for_each(|_| state.round());
    state.0.iter().fold(0, |hash, word| hash ^ word)
}

struct State([u64; 4]);

impl State {
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}
