//! What the quota files should say, added up while inodes are scanned.

use fsmend_base::InodeNo;

use crate::Fs;

/// Usage by owner.
#[derive(Default, Debug)]
pub struct Usage {}

impl Usage {
    /// Adds what an inode in use takes.
    pub fn charge_record(&mut self, _fs: &Fs<'_>, _inode: InodeNo, _record: &[u8]) {}

    /// Takes back what was added for `record`.
    pub fn withdraw_record(&mut self, _fs: &Fs<'_>, _inode: InodeNo, _record: &[u8]) {}

    /// Adds another worker's sums.
    pub fn merge(&mut self, _other: Usage) {}
}
