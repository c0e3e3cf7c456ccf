//! Figure 12: what it costs that a block has two owners. The paper's ffsck keeps snapshots of its bitmaps and looks at ten groups again;
//! e2fsck looks at everything again. Ours keeps where claims came from (docs/decisions).

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, FileDevice, WritableDevice, WritableFile};
use fsmend_disksim::{Hdd, HddDescription, Timed};
use fsmend_engine::Progress;
use fsmend_ext_check::run::check;
use fsmend_testkit::sharing::{Shared, plant};
use fsmend_testkit::within::{Manner, options};

use super::{Cost, SEED, memory, record};
use crate::workspace;

/// How many blocks are shared; the paper has none and one.
const COUNTS: [usize; 5] = [0, 1, 8, 64, 512];

/// What both checkers take with so many shared blocks.
pub(super) struct Row {
    contestant: &'static str,
    shared: usize,
    e2fsck: Cost,
    fsmend: Cost,
}

/// Measures an image, and leaves it as it was.
pub(super) fn measure(contestant: &'static str, image: &Path) -> io::Result<Vec<Row>> {
    COUNTS.iter().map(|count| with_shared(contestant, image, *count)).collect()
}

fn with_shared(contestant: &'static str, image: &Path, count: usize) -> io::Result<Row> {
    let shared = plant(&FileDevice::open(image)?, count, SEED)?;
    let before = swap_in(image, &shared)?;
    let both = ours(image).and_then(|fsmend| Ok((e2fsck(image)?, fsmend)));
    swap_in(image, &before)?;
    let (e2fsck, fsmend) = both?;
    let row = Row { contestant, shared: shared.len(), e2fsck, fsmend };
    println!("{}", line(&row, None));
    Ok(row)
}

/// Writes records; returns those that were there.
fn swap_in(image: &Path, records: &[Shared]) -> io::Result<Vec<Shared>> {
    let device = WritableFile::open(image, false)?;
    let mut before = Vec::new();
    for one in records {
        let mut record = vec![0; one.record.len()];
        device.read_at(one.at, &mut record).map_err(io::Error::other)?;
        device.write_at(one.at, &one.record).map_err(io::Error::other)?;
        before.push(Shared { record, ..one.clone() });
    }
    device.sync().map_err(io::Error::other)?;
    Ok(before)
}

fn ours(image: &Path) -> io::Result<Cost> {
    let disk = Arc::new(Timed::new(FileDevice::open(image)?, HddDescription::default()));
    let device: Arc<dyn Device> = Arc::clone(&disk) as Arc<dyn Device>;
    let mut how = options(Manner::default());
    how.memory = 1 << 30;
    check(&device, &how, &Progress::new(), &AtomicBool::new(false))
        .map_err(|refused| io::Error::other(refused.refusal.message))?;
    Ok(Cost::of(&disk.hdd()))
}

fn e2fsck(image: &Path) -> io::Result<Cost> {
    let mut disk = Hdd::new(HddDescription::default());
    for (offset, len) in record::reads_of_e2fsck_on_damaged(image)? {
        disk.read(offset, len);
    }
    Ok(Cost::of(&disk))
}

/// A line of the table; `clean` is the row of the same image without shared blocks.
fn line(row: &Row, clean: Option<&Row>) -> String {
    let Row { contestant, shared, e2fsck, fsmend } = row;
    let more = |now: u64, before: u64| 100.0 * (now as f64 / before.max(1) as f64 - 1.0);
    let (theirs, ours) = clean.map_or((0.0, 0.0), |clean| {
        (more(e2fsck.requests, clean.e2fsck.requests), more(fsmend.requests, clean.fsmend.requests))
    });
    format!(
        "| {contestant} | {shared} | {:.1} s | {} | {theirs:+.0} % | {:.1} s | {} | **{ours:+.1} %** |",
        e2fsck.seconds, e2fsck.requests, fsmend.seconds, fsmend.requests,
    )
}

/// Writes the document.
pub(super) fn write(gib: u64, rows: &[Row]) -> io::Result<()> {
    let mut text = format!(
        "# Shared blocks, and memory (Figures 12 and 8 of the paper on ffsck)\n\n\
         Made by `cargo xtask bench paper ffsck --gib {gib}`.\n\n\
         ## Blocks with two owners (Figure 12)\n\n\
         Aged file systems of {gib} GiB, as in the table of speed by age. In so many files, one pointer leads to a block of another file. The paper, at 50 GB: \
         ffsck takes next to nothing more with one shared block (ten groups of 400 are read again), e2fsck about twice its time.\n\n\
         | file system | shared blocks | e2fsck -fn | its requests | more than for none | fsmend check | its requests | more than for none |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for row in rows {
        let clean = rows.iter().find(|one| one.contestant == row.contestant && one.shared == 0);
        let _ = writeln!(text, "{}", line(row, clean));
    }
    text.push_str("\nWanted: one shared block costs at most a tenth more requests.\n");
    text.push_str(&memory::text());
    let file = workspace()?.join("docs/bench/paper-ffsck-shared.md");
    fs::write(&file, text)?;
    println!("{}", file.display());
    Ok(())
}
