//! Blocks with several owners, made by hand: one repair, and e2fsck has nothing to say.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fsmend_device::{Device, MemoryDevice};
use fsmend_engine::Progress;
use fsmend_ext_check::repair::{self, Duplicates, Repair, RepairOptions, Wishes};
use fsmend_testkit::contents::Content;
use fsmend_testkit::host::{run, skip};
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

fn plan(image: &[u8], wishes: Wishes, threads: usize) -> Repair {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("owners", image.to_vec()));
    let mut check = options(Manner::default());
    check.threads = threads;
    let options = RepairOptions { check, wishes };
    repair::plan(&device, &options, &Progress::new(), &AtomicBool::new(false))
        .unwrap_or_else(|refused| panic!("{refused}"))
}

/// Repairs `image` in every way; e2fsck has to find each result sound. Returns whether blocks were shared.
fn judge(name: &str, image: &[u8], scratch: &Path) -> bool {
    let mut shares = false;
    for duplicates in [Duplicates::Clone, Duplicates::Zero, Duplicates::LostFound, Duplicates::Delete] {
        let wishes = Wishes { duplicates, ..Wishes::default() };
        let repair = plan(image, wishes.clone(), 2);
        shares |= repair.found.findings.counts().contains_key("ext.block.multiply-claimed");
        assert!(repair.is_clean(), "{name} {duplicates:?}: {:?}", repair.left.findings.counts());
        assert!(repair.rounds <= 4, "{name} {duplicates:?}: {} rounds", repair.rounds);
        assert_eq!(plan(image, wishes.clone(), 7).changes, repair.changes, "{name} {duplicates:?}");
        let mut mended = image.to_vec();
        for (offset, bytes) in &repair.changes {
            mended[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        fs::write(scratch, &mended).unwrap();
        let (verdict, said) = e2fsck(scratch, Duration::from_secs(30)).unwrap();
        assert_eq!(verdict, Verdict::Sound, "{name} {duplicates:?}: {said}");
        assert!(plan(&mended, wishes, 1).changes.is_empty(), "{name} {duplicates:?}: a second repair");
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
