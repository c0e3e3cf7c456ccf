// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kind of problem of hybridfs.

fsmend_engine::problem_rows! {
    /// `hybridfs.superblock.damaged`.
    SUPERBLOCK = "hybridfs.superblock.damaged" {
        severity: Major, evidence: Local, preen: true,
        message: "the superblock at byte {place} cannot be used: {why}",
        meaning: "hybridfs keeps three superblocks, which never change: at 64 KiB, at the start of the log and at the end of the device. This one is damaged or overwritten.",
        repair: "It is rewritten from one that is sound.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.superblock.differs`.
    SUPERBLOCK_DIFFERS = "hybridfs.superblock.differs" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the superblock at byte {place} differs from the one that is used",
        meaning: "All superblocks are equal. This one is sound by itself, but says something else: another file system was here, or a program wrote to the wrong place. The version that most superblocks have is used; where two differ, the one to which the anchors belong.",
        repair: "It is rewritten from the one that is used.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.anchor.damaged`.
    ANCHOR = "hybridfs.anchor.damaged" {
        severity: Minor, evidence: Local, preen: true,
        message: "the anchor in slot {slot} cannot be used: {why}",
        meaning: "Four anchors, written in turns, lead to the place where recovery begins. One of the older ones is damaged; the newest one can be used.",
        repair: "The anchor is rewritten.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.anchor.torn`.
    ANCHOR_TORN = "hybridfs.anchor.torn" {
        severity: Note, evidence: Local, preen: true,
        message: "the anchor in slot {slot} was not written completely",
        meaning: "The system stopped while this anchor was written. The one before leads to the same segments.",
        repair: "None is needed: the next mount rewrites it.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.anchor.none`.
    NO_ANCHOR = "hybridfs.anchor.none" {
        severity: Critical, evidence: Cross, preen: false,
        message: "no anchor leads to a usable segment; a search of the log found segment {observed}",
        meaning: "All anchors, or the segments they lead to, are damaged. The file system cannot be mounted. The newest segment that is whole was found by its summary.",
        repair: "A new segment with the state of that segment is written, and all anchors lead to it.",
        loss: "Changes that were made after that segment, if there were any.",
        peers: [],
    }
    /// `hybridfs.log.torn`.
    TORN = "hybridfs.log.torn" {
        severity: Note, evidence: Cross, preen: true,
        message: "segment {stored} was not written completely and does not count",
        meaning: "The system stopped while the segment was written. The file system is as the segment before left it, as the next mount will find it.",
        repair: "None is needed.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.log.body`.
    BODY = "hybridfs.log.body" {
        severity: Critical, evidence: Cross, preen: false,
        message: "segment {stored} is damaged after it was written: a mount would go back to an older state",
        meaning: "The anchors prove that this segment reached the disk. Its checksums do not match now, so a mount drops it as incomplete and returns to an older state, whose contents may already be overwritten.",
        repair: "A new segment is written with all that the damaged one leads to. What is damaged itself is reported apart.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.log.gap`.
    GAP = "hybridfs.log.gap" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the summary of segment {stored} is lost; segment {observed} behind it is whole and is used",
        meaning: "Each segment leads to the next one. A mount ends at the one that cannot be read and loses all changes behind it. Later segments were found by their summaries; each of them describes the whole file system.",
        repair: "A new segment with the newest state is written, and all anchors lead to it. The bitmaps are rebuilt.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.log.checkpoint`.
    CHECKPOINT = "hybridfs.log.checkpoint" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the last segment names segment {stored} as its checkpoint, which is not right",
        meaning: "A checkpoint is a segment that was written with all bitmaps. The last segment names the one before it, and a mount needs it.",
        repair: "A new segment is written, which is a checkpoint itself.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.log.next`.
    NEXT = "hybridfs.log.next" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the place reserved for the next segment, {block}, is in use or not in the log",
        meaning: "The last segment names the place of the next one. A mount for writing would overwrite what lies there.",
        repair: "A new segment is written elsewhere, and reserves a free place.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.log.totals`.
    TOTALS = "hybridfs.log.totals" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the last segment counts {stored} {what}, but there are {observed}",
        meaning: "Every segment carries totals of what is in use. They are used for free space and quick answers.",
        repair: "The total is corrected.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.ifile.node`.
    IFILE_NODE = "hybridfs.ifile.node" {
        severity: Critical, evidence: Local, preen: false,
        message: "the IFILE is damaged at {block}: {why}; {observed:inode block was:inode blocks were} found by a search of the log",
        meaning: "The IFILE says where blocks of inodes lie. A node of it is lost. Blocks of inodes prove their numbers, so those in use are found in the log.",
        repair: "The IFILE is rebuilt from the blocks of inodes that were found.",
        loss: "Inodes whose blocks were not found.",
        peers: [],
    }
    /// `hybridfs.ifile.sum`.
    IFILE_SUM = "hybridfs.ifile.sum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the IFILE says {stored} of what is at {block}, but it can only be {observed}",
        meaning: "A record counts the inodes, and in the upper half of the number the orphans, below a node. For a block of inodes both halves have a bit for each inode.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.ifile.place`.
    INODE_BLOCK = "hybridfs.ifile.place" {
        severity: Critical, evidence: Local, preen: false,
        message: "the block of inodes {stored} at {block} cannot be used: {why}{found?, }",
        meaning: "The place that the IFILE names is not in the log, cannot be read, or holds something else.",
        repair: "A block with these inodes that was found in the log takes its place. If there is none, the inodes are removed.",
        loss: "The files of this block of inodes, if no other copy of it was found.",
        peers: [],
    }
    /// `hybridfs.ifile.live`.
    LIVE = "hybridfs.ifile.live" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{inode}: the IFILE says that it is {stored}, but it is {observed}",
        meaning: "The IFILE has a bit for each inode. The inode itself says otherwise.",
        repair: "The bit is set to what the inode says.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.ifile.orphan`.
    ORPHAN = "hybridfs.ifile.orphan" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{inode} has {stored:link:links}, but the IFILE says that it {observed}",
        meaning: "Inodes without links wait to be removed at the next mount, and the IFILE marks them. A mark on an inode with links would delete a file that is in use.",
        repair: "The mark follows the link count.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.bitmap.node`.
    BFILE_NODE = "hybridfs.bitmap.node" {
        severity: Major, evidence: Local, preen: true,
        message: "the BFILE is damaged at {block}: {why}",
        meaning: "The BFILE says where the bitmaps lie. They follow from what is in use.",
        repair: "The bitmaps are rebuilt.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.bitmap.sum`.
    BFILE_SUM = "hybridfs.bitmap.sum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the BFILE counts {stored} free blocks in the node at {block}, but there are {observed}",
        meaning: "A record above a node counts what is free below it.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.bitmap.damaged`.
    BITMAP = "hybridfs.bitmap.damaged" {
        severity: Major, evidence: Local, preen: true,
        message: "{group}: the bitmap cannot be used: {why}",
        meaning: "The file system cannot be mounted for writing without it. Its bits follow from what is in use.",
        repair: "The bitmap is rebuilt.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.bitmap.free-count`.
    FREE_COUNT = "hybridfs.bitmap.free-count" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group}: the BFILE counts {stored} free blocks, but {observed} are free",
        meaning: "The count beside the bitmap was not updated, or is damaged.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.bitmap.not-marked`.
    NOT_MARKED = "hybridfs.bitmap.not-marked" {
        severity: Critical, evidence: Cross, preen: false,
        message: "{block}: in use, but marked as free",
        meaning: "The next write could overwrite what lies there. The mark is that of the bitmap, and of what segments since then took and gave back.",
        repair: "The fragments are marked as in use.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.bitmap.marked`.
    MARKED = "hybridfs.bitmap.marked" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{block}: marked as in use, but no file uses it",
        meaning: "The space is lost until the mark is removed.",
        repair: "The fragments are marked as free.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.inode.unreadable`.
    INODE_UNREADABLE = "hybridfs.inode.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} cannot be read",
        meaning: "The device reports an error for the block of inodes.",
        repair: "An older version that was found in the log takes its place. If there is none, the inode and all names that point to it are removed.",
        loss: "The file, or changes to it since the older version.",
        peers: [],
    }
    /// `hybridfs.inode.older`.
    INODE_OLDER = "hybridfs.inode.older" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is damaged ({why}); an older version from segment {observed} was found",
        meaning: "The log keeps older versions of inodes until their space is used again. The newest one that is whole is used.",
        repair: "The older version takes the place of the damaged one.",
        loss: "Changes to the file since that segment.",
        peers: [],
    }
    /// `hybridfs.inode.lost`.
    INODE_LOST = "hybridfs.inode.lost" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is damaged ({why}), and no older version was found",
        meaning: "The inode says where the contents of the file are. That is lost.",
        repair: "The inode and all names that point to it are removed.",
        loss: "The file.",
        peers: [],
    }
    /// `hybridfs.inode.stale`.
    INODE_STALE = "hybridfs.inode.stale" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is as segment {stored} wrote it, but the IFILE expects segment {observed}",
        meaning: "A write to its block was lost: the device said that it had written it, and had not. The driver refuses such an inode.",
        repair: "The older state is kept.",
        loss: "Changes to the inode since then. Contents that were overwritten since then may be other files' by now.",
        peers: [],
    }
    /// `hybridfs.inode.leftover`.
    LEFTOVER = "hybridfs.inode.leftover" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is not in use, but not empty",
        meaning: "Inodes that are not in use are all zeroes.",
        repair: "It is filled with zeroes.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.inode.format`.
    FORMAT = "hybridfs.inode.format" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the mode {stored} and the format {observed} do not go together",
        meaning: "The format says where contents are. An inode of this type cannot have contents there.",
        repair: "The inode and all names that point to it are removed.",
        loss: "The file.",
        peers: [],
    }
    /// `hybridfs.inode.map-crowded`.
    MAP_CROWDED = "hybridfs.inode.map-crowded" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} shares more blocks with other files than there are free blocks to copy them to",
        meaning: "Many files claim the same blocks. The image is crafted, or one inode was copied over many others. Not every file can get its own copy.",
        repair: "The inode and all names that point to it are removed. The first files that claim the blocks keep them.",
        loss: "The file.",
        peers: [],
    }
    /// `hybridfs.inode.size`.
    SIZE = "hybridfs.inode.size" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has a size of {stored} bytes, which does not go with its contents; expected {observed}",
        meaning: "Contents reach behind the end of the file, or are shorter than the size says; for a directory, the size is that of all its entries.",
        repair: "The size is corrected.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.inode.used`.
    USED = "hybridfs.inode.used" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} counts {stored} fragments of contents, but has {observed}",
        meaning: "The count is shown as the space that a file takes.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.map.node`.
    MAP_NODE = "hybridfs.map.node" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the map is damaged at {block}: {why}; {observed:piece:pieces} below it found elsewhere",
        meaning: "A node of the tree that leads to the contents is lost. Nodes and directory blocks prove whose they are, so those below it, and older versions of it, are looked for in the log.",
        repair: "The map is rebuilt from what was found. What is missing becomes a hole in a file; names of a directory that are missing lead their files to lost+found.",
        loss: "Contents or names that were not found.",
        peers: [],
    }
    /// `hybridfs.map.sum`.
    MAP_SUM = "hybridfs.map.sum" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode}: the map counts {stored} below {block}, but there are {observed}",
        meaning: "A record above a node or directory block counts what is below it.",
        repair: "The map is rebuilt.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.map.broken`.
    MAP = "hybridfs.map.broken" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the records in the inode cannot be used: {why}",
        meaning: "The inode holds the upper end of the map. Its records are out of order, or too many.",
        repair: "The map is rebuilt from nodes that were found in the log, or is emptied.",
        loss: "Contents or names that were not found.",
        peers: [],
    }
    /// `hybridfs.extent.place`.
    EXTENT_PLACE = "hybridfs.extent.place" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: {count:block:blocks} of contents from number {stored} on lead to {block}, which is not in the data area",
        meaning: "Contents of larger files lie outside of the log, in whole blocks.",
        repair: "These blocks become a hole, which reads as zeroes.",
        loss: "The contents of these blocks.",
        peers: [],
    }
    /// `hybridfs.extent.overlap`.
    EXTENT_OVERLAP = "hybridfs.extent.overlap" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: block {stored} of its contents is mapped twice",
        meaning: "Two extents of the map say where the same block of the file is.",
        repair: "The one that was written later stays.",
        loss: "What the other one leads to.",
        peers: [],
    }
    /// `hybridfs.file.place`.
    SMALL_PLACE = "hybridfs.file.place" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the contents at {block} cannot be read: {why}",
        meaning: "Contents of a small file lie in the log in one piece. The record leads elsewhere, or the device reports an error.",
        repair: "The contents become zeroes.",
        loss: "The contents of the file.",
        peers: [],
    }
    /// `hybridfs.file.checksum`.
    SMALL_CHECKSUM = "hybridfs.file.checksum" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the contents at {block} have a wrong checksum",
        meaning: "The contents of the file have changed on the disk since they were written. The driver refuses to read them.",
        repair: "The bytes are kept as they are, with a right checksum, so that they can be read. Compare the file with a backup.",
        loss: "The bytes that are damaged.",
        peers: [],
    }
    /// `hybridfs.attributes.damaged`.
    ATTRIBUTES = "hybridfs.attributes.damaged" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the extended attributes cannot be used: {why}",
        meaning: "Attributes hold access control lists and user data. Those of this inode are damaged.",
        repair: "An older version that was found in the log takes their place. If there is none, they are removed.",
        loss: "The attributes, or changes to them since the older version.",
        peers: [],
    }
    /// `hybridfs.directory.block`.
    DIRECTORY_BLOCK = "hybridfs.directory.block" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the directory block at {block} cannot be used: {why}",
        meaning: "A block with names of the directory is damaged. The key of every entry proves its name, so whole entries in the block are used, and those of older versions of it.",
        repair: "The directory is rebuilt with the names that were found.",
        loss: "Names that were not found; their files get names in lost+found.",
        peers: [],
    }
    /// `hybridfs.directory.order`.
    DIRECTORY_ORDER = "hybridfs.directory.order" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: entries are out of order, or not where their names are looked for",
        meaning: "Entries stand in the order of the hashes of their names. A name that stands elsewhere is listed but cannot be opened.",
        repair: "The directory is rebuilt in order.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.directory.duplicate`.
    DUPLICATE = "hybridfs.directory.duplicate" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the name \"{name}\" stands there twice",
        meaning: "A directory has each name once.",
        repair: "The first entry stays. What the other one leads to gets a name in lost+found if it has no other.",
        loss: "The name.",
        peers: [],
    }
    /// `hybridfs.directory.entry-unused`.
    ENTRY_UNUSED = "hybridfs.directory.entry-unused" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: the name \"{name}\" leads to inode {stored}, which is not in use",
        meaning: "The inode was removed or is damaged.",
        repair: "The name is removed.",
        loss: "The name. The inode it points to is unused.",
        peers: [],
    }
    /// `hybridfs.directory.entry-generation`.
    ENTRY_GENERATION = "hybridfs.directory.entry-generation" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: the name \"{name}\" leads to an earlier file that had inode {stored}",
        meaning: "Every inode number has a generation that tells its users apart. The name belongs to a file that is gone.",
        repair: "The name is removed.",
        loss: "The name. The file it belonged to was removed before, or its inode was lost.",
        peers: [],
    }
    /// `hybridfs.directory.entry-kind`.
    ENTRY_KIND = "hybridfs.directory.entry-kind" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode}: the name \"{name}\" says type {stored}, but the inode has type {observed}",
        meaning: "Entries repeat the type of what they lead to.",
        repair: "The type is corrected.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.directory.second-name`.
    SECOND_NAME = "hybridfs.directory.second-name" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: the name \"{name}\" leads to directory {stored}, which has another name",
        meaning: "A directory has one name and one parent.",
        repair: "The name is removed; the other one stays.",
        loss: "The name.",
        peers: [],
    }
    /// `hybridfs.tree.root-missing`.
    ROOT_MISSING = "hybridfs.tree.root-missing" {
        severity: Critical, evidence: Cross, preen: false,
        message: "{inode}: there is no root directory",
        meaning: "Inode 2 is damaged or no directory.",
        repair: "An empty root directory is made. What has no name any more gets one in lost+found.",
        loss: "The names in the root directory.",
        peers: [],
    }
    /// `hybridfs.tree.unconnected`.
    UNCONNECTED = "hybridfs.tree.unconnected" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: the directory has no name",
        meaning: "The name was in a directory that is damaged.",
        repair: "It gets a name in lost+found.",
        loss: "Its former name and place.",
        peers: [],
    }
    /// `hybridfs.tree.looped`.
    LOOPED = "hybridfs.tree.looped" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: the directory is contained in itself",
        meaning: "A loop of directories cannot be reached from the root.",
        repair: "The loop is cut here: the directory gets a name in lost+found.",
        loss: "Its former name and place.",
        peers: [],
    }
    /// `hybridfs.tree.parent`.
    PARENT = "hybridfs.tree.parent" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} says that its parent is inode {stored}, but its name is in inode {observed}",
        meaning: "A directory names its parent and the generation of that.",
        repair: "The parent is corrected.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.links.count`.
    LINKS = "hybridfs.links.count" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} has a link count of {stored}, but {observed:name leads:names lead} to it",
        meaning: "The link count says when a file may be removed.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.links.unattached`.
    UNATTACHED = "hybridfs.links.unattached" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} has no name",
        meaning: "The name was in a directory that is damaged.",
        repair: "The file gets a name in lost+found.",
        loss: "Its former name.",
        peers: [],
    }
    /// `hybridfs.links.unattached-empty`.
    UNATTACHED_EMPTY = "hybridfs.links.unattached-empty" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} is empty and has no name",
        meaning: "There is nothing in the file to keep.",
        repair: "The inode is removed.",
        loss: "Nothing.",
        peers: [],
    }
    /// `hybridfs.claims.multiple`.
    MULTIPLE = "hybridfs.claims.multiple" {
        severity: Critical, evidence: Cross, preen: false,
        message: "{inode}: {block} also belongs to {others}",
        meaning: "The same place is used by several files, or by a file and the file system itself. A write to one damages the other.",
        repair: "Metadata of the file system stays; otherwise the inode with the lowest number keeps the place. Every other file gets a copy of what lies there.",
        loss: "Nothing. One of the files may hold contents of the other.",
        peers: [],
    }
    /// `hybridfs.claims.shares`.
    SHARES = "hybridfs.claims.shares" {
        severity: Critical, evidence: Cross, preen: false,
        message: "{inode} shares {count:fragment:fragments} with {others}",
        meaning: "The same place is used by several files, or by a file and the file system itself.",
        repair: "Metadata of the file system stays; otherwise the inode with the lowest number keeps the place. Every other file gets a copy of what lies there.",
        loss: "Nothing. One of the files may hold contents of the other.",
        peers: [],
    }
    /// `hybridfs.claims.no-room`.
    NO_ROOM = "hybridfs.claims.no-room" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: no free space is left for a copy of {block}",
        meaning: "What several files use has to be copied, and the data area is full.",
        repair: "The blocks become a hole, which reads as zeroes.",
        loss: "The contents of these blocks in this file.",
        peers: [],
    }
    /// `hybridfs.claims.unreadable`.
    COPY_UNREADABLE = "hybridfs.claims.unreadable" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: {block} cannot be read to be copied",
        meaning: "What several files use has to be copied, and the device reports an error.",
        repair: "The copy is filled with zeroes.",
        loss: "The contents of these blocks in this file.",
        peers: [],
    }
}
