// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kind of problem of UFS. Messages are those of FreeBSD's fsck_ffs; where there are none, it does not find this.

mod superblock;

use fsmend_engine::Row;

pub use superblock::{
    COPY_WRONG, DATA_SIZE, JOURNAL_DROPPED, NOT_CLEAN, RECOVERY_RECORD, SNAPSHOT_BLOCKS, SNAPSHOT_LIST,
    SUPERBLOCK_FIELD, SUPERBLOCK_HASH, SUPERBLOCK_HINT, SUPERBLOCK_REPLACED, TOTALS, TOTALS_STALE,
};

/// All rows.
pub fn all() -> Vec<&'static Row> {
    [superblock::ROWS, ROWS].concat()
}

fsmend_engine::problem_rows! {
    /// `ufs.group.field`.
    GROUP_FIELD = "ufs.group.field" {
        severity: Major, evidence: Local, preen: false,
        message: "{group}: the field cg_{field} of the cylinder group holds {stored}, expected {observed}",
        meaning: "The header of the cylinder group is damaged, so its maps cannot be trusted.",
        repair: "The cylinder group is rebuilt from the inodes and directories.",
        loss: "Nothing.",
        peers: [], messages: ["INTEGRITY CHECK FAILED"],
    }
    /// `ufs.group.unreadable`.
    GROUP_UNREADABLE = "ufs.group.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{group}: the cylinder group cannot be read",
        meaning: "The device reports an error for the block with the maps of this group.",
        repair: "The cylinder group is rebuilt from the inodes and directories.",
        loss: "Nothing.",
        peers: [], messages: ["CANNOT READ BLK", "INTEGRITY CHECK FAILED"],
    }
    /// `ufs.group.hash`.
    GROUP_HASH = "ufs.group.hash" {
        severity: Minor, evidence: Local, preen: false,
        message: "{group}: the check hash of the cylinder group is wrong",
        meaning: "The header makes sense, but the hash does not match. The maps are compared with the inodes.",
        repair: "The hash is recomputed.",
        loss: "Nothing.",
        peers: [], messages: ["INTEGRITY CHECK FAILED"],
    }
    /// `ufs.group.header`.
    GROUP_HEADER = "ufs.group.header" {
        severity: Minor, evidence: Local, preen: true,
        message: "{group}: unused fields or search positions of the cylinder group make no sense",
        meaning: "The header has fields that are always zero, and positions at which the search for free space begins. One of them is out of range.",
        repair: "The fields are set to zero.",
        loss: "Nothing.",
        peers: [], messages: ["SUMMARY INFORMATION BAD"],
    }
    /// `ufs.group.free-blocks`.
    FREE_BLOCKS = "ufs.group.free-blocks" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: the cylinder group counts {stored} free blocks, but {observed} are free",
        meaning: "The count was not updated before the system stopped, or the group is damaged.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["SUMMARY INFORMATION BAD", "FREE BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.group.free-fragments`.
    FREE_FRAGMENTS = "ufs.group.free-fragments" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: the cylinder group counts {stored} free fragments, but {observed} are free",
        meaning: "The count was not updated before the system stopped, or the group is damaged.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["SUMMARY INFORMATION BAD", "FREE BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.group.free-inodes`.
    FREE_INODES = "ufs.group.free-inodes" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: the cylinder group counts {stored} free inodes, but {observed} are free",
        meaning: "The count was not updated before the system stopped, or the group is damaged.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["SUMMARY INFORMATION BAD", "FREE BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.group.directories`.
    DIRECTORIES = "ufs.group.directories" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: the cylinder group counts {stored} directories, but has {observed}",
        meaning: "The count was not updated before the system stopped, or the group is damaged.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["SUMMARY INFORMATION BAD", "FREE BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.group.summary`.
    SUMMARY_COUNTS = "ufs.group.summary" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: the summary area has {stored} where the group has {observed}",
        meaning: "The summary area repeats the counts of every cylinder group. This one is stale or damaged.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["FREE BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.group.cluster-map`.
    CLUSTER_MAP = "ufs.group.cluster-map" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: the map of free blocks does not agree with the map of free fragments",
        meaning: "The map of free blocks speeds up the search for long runs. It follows from the map of fragments.",
        repair: "The map is recomputed.",
        loss: "Nothing.",
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS", "SUMMARY INFORMATION BAD"],
    }
    /// `ufs.group.run-counts`.
    RUN_COUNTS = "ufs.group.run-counts" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: the counts of free runs do not agree with the map of free fragments",
        meaning: "The cylinder group counts runs of free fragments and blocks by length. The counts follow from the map.",
        repair: "The counts are recomputed.",
        loss: "Nothing.",
        peers: [], messages: ["SUMMARY INFORMATION BAD"],
    }
    /// `ufs.group.map-tail`.
    MAP_TAIL = "ufs.group.map-tail" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: bits behind the end of the map of fragments are set",
        meaning: "Bits behind the last fragment of a group, and the bytes between the maps, have to be zero. fsck_ffs compares them too.",
        repair: "The bits are cleared.",
        loss: "Nothing.",
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.used-but-free`.
    FRAGMENTS_MARKED_FREE = "ufs.group.used-but-free" {
        severity: Major, evidence: Cross, preen: true,
        message: "{group}: {block}, in use, marked free",
        meaning: "The map of fragments says free, but files own them. The next file that is written would overwrite them.",
        repair: "The fragments are marked in use.",
        loss: "Nothing.",
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.free-but-used`.
    FRAGMENTS_LEAKED = "ufs.group.free-but-used" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: {block} marked in use, but free",
        meaning: "The space is lost until the map is corrected.",
        repair: "The fragments are marked free.",
        loss: "Nothing.",
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.fragments-left`.
    FRAGMENTS_LEFT = "ufs.group.fragments-left" {
        severity: Note, evidence: Cross, preen: true,
        message: "{group}: {block} marked in use, but free",
        meaning: "With soft updates, a crash leaves space marked in use that no file owns. It is lost until the map is corrected.",
        repair: "The fragments are marked free.",
        loss: "Nothing.",
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.inodes-used-but-free`.
    INODES_MARKED_FREE = "ufs.group.inodes-used-but-free" {
        severity: Major, evidence: Cross, preen: true,
        message: "{group}: {count:inode:inodes} from {inode} on in use, but marked free",
        meaning: "The map of inodes says free. The next file that is created would overwrite the inode.",
        repair: "The inodes are marked in use.",
        loss: "Nothing.",
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.inodes-free-but-used`.
    INODES_LEAKED = "ufs.group.inodes-free-but-used" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: {count:inode:inodes} from {inode} on marked in use, but free",
        meaning: "The inodes cannot be used until the map is corrected.",
        repair: "The inodes are marked free.",
        loss: "Nothing.",
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.group.inodes-left`.
    INODES_LEFT = "ufs.group.inodes-left" {
        severity: Note, evidence: Cross, preen: true,
        message: "{group}: {count:inode:inodes} from {inode} on marked in use, but free",
        meaning: "With soft updates, a crash leaves inodes marked in use. They cannot be used until the map is corrected.",
        repair: "The inodes are marked free.",
        loss: "Nothing.",
        peers: [], messages: ["BLK(S) MISSING IN BIT MAPS"],
    }
    /// `ufs.inode.unreadable`.
    INODE_UNREADABLE = "ufs.inode.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} cannot be read",
        meaning: "The device reports an error for the block with this inode.",
        repair: "The inode counts as free; names that lead to it are removed.",
        loss: "The file, if there was one.",
        peers: [], messages: ["CANNOT READ BLK"],
    }
    /// `ufs.inode.hash`.
    INODE_HASH = "ufs.inode.hash" {
        severity: Minor, evidence: Local, preen: true,
        message: "the check hash of {inode} is wrong",
        meaning: "Everything in the inode makes sense; only the hash does not match.",
        repair: "The hash is recomputed.",
        loss: "Nothing.",
        peers: [], messages: ["INODE CHECK-HASH FAILED"],
    }
    /// `ufs.inode.partly-allocated`.
    FREE_WITH_REMAINS = "ufs.inode.partly-allocated" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} is free, but still has a size or block pointers",
        meaning: "The inode was not cleared completely, or its mode is lost.",
        repair: "The inode is cleared.",
        loss: "The file, if the mode was lost by damage.",
        peers: [], messages: ["PARTIALLY ALLOCATED INODE"],
    }
    /// `ufs.inode.reserved`.
    RESERVED_IN_USE = "ufs.inode.reserved" {
        severity: Major, evidence: Local, preen: false,
        message: "the reserved {inode} is in use",
        meaning: "Inodes 0 and 1 never hold files.",
        repair: "The inode is cleared.",
        loss: "What it holds.",
        peers: [], messages: [],
    }
    /// `ufs.inode.type`.
    TYPE_UNKNOWN = "ufs.inode.type" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has mode {stored}, which is no file type",
        meaning: "The type bits of the mode are damaged.",
        repair: "A directory becomes one again where its first entry proves it; an inode with blocks becomes a regular file; any other inode is cleared.",
        loss: "The type of the file. What is cleared has no blocks: a short symbolic link, a device, a pipe or a socket.",
        peers: [], messages: ["UNKNOWN FILE TYPE"],
    }
    /// `ufs.inode.link-empty`.
    LINK_EMPTY = "ufs.inode.link-empty" {
        severity: Major, evidence: Local, preen: false,
        message: "the symbolic link {inode} has no target",
        meaning: "A symbolic link has at least one character.",
        repair: "The inode is cleared.",
        loss: "The link.",
        peers: [], messages: [],
    }
    /// `ufs.inode.special-size`.
    SPECIAL_SIZE = "ufs.inode.special-size" {
        severity: Minor, evidence: Local, preen: false,
        message: "the device, pipe or socket {inode} has size {stored}",
        meaning: "Such files have no contents.",
        repair: "The size is set to 0.",
        loss: "Nothing.",
        peers: [], messages: ["BAD SPECIAL-FILE SIZE"],
    }
    /// `ufs.inode.pointer-bad`.
    POINTER_BAD = "ufs.inode.pointer-bad" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the pointer for file block {index} leads to fragment {stored}, which cannot belong to a file",
        meaning: "The address is outside of the file system, inside its own structures, or crosses a block.",
        repair: "The pointer is cleared; the file gets a hole there.",
        loss: "The contents of that block, or of all blocks below it if it is an indirect block.",
        peers: [], messages: ["BAD"],
    }
    /// `ufs.inode.pointer-stray`.
    POINTER_STRAY = "ufs.inode.pointer-stray" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has {count:block pointer:block pointers} behind its end",
        meaning: "Nothing else says that the file was longer: size and block count agree.",
        repair: "The pointers are cleared.",
        loss: "Nothing.",
        peers: [], messages: ["INVALID DIRECT BLOCK", "INVALID INDIRECT BLOCK", "PARTIALLY TRUNCATED INODE"],
    }
    /// `ufs.inode.map-crowded`.
    MAP_CROWDED = "ufs.inode.map-crowded" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} shares more blocks with other files than there are free blocks to copy them to",
        meaning: "Many files claim the same blocks. The image is crafted, or one inode was copied over many others. Not every file can get its own copy.",
        repair: "The inode is cleared and the names that point to it are removed. The first files that claim the blocks keep them.",
        loss: "The file.",
        peers: [], messages: ["EXCESSIVE DUP BLKS", "DUP I="],
    }
    /// `ufs.inode.indirect-unreadable`.
    INDIRECT_UNREADABLE = "ufs.inode.indirect-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the indirect block in fragment {stored}, for file block {index}, cannot be read",
        meaning: "The device reports an error for a block with pointers.",
        repair: "The pointer to it is cleared; the file gets a hole there.",
        loss: "The contents of all blocks below it.",
        peers: [], messages: ["CANNOT READ BLK"],
    }
    /// `ufs.inode.indirect-order`.
    INDIRECT_ORDER = "ufs.inode.indirect-order" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: its indirect blocks stand in the wrong order",
        meaning: "The pointers to the blocks of one, two and three levels are exchanged. In another order all pointers make sense and add up to the count of sectors.",
        repair: "The pointers are put in the right order.",
        loss: "Nothing.",
        peers: [], messages: [],
    }
    /// `ufs.inode.map-too-large`.
    MAP_TOO_LARGE = "ufs.inode.map-too-large" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has size {stored} and claims more fragments than the file system has",
        meaning: "Its pointers lead to the same blocks again and again.",
        repair: "The file ends where its claims reach the size of the file system.",
        loss: "What lies behind that place.",
        peers: [], messages: ["EXCESSIVE DUP BLKS"],
    }
    /// `ufs.inode.size-impossible`.
    SIZE_IMPOSSIBLE = "ufs.inode.size-impossible" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has size {stored}, more than is possible; its blocks end at {observed}",
        meaning: "The size is damaged. The blocks tell where the file ends, to within a fragment.",
        repair: "The size is set to the end of the last block.",
        loss: "Nothing. The file may end with zeroes.",
        peers: [], messages: ["BAD FILE SIZE", "NEGATIVE FILE SIZE"],
    }
    /// `ufs.inode.size-too-large`.
    SIZE_TOO_LARGE = "ufs.inode.size-too-large" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} has size {stored}, but its last block ends at {observed}",
        meaning: "The last block of a file is always allocated, so the size is wrong.",
        repair: "The size is set to the end of the last block.",
        loss: "Nothing. The file may end with zeroes.",
        peers: [], messages: ["BEYOND END OF ALLOCATED FILE", "INCORRECT BLOCK COUNT"],
    }
    /// `ufs.inode.size-too-small`.
    SIZE_TOO_SMALL = "ufs.inode.size-too-small" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has size {stored}, but its blocks and its block count reach to {observed}",
        meaning: "The block count knows of blocks behind the end, so the size is wrong.",
        repair: "The size is set to the end of the last block.",
        loss: "Nothing. The file may end with zeroes.",
        peers: [], messages: ["INVALID DIRECT BLOCK", "INVALID INDIRECT BLOCK"],
    }
    /// `ufs.inode.sectors`.
    SECTORS = "ufs.inode.sectors" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} counts {stored} sectors, but holds {observed}",
        meaning: "The count was not updated before the system stopped, or it is damaged.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["INCORRECT BLOCK COUNT"],
    }
    /// `ufs.inode.attributes-place`.
    ATTRIBUTES_PLACE = "ufs.inode.attributes-place" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: its extended attributes, {stored} bytes, have a size or blocks that cannot be right",
        meaning: "The size of the attributes and their two block pointers do not fit together, or lead to blocks that cannot belong to a file.",
        repair: "The attributes are removed.",
        loss: "The extended attributes and access list of this file.",
        peers: [], messages: ["INCORRECT BLOCK COUNT", "BAD"],
    }
    /// `ufs.inode.attributes-contents`.
    ATTRIBUTES_CONTENTS = "ufs.inode.attributes-contents" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: its extended attributes make no sense after {observed} of {stored} bytes",
        meaning: "Each attribute has a length that leads to the next one; one of them is damaged.",
        repair: "The attributes before that place stay; the rest is removed.",
        loss: "The extended attributes behind the damage.",
        peers: [], messages: [],
    }
    /// `ufs.block.multiply-claimed`.
    MULTIPLY_CLAIMED = "ufs.block.multiply-claimed" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: {block} also claimed by {others}",
        meaning: "Two files, or a file twice, point to the same fragments. At most one of them is right.",
        repair: "The inode with the lowest number keeps the fragments; every other one gets a copy.",
        loss: "Nothing by the repair. One of the files holds contents of the other.",
        peers: [], messages: ["DUP"],
    }
    /// `ufs.inode.shares-blocks`.
    SHARES = "ufs.inode.shares-blocks" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} shares {count:fragment:fragments} with {others}",
        meaning: "Its map points to fragments that another file claims, too (ufs.block.multiply-claimed).",
        repair: "The inode with the lowest number keeps the fragments; every other one gets a copy.",
        loss: "Nothing by the repair. Its contents may be those of another file.",
        peers: [], messages: ["DUP/BAD", "BAD/DUP"],
    }
    /// `ufs.inode.no-room`.
    NO_ROOM = "ufs.inode.no-room" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: no space is left for a copy of {block}",
        meaning: "The fragments belong to several files, and the file system is full.",
        repair: "The file gets a hole there.",
        loss: "The contents of that block in this file.",
        peers: [], messages: [],
    }
    /// `ufs.inode.copy-unreadable`.
    COPY_UNREADABLE = "ufs.inode.copy-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: {block} cannot be read and is copied as zeroes",
        meaning: "The fragments belong to several files, and the device reports an error for them.",
        repair: "The copy holds zeroes.",
        loss: "The contents of that block in this file.",
        peers: [], messages: [],
    }
    /// `ufs.directory.size`.
    DIRECTORY_SIZE = "ufs.directory.size" {
        severity: Minor, evidence: Local, preen: true,
        message: "directory {inode} has size {stored}, which is no multiple of 512",
        meaning: "Directories are made of chunks of 512 bytes.",
        repair: "The size is rounded up to {observed}; chunks that make no sense are cleared.",
        loss: "Nothing.",
        peers: [], messages: ["NOT MULTIPLE OF"],
    }
    /// `ufs.directory.hole`.
    DIRECTORY_HOLE = "ufs.directory.hole" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has {count:block:blocks} missing",
        meaning: "Directories have no holes: a block pointer is lost.",
        repair: "The blocks behind the hole move forward. Behind the twelfth block the directory ends at the hole.",
        loss: "The names in the missing blocks; the files go to lost+found.",
        peers: [], messages: ["CONTAINS EMPTY BLOCKS"],
    }
    /// `ufs.directory.empty`.
    DIRECTORY_EMPTY = "ufs.directory.empty" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has no contents",
        meaning: "Its first block is lost, or its size is 0.",
        repair: "The directory is cleared; what was in it goes to lost+found.",
        loss: "The names in it.",
        peers: [], messages: ["ZERO LENGTH DIRECTORY", "DIRECTORY TOO SHORT"],
    }
    /// `ufs.directory.unreadable`.
    CHUNK_UNREADABLE = "ufs.directory.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode}: chunk {chunk} cannot be read",
        meaning: "The device reports an error for these 512 bytes.",
        repair: "The chunk is cleared; the files go to lost+found.",
        loss: "The names in it.",
        peers: [], messages: ["CANNOT READ BLK", "DIRECTORY CORRUPTED"],
    }
    /// `ufs.directory.broken`.
    CHUNK_BROKEN = "ufs.directory.broken" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode}: chunk {chunk} is damaged; {kept:entry:entries} can be read",
        meaning: "An entry of the chunk has a length or a name that makes no sense.",
        repair: "The chunk is rewritten with the entries on both sides of the damage.",
        loss: "The damaged names; their files go to lost+found.",
        peers: [], messages: ["DIRECTORY CORRUPTED"],
    }
    /// `ufs.directory.dot`.
    DOT_WRONG = "ufs.directory.dot" {
        severity: Minor, evidence: Local, preen: false,
        message: "directory {inode} does not begin with an entry . that leads to itself",
        meaning: "The first entry of a directory is damaged.",
        repair: "The entry is rewritten.",
        loss: "Nothing.",
        peers: [], messages: ["BAD INODE NUMBER FOR '.'", "BAD TYPE VALUE FOR '.'", "MISSING '.'"],
    }
    /// `ufs.directory.dot-dot`.
    DOT_DOT_WRONG = "ufs.directory.dot-dot" {
        severity: Minor, evidence: Local, preen: false,
        message: "directory {inode} has no second entry .. that leads to a directory",
        meaning: "The second entry of a directory is damaged, or leads to {stored}, which is no directory.",
        repair: "The entry is rewritten and leads to the directory that holds the name.",
        loss: "Nothing.",
        peers: [], messages: ["BAD INODE NUMBER FOR '..'", "BAD TYPE VALUE FOR '..'", "MISSING '..'"],
    }
    /// `ufs.directory.dot-extra`.
    DOT_EXTRA = "ufs.directory.dot-extra" {
        severity: Minor, evidence: Local, preen: false,
        message: "directory {inode} has another entry {name}",
        meaning: "The names . and .. stand at the start of a directory only.",
        repair: "The entry is removed.",
        loss: "Nothing.",
        peers: [], messages: ["EXTRA '.' ENTRY", "EXTRA '..' ENTRY"],
    }
    /// `ufs.directory.name-twice`.
    NAME_TWICE = "ufs.directory.name-twice" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has the name {name} twice",
        meaning: "Only the first of two equal names can be opened.",
        repair: "The second name is removed; a file without another name goes to lost+found.",
        loss: "The second name.",
        peers: [], messages: [],
    }
    /// `ufs.directory.name-no-room`.
    NAME_NO_ROOM = "ufs.directory.name-no-room" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode}: the name {name} finds no room in chunk {chunk} beside . and ..",
        meaning: "The start of the directory was overwritten by this name.",
        repair: "The name is removed; a file without another name goes to lost+found.",
        loss: "The name.",
        peers: [], messages: ["CANNOT FIX, FIRST ENTRY IN DIRECTORY CONTAINS", "CANNOT FIX, SECOND ENTRY IN DIRECTORY CONTAINS"],
    }
    /// `ufs.directory.whiteout`.
    WHITEOUT = "ufs.directory.whiteout" {
        severity: Minor, evidence: Cross, preen: false,
        message: "directory {inode}: {name} is half a whiteout",
        meaning: "A whiteout has inode 1 and its own type. This entry has one of them.",
        repair: "The entry becomes a whiteout.",
        loss: "Nothing.",
        peers: [], messages: ["BAD WHITEOUT ENTRY"],
    }
    /// `ufs.directory.entry-type`.
    ENTRY_TYPE = "ufs.directory.entry-type" {
        severity: Minor, evidence: Cross, preen: false,
        message: "directory {inode}: {name} has type {stored} instead of {observed}",
        meaning: "The type in a directory entry repeats that of the inode.",
        repair: "The type is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["BAD TYPE VALUE"],
    }
    /// `ufs.directory.entry-unused`.
    ENTRY_UNUSED = "ufs.directory.entry-unused" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode}: {name} leads to inode {stored}, which is not in use",
        meaning: "The inode was lost, or the entry is damaged.",
        repair: "The entry is removed.",
        loss: "The name. The inode it points to is unused.",
        peers: [], messages: ["I OUT OF RANGE", "UNALLOCATED"],
    }
    /// `ufs.directory.second-name`.
    DIRECTORY_SECOND_NAME = "ufs.directory.second-name" {
        severity: Major, evidence: Cross, preen: true,
        message: "directory {inode}: {name} is a second name of directory {stored}",
        meaning: "A directory has one name.",
        repair: "The name is removed.",
        loss: "The second name.",
        peers: [], messages: ["IS AN EXTRANEOUS HARD LINK TO DIRECTORY"],
    }
    /// `ufs.directory.depth`.
    DEPTH = "ufs.directory.depth" {
        severity: Note, evidence: Cross, preen: true,
        message: "directory {inode} is {observed:level:levels} below the root, but di_dirdepth says {stored}",
        meaning: "The kernel uses the depth to choose a cylinder group for a new directory. A wrong one harms no file.",
        repair: "The depth is corrected.",
        loss: "Nothing.",
        peers: [], messages: [],
    }
    /// `ufs.inode.links`.
    LINKS = "ufs.inode.links" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} has a link count of {stored}, but {observed:name leads:names lead} to it",
        meaning: "The count was not updated before the system stopped, or it is damaged.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["LINK COUNT"],
    }
    /// `ufs.inode.links-left`.
    LINKS_LEFT = "ufs.inode.links-left" {
        severity: Note, evidence: Cross, preen: true,
        message: "{inode} has a link count of {stored}, but {observed:name leads:names lead} to it",
        meaning: "With soft updates, a crash leaves link counts that are too high.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["LINK COUNT"],
    }
    /// `ufs.inode.unattached`.
    UNATTACHED = "ufs.inode.unattached" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} is in use, but has no name",
        meaning: "The name was lost, or not yet written when the system stopped.",
        repair: "The file gets a name in lost+found.",
        loss: "Its name.",
        peers: [], messages: ["UNREF"],
    }
    /// `ufs.inode.unattached-left`.
    UNATTACHED_LEFT = "ufs.inode.unattached-left" {
        severity: Note, evidence: Cross, preen: true,
        message: "{inode} is in use, but has no name",
        meaning: "With soft updates, a crash leaves files whose name was not yet written.",
        repair: "The file gets a name in lost+found.",
        loss: "Its name.",
        peers: [], messages: ["UNREF"],
    }
    /// `ufs.inode.unreferenced`.
    UNREFERENCED = "ufs.inode.unreferenced" {
        severity: Note, evidence: Cross, preen: true,
        message: "{inode} has no name, and nothing to keep",
        meaning: "Its last name was removed while it was open, or it is empty.",
        repair: "The inode is freed.",
        loss: "Nothing.",
        peers: [], messages: ["UNREF"],
    }
    /// `ufs.quota.usage`.
    QUOTA_USAGE = "ufs.quota.usage" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode}: quota of {kind} {owner} counts {stored} {what}, but {observed} are in use",
        meaning: "The quota file repeats what the files of each user or group take. The kernel keeps it up to date while quotas are on; a wrong number lets an owner take more or less than was granted.",
        repair: "The number is corrected; limits stay as they are.",
        loss: "Nothing.",
        peers: [], messages: [],
    }
    /// `ufs.quota.usage-stale`.
    QUOTA_STALE = "ufs.quota.usage-stale" {
        severity: Note, evidence: Cross, preen: true,
        message: "{inode}: quota of {kind} {owner} counts {stored} {what}, but {observed} are in use",
        meaning: "After a crash the numbers in quota files are stale. FreeBSD runs quotacheck before it turns quotas on.",
        repair: "The number is corrected; limits stay as they are.",
        loss: "Nothing.",
        peers: [], messages: [],
    }
    /// `ufs.quota.header`.
    QUOTA_HEADER = "ufs.quota.header" {
        severity: Minor, evidence: Local, preen: true,
        message: "the header of the quota file {inode} is damaged",
        meaning: "Version or sizes in the header are not those that FreeBSD knows. Quotas cannot be turned on.",
        repair: "The header is rewritten.",
        loss: "Nothing.",
        peers: [], messages: [],
    }
    /// `ufs.root.missing`.
    ROOT_MISSING = "ufs.root.missing" {
        severity: Critical, evidence: Cross, preen: false,
        message: "there is no root directory",
        meaning: "Inode 2 is lost or is no directory.",
        repair: "An empty root directory is made; everything else goes to lost+found.",
        loss: "The names in the root directory.",
        peers: [], messages: ["ROOT INODE UNALLOCATED", "ROOT INODE NOT DIRECTORY"],
    }
    /// `ufs.directory.unconnected`.
    UNCONNECTED = "ufs.directory.unconnected" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode} has no name",
        meaning: "The entry that led to it is lost. Its .. leads to inode {stored}.",
        repair: "The directory gets a name in lost+found.",
        loss: "Its name.",
        peers: [], messages: ["UNREF"],
    }
    /// `ufs.directory.unconnected-left`.
    UNCONNECTED_LEFT = "ufs.directory.unconnected-left" {
        severity: Note, evidence: Cross, preen: true,
        message: "directory {inode} has no name",
        meaning: "With soft updates, a crash leaves directories whose name was not yet written. Its .. leads to inode {stored}.",
        repair: "The directory gets a name in lost+found.",
        loss: "Its name.",
        peers: [], messages: ["UNREF"],
    }
    /// `ufs.directory.looped`.
    LOOPED = "ufs.directory.looped" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode} is below itself",
        meaning: "The directories above it lead back to it, and not to the root.",
        repair: "The loop is cut; the directory gets a name in lost+found.",
        loss: "Its name.",
        peers: [], messages: ["ORPHANED DIRECTORY LOOP DETECTED"],
    }
    /// `ufs.directory.parent`.
    PARENT_WRONG = "ufs.directory.parent" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the entry .. of directory {inode} leads to inode {stored} instead of {observed}",
        meaning: "The system stopped while the directory was moved, or the entry is damaged.",
        repair: "The entry is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["BAD INODE NUMBER FOR '..'"],
    }
}
