//! Quota files against the usage that the inodes add up to.

pub mod problems;
