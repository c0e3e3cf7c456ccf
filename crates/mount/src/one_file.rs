// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder that shows one file, `image`: what simulated devices for tests and benchmarks have in common.

use std::ffi::OsStr;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, Generation, INodeNo, ReplyEntry};

const ROOT: INodeNo = INodeNo(1);
const IMAGE: INodeNo = INodeNo(2);
/// Name of the file.
pub const NAME: &str = "image";
/// What the kernel was told stays true.
pub const BELIEVE: Duration = Duration::from_secs(3600);

/// What is known of the file.
#[derive(Clone, Copy)]
pub struct OneFile {
    pub len: u64,
    pub permissions: u16,
}

impl OneFile {
    pub fn attributes(self, inode: INodeNo) -> FileAttr {
        let is_root = inode == ROOT;
        FileAttr {
            ino: inode,
            size: if is_root { 0 } else { self.len },
            blocks: self.len.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: if is_root { 0o755 } else { self.permissions },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    pub fn lookup(self, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match (parent, name.to_str()) {
            (ROOT, Some(NAME)) => reply.entry(&BELIEVE, &self.attributes(IMAGE), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }
}
