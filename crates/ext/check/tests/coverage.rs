// SPDX-License-Identifier: MIT OR Apache-2.0
//! The catalogue covers every kind of on-disk defect that e2fsck knows, or says why one cannot arise here.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_ext_check::catalogue;

/// Defects that no row stands for, each with its reason.
const EXCUSED: &[(u32, &str)] = &[];

fn defects() -> BTreeMap<u32, &'static str> {
    include_str!("e2fsck-defects.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (code, name) = line.split_once('\t').expect("two columns");
            (u32::from_str_radix(code.trim_start_matches("0x"), 16).expect("a hexadecimal code"), name)
        })
        .collect()
}

#[test]
fn every_defect_has_a_row_or_an_excuse() {
    let covered: BTreeSet<u32> = catalogue::all().iter().flat_map(|row| row.peers.iter().copied()).collect();
    let excused: BTreeSet<u32> = EXCUSED.iter().map(|(code, _)| *code).collect();
    let missing: Vec<String> = defects()
        .iter()
        .filter(|(code, _)| !covered.contains(code) && !excused.contains(code))
        .map(|(code, name)| format!("{code:#08x} {name}"))
        .collect();
    assert!(missing.is_empty(), "{} without a row:\n{}", missing.len(), missing.join("\n"));
}

#[test]
fn no_excuse_is_needless() {
    let covered: BTreeSet<u32> = catalogue::all().iter().flat_map(|row| row.peers.iter().copied()).collect();
    for (code, reason) in EXCUSED {
        assert!(!covered.contains(code), "{code:#08x} is covered after all ({reason})");
        assert!(defects().contains_key(code) && reason.len() > 20);
    }
}
