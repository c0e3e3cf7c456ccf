// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether an inode holds the root of an extent tree.

use fsmend_ext_format::extent::ExtentHeader;
use fsmend_ext_format::features::Incompat;

use crate::inode::subject::Subject;

/// Whether `i_block` holds the root of an extent tree.
pub(crate) fn is_root(subject: &Subject<'_, '_>) -> bool {
    ExtentHeader::parse(&subject.raw.i_block).is_some()
}

/// Whether the file system has extents.
pub(crate) fn is_enabled(subject: &Subject<'_, '_>) -> bool {
    subject.has_incompat(Incompat::EXTENTS)
}
