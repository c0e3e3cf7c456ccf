// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kind of problem of UFS. Messages are those of FreeBSD's fsck_ffs; where there are none, it does not find this.

mod superblock;

use fsmend_engine::Row;

pub use superblock::{
    COPY_WRONG, DATA_SIZE, JOURNAL_DROPPED, NOT_CLEAN, RECOVERY_RECORD, SNAPSHOT_BLOCKS, SNAPSHOT_LIST,
    SUPERBLOCK_FIELD, SUPERBLOCK_HASH, SUPERBLOCK_HINT, SUPERBLOCK_REBUILT, SUPERBLOCK_REPLACED, TOTALS,
    TOTALS_STALE,
};

/// All rows.
pub fn all() -> Vec<&'static Row> {
    [superblock::ROWS, ROWS].concat()
}

fsmend_engine::problem_rows! {
    /// `ufs.group.field`.
    GROUP_FIELD = "ufs.group.field" {
        severity: Major, evidence: Local, preen: false,
        message: "cylinder {group} has cg_{field} {stored}, expected {observed}",
        meaning: "The header of the cylinder group is damaged, so its maps cannot be trusted.",
        repair: "The cylinder group is rebuilt from the inodes and directories. No file is changed.",
        loss: nothing,
        peers: [], messages: ["INTEGRITY CHECK FAILED"],
    }
    /// `ufs.group.unreadable`.
    GROUP_UNREADABLE = "ufs.group.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "the header of cylinder {group} cannot be read",
        meaning: "The device returned a read error for the block with the maps of this group.",
        repair: "The cylinder group is rebuilt from the inodes and directories. No file is changed.",
        loss: nothing,
        peers: [], messages: ["CANNOT READ BLK", "INTEGRITY CHECK FAILED"],
    }
    /// `ufs.group.hash`.
    GROUP_HASH = "ufs.group.hash" {
        severity: Minor, evidence: Local, preen: false,
        message: "cylinder {group} has a wrong check hash",
        meaning: "All fields of the header are valid; only the hash is wrong. The maps are compared with the inodes.",
        repair: "The hash is recomputed.",
        loss: nothing,
        peers: [], messages: ["INTEGRITY CHECK FAILED"],
    }
    /// `ufs.group.header`.
    GROUP_HEADER = "ufs.group.header" {
        severity: Minor, evidence: Local, preen: true,
        message: "cylinder {group} has invalid values in unused fields or rotors",
        meaning: "Some fields of the header are always zero. The rotors (cg_rotor, cg_frotor, cg_irotor) are the places where the search for free space begins. One of these fields is invalid.",
        repair: "The fields are set to zero.",
        loss: nothing,
        peers: [], messages: ["SUMMARY INFORMATION BAD"],
    }
    /// `ufs.group.free-blocks`.
    FREE_BLOCKS = "ufs.group.free-blocks" {
        severity: Minor, evidence: Cross, preen: true,
        message: "cylinder {group} counts {stored:free block:free blocks}, but {observed:is:are} free",
        meaning: "The count goes stale when the system stops without unmounting.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [], messages: ["SUMMARY INFORMATION BAD", "FREE BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.group.free-fragments`.
    FREE_FRAGMENTS = "ufs.group.free-fragments" {
        severity: Minor, evidence: Cross, preen: true,
        message: "cylinder {group} counts {stored:free fragment:free fragments}, but {observed:is:are} free",
        meaning: "The count goes stale when the system stops without unmounting.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [], messages: ["SUMMARY INFORMATION BAD", "FREE BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.group.free-inodes`.
    FREE_INODES = "ufs.group.free-inodes" {
        severity: Minor, evidence: Cross, preen: true,
        message: "cylinder {group} counts {stored:free inode:free inodes}, but {observed:is:are} free",
        meaning: "The count goes stale when the system stops without unmounting.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [], messages: ["SUMMARY INFORMATION BAD", "FREE BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.group.directories`.
    DIRECTORIES = "ufs.group.directories" {
        severity: Minor, evidence: Cross, preen: true,
        message: "cylinder {group} counts {stored:directory:directories}, but has {observed}",
        meaning: "The count goes stale when the system stops without unmounting.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [], messages: ["SUMMARY INFORMATION BAD", "FREE BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.group.summary`.
    SUMMARY_COUNTS = "ufs.group.summary" {
        severity: Minor, evidence: Cross, preen: true,
        message: "cylinder {group} has {stored} in the summary area, but {observed} in its header",
        meaning: "The summary area holds a copy of the counts of every cylinder group. This one is stale or damaged.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [], messages: ["FREE BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.group.cluster-map`.
    CLUSTER_MAP = "ufs.group.cluster-map" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the map of free blocks of cylinder {group} does not match its map of free fragments",
        meaning: "The map of free blocks (clusters) speeds up the search for long runs. It follows from the map of free fragments.",
        repair: "The map is recomputed.",
        loss: nothing,
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS", "SUMMARY INFORMATION BAD"],
    }
    /// `ufs.group.run-counts`.
    RUN_COUNTS = "ufs.group.run-counts" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the counts of free runs of cylinder {group} do not match its map of free fragments",
        meaning: "The cylinder group counts runs of free fragments and blocks by length. The counts follow from the map.",
        repair: "The counts are recomputed.",
        loss: nothing,
        peers: [], messages: ["SUMMARY INFORMATION BAD"],
    }
    /// `ufs.group.map-tail`.
    MAP_TAIL = "ufs.group.map-tail" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the map of free fragments of cylinder {group} has bits set after the end of the group",
        meaning: "Bits after the last fragment of a group, and the bytes between the maps, must be zero. fsck_ffs compares them too.",
        repair: "The bits are cleared.",
        loss: nothing,
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.used-but-free`.
    FRAGMENTS_MARKED_FREE = "ufs.group.used-but-free" {
        severity: Major, evidence: Cross, preen: true,
        message: "{block} of cylinder {group} in use, but marked free",
        meaning: "Files own these fragments. A mounted file system could allocate them again and overwrite the data in them.",
        repair: "The fragments are marked in use. No file is changed.",
        loss: nothing,
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.free-but-used`.
    FRAGMENTS_LEAKED = "ufs.group.free-but-used" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{block} of cylinder {group} marked in use, but owned by nothing",
        meaning: "No file uses these fragments, so their space is wasted.",
        repair: "The fragments are marked free. No file is changed.",
        loss: nothing,
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.fragments-left`.
    FRAGMENTS_LEFT = "ufs.group.fragments-left" {
        severity: Note, evidence: Cross, preen: true,
        message: "{block} of cylinder {group} marked in use, but owned by nothing",
        meaning: "With soft updates, a crash leaves space marked in use that no file owns. This is not damage.",
        repair: "The fragments are marked free. No file is changed.",
        loss: nothing,
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.inodes-used-but-free`.
    INODES_MARKED_FREE = "ufs.group.inodes-used-but-free" {
        severity: Major, evidence: Cross, preen: true,
        message: "{count:inode:inodes} of cylinder {group} from {inode} on in use, but marked free",
        meaning: "A mounted file system could allocate these inodes again and overwrite the files.",
        repair: "The inodes are marked in use. No file is changed.",
        loss: nothing,
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.inodes-free-but-used`.
    INODES_LEAKED = "ufs.group.inodes-free-but-used" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{count:inode:inodes} of cylinder {group} from {inode} on marked in use, but free",
        meaning: "The inodes are free, but cannot be used until the map is corrected.",
        repair: "The inodes are marked free. No file is changed.",
        loss: nothing,
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.inodes-left`.
    INODES_LEFT = "ufs.group.inodes-left" {
        severity: Note, evidence: Cross, preen: true,
        message: "{count:inode:inodes} of cylinder {group} from {inode} on marked in use, but free",
        meaning: "With soft updates, a crash leaves free inodes marked in use. This is not damage.",
        repair: "The inodes are marked free. No file is changed.",
        loss: nothing,
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.inode.unreadable`.
    INODE_UNREADABLE = "ufs.inode.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} cannot be read",
        meaning: "The device returned a read error for the block with this inode.",
        repair: "The inode is treated as free. Names that point to it are removed.",
        loss: "The file, if there was one. Copy the device with a rescue tool first: it may still be able to read the block.",
        peers: [], messages: ["CANNOT READ BLK"],
    }
    /// `ufs.inode.hash`.
    INODE_HASH = "ufs.inode.hash" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has a wrong check hash; its fields are valid",
        meaning: "The inode was changed without updating the hash, or a bit is wrong that no other check can detect.",
        repair: "The hash is recomputed.",
        loss: nothing,
        peers: [], messages: ["INODE CHECK-HASH FAILED"],
    }
    /// `ufs.inode.partly-allocated`.
    FREE_WITH_REMAINS = "ufs.inode.partly-allocated" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} is free, but has a size or block pointers",
        meaning: "The inode was not cleared completely, or it was overwritten: it has no link, or its pointers are not those of a file.",
        repair: "The inode is cleared.",
        loss: "The file, if the inode was overwritten.",
        peers: [], messages: ["PARTIALLY ALLOCATED INODE"],
    }
    /// `ufs.inode.reserved`.
    RESERVED_IN_USE = "ufs.inode.reserved" {
        severity: Major, evidence: Local, preen: false,
        message: "reserved {inode} is in use",
        meaning: "Inodes 0 and 1 never hold files.",
        repair: "The inode is cleared.",
        loss: "The contents of the inode.",
        peers: [], messages: [],
    }
    /// `ufs.inode.type`.
    TYPE_UNKNOWN = "ufs.inode.type" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has invalid mode {stored}",
        meaning: "The type bits of the mode are damaged, or the mode of an inode with links and valid block pointers is 0.",
        repair: "If the first entry proves a directory, the inode becomes a directory again, and a short symbolic link if it holds the target of one. Otherwise an inode with \
                 blocks, or with neither blocks nor a size, becomes a regular file, and any other is cleared. A mode of 0 becomes that of a file for its owner only.",
        loss: "The type of the file. A device, a FIFO or a socket becomes an empty file, or is lost.",
        peers: [], messages: ["UNKNOWN FILE TYPE"],
    }
    /// `ufs.inode.link-empty`.
    LINK_EMPTY = "ufs.inode.link-empty" {
        severity: Major, evidence: Local, preen: false,
        message: "symbolic link {inode} has no target",
        meaning: "The target of a symbolic link has at least one character.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The symbolic link.",
        peers: [], messages: [],
    }
    /// `ufs.inode.special-size`.
    SPECIAL_SIZE = "ufs.inode.special-size" {
        severity: Minor, evidence: Local, preen: false,
        message: "special file {inode} has size {stored}, should be 0",
        meaning: "Devices, FIFOs and sockets hold no data.",
        repair: "The size is set to 0.",
        loss: nothing,
        peers: [], messages: ["BAD SPECIAL-FILE SIZE"],
    }
    /// `ufs.inode.device-none`.
    DEVICE_NONE = "ufs.inode.device-none" {
        severity: Minor, evidence: Local, preen: false,
        message: "device {inode} has no device number",
        meaning: "The number stands for no device: the device file cannot be opened.",
        repair: "The inode is cleared. The names that lead to it are removed.",
        loss: "The device file. It has no contents.",
        peers: [], messages: ["BAD SPECIAL-FILE RDEV"],
    }
    /// `ufs.inode.pointer-bad`.
    POINTER_BAD = "ufs.inode.pointer-bad" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has an invalid pointer for logical block {index}: fragment {stored}",
        meaning: "The fragment is outside the file system, holds metadata, or does not begin where a block can begin.",
        repair: "The pointer is cleared. The file has a hole there, which reads as zeros.",
        loss: "The contents of that block; if it is an indirect block, of all blocks that it mapped.",
        peers: [], messages: ["BAD"],
    }
    /// `ufs.inode.pointer-stray`.
    POINTER_STRAY = "ufs.inode.pointer-stray" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has {count:block pointer:block pointers} after the end of the file",
        meaning: "Size and block count agree with each other and contradict the pointers. The pointers were overwritten.",
        repair: "The pointers are cleared.",
        loss: nothing,
        peers: [], messages: ["INVALID DIRECT BLOCK", "INVALID INDIRECT BLOCK", "PARTIALLY TRUNCATED INODE"],
    }
    /// `ufs.inode.map-crowded`.
    MAP_CROWDED = "ufs.inode.map-crowded" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} shares more blocks with other files than there are free blocks to copy them to",
        meaning: "Many files claim the same blocks. The image was crafted, or one inode was copied over many others. There is no space for a copy for every file.",
        repair: "The inode is cleared and the names that point to it are removed. The first files that claim the blocks keep them.",
        loss: "The file.",
        peers: [], messages: ["EXCESSIVE DUP BLKS", "DUP I="],
    }
    /// `ufs.inode.indirect-unreadable`.
    INDIRECT_UNREADABLE = "ufs.inode.indirect-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "the indirect block of {inode} in fragment {stored}, for logical block {index}, cannot be read",
        meaning: "The device returned a read error.",
        repair: "The pointer to it is cleared. The file has a hole there, which reads as zeros.",
        loss: "The contents of all blocks that it mapped.",
        peers: [], messages: ["CANNOT READ BLK"],
    }
    /// `ufs.inode.indirect-order`.
    INDIRECT_ORDER = "ufs.inode.indirect-order" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has its indirect blocks in the wrong order",
        meaning: "The pointers to the single, double and triple indirect block are exchanged. In another order all pointers are valid and match the block count.",
        repair: "The pointers are put into the right order.",
        loss: nothing,
        peers: [], messages: [],
    }
    /// `ufs.inode.map-too-large`.
    MAP_TOO_LARGE = "ufs.inode.map-too-large" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has size {stored} and claims more fragments than the file system has",
        meaning: "Its pointers lead to the same blocks again and again.",
        repair: "The file is truncated where its claims reach the size of the file system.",
        loss: "The contents of the file after that place.",
        peers: [], messages: ["EXCESSIVE DUP BLKS"],
    }
    /// `ufs.inode.size-impossible`.
    SIZE_IMPOSSIBLE = "ufs.inode.size-impossible" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has size {stored}, which is impossible; its blocks end at {observed}",
        meaning: "The size was overwritten. The blocks show where the file ends, to within a fragment.",
        repair: "The size is set to the end of the last block.",
        loss: "Nothing. The file may end with zeros.",
        peers: [], messages: ["BAD FILE SIZE", "NEGATIVE FILE SIZE"],
    }
    /// `ufs.inode.size-too-large`.
    SIZE_TOO_LARGE = "ufs.inode.size-too-large" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} has size {stored}, but its last block ends at {observed}",
        meaning: "The last block of a file is always allocated, so the size is wrong.",
        repair: "The size is set to the end of the last block.",
        loss: "Nothing. The file may end with zeros.",
        peers: [], messages: ["BEYOND END OF ALLOCATED FILE", "INCORRECT BLOCK COUNT"],
    }
    /// `ufs.inode.size-too-small`.
    SIZE_TOO_SMALL = "ufs.inode.size-too-small" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has size {stored}, but its blocks and block count reach to {observed}",
        meaning: "The block count includes blocks after the end, so the size is wrong.",
        repair: "The size is set to the end of the last block.",
        loss: "Nothing. The file may end with zeros.",
        peers: [], messages: ["INVALID DIRECT BLOCK", "INVALID INDIRECT BLOCK"],
    }
    /// `ufs.inode.sectors`.
    SECTORS = "ufs.inode.sectors" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has block count {stored}, should be {observed}",
        meaning: "The count (di_blocks, in sectors) was not updated before the system stopped, or is damaged.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [], messages: ["INCORRECT BLOCK COUNT"],
    }
    /// `ufs.inode.attributes-place`.
    ATTRIBUTES_PLACE = "ufs.inode.attributes-place" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has an invalid size or invalid blocks for its extended attributes ({stored:byte:bytes})",
        meaning: "The size of the attributes does not match their two block pointers, or the pointers are invalid.",
        repair: "The attributes are removed.",
        loss: "The extended attributes and access control lists of this file.",
        peers: [], messages: ["INCORRECT BLOCK COUNT", "BAD"],
    }
    /// `ufs.inode.attributes-contents`.
    ATTRIBUTES_CONTENTS = "ufs.inode.attributes-contents" {
        severity: Major, evidence: Local, preen: false,
        message: "the extended attributes of {inode} are invalid after {observed} of {stored} bytes",
        meaning: "Each attribute holds its length, which gives the start of the next one. One of them is damaged.",
        repair: "The attributes before that place are kept. The others are removed.",
        loss: "The extended attributes after the damage.",
        peers: [], messages: [],
    }
    /// `ufs.block.multiply-claimed`.
    MULTIPLY_CLAIMED = "ufs.block.multiply-claimed" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block} of {inode} also claimed by {others}",
        meaning: "Two files, or one file twice, claim the same fragments. At most one owner has its own data there.",
        repair: "The inode with the lowest number keeps the fragments. Every other one gets a copy.",
        loss: "Nothing by this repair. The files may hold data of another file in these fragments.",
        peers: [], messages: ["DUP"],
    }
    /// `ufs.inode.shares-blocks`.
    SHARES = "ufs.inode.shares-blocks" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} shares {count:fragment:fragments} with {others}",
        meaning: "The file and other owners claim the same fragments. The last writer has its data there.",
        repair: "The inode with the lowest number keeps the fragments. Every other one gets a copy.",
        loss: "Nothing by this repair. The shared fragments may hold data of another file.",
        peers: [], messages: ["DUP/BAD", "BAD/DUP"],
    }
    /// `ufs.inode.no-room`.
    NO_ROOM = "ufs.inode.no-room" {
        severity: Major, evidence: Cross, preen: false,
        message: "there is no space to copy {block} of {inode}",
        meaning: "Several files claim these fragments, and the file system is full.",
        repair: "The file has a hole there, which reads as zeros.",
        loss: "The contents of that block in this file.",
        peers: [], messages: [],
    }
    /// `ufs.inode.copy-unreadable`.
    COPY_UNREADABLE = "ufs.inode.copy-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} of {inode} cannot be read and cannot be copied",
        meaning: "Several files claim these fragments, and the device returned a read error for them.",
        repair: "The file gets zeros instead.",
        loss: "The contents of that block in this file.",
        peers: [], messages: [],
    }
    /// `ufs.directory.size`.
    DIRECTORY_SIZE = "ufs.directory.size" {
        severity: Minor, evidence: Local, preen: true,
        message: "directory {inode} has size {stored}, which is not a multiple of 512",
        meaning: "A directory consists of chunks of 512 bytes.",
        repair: "The size is rounded up to a multiple of 512. Invalid chunks are cleared.",
        loss: nothing,
        peers: [], messages: ["NOT MULTIPLE OF"],
    }
    /// `ufs.directory.hole`.
    DIRECTORY_HOLE = "ufs.directory.hole" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has a hole of {count:block:blocks}",
        meaning: "A directory must not have holes. A block pointer was lost.",
        repair: "The last blocks of the directory are moved into the hole. The directory becomes shorter.",
        loss: "The names in the missing blocks. Their files are reconnected to lost+found.",
        peers: [], messages: ["CONTAINS EMPTY BLOCKS"],
    }
    /// `ufs.directory.empty`.
    DIRECTORY_EMPTY = "ufs.directory.empty" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has no contents",
        meaning: "Its first block was lost, or its size is 0.",
        repair: "The directory is removed. Files that were in it are reconnected to lost+found.",
        loss: "The names in the directory.",
        peers: [], messages: ["ZERO LENGTH DIRECTORY", "DIRECTORY TOO SHORT"],
    }
    /// `ufs.directory.unreadable`.
    CHUNK_UNREADABLE = "ufs.directory.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "chunk {chunk} of directory {inode} cannot be read",
        meaning: "The device returned a read error for these 512 bytes.",
        repair: "The chunk is replaced by an empty one.",
        loss: "The names in the chunk. Their files are reconnected to lost+found.",
        peers: [], messages: ["CANNOT READ BLK", "DIRECTORY CORRUPTED"],
    }
    /// `ufs.directory.broken`.
    CHUNK_BROKEN = "ufs.directory.broken" {
        severity: Major, evidence: Local, preen: false,
        message: "chunk {chunk} of directory {inode} is damaged; {kept:entry:entries} can be read",
        meaning: "An entry of the chunk has an invalid length or name.",
        repair: "The chunk is rewritten with the valid entries before and after the damage, and with a damaged one if the rest of it tells \
                 what it was; '_' stands in its name for a byte that no name has.",
        loss: "The names that cannot be read. Their files are reconnected to lost+found.",
        peers: [], messages: ["DIRECTORY CORRUPTED"],
    }
    /// `ufs.directory.dot`.
    DOT_WRONG = "ufs.directory.dot" {
        severity: Minor, evidence: Local, preen: false,
        message: "directory {inode} has no valid '.' entry",
        meaning: "The first entry of a directory must be '.' and point to the directory itself.",
        repair: "The entry is rewritten.",
        loss: nothing,
        peers: [], messages: ["BAD INODE NUMBER FOR '.'", "BAD TYPE VALUE FOR '.'", "MISSING '.'"],
    }
    /// `ufs.directory.dot-dot`.
    DOT_DOT_WRONG = "ufs.directory.dot-dot" {
        severity: Minor, evidence: Local, preen: false,
        message: "directory {inode} has no valid '..' entry",
        meaning: "The second entry of a directory must be '..' and point to its parent. This one is damaged, or does not point to a directory.",
        repair: "The entry is rewritten and points to the directory that holds the name.",
        loss: nothing,
        peers: [], messages: ["BAD INODE NUMBER FOR '..'", "BAD TYPE VALUE FOR '..'", "MISSING '..'"],
    }
    /// `ufs.directory.dot-extra`.
    DOT_EXTRA = "ufs.directory.dot-extra" {
        severity: Minor, evidence: Local, preen: false,
        message: "directory {inode} has a duplicate {name} entry",
        meaning: "Only the first two entries of a directory may be named '.' and '..'.",
        repair: "The duplicate entry is removed.",
        loss: nothing,
        peers: [], messages: ["EXTRA '.' ENTRY", "EXTRA '..' ENTRY"],
    }
    /// `ufs.directory.entry-twice`.
    ENTRY_TWICE = "ufs.directory.entry-twice" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has the name {name} more than once, each time for inode {stored}",
        meaning: "The same entry was written twice.",
        repair: "The duplicate entry is removed.",
        loss: nothing,
        peers: [], messages: [],
    }
    /// `ufs.directory.name-twice`.
    NAME_TWICE = "ufs.directory.name-twice" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has the name {name} more than once, for different inodes ({stored} and {observed})",
        meaning: "Only the first of two equal names can be opened.",
        repair: "The duplicate entry is renamed. Both files are kept.",
        loss: "Nothing but the old name of one of the files.",
        peers: [], messages: [],
    }
    /// `ufs.directory.name-no-room`.
    NAME_NO_ROOM = "ufs.directory.name-no-room" {
        severity: Major, evidence: Local, preen: false,
        message: "there is no space for the name {name} of directory {inode} in chunk {chunk} beside '.' and '..'",
        meaning: "The start of the directory was overwritten by this name.",
        repair: "The name is removed. A file with no other name is reconnected to lost+found.",
        loss: "The name.",
        peers: [], messages: ["CANNOT FIX, FIRST ENTRY IN DIRECTORY CONTAINS", "CANNOT FIX, SECOND ENTRY IN DIRECTORY CONTAINS"],
    }
    /// `ufs.directory.whiteout`.
    WHITEOUT = "ufs.directory.whiteout" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{name} in directory {inode} is an incomplete whiteout",
        meaning: "A whiteout has inode 1 and file type 14. This entry has only one of them.",
        repair: "The entry is made a whiteout.",
        loss: nothing,
        peers: [], messages: ["BAD WHITEOUT ENTRY"],
    }
    /// `ufs.directory.entry-type`.
    ENTRY_TYPE = "ufs.directory.entry-type" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{name} in directory {inode} has file type {stored}, should be {observed}",
        meaning: "A directory entry holds the file type of its inode.",
        repair: "The type is corrected.",
        loss: nothing,
        peers: [], messages: ["BAD TYPE VALUE"],
    }
    /// `ufs.directory.entry-unused`.
    ENTRY_UNUSED = "ufs.directory.entry-unused" {
        severity: Major, evidence: Cross, preen: false,
        message: "{name} in directory {inode} points to inode {stored}, which is not in use",
        meaning: "The inode was lost, or the entry is damaged.",
        repair: "The entry is removed.",
        loss: "The name. The inode it points to is unused.",
        peers: [], messages: ["I OUT OF RANGE", "UNALLOCATED"],
    }
    /// `ufs.directory.second-name`.
    DIRECTORY_SECOND_NAME = "ufs.directory.second-name" {
        severity: Major, evidence: Cross, preen: true,
        message: "{name} in directory {inode} is a second name of directory {stored}",
        meaning: "A directory can have only one name.",
        repair: "The second name is removed. The other one is kept.",
        loss: "The second name.",
        peers: [], messages: ["IS AN EXTRANEOUS HARD LINK TO DIRECTORY"],
    }
    /// `ufs.directory.depth`.
    DEPTH = "ufs.directory.depth" {
        severity: Note, evidence: Cross, preen: true,
        message: "directory {inode} is {observed:level:levels} below the root, but di_dirdepth says {stored}",
        meaning: "The kernel uses the depth to choose a cylinder group for a new directory. A wrong one harms no file.",
        repair: "The depth is corrected.",
        loss: nothing,
        peers: [], messages: [],
    }
    /// `ufs.inode.links`.
    LINKS = "ufs.inode.links" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} has link count {stored}, but {observed:name points:names point} to it",
        meaning: "If the link count is too low, deleting one name deletes the file. If it is too high, its space is never freed.",
        repair: "The link count is set to the number of names.",
        loss: nothing,
        peers: [], messages: ["LINK COUNT"],
    }
    /// `ufs.inode.links-left`.
    LINKS_LEFT = "ufs.inode.links-left" {
        severity: Note, evidence: Cross, preen: true,
        message: "{inode} has link count {stored}, but {observed:name points:names point} to it",
        meaning: "With soft updates, a crash leaves link counts that are too high. This is not damage.",
        repair: "The link count is set to the number of names.",
        loss: nothing,
        peers: [], messages: ["LINK COUNT"],
    }
    /// `ufs.inode.unattached`.
    UNATTACHED = "ufs.inode.unattached" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} is in use, but no name points to it",
        meaning: "Its directory entry was lost, or not yet written when the system stopped.",
        repair: "The file is reconnected to lost+found.",
        loss: "Its name.",
        peers: [], messages: ["UNREF"],
    }
    /// `ufs.inode.unattached-left`.
    UNATTACHED_LEFT = "ufs.inode.unattached-left" {
        severity: Note, evidence: Cross, preen: true,
        message: "{inode} is in use, but no name points to it",
        meaning: "With soft updates, a crash leaves files whose names were not yet written.",
        repair: "The file is reconnected to lost+found.",
        loss: "Its name.",
        peers: [], messages: ["UNREF"],
    }
    /// `ufs.inode.unreferenced`.
    UNREFERENCED = "ufs.inode.unreferenced" {
        severity: Note, evidence: Cross, preen: true,
        message: "{inode} has no name, and was removed or is empty",
        meaning: "Its last name was removed while the file was open, or it has no contents.",
        repair: "The inode is freed.",
        loss: nothing,
        peers: [], messages: ["UNREF"],
    }
    /// `ufs.quota.usage`.
    QUOTA_USAGE = "ufs.quota.usage" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{kind} quota of {owner} in {inode} is {stored} {what}, should be {observed}",
        meaning: "The quota file records the space and inodes in use by each user or group. With a wrong number an owner can use more or less than the limit.",
        repair: "The number is corrected. Limits are kept.",
        loss: nothing,
        peers: [], messages: [],
    }
    /// `ufs.quota.usage-stale`.
    QUOTA_STALE = "ufs.quota.usage-stale" {
        severity: Note, evidence: Cross, preen: true,
        message: "{kind} quota of {owner} in {inode} is {stored} {what}, should be {observed}",
        meaning: "After a crash the numbers in quota files are stale. FreeBSD runs quotacheck(8) before it turns quotas on.",
        repair: "The number is corrected. Limits are kept.",
        loss: nothing,
        peers: [], messages: [],
    }
    /// `ufs.quota.header`.
    QUOTA_HEADER = "ufs.quota.header" {
        severity: Minor, evidence: Local, preen: true,
        message: "quota file {inode} has a damaged header",
        meaning: "The version or the sizes in the header are invalid. Quotas cannot be turned on.",
        repair: "The header is rewritten.",
        loss: nothing,
        peers: [], messages: [],
    }
    /// `ufs.root.missing`.
    ROOT_MISSING = "ufs.root.missing" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the root directory is missing",
        meaning: "Inode 2 is not in use or is not a directory.",
        repair: "An empty root directory is created. The contents of the old one are reconnected to lost+found.",
        loss: "The names in the root directory.",
        peers: [], messages: ["ROOT INODE UNALLOCATED", "ROOT INODE NOT DIRECTORY"],
    }
    /// `ufs.directory.unconnected`.
    UNCONNECTED = "ufs.directory.unconnected" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode} has no name ('..' points to inode {stored})",
        meaning: "The directory entry that pointed to it was lost.",
        repair: "The directory is reconnected to lost+found.",
        loss: "Its name and location. Its contents are kept.",
        peers: [], messages: ["UNREF"],
    }
    /// `ufs.directory.unconnected-left`.
    UNCONNECTED_LEFT = "ufs.directory.unconnected-left" {
        severity: Note, evidence: Cross, preen: true,
        message: "directory {inode} has no name ('..' points to inode {stored})",
        meaning: "With soft updates, a crash leaves directories whose names were not yet written.",
        repair: "The directory is reconnected to lost+found.",
        loss: "Its name and location. Its contents are kept.",
        peers: [], messages: ["UNREF"],
    }
    /// `ufs.directory.looped`.
    LOOPED = "ufs.directory.looped" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode} is contained in itself",
        meaning: "Its chain of parents is a loop that does not reach the root, so no path leads to it.",
        repair: "The loop is broken and the directory is reconnected to lost+found.",
        loss: "Its name and location. Its contents are kept.",
        peers: [], messages: ["ORPHANED DIRECTORY LOOP DETECTED"],
    }
    /// `ufs.directory.parent`.
    PARENT_WRONG = "ufs.directory.parent" {
        severity: Minor, evidence: Cross, preen: true,
        message: "'..' in directory {inode} points to inode {stored}, should be {observed}",
        meaning: "The system stopped while the directory was moved, or the entry is damaged.",
        repair: "'..' is corrected.",
        loss: nothing,
        peers: [], messages: ["BAD INODE NUMBER FOR '..'"],
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn explanations_are_sentences_without_operands() {
        for row in super::all() {
            for text in [row.meaning, row.repair, row.loss] {
                // Operands are put into messages only: here they would be shown as they are.
                assert!(text.ends_with('.') && !text.contains('{'), "{}: {text}", row.code);
            }
            assert!(!row.message.ends_with('.'), "{}: a message has no full stop", row.code);
        }
    }
}
