//! `bench paper ffsck`: the experiments of the paper on rext3 and ffsck, on a simulated hard disk, with the paper's values beside ours.
//!
//! Images are made by our own driver, filled and aged as in §3.2 (blocks are claimed, data is not written, so that they stay small). What e2fsck asks
//! of its disk is recorded by the kernel (its block layer, below the page cache) and served again by the simulated disk; our own checker reads through
//! the simulated disk itself. Times are those of the disk alone.

mod record;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, FileDevice, WritableDevice, WritableFile};
use fsmend_disksim::{Hdd, HddDescription, Timed};
use fsmend_engine::Progress;
use fsmend_ext_check::run::check;
use fsmend_ext_driver::mkfs::{Kind, Options as MkfsOptions, mkfs};
use fsmend_ext_driver::policy::MetaclusterPolicy;
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_lab::Bench;
use fsmend_lab::aging::{Aging, AgingOptions, Filling};
use fsmend_testkit::within::{Manner, options};
use fsmend_vfs::Time;

use crate::workspace;

/// Size if nothing else is said, in GiB; the paper's disk had 698.
const GIB: u64 = 32;
/// Operations per folder; the paper's Figures 3 and 11.
const AGES: [u32; 4] = [0, 20, 60, 120];
const SEED: u64 = 2013;

/// A file system that is put to the test.
struct Contestant {
    name: &'static str,
    kind: Kind,
    metacluster: bool,
}

const CONTESTANTS: [Contestant; 3] = [
    Contestant { name: "ext3", kind: Kind::Ext3, metacluster: false },
    Contestant { name: "ext3, metacluster", kind: Kind::Ext3, metacluster: true },
    Contestant { name: "ext4", kind: Kind::Ext4, metacluster: false },
];

/// What a checker asked of the disk, and how long that took.
struct Cost {
    seconds: f64,
    megabytes: f64,
    requests: u64,
}

impl Cost {
    fn of(disk: &Hdd) -> Self {
        let statistics = disk.statistics();
        Cost {
            seconds: disk.now().as_secs_f64(),
            megabytes: statistics.bytes_read as f64 / 1e6,
            requests: statistics.reads,
        }
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.megabytes / self.seconds } else { 0.0 }
    }
}

struct Row {
    contestant: &'static str,
    age: u32,
    utilisation: f64,
    e2fsck: Cost,
    fsmend: Cost,
}

/// Runs `bench paper ffsck [--gib N] [--cache FOLDER]`.
pub fn run(words: &[&str]) -> io::Result<()> {
    let (mut gib, mut cache) = (GIB, None);
    let ["ffsck", rest @ ..] = words else {
        return Err(io::Error::other("expected `bench paper ffsck`"));
    };
    for pair in rest.chunks(2) {
        match pair {
            ["--gib", number] => gib = super::number(number)? as u64,
            ["--cache", folder] => cache = Some(PathBuf::from(folder)),
            other => return Err(io::Error::other(format!("what is {}?", other.join(" ")))),
        }
    }
    let folder = cache.map_or_else(super::default_cache, Ok)?;
    fs::create_dir_all(&folder)?;
    let image = folder.join("paper-ffsck.img");
    let mut rows = Vec::new();
    for contestant in &CONTESTANTS {
        for age in AGES {
            let utilisation = make_image(&image, gib, contestant, age)?;
            let row = Row {
                contestant: contestant.name,
                age,
                utilisation,
                e2fsck: e2fsck(&image)?,
                fsmend: ours(&image)?,
            };
            println!("{}", line(&row));
            rows.push(row);
        }
    }
    fs::remove_file(&image)?;
    let file = workspace()?.join("docs/bench/paper-ffsck.md");
    fs::write(&file, text(gib, &rows))?;
    println!("{}", file.display());
    Ok(())
}

/// Makes an image of that age anew; how full it is.
fn make_image(path: &Path, gib: u64, contestant: &Contestant, age: u32) -> io::Result<f64> {
    let file = File::create(path)?;
    file.set_len(gib << 30)?;
    drop(file);
    let device: Arc<dyn WritableDevice> = Arc::new(WritableFile::open(path, false)?);
    let now = Time::at(1_000_000_000);
    let shape = MkfsOptions { blank: true, ..MkfsOptions::new(contestant.kind, *b"fsmend benchmark", now) };
    mkfs(Arc::clone(&device), &shape).map_err(io::Error::other)?;
    let mut how = MountOptions::new(now);
    if contestant.metacluster {
        // Files of this size have one map block: where it stays in line, there is nothing to gather.
        how = how.with_policy(MetaclusterPolicy { first_map_in_line: false, ..MetaclusterPolicy::default() });
    }
    let mut driver = Ext::mount(device, how).map_err(io::Error::other)?;
    let failed = |what: fsmend_vfs::Errno| io::Error::other(format!("{what:?}"));
    let mut bench = Bench::new(&mut driver, SEED);
    let wanted = AgingOptions {
        // A group of 4 KiB blocks holds 128 MiB.
        folders: (gib << 3) as u32,
        folder_bytes: 25_600_000,
        file_blocks_max: 512,
        append_blocks_max: 256,
        utilisation: 0.93,
        operations_per_folder: age,
        filling: Filling::Claimed,
    };
    let mut aging = Aging::begin(&mut bench, wanted).map_err(failed)?;
    aging.fill().map_err(failed)?;
    aging.age().map_err(failed)?;
    // Deleting and cutting have made room; the paper's images are at least 90 % full.
    aging.fill().map_err(failed)?;
    let utilisation = aging.utilisation().map_err(failed)?;
    aging.finish().map_err(failed)?;
    let end = bench.tick();
    fsmend_vfs::FileSystem::unmount(&mut driver, end).map_err(failed)?;
    Ok(utilisation)
}

/// Our checker, on the simulated disk.
fn ours(image: &Path) -> io::Result<Cost> {
    let disk = Arc::new(Timed::new(FileDevice::open(image)?, HddDescription::default()));
    let device: Arc<dyn Device> = Arc::clone(&disk) as Arc<dyn Device>;
    let mut how = options(Manner::default());
    how.memory = 1 << 30;
    let report = check(&device, &how, &Progress::new(), &AtomicBool::new(false));
    let report = report.map_err(|refused| io::Error::other(refused.refusal.message))?;
    if report.findings.is_damaged() {
        return Err(io::Error::other("the driver's image is not sound"));
    }
    Ok(Cost::of(&disk.hdd()))
}

/// e2fsck, recorded, on a disk of the same kind.
fn e2fsck(image: &Path) -> io::Result<Cost> {
    let mut disk = Hdd::new(HddDescription::default());
    for (offset, len) in record::reads_of_e2fsck(image)? {
        disk.read(offset, len);
    }
    Ok(Cost::of(&disk))
}

fn line(row: &Row) -> String {
    let Row { contestant, age, utilisation, e2fsck, fsmend } = row;
    format!(
        "| {contestant} | {age} | {:.0} % | {:.1} s | {:.1} s | **{:.1}** | {:.1} MB/s | {:.1} MB/s | {} | {} |",
        utilisation * 100.0,
        e2fsck.seconds,
        fsmend.seconds,
        e2fsck.seconds / fsmend.seconds.max(1e-9),
        e2fsck.rate(),
        fsmend.rate(),
        e2fsck.requests,
        fsmend.requests,
    )
}

fn text(gib: u64, rows: &[Row]) -> String {
    let mut text = format!(
        "# The paper on rext3 and ffsck, on a simulated hard disk\n\n\
         Made by `cargo xtask bench paper ffsck --gib {gib}`. File systems of {gib} GiB, made, filled and aged by our own driver as in §3.2 \
         (seed {SEED}); the disk is that of `fsmend_disksim::HddDescription::default()`. Times are the disk's: e2fsck's requests are recorded below the \
         kernel's page cache, one at a time, in its order; our checker reads through the simulated disk with one worker.\n\n\
         ## Speed by age (Figures 3 and 11)\n\n\
         The paper: e2fsck reaches less than 10 % of the disk's 100 MB/s on aged ext3 and hardly more on aged ext4; ffsck 61 % on rext3, whatever the age.\n\n\
         | file system | operations per folder | full | e2fsck -fn | fsmend check | times faster | e2fsck reads | fsmend reads | requests of e2fsck | of fsmend |\n\
         |---|---|---|---|---|---|---|---|---|---|\n"
    );
    for row in rows {
        let _ = writeln!(text, "{}", line(row));
    }
    text.push_str("\nWanted: three times e2fsck's speed on aged ext3 and ext4 without a new format.\n");
    text
}
