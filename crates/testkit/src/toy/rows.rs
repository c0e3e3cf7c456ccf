// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of the toy format.

use fsmend_engine::problem_rows;

macro_rules! rows {
    ($($name:ident $code:literal $severity:ident $evidence:ident $message:literal $repair:literal $loss:tt)*) => {
        problem_rows! { $(
            #[doc = $message]
            $name = $code {
                severity: $severity, evidence: $evidence, preen: false, message: $message,
                meaning: "The toy format knows no more than the message says.", repair: $repair, loss: $loss, peers: [],
            }
        )* }
    };
}

rows! {
    SUPERBLOCK_CHECKSUM "toy.superblock.checksum" Minor Local "the checksum of the superblock is wrong" "It is set." nothing
    CHECKSUM "toy.inode.checksum" Minor Local "the checksum of {inode} is wrong" "It is set." nothing
    KIND "toy.inode.kind" Major Local "{inode} is neither a file nor a directory" "The inode is cleared." "The file."
    POINTER "toy.inode.pointer" Major Local "{inode} has a block outside of the file system" "The block becomes a hole." "The contents of the block."
    SIZE "toy.inode.size" Minor Local "{inode} has a wrong size" "The size is set from its blocks." nothing
    EMPTY_DIRECTORY "toy.directory.empty" Major Local "directory {inode} has no block" "The inode is cleared." "The directory."
    UNREADABLE "toy.inode.unreadable" Major Local "{inode} cannot be read" "Nothing." "The file."
    ENTRY "toy.entry.unusable" Major Cross "{inode} has an entry that leads nowhere: {name}" "The entry is removed." "The name."
    ENTRY_KIND "toy.entry.kind" Minor Cross "{inode} has an entry of a wrong kind: {name}" "The kind is set." nothing
    DOTS "toy.directory.dots" Minor Local "{inode} does not begin with .." "The entry is written." nothing
    MULTIPLY_CLAIMED "toy.block.multiply-claimed" Major Cross "{block} of {inode} also claimed by {others}" "Each gets a copy." "Foreign data may stay."
    NO_ROOM "toy.inode.no-room" Major Cross "no room is left for a copy of {block} of {inode}" "The file gets a hole." "The contents of the block."
    COPY_UNREADABLE "toy.inode.copy-unreadable" Major Local "{block} of {inode} cannot be read" "The file gets zeroes." "The contents of the block."
    SHARES "toy.inode.shares-blocks" Major Cross "{inode} shares {count} blocks with {others}" "It gets copies." "Foreign data may stay."
    MISMATCH "toy.inode.links" Minor Cross "{inode} stores a link count of {stored}, but has {observed} names" "The count is set." nothing
    UNATTACHED "toy.inode.unattached" Major Cross "{inode} has no name" "It gets a name in lost+found." "Its name."
    UNATTACHED_EMPTY "toy.inode.unattached-empty" Minor Cross "{inode} is empty and has no name" "It is freed." "An empty file."
    ROOT_MISSING "toy.root.missing" Major Cross "there is no root directory" "One is made." "The names in it."
    UNCONNECTED "toy.directory.unconnected" Major Cross "directory {inode} has no name" "It gets a name in lost+found." "Its name."
    LOOPED "toy.directory.looped" Major Cross "directory {inode} stands below itself" "It gets a name in lost+found." "Its name."
    PARENT_WRONG "toy.directory.parent" Minor Cross "the .. of {inode} leads to {stored} instead of {observed}" "It is set." nothing
    MARKED "toy.map.marked-but-free" Minor Cross "bits {first} to {last} of map {map} are set, but nothing is there" "They are cleared." nothing
    UNMARKED "toy.map.used-but-free" Minor Cross "bits {first} to {last} of map {map} are clear, but in use" "They are set." nothing
    FREE "toy.superblock.free" Minor Cross "the superblock says that {stored} are free, but {observed} are" "The count is set." nothing
}
