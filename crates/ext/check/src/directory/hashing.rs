// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hashes by which an index finds names.

use fsmend_ext_format::{casefold, dirhash};

use super::params::DirectoryParams;
use crate::Fs;

/// Hashes the names of one directory.
#[derive(Debug)]
pub(super) struct NameHasher {
    version: u8,
    seed: [u32; 4],
    folded: Vec<u8>,
}

impl NameHasher {
    /// For an index whose root stores `version`.
    pub fn new(fs: &Fs<'_>, version: u8) -> Self {
        NameHasher {
            version: dirhash::effective_version(version, fs.superblock.s_flags.get()),
            seed: fs.superblock.s_hash_seed.map(|word| word.get()),
            folded: Vec::new(),
        }
    }

    /// Major and minor hash of a name, behind which `stored` stands; `None` when there is none to be had.
    pub fn hash(
        &mut self,
        params: &DirectoryParams,
        name: &[u8],
        stored: Option<(u32, u32)>,
    ) -> Option<(u32, u32)> {
        if params.layout.hash_behind_name {
            return stored;
        }
        if params.casefold {
            casefold::fold(name, &mut self.folded);
            return dirhash::hash(self.version, &self.seed, &self.folded);
        }
        dirhash::hash(self.version, &self.seed, name)
    }
}
