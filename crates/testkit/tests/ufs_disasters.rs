// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS that were lived in, made by our mkfs, Debian's makefs and FreeBSD's newfs, after what disks and people do to whole blocks, groups and maps: one repair makes them
//! sound, the same at any thread count, for us and for fsck_ffs; no file is lost or changed that fsck_ffs keeps. `FSMEND_DISASTERS=30` tries 30 seeds of each damage on each
//! image, `FSMEND_DISASTER` names the damages that are tried.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use fsmend_base::SeededRandom;
use fsmend_testkit::host::skip;
use fsmend_testkit::repair::Scratch;
use fsmend_testkit::ufs::checked::{check, codes, repaired};
use fsmend_testkit::ufs::disaster::{DISASTERS, Inventory, pointer, put_pointer};
use fsmend_testkit::ufs::judged::{Sound, judge, note, report};
use fsmend_testkit::ufs::lived_in::LivedIn;
use fsmend_testkit::ufs::{Image, KINDS, Kind, Node, peers, tree};
use fsmend_ufs_check::rows;
use fsmend_ufs_format::ByteOrder::{Big, Little};
use fsmend_ufs_format::Version::{Ufs1, Ufs2};

/// An image filled by our driver after newfs made it, and tunefs gave it a journal if there is to be one; `None` without these programs.
fn by_newfs(arguments: &[&str], has_journal: bool, bytes: usize) -> Option<LivedIn> {
    let file = Scratch::with(&vec![0; bytes]).unwrap();
    let programs = [("newfs", arguments), ("tunefs", &["-j", "enable"])];
    for (program, arguments) in programs.into_iter().take(1 + usize::from(has_journal)) {
        let output =
            Command::new(peers::program(program)?).args(arguments).arg(file.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Some(LivedIn::filled(format!("newfs {arguments:?}"), std::fs::read(file.path()).unwrap()))
}

fn bases() -> Vec<LivedIn> {
    let mut bases = vec![
        LivedIn::made(Ufs2, Little, (4096, 512), 12 << 20),
        LivedIn::made(Ufs1, Little, (8192, 1024), 14 << 20),
        LivedIn::made(Ufs2, Big, (4096, 4096), 14 << 20),
        LivedIn::made(Ufs1, Big, (4096, 512), 12 << 20),
        LivedIn::made(Ufs2, Little, (32768, 4096), 24 << 20),
    ];
    bases.extend(by_newfs(&["-O2", "-U", "-b", "4096", "-f", "512"], true, 24 << 20));
    bases.extend(by_newfs(&["-O1", "-b", "4096", "-f", "1024"], false, 12 << 20));
    for kind in [KINDS[0], KINDS[3]] {
        bases.extend(Image::of(kind).map(|image| {
            let halfway = image.bytes.clone();
            LivedIn { name: format!("makefs {kind:?}"), image, halfway }
        }));
    }
    bases
}

/// Images that others make, with options that are rare.
fn strangers() -> Vec<LivedIn> {
    let newfs: [(&[&str], bool, usize); 14] = [
        (&["-O2", "-b", "65536", "-f", "8192"], false, 40),
        (&["-O1", "-b", "65536", "-f", "65536", "-i", "20000"], false, 70),
        (&["-O2", "-b", "16384", "-f", "16384", "-m", "0", "-o", "space"], false, 30),
        (&["-O1", "-b", "32768", "-f", "4096", "-e", "1", "-a", "1"], false, 30),
        (&["-O2", "-b", "4096", "-f", "512", "-i", "1024", "-c", "300"], false, 16),
        (&["-O1", "-b", "4096", "-f", "2048", "-i", "4000", "-k", "200", "-n"], false, 16),
        (&["-O2", "-b", "8192", "-f", "1024", "-k", "100000", "-U", "-l"], false, 20),
        (&["-O2", "-b", "8192", "-f", "2048", "-t", "-L", "name"], false, 20),
        (&["-O2", "-b", "4096", "-f", "4096", "-U"], true, 24),
        (&["-O1", "-b", "8192", "-f", "4096", "-g", "1", "-h", "1"], false, 20),
        (&["-O2", "-b", "16384", "-f", "2048", "-S", "4096", "-r", "160"], false, 24),
        (&["-O1", "-b", "8192", "-f", "1024", "-U"], true, 40),
        (&["-O2", "-b", "4096", "-f", "1024", "-s", "30001"], false, 20),
        (&["-O1", "-b", "4096", "-f", "512", "-i", "512", "-d", "4096"], false, 16),
    ];
    newfs
        .into_iter()
        .filter_map(|(arguments, has_journal, mib)| by_newfs(arguments, has_journal, mib << 20))
        .collect()
}

#[test]
fn disasters_are_mended_in_one_run_and_cost_no_more_than_with_fsck_ffs() {
    try_disasters(&bases(), 5);
}

#[test]
fn disasters_of_rare_kinds_of_file_systems_are_mended() {
    let bases = strangers();
    if bases.is_empty() {
        return skip("disasters_of_rare_kinds_of_file_systems_are_mended", "newfs is not there");
    }
    try_disasters(&bases, 19);
}

/// Tries all damages on each image if seeds were asked for, otherwise one in `usual`.
fn try_disasters(bases: &[LivedIn], usual: usize) {
    let asked: Option<u64> = std::env::var("FSMEND_DISASTERS").ok().map(|value| value.parse().unwrap());
    let first: u64 = std::env::var("FSMEND_DISASTERS_FROM").map_or(0, |value| value.parse().unwrap());
    let every = if asked.is_some() { 1 } else { usual };
    let only = std::env::var("FSMEND_DISASTER").ok();
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (number, base) in bases.iter().enumerate() {
        let has = Inventory::of(&base.image, &base.halfway);
        let sound = Sound::of(&base.image.bytes);
        // makefs says of UFS2 that its superblock is where that of UFS1 is, and fsck_ffs takes no such.
        let has_peer =
            base.image.geometry.order == Little && !base.name.contains("makefs Make { version: Ufs2");
        assert_eq!(judge(&base.image.bytes, Some(&sound), has_peer), Ok(()), "{}", base.name);
        for (name, disaster) in DISASTERS.iter().skip(number % every).step_by(every) {
            if only.as_ref().is_some_and(|only| !name.contains(only)) {
                continue;
            }
            for seed in first..first + asked.unwrap_or(1) {
                let mut image = base.image.clone();
                disaster(&mut image, &has, &mut SeededRandom::new(seed * 1000 + number as u64));
                tried += 1;
                let judged = std::panic::catch_unwind(|| judge(&image.bytes, Some(&sound), has_peer));
                if let Err(why) = judged.unwrap_or_else(|_| Err("panic".to_owned())) {
                    note(&mut failures, &image.bytes, format!("{}, {name}, seed {seed}: {why}", base.name));
                }
            }
        }
    }
    report(&failures, tried);
}

#[test]
fn several_disasters_at_once_are_mended_in_one_run() {
    let seeds: u64 = std::env::var("FSMEND_DISASTERS").map_or(2, |value| value.parse::<u64>().unwrap() * 2);
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (number, base) in bases().iter().enumerate() {
        let has = Inventory::of(&base.image, &base.halfway);
        for seed in 0..seeds {
            let mut random = SeededRandom::new(seed * 1000 + number as u64);
            let (mut image, mut names) = (base.image.clone(), Vec::new());
            for _ in 0..2 + random.below(4) {
                let (name, disaster) = DISASTERS[random.below(DISASTERS.len() as u64) as usize];
                // What is damaged already may not be found again.
                let next = std::panic::AssertUnwindSafe(|| disaster(&mut image, &has, &mut random));
                if std::panic::catch_unwind(next).is_err() {
                    break;
                }
                names.push(name);
            }
            tried += 1;
            // What fsck_ffs makes of several damages at once is no measure.
            let judged = std::panic::catch_unwind(|| judge(&image.bytes, None, false));
            let judged = judged.unwrap_or_else(|_| Err("panic".to_owned()));
            // Without any copy of the superblock it is refused, and that is all.
            let is_refused = |why: &String| {
                why.contains("no superblock or copy of one was found")
                    || why.contains("no copy of it was found")
            };
            if let Err(why) = judged.or_else(|why| if is_refused(&why) { Ok(()) } else { Err(why) }) {
                note(&mut failures, &image.bytes, format!("{}, {names:?}, seed {seed}: {why}", base.name));
            }
        }
    }
    report(&failures, tried);
}

/// Names in `/many` that are not there any more, of those that do not stand in the lost blocks.
fn lost_beside(base: &LivedIn, image: &Image, lost: &[u64]) -> Vec<String> {
    let judged = judge(&image.bytes, None, base.image.geometry.order == Little);
    assert_eq!(judged, Ok(()), "{}", base.name);
    let after = tree(&repaired(&image.bytes, &base.name).bytes);
    let geometry = &base.image.geometry;
    let blocks: Vec<u64> = lost.iter().map(|fragment| geometry.place(*fragment)).collect();
    let is_lost = |at: u64| blocks.iter().any(|block| (*block..block + geometry.block_size).contains(&at));
    let before = tree(&base.image.bytes);
    let names =
        before.iter().filter(|(path, node)| path.starts_with("/many/") && !is_lost(node.chunk as u64));
    names.filter(|(path, _)| !after.contains_key(*path)).map(|(path, _)| path.clone()).collect()
}

/// A directory is not cut where a block of it is missing: what is behind moves up.
#[test]
fn a_missing_block_of_a_large_directory_costs_only_the_names_in_it() {
    for (version, order) in [(Ufs2, Little), (Ufs1, Big)] {
        let base = LivedIn::made(version, order, (4096, 512), 12 << 20);
        let inode = base.image.inode("/many");
        let record = base.image.record(inode);
        assert!(record.size() > 13 * 4096, "{}", record.size());
        let indirect = record.pointer(12);
        let behind = pointer(&base.image, indirect, 0);
        let [first, third] = [0, 3].map(|slot| record.pointer(slot));
        let cases: [(&[usize], bool, bool); 6] = [
            (&[3], false, false),
            (&[0], false, false),
            (&[], true, false),
            // The count of sectors knows of the hole: nothing else tells.
            (&[], true, true),
            (&[3], true, true),
            (&[0, 3], true, false),
        ];
        for (slots, is_behind, is_counted) in cases {
            let mut image = base.image.clone();
            let mut lost: Vec<u64> =
                slots.iter().map(|slot| if *slot == 0 { first } else { third }).collect();
            if is_behind {
                put_pointer(&mut image, indirect, 0, 0);
                lost.push(behind);
            }
            image.amend_inode(inode, |record| {
                slots.iter().for_each(|slot| record.set_pointer(*slot, 0));
                if is_counted {
                    record.set_sectors(record.sectors() - lost.len() as u64 * 8);
                }
            });
            let found = codes(&check(&image.bytes, 1));
            assert!(
                found.contains(&rows::DIRECTORY_HOLE.code),
                "{version:?} {slots:?} {is_behind}: {found:?}"
            );
            let gone = lost_beside(&base, &image, &lost);
            // `.` and `..` take the place of a name or two in what becomes the first block.
            let most = if slots.contains(&0) { 2 } else { 0 };
            assert!(gone.len() <= most, "{version:?} {slots:?} {is_behind}: {gone:?}");
        }
    }
}

/// Extended attributes that lie in the block of another file were cut there, before each file had its own.
#[test]
fn what_mends_one_file_is_not_written_into_a_block_of_another() {
    let base = LivedIn::made(Ufs2, Little, (4096, 512), 12 << 20);
    let sound = Sound::of(&base.image.bytes);
    for (one, other) in [("/dir7/file5", "/dir3/file1"), ("/dir3/file1", "/dir7/file5")] {
        let mut image = base.image.clone();
        let to = image.record(image.inode(other)).pointer(0);
        image.amend(one, |record| {
            record.set_attributes_size(64);
            record.set_attribute_block(0, to);
        });
        assert_eq!(judge(&image.bytes, Some(&sound), false), Ok(()), "{one} {other}");
        // A directory there is no other matter.
        let mut image = base.image.clone();
        let inode = image.inode("/dir5");
        image.amend_inode(inode, |record| record.set_pointer(0, to));
        assert_eq!(judge(&image.bytes, Some(&sound), false), Ok(()), "/dir5 {other}");
    }
}

/// Of two names of a directory the one stays that its `..` leads to, whichever is met first, and whether or not the other directory is damaged otherwise.
#[test]
fn the_name_stays_that_the_directory_itself_tells() {
    for (version, order) in [(Ufs2, Little), (Ufs1, Big)] {
        let base = LivedIn::made(version, order, (8192, 1024), 14 << 20);
        for is_damaged in [false, true] {
            let mut image = base.image.clone();
            let path = "/deep/level0/level1";
            let (inode, at) = (image.inode(path), image.entry_at("/", "many"));
            order.put_u32(&mut image.bytes, at, inode);
            if is_damaged {
                let at = image.entry_at("/", "single");
                image.bytes[at + 6] = 4;
            }
            assert_eq!(judge(&image.bytes, None, order == Little), Ok(()), "{version:?} {is_damaged}");
            let (before, after) = (tree(&base.image.bytes), tree(&repaired(&image.bytes, path).bytes));
            let lost: Vec<&String> = before
                .keys()
                .filter(|name| name.starts_with("/deep/") && !after.contains_key(*name))
                .collect();
            assert!(lost.is_empty(), "{version:?} {is_damaged}: {lost:?}");
            assert!(!after.contains_key("/many"), "{version:?} {is_damaged}");
        }
    }
}

/// Before, an entry was lost with its name, unless only its length was wrong: the file went to lost+found.
#[test]
fn an_entry_with_one_wrong_field_stays_where_it_is() {
    for (version, order) in [(Ufs2, Little), (Ufs1, Big)] {
        let base = LivedIn::made(version, order, (4096, 512), 12 << 20);
        // Offset in the entry, what stands there then, the name that stays. The last entry of its chunk has former ones behind it.
        let cases: [(&str, &str, usize, u8, &str); 10] = [
            ("/dir3", "file6", 6, 134, "file6"),
            ("/dir3", "file6", 7, 2, "file6"),
            ("/dir3", "file6", 7, 7, "file6"),
            ("/dir3", "file6", 7, 0, "file6"),
            ("/dir3", "file6", 7, 200, "file6"),
            ("/dir3", "file6", 13, 0xF8, "file6"),
            ("/dir3", "file6", 10, b'/', "fi_e6"),
            ("/dir3", "file6", 10, 0, "fi_e6"),
            ("/dir3", "renamed-file", 6, 16, "renamed-file"),
            ("/dir3", "renamed-file", 20, 1, "renamed-file"),
        ];
        for (directory, name, offset, value, kept) in cases {
            let mut image = base.image.clone();
            let at = image.entry_at(directory, name) + offset;
            image.bytes[at] = value;
            assert_eq!(judge(&image.bytes, None, order == Little), Ok(()), "{name} {offset} {value}");
            let (before, after) = (tree(&base.image.bytes), tree(&repaired(&image.bytes, name).bytes));
            let mut names: Vec<String> = before.keys().cloned().collect();
            names.retain(|path| *path != format!("{directory}/{name}"));
            names.push(format!("{directory}/{kept}"));
            names.sort();
            assert_eq!(
                after.keys().cloned().collect::<Vec<_>>(),
                names,
                "{version:?} {name} {offset} {value}"
            );
            let inode = |of: &BTreeMap<String, Node>, name: &str| of[&format!("{directory}/{name}")].inode;
            assert_eq!(inode(&after, kept), inode(&before, name), "{version:?} {name} {offset} {value}");
        }
    }
}

/// Before, a mode of 0 cost the file, as it does with fsck_ffs, and an impossible type cost links and what is empty.
#[test]
fn a_lost_mode_costs_no_file() {
    let lost = ["/dir3/file8", "/deep", "/short-link", "/long-link", "/tall", "/many", "/grows"];
    for (version, order) in [(Ufs2, Little), (Ufs1, Big)] {
        let base = LivedIn::made(version, order, (4096, 512), 12 << 20);
        let before = tree(&base.image.bytes);
        // That of an empty file only with the type alone: the rest is a free inode.
        let cases = lost.map(|path| (path, 0)).into_iter();
        let cases = cases.chain(lost.into_iter().chain(["/dir3/file0"]).map(|path| (path, 0o170_644)));
        for (path, mode) in cases {
            let mut image = base.image.clone();
            image.amend(path, |record| record.set_mode(mode));
            let found = codes(&check(&image.bytes, 1));
            assert!(found.contains(&rows::TYPE_UNKNOWN.code), "{version:?} {path} {mode:o}: {found:?}");
            // fsck_ffs makes a file of anything with an impossible type.
            let has_peer = order == Little && mode == 0;
            assert_eq!(judge(&image.bytes, None, has_peer), Ok(()), "{version:?} {path} {mode:o}");
            let after = tree(&repaired(&image.bytes, path).bytes);
            // A long link has blocks as a file has.
            let is_same = |(name, node): &(&String, &Node)| {
                after.get(*name).is_some_and(|own| {
                    (own.kind == node.kind || **name == "/long-link" && *name == path)
                        && own.size == node.size
                        && (own.contents == node.contents
                            || node.kind == Kind::Directory
                            || own.kind != node.kind)
                })
            };
            let gone: Vec<&String> =
                before.iter().filter(|one| !is_same(one)).map(|(name, _)| name).collect();
            assert!(gone.is_empty(), "{version:?} {path} {mode:o}: {gone:?}");
        }
    }
}

/// A field of a header is wrong, and so are the hashes of the inodes in the last block of inodes that was written: the map of inodes in that header says that they are in use. Before,
/// they were lost, since nothing in their block made sense.
#[test]
fn inodes_with_wrong_hashes_are_not_lost_with_a_field_of_their_groups_header() {
    let base = LivedIn::made(Ufs2, Little, (4096, 512), 12 << 20);
    let (of_group, of_block) = (base.image.geometry.group_inodes, base.image.geometry.block_inodes);
    let before = tree(&base.image.bytes);
    let mut tried = 0;
    for group in 0..base.image.geometry.groups {
        let inodes = before.values().map(|node| node.inode).filter(|inode| inode / of_group == group);
        let Some(block) = inodes.map(|inode| inode / of_block).max() else { continue };
        // The first two blocks are always taken for written.
        if block * of_block < group * of_group + 2 * of_block {
            continue;
        }
        let mut image = base.image.clone();
        let inodes: BTreeSet<u32> =
            before.values().map(|node| node.inode).filter(|inode| inode / of_block == block).collect();
        for inode in &inodes {
            // A byte of the time of its creation.
            let at = image.record_at(*inode) + 56;
            image.bytes[at] ^= 1;
        }
        image.amend_group(group, |header, _| header.set_nclusterblks(header.nclusterblks() + 2));
        let after = tree(&repaired(&image.bytes, "a header and inodes").bytes);
        let is_gone = |path: &&String| !after.contains_key(*path);
        assert_eq!(before.keys().filter(is_gone).collect::<Vec<_>>(), Vec::<&String>::new());
        tried += 1;
    }
    assert!(tried > 0);
}
