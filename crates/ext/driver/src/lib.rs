//! ext2, ext3 and ext4 to live in.
