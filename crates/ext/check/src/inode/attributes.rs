// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the inspection of an inode calls that of its attributes, of its encryption and of its inline data.

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_ext_format::inode::InodeFlags;

use super::problems::INLINE_FLAG_WITHOUT_FEATURE;
use super::subject::Subject;
use crate::inline_data::{self, Outcome};
use crate::xattr::{self, BlockAttributes, EncryptionState, InInodeAttributes};

/// What the attributes of an inode come to.
#[derive(Default)]
pub(crate) struct Attributes {
    /// Its attribute block, plausible or not: what is in it is judged once for all inodes that share it.
    pub block: Option<u64>,
    /// Clusters charged to the inode for its attributes: a plausible block, and all values in inodes of their own.
    pub clusters: u64,
    /// Inodes that hold values of attributes in the inode, with the hashes of their entries.
    pub value_inodes: Vec<(InodeNo, u32)>,
    /// Bytes of data in the inode, when its data live there.
    pub inline_capacity: Option<u64>,
    in_inode: InInodeAttributes,
}

/// Inspects the attributes; `None` when the inode has to be cleared.
pub(crate) fn inspect(subject: &mut Subject<'_, '_>) -> Option<Attributes> {
    let fs = subject.fs;
    let pointer = xattr::inspect_pointer(fs, subject.inode, subject.file_acl(), &mut subject.findings);
    // What is wrong with the contents of the block is raised once, however many inodes share it.
    let block =
        pointer.map(|block| xattr::read_and_inspect_block(fs, subject.inode, block, &mut Findings::new()));
    let plausible = block.as_ref().filter(|block| block.plausible);
    if plausible.is_none() && subject.file_acl() != 0 {
        subject.raw.i_file_acl_lo.set(0);
        if !fs.geometry.hurd {
            subject.raw.i_file_acl_high.set(0);
        }
    }
    subject.store();
    let in_inode = xattr::inspect_in_inode(fs, subject.inode, &mut subject.record, &mut subject.findings);
    let readable = encryption(subject, &in_inode, plausible);
    subject.reload();
    readable.then(|| Attributes {
        block: pointer.map(|block| block.0),
        clusters: clusters(subject, &in_inode, plausible),
        value_inodes: in_inode.value_inodes.clone(),
        inline_capacity: None,
        in_inode,
    })
}

/// Checks flag and context of an encrypted inode; `false` when it can no longer be read.
fn encryption(
    subject: &mut Subject<'_, '_>,
    in_inode: &InInodeAttributes,
    block: Option<&BlockAttributes>,
) -> bool {
    let has_contents = subject.is_regular() || subject.is_directory() || subject.is_symlink();
    let has_context = in_inode.encryption_context.is_some()
        || block.is_some_and(|block| block.encryption_context.is_some());
    if !has_contents && has_context {
        // Nothing of it is encrypted.
        return true;
    }
    let (record, findings) = (&mut subject.record, &mut subject.findings);
    let state = xattr::inspect_encryption(subject.inode, record, in_inode, block, findings);
    !matches!(state, EncryptionState::Lost)
}

fn clusters(subject: &Subject<'_, '_>, in_inode: &InInodeAttributes, block: Option<&BlockAttributes>) -> u64 {
    let geometry = &subject.fs.geometry;
    let cluster_size = u64::from(geometry.block_size) * u64::from(geometry.cluster_blocks);
    let values = in_inode.charged_bytes.saturating_add(block.map_or(0, |block| block.charged_bytes));
    u64::from(block.is_some()) + values.div_ceil(cluster_size)
}

/// Inspects inline data, where the flag says that there are some; `None` when the inode has to be cleared.
pub(crate) fn inspect_inline_data(subject: &mut Subject<'_, '_>, attributes: &mut Attributes) -> Option<()> {
    if !subject.raw.has_flag(InodeFlags::INLINE_DATA) {
        return Some(());
    }
    let has_data = subject.is_regular() || subject.is_directory() || subject.is_symlink();
    subject.store();
    let outcome = if has_data {
        let (record, findings) = (&mut subject.record, &mut subject.findings);
        inline_data::inspect(subject.fs, subject.inode, record, &attributes.in_inode, findings)
    } else if subject.has_incompat(fsmend_ext_format::features::Incompat::INLINE_DATA) {
        // On anything else the flag is wrong, which is for the check of its kind.
        return Some(());
    } else {
        Outcome::NotInline
    };
    subject.reload();
    match outcome {
        Outcome::Inline(data) => attributes.inline_capacity = Some(data.capacity),
        Outcome::NotInline => {
            let problem = subject.problem(&INLINE_FLAG_WITHOUT_FEATURE);
            subject.raise(problem);
            return None;
        }
        // The flag was the mistake; what is left is judged like any other inode.
        _ => {}
    }
    Some(())
}
