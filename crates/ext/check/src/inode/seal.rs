// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checksums of what belongs to an inode.

use fsmend_base::InodeNo;
use fsmend_ext_format::checksum;
use fsmend_ext_format::inode::RawInode;

use crate::Fs;

/// Puts the right checksum into an inode record, where the file system has them. A record of nothing but zeroes needs none.
pub fn seal_inode(fs: &Fs<'_>, inode: InodeNo, record: &mut [u8]) {
    if fs.geometry.features.metadata_csum() && record.iter().any(|byte| *byte != 0) {
        checksum::seal_inode(fs.geometry.checksum_seed, inode, record);
    }
}

/// The seed of checksums of what belongs to `inode`, whose record is `record`; `None` where the file system has none.
pub fn seed_of(fs: &Fs<'_>, inode: InodeNo, record: &[u8]) -> Option<u32> {
    let generation = RawInode::from_record(record).i_generation.get();
    fs.geometry
        .features
        .metadata_csum()
        .then(|| checksum::inode_seed(fs.geometry.checksum_seed, inode, generation))
}
