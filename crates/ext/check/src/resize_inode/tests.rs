//! Tests of `resize_inode`.
