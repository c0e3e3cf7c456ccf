// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the disks below some files have delivered. The kernel counts a read for the process when it is asked for: with hundreds of requests on their way,
//! that is far more than has come.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fsmend_device::read_small;

/// Bytes of a sector in the kernel's statistics.
const SECTOR: u64 = 512;

/// The statistics of some block devices.
#[derive(Clone, Debug, Default)]
pub struct Disks(Vec<PathBuf>);

impl Disks {
    /// Those that `files` lie on, or that they are.
    pub fn below(files: &[PathBuf]) -> Disks {
        let number = |file: &PathBuf| {
            let found = file.metadata().ok()?;
            Some(if found.file_type().is_block_device() { found.rdev() } else { found.dev() })
        };
        let mut numbers: Vec<u64> = files.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let stat = |number: &u64| {
            let (major, minor) = (rustix::fs::major(*number), rustix::fs::minor(*number));
            PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"))
        };
        Disks(numbers.iter().map(stat).collect())
    }

    /// Bytes that they have delivered, to whomever; `None` if one of them does not say (a network or FUSE file system), or there is none.
    pub fn delivered(&self) -> Option<u64> {
        let sum = self.0.iter().map(|path| delivered(path)).sum::<Option<u64>>();
        sum.filter(|_| !self.0.is_empty())
    }
}

fn delivered(path: &Path) -> Option<u64> {
    sectors_read(&read_small(path).ok()?)?.checked_mul(SECTOR)
}

/// The third number (Documentation/block/stat.rst of the kernel): sectors of reads that are done.
fn sectors_read(stat: &str) -> Option<u64> {
    stat.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_of_reads_that_are_done_are_counted() {
        let stat = "  446216   784926  9550688  4382310  1442809  1223498 21387864  1234  17 5678 9\n";
        assert_eq!(sectors_read(stat), Some(9_550_688));
        assert_eq!(sectors_read("446216 784926"), None);
        assert_eq!(sectors_read("1 2 x"), None);
    }

    #[test]
    fn what_lies_on_no_disk_says_nothing() {
        assert_eq!(Disks::default().delivered(), None);
        assert_eq!(Disks::below(&[PathBuf::from("/proc/self/stat")]).delivered(), None);
        assert_eq!(Disks::below(&[PathBuf::from("/no/such/file")]).delivered(), None);
    }
}
