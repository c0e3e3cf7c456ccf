// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench paper ext4`: the table of the article "Fast ext4 fsck times", with e2fsck and with ours, on a simulated hard disk and on this machine; and which of
//! ext4's features gives which share of it.
//!
//! Every file system is made by mke2fs and filled by our own driver from the same seed, so that all of them hold the same tree.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fsmend_device::WritableFile;
use fsmend_lab::Bench;
use fsmend_lab::aging::{Aging, AgingOptions, Filling};
use fsmend_testkit::host::run as program;
use fsmend_vfs::FileSystem;
use serde_json::Value;

use super::checkers::{self, Cost};
use super::figure::Table;
use super::images::{EXT4, SEED, failed, mount};
use super::steps::PASSES;
use crate::bench::{check, default_cache, needs, number};
use crate::workspace;

/// Size if nothing else is said, in GiB; the article's disk had 128.
const GIB: u64 = 8;
/// How full the article's file system is, and its files' mean length in blocks, twice: lengths are drawn evenly up to it.
const UTILISATION: f64 = 0.68;
const FILE_BLOCKS_MAX: u64 = 58;
/// Bytes in a folder: 13 files, as there.
const FOLDER_BYTES: u64 = 13 * FILE_BLOCKS_MAX / 2 * 4096;
/// What e2fsck of the article took on ext3 and on ext4, in each pass: seconds, and the same of user and system time, and MB read.
const ARTICLE: [[[f64; 4]; PASSES]; 2] = [
    [
        [382.63, 18.06, 14.99, 2376.0],
        [31.76, 1.76, 2.13, 303.0],
        [0.03, 0.01, 0.0, 1.0],
        [0.2, 0.2, 0.0, 0.0],
        [9.86, 1.26, 0.22, 5.0],
    ],
    [
        [17.82, 5.52, 1.11, 233.0],
        [41.47, 2.16, 3.3, 274.0],
        [0.04, 0.02, 0.01, 1.0],
        [0.25, 0.24, 0.0, 0.0],
        [3.13, 1.85, 0.1, 5.0],
    ],
];

/// A file system that is compared.
struct Variant {
    name: &'static str,
    /// Type and features, as mke2fs takes them.
    kind: &'static str,
    features: &'static str,
    /// Whether its descriptors say how much of their inode tables was never used.
    keeps_unused: bool,
}

/// The ext4 of the article's time: checksums of groups, not of metadata.
const FEATURES: &str = "^metadata_csum,^64bit,^orphan_file,^metadata_csum_seed,uninit_bg";

const VARIANTS: [Variant; 6] = [
    Variant { name: "ext3", kind: "ext3", features: "none", keeps_unused: true },
    Variant { name: "ext4", kind: "ext4", features: "", keeps_unused: true },
    Variant { name: "ext4 without extents", kind: "ext4", features: ",^extents", keeps_unused: true },
    Variant { name: "ext4 without flex_bg", kind: "ext4", features: ",^flex_bg", keeps_unused: true },
    Variant { name: "ext4 without bg_itable_unused", kind: "ext4", features: "", keeps_unused: false },
    Variant { name: "ext4 without uninit_bg", kind: "ext4", features: ",^uninit_bg", keeps_unused: true },
];

/// What was measured on one of them.
struct Row {
    name: &'static str,
    /// e2fsck on the simulated disk: seconds and bytes.
    model: ([f64; PASSES], [u64; PASSES]),
    ours_on_model: Cost,
    /// e2fsck on this machine, in each pass: seconds, user, system, MB.
    machine: [[f64; 4]; PASSES],
    ours: Ours,
}

/// Our check on this machine.
struct Ours {
    /// Seconds, user and system time.
    times: [f64; 3],
    /// Stages with seconds, processor time, MiB.
    stages: Vec<(String, [f64; 3])>,
    files: u64,
    directories: u64,
}

/// Runs `bench paper ext4 [--gib N] [--cache FOLDER]`.
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
    let folder = cache.map_or_else(default_cache, Ok)?;
    fs::create_dir_all(&folder)?;
    super::can_record(&folder, gib)?;
    needs::programs(&["mke2fs", "debugfs", "bash"])?;
    check::build()?;
    let image = folder.join(format!("paper-ext4-{}.img", std::process::id()));
    let rows: io::Result<Vec<Row>> = VARIANTS.iter().map(|variant| measure(&image, gib, variant)).collect();
    // It may not be there, if the first thing went wrong.
    let _ = fs::remove_file(&image);
    let file = workspace()?.join("docs/bench/paper-ext4.md");
    fs::write(&file, document(gib, &rows?))?;
    println!("{}", file.display());
    Ok(())
}

fn measure(image: &Path, gib: u64, variant: &Variant) -> io::Result<Row> {
    make(image, gib, variant)?;
    let row = Row {
        name: variant.name,
        model: checkers::passes_of_e2fsck(image)?,
        ours_on_model: checkers::ours(image)?,
        machine: e2fsck_here(image)?,
        ours: ours_here(image)?,
    };
    println!(
        "{}: {} files, on the simulated disk e2fsck {:.2} s, fsmend {:.2} s",
        row.name,
        row.ours.files,
        row.model.0.iter().sum::<f64>(),
        row.ours_on_model.seconds
    );
    Ok(row)
}

/// An image with the tree.
fn make(image: &Path, gib: u64, variant: &Variant) -> io::Result<()> {
    let path = image.to_string_lossy().into_owned();
    File::create(image)?.set_len(gib << 30)?;
    let features = match variant.features {
        "none" => "^metadata_csum".to_owned(),
        more => format!("{FEATURES}{more}"),
    };
    let size = [
        "-q",
        "-F",
        "-b",
        "4096",
        "-I",
        "256",
        "-E",
        "lazy_itable_init=0,nodiscard,hash_seed=00000000-0000-4000-8000-000000002008",
    ];
    program("mke2fs", size.into_iter().chain(["-t", variant.kind, "-O", &features, &path]))
        .map_err(io::Error::other)?;
    let mut driver = mount(Arc::new(WritableFile::open(image, false)?), &EXT4)?;
    let mut bench = Bench::new(&mut driver, SEED);
    let wanted = AgingOptions {
        folders: (((gib << 30) as f64 * UTILISATION) as u64 / FOLDER_BYTES) as u32,
        folder_bytes: FOLDER_BYTES,
        file_blocks_max: FILE_BLOCKS_MAX,
        append_blocks_max: FILE_BLOCKS_MAX / 2,
        utilisation: UTILISATION,
        operations_per_folder: 0,
        filling: Filling::Claimed,
    };
    let mut aging = Aging::begin(&mut bench, wanted).map_err(failed)?;
    aging.fill().map_err(failed)?;
    aging.finish().map_err(failed)?;
    let end = bench.tick();
    driver.unmount(end).map_err(failed)?;
    if !variant.keeps_unused {
        forget_unused(image, gib)?;
    }
    Ok(())
}

/// Makes all group descriptors say that the whole inode table is in use, as before bg_itable_unused.
fn forget_unused(image: &Path, gib: u64) -> io::Result<()> {
    // A group of 4 KiB blocks holds 128 MiB.
    let mut commands = String::new();
    for group in 0..gib * 8 {
        let _ = writeln!(commands, "set_bg {group} itable_unused 0\nset_bg {group} checksum calc");
    }
    let script = image.with_extension("commands");
    fs::write(&script, commands)?;
    let (script_path, path) = (script.to_string_lossy().into_owned(), image.to_string_lossy().into_owned());
    let ended = program("debugfs", ["-w", "-f", &script_path, &path]);
    fs::remove_file(&script)?;
    ended.map(|_| ()).map_err(io::Error::other)
}

/// `e2fsck -fntt`, warm: seconds, user, system and MB of each pass, as it says them.
fn e2fsck_here(image: &Path) -> io::Result<[[f64; 4]; PASSES]> {
    // The first run warms the page cache.
    let said = [(); 2].map(|()| Command::new("e2fsck").arg("-fntt").arg(image).output());
    let [_, said] = said;
    Ok(passes_in(&String::from_utf8_lossy(&said?.stdout)))
}

/// The lines of passes in what e2fsck says with `-tt`.
fn passes_in(said: &str) -> [[f64; 4]; PASSES] {
    let mut passes = [[0.0; 4]; PASSES];
    for line in said.lines() {
        let Some((pass, rest)) = line.strip_prefix("Pass ").and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        let Some(pass) = pass.parse::<usize>().ok().and_then(|pass| passes.get_mut(pass.wrapping_sub(1)))
        else {
            continue;
        };
        if let Some((_, times)) = rest.split_once("time: ") {
            for (to, time) in pass.iter_mut().zip(times.split('/')) {
                *to = time.trim().parse().unwrap_or_default();
            }
        } else if let Some(read) = rest.strip_prefix("I/O read: ").and_then(|rest| rest.split_once("MB")) {
            pass[3] = read.0.parse().unwrap_or_default();
        }
    }
    passes
}

/// `fsmend check` with one worker, warm.
fn ours_here(image: &Path) -> io::Result<Ours> {
    let fsmend = fsmend_testkit::target_folder().join("release/fsmend");
    let script = "TIMEFORMAT='%R %U %S'; time \"$0\" check --threads 1 --stats --format json \"$1\"";
    let output = Command::new("bash").args(["-c", script]).arg(&fsmend).arg(image).output()?;
    let report: Value = serde_json::from_slice(&output.stdout).map_err(io::Error::other)?;
    let times = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut times = times.split_whitespace().rev().filter_map(|word| word.parse().ok());
    let (system, user, real) = (times.next(), times.next(), times.next());
    let seconds = |value: &Value| value.as_f64().unwrap_or_default() / 1e9;
    let stages = report["stats"]["stages"].as_array().into_iter().flatten().map(|stage| {
        let read = stage["bytes_read"].as_f64().unwrap_or_default() / f64::from(1 << 20);
        let name = stage["name"].as_str().unwrap_or_default().to_owned();
        (name, [seconds(&stage["wall_ns"]), seconds(&stage["cpu_ns"]), read])
    });
    let count = |name: &str| report["summary"][name].as_u64().unwrap_or_default();
    Ok(Ours {
        times: [real, user, system].map(|time: Option<f64>| time.unwrap_or_default()),
        stages: stages.collect(),
        files: count("files_used"),
        directories: count("directories"),
    })
}

fn document(gib: u64, rows: &[Row]) -> String {
    let mut text = format!(
        "# Fast ext4 fsck times, again\n\n\
         Made by `cargo xtask bench paper ext4 --gib {gib}`. The article (2008) compares e2fsck 1.41 on an ext3 and an ext4 of 128 GB with the same files, on a laptop's disk: 424.8 s and 63.4 s. \
         Here file systems of {gib} GiB are made by mke2fs and filled by our driver from one seed, {:.0} % full, with files and folders as long as there. The simulated disk is \
         [the one of the paper on ffsck](method.md). Nothing is aged, so files lie in a row, and directories near each other. On this machine everything is in the page cache; fsmend has one worker.\n\n",
        UTILISATION * 100.0
    );
    let _ = writeln!(text, "{}", passes_table(rows).text());
    let _ = writeln!(text, "## fsmend check\n\n{}", ours_table(rows).text());
    let _ = writeln!(
        text,
        "## Which feature gives which share\n\nEach is switched off alone. Seconds on the simulated disk.\n\n{}",
        shares_table(rows).text()
    );
    text.push_str(
        "`bg_itable_unused` is switched off by `set_bg N itable_unused 0` in every group, with new checksums; without `uninit_bg` the flags of unused groups go as well.\n",
    );
    text
}

/// e2fsck on ext3 and ext4, pass by pass, as in the article.
fn passes_table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "e2fsck",
        "pass",
        "article, s",
        "article, user + system",
        "article, MB",
        "article, MB/s",
        "simulated disk, s",
        "MiB read",
        "MiB/s",
        "this machine, s",
        "user",
        "system",
    ]);
    for (row, article) in rows.iter().zip(ARTICLE) {
        let passes = article.into_iter().zip(row.model.0).zip(row.model.1).zip(row.machine);
        for (pass, (((there, seconds), bytes), here)) in (1..).zip(passes) {
            let read = bytes as f64 / f64::from(1 << 20);
            table.push(vec![
                row.name.to_owned(),
                format!("{pass}"),
                format!("{:.2}", there[0]),
                format!("{:.2} + {:.2}", there[1], there[2]),
                format!("{:.0}", there[3]),
                rate(there[3], there[0]),
                format!("{seconds:.2}"),
                format!("{read:.1}"),
                rate(read, seconds),
                format!("{:.2}", here[0]),
                format!("{:.2}", here[1]),
                format!("{:.2}", here[2]),
            ]);
        }
    }
    table
}

/// Our check, stage by stage: all stages that took a share worth a line.
fn ours_table(rows: &[Row]) -> Table {
    let mut table =
        Table::new(&["file system", "stage", "this machine, ms", "processor, ms", "MiB read", "MiB/s"]);
    for row in rows.iter().take(ARTICLE.len()) {
        for (stage, [seconds, cpu, read]) in &row.ours.stages {
            table.push(vec![
                row.name.to_owned(),
                stage.clone(),
                format!("{:.2}", seconds * 1e3),
                format!("{:.2}", cpu * 1e3),
                format!("{read:.1}"),
                rate(*read, *seconds),
            ]);
        }
    }
    table
}

fn shares_table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "file system",
        "inodes in use",
        "directories",
        "e2fsck, s",
        "MiB read",
        "against ext4",
        "fsmend, s",
        "MiB read",
        "against ext4",
        "times faster",
        "this machine: e2fsck, user + system",
        "fsmend, user + system",
    ]);
    let sum = |row: &Row| row.model.0.iter().sum::<f64>();
    let ext4 = rows.iter().find(|row| row.name == EXT4.name);
    for row in rows {
        let (theirs, ours) = (sum(row), row.ours_on_model.seconds);
        let here = |column: usize| row.machine.iter().map(|pass| pass[column]).sum::<f64>();
        table.push(vec![
            row.name.to_owned(),
            row.ours.files.to_string(),
            row.ours.directories.to_string(),
            format!("{theirs:.2}"),
            format!("{:.1}", row.model.1.iter().sum::<u64>() as f64 / f64::from(1 << 20)),
            ext4.map_or_else(String::new, |ext4| format!("{:.2}", theirs / sum(ext4).max(1e-9))),
            format!("{ours:.2}"),
            format!("{:.1}", row.ours_on_model.megabytes * 1e6 / f64::from(1 << 20)),
            ext4.map_or_else(String::new, |ext4| {
                format!("{:.2}", ours / ext4.ours_on_model.seconds.max(1e-9))
            }),
            format!("**{:.1}**", theirs / ours.max(1e-9)),
            format!("{:.2} + {:.2}", here(1), here(2)),
            format!("{:.2} + {:.2}", row.ours.times[1], row.ours.times[2]),
        ]);
    }
    table
}

fn rate(amount: f64, seconds: f64) -> String {
    if seconds > 0.0 { format!("{:.1}", amount / seconds) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_e2fsck_says_of_its_passes() {
        let said = "Pass 1: Checking inodes, blocks, and sizes\n\
                    Pass 1: Memory used: 3440k/12060k (3311k/130k), time: 17.82/ 5.52/ 1.11\n\
                    Pass 1: I/O read: 233MB, write: 0MB, rate: 13.08MB/s\n\
                    Peak memory: Memory used: 1k/0k (1k/1k), time:  9.01/ 0.01/ 0.00\n\
                    Pass 9: I/O read: 1MB, write: 0MB, rate: 1MB/s\n\
                    Pass 5: I/O read: 5MB, write: 0MB, rate: 1.60MB/s\n";
        let passes = passes_in(said);
        assert_eq!(passes[0], [17.82, 5.52, 1.11, 233.0]);
        assert_eq!(passes[4], [0.0, 0.0, 0.0, 5.0]);
        assert_eq!(passes[1], [0.0; 4]);
    }
}
