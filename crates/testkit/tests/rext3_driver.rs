// SPDX-License-Identifier: MIT OR Apache-2.0
//! rext3 as our driver makes and fills it: does it keep to the format's rules where room is short, does it notice what breaks them, and
//! is damage to what it made found and mended?
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::{BlockNo, GroupNo};
use fsmend_device::{Device, MemoryDevice, WritableDevice, WritableMemory};
use fsmend_engine::Progress;
use fsmend_ext_check::repair::{self, Repair, RepairOptions, RepairPolicy};
use fsmend_ext_driver::mkfs::{Kind, MkfsError, Options, mkfs};
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::rext3::IndirectHeader;
use fsmend_ext_format::superblock::RawSuperblock;
use fsmend_testkit::damage::{Damage, Survey};
use fsmend_testkit::driver::{BASES, Base, NOW, complaint, worked};
use fsmend_testkit::within::{Manner, options};
use fsmend_vfs::{Errno, FileSystem, InodeNo, Permissions, Time};
use zerocopy::FromBytes;

const SMALL_BLOCKS: Base = BASES[6];
const LARGE_BLOCKS: Base = BASES[7];
const OF: Permissions = Permissions { mode: 0o644, uid: 0, gid: 0 };

fn now() -> Time {
    Time::at(NOW)
}

fn mounted(image: Vec<u8>) -> (Arc<WritableMemory>, Ext) {
    let device = Arc::new(WritableMemory::new("rext3", image));
    let ext = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, MountOptions::new(now())).unwrap();
    (device, ext)
}

fn word(image: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*image[at..].first_chunk().unwrap())
}

fn geometry(image: &[u8]) -> Geometry {
    let superblock = RawSuperblock::read_from_bytes(&image[1024..2048]).unwrap();
    Geometry::from_superblock(&superblock, image.len() as u64).unwrap()
}

/// Where the inode table of a group begins.
fn table(image: &[u8], geometry: &Geometry, group: u32) -> u64 {
    let descriptors = (1 + u64::from(geometry.first_data_block)) * u64::from(geometry.block_size);
    u64::from(word(image, descriptors as usize + group as usize * 32 + 8))
}

/// Where the word of an inode's map stands.
fn map_word(image: &[u8], inode: InodeNo, index: usize) -> usize {
    let geometry = geometry(image);
    let (group, at) = geometry.inode_place(inode).unwrap();
    let table = table(image, &geometry, group.0) * u64::from(geometry.block_size);
    table as usize + (at * geometry.inode_size) as usize + 0x28 + index * 4
}

/// The group in whose region a block lies.
fn region_of(image: &[u8], block: u32) -> Option<u32> {
    let geometry = geometry(image);
    let group = geometry.group_of_block(BlockNo(u64::from(block)))?;
    let region = geometry.region(GroupNo(group.0), table(image, &geometry, group.0));
    region.contains(BlockNo(u64::from(block))).then_some(group.0)
}

fn put(fs: &mut Ext, inode: InodeNo, bytes: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        done += fs.write(inode, done as u64, &bytes[done..], now())?;
    }
    Ok(())
}

/// Files of 13 blocks, until one of them cannot have its indirect block; the directory has room for their names.
fn fill_regions(fs: &mut Ext, folder: InodeNo) -> Vec<InodeNo> {
    let mut files = Vec::new();
    loop {
        let name = format!("{:04}", files.len());
        let inode = fs.create(folder, name.as_bytes(), OF, now()).unwrap().inode;
        match put(fs, inode, &[7; 13 << 10]) {
            Ok(()) => files.push(inode),
            Err(error) => {
                assert_eq!(error, Errno::NoSpace);
                assert_eq!(
                    fs.getattr(inode).unwrap().size,
                    12 << 10,
                    "what needs no indirect block is there"
                );
                return files;
            }
        }
    }
}

#[test]
fn what_is_synchronised_is_at_home_at_once_where_that_is_wanted() {
    let places = |home_at_sync: bool| {
        let device = Arc::new(WritableMemory::new("rext3", LARGE_BLOCKS.make().unwrap().bytes()));
        let options = MountOptions { home_at_sync, ..MountOptions::new(now()) };
        let mut fs = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, options).unwrap();
        let root = fs.root();
        fs.create(root, b"a name that stands nowhere else", OF, now()).unwrap();
        fs.sync(now()).unwrap();
        let image = device.bytes();
        image.windows(31).filter(|bytes| bytes == b"a name that stands nowhere else").count()
    };
    // In the log, and at home.
    assert_eq!((places(false), places(true)), (1, 2));
}

#[test]
fn regions_fill_from_the_own_one_onwards_and_then_there_is_no_space() {
    let base = Base { indirect_region: Some(32), ..SMALL_BLOCKS };
    let (device, mut fs) = mounted(base.make().unwrap().bytes());
    let root = fs.root();
    let folder = fs.mkdir(root, b"folder", OF, now()).unwrap().inode;
    // So many blocks that it need not grow any more.
    let names: Vec<String> = (0..200).map(|at| format!("a name that takes room {at:040}")).collect();
    for name in &names {
        fs.create(folder, name.as_bytes(), OF, now()).unwrap();
    }
    for name in &names {
        fs.unlink(folder, name.as_bytes(), now()).unwrap();
    }
    let before = fs.statfs().unwrap();
    let files = fill_regions(&mut fs, folder);
    let full = fs.statfs().unwrap();
    let groups = fs.regions().unwrap().len() as u64;
    assert_eq!((full.metadata_blocks, full.metadata_blocks_free), (groups * 32, 0));
    assert_eq!(before.metadata_blocks_free, files.len() as u64, "each has one indirect block");
    assert!(full.blocks_free > 10_000, "there is room for data: {full:?}");
    assert!(fs.regions().unwrap().iter().all(|region| (region.blocks, region.free) == (32, 0)));
    assert_eq!(fs.mkdir(root, b"another", OF, now()).err(), Some(Errno::NoSpace));
    // What needs none of them goes on, and what is given back can be had again.
    let small = fs.create(folder, b"small", OF, now()).unwrap().inode;
    put(&mut fs, small, &[8; 12 << 10]).unwrap();
    fs.unlink(folder, b"0003", now()).unwrap();
    fs.mkdir(root, b"another", OF, now()).unwrap();
    assert_eq!(fs.statfs().unwrap().metadata_blocks_free, 0);
    fs.unmount(now()).unwrap();

    let image = device.bytes();
    assert_eq!(complaint(&image, NOW).unwrap(), None);
    let own = geometry(&image).inode_place(files[0]).unwrap().0.0;
    assert_ne!(own, 0, "the folder is not in the first group, so that the search comes round");
    let kept = files.iter().enumerate().filter(|(at, _)| *at != 3).map(|(_, inode)| *inode);
    let steps: Vec<u32> = kept
        .map(|inode| {
            let region = region_of(&image, word(&image, map_word(&image, inode, 12))).unwrap();
            (region + groups as u32 - own) % groups as u32
        })
        .collect();
    assert!(steps.is_sorted(), "{steps:?}");
    assert_eq!((steps[0], steps[steps.len() - 1]), (0, groups as u32 - 1));
}

#[test]
fn the_size_of_regions_is_as_asked_or_a_64th() {
    let shape = |block_size: u32, bytes: u64, indirect_region| {
        let device = Arc::new(WritableMemory::new("rext3", vec![0; bytes as usize]));
        let asked = Options {
            block_size: Some(block_size),
            indirect_region,
            blank: true,
            ..Options::new(Kind::Rext3, *b"0123456789abcdef", now())
        };
        mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &asked).map(|()| geometry(&device.bytes()))
    };
    for (block_size, expected) in [(1024, 128), (2048, 256), (4096, 512)] {
        assert_eq!(shape(block_size, 64 << 20, None).unwrap().region_blocks, expected);
    }
    assert_eq!(shape(4096, 64 << 20, Some(77)).unwrap().region_blocks, 77);
    for wrong in [0, 8192, u32::MAX] {
        assert!(matches!(shape(1024, 64 << 20, Some(wrong)), Err(MkfsError::Option(_))), "{wrong}");
    }
    // No room is left in the first group, which has the superblock.
    assert_eq!(shape(4096, 64 << 20, Some(16_000)).err(), Some(MkfsError::TooSmall));
    // What does not fit into tiny regions is named, with what would help; the numbers are right.
    let (mut refused, mut made) = (0, 0);
    for region in 1..=40 {
        match shape(1024, 64 << 20, Some(region)) {
            Ok(_) => made += 1,
            Err(MkfsError::Regions(needs)) => {
                assert_eq!(made, 0, "{region}: {needs:?}, and smaller ones sufficed");
                assert!(needs.directories == 13 && needs.all == u64::from(region) * 8, "{region}: {needs:?}");
                let text = needs.to_string();
                assert!(text.contains("lost+found need 13") && text.contains("-E indirect-region"), "{text}");
                refused += 1;
            }
            Err(other) => panic!("{region}: {other}"),
        }
    }
    assert!(refused > 0 && made > 0, "{refused} {made}");
    let ext3 = Options { indirect_region: Some(9), ..Options::new(Kind::Ext3, [1; 16], now()) };
    let device: Arc<dyn WritableDevice> = Arc::new(WritableMemory::new("ext3", vec![0; 8 << 20]));
    assert_eq!(mkfs(device, &ext3), Err(MkfsError::Option("only rext3 has indirect regions")));
}

/// Changes bytes of an image, given the file in it.
type Harm = fn(&mut Vec<u8>, InodeNo);

/// An image with a file of 300 blocks, and what breaks when some bytes of it are changed.
fn broken(change: impl Fn(&mut Vec<u8>, InodeNo)) -> (Errno, String) {
    let (device, mut fs) = mounted(SMALL_BLOCKS.make().unwrap().bytes());
    let root = fs.root();
    let file = fs.create(root, b"file", OF, now()).unwrap().inode;
    put(&mut fs, file, &vec![5; 300 << 10]).unwrap();
    fs.unmount(now()).unwrap();
    let mut image = device.bytes();
    change(&mut image, file);
    let (_, mut fs) = mounted(image);
    let root = fs.root();
    let read = fs.lookup(root, b"file").and_then(|_| fs.read(file, 0, &mut vec![0; 300 << 10]));
    let told = (read.unwrap_err(), fs.trouble().unwrap().to_owned());
    // Nor is anything given back that may have another owner.
    assert_eq!(fs.unlink(root, b"file", now()), Err(Errno::Corrupt), "{}", told.1);
    told
}

#[test]
fn what_breaks_the_rules_of_the_format_is_not_followed() {
    let damages: [(&str, Harm); 7] = [
        ("an indirect block", |image, file| {
            let at = word(image, map_word(image, file, 12)) as usize * 1024;
            image[at + 6] ^= 1;
        }),
        // Another level: the block is intact, but it is the wrong one.
        ("level 2", |image, file| {
            let single = word(image, map_word(image, file, 12));
            let at = map_word(image, file, 13);
            image[at..at + 4].copy_from_slice(&single.to_le_bytes());
        }),
        ("data lie inside", |image, file| {
            let indirect = word(image, map_word(image, file, 12));
            let at = map_word(image, file, 3);
            image[at..at + 4].copy_from_slice(&indirect.to_le_bytes());
        }),
        ("a directory block", |image, _| {
            let at = word(image, map_word(image, InodeNo(2), 0)) as usize * 1024;
            image[at + 900] ^= 1;
        }),
        ("is not block 0 of directory 2", |image, _| {
            let lost = word(image, map_word(image, InodeNo(11), 0));
            let at = map_word(image, InodeNo(2), 0);
            image[at..at + 4].copy_from_slice(&lost.to_le_bytes());
        }),
        // A block that says all the right things in the wrong place.
        ("metadata lie outside", |image, file| {
            let at = map_word(image, file, 12);
            let outside = word(image, map_word(image, file, 5));
            let header =
                IndirectHeader::new(geometry(image).checksum_seed, BlockNo(u64::from(outside)), file, 1);
            header.store(&mut image[outside as usize * 1024..]);
            image[at..at + 4].copy_from_slice(&outside.to_le_bytes());
        }),
        ("metadata lie outside", |image, file| {
            let data = word(image, map_word(image, file, 0));
            let at = map_word(image, InodeNo(2), 0);
            image[at..at + 4].copy_from_slice(&data.to_le_bytes());
        }),
    ];
    for (expected, damage) in damages {
        let (error, trouble) = broken(damage);
        assert!(error == Errno::Corrupt && trouble.contains(expected), "{expected}: {error:?}, {trouble}");
    }
}

fn planned(image: &[u8]) -> Repair {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("rext3", image.to_vec()));
    let asked = RepairOptions { check: options(Manner::default()), policy: RepairPolicy::default() };
    let plan = repair::plan(&device, &asked, &Progress::new(), &AtomicBool::new(false)).unwrap();
    plan.written_out(&device).unwrap()
}

#[test]
fn damage_to_what_the_driver_made_is_mended() {
    let mut mended = 0;
    for base in [Base { bytes: 8 << 20, ..SMALL_BLOCKS }, Base { bytes: 24 << 20, ..LARGE_BLOCKS }] {
        let (image, _) = worked(&base, 5, 300).unwrap();
        let survey = Survey::of_bytes(image).unwrap();
        let kinds = ["indirect header", "indirect pointer", "directory entry", "group"];
        for kind in kinds {
            let has_some = survey.structures.iter().any(|structure| structure.kind == kind);
            assert!(has_some, "{}: nothing of the kind {kind}", base.name);
        }
        for seed in 0..80 {
            let mut image = survey.image.clone();
            let damage = if seed % 4 == 0 { Damage::of_bytes } else { Damage::of_a_field };
            let damage = damage(&survey, seed);
            damage.apply_to_bytes(&mut image);
            let plan = planned(&image);
            let left: Vec<_> = plan.left.findings.iter().map(|problem| format!("{problem:?}")).collect();
            assert!(plan.is_clean(), "{} with damage {seed} ({}): {left:#?}", base.name, damage.label);
            for (offset, changed) in &plan.changes {
                image[*offset as usize..*offset as usize + changed.len()].copy_from_slice(changed);
            }
            assert!(planned(&image).changes.is_empty(), "{} with damage {seed}: not done", base.name);
            mended += u32::from(!plan.changes.is_empty());
            // What was mended can be used.
            let (device, mut fs) = mounted(image);
            let root = fs.root();
            fs.mkdir(root, b"after the repair", OF, now()).unwrap();
            fs.unmount(now()).unwrap();
            let used = planned(&device.bytes());
            assert!(used.changes.is_empty(), "{} with damage {seed}: not sound when used", base.name);
        }
    }
    assert!(mended > 80, "only {mended} of 160 damages were any");
}
