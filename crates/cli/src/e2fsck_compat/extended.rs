// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of `-E`.

use super::options::Usage;

/// What `-E` asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    /// Replay the journal and do nothing else.
    pub journal_only: bool,
    /// Tell the device at the end which blocks are free.
    pub discard: bool,
    /// Mend only, make nothing nicer: what is always done.
    pub fixes_only: bool,
    /// Give files that share blocks blocks of their own.
    pub unshare_blocks: bool,
    /// Tell which files are scattered.
    pub fragcheck: bool,
    /// Give files mapped by blocks extents.
    pub to_extents: bool,
    /// Make extent trees smaller.
    pub optimize_extents: bool,
    /// What to do with blocks that several files claim, if it was said.
    pub duplicates: Option<Duplicates>,
}

/// What to do with multiply-claimed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Each file gets a copy.
    Clone,
    /// One file keeps the blocks, the others get zeros.
    Zero,
    /// Files that lose blocks are moved to lost+found.
    LostFound,
    /// Files that lose blocks are deleted.
    Delete,
}

impl Extended {
    /// Reads one value of `-E`: words between commas. Later words go before earlier ones.
    pub fn read(&mut self, list: &str) -> Result<(), Usage> {
        list.split(',').filter(|word| !word.is_empty()).try_for_each(|word| self.read_word(word))
    }

    fn read_word(&mut self, word: &str) -> Result<(), Usage> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        match (name, value) {
            ("journal_only", None) => self.journal_only = true,
            ("discard", None) => self.discard = true,
            ("nodiscard", None) => self.discard = false,
            ("fixes_only", None) => self.fixes_only = true,
            ("unshare_blocks", None) => self.unshare_blocks = true,
            // Nothing to choose: facts about inodes are always kept for all of them, names are always held against the encoding of their directory.
            ("inode_count_fullmap" | "no_inode_count_fullmap" | "check_encoding", None) => {}
            ("ea_ver", Some("2")) => {}
            ("readahead_kb", Some(size)) if size.parse::<u64>().is_ok() => {}
            ("clone", Some("dup")) | ("shared", Some("preserve")) => {
                self.duplicates = Some(Duplicates::Clone)
            }
            ("clone", Some("zero")) => self.duplicates = Some(Duplicates::Zero),
            ("shared", Some("lost+found")) => self.duplicates = Some(Duplicates::LostFound),
            ("shared", Some("delete")) => self.duplicates = Some(Duplicates::Delete),
            ("ea_ver", Some("1")) => return Err(Usage::unsupported("-E ea_ver=1", EA_VERSION)),
            ("fragcheck", None) => self.fragcheck = true,
            ("optimize_extents", None) => self.optimize_extents = true,
            ("no_optimize_extents", None) => self.optimize_extents = false,
            ("bmap2extent", None) => self.to_extents = true,
            ("ea_ver" | "readahead_kb" | "clone" | "shared", _) => {
                return Err(Usage::extended(format!("'{word}': invalid value for {name}")));
            }
            _ => return Err(Usage::extended(format!("'{word}' is not an extended option"))),
        }
        Ok(())
    }
}

const EA_VERSION: &str =
    "it would clear all attribute blocks of version 2; version 1 has not been written since Linux 2.4";

/// The words that `-E` knows, for the usage message.
pub const WORDS: &str = "journal_only, discard, nodiscard, fixes_only, unshare_blocks, fragcheck, bmap2extent, \
    optimize_extents, no_optimize_extents, \
    inode_count_fullmap, no_inode_count_fullmap, check_encoding, ea_ver=2, readahead_kb=N, clone=dup|zero, \
    shared=preserve|lost+found|delete";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> Result<Extended, Usage> {
        let mut extended = Extended::default();
        extended.read(list).map(|()| extended)
    }

    #[test]
    fn words_between_commas() {
        let expected = Extended { journal_only: true, ..Extended::default() };
        assert_eq!(read("discard,journal_only,,nodiscard"), Ok(expected));
        assert_eq!(read(""), Ok(Extended::default()));
        for harmless in ["no_optimize_extents", "inode_count_fullmap", "no_inode_count_fullmap", "ea_ver=2"] {
            assert_eq!(read(harmless), Ok(Extended::default()), "{harmless}");
        }
        assert_eq!(read("readahead_kb=0,check_encoding"), Ok(Extended::default()));
        assert!(read("optimize_extents,no_optimize_extents").is_ok_and(|read| !read.optimize_extents));
        assert!(read("bmap2extent,fragcheck").is_ok_and(|read| read.to_extents && read.fragcheck));
        assert!(read("fixes_only").is_ok_and(|read| read.fixes_only));
    }

    #[test]
    fn what_becomes_of_shared_blocks() {
        let choice = |list| read(list).map(|read| read.duplicates);
        assert_eq!(choice("clone=dup"), Ok(Some(Duplicates::Clone)));
        assert_eq!(choice("clone=zero"), Ok(Some(Duplicates::Zero)));
        assert_eq!(choice("shared=lost+found"), Ok(Some(Duplicates::LostFound)));
        assert_eq!(choice("shared=delete"), Ok(Some(Duplicates::Delete)));
        assert_eq!(choice("shared=preserve"), Ok(Some(Duplicates::Clone)));
    }

    #[test]
    fn what_is_refused() {
        for list in [
            "foo",
            "ea_ver",
            "ea_ver=3",
            "ea_ver=1",
            "readahead_kb=x",
            "readahead_kb",
            "discard=1",
            "clone=x",
            "shared",
            "discard,foo",
        ] {
            assert!(read(list).is_err(), "{list}");
        }
    }
}
