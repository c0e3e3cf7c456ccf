// SPDX-License-Identifier: MIT OR Apache-2.0
//! What users, groups and projects use, added up while inodes are scanned.

use std::collections::BTreeMap;

/// Bytes and inodes of one id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// Bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

/// Who owns an inode, for the three types of quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub projid: u32,
}

/// What quotas count use by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotaKind {
    /// Users.
    User,
    /// Groups.
    Group,
    /// Projects.
    Project,
}

/// Use by id, for each kind of quota. Private to one worker until it is merged. A few ids own nearly everything, so
/// the last one is kept at hand.
#[derive(Clone, Debug, Default)]
pub struct QuotaUsage {
    by_type: [BTreeMap<u32, Used>; 3],
    last: Owner,
    pending: Used,
}

impl QuotaUsage {
    /// No space is in use.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of owners known, for all types together.
    pub fn owners(&self) -> usize {
        self.by_type.iter().map(BTreeMap::len).sum()
    }

    /// Charges `owner` with one inode that takes `bytes`.
    #[inline]
    pub fn charge(&mut self, owner: Owner, bytes: u64) {
        self.charge_many(owner, bytes, 1);
    }

    /// Charges `owner` with `inodes` inodes that take `bytes` altogether. For attribute values in inodes of their own:
    /// their size rounded up to clusters, and their number.
    #[inline]
    pub fn charge_many(&mut self, owner: Owner, bytes: u64, inodes: u64) {
        if owner != self.last {
            self.settle();
            self.last = owner;
        }
        self.pending.bytes = self.pending.bytes.saturating_add(bytes);
        self.pending.inodes = self.pending.inodes.saturating_add(inodes);
    }

    /// What an inode takes of its owner's space has changed from `before` to `after` bytes.
    pub fn recharge(&mut self, owner: Owner, before: u64, after: u64) {
        self.settle();
        for (map, id) in self.by_type.iter_mut().zip([owner.uid, owner.gid, owner.projid]) {
            let used = map.entry(id).or_default();
            used.bytes = used.bytes.saturating_sub(before).saturating_add(after);
        }
    }

    fn settle(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if pending == Used::default() {
            return;
        }
        for (map, id) in self.by_type.iter_mut().zip([self.last.uid, self.last.gid, self.last.projid]) {
            add(map.entry(id).or_default(), pending);
        }
    }

    /// `inodes` inodes of `owner`, which took `bytes` altogether, are gone.
    pub fn discharge(&mut self, owner: Owner, bytes: u64, inodes: u64) {
        self.settle();
        for (map, id) in self.by_type.iter_mut().zip([owner.uid, owner.gid, owner.projid]) {
            let used = map.entry(id).or_default();
            used.bytes = used.bytes.saturating_sub(bytes);
            used.inodes = used.inodes.saturating_sub(inodes);
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, mut other: QuotaUsage) {
        self.settle();
        other.settle();
        for (map, theirs) in self.by_type.iter_mut().zip(other.by_type) {
            for (id, used) in theirs {
                add(map.entry(id).or_default(), used);
            }
        }
    }

    /// Use by id.
    pub fn of(&self, kind: QuotaKind) -> BTreeMap<u32, Used> {
        let mut settled = self.clone();
        settled.settle();
        std::mem::take(&mut settled.by_type[kind as usize])
    }
}

fn add(sum: &mut Used, more: Used) {
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    sum.inodes = sum.inodes.saturating_add(more.inodes);
}
