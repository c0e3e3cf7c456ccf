// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the inspection of one directory says about others: names that lead to them, where they belong, where its own `..` leads.
//!
//! At its turn, an inspection enters this into the facts as it goes. Inspections that are worked out side by side find the facts as they
//! were before all of them, and keep what they have to say until their turn comes. Then it is entered, if it still holds: if all that it
//! rests on (what other directories said about the same children) is as the inspection found it. Else the directory is inspected once more,
//! at its turn. So the facts, and with them whatever is found and mended, are those of one inspection after the other, whichever worker does what.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;
use fsmend_engine::budget::growing;
use fsmend_engine::inodes::InodeTable;

/// Memory for what is known of a child.
const CHILD_BYTES: u64 = 64;

/// What one directory says.
pub(crate) struct DeferredParentClaims<'a> {
    inodes: &'a InodeTable,
    /// The directory.
    own: InodeNo,
    /// What waits to be entered; `None` if everything is entered at once.
    kept: Option<Kept>,
}

/// What waits until the directory has its turn.
#[derive(Default)]
pub(crate) struct Kept {
    /// Where names lead, `.` and `..` among them: once for each.
    links: Vec<InodeNo>,
    /// Where names led that do not count after all.
    withdrawn: Vec<InodeNo>,
    /// Where `..` of the directory itself leads.
    parent_entry: Option<InodeNo>,
    /// Directories that have a name in this one.
    children: BTreeMap<InodeNo, Child>,
    /// Whether it rests on what any others say, so that only its turn can tell.
    rests_on_others: bool,
}

/// What was found, and is said, of one directory in another.
#[derive(Clone, Copy)]
struct Child {
    /// The parent that it had.
    found: InodeNo,
    /// Where its own `..` led, if it was looked up.
    led_to: Option<u32>,
    /// The parent that it has now.
    parent: InodeNo,
}

impl<'a> DeferredParentClaims<'a> {
    /// Of `own`, entered at once.
    pub fn at_once(inodes: &'a InodeTable, own: InodeNo) -> Self {
        DeferredParentClaims { inodes, own, kept: None }
    }

    /// Of `own`, kept until [`Kept::enter`].
    pub fn kept(inodes: &'a InodeTable, own: InodeNo) -> Self {
        DeferredParentClaims { inodes, own, kept: Some(Kept::default()) }
    }

    /// Facts of all inodes.
    pub fn inodes(&self) -> &'a InodeTable {
        self.inodes
    }

    /// A name leads to `inode`.
    pub fn observe_link(&mut self, inode: InodeNo) {
        match &mut self.kept {
            Some(kept) => kept.links.push(inode),
            None => self.inodes.observe_link(inode),
        }
    }

    /// One that was observed does not.
    pub fn withdraw_link(&mut self, inode: InodeNo) {
        match &mut self.kept {
            Some(kept) => kept.withdrawn.push(inode),
            None => self.inodes.withdraw_link(inode),
        }
    }

    /// Where `..` of the directory itself leads.
    pub fn set_parent_entry(&mut self, parent: InodeNo) {
        match (&mut self.kept, self.inodes.directory(self.own)) {
            (Some(kept), _) => kept.parent_entry = Some(parent),
            (None, Some(fact)) => fact.parent_entry.store(parent.0, Relaxed),
            (None, None) => {}
        }
    }

    /// The directory that holds the name of directory `child`, 0 if none is known yet; `None` if nothing is known of `child`.
    pub fn parent_of(&mut self, child: InodeNo) -> Option<InodeNo> {
        let fact = self.inodes.directory(child)?;
        let found = InodeNo(fact.parent.load(Relaxed));
        let Some(kept) = &mut self.kept else { return Some(found) };
        Some(kept.children.entry(child).or_insert(Child { found, led_to: None, parent: found }).parent)
    }

    /// Where `..` of directory `child`, whose parent was asked for, leads; 0 while that is unknown.
    pub fn parent_entry_of(&mut self, child: InodeNo) -> u32 {
        let led_to = self.inodes.directory(child).map_or(0, |fact| fact.parent_entry.load(Relaxed));
        if let Some(child) = self.kept.as_mut().and_then(|kept| kept.children.get_mut(&child)) {
            child.led_to = Some(led_to);
        }
        led_to
    }

    /// `parent` holds the name of directory `child`; 0 if none does.
    pub fn set_parent(&mut self, child: InodeNo, parent: InodeNo) {
        // What is found there is what this rests on.
        self.parent_of(child);
        match (&mut self.kept, self.inodes.directory(child)) {
            (Some(kept), _) => {
                if let Some(child) = kept.children.get_mut(&child) {
                    child.parent = parent;
                }
            }
            (None, Some(fact)) => fact.parent.store(parent.0, Relaxed),
            (None, None) => {}
        }
    }

    /// Facts of whatever directories are asked for. What rests on these is said at its turn only: what is kept does not hold any more.
    pub fn facts_of_others(&mut self) -> &'a InodeTable {
        if let Some(kept) = &mut self.kept {
            kept.rests_on_others = true;
        }
        self.inodes
    }

    /// Memory that it takes.
    pub fn bytes_held(&self) -> u64 {
        self.kept.as_ref().map_or(0, Kept::bytes_held)
    }

    /// What was kept; nothing if all was entered.
    pub fn into_kept(self) -> Kept {
        self.kept.unwrap_or_default()
    }
}

impl Kept {
    /// Whether what it rests on is still as it was found.
    pub fn holds(&self, inodes: &InodeTable) -> bool {
        !self.rests_on_others
            && self.children.iter().all(|(inode, child)| {
                inodes.directory(*inode).is_some_and(|fact| {
                    fact.parent.load(Relaxed) == child.found.0
                        && child.led_to.is_none_or(|led_to| fact.parent_entry.load(Relaxed) == led_to)
                })
            })
    }

    /// Enters what directory `own` says into the facts.
    pub fn enter(self, inodes: &InodeTable, own: InodeNo) {
        let mut parent_claims = DeferredParentClaims::at_once(inodes, own);
        self.links.into_iter().for_each(|inode| parent_claims.observe_link(inode));
        self.withdrawn.into_iter().for_each(|inode| parent_claims.withdraw_link(inode));
        if let Some(parent) = self.parent_entry {
            parent_claims.set_parent_entry(parent);
        }
        for (child, Child { found, parent, .. }) in self.children {
            if found != parent {
                parent_claims.set_parent(child, parent);
            }
        }
    }

    /// Memory that it takes.
    pub fn bytes_held(&self) -> u64 {
        let names = self.links.len() + self.withdrawn.len();
        growing::<InodeNo>(names) + self.children.len() as u64 * CHILD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use fsmend_engine::inodes::{ChunkFacts, InodeFact, Kind};

    use super::*;

    fn facts() -> InodeTable {
        let inodes = InodeTable::new(8, 8);
        let mut facts = ChunkFacts::new(8);
        for number in 2..6 {
            facts.record(number as usize - 1, InodeNo(number), InodeFact::new(Kind::Directory, 0), 2);
        }
        inodes.publish(0, facts);
        inodes
    }

    /// Directory `own` names `child`, as an inspection takes it up.
    fn naming(inodes: &InodeTable, own: u32, child: u32) -> Kept {
        let (own, child) = (InodeNo(own), InodeNo(child));
        let mut parent_claims = DeferredParentClaims::kept(inodes, own);
        parent_claims.observe_link(own);
        parent_claims.set_parent_entry(InodeNo(2));
        match parent_claims.parent_of(child) {
            Some(InodeNo(0)) => parent_claims.set_parent(child, own),
            _ => assert_eq!(parent_claims.parent_entry_of(child), 0),
        }
        parent_claims.observe_link(child);
        parent_claims.into_kept()
    }

    #[test]
    fn nothing_is_entered_before_its_turn() {
        let inodes = facts();
        let kept = naming(&inodes, 3, 4);
        let parents = |inode| {
            let fact = inodes.directory(InodeNo(inode));
            fact.map(|fact| (fact.parent.load(Relaxed), fact.parent_entry.load(Relaxed)))
        };
        assert_eq!((parents(3), parents(4), inodes.links(InodeNo(4)).1), (Some((0, 0)), Some((0, 0)), 0));
        assert!(kept.holds(&inodes) && kept.bytes_held() > 0);
        kept.enter(&inodes, InodeNo(3));
        assert_eq!((parents(3), parents(4)), (Some((0, 2)), Some((3, 0))));
        assert_eq!((inodes.links(InodeNo(3)).1, inodes.links(InodeNo(4)).1), (1, 1));
    }

    #[test]
    fn what_rests_on_something_that_has_changed_does_not_hold() {
        let inodes = facts();
        let (first, second, other) = (naming(&inodes, 3, 5), naming(&inodes, 4, 5), naming(&inodes, 4, 3));
        first.enter(&inodes, InodeNo(3));
        assert!(!second.holds(&inodes), "another directory has named the child");
        assert!(other.holds(&inodes), "that `..` of the child is known by now does not matter");
        let again = naming(&inodes, 4, 5);
        assert!(again.holds(&inodes));
        inodes.directory(InodeNo(5)).into_iter().for_each(|fact| fact.parent_entry.store(4, Relaxed));
        assert!(!again.holds(&inodes), "`..` of the child was asked for, and leads elsewhere by now");
    }

    #[test]
    fn what_rests_on_any_others_waits_for_its_turn() {
        let inodes = facts();
        let mut parent_claims = DeferredParentClaims::kept(&inodes, InodeNo(3));
        parent_claims.set_parent(InodeNo(4), InodeNo(3));
        assert!(parent_claims.facts_of_others().directory(InodeNo(5)).is_some());
        assert!(!parent_claims.into_kept().holds(&inodes));
    }

    #[test]
    fn one_directory_sees_what_it_has_said_itself() {
        let inodes = facts();
        let mut parent_claims = DeferredParentClaims::kept(&inodes, InodeNo(3));
        assert_eq!(parent_claims.parent_of(InodeNo(4)), Some(InodeNo(0)));
        parent_claims.set_parent(InodeNo(4), InodeNo(3));
        assert_eq!(parent_claims.parent_of(InodeNo(4)), Some(InodeNo(3)));
        parent_claims.set_parent(InodeNo(4), InodeNo(0));
        parent_claims.observe_link(InodeNo(4));
        parent_claims.withdraw_link(InodeNo(4));
        assert_eq!(
            (parent_claims.parent_of(InodeNo(4)), parent_claims.parent_of(InodeNo(7))),
            (Some(InodeNo(0)), None)
        );
        let kept = parent_claims.into_kept();
        assert!(kept.holds(&inodes));
        kept.enter(&inodes, InodeNo(3));
        assert_eq!(inodes.links(InodeNo(4)).1, 0);
    }
}
