// SPDX-License-Identifier: MIT OR Apache-2.0
//! Duplicate names in one directory.
//!
//! Every entry leaves 16 bytes: a number made of its name and its place. Entries whose numbers meet are looked at again at the end.

use fsmend_base::width;
use fsmend_ext_format::casefold;

/// An odd number whose bits look like chance, to mix those of names with.
const MIXER: u64 = 0x9E37_79B9_7F4A_7C15;
/// Bits for each name in which numbers are looked for that meet: most names are alone in theirs, and need not be sorted.
const BITS_PER_NAME: usize = 8;

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
        let number = if fold {
            casefold::fold(name, &mut self.folded);
            number_of(&self.folded)
        } else {
            number_of(name)
        };
        self.names.push((number, place));
    }

    /// The places of entries whose names may be the same, group by group, in the order of the directory.
    pub fn suspects(mut self) -> Vec<Vec<EntryPlace>> {
        self.drop_lonely();
        self.names.sort_unstable();
        let groups = self.names.chunk_by(|one, other| one.0 == other.0).filter(|group| group.len() > 1);
        let places = |group: &[(u64, EntryPlace)]| group.iter().map(|(_, place)| *place).collect();
        let mut groups: Vec<Vec<EntryPlace>> = groups.map(places).collect();
        groups.sort_unstable();
        groups
    }

    /// Drops most names whose numbers meet no other.
    fn drop_lonely(&mut self) {
        let words = (self.names.len() * BITS_PER_NAME).next_power_of_two().div_ceil(64);
        let place = |number: u64| ((number >> 6) as usize & (words - 1), 1u64 << (number & 63));
        // Names that have come by, and those that have found another one there.
        let mut bits = vec![(0u64, 0u64); words];
        for (number, _) in &self.names {
            let (word, bit) = place(*number);
            let (seen, met) = &mut bits[word];
            *met |= *seen & bit;
            *seen |= bit;
        }
        self.names.retain(|(number, _)| {
            let (word, bit) = place(*number);
            bits[word].1 & bit != 0
        });
    }
}

/// A number for a name. Different names have different ones but for chance, or malice: callers compare the names themselves,
/// or does no harm where they differ.
pub(super) fn number_of(name: &[u8]) -> u64 {
    let (words, rest) = name.as_chunks::<8>();
    let mut number = mixed(name.len() as u64 ^ MIXER);
    for word in words {
        number = mixed(number ^ u64::from_le_bytes(*word));
    }
    let rest = rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte));
    mixed(mixed(number ^ rest) ^ MIXER)
}

fn mixed(number: u64) -> u64 {
    let product = u128::from(number) * u128::from(MIXER);
    width::low_u64(product) ^ (product >> 64) as u64
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
    fn of_many_names_those_that_meet_are_found() {
        let mut table = NameTable::default();
        let place = |index: u32| EntryPlace { logical: index / 64, offset: index % 64 };
        for index in 0..5000u32 {
            let name = format!("name number {}", if index % 499 == 498 { index - 300 } else { index });
            table.add(name.as_bytes(), false, place(index));
        }
        let expected: Vec<_> =
            (498..5000).step_by(499).map(|index| vec![place(index - 300), place(index)]).collect();
        assert_eq!(expected.len(), 10);
        assert_eq!(table.suspects(), expected);
        assert!(NameTable::default().suspects().is_empty());
    }

    #[test]
    fn numbers_of_names_differ() {
        let mut numbers = std::collections::BTreeSet::new();
        for len in 0..40 {
            for at in 0..=len {
                let mut name = vec![0; len];
                name.iter_mut().skip(at).for_each(|byte| *byte = 1);
                numbers.insert(number_of(&name));
            }
        }
        assert_eq!(numbers.len(), (1..=40).sum::<usize>());
    }

    #[test]
    fn folded_names_meet() {
        let mut table = NameTable::default();
        table.add("Straße".as_bytes(), true, EntryPlace { logical: 0, offset: 0 });
        table.add(b"STRASSE", true, EntryPlace { logical: 1, offset: 0 });
        assert_eq!(table.suspects().len(), 1);
    }
}
