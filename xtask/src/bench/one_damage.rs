// SPDX-License-Identifier: MIT OR Apache-2.0
//! A repair of a large image with one thing wrong, against a plain check of it.
//!
//! The images are too large to be copied. They are damaged in place, and what the damage and the repair change is put back after each run; what was
//! there before lies in a file beside the image meanwhile, so that a run that was killed can be made good by the next.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fsmend_testkit::process::Ended;
use fsmend_testkit::repair::changes_of_repair;

use super::Options;
use super::contest::Times;
use super::images;

/// A repair may take this many times as long as a plain check, by the clock.
const TARGET: f64 = 2.5;
/// The images of the bench that are damaged.
const IMAGES: &[&str] = &["files50k", "files", "dirs50", "fragmented"];
/// The first bytes of an image: superblock and descriptors.
const HEAD: usize = 1 << 16;

/// One row of the table.
pub struct Row {
    image: &'static str,
    damage: &'static str,
    check: Times,
    repair: Times,
    changes: usize,
}

/// Something that goes wrong with an image: what, where, and with which byte.
const DAMAGES: &[(&str, Damage)] = &[
    ("free blocks of the superblock", |_| (1024 + 0x0C, 0x55)),
    ("a byte of the root directory's inode", |head| (inode_table(head) + inode_size(head) + 0x1C, 0x77)),
];

type Damage = fn(&[u8]) -> (u64, u8);

fn number(head: &[u8], at: usize) -> u64 {
    head.get(at..at + 4)
        .map_or(0, |bytes| u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])))
}

fn inode_size(head: &[u8]) -> u64 {
    number(head, 1024 + 88) & 0xFFFF
}

/// Where the inode table of the first group starts (blocks of 4 KiB).
fn inode_table(head: &[u8]) -> u64 {
    number(head, 4096 + 8) * 4096
}

/// Measures the images.
pub fn measure_all(fsmend: &Path, options: &Options) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for image in
        images::all().iter().filter(|image| IMAGES.contains(&image.name) && options.wants(image.name))
    {
        let path = images::existing(&options.cache, image.name)?;
        for (what, damage) in DAMAGES {
            let row = measure(fsmend, &path, image.name, what, *damage, options.runs)?;
            print!("{}", line(&row));
            rows.push(row);
        }
    }
    Ok(rows)
}

fn measure(
    fsmend: &Path,
    path: &Path,
    image: &'static str,
    what: &'static str,
    damage: Damage,
    runs: usize,
) -> io::Result<Row> {
    let saved = Saved { path: path.with_extension("before-damage") };
    let file = File::options().read(true).write(true).open(path)?;
    saved.restore(&file)?;
    let mut head = vec![0; HEAD];
    file.read_exact_at(&mut head, 0)?;
    let (offset, byte) = damage(&head);
    saved.keep(&file, &[(0, HEAD as u64), (offset, 1)])?;
    file.write_all_at(&[byte], offset)?;
    let changes = changes_of_repair(path);
    let changes = match changes {
        Ok(changes) => changes,
        Err(error) => {
            saved.restore(&file)?;
            return Err(error);
        }
    };
    saved.restore(&file)?;
    let mut ranges: Vec<(u64, u64)> =
        changes.iter().map(|(offset, bytes)| (*offset, bytes.len() as u64)).collect();
    ranges.extend([(0, HEAD as u64), (offset, 1)]);
    let (mut check, mut repair) = (Times::default(), Times::default());
    for run in 0..=runs {
        saved.keep(&file, &ranges)?;
        file.write_all_at(&[byte], offset)?;
        file.sync_data()?;
        let ran = check
            .run(fsmend, &["check"], path)
            .and_then(|()| repair.run(fsmend, &["repair", "-y", "--no-undo"], path));
        saved.restore(&file)?;
        ran?;
        if repair.ended != Some(Ended::Code(1)) {
            let (end, said) = (repair.end(), &repair.said);
            return Err(io::Error::other(format!("repair of {image} ended with {end}: {said}")));
        }
        if run == 0 {
            // That filled the cache.
            (check, repair) = (Times::default(), Times::default());
        }
    }
    Ok(Row { image, damage: what, check, repair, changes: changes.len() })
}

/// Bytes of an image as they were, in a file.
struct Saved {
    path: PathBuf,
}

impl Saved {
    fn keep(&self, image: &File, ranges: &[(u64, u64)]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (offset, len) in ranges {
            let mut before = vec![0; *len as usize];
            image.read_exact_at(&mut before, *offset)?;
            bytes.extend(offset.to_le_bytes());
            bytes.extend(len.to_le_bytes());
            bytes.extend(before);
        }
        let part = self.path.with_extension("part");
        fs::write(&part, bytes)?;
        File::open(&part)?.sync_all()?;
        fs::rename(part, &self.path)
    }

    fn restore(&self, image: &File) -> io::Result<()> {
        let Ok(bytes) = fs::read(&self.path) else { return Ok(()) };
        let mut rest = bytes.as_slice();
        while let Some((head, tail)) = rest.split_first_chunk::<16>() {
            let (offset, len) = (u64_at(head, 0), u64_at(head, 8) as usize);
            let Some((before, tail)) = tail.split_at_checked(len) else { break };
            image.write_all_at(before, offset)?;
            rest = tail;
        }
        image.sync_all()?;
        fs::remove_file(&self.path)
    }
}

fn u64_at(bytes: &[u8; 16], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn line(row: &Row) -> String {
    let (ratio, by_clock) =
        (row.repair.cpu() / row.check.cpu(), row.repair.wall() / row.check.wall().max(1e-6));
    let met = if by_clock <= TARGET { "met" } else { "too slow" };
    format!(
        "| {} | {} | {} | {} | {} | {ratio:.2}; {by_clock:.2} | {met} |\n",
        row.image,
        row.damage,
        row.check.cell(),
        row.repair.cell(),
        row.changes
    )
}

/// The table, as text.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\n## One damage\n\nThe images of `bench check` and one of 1 GB with 50 000 files, warm, with one byte wrong: `fsmend repair -y` (scan, verify, apply) against `fsmend check`, on a disk. Target: at \
         most {TARGET} times the time by the clock.\n\n| image | damage | fsmend check | fsmend repair -y | changed runs | repair / check | target |\n|---|---|---|---|---|---|---|\n"
    );
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}
