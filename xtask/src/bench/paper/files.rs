// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures 13 to 17: reading and writing files, by the same driver on the same disk, with other formats and policies.

use std::io;
use std::path::Path;
use std::time::Duration;

use fsmend_lab::{Bench, reading};
use fsmend_vfs::{Errno, InodeNo};

use super::figure::{Figure, Table};
use super::images::{Contestant, SEED, WRITERS};
use super::map_blocks;
use super::plot::{Curves, Plot};
use super::site::Site;

/// Lengths of files, in kilobytes: the paper's.
const KILOBYTES: [u64; 6] = [10, 100, 1000, 10_000, 100_000, 1_000_000];
/// So much is read or written of files of one length, or so many of them.
const BYTES_OF_A_LENGTH: u64 = 64_000_000;
const FILES_OF_A_LENGTH: u64 = 200;
/// Bytes that are read at a time: as many as Linux reads ahead.
const PIECE: usize = 128 << 10;
/// Blocks that are read at random.
const COUNTS: [u64; 3] = [128, 256, 512];
/// What the paper gains at those.
const GAINED: [&str; 3] = ["+43 %", "+39 %", "+27 %"];
/// Runs of the random reads, each with a seed of its own.
const RUNS: u64 = 5;

fn count_of(kilobytes: u64) -> u64 {
    (BYTES_OF_A_LENGTH / (kilobytes * 1000)).clamp(1, FILES_OF_A_LENGTH)
}

pub fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64().max(1e-9) / 1e6
}

/// How much more `value` is than `than`, in percent.
pub fn gain(value: f64, than: f64) -> String {
    format!("{:+.1} %", (value / than.max(1e-9) - 1.0) * 100.0)
}

/// Files of one length in a folder of their own, made by `fill`.
fn make(
    bench: &mut Bench<'_>,
    kilobytes: u64,
    mut fill: impl FnMut(&mut Bench<'_>, InodeNo, u64) -> Result<u64, Errno>,
) -> Result<Vec<InodeNo>, Errno> {
    let root = bench.fs.root();
    let folder = bench.make_folder(root, &format!("of-{kilobytes}"))?;
    let mut files = Vec::new();
    for number in 0..count_of(kilobytes) {
        let file = bench.make_file(folder, &format!("f{number}"))?;
        if fill(bench, file, kilobytes * 1000)? < kilobytes * 1000 {
            return Err(Errno::NoSpace);
        }
        files.push(file);
    }
    Ok(files)
}

/// Lengths that fit into a file system of this size.
fn lengths(gib: u64) -> impl Iterator<Item = u64> {
    KILOBYTES.into_iter().filter(move |kilobytes| kilobytes * 1000 * count_of(*kilobytes) < (gib << 30) / 3)
}

/// A figure of rates by length of the files, one column for each contestant.
fn by_length(
    columns: &[(&Contestant, Vec<(u64, f64)>)],
    paper_gains: fn(u64) -> &'static str,
) -> (Table, Curves) {
    let mut headings = vec!["KB".to_owned()];
    for (contestant, _) in columns {
        headings.push(format!("{}, MB/s", contestant.name));
    }
    headings
        .extend(columns.iter().skip(1).map(|(contestant, _)| format!("{} against ext3", contestant.name)));
    headings.push("the paper's rext3".to_owned());
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    let base = columns.first().map_or(&[][..], |(_, rates)| rates);
    for (row, (kilobytes, ext3)) in base.iter().enumerate() {
        let rates: Vec<f64> =
            columns.iter().filter_map(|(_, rates)| rates.get(row).map(|rate| rate.1)).collect();
        let mut cells = vec![kilobytes.to_string()];
        cells.extend(rates.iter().map(|rate| format!("{rate:.1}")));
        cells.extend(rates.iter().skip(1).map(|rate| gain(*rate, *ext3)));
        cells.push(paper_gains(*kilobytes).to_owned());
        table.push(cells);
    }
    let curves = columns
        .iter()
        .map(|(contestant, rates)| {
            (contestant.name.to_owned(), rates.iter().map(|(at, rate)| (*at as f64, *rate)).collect())
        })
        .collect();
    (table, curves)
}

/// Figures 13 and 14.
pub fn in_a_row(image: &Path, gib: u64) -> io::Result<Vec<Figure>> {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for contestant in WRITERS {
        let site = Site::new(image, gib, contestant)?;
        let mut rates = Vec::new();
        for kilobytes in lengths(gib) {
            let (files, ..) = site.mounted(SEED, |bench, _| {
                make(bench, kilobytes, |bench, file, len| bench.claim(file, 0, len))
            })?;
            let (bytes, time, _) = site.mounted(SEED, |bench, clock| {
                files.iter().try_fold(0, |sum, file| {
                    Ok(sum + reading::read_in_a_row(bench, clock, *file, PIECE)?.bytes)
                })
            })?;
            rates.push((kilobytes, rate(bytes, time)));
        }
        println!("{}: read {rates:.1?}", contestant.name);
        reads.push((contestant, rates));
        // The image is not opened while another process has it.
        drop(site);
        let site = Site::new(image, gib, contestant)?;
        let mut rates = Vec::new();
        for kilobytes in lengths(gib) {
            let (_, time, home) = site.mounted(SEED, |bench, clock| write(bench, clock, kilobytes))?;
            rates.push((kilobytes, rate(kilobytes * 1000 * count_of(kilobytes), time + home)));
        }
        println!("{}: written {rates:.1?}", contestant.name);
        writes.push((contestant, rates));
    }
    let (table, curves) =
        by_length(&reads, |kilobytes| if kilobytes == 100 { "-8.4 %" } else { "within 3 %" });
    let read = Figure {
        number: "13",
        title: "Files read from start to end",
        paper: "rext3 is within 3 % of ext3, but for files of 100 KB, which have one map block and a few blocks behind it: 8.4 % slower",
        table,
        ours: "Up to 200 files of a length lie in one folder and are read in the order in which they were made, 128 KiB at a time, with nothing in memory at first. On a rext3, \
               the driver reads maps before data, and with a map block those behind it in the region, so that the way there is made once for many files. ext3 and metacluster are read as ever.",
        plot: Some(Plot { across: "KB", upwards: "MB/s", logarithmic: true, curves }),
    };
    let (table, curves) = by_length(&writes, |kilobytes| match kilobytes {
        100_000 => "+9.3 %",
        1_000_000 => "+19 %",
        _ => "the same",
    });
    let written = Figure {
        number: "14",
        title: "Files written from start to end",
        paper: "the same up to 10 MB; rext3 is 9.3 % faster with 100 MB and 19 % with 1 GB, since journal checkpoints write map blocks without seeks",
        table,
        ours: "Up to 200 files of a length, synchronised every five seconds of the disk's time and at the end; then everything is written to its place and unmounted, which counts as well. \
               This driver writes map blocks home when its log is half full, or at the end, all at once. What each of them costs, then and otherwise, is in the next table.",
        plot: Some(Plot { across: "KB", upwards: "MB/s", logarithmic: true, curves }),
    };
    Ok(vec![read, written, map_blocks::figure(image, gib)?])
}

fn write(bench: &mut Bench<'_>, clock: &dyn Fn() -> Duration, kilobytes: u64) -> Result<(), Errno> {
    let root = bench.fs.root();
    let folder = bench.make_folder(root, &format!("of-{kilobytes}"))?;
    let len = kilobytes * 1000;
    if count_of(kilobytes) == 1 {
        return reading::write_in_a_row(bench, clock, (folder, "f"), len).map(drop);
    }
    for number in 0..count_of(kilobytes) {
        let file = bench.make_file(folder, &format!("f{number}"))?;
        bench.write(file, 0, len)?;
    }
    bench.sync()
}

/// Figures 15, 16 and 17: a large file, here and there.
pub fn here_and_there(image: &Path, gib: u64) -> io::Result<Vec<Figure>> {
    // The paper's file has 2 GB.
    let len = (2 << 30).min((gib << 30) / 2);
    let (mut random, mut strided) = (Vec::new(), Vec::new());
    for contestant in WRITERS {
        let site = Site::new(image, gib, contestant)?;
        let (file, ..) = site.mounted(SEED, |bench, _| {
            let root = bench.fs.root();
            let file = bench.make_file(root, "large")?;
            bench.claim(file, 0, len)?;
            Ok(file)
        })?;
        let mut rates = Vec::new();
        for count in COUNTS {
            let (mut bytes, mut time) = (0, Duration::ZERO);
            for run in 0..RUNS {
                let (moved, ..) = site
                    .mounted(SEED + run, |bench, clock| reading::read_at_random(bench, clock, file, count))?;
                bytes += moved.bytes;
                time += moved.time;
            }
            rates.push((count, rate(bytes, time)));
        }
        println!("{}: at random {rates:.3?}", contestant.name);
        random.push((contestant, rates));
        let (runs, ..) = site.mounted(SEED, |bench, _| bench.fs.extents(file, 0, usize::MAX))?;
        let (stride, before) = (1024, site.statistics());
        let (moved, ..) = site.mounted(SEED, |bench, clock| {
            site.watch(runs.iter().map(|run| (run.at, run.at + run.len)).collect());
            reading::read_in_strides(bench, clock, file, stride)
        })?;
        let (data, maps) = site.times();
        let hits = site.statistics().read_ahead_hits - before.read_ahead_hits;
        println!("{}: strided {:?}, maps {maps:?}, data {data:?}", contestant.name, moved.time);
        strided.push((contestant, moved, maps, data, hits));
    }
    Ok(vec![at_random(&random), in_strides(&strided)])
}

fn at_random(columns: &[(&Contestant, Vec<(u64, f64)>)]) -> Figure {
    let (table, curves) = by_count(columns);
    Figure {
        number: "15",
        title: "Blocks of a file of 2 GB, read at random",
        paper: "rext3 is 43, 39 and 27 % faster for 128, 256 and 512 reads, since map blocks come from the track that the disk has kept",
        table,
        ours: "Means of five runs, each with a seed of its own and nothing in memory at first.",
        plot: Some(Plot { across: "reads", upwards: "MB/s", logarithmic: true, curves }),
    }
}

fn by_count(columns: &[(&Contestant, Vec<(u64, f64)>)]) -> (Table, Curves) {
    let mut headings = vec!["reads".to_owned()];
    headings.extend(columns.iter().map(|(contestant, _)| format!("{}, MB/s", contestant.name)));
    headings
        .extend(columns.iter().skip(1).map(|(contestant, _)| format!("{} against ext3", contestant.name)));
    headings.push("the paper's rext3".to_owned());
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for (row, (count, gained)) in COUNTS.iter().zip(GAINED).enumerate() {
        let rates: Vec<f64> =
            columns.iter().filter_map(|(_, rates)| rates.get(row).map(|rate| rate.1)).collect();
        let mut cells = vec![count.to_string()];
        cells.extend(rates.iter().map(|rate| format!("{rate:.3}")));
        cells.extend(rates.iter().skip(1).map(|rate| gain(*rate, rates[0])));
        cells.push(gained.to_owned());
        table.push(cells);
    }
    let curves = columns
        .iter()
        .map(|(contestant, rates)| {
            (contestant.name.to_owned(), rates.iter().map(|(at, rate)| (*at as f64, *rate)).collect())
        })
        .collect();
    (table, curves)
}

type Strided<'c> = (&'c Contestant, reading::Moved, Duration, Duration, u64);

fn in_strides(columns: &[Strided<'_>]) -> Figure {
    let mut table = Table::new(&[
        "file system",
        "time",
        "for map blocks",
        "for data",
        "reads that the disk had kept",
        "speed against ext3",
        "the paper's rext3",
    ]);
    let base = columns.first().map_or(0.0, |column| column.1.time.as_secs_f64());
    for (contestant, moved, maps, data, hits) in columns {
        table.push(vec![
            contestant.name.to_owned(),
            format!("{:.2} s", moved.time.as_secs_f64()),
            format!("{:.2} s", maps.as_secs_f64()),
            format!("{:.2} s", data.as_secs_f64()),
            hits.to_string(),
            gain(base, moved.time.as_secs_f64()),
            "+68 %".to_owned(),
        ]);
    }
    Figure {
        number: "16 and 17",
        title: "A block for each map block, in order",
        paper: "rext3 is 68 % faster: the first map block of a region brings the others, and reading these takes hardly any time",
        table,
        ours: "Map blocks of a region come with the first of them, as in the paper; what is left of the time is data, for which the heads go to and fro between the region and the stretch. Reading data costs rext3 a little more, \
               as the heads come from farther away.",
        plot: None,
    }
}
