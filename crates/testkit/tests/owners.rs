// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks with several owners, made by hand: one repair, and e2fsck has nothing to say.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fsmend_device::{Device, MemoryDevice};
use fsmend_engine::Progress;
use fsmend_ext_check::repair::{self, Duplicates, Repair, RepairOptions, RepairPolicy};
use fsmend_testkit::contents::Content;
use fsmend_testkit::host::{find_program, run, skip};
use fsmend_testkit::image::{Built, Recipe, build};
use fsmend_testkit::oracle::{Verdict, e2fsck};
use fsmend_testkit::target_folder;
use fsmend_testkit::within::{Manner, options};

/// Formats, with commands that lead maps of files astray: indirect blocks and data of others, the journal's neighbourhood, the inode
/// table, a directory, an attribute block where data lie.
const CASES: &[(&str, &str, &[&str])] = &[
    ("owners-ext2", "-t ext2 -b 1024", &["block[IND] 2000", "block[0] 40", "block[3] 1900", "file_acl 1901"]),
    ("owners-ext4", "-t ext4 -b 1024 -O metadata_csum", &["block[5] 40", "block[5] 1500", "block[5] 2500"]),
    (
        "owners-bigalloc",
        "-t ext4 -b 1024 -O bigalloc,metadata_csum -C 4096",
        &["block[5] 1601", "block[5] 41"],
    ),
];

fn base(name: &'static str, mke2fs: &'static str) -> Option<PathBuf> {
    let recipe = Recipe::new(name, 8, mke2fs).copied(&[Content::Basic, Content::Subdirectories(30)]);
    match build(&recipe).unwrap() {
        Built::Image(image) => Some(image),
        Built::Skipped(reason) => {
            skip("blocks with several owners", &reason);
            None
        }
    }
}

fn plan(image: &[u8], policy: RepairPolicy, threads: usize) -> Repair {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("owners", image.to_vec()));
    let mut check = options(Manner::default());
    check.threads = threads;
    let options = RepairOptions { check, policy };
    repair::plan(&device, &options, &Progress::new(), &AtomicBool::new(false))
        .unwrap_or_else(|refused| panic!("{refused}"))
        .written_out(&device)
        .unwrap()
}

/// Repairs `image` in every way; e2fsck has to find each result sound. Returns whether blocks were shared.
fn judge(name: &str, image: &[u8], scratch: &Path) -> bool {
    let mut shares = false;
    for duplicates in [Duplicates::Clone, Duplicates::Zero, Duplicates::LostFound, Duplicates::Delete] {
        let policy = RepairPolicy { duplicates, ..RepairPolicy::default() };
        let repair = plan(image, policy.clone(), 2);
        shares |= repair.found.findings.counts().contains_key("ext.block.multiply-claimed");
        assert!(repair.is_clean(), "{name} {duplicates:?}: {:?}", repair.left.findings.counts());
        assert!(repair.rounds <= 4, "{name} {duplicates:?}: {} rounds", repair.rounds);
        assert_eq!(plan(image, policy.clone(), 7).changes, repair.changes, "{name} {duplicates:?}");
        let mut mended = image.to_vec();
        for (offset, bytes) in &repair.changes {
            mended[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        fs::write(scratch, &mended).unwrap();
        let (verdict, said) = e2fsck(scratch, Duration::from_secs(30)).unwrap();
        assert_eq!(verdict, Verdict::Sound, "{name} {duplicates:?}: {said}");
        assert!(plan(&mended, policy, 1).changes.is_empty(), "{name} {duplicates:?}: a second repair");
    }
    shares
}

#[test]
fn shared_blocks_are_mended_in_every_way() {
    for (name, mke2fs, damages) in CASES {
        let Some(base) = base(name, mke2fs) else { return };
        let scratch = target_folder().join(format!("{name}.scratch"));
        let mut sharing = 0;
        // Each by itself, on three files each, and all at once.
        for inode in [14, 17, 20] {
            for damage in *damages {
                fs::copy(&base, &scratch).unwrap();
                let command = format!("set_inode_field <{inode}> {damage}");
                run("debugfs", ["-w", "-R", &command, scratch.to_str().unwrap()]).unwrap();
                let name = format!("{name} <{inode}> {damage}");
                sharing += u32::from(judge(&name, &fs::read(&scratch).unwrap(), &scratch));
            }
        }
        fs::copy(&base, &scratch).unwrap();
        for (inode, damage) in (14..).zip(*damages) {
            let command = format!("set_inode_field <{inode}> {damage}");
            run("debugfs", ["-w", "-R", &command, scratch.to_str().unwrap()]).unwrap();
        }
        sharing += u32::from(judge(name, &fs::read(&scratch).unwrap(), &scratch));
        assert!(sharing > 3, "{name}: only {sharing} of the damages led to shared blocks");
        fs::remove_file(&scratch).unwrap();
    }
}

/// An image with files `a` and `b` of nine blocks each in the folder `d`; `commands` for debugfs are carried out on it.
fn with_two_files(name: &str, mke2fs: &str) -> Option<PathBuf> {
    if find_program("mke2fs").is_none() || find_program("debugfs").is_none() {
        skip(name, "needs mke2fs and debugfs");
        return None;
    }
    let path = target_folder().join(format!("{name}-{}.img", std::process::id()));
    fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
    run("mke2fs", "-q -F".split(' ').chain(mke2fs.split(' ')).chain([path.to_str().unwrap()])).unwrap();
    let contents = path.with_extension("contents");
    fs::write(&contents, [7; 9000]).unwrap();
    debugfs(&path, "mkdir d");
    for file in ["a", "b"] {
        debugfs(&path, &format!("write {} d/{file}", contents.display()));
    }
    fs::remove_file(contents).unwrap();
    Some(path)
}

fn debugfs(image: &Path, request: &str) -> String {
    let output = run("debugfs", ["-w", "-R", request, image.to_str().unwrap()]).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn laid_over(image: &[u8], repair: &Repair) -> Vec<u8> {
    let mut mended = image.to_vec();
    for (offset, bytes) in &repair.changes {
        mended[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    mended
}

/// What the translator's field of a file says.
fn translator(path: &Path, image: &[u8], file: &str) -> u32 {
    let told = debugfs(path, &format!("imap {file}"));
    let part = |from: &str| {
        let rest = told.split(from).nth(1).unwrap();
        rest.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap().to_owned()
    };
    let block: usize = part("located at block ").parse().unwrap();
    let offset = usize::from_str_radix(&part("offset 0x"), 16).unwrap();
    let at = block * 1024 + offset + 0x24;
    u32::from_le_bytes(image[at..at + 4].try_into().unwrap())
}

#[test]
fn translators_of_the_hurd_get_places_of_their_own() {
    let Some(path) = with_two_files("owners-hurd", "-o hurd -t ext2 -O none,sparse_super -b 1024") else {
        return;
    };
    debugfs(&path, "sif d/a translator 900");
    debugfs(&path, "sif d/b translator 900");
    let mut image = fs::read(&path).unwrap();
    image[900 * 1024..901 * 1024].fill(b'T');
    fs::write(&path, &image).unwrap();
    assert!(judge("both", &image, &path.with_extension("scratch")));
    let mended = laid_over(&image, &plan(&image, RepairPolicy::default(), 2));
    let blocks = ["d/a", "d/b"].map(|file| translator(&path, &mended, file));
    assert!(blocks.contains(&900) && blocks[0] != blocks[1], "{blocks:?}");
    for block in blocks {
        assert!(mended[block as usize * 1024..][..1024].iter().all(|byte| *byte == b'T'), "{blocks:?}");
    }
    // One that lies where another file has its data, in the middle and alone.
    let data: Vec<String> = debugfs(&path, "blocks d/b").split_whitespace().map(str::to_owned).collect();
    debugfs(&path, "sif d/b translator 0");
    debugfs(&path, &format!("sif d/a translator {}", data[4]));
    let image = fs::read(&path).unwrap();
    assert!(judge("data", &image, &path.with_extension("scratch")));
    let mended = laid_over(&image, &plan(&image, RepairPolicy::default(), 2));
    let moved = translator(&path, &mended, "d/a");
    assert!(moved != 0 && moved.to_string() != data[4]);
    assert!(mended[moved as usize * 1024..][..1024].iter().all(|byte| *byte == 7), "what lay there");
    let _ = fs::remove_file(path.with_extension("scratch"));
    fs::remove_file(path).unwrap();
}

#[test]
fn files_named_in_inline_directories_go_where_they_are_wanted() {
    let mke2fs = "-t ext4 -b 1024 -I 256 -O inline_data,metadata_csum";
    let Some(path) = with_two_files("owners-inline", mke2fs) else { return };
    let scratch = path.with_extension("scratch");
    let shared = debugfs(&path, "blocks d/a").split_whitespace().next().unwrap().to_owned();
    debugfs(&path, &format!("sif d/b block[5] {shared}"));
    assert!(debugfs(&path, "stat d").contains("0x10000000"), "the directory lives in its inode");
    let image = fs::read(&path).unwrap();
    assert!(judge("inline", &image, &scratch));
    for (duplicates, in_lost_found) in [(Duplicates::LostFound, true), (Duplicates::Delete, false)] {
        let policy = RepairPolicy { duplicates, ..RepairPolicy::default() };
        let repair = plan(&image, policy, 2);
        assert!(repair.later.is_empty() || in_lost_found, "{:?}", repair.later.counts());
        fs::write(&scratch, laid_over(&image, &repair)).unwrap();
        let names = |folder: &str| {
            let listed = debugfs(&scratch, &format!("ls -p {folder}"));
            // Entries without an inode are listed, too.
            let names = listed
                .lines()
                .filter(|line| !line.starts_with("/0/"))
                .filter_map(|line| line.split('/').nth(5));
            let mut names: Vec<String> =
                names.filter(|name| !matches!(*name, "" | "." | "..")).map(str::to_owned).collect();
            names.sort();
            names
        };
        assert!(names("d").is_empty(), "{duplicates:?}: {:?}", names("d"));
        let expected: &[&str] = if in_lost_found { &["#13", "#14"] } else { &[] };
        assert_eq!(names("lost+found"), expected, "{duplicates:?}");
    }
    fs::remove_file(scratch).unwrap();
    fs::remove_file(path).unwrap();
}
