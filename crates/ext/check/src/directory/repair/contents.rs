// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of a directory in memory, to be rewritten.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::Findings;
use fsmend_engine::names::with_suffix;
use fsmend_ext_format::casefold;
use fsmend_ext_format::directory::{Entries, NAME_LEN_MAX, entries_len};
use fsmend_ext_format::inode::special;

use crate::Fs;
use crate::directory::hashing::NameHasher;
use crate::directory::inspect::mend_block;
use crate::directory::names::{EntryPlace, NameTable, number_of};
use crate::directory::params::DirectoryParams;
use crate::directory::{Directory, inline};

/// A name to be put into a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NewName {
    /// Where it leads to.
    pub inode: InodeNo,
    /// The type of that.
    pub file_type: u8,
    /// The name.
    pub name: Vec<u8>,
}

/// One name of [`Contents`].
#[derive(Clone, Copy, Debug)]
struct Name {
    inode: u32,
    hash: Option<(u32, u32)>,
    start: usize,
    len: u8,
    file_type: u8,
}

/// One name, to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NameRef<'c> {
    /// Where it leads to.
    pub inode: u32,
    /// The type of that.
    pub file_type: u8,
    /// The hash that stood behind it.
    pub hash: Option<(u32, u32)>,
    /// The name.
    pub name: &'c [u8],
}

/// The names of a directory, in its order.
#[derive(Debug)]
pub(super) struct Contents {
    /// Where `..` leads to.
    pub parent: InodeNo,
    names: Vec<Name>,
    bytes: Vec<u8>,
    /// How many names there are up to the end of each block that was read.
    ends: Vec<usize>,
}

impl Contents {
    /// No names.
    pub fn new(parent: InodeNo) -> Self {
        Contents { parent, names: Vec::new(), bytes: Vec::new(), ends: Vec::new() }
    }

    /// Reads the names of `directory`. Of blocks that cannot be read there are none.
    pub fn gather(fs: &Fs<'_>, directory: &Directory) -> Self {
        let params = DirectoryParams::of(fs, directory);
        let mut contents = Contents::new(InodeNo(special::ROOT));
        let mut quiet = Findings::new();
        if directory.inline {
            let Some(data) = inline::gather(&directory.record) else { return contents };
            contents.parent = data.parent;
            for (_, area) in data.filled() {
                let mut bytes = directory.record.get(area).unwrap_or_default().to_vec();
                mend_block(&mut bytes, &params, None, false, &mut quiet);
                contents.take_block(&bytes, &params, false);
            }
            return contents;
        }
        for run in &directory.runs {
            for within in 0..u64::from(run.count) {
                let block = BlockNo(run.physical.saturating_add(within));
                let Ok(mut bytes) = fs.read_block(block) else { continue };
                bytes.truncate(entries_len(&bytes, fs.geometry.features));
                let first = run.logical == 0 && within == 0;
                mend_block(&mut bytes, &params, Some(block), first, &mut quiet);
                contents.take_block(&bytes, &params, first);
                contents.ends.push(contents.len());
                quiet = Findings::new();
            }
        }
        contents
    }

    fn take_block(&mut self, bytes: &[u8], params: &DirectoryParams, first: bool) {
        for (index, entry) in Entries::new(bytes, params.layout, first).flatten().enumerate() {
            if first && index == 1 {
                self.parent = InodeNo(entry.header.inode);
            }
            if entry.header.inode != 0 && !(first && index < 2) {
                self.push(NameRef {
                    inode: entry.header.inode,
                    file_type: entry.header.file_type,
                    hash: entry.stored_hash,
                    name: entry.name,
                });
            }
        }
    }

    /// Adds a name.
    pub fn push(&mut self, name: NameRef<'_>) {
        self.names.push(Name {
            inode: name.inode,
            hash: name.hash,
            start: self.bytes.len(),
            len: width::len_u8(name.name.len().min(NAME_LEN_MAX)),
            file_type: name.file_type,
        });
        self.bytes.extend_from_slice(&name.name[..name.name.len().min(NAME_LEN_MAX)]);
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The `index`th name, which there is.
    pub fn name(&self, index: usize) -> NameRef<'_> {
        let name = &self.names[index];
        NameRef {
            inode: name.inode,
            file_type: name.file_type,
            hash: name.hash,
            name: &self.bytes[name.start..name.start + usize::from(name.len)],
        }
    }

    /// All names, in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = NameRef<'_>> {
        (0..self.len()).map(|index| self.name(index))
    }

    /// Sorts out names that stand twice as the inspection said: the second name of the same file goes, and so does one that cannot
    /// be changed, for it is encrypted; any other gets a suffix. Where there was an index, `hasher` tells which of two names was another once.
    pub fn make_unique(&mut self, params: &DirectoryParams, hasher: Option<NameHasher>) {
        let folds = params.casefold && !params.encrypted;
        let mut doubles = self.doubles(folds);
        if doubles.is_empty() {
            return;
        }
        if let Some(mut hasher) = hasher.filter(|_| params.index_flag && params.index_feature) {
            self.prefer_by_hash(&mut doubles, params, &mut hasher);
        }
        let mut unique = Contents::new(self.parent);
        let mut taken: Option<Names> = None;
        let mut doubles = doubles.into_iter().peekable();
        for (index, name) in self.iter().enumerate() {
            match doubles.next_if(|(double, _)| *double == index) {
                None => unique.push(name),
                Some((_, first)) if self.name(first).inode == name.inode || params.encrypted => {}
                Some(_) => {
                    let taken = taken.get_or_insert_with(|| Names::all_of(self, folds));
                    let other = taken.unique(name.name);
                    taken.add(&other, name.inode);
                    unique.push(NameRef { name: &other, ..name });
                }
            }
        }
        *self = unique;
    }

    /// Lets the later one of two names stay where it goes by its hash with the others in its block, and the first one does not: that one was
    /// overwritten.
    fn prefer_by_hash(
        &self,
        doubles: &mut [(usize, usize)],
        params: &DirectoryParams,
        hasher: &mut NameHasher,
    ) {
        let mut uses: HashMap<usize, u32> = HashMap::new();
        for (_, first) in doubles.iter() {
            *uses.entry(*first).or_default() += 1;
        }
        for (double, first) in doubles.iter_mut().filter(|(_, first)| uses.get(first) == Some(&1)) {
            if !self.goes_by_hash(*first, params, hasher) && self.goes_by_hash(*double, params, hasher) {
                std::mem::swap(double, first);
            }
        }
        doubles.sort_unstable();
    }

    /// Whether the hash of a name lies between those of others in its block. A leaf of an index holds the names of a range of hashes.
    fn goes_by_hash(&self, index: usize, params: &DirectoryParams, hasher: &mut NameHasher) -> bool {
        let block = self.ends.partition_point(|end| *end <= index);
        let Some(end) = self.ends.get(block).copied() else { return false };
        let start = block.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end);
        let mut hash_of = |index| {
            let name = self.name(index);
            hasher.hash(params, name.name, name.hash).map(|(major, _)| major)
        };
        let Some(hash) = hash_of(index) else { return false };
        let (mut is_above, mut is_below) = (false, false);
        for other in (start..end).filter(|other| *other != index).filter_map(&mut hash_of) {
            is_above |= hash >= other;
            is_below |= hash <= other;
        }
        is_above && is_below
    }

    /// Names that stand there before: the numbers of the later one and of the first, ascending.
    fn doubles(&self, folds: bool) -> Vec<(usize, usize)> {
        let mut table = NameTable::default();
        for (index, name) in self.iter().enumerate() {
            table.add(name.name, folds, EntryPlace { logical: 0, offset: width::len_u32(index) });
        }
        let mut doubles = Vec::new();
        for group in table.suspects() {
            let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
            for place in group {
                let index = place.offset as usize;
                match seen.entry(key_of(self.name(index).name, folds)) {
                    Entry::Occupied(first) => doubles.push((index, *first.get())),
                    Entry::Vacant(place) => {
                        place.insert(index);
                    }
                }
            }
        }
        doubles.sort_unstable();
        doubles
    }
}

/// What of a name is compared.
fn key_of(name: &[u8], folds: bool) -> Vec<u8> {
    if !folds {
        return name.to_vec();
    }
    let mut folded = Vec::new();
    casefold::fold(name, &mut folded);
    folded
}

/// Names that are taken.
#[derive(Default)]
pub(super) struct Names {
    /// Whether they compare without case.
    pub folds: bool,
    taken: HashMap<Vec<u8>, u32>,
    /// Numbers of more names that are taken, ascending.
    numbers: Vec<u64>,
    /// The next number to be tried for a name, so that thousands of the same name take no longer than as many others.
    next: HashMap<Vec<u8>, u32>,
}

impl Names {
    /// All names of `contents` are taken.
    fn all_of(contents: &Contents, folds: bool) -> Self {
        let number = |name: NameRef<'_>| {
            if folds { number_of(&key_of(name.name, folds)) } else { number_of(name.name) }
        };
        let mut numbers: Vec<u64> = contents.iter().map(number).collect();
        numbers.sort_unstable();
        Names { folds, numbers, ..Names::default() }
    }

    fn key(&self, name: &[u8]) -> Vec<u8> {
        key_of(name, self.folds)
    }

    /// Whether the name is taken. One that only has the number of such a name is passed over as well: there are others.
    fn has(&self, name: &[u8]) -> bool {
        let key = self.key(name);
        self.numbers.binary_search(&number_of(&key)).is_ok() || self.taken.contains_key(&key)
    }

    /// Where the name leads to, if it is taken.
    pub fn inode_of(&self, name: &[u8]) -> Option<u32> {
        self.taken.get(&self.key(name)).copied()
    }

    /// Takes a name.
    pub fn add(&mut self, name: &[u8], inode: u32) {
        let key = self.key(name);
        self.taken.insert(key, inode);
    }

    /// A name like `name` that is not taken.
    pub fn unique(&mut self, name: &[u8]) -> Vec<u8> {
        let key = self.key(name);
        let first = self.next.get(&key).copied().unwrap_or(0);
        let candidates = (first..).map(|number| (number, with_suffix(name, number, NAME_LEN_MAX)));
        let free = |(_, candidate): &(u32, Vec<u8>)| !self.has(candidate);
        // There are more numbers than names.
        let (number, found) = candidates.into_iter().find(free).unwrap_or((first, name.to_vec()));
        self.next.insert(key, number.saturating_add(1));
        found
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::directory::testing::params;

    fn contents(names: &[(u32, &str)]) -> Contents {
        let mut contents = Contents::new(InodeNo(2));
        for (inode, name) in names {
            contents.push(NameRef { inode: *inode, file_type: 1, hash: None, name: name.as_bytes() });
        }
        contents
    }

    fn unique(names: &[(u32, &str)], params: &DirectoryParams) -> Vec<(u32, String)> {
        let mut contents = contents(names);
        contents.make_unique(params, None);
        contents.iter().map(|name| (name.inode, String::from_utf8_lossy(name.name).into_owned())).collect()
    }

    fn owned(names: &[(u32, &str)]) -> Vec<(u32, String)> {
        names.iter().map(|(inode, name)| (*inode, (*name).to_owned())).collect()
    }

    #[test]
    fn doubles_are_renamed_or_go() {
        let params = params();
        let names = [(13, "a"), (14, "a"), (13, "a"), (15, "a~0"), (16, "b"), (17, "a")];
        let expected = owned(&[(13, "a"), (14, "a~1"), (15, "a~0"), (16, "b"), (17, "a~2")]);
        assert_eq!(unique(&names, &params), expected);
        assert_eq!(contents(&names).doubles(false), [(1, 0), (2, 0), (5, 0)]);
        assert!(contents(&names[3..5]).doubles(false).is_empty());
        let encrypted = DirectoryParams { encrypted: true, ..params };
        assert_eq!(unique(&[(13, "a"), (14, "a")], &encrypted), owned(&[(13, "a")]));
    }

    #[test]
    fn a_name_that_does_not_go_with_those_in_its_block_is_the_one_that_was_overwritten() {
        let device = fsmend_device::MemoryDevice::new("test", vec![0; 1024]);
        let hashed = DirectoryParams { index_flag: true, ..params() };
        let fs = crate::xattr::testing::fs(&device, crate::xattr::testing::all_features());
        let hasher = || Some(NameHasher::new(&fs, 1));
        let mut names: Vec<(u32, (u32, String))> = (20..120)
            .map(|inode| {
                let name = format!("entry-{inode}");
                let hash = hasher().and_then(|mut hasher| hasher.hash(&hashed, name.as_bytes(), None));
                (hash.unwrap().0, (inode, name))
            })
            .collect();
        names.sort_unstable();
        let mut names: Vec<(u32, String)> = names.into_iter().map(|(_, name)| name).collect();
        // One of the first block now has the name of one in the middle of the second.
        let genuine = names[75].clone();
        names[25].1.clone_from(&genuine.1);
        let borrowed: Vec<(u32, &str)> = names.iter().map(|(inode, name)| (*inode, name.as_str())).collect();
        let inode_of = |name: &str, ends: &[usize], params: &DirectoryParams| {
            let mut contents = contents(&borrowed);
            contents.ends = ends.to_vec();
            contents.make_unique(params, hasher());
            assert_eq!(contents.len(), 100);
            contents.iter().find(|found| found.name == name.as_bytes()).map(|found| found.inode)
        };
        assert_eq!(inode_of(&genuine.1, &[50, 100], &hashed), Some(genuine.0));
        assert_eq!(inode_of(&format!("{}~0", genuine.1), &[50, 100], &hashed), Some(names[25].0));
        assert_eq!(inode_of(&genuine.1, &[100], &hashed), Some(names[25].0), "both go with the only block");
        let linear = DirectoryParams { index_flag: false, ..hashed };
        assert_eq!(inode_of(&genuine.1, &[50, 100], &linear), Some(names[25].0), "no index, no order");
    }

    #[test]
    fn doubles_without_case() {
        let params = DirectoryParams { casefold: true, ..params() };
        let found = unique(&[(13, "straße"), (14, "STRASSE"), (15, "strasse~0")], &params);
        assert_eq!(found, owned(&[(13, "straße"), (14, "STRASSE~1"), (15, "strasse~0")]));
    }

    #[test]
    fn long_names_are_cut() {
        let long = "ä".repeat(127) + "x";
        let found = unique(&[(13, &long), (14, &long)], &params());
        assert_eq!(found[1].1, "ä".repeat(126) + "~0");
    }

    #[test]
    fn many_of_one_name_take_linear_time() {
        let names: Vec<(u32, &str)> = (0..20_000).map(|inode| (inode, "x")).collect();
        assert_eq!(unique(&names, &params()).len(), 20_000);
    }
}
