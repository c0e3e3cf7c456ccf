// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests of the checker of hybridfs have in common.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, MemoryDevice, WritableDevice, WritableMemory};
use fsmend_engine::checker::Checker;
use fsmend_engine::options::{RepairOptions, RepairPolicy};
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_engine::{Progress, Refused};
use fsmend_hybridfs_check::Hybrid as Family;
use fsmend_hybridfs_driver::{Hybrid, MountOptions};
use fsmend_hybridfs_format::{RECORD_LEN, ROOT, Record};
use fsmend_testkit::driver::NOW;
use fsmend_testkit::hybridfs::Image;
pub use fsmend_testkit::within::told;
use fsmend_testkit::within::{Manner, options, other_manners};
use fsmend_vfs::{FileKind, FileSystem, InodeNo, Time, Visit};

pub const FILE_2000: &str = "inline/file-2000";
pub const FILE_9000: &str = "inline/file-9000";

pub fn manner(threads: usize) -> Manner {
    Manner { threads, ..Manner::default() }
}

fn device(bytes: &[u8]) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new("hybridfs", bytes.to_vec()))
}

pub fn check(bytes: &[u8], threads: usize) -> Result<CheckReport, Refused> {
    Checker(Family).check(
        &device(bytes),
        &options(manner(threads)),
        &Progress::new(),
        &AtomicBool::new(false),
    )
}

pub fn plan(bytes: &[u8], threads: usize) -> Result<Repair, Refused> {
    plan_in(bytes, manner(threads))
}

fn plan_in(bytes: &[u8], manner: Manner) -> Result<Repair, Refused> {
    let options = RepairOptions { check: options(manner), policy: RepairPolicy::default() };
    Checker(Family).plan(&device(bytes), &options, &Progress::new(), &AtomicBool::new(false))
}

pub fn with(bytes: &[u8], changes: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, new) in changes {
        bytes[*at as usize..][..new.len()].copy_from_slice(new);
    }
    bytes
}

fn mount(bytes: &[u8]) -> Hybrid {
    let device = Arc::new(WritableMemory::new("image", bytes.to_vec())) as Arc<dyn WritableDevice>;
    Hybrid::mount(device, MountOptions::read_only(Time::at(NOW))).unwrap()
}

/// Every path with its kind and contents, as the driver shows them.
pub fn tree(bytes: &[u8]) -> BTreeMap<String, (FileKind, Vec<u8>)> {
    let mut fs = mount(bytes);
    let mut all = BTreeMap::new();
    let mut waiting = vec![(String::new(), InodeNo(ROOT))];
    while let Some((path, inode)) = waiting.pop() {
        let mut entries = Vec::new();
        fs.readdir(inode, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                entries.push((String::from_utf8_lossy(entry.name).into_owned(), entry.inode));
            }
            Visit::More
        })
        .unwrap();
        for (name, inode) in entries {
            let path = format!("{path}/{name}");
            let attributes = fs.getattr(inode).unwrap();
            let contents = match attributes.kind {
                FileKind::Regular => {
                    let mut buf = vec![0; attributes.size as usize];
                    match fs.read(inode, 0, &mut buf) {
                        Ok(count) => assert_eq!(count, buf.len()),
                        Err(error) => buf = error.to_string().into_bytes(),
                    }
                    buf
                }
                FileKind::Symlink => fs.readlink(inode).unwrap(),
                FileKind::Directory => {
                    waiting.push((path.clone(), inode));
                    Vec::new()
                }
                _ => Vec::new(),
            };
            all.insert(path, (attributes.kind, contents));
        }
    }
    all
}

/// One repair makes it sound, the same at any thread count; nothing is found afterwards, and a mount agrees.
pub fn mended(bytes: &[u8]) -> (Repair, Vec<u8>) {
    let one = plan(bytes, 1).unwrap();
    assert!(one.is_clean(), "found {:#?}\nleft {:#?}", told(&one.found), told(&one.left));
    for manner in other_manners(bytes.len() as u64) {
        let other = plan_in(bytes, manner).unwrap();
        assert_eq!(told(&other.found), told(&one.found), "with {manner:?}");
        assert!(other.changes == one.changes, "other bytes with {manner:?}");
    }
    let repaired = with(bytes, &one.changes);
    let after = check(&repaired, 2).unwrap();
    assert!(!after.findings.is_damaged(), "found afterwards: {:#?}", told(&after));
    let device = Arc::new(WritableMemory::new("image", repaired.clone())) as Arc<dyn WritableDevice>;
    let mut fs = Hybrid::mount(device, MountOptions::new(Time::at(NOW))).unwrap();
    let wrong = fs.audit().unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
    (one, repaired)
}

/// The first record of an inode.
pub fn put(inode: &mut fsmend_hybridfs_format::Inode, change: impl FnOnce(&mut Record)) {
    let mut record = Record::parse(&inode.body);
    change(&mut record);
    inode.body[..RECORD_LEN].copy_from_slice(&record.store());
}

/// Two files have the same blocks.
pub fn share(image: &mut Image) {
    let other = Record::parse(image.inode(image.lookup("inline/file-70000")).room()).place;
    let inode = image.lookup(FILE_9000);
    image.change_inode(inode, |inode| put(inode, |record| record.place.address = other.address));
}
