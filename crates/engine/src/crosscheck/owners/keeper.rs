// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who keeps a contested unit, where a format has no other evidence: structures that no inode owns stay, then the first claim of the inode with the lowest number.
//! All other claims are given up; their owners get copies.

use std::collections::BTreeMap;

use fsmend_base::InodeNo;

use super::{ClaimLookup, Contest, Owner};
use crate::claims::Claims;

/// The contested units that one inode gives up, each with the number of its claims that stay.
#[derive(Debug, Default)]
pub struct GivenUp(BTreeMap<u64, usize>);

impl GivenUp {
    /// The units, in ascending order.
    pub fn units(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// Whether a claim on `count` units from `first` on is given up. To be asked once about each claim, in the order of the file.
    pub fn includes(&mut self, first: u64, count: u64) -> bool {
        let mut goes = false;
        for (_, kept) in self.0.range_mut(first..first.saturating_add(count)) {
            match kept.checked_sub(1) {
                Some(rest) => *kept = rest,
                None => goes = true,
            }
        }
        goes
    }
}

impl Contest {
    /// What each inode gives up of the units of this contest, the least first: where there is no room for copies of everything, as many as can be get theirs.
    pub fn given_up<V: ClaimLookup>(&self, volume: &V, claims: &Claims) -> Vec<(InodeNo, GivenUp)> {
        let mut all: BTreeMap<InodeNo, GivenUp> = BTreeMap::new();
        self.visit_owners(volume, claims, |unit, owners| {
            let keeper = owners.first().copied();
            for same in owners.chunk_by(|a, b| a == b) {
                let kept = usize::from(keeper == same.first().copied());
                if let Some(Owner::Inode(inode)) = same.first()
                    && same.len() > kept
                {
                    all.entry(*inode).or_default().0.insert(unit, kept);
                }
            }
        });
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(_, given_up)| given_up.0.len());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_claim_stays() {
        let mut given_up = GivenUp(BTreeMap::from([(10, 1), (11, 1), (20, 0)]));
        assert!(!given_up.includes(8, 4));
        assert!(given_up.includes(11, 1));
        assert!(!given_up.includes(12, 8));
        assert!(given_up.includes(0, u64::MAX));
    }
}
