// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of problems and of sets of them.

use super::*;

crate::problem_rows! {
    /// For the tests below.
    DEMO = "demo.thing.wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} of {group} stores {stored:byte:bytes}, not {observed}, at {block} ({why}){once?, once }",
        meaning: "m", repair: "r", loss: nothing, peers: [0x010007],
    }
    /// Another.
    OTHER = "demo.thing.odd" {
        severity: Minor, evidence: Local, preen: true, message: "{inode} is odd",
        meaning: "m", repair: "r", loss: nothing, peers: [],
    }
    /// For the order.
    SIMPLE = "demo.thing.simple" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is wrong",
        meaning: "m", repair: "r", loss: nothing, peers: [],
    }
    /// With several peers.
    PEERS = "demo.thing.elsewhere" {
        severity: Minor, evidence: Local, preen: true, message: "{inode} is wrong",
        meaning: "m", repair: "r", loss: nothing, peers: [1, 2, 3],
    }
}

#[test]
fn messages_carry_their_operands() {
    let problem = Problem::new(&DEMO)
        .inode(InodeNo(12))
        .group(GroupNo(3))
        .blocks(BlockNo(7), 3)
        .stored(1u32)
        .observed(Value::Hex(16))
        .detail("why", "because");
    assert_eq!(problem.message(), "inode 12 of group 3 stores 1 byte, not 0x10, at blocks 7 to 9 (because)");
    assert!(problem.missing_operands().is_empty());
    assert!(problem.detail("once", 7u32).message().ends_with("(because), once 7"));
    let others = Value::List(vec![Value::Inode(InodeNo(5), Some("/a".to_owned())), "more".into()]);
    let vague = Problem::new(&DEMO).stored(2u32).detail("why", others);
    assert_eq!(vague.message(), "? of ? stores 2 bytes, not ?, at ? (/a (inode 5), more)");
    assert_eq!(vague.missing_operands(), ["inode", "group", "observed", "block"]);
}

#[test]
fn what_is_kept_does_not_depend_on_the_order_of_discovery() {
    let raise = |order: &mut dyn Iterator<Item = u32>| {
        let mut findings = Findings::new();
        order.for_each(|inode| findings.raise(Problem::new(&SIMPLE).inode(InodeNo(inode))));
        assert_eq!(findings.counts()["demo.thing.simple"], 100_000);
        findings.into_sorted()
    };
    assert_eq!(raise(&mut (0..100_000)), raise(&mut (0..100_000).rev()));
}

#[test]
fn little_room_keeps_the_same_problems_at_any_thread_count() {
    let numbers = |share: u32, of: u32| (0..3000u32).filter(move |number| number % of == share);
    let gather = |workers: u32| {
        let mut all = Findings::with_room(100);
        for worker in 0..workers {
            let mut part = all.fresh();
            for number in numbers(worker, workers) {
                part.raise(Problem::new(&SIMPLE).inode(InodeNo(number)));
                if number % 100 == 0 {
                    part.raise(Problem::new(&OTHER).inode(InodeNo(number)));
                }
                assert!(part.iter().count() <= 201);
            }
            all.merge(part);
        }
        assert_eq!((all.counts()["demo.thing.simple"], all.counts()["demo.thing.odd"]), (3000, 30));
        all.into_sorted()
    };
    assert_eq!(gather(1), gather(7));
    assert!(gather(1).len() <= 100 && gather(1).len() > 50);
}

#[test]
fn names_are_printable() {
    assert_eq!(escape_name(b"a\xffb\n\\"), "a\\xffb\\x0a\\x5c");
}

#[test]
fn what_will_not_be_kept_need_not_be_put_together() {
    let raise = |asks: bool| {
        let mut findings = Findings::new();
        for number in (0..150_000u32).map(|number| number.wrapping_mul(7919) % 150_000) {
            let problem = Problem::new(&SIMPLE).inode(InodeNo(number));
            if !asks || !findings.passes_over(&SIMPLE, &problem.object) {
                findings.raise(problem);
            }
        }
        assert!(findings.passes_over(&SIMPLE, &Problem::new(&SIMPLE).inode(InodeNo(149_999)).object));
        assert!(!findings.passes_over(&SIMPLE, &Problem::new(&SIMPLE).inode(InodeNo(0)).object));
        assert!(!findings.passes_over(&OTHER, &Problem::new(&OTHER).inode(InodeNo(149_999)).object));
        assert_eq!(findings.counts(), [("demo.thing.simple", 150_001)].into());
        let mut two = Findings::new();
        two.raise(Problem::new(&SIMPLE).inode(InodeNo(150_000)));
        two.merge(findings);
        (two.counts(), two.into_sorted())
    };
    let (counts, kept) = raise(true);
    assert_eq!((counts, kept.len()), (raise(false).0, KEPT_PER_ROW));
    assert_eq!(kept, raise(false).1);
    assert_eq!(kept.last().and_then(|last| last.object.inode), Some(InodeNo(KEPT_PER_ROW as u32 - 1)));
}

#[test]
fn of_the_peers_of_its_row_a_problem_keeps_those_that_apply() {
    let mut problem = Problem::new(&PEERS);
    assert_eq!(problem.peers().collect::<Vec<_>>(), [1, 2, 3], "all of them, if nothing is said");
    problem.keep_peers(|peer| peer != 2);
    assert_eq!(problem.peers().collect::<Vec<_>>(), [1, 3]);
    problem.keep_peers(|peer| peer == 2);
    assert_eq!(problem.peers().collect::<Vec<_>>(), [2]);
}
