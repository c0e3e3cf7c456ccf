// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests: a folder that stands for a machine's `/`.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A folder of the test's own that goes away with it.
pub struct Fixture(PathBuf);

impl Fixture {
    /// An empty machine. `label` makes its name readable.
    pub fn new(label: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("fsmend-{label}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Fixture(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts a file there; a reader sees the old one or the new one.
    pub fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let part = path.with_extension("part");
        std::fs::write(&part, text).unwrap();
        std::fs::rename(&part, &path).unwrap();
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
