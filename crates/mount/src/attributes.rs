// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes as setxattr(2) and getxattr(2) ask for them: which may be set and how, and answers of the size that was asked for.

use fsmend_vfs::AttributeWrite;
use fuser::{Errno, ReplyXattr};

// Flags of setxattr(2), which reach us as they are.
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;
/// Attributes that hold access control lists.
const LISTS: &[u8] = b"system.posix_acl_";

/// How an attribute with this name is written, by the flags of setxattr(2). Of the kernel's own names only lists are taken, where the kernel obeys them.
pub(crate) fn how_to_write(name: &[u8], flags: i32, obeys_lists: bool) -> Result<AttributeWrite, Errno> {
    if name.starts_with(b"system.") && !(obeys_lists && name.starts_with(LISTS)) {
        return Err(Errno::EOPNOTSUPP);
    }
    match flags {
        0 => Ok(AttributeWrite::Any),
        XATTR_CREATE => Ok(AttributeWrite::Create),
        XATTR_REPLACE => Ok(AttributeWrite::Replace),
        _ => Err(Errno::EINVAL),
    }
}

/// The answer for one attribute. The kernel asks for lists to check permissions; in a format that has none, no file has one.
pub(crate) fn value_of(name: &[u8], value: Result<Vec<u8>, Errno>) -> Result<Vec<u8>, Errno> {
    value.map_err(|error| match error.code() == Errno::EOPNOTSUPP.code() {
        true if name.starts_with(LISTS) => Errno::NO_XATTR,
        _ => error,
    })
}

/// Names as listxattr(2) shows them: each with a zero byte behind it.
pub(crate) fn list(names: Vec<Vec<u8>>) -> Vec<u8> {
    names.into_iter().flat_map(|name| name.into_iter().chain(std::iter::once(0))).collect()
}

/// An attribute or a list of them: how long it is, or itself.
pub(crate) fn sized(answer: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match answer {
        Err(error) => reply.error(error),
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}
