// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench paper ffs`: the article "Improving the Performance of fsck in FreeBSD", and Figures 20 and 21 of the paper on ffsck, on a simulated hard disk: FreeBSD's own fsck_ffs, recorded and served
//! again, and ours. `FSMEND_UFS_PEERS` names the folder of fsck_ffs.
//!
//! File systems are made and filled by our own driver from one seed: blocks are claimed, data is not written, so that images hold metadata alone. The fsck_ffs of today always keeps cylinder
//! groups in memory; that of the article's baseline is the same record with one more read of each group at its end, where pass 5 begins.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fsmend_device::{Device, FileDevice, WritableFile};
use fsmend_disksim::{Disk, HddDescription};
use fsmend_engine::Findings;
use fsmend_engine::checker::Checker;
use fsmend_engine::options::SuperblockOptions;
use fsmend_lab::Bench;
use fsmend_lab::aging::{Aging, AgingOptions, Filling};
use fsmend_ufs_check::Ufs as Family;
use fsmend_ufs_check::opening::{Layout, find_layout};
use fsmend_ufs_driver::mkfs::{Options, mkfs};
use fsmend_ufs_driver::policy::{FfsPolicy, MetaspacePolicy};
use fsmend_ufs_driver::{MountOptions, Ufs};
use fsmend_ufs_format::geometry::DIRECT;
use fsmend_ufs_format::inode::{Inode, mode};
use fsmend_ufs_format::{Geometry, Version};
use fsmend_vfs::{FileSystem, Time};

use super::checkers::{self, Cost, State};
use super::figure::Table;
use super::images::{SEED, failed};
use super::record;
use super::steps::{Deed, Step};
use crate::bench::{default_cache, needs, number};
use crate::workspace;

/// Size if nothing else is said, in GiB; the paper's file system had 1.3 TB.
const GIB: u64 = 64;
/// The article's blocks and fragments.
const BLOCK: u64 = 16 << 10;
const FRAGMENT: u64 = 2 << 10;
const UTILISATION: f64 = 0.75;
/// Largest file of each filling, and the largest piece by which one grows.
const LARGE: (u64, u64) = (1 << 30, 512 << 20);
const SMALL: (u64, u64) = (256 << 10, 128 << 10);

/// A step of the article.
struct Variant {
    name: &'static str,
    /// Seconds in the article.
    article: f64,
    place: Place,
    /// Whether fsck keeps cylinder groups.
    keeps_groups: bool,
}

/// Where metadata goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Stock,
    IndirectBlocks,
    Directories,
}

const VARIANTS: [Variant; 4] = [
    Variant { name: "stock", article: 284.0, place: Place::Stock, keeps_groups: false },
    Variant {
        name: "indirect blocks in the area",
        article: 135.0,
        place: Place::IndirectBlocks,
        keeps_groups: false,
    },
    Variant { name: "and directories", article: 134.0, place: Place::Directories, keeps_groups: false },
    Variant {
        name: "and cylinder groups kept",
        article: 84.0,
        place: Place::Directories,
        keeps_groups: true,
    },
];

/// A tree that file systems are filled with.
struct Tree {
    name: &'static str,
    /// Size of the file system.
    gib: u64,
    file_max: u64,
    piece_max: u64,
    folder_bytes: u64,
    folders: u32,
}

/// Kinds of blocks, as Figure 21 has them.
const KINDS: [&str; 7] = [
    "superblock, summary",
    "cylinder groups",
    "inodes",
    "single indirect",
    "double indirect",
    "triple indirect",
    "directories",
];
const GROUPS: usize = 1;
const INODES: usize = 2;
const DIRECTORIES: usize = 6;

/// What fsck_ffs took on the simulated disk.
#[derive(Default)]
struct Times {
    /// Seconds of waiting for each kind of block.
    kinds: [f64; KINDS.len()],
    requests: [u64; KINDS.len()],
    /// Seconds of waiting in pass 5.
    last_pass: f64,
    /// All of it, with computing.
    seconds: f64,
    computing: f64,
}

/// What was measured of one variant.
struct Row {
    variant: &'static Variant,
    peer: Times,
    ours: Cost,
}

/// Runs `bench paper ffs [--gib N] [--cache FOLDER]`.
pub fn run(words: &[&str], options: &[&str]) -> io::Result<()> {
    let (mut gib, mut cache) = (GIB, None);
    for pair in options.chunks(2) {
        match pair {
            ["--gib", count] => gib = (number(count)? as u64).max(1),
            ["--cache", folder] => cache = Some(PathBuf::from(folder)),
            other => return Err(io::Error::other(format!("what is {}?", other.join(" ")))),
        }
    }
    if cfg!(debug_assertions) {
        return super::optimised(words);
    }
    let peer = std::env::var_os("FSMEND_UFS_PEERS")
        .map(|folder| PathBuf::from(folder).join("fsck_ffs"))
        .filter(|program| program.exists())
        .ok_or_else(|| io::Error::other("FSMEND_UFS_PEERS does not name the folder of fsck_ffs"))?;
    let folder = cache.map_or_else(default_cache, Ok)?;
    fs::create_dir_all(&folder)?;
    needs::superuser("to record what fsck_ffs reads, and for loop devices")?;
    needs::programs(&["losetup", "mount", "umount"])?;
    let image = folder.join(format!("paper-ffs-{}.img", std::process::id()));
    // Many files in a large file system take long, and show nothing else.
    let small = (gib / 8).max(1);
    let trees = [
        Tree {
            name: "large files (up to 1 GiB)",
            gib,
            file_max: LARGE.0,
            piece_max: LARGE.1,
            folder_bytes: LARGE.0 * 4,
            folders: gib as u32 / 8,
        },
        Tree {
            name: "files of up to 256 KiB",
            gib: small,
            file_max: SMALL.0,
            piece_max: SMALL.1,
            folder_bytes: SMALL.0 * 32,
            folders: small as u32 * 64,
        },
        Tree {
            // Behind the 12 blocks that the inode points to, up to all that one indirect block does.
            name: "files of up to 2060 blocks, the reach of one indirect block",
            gib: small,
            file_max: (DIRECT + BLOCK / 8) * BLOCK,
            piece_max: DIRECT * BLOCK,
            folder_bytes: DIRECT * BLOCK * 100,
            folders: small as u32 * 4,
        },
    ];
    let mut text = head(gib);
    for tree in &trees {
        let rows: io::Result<Vec<Row>> =
            VARIANTS.iter().map(|variant| measure(&peer, &image, tree, variant)).collect();
        let rows = rows.inspect_err(|_| {
            let _ = fs::remove_file(&image);
        })?;
        text.push_str(&section(tree, &rows));
    }
    fs::remove_file(&image)?;
    let file = workspace()?.join("docs/bench/paper-ffs.md");
    fs::write(&file, text)?;
    println!("{}", file.display());
    Ok(())
}

fn measure(peer: &Path, image: &Path, tree: &Tree, variant: &'static Variant) -> io::Result<Row> {
    make(image, tree, variant.place)?;
    let kinds = Kinds::of(image)?;
    let steps = record::steps_of(peer, image, 0)?;
    let row = Row {
        variant,
        peer: replay(&steps, &kinds, variant.keeps_groups),
        ours: checkers::ours_with(image, State::Sound, |device, options, progress, cancel| {
            Checker(Family).check(device, options, progress, cancel)
        })?,
    };
    println!(
        "{}, {}: on the simulated disk fsck_ffs {:.2} s, fsmend {:.2} s",
        tree.name, variant.name, row.peer.seconds, row.ours.seconds
    );
    Ok(row)
}

/// An image with the tree.
fn make(image: &Path, tree: &Tree, place: Place) -> io::Result<()> {
    // What another variant left there is no part of this one.
    File::create(image)?.set_len(tree.gib << 30)?;
    let now = Time::at(1_000_000_000);
    let device = Arc::new(WritableFile::open(image, false)?);
    let shape = Options {
        block_size: BLOCK,
        fragment_size: Some(FRAGMENT),
        metadata_area: (place == Place::Stock).then_some(0),
        ..Options::new(Version::Ufs2, [2013, 4], now)
    };
    mkfs(device.clone(), &shape).map_err(io::Error::other)?;
    let layout = layout_of(&*device)?;
    let (geometry, superblock) = (&layout.geometry, &layout.superblock);
    let options = MountOptions::new(now);
    let area = MetaspacePolicy::new(geometry, superblock);
    let options = match place {
        Place::Stock => options.with_policy(FfsPolicy::new(geometry, superblock)),
        Place::IndirectBlocks => options.with_policy(area.without_directories()),
        Place::Directories => options.with_policy(area),
    };
    let mut driver = Ufs::mount(device, options).map_err(|error| io::Error::other(format!("{error:?}")))?;
    let mut bench = Bench::new(&mut driver, SEED);
    let wanted = AgingOptions {
        folders: tree.folders.max(1),
        folder_bytes: tree.folder_bytes,
        file_blocks_max: tree.file_max / FRAGMENT,
        append_blocks_max: tree.piece_max / FRAGMENT,
        utilisation: UTILISATION,
        operations_per_folder: 0,
        filling: Filling::Claimed,
    };
    let mut aging = Aging::begin(&mut bench, wanted).map_err(failed)?;
    aging.fill().map_err(failed)?;
    aging.finish().map_err(failed)?;
    let end = bench.tick();
    driver.unmount(end).map_err(failed)
}

fn layout_of(device: &dyn Device) -> io::Result<Layout> {
    find_layout(device, SuperblockOptions::default(), 0, &mut Findings::new())
        .map_err(|refusal| io::Error::other(refusal.to_string()))
}

/// Of which kind each block of metadata is.
struct Kinds {
    geometry: Arc<Geometry>,
    /// First byte of indirect and directory blocks.
    blocks: BTreeMap<u64, usize>,
}

impl Kinds {
    fn of(image: &Path) -> io::Result<Kinds> {
        let device = FileDevice::open(image)?;
        let layout = layout_of(&device)?;
        let mut kinds = Kinds { geometry: Arc::clone(&layout.geometry), blocks: BTreeMap::new() };
        let geometry = Arc::clone(&layout.geometry);
        let mut record = vec![0; geometry.version.inode_size()];
        for (group, count) in (0..).zip(layout.initialised.iter()) {
            for index in 0..*count {
                let Some(place) = geometry.inode_place(group * geometry.group_inodes + index) else {
                    continue;
                };
                device.read_at(place, &mut record).map_err(io::Error::other)?;
                kinds.note(&device, &Inode::new(&record, geometry.order, geometry.version))?;
            }
        }
        Ok(kinds)
    }

    fn note(&mut self, device: &FileDevice, inode: &Inode<&Vec<u8>>) -> io::Result<()> {
        let is_directory = inode.file_type() == mode::DIRECTORY;
        if !is_directory && inode.file_type() != mode::REGULAR {
            return Ok(());
        }
        let pointers = inode.pointers();
        let (direct, indirect) = pointers.split_at(DIRECT as usize);
        let geometry = Arc::clone(&self.geometry);
        if is_directory {
            for fragment in direct.iter().filter(|fragment| **fragment != 0) {
                self.blocks.insert(geometry.place(*fragment), DIRECTORIES);
            }
        }
        for (level, fragment) in indirect.iter().enumerate().filter(|(_, fragment)| **fragment != 0) {
            self.indirect(device, *fragment, (level, INODES + 1 + level))?;
        }
        Ok(())
    }

    /// An indirect block and those below it, which count to the same kind.
    fn indirect(
        &mut self,
        device: &FileDevice,
        fragment: u64,
        (level, kind): (usize, usize),
    ) -> io::Result<()> {
        let place = self.geometry.place(fragment);
        self.blocks.insert(place, kind);
        if level == 0 {
            return Ok(());
        }
        let mut bytes = vec![0; BLOCK as usize];
        device.read_at(place, &mut bytes).map_err(io::Error::other)?;
        let order = self.geometry.order;
        for to in bytes.chunks_exact(8).map(|stored| order.u64(stored, 0)).filter(|to| *to != 0) {
            self.indirect(device, to, (level - 1, kind))?;
        }
        Ok(())
    }

    fn kind_of(&self, place: u64) -> usize {
        if let Some((_, kind)) =
            self.blocks.range(..=place).next_back().filter(|(start, _)| place < **start + BLOCK)
        {
            return *kind;
        }
        let geometry = &self.geometry;
        let group = geometry.group_of(place / FRAGMENT);
        let (start, table) =
            (geometry.group_place(group), geometry.place(geometry.structures(group) + geometry.inodes));
        match place {
            _ if (start..start + BLOCK).contains(&place) => GROUPS,
            _ if (table..geometry.place(geometry.structures(group) + geometry.data)).contains(&place) => {
                INODES
            }
            _ => 0,
        }
    }
}

/// Does it again on a disk, with the groups read once more at the end where they are not kept.
fn replay(steps: &[Step], kinds: &Kinds, keeps_groups: bool) -> Times {
    let mut disk = Disk::new(HddDescription::default());
    let mut times = Times::default();
    let mut asked = Vec::new();
    for step in steps {
        disk.spend(step.computing);
        times.computing += step.computing.as_secs_f64();
        match step.deed {
            Deed::Ask(offset, len) => {
                times.requests[kinds.kind_of(offset)] += 1;
                asked.push((offset, offset.saturating_add(len), disk.ask(offset, len)));
            }
            Deed::Need(offset, len) => {
                let before = disk.now();
                let end = offset.saturating_add(len);
                let is_needed = |request: &(u64, u64, _)| request.0 < end && offset < request.1;
                asked.iter().filter(|request| is_needed(request)).for_each(|request| disk.wait(request.2));
                asked.retain(|request| !is_needed(request));
                times.kinds[kinds.kind_of(offset)] += (disk.now() - before).as_secs_f64();
            }
            Deed::Pass(_) | Deed::End => {}
        }
    }
    if !keeps_groups {
        for group in 0..kinds.geometry.groups {
            let before: Duration = disk.now();
            disk.read(kinds.geometry.group_place(group), BLOCK);
            times.last_pass += (disk.now() - before).as_secs_f64();
            times.requests[GROUPS] += 1;
        }
        times.kinds[GROUPS] += times.last_pass;
    }
    times.seconds = disk.now().as_secs_f64();
    times
}

fn head(gib: u64) -> String {
    format!(
        "# fsck in FreeBSD, on a simulated hard disk\n\n\
         Made by `cargo xtask bench paper ffs --gib {gib}`: UFS2, blocks of 16 KiB in fragments of 2 KiB, three quarters full, made and filled by our own driver (seed {SEED}); the disk is \
         `fsmend_disksim::HddDescription::barracuda_7200_12()`. FreeBSD's fsck_ffs (14) is recorded and served again with what it computes ([method.md](method.md)). It always keeps cylinder groups in memory: \
         where the article's did not, one read of each group is added at the end, where pass 5 reads them. The article: McKusick, \"Improving the Performance of fsck in FreeBSD\", 1.3 TB, other \
         files: ratios can be compared, seconds cannot.\n\n"
    )
}

fn section(tree: &Tree, rows: &[Row]) -> String {
    let mut text = format!("## {}, {} GiB\n\n", tree.name, tree.gib);
    let Some(first) = rows.first() else { return text };
    let mut table = Table::new(&[
        "layout, fsck",
        "article, s",
        "of stock",
        "fsck_ffs, s",
        "of stock",
        "fsmend, s",
        "of fsck_ffs",
    ]);
    for Row { variant, peer, ours } in rows {
        table.push(vec![
            variant.name.to_owned(),
            format!("{:.0}", variant.article),
            format!("{:.2}", variant.article / VARIANTS[0].article),
            format!("{:.2}", peer.seconds),
            format!("{:.2}", peer.seconds / first.peer.seconds),
            format!("{:.2}", ours.seconds),
            format!("{:.2}", ours.seconds / peer.seconds),
        ]);
    }
    text.push_str(&table.text());
    let _ = write!(text, "\nSeconds of fsck_ffs in each pass (Figure 20; passes 3 and 4 read nothing):\n\n");
    let mut passes = Table::new(&["layout, fsck", "pass 1", "pass 2", "pass 5", "computing"]);
    for Row { variant, peer, .. } in rows {
        let all: f64 = peer.kinds.iter().sum();
        passes.push(vec![
            variant.name.to_owned(),
            format!("{:.2}", all - peer.kinds[DIRECTORIES] - peer.last_pass),
            format!("{:.2}", peer.kinds[DIRECTORIES]),
            format!("{:.2}", peer.last_pass),
            format!("{:.2}", peer.computing),
        ]);
    }
    text.push_str(&passes.text());
    let _ = write!(text, "\nSeconds for each kind of block, and requests (Figure 21):\n\n");
    let mut headings = vec!["layout, fsck"];
    headings.extend(KINDS);
    let mut kinds = Table::new(&headings);
    for Row { variant, peer, .. } in rows {
        let cells = peer.kinds.iter().zip(peer.requests).map(|(time, count)| format!("{time:.2} ({count})"));
        kinds.push(std::iter::once(variant.name.to_owned()).chain(cells).collect());
    }
    text.push_str(&kinds.text());
    text.push('\n');
    text
}
