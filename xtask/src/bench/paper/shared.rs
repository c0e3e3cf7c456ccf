// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figure 12: what it costs that a block has two owners. The paper's ffsck keeps snapshots of its bitmaps and looks at a part of the groups again;
//! e2fsck looks at everything again. Ours keeps where claims came from (docs/decisions/2026-11-22-origins.md).

use std::io;
use std::path::Path;

use fsmend_device::{Device, FileDevice, WritableDevice, WritableFile};
use fsmend_testkit::sharing::{Shared, plant};

use super::checkers::{self, Cost, State};
use super::figure::{Figure, Table};
use super::images::{self, Contestant, EXT3, EXT4, REXT3, SEED};

/// How many blocks are shared, or fewer where too few files can share one; the paper has none and one.
const COUNTS: [usize; 4] = [0, 1, 8, 64];
/// Operations per folder, and how full the file systems are.
const AGE: u32 = 60;
const FULL: f64 = 0.93;

/// What both checkers take with so many shared blocks.
struct Row {
    shared: usize,
    e2fsck: Option<Cost>,
    fsmend: Cost,
}

/// Figure 12.
pub fn shared(image: &Path, gib: u64) -> io::Result<Vec<Figure>> {
    let mut table = Table::new(&[
        "file system",
        "shared blocks",
        "e2fsck -fn",
        "its requests",
        "fsmend check",
        "its requests",
        "more than without",
    ]);
    for contestant in [&EXT3, &EXT4, &REXT3] {
        images::make_aged(image, gib, contestant, FULL, AGE)?;
        let mut clean = None;
        for count in COUNTS {
            let row = with_shared(image, contestant, count)?;
            println!("{}: {} shared, {} requests", contestant.name, row.shared, row.fsmend.requests);
            let before = *clean.get_or_insert(row.fsmend.requests);
            let theirs = |text: &dyn Fn(Cost) -> String| row.e2fsck.map_or_else(|| "-".to_owned(), text);
            table.push(vec![
                contestant.name.to_owned(),
                row.shared.to_string(),
                theirs(&|cost| format!("{:.1} s", cost.seconds)),
                theirs(&|cost| cost.requests.to_string()),
                format!("{:.1} s", row.fsmend.seconds),
                row.fsmend.requests.to_string(),
                format!("{:+.1} %", 100.0 * (row.fsmend.requests as f64 / before.max(1) as f64 - 1.0)),
            ]);
        }
    }
    Ok(vec![Figure {
        number: "12",
        title: "Blocks with two owners",
        paper: "ffsck takes next to nothing more with one shared block (ten groups of 400 are read again), e2fsck about twice its time",
        table,
        ours: "In so many files, one pointer leads to a block of another file. Wanted: one shared block costs at most a tenth more requests.",
        plot: None,
    }])
}

/// Plants shared blocks, has both checkers look, and leaves the image as it was.
fn with_shared(image: &Path, contestant: &Contestant, count: usize) -> io::Result<Row> {
    let shared = plant(&FileDevice::open(image)?, count, SEED)?;
    let count = shared.len();
    let before = swap_in(image, &shared)?;
    let state = if count == 0 { State::Sound } else { State::Damaged };
    let theirs = || contestant.is_known_to_e2fsck().then(|| checkers::e2fsck_on(image, state)).transpose();
    let both = checkers::ours_on(image, state).and_then(|fsmend| Ok((theirs()?, fsmend)));
    swap_in(image, &before)?;
    let (e2fsck, fsmend) = both?;
    Ok(Row { shared: count, e2fsck: e2fsck.map(|(cost, _)| cost), fsmend })
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
