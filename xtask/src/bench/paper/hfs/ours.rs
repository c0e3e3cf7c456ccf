// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the paper did not measure: logs and file systems that are nearly full, fsync, mounting after a crash, checks, and disks without heads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fsmend_device::Device;
use fsmend_disksim::{Drive, HddDescription, MemoryDescription, Timed};
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_lab::postmark::{self, Order, PostmarkOptions};
use fsmend_lab::trees::{Mix, MixOptions};
use fsmend_testkit::within::{Manner, options};
use fsmend_vfs::{Permissions, Result as Done};

use super::contestants::{CONTESTANTS, Ground, Kind, LFS_REST, LOG_SHARE, PAPER_MEMORY, mount, on_two_disks};
use super::tables::postmark_options;
use crate::bench::paper::figure::Table;

const SMALL_DISK: u64 = 4 << 30;
/// Has a log of 1.2 GiB, as the files take 0.7.
const CHECK_DISK: u64 = 8 << 30;
const DRIVES: [&str; 3] = ["barracuda-iv", "ssd", "nvme"];
/// Today's systems join what touches, and empty the cache of the disk.
const SAFE_MEMORY: MemoryDescription = MemoryDescription { joins: true, flushes: true, ..PAPER_MEMORY };

fn drive(name: &str) -> io::Result<Drive> {
    Drive::named(name).ok_or_else(|| io::Error::other(format!("there is no disk {name}")))
}

/// What the names of LFS mode begin with.
const LFS: &str = "LFS mode";

fn name_of(kind: Kind) -> &'static str {
    CONTESTANTS.iter().find(|contestant| contestant.kind == kind).map_or("", |contestant| contestant.name)
}

/// Operations on a file system that is as full as wanted.
const OPERATIONS_WHEN_FULL: u64 = 10_000;

/// What they cost.
struct WhenFull {
    seconds: f64,
    requests: u64,
    /// Operations for which there was no room, those that filled it included.
    refused: u64,
}

/// Fills a file system with a mix, and goes on with it.
fn when_full(kind: Kind, filling: MixOptions) -> io::Result<WhenFull> {
    // In LFS mode, the log is the disk.
    let bytes = if name_of(kind).starts_with(LFS) { SMALL_DISK / LOG_SHARE + LFS_REST } else { SMALL_DISK };
    let ground = Ground::with(kind, HddDescription::barracuda_ata_iv().into(), PAPER_MEMORY, bytes)?;
    let (result, _) = ground.work(|bench, _| {
        let mut mix = Mix::new(bench, filling);
        mix.fill(bench, 2_000_000)?;
        let before = ground.count();
        mix.run(bench, OPERATIONS_WHEN_FULL)?;
        let cost = ground.count().since(&before);
        let refused = mix.report().refused;
        Ok(WhenFull { seconds: cost.seconds, requests: cost.requests(), refused })
    })?;
    let full = filling.fill_max * 100.0;
    println!("{}, {full:.0} % full: {:.1} s, {} refused", name_of(kind), result.seconds, result.refused);
    Ok(result)
}

/// What the ratios of a table are against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// The first file system, as full.
    FirstKind,
    /// The same file system, least full.
    LeastFull,
}

/// Seconds with ratios, and requests, one row for each level.
fn by_level(levels: &[f64], kinds: &[Kind], base: Base, filling: MixOptions) -> io::Result<String> {
    let names = kinds.iter().map(|kind| name_of(*kind));
    let headings = |first| std::iter::once(first).chain(names.clone()).collect::<Vec<&str>>();
    let (mut times, mut requests) = (Table::new(&headings("full")), Table::new(&headings("full, requests")));
    let mut least_full: Vec<f64> = Vec::new();
    for level in levels {
        let percent = format!("{:.0} %", level * 100.0);
        let (mut row, mut counts) = (vec![percent.clone()], vec![percent]);
        let mut first = None;
        for (column, kind) in kinds.iter().enumerate() {
            let cost = when_full(*kind, MixOptions { fill_max: *level, ..filling })?;
            if least_full.len() <= column {
                least_full.push(cost.seconds);
            }
            let against = match base {
                Base::FirstKind => *first.get_or_insert(cost.seconds),
                Base::LeastFull => least_full[column],
            };
            let refused =
                if cost.refused > 0 { format!(", {} refused", cost.refused) } else { String::new() };
            row.push(format!("{:.1} s (**{:.2}**){refused}", cost.seconds, cost.seconds / against));
            counts.push(cost.requests.to_string());
        }
        times.push(row);
        requests.push(counts);
    }
    Ok(format!("{}\n{}", times.text(), requests.text()))
}

/// Who is filled.
const FILLED: [Kind; 5] = [Kind::Ufs, Kind::UfsOrdered, Kind::Ext3, Kind::Hybrid, Kind::HybridOurs];

/// Bytes that are free on each of them when it is new: the least of them.
fn least_room() -> io::Result<u64> {
    let mut least = u64::MAX;
    for kind in FILLED {
        let ground = Ground::with(kind, HddDescription::barracuda_ata_iv().into(), PAPER_MEMORY, SMALL_DISK)?;
        let (room, _) = ground.work(|bench, _| {
            let space = bench.fs.statfs()?;
            Ok(space.blocks_free.saturating_mul(u64::from(space.block_size)))
        })?;
        println!("{}: {} MiB free", name_of(kind), room >> 20);
        least = least.min(room);
    }
    Ok(least)
}

/// The aging of Table 4 on file systems that are this full: the same operations on each.
pub fn by_fill() -> io::Result<String> {
    let filling = MixOptions { room: Some(least_room()?), ..MixOptions::default() };
    by_level(&[0.5, 0.7, 0.8, 0.9], &FILLED, Base::FirstKind, filling)
}

/// Small files, made and deleted at random, in a log that is this full.
pub fn by_log() -> io::Result<String> {
    let kinds = [Kind::Hybrid, Kind::HybridOurs, Kind::LfsGreedy, Kind::LfsCostBenefit];
    let filling =
        MixOptions { lens: Some((500, 10_000)), room: Some(SMALL_DISK / LOG_SHARE), ..MixOptions::default() };
    by_level(&[0.5, 0.6, 0.7, 0.8, 0.9, 0.95], &kinds, Base::LeastFull, filling)
}

/// How long a file of 4 KiB takes to be made, written and synchronised.
pub fn fsync() -> io::Result<String> {
    const FILES: u32 = 500;
    let mut table = Table::new(&["file system", "hard disk, ms", "SSD, ms", "NVMe, ms"]);
    for kind in [Kind::Hybrid, Kind::HybridOurs, Kind::Ext3, Kind::Ext4] {
        let mut cells = vec![name_of(kind).to_owned()];
        for name in DRIVES {
            let ground = Ground::with(kind, drive(name)?, SAFE_MEMORY, SMALL_DISK)?;
            let (_, cost) = ground.work(|bench, _| {
                let of = Permissions { mode: 0o644, uid: 0, gid: 0 };
                for number in 0..FILES {
                    let now = bench.tick();
                    let root = bench.fs.root();
                    let file = bench.fs.create(root, format!("{number}").as_bytes(), of, now)?.inode;
                    bench.fs.write(file, 0, &[1; 4096], now)?;
                    bench.fs.fsync(file, false, now)?;
                }
                Ok(())
            })?;
            cells.push(format!("{:.2}", cost.seconds * 1e3 / f64::from(FILES)));
        }
        table.push(cells);
    }
    Ok(table.text())
}

/// How long mounting takes when the power failed while files were made, and a check of the same tree when it was unmounted.
pub fn recovery_and_check(files: u32) -> io::Result<String> {
    let mut table = Table::new(&[
        "file system",
        "disk",
        "mount after a crash",
        "requests read",
        "check, cold",
        "MiB read",
    ]);
    for kind in [Kind::HybridOurs, Kind::Ext4] {
        for name in DRIVES {
            let ground = Ground::with(kind, drive(name)?, SAFE_MEMORY, CHECK_DISK)?;
            ground.work(|bench, _| fill_with(bench, files))?;
            let (check, bytes) = check_of(kind, &ground, name)?;
            ground.abandon(|bench, _| fill_with(bench, files / 10))?;
            let before = ground.count();
            let driver = mount(kind, Arc::new(ground.device.clone()))?;
            let cost = ground.count().since(&before);
            drop(driver);
            table.push(vec![
                name_of(kind).to_owned(),
                name.to_owned(),
                format!("{:.2} s", cost.seconds),
                cost.reads.to_string(),
                format!("{:.2} s", check.as_secs_f64()),
                format!("{:.1}", bytes as f64 / f64::from(1 << 20)),
            ]);
        }
    }
    Ok(table.text())
}

/// Small files in folders of a hundred.
fn fill_with(bench: &mut fsmend_lab::Bench<'_>, files: u32) -> Done<()> {
    let root = bench.fs.root();
    let mut folder = root;
    // Names of an earlier filling are taken.
    let stamp = bench.fs.statfs()?.inodes_free;
    for number in 0..files {
        if number % 100 == 0 {
            folder = bench.make_folder(root, &format!("folder-{stamp}-{number}"))?;
        }
        let file = bench.make_file(folder, &format!("file-{number}"))?;
        let len = bench.between(500, 10_000);
        bench.write(file, 0, len)?;
        bench.rest()?;
    }
    bench.sync()
}

/// Time on the disk, and bytes read.
fn check_of(kind: Kind, ground: &Ground, drive_name: &str) -> io::Result<(Duration, u64)> {
    let timed = Timed::new(Arc::clone(ground.device.inner()), drive(drive_name)?);
    let device: Arc<dyn Device> = Arc::new(timed.clone());
    let how = options(Manner::default());
    let (progress, cancel) = (Progress::new(), AtomicBool::new(false));
    let report = match kind {
        Kind::Ext3 | Kind::Ext4 => fsmend_ext_check::run::check(&device, &how, &progress, &cancel),
        Kind::Ufs => Checker(fsmend_ufs_check::Ufs).check(&device, &how, &progress, &cancel),
        _ => Checker(fsmend_hybridfs_check::Hybrid).check(&device, &how, &progress, &cancel),
    };
    let report = report.map_err(|refused| io::Error::other(refused.refusal.message))?;
    if report.findings.is_damaged() {
        return Err(io::Error::other("the check finds damage"));
    }
    let disk = timed.disk();
    Ok((disk.now(), disk.statistics().bytes_read))
}

/// PostMark with names or final deletions that are not in the order of making.
pub fn order() -> io::Result<String> {
    let mut table = Table::new(&[
        "file system",
        "names",
        "deletions",
        "50,000 files",
        "requests",
        "written for one byte",
    ]);
    for kind in [Kind::Hybrid, Kind::Ufs] {
        for (names, deletions) in [(true, true), (false, true), (true, false), (false, false)] {
            let ground = Ground::new(kind)?;
            let options =
                PostmarkOptions { in_order: Order { names, deletions }, ..postmark_options(50_000) };
            let (report, cost) = ground.work(|bench, clock| postmark::run(bench, clock, &options))?;
            let told = |is_in_order: bool| if is_in_order { "in order" } else { "at random" }.to_owned();
            let cells = vec![
                name_of(kind).to_owned(),
                told(names),
                told(deletions),
                format!("{:.1} s", cost.seconds),
                cost.text(),
                format!("{:.2}", cost.bytes_written as f64 / report.bytes_written.max(1) as f64),
            ];
            println!("{}", cells.join(", "));
            table.push(cells);
        }
    }
    Ok(table.text())
}

/// Table 4 with the log on a second disk.
pub fn two_disks() -> io::Result<String> {
    let mut table = Table::new(&[
        "operations",
        "hybridfs, one disk",
        "two disks",
        "ext4, one disk",
        "hybridfs against ext4: one disk",
        "two disks",
        "requests",
    ]);
    for operations in [10_000, 20_000] {
        let one = |kind: Kind| -> io::Result<f64> {
            let ground = Ground::new(kind)?;
            let (_, cost) =
                ground.work(|bench, _| Mix::new(bench, MixOptions::default()).run(bench, operations))?;
            Ok(cost.seconds)
        };
        let (hybrid, ext4) = (one(Kind::Hybrid)?, one(Kind::Ext4)?);
        let (two, requests) =
            on_two_disks(|bench| Mix::new(bench, MixOptions::default()).run(bench, operations))?;
        println!("{operations}: {hybrid:.1} s, {two:.1} s, {ext4:.1} s");
        table.push(vec![
            operations.to_string(),
            format!("{hybrid:.1} s"),
            format!("{two:.1} s"),
            format!("{ext4:.1} s"),
            format!("{:.2}", hybrid / ext4),
            format!("{:.2}", two / ext4),
            requests.to_string(),
        ]);
    }
    Ok(table.text())
}

/// PostMark on disks without heads, and with today's memory: requests that touch are joined, the cache of the disk is emptied.
pub fn drives() -> io::Result<String> {
    let mut table = Table::new(&["file system", "hard disk, s", "SSD, s", "NVMe, s"]);
    for contestant in &CONTESTANTS {
        let mut cells = vec![contestant.name.to_owned()];
        for name in DRIVES {
            let ground = Ground::with(contestant.kind, drive(name)?, SAFE_MEMORY, SMALL_DISK)?;
            let (_, cost) =
                ground.work(|bench, clock| postmark::run(bench, clock, &postmark_options(50_000)))?;
            cells.push(format!("{:.1}", cost.seconds));
        }
        println!("{}", cells.join(", "));
        table.push(cells);
    }
    Ok(table.text())
}
