//! Names that stand twice in one directory.
//!
//! Every entry leaves 16 bytes: a hash of its name and its place. Entries whose hashes meet are looked at again at the end.

use std::hash::{DefaultHasher, Hasher};

use fsmend_ext_format::casefold;

/// Where an entry stands: block of the directory, and which of the block's records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct EntryPlace {
    /// Block of the directory.
    pub logical: u32,
    /// Offset of its record in the mended block.
    pub offset: u32,
}

/// The names of one directory.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    names: Vec<(u64, EntryPlace)>,
    folded: Vec<u8>,
}

impl NameTable {
    /// Adds the name of the entry at `place`; `fold` says that names compare without case.
    pub fn add(&mut self, name: &[u8], fold: bool, place: EntryPlace) {
        let mut hasher = DefaultHasher::new();
        if fold {
            casefold::fold(name, &mut self.folded);
            hasher.write(&self.folded);
        } else {
            hasher.write(name);
        }
        self.names.push((hasher.finish(), place));
    }

    /// The places of entries whose names may be the same, group by group, each in the order of the directory.
    pub fn suspects(mut self) -> Vec<Vec<EntryPlace>> {
        self.names.sort_unstable();
        let groups = self.names.chunk_by(|one, other| one.0 == other.0).filter(|group| group.len() > 1);
        groups.map(|group| group.iter().map(|(_, place)| *place).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_meet() {
        let mut table = NameTable::default();
        for (index, name) in ["a", "b", "A", "a", "c"].into_iter().enumerate() {
            table.add(name.as_bytes(), false, EntryPlace { logical: 0, offset: index as u32 });
        }
        let groups = table.suspects();
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].iter().map(|place| place.offset).collect::<Vec<_>>(), [0, 3]);
    }

    #[test]
    fn folded_names_meet() {
        let mut table = NameTable::default();
        table.add("Straße".as_bytes(), true, EntryPlace { logical: 0, offset: 0 });
        table.add(b"STRASSE", true, EntryPlace { logical: 1, offset: 0 });
        assert_eq!(table.suspects().len(), 1);
    }
}
