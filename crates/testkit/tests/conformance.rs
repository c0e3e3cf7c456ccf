// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do file systems do what POSIX and the trait ask of them? The model in memory, and the driver for every type.

use std::sync::Arc;

use fsmend_device::{Device, WritableDevice, WritableMemory};
use fsmend_ext_driver::mkfs::{Kind, Options, mkfs};
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_testkit::conformance::files::{Driven, work};
use fsmend_testkit::conformance::{Abilities, Bench, Oddities, Room, run};
use fsmend_testkit::driver::{NOW, complaint, keep, made_by_mke2fs};
use fsmend_testkit::memfs::{Limits, MemFs};
use fsmend_vfs::{FileSystem, Permissions, Time};

/// Seeds of random reads and writes per file system.
const SEEDS: u64 = 6;

fn count(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn memory(limits: Limits) -> impl FnMut(Room) -> Option<Bench> {
    move |room| {
        let (blocks, inodes) = match room {
            Room::Small => (4 << 10, 1 << 10),
            Room::Plenty => (16 << 10, 8 << 10),
            Room::Crowd => (100_000, 100_000),
        };
        let limits = Limits { blocks, inodes, ..limits };
        let can = Abilities {
            nanoseconds: true,
            crtime: true,
            file_links_max: limits.file_links_max,
            dir_links_max: limits.dir_links_max,
            size_max: limits.size_max,
            unwritten: limits.unwritten,
            unit_blocks: 1,
            dir_blocks: 1,
            value_min: limits.value_max - 20,
            odd: Oddities::default(),
        };
        Some(Bench::new(Box::new(MemFs::new(limits, Time::at(NOW))), can))
    }
}

#[test]
fn the_model_does_what_every_file_system_has_to() {
    let as_ext3 =
        Limits { file_links_max: 32_000, dir_links_max: Some(32_000), unwritten: false, ..Limits::default() };
    for limits in [Limits::default(), as_ext3] {
        let failed = run(memory(limits), |_| Ok(()));
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }
}

#[test]
fn the_model_keeps_what_is_written_to_it() {
    for seed in 0..SEEDS {
        let mut fs = MemFs::new(Limits::default(), Time::at(NOW));
        let (root, of) = (fs.root(), Permissions { mode: 0o644, uid: 0, gid: 0 });
        let inode = fs.create(root, b"file", of, Time::at(NOW)).expect("there is room").inode;
        let mut subject = Driven { fs: &mut fs, inode, now: Time::at(NOW) };
        work(&mut subject, seed, 2_000, 1 << 20).expect("the model keeps it");
    }
}

/// Makes file systems of one type, keeping the image so that it can be looked at afterwards.
struct Images {
    kind: Kind,
    block_size: u32,
    inode_size: u32,
    /// What mke2fs is asked for besides sizes and inodes, where it makes the images.
    mke2fs: Option<&'static str>,
    made: std::collections::HashMap<(usize, u32), Vec<u8>>,
    last: Option<Arc<WritableMemory>>,
}

impl Images {
    fn new(kind: Kind, block_size: u32, inode_size: u32) -> Self {
        Images { kind, block_size, inode_size, mke2fs: None, made: Default::default(), last: None }
    }

    fn by_mke2fs(block_size: u32, inode_size: u32, mke2fs: &'static str) -> Self {
        Images { mke2fs: Some(mke2fs), ..Images::new(Kind::Ext4, block_size, inode_size) }
    }

    /// An empty image by mke2fs; each is made once.
    fn foreign(&mut self, mke2fs: &str, bytes: usize, inodes: u32) -> Vec<u8> {
        let (block_size, inode_size) = (self.block_size, self.inode_size);
        let make = || {
            let arguments = format!("-b {block_size} -I {inode_size} -N {inodes} -m 0 {mke2fs}");
            made_by_mke2fs(&arguments, bytes as u64).expect("it can be made")
        };
        self.made.entry((bytes, inodes)).or_insert_with(make).clone()
    }

    fn abilities(&self) -> Abilities {
        let is_ext4 = self.kind == Kind::Ext4;
        let mke2fs = self.mke2fs.unwrap_or_default();
        let mut words = mke2fs.split_whitespace().skip_while(|word| *word != "-C").skip(1);
        let cluster = words.next().and_then(|bytes| bytes.parse::<u64>().ok());
        let unit_blocks = cluster.map_or(1, |bytes| bytes / u64::from(self.block_size));
        let block_size = u64::from(self.block_size);
        let pointers = block_size / 4 - if self.kind == Kind::Rext3 { 2 } else { 0 };
        // What three levels of pointers reach, if that is not too much.
        let by_pointers = (12 + pointers + pointers.pow(2) + pointers.pow(3)) * block_size;
        Abilities {
            nanoseconds: self.inode_size > 128,
            crtime: self.inode_size > 128,
            // What the kernel's ext4 allows, which mounts all three of them today.
            file_links_max: 65_000,
            dir_links_max: if is_ext4 { None } else { Some(65_000) },
            size_max: if is_ext4 {
                ((1 << 32) - 1) * block_size
            } else {
                by_pointers.min(self.counted_max())
            },
            unwritten: is_ext4,
            unit_blocks,
            dir_blocks: if mke2fs.contains("inline_data") { 0 } else { unit_blocks },
            // A block, but for heads and names.
            value_min: self.block_size as usize - 64,
            odd: Oddities::default(),
        }
    }

    fn counted_max(&self) -> u64 {
        if self.kind == Kind::Rext3 { IN_REXT3_MAX } else { BY_POINTERS_MAX }
    }

    fn fresh(&mut self, room: Room) -> Option<Bench> {
        let (bytes, inodes, block_size) = match room {
            Room::Small => (16 << 20, 1 << 10, self.block_size),
            Room::Plenty => (48 << 20, 8 << 10, self.block_size),
            // Small blocks alone, or there would have to be much memory.
            Room::Crowd if self.block_size > 1024 => return None,
            Room::Crowd => (128 << 20, 80_000, self.block_size),
        };
        if let Some(mke2fs) = self.mke2fs {
            // What a cluster has to have more than a block is too much for so many directories.
            if room == Room::Crowd && mke2fs.contains("bigalloc") {
                return None;
            }
            let image = self.foreign(mke2fs, bytes, inodes);
            return Some(self.mounted(Arc::new(WritableMemory::new("image", image))));
        }
        let device = Arc::new(WritableMemory::new("image", vec![0xA5; bytes]));
        let options = Options {
            block_size: Some(block_size),
            inode_size: self.inode_size,
            inodes: Some(inodes),
            reserved_percent: 0,
            // Every directory takes a block of a region.
            indirect_region: (self.kind == Kind::Rext3 && room == Room::Crowd).then_some(5000),
            ..Options::new(self.kind, *b"0123456789abcdef", Time::at(NOW))
        };
        mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &options).expect("it can be made");
        Some(self.mounted(device))
    }

    fn mounted(&mut self, device: Arc<WritableMemory>) -> Bench {
        self.last = Some(Arc::clone(&device));
        let ext = Ext::mount(device, MountOptions::new(Time::at(NOW))).expect("it can be mounted");
        Bench::new(Box::new(ext), self.abilities())
    }

    /// Unmounts, and asks e2fsck and our own check.
    fn judge(&mut self, mut bench: Bench) -> Result<(), String> {
        let now = bench.tick();
        bench.fs.unmount(now).map_err(|error| format!("unmount: {error} ({:?})", bench.fs.trouble()))?;
        let device = self.last.take().ok_or("no image")?;
        let mut image = vec![0; device.len() as usize];
        device.read_at(0, &mut image).map_err(|error| error.to_string())?;
        match complaint(&image, now.seconds).map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(said) => {
                keep("conformance", &image);
                Err(said)
            }
        }
    }
}

/// The largest file of 4 KiB blocks where `huge_file` is not set: its sectors and those of its map have to be counted in 32 bits. That is as far as
/// the kernel goes, and from where on e2fsck calls a length wrong.
const BY_POINTERS_MAX: u64 = 2_196_873_666_560;

/// The same with two pointers fewer in each block of the map.
const IN_REXT3_MAX: u64 = 2_196_869_451_776;

fn conforms(images: Images) {
    let images = std::cell::RefCell::new(images);
    let failed = run(|room| images.borrow_mut().fresh(room), |bench| images.borrow_mut().judge(bench));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn ext2_does_what_every_file_system_has_to() {
    conforms(Images::new(Kind::Ext2, 1024, 128));
}

#[test]
fn ext3_does_what_every_file_system_has_to() {
    conforms(Images::new(Kind::Ext3, 4096, 256));
}

#[test]
fn ext3_with_small_blocks_does_what_every_file_system_has_to() {
    conforms(Images::new(Kind::Ext3, 1024, 256));
}

#[test]
fn rext3_does_what_every_file_system_has_to() {
    conforms(Images::new(Kind::Rext3, 4096, 256));
}

#[test]
fn rext3_with_small_blocks_does_what_every_file_system_has_to() {
    conforms(Images::new(Kind::Rext3, 1024, 256));
}

#[test]
fn ext4_does_what_every_file_system_has_to() {
    conforms(Images::new(Kind::Ext4, 4096, 256));
}

#[test]
fn ext4_with_small_blocks_does_what_every_file_system_has_to() {
    conforms(Images::new(Kind::Ext4, 1024, 256));
}

#[test]
fn ext4_with_quotas_does_what_every_file_system_has_to() {
    conforms(Images::by_mke2fs(1024, 256, "-O quota,project"));
}

#[test]
fn ext4_with_contents_in_inodes_does_what_every_file_system_has_to() {
    conforms(Images::by_mke2fs(4096, 256, "-O inline_data"));
}

#[test]
fn ext4_with_contents_in_large_inodes_does_what_every_file_system_has_to() {
    conforms(Images::by_mke2fs(1024, 1024, "-O inline_data"));
}

#[test]
fn ext4_with_clusters_does_what_every_file_system_has_to() {
    conforms(Images::by_mke2fs(4096, 256, "-O bigalloc -C 16384"));
}

#[test]
fn ext4_with_all_of_it_does_what_every_file_system_has_to() {
    conforms(Images::by_mke2fs(1024, 512, "-O bigalloc,inline_data,quota,project -C 4096"));
}

#[test]
fn what_mke2fs_makes_keeps_what_is_written_to_it() {
    let seeds = count("FSMEND_FILE_SEEDS", SEEDS);
    let sets = [
        (1024, 256, "-O quota"),
        (4096, 256, "-O inline_data"),
        (1024, 1024, "-O inline_data"),
        (4096, 256, "-O bigalloc -C 16384"),
        (1024, 512, "-O bigalloc,inline_data,quota,project -C 65536"),
    ];
    for (block_size, inode_size, mke2fs) in sets {
        let mut images = Images::by_mke2fs(block_size, inode_size, mke2fs);
        (0..seeds).for_each(|seed| keeps_what_is_written(&mut images, seed));
    }
}

#[test]
fn drivers_keep_what_is_written_to_them() {
    let seeds = count("FSMEND_FILE_SEEDS", SEEDS);
    let kinds = [
        (Kind::Ext2, 1024),
        (Kind::Ext3, 4096),
        (Kind::Rext3, 1024),
        (Kind::Rext3, 4096),
        (Kind::Ext4, 1024),
        (Kind::Ext4, 4096),
    ];
    for (kind, block_size) in kinds {
        let mut images = Images::new(kind, block_size, 256);
        (0..seeds).for_each(|seed| keeps_what_is_written(&mut images, seed));
    }
}

fn keeps_what_is_written(images: &mut Images, seed: u64) {
    let mut bench = images.fresh(Room::Small).expect("there is one for every type");
    let (root, of) = (bench.fs.root(), Permissions { mode: 0o644, uid: 0, gid: 0 });
    let now = bench.tick();
    let inode = bench.fs.create(root, b"file", of, now).expect("there is room").inode;
    let mut subject = Driven { fs: &mut *bench.fs, inode, now };
    work(&mut subject, seed, 1_500, 1 << 20).expect("it is kept");
    images.judge(bench).expect("it is sound");
}
