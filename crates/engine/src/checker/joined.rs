// SPDX-License-Identifier: MIT OR Apache-2.0
//! Claims of neighbours, made as one. Files that were written one after the other follow one another on the disk, and each claim costs atomic operations.

use crate::claims::Claims;
use crate::origins::Origin;

/// A claim that waits for one that goes on where it ends. It is made at the latest when this is dropped.
pub struct JoinedClaims<'c> {
    claims: &'c Claims,
    start: u64,
    count: u64,
    origin: Origin,
}

impl<'c> JoinedClaims<'c> {
    /// Nothing waits.
    pub fn new(claims: &'c Claims) -> Self {
        JoinedClaims { claims, start: 0, count: 0, origin: Origin::KNOWN }
    }

    /// Claims `count` units from `start` for an inode.
    #[inline]
    pub fn claim(&mut self, start: u64, count: u64, inode: u32) {
        let origin = self.claims.origin(inode);
        if self.start.checked_add(self.count) == Some(start)
            && self.origin == origin
            && let Some(sum) = self.count.checked_add(count)
        {
            self.count = sum;
            return;
        }
        self.make();
        (self.start, self.count, self.origin) = (start, count, origin);
    }

    fn make(&mut self) {
        if self.count > 0 {
            self.claims.claim(self.start, self.count, self.origin);
        }
        self.count = 0;
    }
}

impl Drop for JoinedClaims<'_> {
    fn drop(&mut self) {
        self.make();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_claimed_once_and_what_is_claimed_twice_is_found() {
        let claims = Claims::new(1000);
        let mut joined = JoinedClaims::new(&claims);
        for (start, count) in [(100, 8), (108, 70), (300, 1), (301, 0), (107, 2), (u64::MAX, 1), (0, 1)] {
            joined.claim(start, count, 7);
        }
        drop(joined);
        assert_eq!(claims.claimed().count(), 78 + 1 + 1);
        assert_eq!(claims.contested().ones().collect::<Vec<_>>(), [107, 108]);
    }
}
