//! Writing what a repair changes.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Writes `changes` (byte offsets and bytes) to the target.
pub fn write(path: &Path, changes: &[(u64, Vec<u8>)]) -> io::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let file = OpenOptions::new().write(true).open(path)?;
    changes.iter().try_for_each(|(offset, bytes)| file.write_all_at(bytes, *offset))?;
    file.sync_all()
}
