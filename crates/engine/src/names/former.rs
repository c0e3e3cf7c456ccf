// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that something without a name had before, as far as anything still tells.

use std::fmt;

use fsmend_base::BlockNo;

/// What still tells a former name, the most trustworthy first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Witness {
    /// An entry that stands, but does not count any more: the directory around it is lost, or the entry itself is wrong.
    Entry,
    /// What can be read as an entry behind a place where a directory block is damaged.
    BrokenEntry,
    /// A deleted entry. Its number may have been given to another file since.
    DeletedEntry,
    /// An older copy of a directory block, in the journal.
    Journal,
    /// The parent entry of a directory tells where it stood, nothing what it was called.
    ParentEntry,
}

impl Witness {
    /// The word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Witness::Entry => "entry",
            Witness::BrokenEntry => "broken-entry",
            Witness::DeletedEntry => "deleted-entry",
            Witness::Journal => "journal",
            Witness::ParentEntry => "parent-entry",
        }
    }
}

/// A name that something had before.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FormerName {
    /// What tells it.
    pub witness: Witness,
    /// The path, printable; of the directory that it stood in if the witness is [`Witness::ParentEntry`]. It begins with `...`
    /// where the directory is unknown, with `<12>` where no name leads to directory 12.
    pub path: String,
    /// The block that tells it; `None` where that is an inode.
    pub block: Option<BlockNo>,
}

impl fmt::Display for FormerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FormerName { witness, path, block } = self;
        let place = |what: &str| match block {
            Some(block) => format!("{what}block {block}"),
            None => "the inode of its directory".to_owned(),
        };
        match witness {
            Witness::Entry => write!(f, "{path} ({} still names it)", place("")),
            Witness::BrokenEntry => write!(f, "{path} ({} still names it)", place("the damaged ")),
            Witness::DeletedEntry => write!(f, "{path} (a deleted entry in {} names it)", place("")),
            Witness::Journal => write!(f, "{path} (an older copy in the journal, {}, names it)", place("")),
            Witness::ParentEntry => write!(f, "something in {path} (its '..' says so)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_name_says_who_tells_it() {
        let told = |witness, block: Option<u64>| {
            FormerName { witness, path: "/a/b".to_owned(), block: block.map(BlockNo) }.to_string()
        };
        assert_eq!(told(Witness::Entry, Some(7)), "/a/b (block 7 still names it)");
        assert_eq!(told(Witness::Entry, None), "/a/b (the inode of its directory still names it)");
        assert_eq!(told(Witness::BrokenEntry, Some(7)), "/a/b (the damaged block 7 still names it)");
        assert_eq!(told(Witness::DeletedEntry, Some(7)), "/a/b (a deleted entry in block 7 names it)");
        assert_eq!(told(Witness::Journal, Some(7)), "/a/b (an older copy in the journal, block 7, names it)");
        assert_eq!(told(Witness::ParentEntry, None), "something in /a/b (its '..' says so)");
    }
}
