// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which inodes are certainly not among those that are looked for: nearly all that a directory names, and no search in a tree is needed to see it.

use fsmend_base::InodeNo;

/// Words of bits, a power of two: numbers that differ by so many bits fall on the same one.
const WORDS: usize = 512;

/// One bit for every inode, and for others.
#[derive(Clone, Debug)]
pub struct InodeFilter([u64; WORDS]);

impl InodeFilter {
    /// Lets `inodes` through.
    pub fn of(inodes: impl IntoIterator<Item = InodeNo>) -> InodeFilter {
        let mut words = [0; WORDS];
        for inode in inodes {
            let (word, bit) = place(inode);
            words[word] |= bit;
        }
        InodeFilter(words)
    }

    /// Whether `inode` may be among them; always, if it is.
    #[inline]
    pub fn passes(&self, inode: InodeNo) -> bool {
        let (word, bit) = place(inode);
        self.0[word] & bit != 0
    }
}

fn place(inode: InodeNo) -> (usize, u64) {
    (inode.0 as usize / 64 % WORDS, 1 << (inode.0 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_looked_for_pass_and_hardly_any_other() {
        let wanted = [1, 12, 64, 40_000, u32::MAX].map(InodeNo);
        let inode_filter = InodeFilter::of(wanted);
        assert!(wanted.iter().all(|inode| inode_filter.passes(*inode)));
        assert_eq!((0..100_000).filter(|number| inode_filter.passes(InodeNo(*number))).count(), 18);
    }
}
