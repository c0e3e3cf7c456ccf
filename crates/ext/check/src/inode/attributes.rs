//! Where the inspection of an inode calls that of its attributes and of its inline data.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_ext_format::features::{compat, incompat};
use fsmend_ext_format::inode::flags;

use super::problems::{
    ATTRIBUTE_BLOCK_WITHOUT_FEATURE, ATTRIBUTE_POINTER_WRONG, INLINE_FLAG_WITHOUT_FEATURE,
};
use super::subject::Subject;

/// What the attributes of an inode come to.
#[derive(Default)]
pub(crate) struct Attributes {
    /// Its attribute block.
    pub block: Option<u64>,
    /// Clusters charged to the inode for its attributes: the block, and all values in inodes of their own.
    pub clusters: u64,
    /// Inodes that hold values of attributes in the inode, with the hashes of their entries.
    pub value_inodes: Vec<(InodeNo, u32)>,
}

/// Inspects attributes and inline data; `None` when the inode has to be cleared.
pub(crate) fn inspect(subject: &mut Subject<'_, '_>) -> Option<Attributes> {
    let block = pointer(subject);
    // JOIN HERE (branch `xattr`): store the record, call `xattr::inspect_in_inode` and `xattr::inspect_encryption` on
    // it, and `inline_data::inspect` where the flag is set; reload.
    if subject.raw.has_flag(flags::INLINE_DATA) && !subject.has_incompat(incompat::INLINE_DATA) {
        let problem = subject.problem(&INLINE_FLAG_WITHOUT_FEATURE);
        subject.raise(problem);
        return None;
    }
    let clusters = u64::from(block.is_some());
    Some(Attributes { block, clusters, value_inodes: Vec::new() })
}

/// Judges `i_file_acl`.
fn pointer(subject: &mut Subject<'_, '_>) -> Option<u64> {
    let block = subject.raw.file_acl(subject.has_incompat(incompat::BIT64));
    if block == 0 {
        return None;
    }
    let row = if !subject.fs.geometry.features.has_compat(compat::EXT_ATTR) {
        &ATTRIBUTE_BLOCK_WITHOUT_FEATURE
    } else if !subject.fs.is_valid_block(BlockNo(block)) {
        &ATTRIBUTE_POINTER_WRONG
    } else {
        return Some(block);
    };
    let problem = subject.problem(row).stored(block);
    subject.raise(problem);
    subject.raw.i_file_acl_lo.set(0);
    subject.raw.i_file_acl_high.set(0);
    None
}
