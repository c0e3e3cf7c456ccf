// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suspicions that a single file proves are confirmed one by one, and nothing else is (`ext::check::online`).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, File};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::InodeNo;
use fsmend_device::{Device, MemoryDevice};
use fsmend_engine::{Problem, Progress};
use fsmend_ext_check::online::{confirm, recurring, suspicions};
use fsmend_ext_check::run::check;
use fsmend_testkit::host::{find_program, run, skip};
use fsmend_testkit::target_folder;
use fsmend_testkit::within::{Manner, options};

/// An image in which these requests to debugfs were carried out.
fn image(requests: &[&str]) -> Option<Arc<dyn Device>> {
    if find_program("mke2fs").is_none() || find_program("debugfs").is_none() {
        skip("suspicions are confirmed one by one", "needs mke2fs and debugfs");
        return None;
    }
    let path = target_folder().join(format!("online-{}.img", std::process::id()));
    File::create(&path).unwrap().set_len(16 << 20).unwrap();
    let target = path.to_str().unwrap();
    run("mke2fs", ["-q", "-F", "-t", "ext4", target]).unwrap();
    for request in requests {
        run("debugfs", ["-w", "-R", request, target]).unwrap();
    }
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    Some(Arc::new(MemoryDevice::new("online", bytes)))
}

fn found(device: &Arc<dyn Device>) -> Vec<Problem> {
    let report = check(device, &options(Manner::default()), &Progress::new(), &AtomicBool::new(false));
    suspicions(report.unwrap().findings)
}

fn codes(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.row.code).collect()
}

#[test]
fn only_what_one_file_proves_is_confirmed_alone() {
    let file = format!("write {}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let (one, other, gone) = (format!("{file} one"), format!("{file} other"), format!("{file} gone"));
    let requests =
        [&one, &other, &gone, "sif one blocks 24", "sif other links_count 7", "sif gone blocks 24"];
    let Some(damaged) = image(&requests) else { return };
    let suspicions = found(&damaged);
    assert_eq!(codes(&suspicions).len(), 3, "{suspicions:#?}");
    // Meanwhile the file `gone` was written anew.
    let Some(now) = image(&requests[..5]) else { return };
    let never = AtomicBool::new(false);
    let (stands, left) = confirm(&now, &options(Manner::default()), suspicions.clone(), &never);
    assert_eq!(codes(&stands), ["ext.inode.blocks-count-wrong"]);
    assert_eq!(stands[0].object.inode, Some(InodeNo(12)));
    assert_eq!(codes(&left).len(), 2, "the link count needs all names; the other one is gone: {left:#?}");
    let (stands, left) =
        confirm(&now, &options(Manner::default()), suspicions.clone(), &AtomicBool::new(true));
    assert_eq!((stands.len(), left.len()), (0, 3), "there was no time");
    assert_eq!(recurring(found(&now), &suspicions).len(), 2);
}
