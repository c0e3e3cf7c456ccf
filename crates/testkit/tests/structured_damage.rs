// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damage with a structure: judged, repaired, and nothing lost that e2fsck keeps.
//!
//! A case is an image and a number. `FSMEND_STRUCTURED_CASES` asks for more than the usual ones per image, `FSMEND_STRUCTURED_SEED` for others,
//! `FSMEND_STRUCTURED_IMAGES` for images of one's own, `FSMEND_STRUCTURED_KEEP` names a folder for the damaged images.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fsmend_testkit::host::{run, skip};
use fsmend_testkit::image::{Built, build};
use fsmend_testkit::repair::{Depth, Failure, Tree, bases, changes_of_repair, laid_over, write_sparse};
use fsmend_testkit::structured_damage::{DEED_NAMES, Mischief, Victim};
use fsmend_testkit::target_folder;

/// Every so many cases the kernel is asked, too, and another number of threads.
const DEEPER_EVERY: u64 = 20;

/// Where we are stricter than e2fsck 1.47 on purpose: our code, a deed (or any), and why.
const ON_PURPOSE: &[(&str, &str, &str)] = &[
    (
        "ext.orphan.unreleased",
        "",
        "an impossible number of an orphan: -n does not look at orphans, -p and -y clear it",
    ),
    (
        "ext.directory.name-twice",
        "name changed",
        "without an index, e2fsck compares the names within one block of a directory",
    ),
    (
        "ext.resize.invalid",
        "pointers",
        "e2fsck compares the first quarter of the reserved pointers; the kernel all of them when it grows the file system",
    ),
    (
        "ext.inode.value-holder-not-regular",
        "flag turned over",
        "the kernel refuses to open what has the flag of a value and is none; e2fsck looks at regular files",
    ),
    (
        "ext.inode.verity-without-feature",
        "flag turned over",
        "the kernel does not open a file with the flag of verity where the file system lacks the feature; e2fsck passes over it",
    ),
    (
        "ext.xattr.value-inode-spurious",
        "flag turned over",
        "the same of regular files, where the file system has no values in inodes of their own",
    ),
    (
        "ext.extent.unwritten-not-allowed",
        "extents",
        "unwritten blocks in the journal: the kernel does not find it then, and refuses to mount",
    ),
    (
        "ext.extent.node-depth",
        "extents",
        "the kernel refuses to read what the node maps; e2fsck goes by its place in the tree",
    ),
    (
        "ext.inode.size-wrong",
        "number of an inode",
        "a directory of terabytes in one block: with large_dir, e2fsck does not look at the upper half of the size",
    ),
];

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// The images: those of the caller, or the written ones, which are the same everywhere.
fn images() -> Vec<PathBuf> {
    if let Ok(images) = std::env::var("FSMEND_STRUCTURED_IMAGES") {
        return images.split_whitespace().map(PathBuf::from).collect();
    }
    let mut images = Vec::new();
    // With multiple-mount protection e2fsck waits for seconds each time.
    for recipe in bases::recipes().iter().filter(|recipe| recipe.name != "repair-mmp") {
        match build(recipe).unwrap() {
            Built::Image(image) => images.push(image),
            Built::Skipped(reason) => skip(&format!("structured damage to {}", recipe.name), &reason),
        }
    }
    images
}

fn name_of(image: &Path) -> String {
    image.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Two images meet the same numbers in different cases: what is damaged is drawn from a seed with the place of the image in it.
fn seed(image: usize, case: u64) -> u64 {
    (image as u64) << 32 | case
}

fn keep(image: &Path, seed: u64, mischief: &Mischief) {
    if let Some(folder) = std::env::var_os("FSMEND_STRUCTURED_KEEP") {
        let path = PathBuf::from(folder).join(format!("{}-{seed}.img", name_of(image)));
        write_sparse(&path, &mischief.image.bytes()).unwrap();
    }
}

fn is_on_purpose(failure: &Failure, class: &str) -> bool {
    let code = failure.kind.strip_prefix("too strict: ");
    ON_PURPOSE.iter().any(|(ours, deed, _)| code == Some(*ours) && class.contains(deed))
}

#[test]
fn structured_damage_is_found_and_mended_and_nothing_is_lost() {
    let (first, cases) = (number("FSMEND_STRUCTURED_SEED", 1), number("FSMEND_STRUCTURED_CASES", 16));
    let failures = Mutex::new(Vec::new());
    let judged = AtomicU64::new(0);
    for (place, image) in images().iter().enumerate() {
        let Some(victim) = Victim::of(image).unwrap() else { panic!("{} has no tree", image.display()) };
        let next = AtomicU64::new(first);
        let work = || {
            loop {
                let case = next.fetch_add(1, Relaxed);
                if case >= first + cases {
                    return;
                }
                let deeper = Depth { threads: &[7], mount: true, ..Depth::USUAL };
                let depth = if case.is_multiple_of(DEEPER_EVERY) { deeper } else { Depth::USUAL };
                let seed = seed(place, case);
                let Some(trial) = victim.try_out(seed, depth).unwrap() else { continue };
                judged.fetch_add(1, Relaxed);
                for failure in &trial.failures {
                    let (class, label) = (&trial.mischief.class, &trial.mischief.label);
                    if is_on_purpose(failure, class) {
                        continue;
                    }
                    let line = format!(
                        "{}: {} case {case}: {class}: {label}: {}",
                        failure.kind,
                        name_of(image),
                        failure.detail
                    );
                    failures.lock().unwrap().push(line);
                }
                keep(image, seed, &trial.mischief);
            }
        };
        // A scope does not wait until a thread has removed its scratch file; joining does.
        std::thread::scope(|scope| {
            let workers = [scope.spawn(work), scope.spawn(work)];
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    let judged = judged.into_inner();
    assert!(failures.is_empty(), "{} failures in {judged} cases:\n{}", failures.len(), failures.join("\n"));
}

/// An image that no other test writes to, gone afterwards.
fn copy_of(recipe: &str, purpose: &str) -> Option<PathBuf> {
    let recipe = bases::recipes().into_iter().find(|known| known.name == recipe).unwrap();
    match build(&recipe).unwrap() {
        Built::Image(image) => {
            let copy = target_folder().join(format!("structured-{purpose}-{}.img", std::process::id()));
            std::fs::copy(image, &copy).unwrap();
            Some(copy)
        }
        Built::Skipped(reason) => {
            skip(purpose, &reason);
            None
        }
    }
}

/// What lies in a block proves to be attributes: a directory that leads there is mended in a copy.
#[test]
fn a_directory_that_leads_to_shared_attributes_costs_no_attributes() {
    let Some(image) = copy_of("repair-ext4", "attributes") else { return };
    let path = image.display().to_string();
    let sound = Tree::of(&std::fs::read(&image).unwrap()).unwrap();
    let shown = run("debugfs", ["-R", "stat /attributes/shared-0", &path]).unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let block = shown.split("File ACL: ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    assert_ne!(block, "0");
    run("debugfs", ["-w", "-R", &format!("sif /nested block[5] {block}"), &path]).unwrap();
    let damaged = std::fs::read(&image).unwrap();
    let changes = changes_of_repair(&image).unwrap();
    let repaired = Tree::of(&laid_over(&damaged, &changes)).unwrap();
    let mut sharing = 0;
    for (name, node) in sound.nodes.iter().filter(|(name, _)| name.starts_with(b"attributes/")) {
        assert_eq!(
            repaired.nodes.get(name).map(|now| &now.attributes),
            Some(&node.attributes),
            "{}",
            name.escape_ascii()
        );
        sharing += usize::from(name.starts_with(b"attributes/shared-"));
    }
    assert!(sharing > 1 && damaged != laid_over(&damaged, &changes));
    std::fs::remove_file(image).unwrap();
}

/// The tree before and after a repair of what `commands` of debugfs made of an image.
fn before_and_after(recipe: &str, purpose: &str, commands: &[&str]) -> Option<(Tree, Tree)> {
    let image = copy_of(recipe, purpose)?;
    let path = image.display().to_string();
    let sound = Tree::of(&std::fs::read(&image).unwrap()).unwrap();
    for command in commands {
        run("debugfs", ["-w", "-R", command, &path]).unwrap();
    }
    let damaged = std::fs::read(&image).unwrap();
    let changes = changes_of_repair(&image).unwrap();
    std::fs::remove_file(image).unwrap();
    assert!(!changes.is_empty());
    Some((sound, Tree::of(&laid_over(&damaged, &changes)).unwrap()))
}

/// The report says of such a file that it gets a name in lost+found.
#[test]
fn a_file_without_a_name_that_only_the_repair_empties_is_kept() {
    // As long as no file can be, and all that it has leads out of the file system.
    let commands = [
        "sif /tiny/tiny-20 uid 77",
        "sif /tiny/tiny-20 size 140737488355329",
        "sif /tiny/tiny-20 block[0] 99999999",
        "unlink /tiny/tiny-20",
    ];
    let Some((sound, repaired)) = before_and_after("repair-ext3", "emptied", &commands) else { return };
    let inode = sound.nodes.get(&b"tiny/tiny-20"[..]).unwrap().inode;
    let kept = repaired.nodes.get(format!("lost+found/#{inode}").as_bytes()).unwrap();
    assert_eq!((kept.inode, kept.size, kept.owner.0), (inode, 0, 77));
}

/// An empty file is freed with its name. One that is empty by its size and its space but has a pointer is damaged: it is kept, though there is
/// nothing that the pointer could lead to.
#[test]
fn a_file_without_a_name_is_empty_only_without_pointers() {
    let commands = [
        "write /dev/null bare",
        "write /dev/null torn",
        "sif torn uid 77",
        "sif torn block[IND] 4",
        "unlink bare",
        "unlink torn",
    ];
    let Some((sound, repaired)) = before_and_after("repair-ext2", "torn", &commands) else { return };
    let added: Vec<_> = repaired.nodes.iter().filter(|(path, _)| !sound.nodes.contains_key(*path)).collect();
    let [(path, kept)] = added[..] else { panic!("{added:?}") };
    assert_eq!(path.escape_ascii().to_string(), format!("lost+found/#{}", kept.inode));
    assert_eq!((kept.size, kept.owner.0, kept.has_blocks), (0, 77, false));
}

/// Reserved blocks list their copies; a file whose map leads there has a hole in that place, not what lies in those copies.
#[test]
fn a_reserved_descriptor_block_is_no_map() {
    let commands = ["sif /tiny/tiny-400 block[IND] 3"];
    let Some((sound, repaired)) = before_and_after("repair-ext3", "reserved", &commands) else { return };
    assert!(sound.nodes == repaired.nodes);
}

#[test]
fn every_deed_is_done_somewhere_and_the_same_number_does_the_same() {
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut made = 0;
    for (place, image) in images().iter().enumerate() {
        let victim = Victim::of(image).unwrap().unwrap();
        for case in 1..=150 {
            let Some(mischief) = victim.damaged(seed(place, case)) else { continue };
            made += 1;
            done.extend(mischief.class.split(" + ").map(str::to_owned));
            if case < 5 {
                let again = victim.damaged(seed(place, case)).unwrap();
                assert!(again.image == mischief.image && again.label == mischief.label);
            }
        }
    }
    if made > 0 {
        let missing: Vec<_> = DEED_NAMES.iter().filter(|name| !done.contains(**name)).collect();
        assert!(missing.is_empty(), "never done: {missing:?}");
    }
}
