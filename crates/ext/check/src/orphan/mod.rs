//! Orphans: the list that starts in the superblock, and the orphan file.

pub mod problems;
