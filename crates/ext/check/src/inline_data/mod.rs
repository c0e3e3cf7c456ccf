//! Data that live in the inode: `i_block` and the `system.data` attribute.

pub mod problems;
