// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kind of problem of hybridfs.

fsmend_engine::problem_rows! {
    /// `hybridfs.superblock.damaged`.
    SUPERBLOCK = "hybridfs.superblock.damaged" {
        severity: Major, evidence: Local, preen: true,
        message: "the superblock at byte {place} is invalid: {why}",
        meaning: "hybridfs has three superblocks, which never change: at 64 KiB, at the start of the log and at the end of the device. This one was damaged or overwritten.",
        repair: "The superblock is rewritten from a valid one.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.superblock.differs`.
    SUPERBLOCK_DIFFERS = "hybridfs.superblock.differs" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the superblock at byte {place} differs from the one in use",
        meaning: "All superblocks must be equal. This one is valid, but has other values: it belongs to an earlier file system, or was overwritten. The values that most superblocks have are used; with two that differ, the one that the anchors match.",
        repair: "The superblock is rewritten from the one in use.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.anchor.damaged`.
    ANCHOR = "hybridfs.anchor.damaged" {
        severity: Minor, evidence: Local, preen: true,
        message: "the anchor in slot {slot} is invalid: {why}",
        meaning: "Four anchors, written in turn, point to the place where recovery begins. One of the older ones is damaged; the newest one is valid.",
        repair: "The anchor is rewritten.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.anchor.torn`.
    ANCHOR_TORN = "hybridfs.anchor.torn" {
        severity: Note, evidence: Local, preen: true,
        message: "the anchor in slot {slot} was not written completely",
        meaning: "The system stopped while this anchor was written. The previous anchor points to the same segments.",
        repair: "None needed: the next mount rewrites the anchor.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.anchor.none`.
    NO_ANCHOR = "hybridfs.anchor.none" {
        severity: Critical, evidence: Cross, preen: false,
        message: "no anchor points to a valid segment; a search of the log found segment {observed}",
        meaning: "All anchors, or the segments that they point to, are damaged. The file system cannot be mounted. The newest complete segment was found by its summary.",
        repair: "A new segment with the state of that segment is written, and all anchors are set to it.",
        loss: "Changes made after that segment, if there were any.",
        peers: [],
    }
    /// `hybridfs.log.torn`.
    TORN = "hybridfs.log.torn" {
        severity: Note, evidence: Cross, preen: true,
        message: "segment {stored} was not written completely and is ignored",
        meaning: "The system stopped while the segment was written. The state before this segment is checked; the next mount uses the same state.",
        repair: "None needed.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.log.body`.
    BODY = "hybridfs.log.body" {
        severity: Critical, evidence: Cross, preen: false,
        message: "segment {stored} was damaged after it was written: a mount would return to an older state",
        meaning: "The anchors prove that this segment reached the disk. Its checksums are wrong now, so a mount treats it as incomplete and returns to an older state, whose contents may already be overwritten.",
        repair: "A new segment is written that refers to everything the damaged one refers to. Damage to those blocks is reported separately.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.log.gap`.
    GAP = "hybridfs.log.gap" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the summary of segment {stored} is lost; segment {observed} after it is complete and is used",
        meaning: "Each segment points to the next one. A mount stops at the segment that it cannot read and loses all changes after it. Later segments were found by their summaries; each of them describes the whole file system.",
        repair: "A new segment with the newest state is written, and all anchors are set to it. The bitmaps are rebuilt.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.log.checkpoint`.
    CHECKPOINT = "hybridfs.log.checkpoint" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the last segment has segment {stored} as its checkpoint, which is wrong",
        meaning: "A checkpoint is a segment that was written with all bitmaps. The last segment holds the number of the previous checkpoint, and a mount needs it.",
        repair: "A new segment is written, which is itself a checkpoint.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.log.next`.
    NEXT = "hybridfs.log.next" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the place reserved for the next segment, {block}, is in use or outside the log",
        meaning: "The last segment holds the place of the next one. A read-write mount would overwrite the blocks there.",
        repair: "A new segment is written elsewhere and reserves free space.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.log.totals`.
    TOTALS = "hybridfs.log.totals" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the last segment counts {stored} {what}, but there are {observed}",
        meaning: "Every segment holds totals of the space and inodes in use. df shows them.",
        repair: "The total is corrected.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.ifile.node`.
    IFILE_NODE = "hybridfs.ifile.node" {
        severity: Critical, evidence: Local, preen: false,
        message: "the IFILE is damaged at {block}: {why}; {observed:inode block was:inode blocks were} found by a search of the log",
        meaning: "The IFILE holds the places of the inode blocks. A node of it is lost. Each inode block holds its own number, so those in use can be found in the log.",
        repair: "The IFILE is rebuilt from the inode blocks that were found.",
        loss: "Files whose inode blocks were not found.",
        peers: [],
    }
    /// `hybridfs.ifile.sum`.
    IFILE_SUM = "hybridfs.ifile.sum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the IFILE has count {stored} for {block}, should be {observed}",
        meaning: "A record counts the inodes below a node, and in its upper half the orphans. For an inode block both halves have one bit for each inode.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.ifile.place`.
    INODE_BLOCK = "hybridfs.ifile.place" {
        severity: Critical, evidence: Local, preen: false,
        message: "inode block {stored} at {block} is invalid: {why}{found?, }",
        meaning: "The place in the IFILE is outside the log, cannot be read, or holds something else.",
        repair: "A copy of the inode block that was found in the log replaces it. Without one, the inodes are removed.",
        loss: "The files in this inode block, if no other copy of it was found.",
        peers: [],
    }
    /// `hybridfs.ifile.live`.
    LIVE = "hybridfs.ifile.live" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{inode} is {stored} in the IFILE, but is {observed}",
        meaning: "The IFILE has a bit for each inode. It does not match the inode.",
        repair: "The bit is set from the inode.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.ifile.orphan`.
    ORPHAN = "hybridfs.ifile.orphan" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{inode} has {stored:link:links}, but the IFILE says that it {observed}",
        meaning: "The IFILE marks inodes without links; the next mount removes them. Such a mark on an inode with links would delete a file that is in use.",
        repair: "The mark is set from the link count.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.bitmap.node`.
    BFILE_NODE = "hybridfs.bitmap.node" {
        severity: Major, evidence: Local, preen: true,
        message: "the BFILE is damaged at {block}: {why}",
        meaning: "The BFILE holds the places of the bitmaps. The bitmaps can be computed from the files.",
        repair: "The bitmaps are rebuilt.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.bitmap.sum`.
    BFILE_SUM = "hybridfs.bitmap.sum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the BFILE has {stored} free blocks for the node at {block}, should be {observed}",
        meaning: "A record counts the free blocks below its node.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.bitmap.damaged`.
    BITMAP = "hybridfs.bitmap.damaged" {
        severity: Major, evidence: Local, preen: true,
        message: "the bitmap of {group} is invalid: {why}",
        meaning: "Without it the file system cannot be mounted read-write. The bitmap can be computed from the files.",
        repair: "The bitmap is rebuilt.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.bitmap.free-count`.
    FREE_COUNT = "hybridfs.bitmap.free-count" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group} has {stored} free blocks in the BFILE, but {observed} are free",
        meaning: "The count in the BFILE was not updated, or is damaged.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.bitmap.not-marked`.
    NOT_MARKED = "hybridfs.bitmap.not-marked" {
        severity: Critical, evidence: Cross, preen: false,
        message: "{block} in use, but marked free",
        meaning: "The next write could overwrite these blocks. The mark comes from the bitmap and from the segments written after it.",
        repair: "The fragments are marked in use.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.bitmap.marked`.
    MARKED = "hybridfs.bitmap.marked" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{block} marked in use, but owned by nothing",
        meaning: "No file uses these blocks, so their space is wasted.",
        repair: "The fragments are marked free.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.inode.unreadable`.
    INODE_UNREADABLE = "hybridfs.inode.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} cannot be read",
        meaning: "The device returned a read error for the inode block.",
        repair: "An older version of the inode from the log replaces it. Without one, the inode and all names that point to it are removed.",
        loss: "The file, or the changes to it since the older version.",
        peers: [],
    }
    /// `hybridfs.inode.older`.
    INODE_OLDER = "hybridfs.inode.older" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is damaged ({why}); an older version from segment {observed} was found",
        meaning: "The log keeps older versions of inodes until their space is reused. The newest valid one is used.",
        repair: "The older version replaces the damaged one.",
        loss: "Changes to the file since that segment.",
        peers: [],
    }
    /// `hybridfs.inode.lost`.
    INODE_LOST = "hybridfs.inode.lost" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is damaged ({why}), and no older version was found",
        meaning: "The inode holds the location of the contents of the file. Without it they cannot be found.",
        repair: "The inode and all names that point to it are removed.",
        loss: "The file.",
        peers: [],
    }
    /// `hybridfs.inode.stale`.
    INODE_STALE = "hybridfs.inode.stale" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} was last written by segment {stored}, but the IFILE expects segment {observed}",
        meaning: "A write to the inode block was lost: the device reported that it had written the block, but had not. The driver refuses such an inode.",
        repair: "The older version is kept.",
        loss: "Changes to the inode since then. Its blocks may have been overwritten with data of other files since then.",
        peers: [],
    }
    /// `hybridfs.inode.leftover`.
    LEFTOVER = "hybridfs.inode.leftover" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is not in use, but not empty",
        meaning: "An unused inode must be all zeros.",
        repair: "The inode is filled with zeros.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.inode.format`.
    FORMAT = "hybridfs.inode.format" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has mode {stored}, which does not match its format ({observed})",
        meaning: "The format says where the contents are. An inode of this type cannot have contents there.",
        repair: "The inode and all names that point to it are removed.",
        loss: "The file.",
        peers: [],
    }
    /// `hybridfs.inode.map-crowded`.
    MAP_CROWDED = "hybridfs.inode.map-crowded" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} shares more blocks with other files than there are free blocks to copy them to",
        meaning: "Many files claim the same blocks. The image was crafted, or one inode was copied over many others. There is no space for a copy for every file.",
        repair: "The inode and all names that point to it are removed. The first files that claim the blocks keep them.",
        loss: "The file.",
        peers: [],
    }
    /// `hybridfs.inode.size`.
    SIZE = "hybridfs.inode.size" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has size {stored}, which does not match its contents; expected {observed}",
        meaning: "Contents are mapped after the end of the file, or end before it. The size of a directory is the sum of its entries.",
        repair: "The size is corrected. The contents are kept.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.inode.used`.
    USED = "hybridfs.inode.used" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} counts {stored} fragments of contents, but has {observed}",
        meaning: "The count is shown as the disk usage of the file.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.map.node`.
    MAP_NODE = "hybridfs.map.node" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the map is damaged at {block}: {why}; {observed:piece:pieces} below it found elsewhere",
        meaning: "A node of the tree that maps the contents is lost. Each node and directory block holds the inode it belongs to, so the nodes below it and older versions of it can be found in the log.",
        repair: "The map is rebuilt from what was found. Missing contents of a file become a hole. Files whose names were lost are reconnected to lost+found.",
        loss: "Contents or names that were not found.",
        peers: [],
    }
    /// `hybridfs.map.sum`.
    MAP_SUM = "hybridfs.map.sum" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode}: the map has count {stored} for {block}, should be {observed}",
        meaning: "A record counts what is below its node or directory block.",
        repair: "The map is rebuilt.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.map.broken`.
    MAP = "hybridfs.map.broken" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the map records in the inode are invalid: {why}",
        meaning: "The inode holds the root of the map. Its records are not sorted, or there are too many.",
        repair: "The map is rebuilt from nodes that were found in the log. If none was found, the file becomes empty.",
        loss: "Contents or names that were not found.",
        peers: [],
    }
    /// `hybridfs.extent.place`.
    EXTENT_PLACE = "hybridfs.extent.place" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: {count:block:blocks} from logical block {stored} on are mapped to {block}, outside the data area",
        meaning: "Contents of larger files are in the data area, in whole blocks. The map is damaged.",
        repair: "The file has a hole there, which reads as zeros.",
        loss: "The contents of these blocks.",
        peers: [],
    }
    /// `hybridfs.extent.overlap`.
    EXTENT_OVERLAP = "hybridfs.extent.overlap" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: logical block {stored} is mapped twice",
        meaning: "Two extents of the map overlap.",
        repair: "The extent that was written later is kept.",
        loss: "The contents that the other extent maps.",
        peers: [],
    }
    /// `hybridfs.file.place`.
    SMALL_PLACE = "hybridfs.file.place" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the contents at {block} cannot be read: {why}",
        meaning: "The contents of a small file are in one piece in the log. The location is wrong, the device returned a read error, or something else was written over them. No older version of the file is left in the log.",
        repair: "The contents are replaced by zeros.",
        loss: "The contents of the file.",
        peers: [],
    }
    /// `hybridfs.file.older`.
    SMALL_OLDER = "hybridfs.file.older" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the contents at {block} are lost: {why}; an older version, of segment {observed}, is in the log",
        meaning: "The contents of a small file are in one piece in the log. They cannot be read, or something else was written over them. The log still holds what the same file contained before; checksums prove it.",
        repair: "The file gets the older version, with its size and its time of modification.",
        loss: "What was written to the file after the older version.",
        peers: [],
    }
    /// `hybridfs.file.elsewhere`.
    SMALL_ELSEWHERE = "hybridfs.file.elsewhere" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode}: the contents at {block} are damaged: {why}; segment {observed} holds the same contents",
        meaning: "The contents of a small file are in one piece in the log. They are damaged, but the log holds another copy with the same length and checksum, which an older version of the inode leads to.",
        repair: "The other copy replaces them.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.file.checksum`.
    SMALL_CHECKSUM = "hybridfs.file.checksum" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the contents at {block} have a wrong checksum",
        meaning: "The contents of the file changed on the disk after they were written. The driver refuses to read them.",
        repair: "The bytes are kept and get a new checksum, so that they can be read. Compare the file with a backup.",
        loss: "The damaged bytes.",
        peers: [],
    }
    /// `hybridfs.attributes.damaged`.
    ATTRIBUTES = "hybridfs.attributes.damaged" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the extended attributes are invalid: {why}",
        meaning: "Extended attributes hold access control lists and user attributes. Those of this inode are damaged.",
        repair: "An older version from the log replaces them. Without one, they are removed.",
        loss: "The attributes, or the changes to them since the older version.",
        peers: [],
    }
    /// `hybridfs.directory.block`.
    DIRECTORY_BLOCK = "hybridfs.directory.block" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the directory block at {block} is invalid: {why}",
        meaning: "A block with names of the directory is damaged. Each entry holds a hash of its name, so valid entries of the block and of older versions of it can be told from damage.",
        repair: "The directory is rebuilt with the names that were found.",
        loss: "Names that were not found. Their files are reconnected to lost+found.",
        peers: [],
    }
    /// `hybridfs.directory.order`.
    DIRECTORY_ORDER = "hybridfs.directory.order" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: directory entries are out of order",
        meaning: "Entries must be sorted by the hash of their names. A name in the wrong place is listed but cannot be opened.",
        repair: "The entries are sorted. All names are kept.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.directory.duplicate`.
    DUPLICATE = "hybridfs.directory.duplicate" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}: the directory has the name \"{name}\" twice",
        meaning: "A name can appear only once in a directory.",
        repair: "The first entry is kept and the other is removed. A file with no other name is reconnected to lost+found.",
        loss: "The second name.",
        peers: [],
    }
    /// `hybridfs.directory.entry-unused`.
    ENTRY_UNUSED = "hybridfs.directory.entry-unused" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: the name \"{name}\" points to inode {stored}, which is not in use",
        meaning: "The inode was removed, or is damaged.",
        repair: "The name is removed.",
        loss: "The name. The inode it points to is unused.",
        peers: [],
    }
    /// `hybridfs.directory.entry-generation`.
    ENTRY_GENERATION = "hybridfs.directory.entry-generation" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: the name \"{name}\" points to an earlier file that used inode {stored}",
        meaning: "The generation of an inode changes each time its number is reused. The entry has an older generation: its file was removed.",
        repair: "The name is removed.",
        loss: "The name. Its file was removed before, or its inode was lost.",
        peers: [],
    }
    /// `hybridfs.directory.entry-kind`.
    ENTRY_KIND = "hybridfs.directory.entry-kind" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode}: the name \"{name}\" has file type {stored}, but the inode has type {observed}",
        meaning: "A directory entry holds the file type of its inode.",
        repair: "The type is corrected.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.directory.second-name`.
    SECOND_NAME = "hybridfs.directory.second-name" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: the name \"{name}\" is a second name of directory {stored}",
        meaning: "A directory can have only one name.",
        repair: "The name is removed. The other one is kept.",
        loss: "The second name.",
        peers: [],
    }
    /// `hybridfs.tree.root-missing`.
    ROOT_MISSING = "hybridfs.tree.root-missing" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the root directory, {inode}, is missing",
        meaning: "Inode 2 is damaged or is not a directory.",
        repair: "An empty root directory is created. Its former contents are reconnected to lost+found.",
        loss: "The names in the root directory.",
        peers: [],
    }
    /// `hybridfs.tree.unconnected`.
    UNCONNECTED = "hybridfs.tree.unconnected" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode} has no name",
        meaning: "Its name was in a directory that is damaged.",
        repair: "The directory is reconnected to lost+found.",
        loss: "Its name and location. Its contents are kept.",
        peers: [],
    }
    /// `hybridfs.tree.looped`.
    LOOPED = "hybridfs.tree.looped" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode} is contained in itself",
        meaning: "Its chain of parents is a loop that does not reach the root, so no path leads to it.",
        repair: "The loop is broken and the directory is reconnected to lost+found.",
        loss: "Its name and location. Its contents are kept.",
        peers: [],
    }
    /// `hybridfs.tree.parent`.
    PARENT = "hybridfs.tree.parent" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} has parent inode {stored}, but its name is in inode {observed}",
        meaning: "A directory holds the inode and the generation of its parent.",
        repair: "The parent is corrected.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.links.count`.
    LINKS = "hybridfs.links.count" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} has link count {stored}, but {observed:name points:names point} to it",
        meaning: "If the link count is too low, deleting one name deletes the file. If it is too high, its space is never freed.",
        repair: "The link count is set to the number of names.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.links.unattached`.
    UNATTACHED = "hybridfs.links.unattached" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} is in use, but no name points to it",
        meaning: "Its name was in a directory that is damaged.",
        repair: "The file is reconnected to lost+found.",
        loss: "Its name.",
        peers: [],
    }
    /// `hybridfs.links.unattached-empty`.
    UNATTACHED_EMPTY = "hybridfs.links.unattached-empty" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} is empty and no name points to it",
        meaning: "The file has no name and no contents.",
        repair: "The inode is removed.",
        loss: nothing,
        peers: [],
    }
    /// `hybridfs.claims.multiple`.
    MULTIPLE = "hybridfs.claims.multiple" {
        severity: Critical, evidence: Cross, preen: false,
        message: "{block} of {inode} also claimed by {others}",
        meaning: "Several files, or a file and the metadata of the file system, use the same blocks. A write to one damages the other.",
        repair: "The metadata keeps the blocks; without metadata, the inode with the lowest number. Every other file gets a copy.",
        loss: "Nothing by this repair. A file may hold data of another file in these blocks.",
        peers: [],
    }
    /// `hybridfs.claims.shares`.
    SHARES = "hybridfs.claims.shares" {
        severity: Critical, evidence: Cross, preen: false,
        message: "{inode} shares {count:fragment:fragments} with {others}",
        meaning: "Several files, or a file and the metadata of the file system, use the same blocks.",
        repair: "The metadata keeps the blocks; without metadata, the inode with the lowest number. Every other file gets a copy.",
        loss: "Nothing by this repair. The shared blocks may hold data of another file.",
        peers: [],
    }
    /// `hybridfs.claims.no-room`.
    NO_ROOM = "hybridfs.claims.no-room" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: there is no space to copy {block}",
        meaning: "Shared blocks must be copied, but the data area is full.",
        repair: "The file has a hole there, which reads as zeros.",
        loss: "The contents of these blocks in this file.",
        peers: [],
    }
    /// `hybridfs.claims.unreadable`.
    COPY_UNREADABLE = "hybridfs.claims.unreadable" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}: {block} cannot be read and cannot be copied",
        meaning: "Shared blocks must be copied, but the device returned a read error.",
        repair: "The file gets zeros instead.",
        loss: "The contents of these blocks in this file.",
        peers: [],
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn explanations_are_sentences_without_operands() {
        for row in super::ROWS {
            for text in [row.meaning, row.repair, row.loss] {
                // Operands are put into messages only: here they would be shown as they are.
                assert!(text.ends_with('.') && !text.contains('{'), "{}: {text}", row.code);
            }
            assert!(!row.message.ends_with('.'), "{}: a message has no full stop", row.code);
        }
    }
}
