// SPDX-License-Identifier: MIT OR Apache-2.0
//! What clean directories count, and how it is taken back.
//!
//! Directories are cleared by the fast path while other inode tables are still being read, so when an entry is seen, what it leads to may or
//! may not be known: that depends on timing, and the outcome must not. It does not, for these reasons:
//!
//! 1. A directory counts all or nothing. It counts nothing when its bytes do not pass the fast path, or when an entry contradicts
//!    facts that are known already. Otherwise it counts its `.`, its `..` and every name once: at once where the fact
//!    is there, else when the pending ones are certified.
//! 2. So after certification, exactly these directories keep what they counted: those whose bytes pass the fast path and whose
//!    every entry the *final* facts bear out. The others either counted nothing, or are guilty and withdrawn; whichever
//!    it was, they are inspected then. (Facts that changed after they were known do no harm: the worker that holds an entry that
//!    leads to such an inode is guilty, whatever it may have been certified with.)
//! 3. Withdrawing runs the same fast path over the same bytes, and takes back each thing that [`DeferredCertification::count`] counted.
//! 4. Numbers of links are sums, which have no order. Parents are not: of several names of one directory, the first one
//!    seen would win. But then the directory is contested, and its parent is found again from the names in those
//!    directories that are clean by 2, however it came to be contested.
//!
//! Inspections come after all that, one by one, in the order of the inodes.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{InodeNo, width};

use crate::inodes::{InodeTable, Kind, Place, Published, mark};

/// What one entry leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The inode.
    pub inode: InodeNo,
    /// The kind that the entry says it is; `Unused` where entries carry no type.
    pub kind: Kind,
}

/// How the inode facts bear an entry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Certainty {
    /// They do.
    Right,
    /// They contradict it, or it takes inspection to tell.
    Suspect,
    /// They are not there yet.
    Later,
}

/// What has been gathered from one directory; a buffer that is used again for each.
#[derive(Default, Debug)]
pub struct DirectorySummary {
    /// Where its `..` leads to.
    pub parent_entry: InodeNo,
    /// Its other entries.
    pub targets: Vec<Target>,
    /// Where the facts of the targets are, as far as they are there; for [`DeferredCertification`].
    places: Vec<Option<Place>>,
    name_hashes: Vec<u64>,
    seen: Vec<u64>,
}

impl DirectorySummary {
    /// Forgets the last directory.
    pub fn clear(&mut self) {
        self.parent_entry = InodeNo(0);
        self.targets.clear();
        self.name_hashes.clear();
    }

    /// Adds the hash of a name, which is never 0.
    #[inline]
    pub fn add_name(&mut self, hash: u64) {
        self.name_hashes.push(hash);
    }

    /// Forgets the names, but not what they lead to.
    pub fn forget_names(&mut self) {
        self.name_hashes.clear();
    }

    /// Whether all names gathered since [`clear`](Self::clear) differ. (Names are compared by 64-bit hashes: two that
    /// collide by chance make the directory a suspect, which is harmless.)
    pub fn names_are_unique(&mut self) -> bool {
        let size = (self.name_hashes.len() * 2).next_power_of_two().max(8);
        self.seen.clear();
        self.seen.resize(size, 0);
        self.name_hashes.iter().all(|hash| {
            let mut slot = (*hash >> 20) as usize & (size - 1);
            while self.seen[slot] != 0 {
                if self.seen[slot] == *hash {
                    return false;
                }
                slot = (slot + 1) & (size - 1);
            }
            self.seen[slot] = *hash;
            true
        })
    }
}

/// A hash of a name for [`DirectorySummary::add_name`], for formats that have none of their own. Names that were made to collide cost an inspection, no more.
#[inline]
pub fn hash_of(name: &[u8]) -> u64 {
    // A prime near the golden ratio of 64 bits; its product is folded.
    const MIX: u128 = 0x9E37_79B9_7F4A_7C55;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * MIX;
        (product >> 64) as u64 ^ width::low_u64(product)
    };
    let words = name.as_chunks::<8>().0;
    let hash = words.iter().fold(!(name.len() as u64), |hash, word| mix(hash, u64::from_le_bytes(*word)));
    mix(hash, last_word(name)).max(1)
}

/// The last eight bytes of a name; of a shorter one a number that tells it from all others of its length.
#[inline]
fn last_word(name: &[u8]) -> u64 {
    if let Some(last) = name.last_chunk() {
        return u64::from_le_bytes(*last);
    }
    match (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        _ => name.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Compares directory entries with the facts of what they lead to.
#[derive(Clone, Copy)]
pub struct Certifier<'a> {
    inodes: &'a InodeTable,
    typed: bool,
}

impl<'a> Certifier<'a> {
    /// A comparison with these facts; `typed` if entries say of which kind it is what they lead to.
    pub fn new(inodes: &'a InodeTable, typed: bool) -> Self {
        Certifier { inodes, typed }
    }

    /// Whether what is known of the inode that `..` leads to lets it be a parent.
    #[inline]
    pub fn certify_parent(&self, parent: InodeNo) -> Certainty {
        match self.inodes.fact(parent) {
            None => Certainty::Later,
            Some(fact) if fact.kind() == Kind::Directory => Certainty::Right,
            Some(_) => Certainty::Suspect,
        }
    }

    /// Whether all of `targets` are inodes of `chunk`, and what is known of them bears the entries out. (If not,
    /// [`certify`](Self::certify) says why; entries without types are always left to it.)
    #[inline]
    pub fn certify_all(&self, chunk: Published<'_>, targets: &[Target]) -> bool {
        // With no other mark, the fact is the number of its kind; and no entry of an unknown one becomes a target.
        let is_right = |target: &Target| {
            chunk.fact(target.inode).is_some_and(|fact| fact.0 & !mark::ENCRYPTED == target.kind as u8)
        };
        self.typed && targets.iter().all(is_right)
    }

    /// Whether what is known of the target bears the entry out, and where it is known.
    #[inline]
    pub fn certify(&self, target: Target) -> (Certainty, Option<Place>) {
        let (fact, place) = self.inodes.look(target.inode);
        let Some(fact) = fact else { return (Certainty::Later, None) };
        let kind = fact.kind();
        let as_said = if self.typed { kind == target.kind } else { kind != Kind::Unused };
        let plain = kind != Kind::Unknown && fact.0 & (mark::EA_INODE | mark::SUSPECT | mark::RESERVED) == 0;
        (if as_said && plain { Certainty::Right } else { Certainty::Suspect }, place)
    }
}

/// An entry that is certified once all facts are there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pending {
    /// The directory that holds the entry.
    pub directory: InodeNo,
    /// What it leads to.
    pub target: InodeNo,
    /// What the entry says it is.
    pub kind: Kind,
    /// Whether it is a name, not `..`.
    pub is_name: bool,
}

/// Counts for directories that the fast path clears.
#[derive(Clone, Copy)]
pub struct DeferredCertification<'a> {
    certifier: &'a Certifier<'a>,
    inodes: &'a InodeTable,
}

impl<'a> DeferredCertification<'a> {
    /// One that counts what `certifier` certifies.
    pub fn new(certifier: &'a Certifier<'a>) -> Self {
        DeferredCertification { certifier, inodes: certifier.inodes }
    }

    /// Counts all entries of a directory, those that have to wait as `pending` ones. Counts nothing, and returns false,
    /// when what is known contradicts one of them.
    pub fn count(
        &self,
        directory: InodeNo,
        summary: &mut DirectorySummary,
        pending: &mut Vec<Pending>,
    ) -> bool {
        let DirectorySummary { parent_entry, targets, places, .. } = summary;
        let parent = self.certifier.certify_parent(*parent_entry);
        // Most directories lead to neighbours of one another.
        let first = targets.first().and_then(|target| self.inodes.published(target.inode));
        let near = first.filter(|chunk| self.certifier.certify_all(*chunk, targets));
        places.clear();
        if near.is_none() {
            for target in &*targets {
                let (certainty, place) = self.certifier.certify(*target);
                if certainty == Certainty::Suspect {
                    return false;
                }
                places.push(place);
            }
        }
        if parent == Certainty::Suspect {
            return false;
        }
        if let Some(fact) = self.inodes.directory(directory) {
            fact.parent_entry.store(parent_entry.0, Relaxed);
        }
        self.inodes.observe_link(directory);
        if parent == Certainty::Right {
            self.inodes.observe_link(*parent_entry);
        } else {
            let (target, kind) = (*parent_entry, Kind::Directory);
            pending.push(Pending { directory, target, kind, is_name: false });
        }
        if let Some(chunk) = near {
            for Target { inode, kind } in &*targets {
                chunk.observe_link(*inode);
                if *kind == Kind::Directory {
                    chunk.set_parent(*inode, directory);
                }
            }
        }
        // Where that was not so.
        for (target, place) in targets.iter().zip(&*places) {
            match place {
                Some(place) => self.observe(directory, *target, *place),
                None => {
                    let Target { inode, kind } = *target;
                    pending.push(Pending { directory, target: inode, kind, is_name: true });
                }
            }
        }
        true
    }

    /// Whether some entry leads to inodes that have not been read.
    pub fn would_wait(&self, summary: &DirectorySummary) -> bool {
        self.certifier.certify_parent(summary.parent_entry) == Certainty::Later
            || summary.targets.iter().any(|target| self.certifier.certify(*target).0 == Certainty::Later)
    }

    #[inline]
    fn observe(&self, directory: InodeNo, target: Target, place: Place) {
        self.inodes.observe_link_at(place);
        let is_directory = match target.kind {
            Kind::Directory => true,
            // Entries without types.
            Kind::Unused => self.inodes.kind(target.inode) == Kind::Directory,
            _ => false,
        };
        if is_directory {
            self.inodes.set_parent_at(place, target.inode, directory);
        }
    }

    /// Counts what had to wait, also what the facts contradict: the directories returned hold such entries and have to
    /// be withdrawn as a whole.
    pub fn certify_pending(&self, pending: Vec<Pending>) -> BTreeSet<InodeNo> {
        let mut guilty = BTreeSet::new();
        for Pending { directory, target, kind, is_name } in pending {
            let target = Target { inode: target, kind };
            let (certainty, place) = match is_name {
                true => self.certifier.certify(target),
                false => (self.certifier.certify_parent(target.inode), None),
            };
            if certainty != Certainty::Right {
                guilty.insert(directory);
            }
            match place {
                Some(place) => self.observe(directory, target, place),
                None => self.inodes.observe_link(target.inode),
            }
        }
        guilty
    }

    /// Takes back everything that was counted for a directory by this fast path.
    pub fn withdraw(&self, directory: InodeNo, summary: &DirectorySummary) {
        self.inodes.withdraw_link(directory);
        self.inodes.withdraw_link(summary.parent_entry);
        if let Some(fact) = self.inodes.directory(directory) {
            fact.parent_entry.store(0, Relaxed);
        }
        for target in &summary.targets {
            self.inodes.withdraw_link(target.inode);
            if let Some(child) = self.inodes.directory(target.inode) {
                let _ = child.parent.compare_exchange(directory.0, 0, Relaxed, Relaxed);
            }
        }
    }
}
