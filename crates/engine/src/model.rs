// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures that all workers share, under the model checker: whatever the interleaving, what is counted and claimed in
//! the end is the same. (The pool is explored by its own tests.) Run with `cargo test -p fsmend-engine --features model`.

use std::sync::Arc;

use fsmend_base::InodeNo;

use crate::claims::Claims;
use crate::inodes::{ChunkFacts, InodeFact, InodeTable, Kind};
use crate::origins::Origin;
use crate::sync::{Mutex, atomic::Ordering::Relaxed, thread};

/// Interleavings that are tried of each test.
const INTERLEAVINGS: usize = 3000;

fn explore(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, INTERLEAVINGS);
}

#[test]
fn who_claims_first_does_not_matter() {
    explore(|| {
        let claims = Arc::new(Claims::new(256));
        let ranges = [(0, 70), (60, 10), (68, 100)];
        let threads = ranges.map(|(start, count)| {
            let claims = Arc::clone(&claims);
            thread::spawn(move || claims.claim(start, count, Origin::KNOWN))
        });
        let mut noticed = 0;
        for thread in threads {
            noticed += u32::from(thread.join().expect("nothing panics"));
        }
        assert_eq!(claims.claimed().ones().collect::<Vec<_>>(), (0..168).collect::<Vec<_>>());
        assert_eq!(claims.contested().ones().collect::<Vec<_>>(), (60..70).collect::<Vec<_>>());
        assert!(noticed >= 1, "the later owner is reported (of two words, each may be the later one in one)");
    });
}

/// A table of two chunks of four inodes; inode 2 is a directory, inode 6 as well.
fn facts(chunk: u32) -> ChunkFacts {
    let mut facts = ChunkFacts::new(4);
    for index in 0..4 {
        let kind = if index == 1 { Kind::Directory } else { Kind::Regular };
        facts.record(index, InodeNo(chunk * 4 + index as u32 + 1), InodeFact::new(kind, 0), 1);
    }
    facts
}

#[test]
fn names_are_counted_once_whether_their_inodes_are_known_or_not() {
    explore(|| {
        let inodes = Arc::new(InodeTable::new(8, 4));
        let pending = Arc::new(Mutex::new(Vec::new()));
        let publisher = {
            let inodes = Arc::clone(&inodes);
            thread::spawn(move || (0..2).for_each(|chunk| inodes.publish(chunk, facts(chunk))))
        };
        let readers = [[1, 6, 6], [6, 3, 8]].map(|targets| {
            let (inodes, pending) = (Arc::clone(&inodes), Arc::clone(&pending));
            thread::spawn(move || {
                for inode in targets.map(InodeNo) {
                    // What is not known yet waits, as directories' entries do.
                    match inodes.fact(inode) {
                        Some(_) => inodes.observe_link(inode),
                        None => pending.lock().expect("nothing panics").push(inode),
                    }
                }
            })
        });
        publisher.join().expect("nothing panics");
        readers.into_iter().for_each(|reader| reader.join().expect("nothing panics"));
        let waited = pending.lock().expect("nothing panics").clone();
        waited.into_iter().for_each(|inode| inodes.observe_link(inode));
        let counts: Vec<u32> = (1..=8).map(|inode| inodes.links(InodeNo(inode)).1).collect();
        assert_eq!(counts, [1, 0, 1, 0, 0, 3, 0, 1]);
    });
}

#[test]
fn two_names_make_a_directory_contested_in_whatever_order() {
    explore(|| {
        let inodes = Arc::new(InodeTable::new(8, 4));
        (0..2).for_each(|chunk| inodes.publish(chunk, facts(chunk)));
        let threads = [2, 3].map(|parent| {
            let inodes = Arc::clone(&inodes);
            thread::spawn(move || inodes.set_parent(InodeNo(6), InodeNo(parent)))
        });
        threads.into_iter().for_each(|thread| thread.join().expect("nothing panics"));
        assert_eq!(inodes.contested(), [InodeNo(6)]);
        let parent = inodes.directory(InodeNo(6)).map(|fact| fact.parent.load(Relaxed));
        assert!(matches!(parent, Some(2 | 3)));
    });
}

// A claim takes two steps (claimed, then contested). Another owner's withdrawal between them may leave a block contested and not claimed:
// whose contested blocks are is looked up afterwards, and settled (`Claims::settle`). It must never be neither.
#[test]
fn what_one_withdraws_another_keeps_or_contests() {
    explore(|| {
        let claims = Arc::new(Claims::new(64));
        let other = Arc::clone(&claims);
        let thread = thread::spawn(move || other.claim(10, 4, Origin::KNOWN));
        claims.claim(8, 4, Origin::KNOWN);
        claims.withdraw(8, 4);
        thread.join().expect("nothing panics");
        let is_known = |block: u64| claims.claimed().get(block) || claims.contested().get(block);
        assert!((10..14).all(is_known), "the other owner still owns them");
        assert!((12..14).all(|block| claims.claimed().get(block)), "these were not withdrawn");
    });
}
