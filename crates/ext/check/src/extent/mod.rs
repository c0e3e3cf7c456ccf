//! Extent trees: inspection of one inode's map.

pub mod problems;
