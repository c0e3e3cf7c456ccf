// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs, used through the kernel: it conforms as the kernel's own file systems do, keeps what is written at random, and the check finds nothing afterwards.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::sync::Arc;

use fsmend_device::{Device, WritableDevice, WritableMemory};
use fsmend_hybridfs_driver::mkfs::{Options as Shape, mkfs};
use fsmend_hybridfs_driver::{Hybrid, MountOptions};
use fsmend_mount::Options;
use fsmend_testkit::conformance::{files, folders};
use fsmend_testkit::hybridfs::complaint;
use support::{Folder, Guarded, may_mount, now};

const BYTES: usize = 128 << 20;
const LOG: u64 = 48 << 20;

/// Sizes of ours, those of the paper, and small blocks.
fn shapes() -> [(&'static str, Shape); 3] {
    let uuid = *b"0123456789abcdef";
    let sized = |shape: Shape| Shape { log_bytes: Some(LOG), inodes: Some(16 << 10), ..shape };
    let ours = || Shape::new(uuid, now());
    let small = Shape { fragment_size: 1024, block_size: 4096, ..ours() };
    [("ours", sized(ours())), ("paper", sized(Shape::paper(uuid, now()))), ("small", sized(small))]
}

/// Mounts a new file system, does something in it, unmounts and checks.
fn used(test: &str, shape: &Shape, work: impl FnOnce(&std::path::Path)) {
    let folder = Folder::new(test);
    let device = Arc::new(WritableMemory::new("image", vec![0; BYTES]));
    mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, shape).unwrap();
    let fs = Hybrid::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, MountOptions::new(now()));
    let served = Guarded::new(Box::new(fs.unwrap()), &folder.sub("here"), &Options::default());
    work(&served.place);
    served.unmount();
    assert_eq!(complaint(&(device as Arc<dyn Device>)), None, "{test}");
}

#[test]
fn hybridfs_conforms_through_the_kernel() {
    if !may_mount("hybridfs_conforms_through_the_kernel") {
        return;
    }
    for (name, shape) in shapes() {
        let mut failed = Vec::new();
        used(&format!("hybridfs-{name}"), &shape, |place| failed = folders::run(place));
        assert!(failed.is_empty(), "{name}: {}", failed.join("\n"));
    }
}

#[test]
fn random_reads_and_writes_on_hybridfs_are_kept() {
    if !may_mount("random_reads_and_writes_on_hybridfs_are_kept") {
        return;
    }
    for (name, shape) in shapes() {
        used(&format!("hybridfs-files-{name}"), &shape, |place| {
            // Lengths about a block, where files move between log and data, and far beyond it.
            for (seed, len) in [(0, 40 << 10), (1, 1 << 20)] {
                let path = place.join(format!("file-{seed}"));
                let mut file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
                files::work(&mut file, seed, 800, len).unwrap();
            }
        });
    }
}
