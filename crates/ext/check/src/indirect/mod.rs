//! Indirect block maps: inspection of one inode's map.

pub mod problems;
