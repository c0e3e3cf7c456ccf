// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inodes that hold attribute values, as all attributes together say that they have to be.

use fsmend_base::{InodeNo, width};
use fsmend_ext_format::inode::{InodeFlags, RawInode};

use super::value_mend::ValueMend;
use crate::repair::RepairContext;

impl ValueMend {
    fn apply(self, raw: &mut RawInode) {
        match self {
            ValueMend::Flag => raw.set_flag(InodeFlags::EA_INODE),
            ValueMend::Unflag => raw.clear_flag(InodeFlags::EA_INODE),
            ValueMend::Link => raw.i_links_count.set(1),
            ValueMend::References(count) => {
                raw.i_ctime.set((count >> 32) as u32);
                raw.i_version.set(width::low_u32(count));
            }
        }
    }
}

/// Mends the inodes that hold values.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    let mends: Vec<(InodeNo, ValueMend)> = std::mem::take(&mut context.repair_input.value_inodes);
    for (inode, mend) in mends {
        context.amend_inode(inode, |raw| mend.apply(raw));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_ext_format::xattr::ValueHolder;

    #[test]
    fn flags_and_references() {
        let mut raw = RawInode::from_record(&[]);
        ValueMend::Flag.apply(&mut raw);
        ValueMend::References((3 << 32) + 7).apply(&mut raw);
        assert!(raw.has_flag(InodeFlags::EA_INODE));
        assert_eq!(ValueHolder::of(&raw).references, (3 << 32) + 7);
        ValueMend::Link.apply(&mut raw);
        assert_eq!(raw.i_links_count.get(), 1);
        ValueMend::Unflag.apply(&mut raw);
        assert!(!raw.has_flag(InodeFlags::EA_INODE));
    }
}
