// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system that never rests: files are made, renamed, linked, cut and deleted, some of them while they are open.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use fsmend_base::SeededRandom;

/// Files that one worker keeps.
const FILES_MAX: usize = 400;
/// Deleted files that it keeps open.
const OPEN_MAX: usize = 10;

/// Workers that go on until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<u64>>,
}

impl Load {
    /// Starts `workers` of them below `root`.
    pub fn start(root: &Path, workers: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let workers = (0..workers)
            .map(|seed| {
                let (stop, folder) = (Arc::clone(&stop), root.join(format!("load{seed}")));
                std::thread::spawn(move || Worker::new(folder, seed).run(&stop))
            })
            .collect();
        Load { stop, workers }
    }

    /// Stops them and returns what they did, in operations.
    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Relaxed);
        self.workers.drain(..).map(|worker| worker.join().unwrap()).sum()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

struct Worker {
    folder: PathBuf,
    random: SeededRandom,
    files: Vec<PathBuf>,
    open: Vec<File>,
    made: u64,
}

impl Worker {
    fn new(folder: PathBuf, seed: u64) -> Worker {
        for number in 0..8 {
            fs::create_dir_all(folder.join(number.to_string())).unwrap();
        }
        Worker { folder, random: SeededRandom::new(seed), files: Vec::new(), open: Vec::new(), made: 0 }
    }

    fn run(mut self, stop: &AtomicBool) -> u64 {
        let mut done = 0;
        while !stop.load(Relaxed) {
            // A full disk is part of life: the next deletions make room.
            if self.step().is_err() {
                self.files
                    .split_off(self.files.len() / 2)
                    .iter()
                    .for_each(|file| drop(fs::remove_file(file)));
            }
            done += 1;
        }
        done
    }

    fn step(&mut self) -> std::io::Result<()> {
        let choice = if self.files.len() >= FILES_MAX { 90 } else { self.random.below(100) };
        match choice {
            0..45 => self.make(),
            45..65 => self.rename(),
            65..70 => self.link(),
            70..75 => self.symlink(),
            75..80 => self.folders(),
            80..85 => self.cut(),
            _ => self.delete(),
        }
    }

    fn place(&mut self) -> PathBuf {
        self.made += 1;
        self.folder.join(self.random.below(8).to_string()).join(format!("file-{}", self.made))
    }

    fn some(&mut self) -> Option<usize> {
        (!self.files.is_empty()).then(|| self.random.below(self.files.len() as u64) as usize)
    }

    fn make(&mut self) -> std::io::Result<()> {
        let place = self.place();
        let mut file = File::create(&place)?;
        self.files.push(place);
        file.write_all(&vec![b'x'; self.random.below(40_000) as usize])
    }

    fn rename(&mut self) -> std::io::Result<()> {
        let (Some(at), to) = (self.some(), self.place()) else { return Ok(()) };
        fs::rename(&self.files[at], &to)?;
        self.files[at] = to;
        Ok(())
    }

    fn link(&mut self) -> std::io::Result<()> {
        let (Some(at), to) = (self.some(), self.place()) else { return Ok(()) };
        fs::hard_link(&self.files[at], &to)?;
        self.files.push(to);
        Ok(())
    }

    fn symlink(&mut self) -> std::io::Result<()> {
        let place = self.place();
        std::os::unix::fs::symlink("t".repeat(1 + self.random.below(200) as usize), &place)?;
        self.files.push(place);
        Ok(())
    }

    fn folders(&mut self) -> std::io::Result<()> {
        let (one, other) = (self.place(), self.place());
        fs::create_dir(&one)?;
        fs::rename(&one, &other)?;
        fs::remove_dir(&other)
    }

    fn cut(&mut self) -> std::io::Result<()> {
        let Some(at) = self.some() else { return Ok(()) };
        match OpenOptions::new().write(true).open(&self.files[at]) {
            Ok(file) => file.set_len(self.random.below(50_000)),
            // A symbolic link that leads nowhere.
            Err(_) => Ok(()),
        }
    }

    fn delete(&mut self) -> std::io::Result<()> {
        let Some(at) = self.some() else { return Ok(()) };
        let path = self.files.swap_remove(at);
        if self.random.below(10) == 0 {
            self.open.extend(File::open(&path));
            if self.open.len() > OPEN_MAX {
                self.open.remove(0);
            }
        }
        fs::remove_file(path)
    }
}
