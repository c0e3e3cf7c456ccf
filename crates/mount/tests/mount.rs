// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems shown by FUSE, used through the kernel: do they behave as the kernel's own do, and are they left clean whatever ends them?

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fsmend_device::{Device, WritableDevice, WritableMemory};
use fsmend_ext_driver::mkfs::Kind;
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_mount::{Ended, Mounted, Options};
use fsmend_testkit::conformance::{files, folders, twins};
use fsmend_testkit::host::{LoopMount, run};
use fsmend_testkit::memfs::{Limits, MemFs};
use fsmend_testkit::ufs::checked::{check, codes};
use fsmend_ufs_driver as ufs;
use fsmend_ufs_format::{ByteOrder, Version};
use support::{Folder, Guarded, assert_sound, made, may_mount, now};

/// The kernel's own, of the same size.
fn kernels(kind: &str, bytes: u64, folder: &Folder) -> LoopMount {
    let image = folder.0.join("image");
    File::create(&image).and_then(|file| file.set_len(bytes)).unwrap();
    let image = image.to_str().unwrap();
    run("mke2fs", ["-q", "-t", kind, "-b", "4096", "-N", "16384", image]).unwrap();
    LoopMount::new(Path::new(image), &folder.sub("there"), kind, "").unwrap()
}

const BYTES: u64 = 128 << 20;

#[test]
fn the_model_conforms_through_the_kernel() {
    if !may_mount("the_model_conforms_through_the_kernel") {
        return;
    }
    let folder = Folder::new("model");
    let served = Guarded::new(
        Box::new(MemFs::new(Limits::default(), now())),
        &folder.sub("here"),
        &Options::default(),
    );
    let failed = folders::run(&served.place);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    served.unmount();
}

fn driver_conforms(kind: Kind, name: &str) {
    if !may_mount(name) {
        return;
    }
    let folder = Folder::new(name);
    let (device, ext) = made(kind, BYTES as usize);
    let served = Guarded::new(ext, &folder.sub("here"), &Options::default());
    let failed = folders::run(&served.place);
    served.unmount();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_sound(&device);
}

#[test]
fn ext2_conforms_through_the_kernel() {
    driver_conforms(Kind::Ext2, "ext2_conforms_through_the_kernel");
}

#[test]
fn ext3_conforms_through_the_kernel() {
    driver_conforms(Kind::Ext3, "ext3_conforms_through_the_kernel");
}

#[test]
fn rext3_conforms_through_the_kernel() {
    driver_conforms(Kind::Rext3, "rext3_conforms_through_the_kernel");
}

#[test]
fn ext4_conforms_through_the_kernel() {
    driver_conforms(Kind::Ext4, "ext4_conforms_through_the_kernel");
}

fn ufs2_conforms(order: ByteOrder, name: &str) {
    if !may_mount(name) {
        return;
    }
    let folder = Folder::new(name);
    let device = Arc::new(WritableMemory::new("image", vec![0; BYTES as usize]));
    // Holes of the cases are made of blocks of 4 KiB.
    let options = ufs::mkfs::Options {
        order,
        block_size: 4096,
        fragment_size: Some(512),
        ..ufs::mkfs::Options::new(Version::Ufs2, [1, 2], now())
    };
    ufs::mkfs::mkfs(device.clone(), &options).unwrap();
    let mounted = ufs::Ufs::mount(device.clone(), ufs::MountOptions::new(now())).unwrap();
    let served = Guarded::new(Box::new(mounted), &folder.sub("here"), &Options::default());
    let failed = folders::run(&served.place);
    served.unmount();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(codes(&check(&device.bytes(), 2)), [""; 0]);
}

#[test]
fn ufs2_conforms_through_the_kernel() {
    ufs2_conforms(ByteOrder::Little, "ufs2_conforms_through_the_kernel");
}

#[test]
fn big_endian_ufs2_conforms_through_the_kernel() {
    ufs2_conforms(ByteOrder::Big, "big_endian_ufs2_conforms_through_the_kernel");
}

#[test]
fn the_kernels_own_ext3_passes_the_same_cases() {
    if !may_mount("the_kernels_own_ext3_passes_the_same_cases") {
        return;
    }
    let folder = Folder::new("kernel");
    let mount = kernels("ext3", BYTES, &folder);
    let failed = folders::run(mount.path());
    mount.unmount().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn random_operations_answer_as_on_the_kernels_ext3() {
    twins_agree(Kind::Ext3, "twins", &Options::default());
}

#[test]
fn random_operations_on_rext3_answer_as_on_the_kernels_ext3() {
    twins_agree(Kind::Rext3, "twins-rext3", &Options::default());
}

/// The kernel keeps what is written, and sends it when it likes.
fn late() -> Options {
    Options { late_writes: true, ..Options::default() }
}

#[test]
fn random_operations_answer_as_on_the_kernels_ext3_where_it_writes_late() {
    twins_agree(Kind::Ext3, "twins-late", &late());
}

#[test]
fn what_the_kernel_has_not_sent_yet_is_seen_and_kept() {
    if !may_mount("what_the_kernel_has_not_sent_yet_is_seen_and_kept") {
        return;
    }
    let folder = Folder::new("late");
    let (device, ext) = made(Kind::Ext4, BYTES as usize);
    let served = Guarded::new(ext, &folder.sub("here"), &late());
    let path = served.place.join("log");
    let mut log = File::options().append(true).create_new(true).open(&path).unwrap();
    let lines: Vec<String> = (0..5_000).map(|number| format!("line {number}\n")).collect();
    for line in &lines {
        std::io::Write::write_all(&mut log, line.as_bytes()).unwrap();
    }
    let text = lines.concat();
    // While it is open: its length, its contents, and that they are no hole, which programs that copy ask for.
    assert_eq!(fs::metadata(&path).unwrap().len(), text.len() as u64);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let reader = File::open(&path).unwrap();
    assert_eq!(rustix::fs::seek(&reader, rustix::fs::SeekFrom::Data(0)), Ok(0));
    assert_eq!(rustix::fs::seek(&reader, rustix::fs::SeekFrom::Hole(0)), Ok(text.len() as u64));
    drop((log, reader));
    let mut random =
        File::options().read(true).write(true).create_new(true).open(served.place.join("file")).unwrap();
    files::work(&mut random, 9, 800, 1 << 20).unwrap();
    drop(random);
    served.unmount();

    // What stands in the file system itself.
    let ext = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, MountOptions::new(now())).unwrap();
    let served = Guarded::new(Box::new(ext), &folder.sub("here"), &Options::default());
    assert_eq!(fs::read_to_string(served.place.join("log")).unwrap(), text);
    served.unmount();
    assert_sound(&device);
}

fn twins_agree(kind: Kind, name: &str, options: &Options) {
    if !may_mount(name) {
        return;
    }
    let folder = Folder::new(name);
    let there = kernels("ext3", BYTES, &folder);
    let (device, ext) = made(kind, BYTES as usize);
    let here = Guarded::new(ext, &folder.sub("here"), options);
    let seeds: u64 =
        std::env::var("FSMEND_TWIN_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4);
    for seed in 0..seeds {
        let name = format!("seed-{seed}");
        let (one, other) = (here.place.join(&name), there.path().join(&name));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&other).unwrap();
        twins::work(&one, &other, seed, 1_500).unwrap();
    }
    here.unmount();
    there.unmount().unwrap();
    assert_sound(&device);
}

#[test]
fn random_reads_and_writes_are_kept() {
    if !may_mount("random_reads_and_writes_are_kept") {
        return;
    }
    let folder = Folder::new("files");
    let work = |place: &Path| {
        for seed in 0..3 {
            let path = place.join(format!("file-{seed}"));
            let mut file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
            files::work(&mut file, seed, 800, 1 << 20).unwrap();
        }
    };
    for kind in [Kind::Ext3, Kind::Rext3, Kind::Ext4] {
        let (device, ext) = made(kind, BYTES as usize);
        let served = Guarded::new(ext, &folder.sub("here"), &Options::default());
        work(&served.place);
        served.unmount();
        assert_sound(&device);
    }
    // What cannot fail on the kernel's own would show nothing.
    let there = kernels("ext4", BYTES, &folder);
    work(there.path());
    there.unmount().unwrap();
}

#[test]
fn it_ends_clean_when_it_is_stopped() {
    if !may_mount("it_ends_clean_when_it_is_stopped") {
        return;
    }
    let folder = Folder::new("stopped");
    let (device, ext) = made(Kind::Ext3, 32 << 20);
    let mut served = Guarded::new(ext, &folder.sub("here"), &Options::default());
    fs::write(served.place.join("file"), b"content").unwrap();
    served.stopper.stop();
    assert_eq!(served.end().unwrap(), Ended::Stopped);
    assert!(!served.place.join("file").exists());
    assert_sound(&device);
    let ext = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, MountOptions::new(now())).unwrap();
    let served = Guarded::new(Box::new(ext), &folder.sub("here"), &Options::default());
    assert_eq!(fs::read(served.place.join("file")).unwrap(), b"content");
    served.unmount();
}

#[test]
fn it_ends_clean_while_files_are_open() {
    if !may_mount("it_ends_clean_while_files_are_open") {
        return;
    }
    let folder = Folder::new("in-use");
    let (device, ext) = made(Kind::Ext4, 32 << 20);
    let mut served = Guarded::new(ext, &folder.sub("here"), &Options::default());
    let file = File::create_new(served.place.join("file")).unwrap();
    let gone = File::create_new(served.place.join("gone")).unwrap();
    file.write_all_at(&[7; 100_000], 0).unwrap();
    gone.write_all_at(&[8; 100_000], 0).unwrap();
    fs::remove_file(served.place.join("gone")).unwrap();
    served.stopper.stop();
    assert_eq!(served.end().unwrap(), Ended::StoppedInUse);
    assert_eq!(file.write_all_at(b"x", 0).err().and_then(|error| error.raw_os_error()), Some(5));
    assert_eq!(fs::read_dir(&served.place).unwrap().count(), 0, "it is out of sight");
    drop((file, gone));
    assert_sound(&device);
}

#[test]
fn what_changed_is_durable_after_a_while() {
    if !may_mount("what_changed_is_durable_after_a_while") {
        return;
    }
    let folder = Folder::new("commit");
    let (device, ext) = made(Kind::Ext3, 32 << 20);
    let mut options = Options::default();
    options.take("commit=1").unwrap();
    let served = Guarded::new(ext, &folder.sub("here"), &options);
    fs::write(served.place.join("file"), b"nobody asked for it to be durable").unwrap();
    let has_it = || {
        // As the image would be after a power cut.
        let mut image = vec![0; device.len() as usize];
        device.read_at(0, &mut image).unwrap();
        let copy = Arc::new(WritableMemory::new("copy", image));
        let mut ext = Ext::mount(copy, MountOptions::new(now())).unwrap();
        let root = fsmend_vfs::FileSystem::root(&ext);
        fsmend_vfs::FileSystem::lookup(&mut ext, root, b"file").is_ok_and(|of| of.size == 33)
    };
    let durable = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        has_it()
    });
    assert!(durable);
    served.unmount();
}

#[test]
fn read_only_is_read_only() {
    if !may_mount("read_only_is_read_only") {
        return;
    }
    let folder = Folder::new("read-only");
    let (device, ext) = made(Kind::Ext4, 32 << 20);
    let served = Guarded::new(ext, &folder.sub("here"), &Options::default());
    fs::write(served.place.join("file"), b"content").unwrap();
    served.unmount();
    let mut before = vec![0; device.len() as usize];
    device.read_at(0, &mut before).unwrap();
    let ext =
        Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, MountOptions::read_only(now())).unwrap();
    let mut options = Options::default();
    options.take("ro").unwrap();
    let served = Guarded::new(Box::new(ext), &folder.sub("here"), &options);
    assert_eq!(fs::read(served.place.join("file")).unwrap(), b"content");
    let error = fs::write(served.place.join("file"), b"x").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    served.unmount();
    let mut after = vec![0; device.len() as usize];
    device.read_at(0, &mut after).unwrap();
    assert!(before == after);
}

#[test]
fn a_folder_that_is_not_there_is_refused() {
    let model = Box::new(MemFs::new(Limits::default(), now()));
    let refused =
        Mounted::mount(model, Path::new("/nowhere/at/all"), &Options::default(), now).err().unwrap();
    assert_eq!(refused.error.kind(), io::ErrorKind::NotFound);
    assert!(refused.clean.is_ok());
}
