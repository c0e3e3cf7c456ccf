// SPDX-License-Identifier: MIT OR Apache-2.0
//! What images are filled with, each kind of content by itself.

mod directories;
mod files;
mod script;
mod special;

use std::io;
use std::path::Path;

pub use script::Script;

/// A kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Files of many sizes, a few directories, some of them removed again.
    Basic,
    /// One directory with this many entries of short names.
    Entries(u32),
    /// One directory with this many entries of names that fill the room, for deep indexes.
    LongNames(u32),
    /// Directories in directories, this deep.
    Nested(u32),
    /// A directory with this many subdirectories.
    Subdirectories(u32),
    /// Names in odd bytes and of every length.
    OddNames,
    /// Files with holes, up to the reach of triple indirect blocks.
    Sparse,
    /// A file in hundreds of fragments.
    Fragmented,
    /// The same in thousands of extents, by punching holes.
    Punched,
    /// Files with blocks allocated behind their end, and unwritten ones.
    Preallocated,
    /// Files with several names.
    HardLinks,
    /// Symbolic links, short and long.
    Symlinks,
    /// Devices, named pipes and sockets.
    Special,
    /// Attributes in the inode and in a block of their own, shared and not.
    Attributes,
    /// Attribute values that need an inode of their own.
    HugeAttributes,
    /// Access control lists.
    Acls,
    /// Files of several owners, for quota.
    Owners,
    /// Files small enough to lie in the inode.
    Tiny,
    /// Much is written and removed again, so that what lies free is not zero.
    Reuse,
    /// An encrypted directory, with the kernel's own key handling.
    Encrypted,
}

/// What every ordinary image gets.
pub const ORDINARY: &[Content] = &[
    Content::Basic,
    Content::Entries(400),
    Content::Nested(20),
    Content::OddNames,
    Content::Sparse,
    Content::Fragmented,
    Content::HardLinks,
    Content::Symlinks,
    Content::Special,
    Content::Attributes,
    Content::Acls,
    Content::Tiny,
    Content::Reuse,
];

/// Puts `contents` under `root`, each into a folder of its own.
pub fn fill(root: &Path, contents: &[Content]) -> io::Result<()> {
    contents.iter().try_for_each(|content| put(root, *content))
}

fn put(root: &Path, content: Content) -> io::Result<()> {
    match content {
        Content::Basic => files::basic(&root.join("basic")),
        Content::Entries(count) => directories::entries(&root.join("entries"), count),
        Content::LongNames(count) => directories::long_names(&root.join("long-names"), count),
        Content::Nested(depth) => directories::nested(&root.join("nested"), depth),
        Content::Subdirectories(count) => directories::subdirectories(&root.join("subdirectories"), count),
        Content::OddNames => directories::odd_names(&root.join("odd-names")),
        Content::Sparse => files::sparse(&root.join("sparse")),
        Content::Fragmented => files::fragmented(&root.join("fragmented")),
        Content::Punched => files::punched(&root.join("punched")),
        Content::Preallocated => files::preallocated(&root.join("preallocated")),
        Content::HardLinks => special::hard_links(&root.join("hard-links")),
        Content::Symlinks => special::symlinks(&root.join("symlinks")),
        Content::Special => special::devices(&root.join("special")),
        Content::Attributes => special::attributes(&root.join("attributes")),
        Content::HugeAttributes => special::huge_attributes(&root.join("huge-attributes")),
        Content::Acls => special::acls(&root.join("acls")),
        Content::Owners => special::owners(&root.join("owners")),
        Content::Tiny => files::tiny(&root.join("tiny")),
        Content::Reuse => files::reuse(&root.join("reuse")),
        Content::Encrypted => special::encrypted(root, &root.join("encrypted")),
    }
}
