//! All attributes of one inode: in its record, in its attribute block, in inodes of their own.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::Findings;
use fsmend_ext_format::features::incompat;
use fsmend_ext_format::inode::RawInode;

use super::{
    BlockAttributes, EncryptionState, InInodeAttributes, inspect_encryption, inspect_in_inode,
    inspect_pointer, read_and_inspect_block,
};
use crate::Fs;

/// All attributes of one inode, as they will be after repair.
#[derive(Clone, Debug)]
pub struct Attributes {
    /// Those in the record.
    pub in_inode: InInodeAttributes,
    /// The attribute block, if it stays.
    pub block: Option<BlockNo>,
    /// What the attribute block holds.
    pub in_block: Option<BlockAttributes>,
    /// Clusters that `i_blocks` of the inode counts for its attributes: the block, and values in inodes of their own.
    pub clusters: u64,
    /// Whether it is encrypted, and how.
    pub encryption: EncryptionState,
}

/// Inspects all attributes of inode `ino` and mends its `record`: bad attributes within it are taken out, a pointer to
/// an attribute block that does not stay is cleared, and so is an encryption flag without context. To be called when
/// `i_extra_isize` has been mended, for inodes in use other than the reserved ones (but for the root).
///
/// What is wrong with a block that *stays* is not raised here, because other inodes may share the block: whoever
/// goes through the blocks raises it once, with [`super::inspect_block`].
pub fn inspect(fs: &Fs<'_>, ino: InodeNo, record: &mut [u8], findings: &mut Findings) -> Attributes {
    let block = block_pointer(fs, &RawInode::from_record(record))
        .and_then(|pointer| inspect_pointer(fs, ino, pointer, findings));
    let in_block =
        block.map(|block| inspect_shared(fs, ino, block, findings)).filter(|block| block.plausible);
    let block = block.filter(|_| in_block.is_some());
    if block.is_none() {
        clear_pointer(fs, record);
    }
    let in_inode = inspect_in_inode(fs, ino, record, findings);
    let encryption = inspect_encryption(ino, record, &in_inode, in_block.as_ref(), findings);
    let in_values = in_inode.charged_bytes + in_block.as_ref().map_or(0, |block| block.charged_bytes);
    let cluster = u64::from(fs.geometry.block_size) * u64::from(fs.geometry.cluster_blocks);
    let clusters = u64::from(block.is_some()) + in_values.div_ceil(cluster.max(1));
    Attributes { in_inode, block, in_block, clusters, encryption }
}

/// The attribute block that an inode points to, wherever it lies.
pub(super) fn block_pointer(fs: &Fs<'_>, inode: &RawInode) -> Option<u64> {
    let pointer = inode.file_acl(has_high_half(fs));
    (pointer != 0).then_some(pointer)
}

fn has_high_half(fs: &Fs<'_>) -> bool {
    fs.geometry.features.has_incompat(incompat::BIT64) && !fs.geometry.hurd
}

fn clear_pointer(fs: &Fs<'_>, record: &mut [u8]) {
    let mut inode = RawInode::from_record(record);
    inode.i_file_acl_lo.set(0);
    if has_high_half(fs) {
        inode.i_file_acl_high.set(0);
    }
    inode.store(record);
}

/// Inspects a block; what is wrong with it counts for this inode only when the inode loses it.
fn inspect_shared(fs: &Fs<'_>, ino: InodeNo, block: BlockNo, findings: &mut Findings) -> BlockAttributes {
    let mut found = Findings::new();
    let attributes = read_and_inspect_block(fs, ino, block, &mut found);
    if !attributes.plausible {
        findings.merge(found);
    }
    attributes
}
