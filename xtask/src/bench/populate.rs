// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills a mounted file system with a tree of directories and small files, several threads at once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FallocateFlags, fallocate};

/// The shape of a tree: `fan[0]` directories in the root, `fan[1]` in each of those, and so on; files are spread evenly over all
/// directories until there are `entries` entries in all.
pub struct Tree {
    /// Subdirectories per directory, level by level.
    pub fan: Vec<u32>,
    /// Directories and files together.
    pub entries: u32,
}

impl Tree {
    fn directories(&self) -> u32 {
        let mut level = 1;
        self.fan
            .iter()
            .map(|fan| {
                level *= fan;
                level
            })
            .sum()
    }

    /// Directories under (and with) one of the first level.
    fn directories_per_top(&self) -> u32 {
        self.directories() / self.fan[0]
    }
}

/// What each file holds.
#[derive(Clone, Copy)]
pub enum Files {
    /// Nothing.
    Empty,
    /// A block that is allocated and never written.
    Allocated,
    /// A block of data.
    Written,
}

/// Makes the tree under `root`.
pub fn fill(root: &Path, tree: &Tree, contents: Files) -> io::Result<()> {
    let files = tree.entries - tree.directories();
    let spread =
        Spread { per_directory: files / tree.directories(), extra: files % tree.directories(), contents };
    let next = AtomicUsize::new(0);
    let tops = tree.fan[0] as usize;
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> io::Result<()> {
                    loop {
                        let top = next.fetch_add(1, Ordering::Relaxed);
                        if top >= tops {
                            return Ok(());
                        }
                        let mut index = top as u32 * tree.directories_per_top();
                        fill_directory(
                            &root.join(format!("top-{top:04}")),
                            &tree.fan[1..],
                            &spread,
                            &mut index,
                        )?;
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")))
        })
    })
}

/// How many files go into each directory.
struct Spread {
    per_directory: u32,
    extra: u32,
    contents: Files,
}

/// Makes directory number `index` with its files, then its subdirectories (as deep as `fan` is long).
fn fill_directory(path: &PathBuf, fan: &[u32], spread: &Spread, index: &mut u32) -> io::Result<()> {
    fs::create_dir(path)?;
    let files = spread.per_directory + u32::from(*index < spread.extra);
    *index += 1;
    for file in 0..files {
        let file = path.join(format!("file-{file:05}.dat"));
        match spread.contents {
            Files::Empty => fs::write(file, b"")?,
            Files::Allocated => fallocate(fs::File::create(file)?, FallocateFlags::empty(), 0, 4096)?,
            Files::Written => fs::write(file, b"a small file of one block\n")?,
        }
    }
    if let Some((subdirectories, deeper)) = fan.split_first() {
        for subdirectory in 0..*subdirectories {
            fill_directory(&path.join(format!("directory-{subdirectory:04}")), deeper, spread, index)?;
        }
    }
    Ok(())
}
