// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS to live in: what our mkfs and our driver make, judged by FreeBSD's fsck_ffs where the environment variable `FSMEND_UFS_PEERS` names the folder of
//! FreeBSD's programs; images by Debian's makefs, read by our driver; and rufs, which reads ours.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use fsmend_base::SeededRandom;
use fsmend_device::{Device, ReadError, WritableDevice, WritableMemory, WriteError};
use fsmend_testkit::conformance::{Abilities, Bench, Oddities, Room, run};
use fsmend_testkit::driver::snapshot::{Snapshot, difference, of_driver, of_kernel};
use fsmend_testkit::driver::workload::Workload;
use fsmend_testkit::host;
use fsmend_testkit::repair::Scratch;
use fsmend_testkit::ufs::{Kind, tree};
use fsmend_ufs_driver::mkfs::{Options, mkfs};
use fsmend_ufs_driver::{MountOptions, Ufs};
use fsmend_ufs_format::{ByteOrder, Version};
use fsmend_vfs::{FileSystem, Time};

/// When everything happens.
const NOW: i64 = 1_700_000_000;

/// A program of FreeBSD, if the environment says where they are.
fn peer(program: &str) -> Option<Command> {
    let Some(folder) = std::env::var_os("FSMEND_UFS_PEERS") else {
        host::skip(program, "FSMEND_UFS_PEERS does not name the folder of FreeBSD's programs");
        return None;
    };
    Some(Command::new(PathBuf::from(folder).join(program)))
}

fn scratch(bytes: &[u8]) -> Scratch {
    Scratch::with(bytes).expect("there is room for an image")
}

/// What fsck_ffs says against an image: the questions it asks, and superblocks it does not take. `None` without fsck_ffs.
fn complaints(image: &[u8]) -> Option<String> {
    let mut command = peer("fsck_ffs")?;
    let file = scratch(image);
    let output = command.arg("-fn").arg(file.path()).output().expect("fsck_ffs runs");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let offers = ["TRACK DIRECTORY DEPTH", "CHECK-HASH PROTECTION", "SAVE DATA TO FIND ALTERNATE"];
    let is_complaint = |line: &&str| {
        (line.contains("? no") || line.contains("? yes")) && !offers.iter().any(|offer| line.contains(offer))
    };
    let questions: Vec<&str> = said.lines().filter(is_complaint).collect();
    let is_clean = questions.is_empty() && output.status.success() && !said.contains("SUPERBLOCK FAILED");
    Some(if is_clean { String::new() } else { said })
}

/// A file system of `bytes` bytes in memory that held something else before.
fn made(bytes: usize, options: &Options) -> Arc<WritableMemory> {
    let device = Arc::new(WritableMemory::new("ufs", vec![0xA5; bytes]));
    mkfs(device.clone(), options).unwrap_or_else(|error| panic!("{error}: {options:?}"));
    device
}

fn options(version: Version, block: u64, fragment: u64) -> Options {
    Options {
        block_size: block,
        fragment_size: Some(fragment),
        label: b"TEST".to_vec(),
        ..Options::new(version, [1, 2], Time::at(NOW))
    }
}

#[test]
fn what_mkfs_makes_is_clean() {
    for version in [Version::Ufs1, Version::Ufs2] {
        for (block, fragment) in [
            (4096, 512),
            (4096, 4096),
            (8192, 1024),
            (16384, 2048),
            (16384, 16384),
            (32768, 4096),
            (65536, 8192),
        ] {
            for mebibytes in [5, 32, 70] {
                let bytes = (mebibytes << 20) + 4096 * 3;
                let image = made(bytes, &options(version, block, fragment)).bytes();
                let said = complaints(&image);
                assert!(
                    said.as_ref().is_none_or(String::is_empty),
                    "{version:?} {block}/{fragment} {mebibytes}: {said:?}"
                );
            }
        }
    }
}

#[test]
fn a_metadata_area_and_the_lack_of_one_are_as_asked_for() {
    for area in [0, 400] {
        let options = Options { metadata_area: Some(area), ..options(Version::Ufs2, 4096, 512) };
        let image = made(32 << 20, &options).bytes();
        let superblock =
            fsmend_ufs_format::superblock::Superblock::parse(&image[65536..]).expect("it is there");
        assert_eq!(superblock.metaspace(), area as i64);
        assert!(complaints(&image).is_none_or(|said| said.is_empty()));
    }
}

#[test]
fn big_endian_file_systems_have_the_same_values_in_the_other_order() {
    use fsmend_ufs_format::superblock::Superblock;
    for (version, place) in [(Version::Ufs1, 8192), (Version::Ufs2, 65536)] {
        let little = options(version, 8192, 1024);
        let big = Options { order: ByteOrder::Big, ..little.clone() };
        let [little, big] = [little, big].map(|options| {
            Superblock::parse(&made(20 << 20, &options).bytes()[place..]).expect("it is there")
        });
        assert_eq!((little.order(), big.order()), (ByteOrder::Little, ByteOrder::Big));
        assert_eq!((little.totals(), little.size(), little.ncg()), (big.totals(), big.size(), big.ncg()));
        assert!(big.hash_is_right());
    }
}

/// Makes file systems for the conformance suite, keeping the image so that it can be looked at afterwards.
struct Images {
    options: Options,
    last: Option<Arc<WritableMemory>>,
}

impl Images {
    fn abilities(&self) -> Abilities {
        let is_ufs2 = self.options.version == Version::Ufs2;
        let block = self.options.block_size;
        let pointers = block / if is_ufs2 { 8 } else { 4 };
        let by_pointers = (12 + pointers + pointers.pow(2) + pointers.pow(3)) * block - 1;
        Abilities {
            nanoseconds: true,
            crtime: is_ufs2,
            file_links_max: 65_500,
            dir_links_max: Some(65_500),
            size_max: if is_ufs2 { by_pointers } else { by_pointers.min((block << 30) - 1) },
            unwritten: false,
            unit_blocks: 1,
            dir_blocks: 1,
            value_min: if is_ufs2 { block as usize } else { 0 },
            odd: Oddities {
                file_block: Some(block),
                // The last block, and three indirect ones at most.
                hole_512_max: 4 * block / 512,
                short_times: !is_ufs2,
                short_devices: !is_ufs2,
            },
        }
    }

    fn fresh(&mut self, room: Room) -> Option<Bench> {
        let bytes = match room {
            Room::Small => 16 << 20,
            Room::Plenty => 48 << 20,
            Room::Crowd if self.options.block_size > 4096 => return None,
            Room::Crowd => 160 << 20,
        };
        let device = made(bytes, &self.options);
        self.last = Some(Arc::clone(&device));
        let ufs = Ufs::mount(device, MountOptions::new(Time::at(NOW))).expect("it can be mounted");
        Some(Bench::new(Box::new(ufs), self.abilities()))
    }

    /// Unmounts, and asks fsck_ffs.
    fn judge(&mut self, mut bench: Bench) -> Result<(), String> {
        let now = bench.tick();
        bench.fs.unmount(now).map_err(|error| format!("unmount: {error} ({:?})", bench.fs.trouble()))?;
        let image = self.last.take().ok_or("no image")?.bytes();
        // fsck_ffs of a little-endian machine refuses the other order.
        let is_judged = self.options.order == ByteOrder::Little;
        match complaints(&image).filter(|said| is_judged && !said.is_empty()) {
            None => Ok(()),
            Some(said) => Err(said),
        }
    }
}

fn conforms(options: Options) {
    let images = std::cell::RefCell::new(Images { options, last: None });
    let failed = run(|room| images.borrow_mut().fresh(room), |bench| images.borrow_mut().judge(bench));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn ufs2_does_what_every_file_system_has_to() {
    conforms(options(Version::Ufs2, 4096, 512));
}

#[test]
fn ufs2_with_large_blocks_does_what_every_file_system_has_to() {
    conforms(options(Version::Ufs2, 32768, 4096));
}

#[test]
fn ufs1_does_what_every_file_system_has_to() {
    conforms(options(Version::Ufs1, 8192, 1024));
}

#[test]
fn big_endian_ufs_does_what_every_file_system_has_to() {
    for version in [Version::Ufs1, Version::Ufs2] {
        conforms(Options { order: ByteOrder::Big, ..options(version, 4096, 1024) });
    }
}

/// A device in memory that notes what is written to it, request by request.
struct Recorder {
    memory: WritableMemory,
    requests: Mutex<Vec<Asked>>,
}

/// What a device was asked for.
enum Asked {
    Write(u64, Vec<u8>),
    Sync,
}

impl Recorder {
    fn new(image: Vec<u8>) -> Arc<Recorder> {
        Arc::new(Recorder { memory: WritableMemory::new("recorded", image), requests: Mutex::default() })
    }
}

impl Device for Recorder {
    fn name(&self) -> &str {
        "recorded"
    }

    fn len(&self) -> u64 {
        self.memory.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.memory.read_at(offset, buf)
    }
}

impl WritableDevice for Recorder {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.requests.lock().expect("nothing panics here").push(Asked::Write(offset, bytes.to_vec()));
        self.memory.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.requests.lock().expect("nothing panics here").push(Asked::Sync);
        self.memory.sync()
    }
}

/// The image after the first `cut` requests, where those since the last synchronisation have come through or not, as `random` wants it.
fn crashed(image: &[u8], requests: &[Asked], cut: usize, random: &mut SeededRandom) -> Vec<u8> {
    let mut image = image.to_vec();
    let done = &requests[..cut];
    let durable = done.iter().rposition(|asked| matches!(asked, Asked::Sync)).map_or(0, |at| at + 1);
    let loses_some = random.below(2) == 0;
    for (at, asked) in done.iter().enumerate() {
        let Asked::Write(offset, bytes) = asked else { continue };
        if at < durable || !loses_some || random.below(2) == 0 {
            image[*offset as usize..*offset as usize + bytes.len()].copy_from_slice(bytes);
        }
    }
    image
}

/// Lets fsck_ffs preen an image; what it says if it refuses or leaves something. When it moves a directory without a name to `lost+found`, it leaves the link count of the
/// old parent too high, so it may run twice.
fn preened(image: &[u8]) -> Option<String> {
    let file = scratch(image);
    let mut left = String::new();
    for _ in 0..2 {
        let output = peer("fsck_ffs")?.arg("-fp").arg(file.path()).output().expect("fsck_ffs runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if !output.status.success() {
            return Some(said);
        }
        left = complaints(&fs::read(file.path()).expect("the image is there"))?;
        if left.is_empty() {
            return None;
        }
    }
    Some(left)
}

/// UFS1 has no attributes, and 32 bits for the number of a device.
fn as_version(work: &mut Workload<'_>, version: Version) {
    work.has_attributes = version == Version::Ufs2;
    work.short_devices = version == Version::Ufs1;
}

/// Random work on a file system; the image before it, the requests, and the image at the end.
fn worked(options: &Options, seed: u64, steps: u64) -> (Vec<u8>, Vec<Asked>, Vec<u8>) {
    let image = made(12 << 20, options).bytes();
    let device = Recorder::new(image.clone());
    let mut ufs = Ufs::mount(device.clone(), MountOptions::new(Time::at(NOW))).expect("it can be mounted");
    let mut work = Workload::new(&mut ufs, seed, false).expect("it is empty");
    as_version(&mut work, options.version);
    for step in 0..steps {
        work.step().unwrap_or_else(|why| panic!("seed {seed} step {step}: {why}"));
    }
    work.compare().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    work.release_all().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    let end = Time::at(work.clock);
    ufs.unmount(end).expect("it can be unmounted");
    let requests = std::mem::take(&mut *device.requests.lock().expect("nothing panics here"));
    (image, requests, device.memory.bytes())
}

#[test]
fn random_work_leaves_a_clean_file_system() {
    for (seed, options) in [
        options(Version::Ufs2, 4096, 512),
        options(Version::Ufs1, 8192, 1024),
        options(Version::Ufs2, 16384, 16384),
        Options { metadata_area: Some(0), ..options(Version::Ufs2, 8192, 2048) },
    ]
    .into_iter()
    .enumerate()
    {
        let (_, _, image) = worked(&options, seed as u64, 3000);
        assert!(complaints(&image).is_none_or(|said| said.is_empty()), "{seed}: {:?}", complaints(&image));
    }
}

#[test]
fn a_crash_at_any_request_leaves_what_a_preen_run_mends() {
    if peer("fsck_ffs").is_none() {
        return;
    }
    let cuts = std::env::var("FSMEND_CRASH_CUTS").ok().and_then(|value| value.parse().ok()).unwrap_or(60);
    for (seed, options) in
        [options(Version::Ufs2, 4096, 512), options(Version::Ufs1, 4096, 1024)].into_iter().enumerate()
    {
        let seed = seed as u64;
        let (image, requests, _) = worked(&options, seed, 400);
        let mut random = SeededRandom::new(seed);
        for _ in 0..cuts {
            let cut = random.below(requests.len() as u64 + 1) as usize;
            let after = crashed(&image, &requests, cut, &mut random);
            let said = preened(&after);
            if let Some(folder) = std::env::var_os("FSMEND_DRIVER_KEEP").filter(|_| said.is_some()) {
                let _ = fs::write(PathBuf::from(folder).join(format!("ufs-{seed}-{cut}.img")), &after);
            }
            assert_eq!(said, None, "seed {seed}, request {cut} of {}", requests.len());
        }
    }
}

/// A folder of its own with files of all kinds, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn with_files() -> std::io::Result<Folder> {
        let path = std::env::temp_dir().join(format!(
            "fsmend-ufs-tree-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let folder = Folder(path);
        let root = &folder.0;
        fs::create_dir_all(root.join("deep/er/and/deeper"))?;
        for size in [0, 1, 511, 512, 513, 4095, 4096, 4097, 40_000, 49_152, 49_153, 70_000, 3_000_000] {
            let bytes: Vec<u8> = (0..size).map(|at| (at / 7 + size) as u8).collect();
            fs::write(root.join(format!("file-{size}")), bytes)?;
        }
        for number in 0..300 {
            fs::write(root.join("deep/er").join(format!("one-of-many-names-{number:0>30}")), b"x")?;
        }
        fs::hard_link(root.join("file-513"), root.join("deep/second name"))?;
        for length in [1, 59, 60, 119, 120, 121, 900] {
            std::os::unix::fs::symlink("t".repeat(length), root.join(format!("link-{length}")))?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What two trees have in common whoever made them: without rooms, the times of links, and the link counts and sizes of directories.
fn comparable(mut tree: Snapshot) -> Snapshot {
    for seen in tree.values_mut() {
        seen.blocks = 0;
        seen.attributes.clear();
        seen.mtime.nanoseconds = 0;
    }
    tree.remove(b"/".as_slice());
    tree
}

#[test]
fn images_by_makefs_show_the_tree_that_they_were_made_of_and_can_be_written() {
    if host::find_program("makefs").is_none() {
        host::skip("images by makefs", "makefs is not installed");
        return;
    }
    let folder = Folder::with_files().expect("there is room");
    let there = comparable(of_kernel(&folder.0).expect("it can be read"));
    for (version, order, sizes) in [
        (1, "le", "bsize=4096,fsize=512"),
        (1, "be", "bsize=8192,fsize=1024"),
        (2, "le", "bsize=32768,fsize=4096"),
        (2, "be", "bsize=4096,fsize=512"),
        (2, "le", "bsize=16384,fsize=16384"),
    ] {
        let case = format!("version {version} {order} {sizes}");
        let file = scratch(b"");
        let options = format!("version={version},{sizes}");
        let image = file.path().as_os_str();
        let arguments =
            ["-t".as_ref(), "ffs".as_ref(), "-B".as_ref(), order.as_ref(), "-o".as_ref(), options.as_ref()];
        let more = ["-s".as_ref(), "64m".as_ref(), "-f".as_ref(), "3000".as_ref(), image];
        let all = arguments.into_iter().chain(more).chain([folder.0.as_os_str()]);
        host::run("makefs", all).unwrap_or_else(|error| panic!("{case}: {error}"));
        let image = fs::read(file.path()).expect("it was made");
        // makefs puts the superblock of some UFS2 where fsck_ffs does not take it.
        let is_judged = complaints(&image).is_some_and(|said| said.is_empty());
        let device = Arc::new(WritableMemory::new("makefs", image));
        let now = Time::at(NOW);
        let mut ufs = Ufs::mount(device.clone(), MountOptions::read_only(now))
            .unwrap_or_else(|e| panic!("{case}: {e}"));
        let here =
            comparable(of_driver(&mut ufs).unwrap_or_else(|e| panic!("{case}: {e} {:?}", ufs.trouble())));
        assert_eq!(difference(&there, &here), None, "{case}");
        let mut ufs =
            Ufs::mount(device.clone(), MountOptions::new(now)).unwrap_or_else(|e| panic!("{case}: {e}"));
        let mut work = Workload::in_folder(&mut ufs, b"work", 5, false, NOW).expect("there is room");
        as_version(&mut work, if version == 1 { Version::Ufs1 } else { Version::Ufs2 });
        for _ in 0..500 {
            work.step().unwrap_or_else(|why| panic!("{case}: {why}"));
        }
        work.compare().unwrap_or_else(|why| panic!("{case}: {why}"));
        work.release_all().unwrap_or_else(|why| panic!("{case}: {why}"));
        let end = Time::at(work.clock);
        ufs.unmount(end).expect("it can be unmounted");
        let said = complaints(&device.bytes()).filter(|said| is_judged && !said.is_empty());
        assert_eq!(said, None, "{case}");
    }
}

#[test]
fn images_by_newfs_can_be_written() {
    for arguments in [
        &["-O1", "-b", "4096", "-f", "512"][..],
        &["-O2", "-b", "4096", "-f", "512"],
        &["-O2", "-U", "-k", "0"],
        &["-O2", "-b", "65536", "-f", "8192"],
    ] {
        let Some(mut newfs) = peer("newfs") else { return };
        let file = scratch(&vec![0; 40 << 20]);
        let output = newfs.args(arguments).arg(file.path()).output().expect("newfs runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let device = Arc::new(WritableMemory::new("newfs", fs::read(file.path()).expect("it was made")));
        let mut ufs = Ufs::mount(device.clone(), MountOptions::new(Time::at(NOW)))
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        let mut work = Workload::new(&mut ufs, 9, false).expect("it is empty");
        as_version(&mut work, if arguments[0] == "-O1" { Version::Ufs1 } else { Version::Ufs2 });
        for _ in 0..800 {
            work.step().unwrap_or_else(|why| panic!("{arguments:?}: {why}"));
        }
        work.release_all().unwrap_or_else(|why| panic!("{arguments:?}: {why}"));
        let end = Time::at(work.clock);
        ufs.unmount(end).expect("it can be unmounted");
        let said = complaints(&device.bytes()).filter(|said| !said.is_empty());
        assert_eq!(said, None, "{arguments:?}");
    }
}

/// What rufs reads of an image: the size of everything but directories, and what files and links contain.
fn read_by_rufs(image: &std::path::Path) -> std::io::Result<BTreeMap<String, (u64, Vec<u8>)>> {
    let mut ufs = rufs::Ufs::open(image, false)?;
    let (mut found, mut waiting) = (BTreeMap::new(), vec![(String::new(), rufs::InodeNum::ROOT)]);
    while let Some((path, directory)) = waiting.pop() {
        let mut entries = Vec::new();
        ufs.dir_iter(directory, |name, inode, _| -> Option<()> {
            entries.push((format!("{path}/{}", name.to_string_lossy()), inode));
            None
        })?;
        entries.retain(|(path, _)| !path.ends_with("/.") && !path.ends_with("/.."));
        for (path, inode) in entries {
            let seen = ufs.inode_attr(inode)?;
            let (mut size, mut bytes) = (seen.size, Vec::new());
            match seen.kind {
                rufs::InodeType::Directory => {
                    waiting.push((path.clone(), inode));
                    size = 0;
                }
                rufs::InodeType::RegularFile => {
                    bytes = vec![0; size as usize];
                    if size > 0 {
                        ufs.inode_read(inode, 0, &mut bytes)?;
                    }
                }
                rufs::InodeType::Symlink => bytes = ufs.symlink_read(inode)?,
                _ => {}
            }
            found.insert(path, (size, bytes));
        }
    }
    Ok(found)
}

/// rufs reads UFS2 whose superblock takes one fragment.
#[test]
fn another_reader_finds_what_was_written() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let options = Options { order, ..options(Version::Ufs2, 32768, 4096) };
        let device = made(24 << 20, &options);
        let mut ufs =
            Ufs::mount(device.clone(), MountOptions::new(Time::at(NOW))).expect("it can be mounted");
        let mut work = Workload::new(&mut ufs, 3, false).expect("it is empty");
        for _ in 0..600 {
            work.step().unwrap_or_else(|why| panic!("{order:?}: {why}"));
        }
        work.release_all().unwrap_or_else(|why| panic!("{order:?}: {why}"));
        let end = Time::at(work.clock);
        ufs.unmount(end).expect("it can be unmounted");
        let image = device.bytes();
        let file = scratch(&image);
        let theirs = read_by_rufs(file.path()).unwrap_or_else(|why| panic!("{order:?}: {why}"));
        let mut ours = tree(&image);
        ours.remove("/");
        assert!(ours.len() > 20, "{order:?}");
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{order:?}");
        for (path, node) in ours {
            let wanted = match node.kind {
                Kind::Directory => (0, Vec::new()),
                Kind::File | Kind::Link => (node.size, node.bytes()),
                Kind::Special | Kind::Nothing => (node.size, Vec::new()),
            };
            assert!(theirs[&path] == wanted, "{order:?} {path}");
        }
    }
}
