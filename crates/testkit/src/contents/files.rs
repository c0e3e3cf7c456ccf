// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of every shape.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::FallocateFlags;

/// Files from nothing to 300 KiB, some of them removed again.
pub fn basic(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for size in [0, 1, 59, 60, 61, 155, 160, 1023, 1024, 1025, 4096, 5000, 12 << 10, 50 << 10, 300 << 10] {
        fs::write(folder.join(format!("of-{size}-bytes")), vec![b'x'; size])?;
    }
    for number in 0..40 {
        let subfolder = folder.join(format!("folder-{number}"));
        fs::create_dir(&subfolder)?;
        fs::write(subfolder.join("file"), vec![b'y'; number * 37])?;
        if number % 3 == 0 {
            fs::remove_dir_all(subfolder)?;
        }
    }
    Ok(())
}

/// A byte here and there, so that maps are deep and nearly empty.
pub fn sparse(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (name, offsets) in [
        ("end", &[0, 1 << 20][..]),
        ("double", &[5_000, 300 << 10, 3 << 20, 60 << 20]),
        ("triple", &[70 << 20, 200 << 20, 1500 << 20]),
        ("hole-at-start", &[9 << 20]),
    ] {
        let file = File::create(folder.join(name))?;
        offsets.iter().try_for_each(|offset| file.write_all_at(b"here", *offset))?;
    }
    // A size without a single block.
    File::create(folder.join("nothing-but-a-hole"))?.set_len(1 << 30)
}

/// Two files written in turns, each synced, then every other block of one file only.
pub fn fragmented(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    let files = [File::create(folder.join("one"))?, File::create(folder.join("two"))?];
    for turn in 0..40 {
        for file in &files {
            file.write_all_at(&[b'f'; 4096], turn * 4096)?;
            file.sync_data()?;
        }
    }
    let every_other = File::create(folder.join("every-other-block"))?;
    for block in 0..400 {
        every_other.write_all_at(b"block", block * 8192)?;
    }
    every_other.sync_all()
}

/// Holes punched into a contiguous file: as many extents as holes, and with small blocks a tree of several levels.
pub fn punched(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    let file = File::create(folder.join("comb"))?;
    let block = u64::from(rustix::fs::fstat(&file)?.st_blksize as u32);
    let teeth = 4000;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, teeth * 2 * block)?;
    for tooth in 0..teeth {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, hole, tooth * 2 * block, block)?;
        if tooth % 5 == 0 {
            file.write_all_at(b"tooth", (tooth * 2 + 1) * block)?;
        }
    }
    file.sync_all()?;
    // A second comb that lost most of its teeth again: a deep tree with few entries.
    let file = File::create(folder.join("cut-back"))?;
    for tooth in 0..2000 {
        rustix::fs::fallocate(&file, FallocateFlags::empty(), tooth * 2 * block, block)?;
    }
    file.sync_all()?;
    file.set_len(40 * block)
}

/// Unwritten blocks inside and behind the end of files.
pub fn preallocated(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    let file = File::create(folder.join("unwritten"))?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20)?;
    file.write_all_at(b"written in the middle", 500_000)?;
    let file = File::create(folder.join("behind-the-end"))?;
    file.write_all_at(b"short", 0)?;
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 512 << 10)?;
    file.sync_all()
}

/// Files that fit into an inode where the format lets them, and directories with few entries.
pub fn tiny(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for size in [1, 20, 59, 60, 61, 100, 130, 150, 200, 400, 800] {
        fs::write(folder.join(format!("tiny-{size}")), vec![b't'; size])?;
    }
    for entries in 0..12 {
        let subfolder = folder.join(format!("with-{entries}-entries"));
        fs::create_dir(&subfolder)?;
        for entry in 0..entries {
            fs::write(subfolder.join(format!("{entry}")), b"")?;
        }
        if entries > 4 {
            fs::remove_file(subfolder.join("1"))?;
            fs::remove_file(subfolder.join("3"))?;
        }
    }
    Ok(())
}

/// Fills and empties, so that free blocks, free entries and free inodes hold remains.
pub fn reuse(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for round in 0..3 {
        for number in 0..120 {
            let name = format!("round-{round}-{}", "n".repeat(number % 50 + 1));
            fs::write(folder.join(format!("{name}{number}")), vec![round as u8; number * 61])?;
        }
        rustix::fs::syncfs(File::open(folder)?)?;
        for (index, entry) in fs::read_dir(folder)?.enumerate() {
            if index % 4 != round {
                fs::remove_file(entry?.path())?;
            }
        }
    }
    Ok(())
}
