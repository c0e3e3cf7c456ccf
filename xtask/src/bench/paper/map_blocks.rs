// SPDX-License-Identifier: MIT OR Apache-2.0
//! What map blocks cost where they lie among the data that is written, by when they are written and by what the disk makes of it: the reasons behind Figure 14.

use std::io;
use std::path::Path;
use std::time::Duration;

use fsmend_disksim::HddDescription;
use fsmend_lab::reading;

use super::figure::{Figure, Table};
use super::files::{gain, rate};
use super::images::{Contestant, EXT3, REXT3, SEED};
use super::site::Site;

/// Length of the file: the paper's longest.
const BYTES: u64 = 1_000_000_000;
/// Blocks that an inode leads to itself, blocks that a map block leads to, and bytes of a block.
const DIRECT: u64 = 12;
const MAPPED: u64 = 1024;
const BLOCK: u64 = 4096;

/// When map blocks are written home, whether the disk keeps what it is given for a while, and how that is said.
const WAYS: [(bool, bool, &str, &str); 4] = [
    (false, true, "with the log half full, or at the end", "yes"),
    (true, true, "every five seconds", "yes"),
    (false, false, "with the log half full, or at the end", "no"),
    (true, false, "every five seconds", "no"),
];

/// The table.
pub fn figure(image: &Path, gib: u64) -> io::Result<Figure> {
    let len = BYTES.min((gib << 30) / 3);
    let blocks = map_blocks(len);
    let mut table = Table::new(&[
        "map blocks are written home",
        "the disk has a write cache",
        "ext3, MB/s",
        "rext3, MB/s",
        "rext3 against ext3",
        "more for each of ext3's map blocks",
        "for a tenth it would have to be",
    ]);
    for (home_at_sync, has_cache, when, cache) in WAYS {
        let time = |contestant| written(image, (gib, len), contestant, (home_at_sync, has_cache));
        let (slow_time, fast_time) = (time(&EXT3)?, time(&REXT3)?);
        let (slow, fast) = (rate(len, slow_time), rate(len, fast_time));
        let more = (slow_time.as_secs_f64() - fast_time.as_secs_f64()) * 1e3 / blocks as f64;
        println!("home {when}, cache {cache}: {slow:.1} and {fast:.1} MB/s");
        table.push(vec![
            when.to_owned(),
            cache.to_owned(),
            format!("{slow:.1}"),
            format!("{fast:.1}"),
            gain(fast, slow),
            format!("{more:.1} ms"),
            format!("{:.1} ms", 0.1 * fast_time.as_secs_f64() * 1e3 / blocks as f64),
        ]);
    }
    Ok(Figure {
        number: "14 again",
        title: "What map blocks cost among data that is written",
        paper: "the journal is checkpointed every five seconds, which on ext3 is mostly random writing, as each map block is a seek; nothing is said of the disk's write cache",
        table,
        ours: OURS,
        plot: None,
    })
}

/// Where and why we differ.
const OURS: &str = "A file of a gigabyte, one map block for each 4 MB of it. \
     A disk with a write cache takes from it what is nearest: a map block costs little then, and little is all that rext3 can gain, however often the log is emptied. \
     All that a layout can gain is what these blocks cost, and in its regions rext3 has next to all of that: the last column says what each would have to cost for a tenth. With the cache it is a short seek, since the cache holds \
     many of them and they are written in the order of the disk; the length of the file, of the file system and of the log change nothing about that, as there is one for each 4 MB at any size. \
     Without one, a map block costs a turn of the disk: the stream of data breaks at each, and each is written home by itself. That gain is the paper's; whether its disk had its cache turned on, it does not say.";

/// Map blocks of a file without holes on an ext3.
fn map_blocks(len: u64) -> u64 {
    let behind = len.div_ceil(BLOCK).saturating_sub(DIRECT);
    behind.div_ceil(MAPPED) + u64::from(behind > MAPPED)
}

/// How long it takes to write the file, until everything is at home.
fn written(
    image: &Path,
    (gib, len): (u64, u64),
    contestant: &Contestant,
    (home_at_sync, has_cache): (bool, bool),
) -> io::Result<Duration> {
    let usual = HddDescription::default();
    let drive = if has_cache { usual } else { HddDescription { write_cache: 0, ..usual } };
    let site = Site::with(image, gib, contestant, (drive, home_at_sync))?;
    let (_, time, home) = site.mounted(SEED, |bench, clock| {
        let root = bench.fs.root();
        reading::write_in_a_row(bench, clock, (root, "f"), len).map(drop)
    })?;
    Ok(time + home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_blocks_are_counted() {
        let counts =
            [0, 12, 13, 12 + 1024, 12 + 1025, 12 + 3 * 1024].map(|blocks| map_blocks(blocks * BLOCK));
        assert_eq!(counts, [0, 0, 1, 1, 3, 4]);
    }
}
