// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a check costs on the simulated disk: our own reads through it, e2fsck's requests are recorded and served again. What both compute counts.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fsmend_device::{Device, FileDevice};
use fsmend_disksim::{Disk, HddDescription, Ticket};
use fsmend_engine::options::CheckOptions;
use fsmend_engine::report::CheckReport;
use fsmend_engine::{Progress, Refused};
use fsmend_ext_check::run::check;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use fsmend_testkit::within::{Manner, options};

use zerocopy::FromBytes;

use super::computing::Computing;
use super::record;
use super::steps::{PASSES, bytes_of_passes, replay};

/// Blocks of a file that its inode points to itself.
const DIRECT_BLOCKS: u64 = 12;

/// What a checker asked of the disk, and how long that took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Seconds in which the heads moved, in which they waited for the platter, and in which bytes passed them.
    pub heads: [f64; 3],
    /// How long the same blocks would take, if all of them were known at once.
    pub at_once: Option<f64>,
    /// How long it took, by the disk's clock.
    pub seconds: f64,
    /// Seconds of them for which it computed.
    pub computing: f64,
    /// What was read.
    pub megabytes: f64,
    /// In so many requests.
    pub requests: u64,
}

impl Cost {
    fn of(disk: &Disk, computing: f64) -> Self {
        let statistics = disk.statistics();
        let heads = [statistics.seeking, statistics.turning, statistics.transferring];
        Cost {
            heads: heads.map(|time| time.as_secs_f64()),
            at_once: None,
            seconds: disk.now().as_secs_f64(),
            computing,
            megabytes: statistics.bytes_read as f64 / 1e6,
            requests: statistics.reads,
        }
    }

    /// Megabytes in a second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.megabytes / self.seconds } else { 0.0 }
    }
}

/// What a checker has to find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing.
    Sound,
    /// Something.
    Damaged,
}

/// Our checker, with one worker, on a sound image.
pub fn ours(image: &Path) -> io::Result<Cost> {
    ours_on(image, State::Sound)
}

/// Our checker, with one worker.
pub fn ours_on(image: &Path, state: State) -> io::Result<Cost> {
    ours_with(image, state, check)
}

/// A check of one of our families.
type Check = fn(&Arc<dyn Device>, &CheckOptions, &Progress, &AtomicBool) -> Result<CheckReport, Refused>;

/// Our checker of any family, with one worker.
pub fn ours_with(image: &Path, state: State, check: Check) -> io::Result<Cost> {
    let disk = Arc::new(Computing::new(image, HddDescription::default())?);
    let device: Arc<dyn Device> = Arc::clone(&disk) as Arc<dyn Device>;
    let mut how = options(Manner::default());
    how.memory = 1 << 30;
    let report = check(&device, &how, &Progress::new(), &AtomicBool::new(false));
    let (model, computing) = disk.end();
    let at_once = Some(in_one_sweep(&disk.stretches()));
    let report = report.map_err(|refused| io::Error::other(refused.refusal.message))?;
    if report.findings.is_damaged() != (state == State::Damaged) {
        return Err(io::Error::other(format!("our checker should have found the image {state:?}")));
    }
    Ok(Cost { at_once, ..Cost::of(&model, computing) })
}

/// Commands that a sweep keeps before the disk: more than its queue holds, and few enough that none waits until the disk loses its patience.
const SWEEP_AHEAD: usize = 256;

/// Seconds that the disk takes for these stretches, asked for in its order, with its queue full from the first to the last.
fn in_one_sweep(stretches: &[(u64, u64)]) -> f64 {
    let mut disk = Disk::new(HddDescription::default());
    let pieces = stretches
        .iter()
        .flat_map(|(start, end)| (*start..*end).step_by(PIECE as usize).map(|at| (at, PIECE.min(*end - at))));
    let mut asked = VecDeque::new();
    for (at, len) in pieces {
        asked.push_back(disk.ask(at, len));
        if asked.len() > SWEEP_AHEAD {
            asked.pop_front().into_iter().for_each(|first| disk.wait(first));
        }
    }
    asked.into_iter().for_each(|ticket| disk.wait(ticket));
    disk.now().as_secs_f64()
}

/// e2fsck on a sound image.
pub fn e2fsck(image: &Path) -> io::Result<(Cost, [f64; PASSES])> {
    e2fsck_on(image, State::Sound)
}

/// e2fsck, recorded, on a disk of the same kind: the whole, and the seconds of each of its passes (what comes before the first one counts to it).
pub fn e2fsck_on(image: &Path, state: State) -> io::Result<(Cost, [f64; PASSES])> {
    let mut disk = Disk::new(HddDescription::default());
    let times = replay(&record::steps_of_e2fsck(image, state)?, &mut disk);
    Ok((Cost::of(&disk, times.computing), times.passes))
}

/// What e2fsck does in each pass on the simulated disk: seconds, and bytes that it reads.
pub fn passes_of_e2fsck(image: &Path) -> io::Result<([f64; PASSES], [u64; PASSES])> {
    let steps = record::steps_of_e2fsck(image, State::Sound)?;
    let times = replay(&steps, &mut Disk::new(HddDescription::default()));
    Ok((times.passes, bytes_of_passes(&steps)))
}

/// Megabytes in a second that the disk reads in a row, over the part that a file system of this size takes.
pub fn bandwidth(gib: u64) -> f64 {
    let mut disk = Disk::new(HddDescription::default());
    let stretch = (gib << 30) / 64;
    let (mut time, mut bytes) = (Duration::ZERO, 0);
    for number in 0..64 {
        disk.read(number * stretch, 1 << 20);
        let before = disk.now();
        (1..17).for_each(|at| disk.read(number * stretch + (at << 20), 1 << 20));
        time += disk.now() - before;
        bytes += 16 << 20;
    }
    f64::from(bytes) / time.as_secs_f64() / 1e6
}

/// Groups that are tried before a check of a rext3 is foretold.
const GROUPS_TRIED: u64 = 16;
/// What our checker is ahead of itself, in groups: with inode tables, and with regions.
const AHEAD: (u64, u64) = (16, 8);
/// Longest request of an operating system.
const PIECE: u64 = 512 << 10;

/// Seconds that a check of a rext3 will take, from nothing but its superblock and a trial of the disk: it reads the tables of some groups, and as much of their regions
/// as the superblock's counts make them hold, in the order in which our checker does. Nothing else of the image is looked at.
pub fn foretold(image: &Path) -> io::Result<f64> {
    let device = FileDevice::open(image)?;
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes).map_err(io::Error::other)?;
    let raw = RawSuperblock::read_from_bytes(&bytes).map_err(|_| io::Error::other("no superblock"))?;
    let geometry = Geometry::from_superblock(&raw, device.len())
        .map_err(|unsound| io::Error::other(unsound.to_string()))?;
    let groups = u64::from(geometry.group_count);
    let block = u64::from(geometry.block_size);
    let group = u64::from(geometry.blocks_per_group) * block;
    let table = (2 + u64::from(geometry.inode_table_blocks())) * block;
    let region = in_regions(&raw, &geometry).div_ceil(groups).min(geometry.region_blocks.into()) * block;

    let mut disk = Disk::new(HddDescription::default());
    // Superblock, a copy of it, the inode of the journal, its map, its superblock.
    for start in [0, group, table, table + block, table + u64::from(geometry.region_blocks) * block] {
        disk.read(start, block);
    }
    let begun = disk.now();
    let tried = groups.min(GROUPS_TRIED);
    let mut asked: [Vec<Vec<Ticket>>; 2] = Default::default();
    for now in 0..tried {
        for (part, (ahead, start, len)) in
            [(AHEAD.0, 0, table), (AHEAD.1, table, region)].into_iter().enumerate()
        {
            let from = asked[part].len() as u64;
            for at in from..(now + ahead + 1).min(tried) {
                let ask = |piece: u64| disk.ask(at * group + start + piece, PIECE.min(len - piece));
                asked[part].push((0..len).step_by(PIECE as usize).map(ask).collect());
            }
        }
        for part in &asked {
            part[now as usize].iter().for_each(|ticket| disk.wait(*ticket));
        }
    }
    let scan = (disk.now() - begun).as_secs_f64() / tried as f64 * groups as f64;
    Ok(begun.as_secs_f64() + scan)
}

/// Indirect and directory blocks that a file system holds by the counts of its superblock: one for each inode in use, if its files are long enough on
/// average to need a map, and one more for as many blocks as a map block maps.
fn in_regions(superblock: &RawSuperblock, geometry: &Geometry) -> u64 {
    let inodes = geometry.inodes_count.saturating_sub(superblock.s_free_inodes_count.get());
    let blocks = geometry.blocks_count.saturating_sub(superblock.free_blocks_count());
    let metadata = u64::from(geometry.group_count) * u64::from(geometry.inode_table_blocks());
    let data = blocks.saturating_sub(metadata);
    let with_map = u64::from(inodes).min(data / DIRECT_BLOCKS);
    with_map + data / u64::from(geometry.pointers_per_block()).max(1)
}
