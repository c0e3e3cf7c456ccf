//! Extended attributes: in the inode, in an attribute block, in inodes of their own.

pub mod problems;
