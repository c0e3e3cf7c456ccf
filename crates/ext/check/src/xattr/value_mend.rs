// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has to change in inodes that hold attribute values.

/// What has to change in an inode that holds an attribute value, or says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueMend {
    /// It holds a value, but lacks the flag.
    Flag,
    /// It has the flag, but holds no value.
    Unflag,
    /// Its link count is not 1.
    Link,
    /// So many attributes refer to it.
    References(u64),
}
