// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver against a model, e2fsck, our own check and the kernel: whatever it does, what it leaves behind is sound, and everybody
//! sees the same in it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use fsmend_base::{BlockRange, GroupNo, SeededRandom};
use fsmend_device::{WritableDevice, WritableMemory};
use fsmend_ext_driver::mkfs::{self, Kind};
use fsmend_ext_driver::policy::{
    Ask, DirectoryAsk, Ext3Policy, GroupUse, Groups, Layout, MetaclusterPolicy, Policy,
};
use fsmend_ext_driver::{Ext, MountError, MountOptions};
use fsmend_testkit::driver::crash::Sweep;
use fsmend_testkit::driver::snapshot::{Snapshot, difference, names, of_driver, of_kernel};
use fsmend_testkit::driver::workload::Workload;
use fsmend_testkit::driver::{BASES, Base, FOREIGN, NOW, complaint, keep};
use fsmend_testkit::host::{LoopMount, is_root, skip};
use fsmend_testkit::image::{Built, Recipe, build, matrix};
use fsmend_testkit::repair::Scratch;
use fsmend_vfs::{Caller, Errno, FileSystem, Permissions, Time};

fn mounted(device: &Arc<WritableMemory>, now: i64) -> Ext {
    let device = Arc::clone(device) as Arc<dyn WritableDevice>;
    Ext::mount(device, MountOptions::new(Time::at(now))).unwrap()
}

fn assert_sound(name: &str, image: &[u8], now: i64) {
    if let Some(complaint) = complaint(image, now).unwrap() {
        keep(name, image);
        panic!("{name}: {complaint}");
    }
}

#[test]
fn what_is_made_is_sound() {
    for base in BASES.iter().chain(FOREIGN) {
        let device = base.make().unwrap();
        assert_sound(base.name, &device.bytes(), NOW);
    }
}

fn steps() -> u64 {
    std::env::var("FSMEND_DRIVER_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(1500)
}

fn seeds() -> Vec<u64> {
    match std::env::var("FSMEND_DRIVER_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => vec![1],
    }
}

#[test]
fn random_work_leaves_what_the_model_says() {
    for base in BASES.iter().chain(FOREIGN).filter(|base| wanted(base)) {
        for seed in seeds() {
            random_work(base, seed);
        }
    }
}

fn wanted(base: &Base) -> bool {
    std::env::var("FSMEND_DRIVER_BASE").ok().is_none_or(|word| base.name.contains(&word))
}

fn random_work(base: &Base, seed: u64) {
    let name = format!("{} with seed {seed}", base.name);
    let device = base.make().unwrap();
    let mut fs = mounted(&device, NOW);
    let mut work = Workload::new(&mut fs, seed, base.kind == Kind::Ext4).unwrap();
    work.crowd = if seed.is_multiple_of(2) { 400 } else { 30 };
    for step in 0..steps() {
        if let Err(what) = work.step() {
            panic!("{name}, step {step}: {what}");
        }
        if step % 1000 == 999 {
            work.compare().unwrap_or_else(|what| panic!("{name}, step {step}: {what}"));
        }
    }
    work.release_all().unwrap();
    work.compare().unwrap_or_else(|what| panic!("{name}: {what}"));
    let end = work.clock;
    let before = of_driver(&mut fs).unwrap();
    fs.unmount(Time::at(end)).unwrap();
    drop(fs);
    let image = device.bytes();
    assert_sound(base.name, &image, end);
    let mut again = mounted(&device, end);
    let after = of_driver(&mut again).unwrap();
    assert_eq!(difference(&before, &after), None, "{name}, mounted again");
    again.unmount(Time::at(end)).unwrap();
    if is_root() {
        match kernel_view(&image) {
            Some(_) if base.kind == Kind::Rext3 => panic!("the kernel mounts {name}"),
            None if base.kind == Kind::Rext3 => {}
            Some(theirs) => assert_eq!(difference(&after, &theirs), None, "{name}, seen by the kernel"),
            None => panic!("the kernel does not mount {name}"),
        }
    } else {
        skip("driver", "only the superuser may mount images");
    }
}

/// Small images with the smallest journal, so that it is full now and then.
const CRASH_BASES: &[Base] = &[
    Base { bytes: 8 << 20, ..BASES[2] },
    Base { bytes: 8 << 20, ..BASES[4] },
    Base { bytes: 24 << 20, ..BASES[5] },
    Base { bytes: 8 << 20, ..BASES[6] },
    Base { bytes: 24 << 20, ..BASES[7] },
    Base { bytes: 12 << 20, ..FOREIGN[1] },
    Base { bytes: 12 << 20, ..FOREIGN[4] },
    Base { bytes: 16 << 20, ..FOREIGN[6] },
    Base { bytes: 16 << 20, ..FOREIGN[7] },
];

#[test]
fn a_power_cut_leaves_what_was_after_some_operation() {
    let all = std::env::var_os("FSMEND_DRIVER_CUTS").is_some();
    for base in CRASH_BASES.iter().filter(|base| wanted(base)) {
        for seed in seeds() {
            let sweep = Sweep::new(*base, seed, 900).unwrap();
            let requests = sweep.requests().unwrap();
            assert!(requests > 300, "{requests} requests");
            // A step that is prime to everything in sight, so that cuts fall everywhere.
            let stride = if all { 1 } else { requests / 25 + 1 };
            for cut in (seed % stride..requests).step_by(stride as usize) {
                let again = (cut % 3 == 0).then_some(cut % 11);
                if let Err(what) = sweep.run(cut, again) {
                    panic!(
                        "{} with seed {seed}, cut {cut} of {requests}, again {again:?}: {what}",
                        base.name
                    );
                }
            }
        }
    }
}

/// Images that the kernel, mke2fs and debugfs make, with every feature: a sample, or all of them.
fn foreign_recipes() -> impl Iterator<Item = Recipe> {
    let every = if std::env::var_os("FSMEND_DRIVER_MATRIX").is_some() { 1 } else { 9 };
    let recipes = matrix::all().into_iter();
    let word = std::env::var("FSMEND_MATRIX").unwrap_or_default();
    recipes
        .filter(move |recipe| {
            recipe.size <= 128 << 20 && recipe.journal.is_none() && recipe.name.contains(&word)
        })
        .step_by(every)
}

fn kernel_view(image: &[u8]) -> Option<Snapshot> {
    if !is_root() {
        skip("driver", "only the superuser may mount images");
        return None;
    }
    let file = Scratch::with(image).unwrap();
    let point = std::path::PathBuf::from(format!("{}.mnt", file.path().display()));
    let mount = LoopMount::new(file.path(), &point, "ext4", "ro");
    if mount.is_err() {
        let _ = std::fs::remove_dir(&point);
    }
    let mount = mount.ok()?;
    let seen = of_kernel(mount.path());
    mount.unmount().unwrap();
    Some(seen.unwrap())
}

#[test]
fn what_others_made_is_read_and_changed() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let mut written = 0;
    for recipe in foreign_recipes() {
        let name = recipe.name;
        let image = match build(&recipe).unwrap() {
            Built::Image(path) => std::fs::read(path).unwrap(),
            Built::Skipped(why) => {
                skip(name, &why);
                continue;
            }
        };
        let theirs = kernel_view(&image);
        let device = Arc::new(WritableMemory::new(name, image.clone()));
        let as_device = || Arc::clone(&device) as Arc<dyn WritableDevice>;
        let mut reader = match Ext::mount(as_device(), MountOptions::read_only(Time::at(now))) {
            Ok(reader) => reader,
            Err(MountError::Features(names)) => {
                assert!(!names.is_empty(), "{name}");
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        let before =
            of_driver(&mut reader).unwrap_or_else(|error| panic!("{name}: {error}, {:?}", reader.trouble()));
        if let Some(theirs) = theirs {
            assert_eq!(difference(&before, &theirs), None, "{name}, seen by the kernel");
        }
        reader.unmount(Time::at(now)).unwrap();
        assert!(device.bytes() == image, "{name}: reading has changed something");
        let mut fs = match Ext::mount(as_device(), MountOptions::new(Time::at(now))) {
            Ok(fs) => fs,
            Err(MountError::ReadOnlyFeatures(names)) => {
                assert!(!names.is_empty(), "{name}");
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        let has_unwritten = fs_has_extents(&image);
        let mut work = Workload::in_folder(&mut fs, b"work of ours", 5, has_unwritten, now).unwrap();
        for step in 0..400 {
            work.step().unwrap_or_else(|what| panic!("{name}, step {step}: {what}"));
        }
        work.release_all().unwrap();
        work.compare().unwrap_or_else(|what| panic!("{name}: {what}"));
        let end = work.clock;
        let mut after = of_driver(&mut fs).unwrap();
        fs.unmount(Time::at(end)).unwrap();
        assert_sound(name, &device.bytes(), end);
        if let Some(theirs) = kernel_view(&device.bytes()) {
            assert_eq!(difference(&after, &theirs), None, "{name}, changed, seen by the kernel");
        }
        after.retain(|path, _| !path.starts_with(b"/work of ours") && path != b"/");
        let mut before = before;
        before.remove(&b"/"[..]);
        assert_eq!(difference(&before, &after), None, "{name}: what was there before");
        written += 1;
    }
    assert!(written > 5 || !is_root(), "only {written} images were written");
}

fn fs_has_extents(image: &[u8]) -> bool {
    u32::from_le_bytes([image[1120], image[1121], image[1122], image[1123]]) & 0x40 != 0
}

/// RepairPolicy for the worst places there are.
struct Hostile(SeededRandom);

impl Policy for Hostile {
    fn name(&self) -> &'static str {
        "hostile"
    }

    fn ideal(&mut self, _: &Ask, layout: &Layout, own_group: &GroupUse) -> u64 {
        match self.0.below(6) {
            0 => 0,
            1 => u64::MAX,
            // In the middle of a group's metadata.
            2 => own_group.first_free_for_files.saturating_sub(1 + self.0.below(20)),
            3 => layout.blocks_count - 1,
            4 => 12,
            _ => self.0.next_u64(),
        }
    }

    fn area(&mut self, _: &Ask, group: BlockRange, _: &GroupUse) -> BlockRange {
        match self.0.below(4) {
            0 => BlockRange::new(0, 0),
            1 => BlockRange::new(u64::MAX - 3, u64::MAX),
            2 => BlockRange::new(self.0.next_u64(), self.0.next_u64()),
            _ => group,
        }
    }

    fn directory_group(&mut self, _: &DirectoryAsk, _: &mut dyn Groups) -> GroupNo {
        GroupNo(self.0.next_u64() as u32)
    }
}

fn work_with(base: &Base, policy: impl Policy + 'static, steps: u64) -> (Arc<WritableMemory>, i64) {
    let device = base.make().unwrap();
    let options = MountOptions::new(Time::at(NOW)).with_policy(policy);
    let mut fs = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, options).unwrap();
    let mut work = Workload::new(&mut fs, 7, base.kind == Kind::Ext4).unwrap();
    for step in 0..steps {
        work.step().unwrap_or_else(|what| panic!("{}, step {step}: {what}", base.name));
    }
    work.release_all().unwrap();
    work.compare().unwrap_or_else(|what| panic!("{}: {what}", base.name));
    let end = work.clock;
    fs.unmount(Time::at(end)).unwrap();
    (device, end)
}

#[test]
fn no_policy_can_damage_anything() {
    for base in [BASES[2], BASES[4], BASES[6], BASES[7]] {
        let (device, end) = work_with(&base, Hostile(SeededRandom::new(3)), 1000);
        assert_sound(base.name, &device.bytes(), end);
        let (device, end) = work_with(&base, MetaclusterPolicy::default(), 1000);
        assert_sound(base.name, &device.bytes(), end);
    }
}

#[test]
fn a_full_file_system_refuses_and_goes_on() {
    let bases = [
        Base { bytes: 3 << 20, ..BASES[0] },
        Base { bytes: 6 << 20, ..BASES[4] },
        Base { bytes: 6 << 20, ..BASES[6] },
        Base { bytes: 4 << 20, ..FOREIGN[1] },
        Base { bytes: 6 << 20, ..FOREIGN[7] },
    ];
    for base in bases {
        let device = base.make().unwrap();
        let mut fs = mounted(&device, NOW);
        let mut work = Workload::new(&mut fs, 11, base.kind == Kind::Ext4).unwrap();
        work.crowd = 300;
        for step in 0..2000 {
            work.step().unwrap_or_else(|what| panic!("{}, step {step}: {what}", base.name));
        }
        assert!(work.refused > 10, "{}: only {} operations had no room", base.name, work.refused);
        work.release_all().unwrap();
        work.compare().unwrap();
        let end = work.clock;
        fs.unmount(Time::at(end)).unwrap();
        assert_sound(base.name, &device.bytes(), end);
    }
}

#[test]
fn metacluster_keeps_metadata_together() {
    // Files large enough for two levels of pointers: where do their second map blocks lie, counted from the start of the group?
    let count = |policy: Box<dyn Policy>| {
        let base = Base { bytes: 24 << 20, ..BASES[0] };
        let device = base.make().unwrap();
        let options = MountOptions { policy: Some(policy), ..MountOptions::new(Time::at(NOW)) };
        let mut fs = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, options).unwrap();
        let root = fs.root();
        let now = Time::at(NOW);
        let file = fs.create(root, b"file", Permissions::default(), now).unwrap().inode;
        fs.write(file, 0, &vec![7; 2_000_000], now).unwrap();
        let pieces = fs.extents(file, 0, 1000).unwrap().len();
        fs.unmount(now).unwrap();
        assert_sound("policy", &device.bytes(), NOW);
        pieces
    };
    // The ext3 policy cuts the data at every map block; the other only at the first, which stays in line, and where groups end.
    let (ext3, metacluster) = (count(Box::new(Ext3Policy)), count(Box::<MetaclusterPolicy>::default()));
    assert!(metacluster < ext3, "{metacluster} pieces, {ext3} with the ext3 policy");
}

#[test]
fn a_directory_of_many_names_has_an_index_of_two_levels() {
    for base in [BASES[4], Base { indirect_region: Some(200), ..BASES[6] }] {
        index_of_two_levels(&Base { bytes: 24 << 20, ..base });
    }
}

fn index_of_two_levels(base: &Base) {
    let device = base.make().unwrap();
    let mut fs = mounted(&device, NOW);
    let (root, now) = (fs.root(), Time::at(NOW));
    let folder = fs.mkdir(root, b"folder", Permissions::default(), now).unwrap().inode;
    let file = fs.create(folder, b"first", Permissions::default(), now).unwrap().inode;
    let name = |number: u32| format!("{number:0>60}").into_bytes();
    for number in 0..6000 {
        fs.link(file, folder, &name(number), now).unwrap();
    }
    for number in (0..6000).step_by(3) {
        fs.unlink(folder, &name(number), now).unwrap();
    }
    let all = names(&mut fs, folder, 37).unwrap();
    assert_eq!(all.len(), 2 + 1 + 4000);
    for number in 0..6000 {
        assert_eq!(fs.lookup(folder, &name(number)).is_ok(), number % 3 != 0, "{number}");
    }
    fs.unmount(now).unwrap();
    assert_sound("index", &device.bytes(), NOW);
    if let Some(theirs) = kernel_view(&device.bytes()) {
        assert_eq!(theirs.keys().filter(|path| path.starts_with(b"/folder/")).count(), 4001);
    }
}

/// The image with another reserve: blocks and the user and group whom they are kept for.
fn kept_for(image: &mut [u8], uid: u16, gid: u16) {
    image[1024 + 0x50..1024 + 0x52].copy_from_slice(&uid.to_le_bytes());
    image[1024 + 0x52..1024 + 0x54].copy_from_slice(&gid.to_le_bytes());
    let sum = fsmend_ext_format::checksum::crc32c(u32::MAX, &image[1024..2044]);
    image[2044..2048].copy_from_slice(&sum.to_le_bytes());
}

/// Writes to a file until there is no more room; how many bytes there were.
fn write_to_the_end(fs: &mut Ext, name: &[u8]) -> u64 {
    let (root, now) = (fs.root(), Time::at(NOW));
    let file = fs.create(root, name, Permissions::default(), now).unwrap().inode;
    let mut len = 0;
    loop {
        match fs.write(file, len, &[7; 50_000], now) {
            Ok(0) | Err(Errno::NoSpace) => return len,
            Ok(count) => len += count as u64,
            Err(error) => panic!("{error}: {:?}", fs.trouble()),
        }
    }
}

#[test]
fn the_last_blocks_are_taken_only_by_those_they_are_kept_for() {
    let user = Caller { uid: 1000, gid: 100, umask: 0 };
    for base in [BASES[0], BASES[2], BASES[4], BASES[6]].map(|base| Base { bytes: 8 << 20, ..base }) {
        let device = base.make().unwrap();
        let mut fs = mounted(&device, NOW);
        // Names for all that follows, as directories need room, too.
        for number in 0..4 {
            let name = format!("file {number}");
            let (root, now) = (fs.root(), Time::at(NOW));
            fs.create(root, name.as_bytes(), Permissions::default(), now).unwrap();
            fs.unlink(root, name.as_bytes(), now).unwrap();
        }
        let reserved = base.bytes / u64::from(base.block_size) * 5 / 100;
        let space = fs.statfs().unwrap();
        assert_eq!(space.blocks_free - space.blocks_available, reserved, "{}", base.name);
        fs.act_for(user);
        assert!(write_to_the_end(&mut fs, b"file 0") > 1 << 20, "{}", base.name);
        let space = fs.statfs().unwrap();
        // What is left over is too little for a map block and data.
        assert!(space.blocks_available <= 3 && space.blocks_free >= reserved, "{}: {space:?}", base.name);
        assert_eq!(write_to_the_end(&mut fs, b"file 1") / 4096, 0, "{}", base.name);
        fs.act_for(Caller::SUPERUSER);
        assert!(write_to_the_end(&mut fs, b"file 2") > reserved / 2 * u64::from(base.block_size));
        let space = fs.statfs().unwrap();
        assert!(space.blocks_free < 4 && space.blocks_available == 0, "{}: {space:?}", base.name);
        // What is given back fills the reserve first.
        let (root, now) = (fs.root(), Time::at(NOW));
        fs.unlink(root, b"file 2", now).unwrap();
        fs.act_for(user);
        assert_eq!(write_to_the_end(&mut fs, b"file 3") / 4096, 0, "{}", base.name);
        fs.unmount(now).unwrap();
        assert_sound(base.name, &device.bytes(), NOW);
        for (uid, gid, is_open) in [(0, 0, false), (1000, 0, true), (0, 100, true), (999, 99, false)] {
            let mut image = device.bytes();
            kept_for(&mut image, uid, gid);
            let device = Arc::new(WritableMemory::new(base.name, image));
            let mut fs = mounted(&device, NOW);
            fs.act_for(user);
            let len = write_to_the_end(&mut fs, b"file 4");
            assert_eq!(len > 50_000, is_open, "{}, kept for {uid} and {gid}: {len}", base.name);
            fs.unmount(now).unwrap();
        }
    }
}

#[test]
fn the_kernel_finds_as_much_room_as_we_do() {
    if !is_root() {
        return skip("driver", "only the superuser may mount images");
    }
    // With extents, the kernel keeps some more for itself.
    for base in [BASES[0], BASES[1], BASES[2], BASES[3]] {
        let (image, end) = fsmend_testkit::driver::worked(&base, 5, 300).unwrap();
        let device = Arc::new(WritableMemory::new(base.name, image.clone()));
        let ours = mounted(&device, end).statfs().unwrap();
        let file = Scratch::with(&image).unwrap();
        let point = std::path::PathBuf::from(format!("{}.mnt", file.path().display()));
        let mount = LoopMount::new(file.path(), &point, "ext4", "ro").unwrap();
        let theirs = rustix::fs::statvfs(mount.path()).unwrap();
        mount.unmount().unwrap();
        assert_eq!(
            (ours.blocks_free, ours.blocks_available),
            (theirs.f_bfree, theirs.f_bavail),
            "{}",
            base.name
        );
    }
}

#[test]
fn filling_in_bulk_leaves_the_same_and_is_sound() {
    for base in [BASES[0], BASES[3], BASES[4], BASES[6]] {
        let device = base.make().unwrap();
        // A journal that waits is replayed, all the same.
        let mut fs = mounted(&device, NOW);
        let (root, now) = (fs.root(), Time::at(NOW));
        fs.mkdir(root, b"logged", Permissions::default(), now).unwrap();
        fs.sync(now).unwrap();
        drop(fs);
        let options = MountOptions::new(now).in_bulk();
        let mut fs = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, options).unwrap();
        let mut work = Workload::in_folder(&mut fs, b"work", 9, base.kind == Kind::Ext4, NOW).unwrap();
        for step in 0..1000 {
            work.step().unwrap_or_else(|what| panic!("{}, step {step}: {what}", base.name));
        }
        work.release_all().unwrap();
        work.compare().unwrap_or_else(|what| panic!("{}: {what}", base.name));
        let end = work.clock;
        let before = of_driver(&mut fs).unwrap();
        assert!(before.contains_key(&b"/logged"[..]), "{}", base.name);
        fs.unmount(Time::at(end)).unwrap();
        assert_sound(base.name, &device.bytes(), end);
        let after = of_driver(&mut mounted(&device, end)).unwrap();
        assert_eq!(difference(&before, &after), None, "{}", base.name);
    }
}

#[test]
fn what_mkfs_can_be_asked_for_is_sound_and_lived_in() {
    let plain = |kind| mkfs::Options::new(kind, *b"0123456789abcdef", Time::at(NOW));
    let all = mkfs::Options { resize_inode: true, orphan_file: true, ..plain(Kind::Ext3) };
    let none =
        mkfs::Options { resize_inode: false, orphan_file: false, checksum_seed: false, ..plain(Kind::Ext4) };
    let sized = |size, options: &mkfs::Options| mkfs::Options { block_size: Some(size), ..options.clone() };
    let groups = |count, options: mkfs::Options| mkfs::Options { blocks_per_group: Some(count), ..options };
    let cases = [
        ("ext4", 64 << 20, groups(2048, sized(4096, &plain(Kind::Ext4)))),
        ("ext4-1k", 24 << 20, groups(2048, sized(1024, &plain(Kind::Ext4)))),
        ("ext4-none", 64 << 20, sized(4096, &none)),
        ("ext3-all", 24 << 20, groups(1024, sized(1024, &all))),
        ("ext2-resize", 24 << 20, mkfs::Options { resize_inode: true, ..sized(1024, &plain(Kind::Ext2)) }),
        ("ext4-8k", 128 << 20, sized(8192, &plain(Kind::Ext4))),
        ("ext4-64k", 512 << 20, sized(65536, &plain(Kind::Ext4))),
        ("ext2-16k", 64 << 20, sized(16384, &plain(Kind::Ext2))),
        ("rext3-8k", 128 << 20, sized(8192, &plain(Kind::Rext3))),
        ("rext3-16k", 128 << 20, groups(2048, sized(16384, &plain(Kind::Rext3)))),
        ("rext3-64k", 512 << 20, sized(65536, &plain(Kind::Rext3))),
    ];
    for (name, len, options) in cases {
        let device = Arc::new(WritableMemory::new(name, vec![0; len]));
        let options = mkfs::Options { blank: true, ..options };
        mkfs::mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &options).unwrap();
        assert_sound(name, &device.bytes(), NOW);
        let mut fs = mounted(&device, NOW);
        let mut work = Workload::new(&mut fs, 3, options.kind == Kind::Ext4).unwrap();
        for step in 0..600 {
            work.step().unwrap_or_else(|what| panic!("{name}, step {step}: {what}"));
        }
        work.release_all().unwrap();
        work.compare().unwrap_or_else(|what| panic!("{name}: {what}"));
        let end = work.clock;
        let ours = of_driver(&mut fs).unwrap();
        fs.unmount(Time::at(end)).unwrap();
        let image = device.bytes();
        assert_sound(name, &image, end);
        match kernel_view(&image) {
            Some(theirs) => assert_eq!(difference(&ours, &theirs), None, "{name}, seen by the kernel"),
            None if options.block_size > Some(4096) => {
                skip(name, "this kernel mounts no blocks of this size")
            }
            None => assert!(!is_root(), "the kernel does not mount {name}"),
        }
    }
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let image = BASES[4].make().unwrap().bytes();
    let refused = |at: usize, bit: u32, read_only: bool| {
        let mut image = image.clone();
        let mut word = u32::from_le_bytes(*image[1024 + at..].first_chunk().unwrap());
        word |= bit;
        image[1024 + at..1024 + at + 4].copy_from_slice(&word.to_le_bytes());
        let sum = fsmend_ext_format::checksum::crc32c(u32::MAX, &image[1024..2044]);
        image[2044..2048].copy_from_slice(&sum.to_le_bytes());
        let device = Arc::new(WritableMemory::new("image", image)) as Arc<dyn WritableDevice>;
        Ext::mount(device, MountOptions { read_only, ..MountOptions::new(Time::at(NOW)) }).err()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(refused(0x60, 0x2_0000, true), Some(MountError::Features(names(&["casefold"]))));
    assert_eq!(refused(0x60, 1 << 30, true), Some(MountError::Features(names(&["bit 0x40000000"]))));
    assert_eq!(refused(0x60, 0x400, false), Some(MountError::ReadOnlyFeatures(names(&["ea_inode"]))));
    assert_eq!(refused(0x64, 1 << 29, false), Some(MountError::ReadOnlyFeatures(names(&["bit 0x20000000"]))));
    assert_eq!(refused(0x64, 1 << 29, true), None);
}
