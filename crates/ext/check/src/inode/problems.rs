// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `inode`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Root not directory.
    ROOT_NOT_DIRECTORY = "ext.inode.root-not-directory" {
        severity: Critical, evidence: Local, preen: false,
        message: "root {inode} is not a directory (mode {stored})",
        meaning: "Inode 2 is the root of the file system. Its mode was overwritten, probably together with the rest of the inode.",
        repair: "The inode is cleared and a new root directory is created. The contents of the old one are reconnected to lost+found.",
        loss: "The names of the files and directories in the root directory.",
        peers: [0x010001],
    }

    /// Root deletion time.
    ROOT_DELETION_TIME = "ext.inode.root-deletion-time" {
        severity: Minor, evidence: Local, preen: true,
        message: "root {inode} has dtime set ({stored})",
        meaning: "Very old versions of mke2fs set it.",
        repair: "The dtime is cleared.",
        loss: nothing,
        peers: [0x010002],
    }

    /// Reserved mode.
    RESERVED_MODE = "ext.inode.reserved-mode" {
        severity: Minor, evidence: Local, preen: true,
        message: "reserved {inode} has invalid mode {stored}",
        meaning: "Inodes below s_first_ino are reserved for the file system. This one should be empty.",
        repair: "The mode is cleared.",
        loss: nothing "Nothing that belongs to a user.",
        peers: [0x010003],
    }

    /// What no reserved inode has: attributes, or a map by extents where there are none.
    RESERVED_REMAINS = "ext.inode.reserved-remains" {
        severity: Minor, evidence: Local, preen: true,
        message: "reserved {inode} should be empty, but has {what} ({stored})",
        meaning: "Inodes below s_first_ino are reserved for the file system. This one is not in use; it was overwritten.",
        repair: "The field is cleared.",
        loss: nothing "Nothing that belongs to a user.",
        peers: [0x01005A, 0x01003A],
    }

    /// Deletion time missing.
    DELETION_TIME_MISSING = "ext.inode.deletion-time-missing" {
        severity: Minor, evidence: Local, preen: true,
        message: "deleted {inode} has zero dtime (mode {stored})",
        meaning: "The inode was being deleted or created when the system stopped. No name points to it.",
        repair: "The dtime is set. The inode stays free.",
        loss: nothing,
        peers: [0x010004],
    }

    /// Deletion time in use.
    DELETION_TIME_IN_USE = "ext.inode.deletion-time-in-use" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is in use, but has dtime set ({stored})",
        meaning: "The inode has links, so it is not deleted. dtime is left over or damaged.",
        repair: "The dtime is cleared. The file is kept.",
        loss: nothing,
        peers: [0x010005],
    }

    /// Orphan remains.
    ORPHAN_REMAINS = "ext.inode.orphan-remains" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} was part of the orphaned inode list (dtime {stored})",
        meaning: "While an open file is being deleted, dtime holds the number of the next inode in the list. The list is corrupted and no longer contains this inode.",
        repair: "The dtime is cleared, or set if the inode is free.",
        loss: nothing,
        peers: [0x010036, 0x010037],
    }

    /// Directory without blocks.
    EMPTY_DIRECTORY = "ext.inode.directory-without-blocks" {
        severity: Major, evidence: Local, preen: true,
        message: "directory {inode} has no blocks",
        meaning: "A directory has at least one block, which holds '.' and '..'. All its blocks were lost or invalid.",
        repair: "The inode is cleared. Files that were in the directory are reconnected to lost+found.",
        loss: "The names in the directory, if it had any.",
        peers: [0x010006],
    }

    /// Size wrong.
    SIZE_WRONG = "ext.inode.size-wrong" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} has i_size {stored}, should be {observed}",
        meaning: "i_size does not match the mapped blocks: blocks are mapped after the end of the file, the size is impossible for this type of file, or a directory does not end at a block boundary.",
        repair: "i_size is set to the end of the last mapped block.",
        loss: nothing "Nothing; a file may end in bytes that were not part of it.",
        peers: [0x01000C],
    }

    /// Blocks count wrong.
    SECTORS_WRONG = "ext.inode.blocks-count-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has i_blocks {stored}, should be {observed}",
        meaning: "i_blocks was not updated together with the block map, or the map is damaged.",
        repair: "i_blocks is set to the space that the file uses.",
        loss: nothing,
        peers: [0x01000D],
    }

    /// Imagic flag.
    IMAGIC_WITHOUT_FEATURE = "ext.inode.imagic-flag" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has the imagic flag set, but the file system has no imagic_inodes feature",
        meaning: "The flag belongs to an AFS extension. It is probably damage.",
        repair: "The flag is cleared.",
        loss: nothing,
        peers: [0x01002F],
    }

    /// Immutable special file.
    IMMUTABLE_SPECIAL = "ext.inode.immutable-special-file" {
        severity: Minor, evidence: Local, preen: true,
        message: "special file {inode} has the immutable or append-only flag set",
        meaning: "These flags are invalid for devices, pipes, sockets and symbolic links. They would prevent the file from being deleted.",
        repair: "The flags are cleared.",
        loss: nothing,
        peers: [0x010030, 0x010031],
    }

    /// Size of special file.
    SIZE_OF_SPECIAL = "ext.inode.size-of-special-file" {
        severity: Minor, evidence: Local, preen: true,
        message: "special file {inode} has i_size {stored}, should be 0",
        meaning: "Devices, pipes and sockets hold no data.",
        repair: "i_size is set to 0.",
        loss: nothing,
        peers: [0x010032],
    }

    /// Journal not clear.
    JOURNAL_NOT_CLEAR = "ext.inode.journal-not-clear" {
        severity: Minor, evidence: Local, preen: true,
        message: "the journal {inode} is not empty, but the file system has no internal journal",
        meaning: "The journal was removed without clearing its inode, or the has_journal feature was lost.",
        repair: "The inode is cleared and its blocks are freed.",
        loss: "The contents of the old journal.",
        peers: [0x010034],
    }

    /// Journal mode.
    JOURNAL_MODE = "ext.inode.journal-mode" {
        severity: Minor, evidence: Local, preen: true,
        message: "the journal {inode} has mode {stored}, but must be a regular file",
        meaning: "The journal must be a regular file.",
        repair: "The mode is set to that of a regular file.",
        loss: nothing,
        peers: [0x010035],
    }

    /// Quota mode.
    QUOTA_MODE = "ext.inode.quota-mode" {
        severity: Minor, evidence: Local, preen: true,
        message: "quota {inode} has mode {stored}, but must be a regular file",
        meaning: "Quota files must be regular files.",
        repair: "The mode is set to that of a regular file.",
        loss: nothing,
        peers: [0x010062],
    }

    /// Quota not clear.
    QUOTA_NOT_CLEAR = "ext.inode.quota-not-clear" {
        severity: Minor, evidence: Local, preen: true,
        message: "quota {inode} is not empty, but the file system does not use it",
        meaning: "The quota feature was removed without clearing the inode, or the feature was lost.",
        repair: "The inode is cleared and its blocks are freed.",
        loss: "Usage and limits in the old quota file.",
        peers: [0x010063],
    }

    /// Quota not hidden.
    QUOTA_NOT_HIDDEN = "ext.inode.quota-not-hidden" {
        severity: Minor, evidence: Local, preen: true,
        message: "quota {inode} is visible to users",
        meaning: "User and group quota must be in the reserved inodes 3 and 4.",
        repair: "The quota file is moved to its reserved inode.",
        loss: nothing,
        peers: [0x010064],
    }

    /// Orphan file mode.
    ORPHAN_FILE_MODE = "ext.inode.orphan-file-mode" {
        severity: Minor, evidence: Local, preen: true,
        message: "the orphan file, {inode}, has mode {stored}, but must be a regular file",
        meaning: "The orphan file must be a regular file.",
        repair: "The orphan file is replaced by a new, empty one.",
        loss: nothing,
        peers: [0x01008F],
    }

    /// Orphan file not clear.
    ORPHAN_FILE_NOT_CLEAR = "ext.inode.orphan-file-not-clear" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is the orphan file and is not empty, but the orphan_file feature is not set",
        meaning: "The feature was removed without clearing the inode, or was lost.",
        repair: "The inode is cleared and its blocks are freed.",
        loss: nothing,
        peers: [0x010090],
    }

    /// Extra size wrong.
    EXTRA_SIZE_WRONG = "ext.inode.extra-size-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has i_extra_isize {stored}, which is invalid (should be {observed})",
        meaning: "i_extra_isize must be a multiple of 4 and fit into the inode.",
        repair: "i_extra_isize is set to its default.",
        loss: "Extended attributes in the inode, if they cannot be found at the new offset.",
        peers: [0x01004F],
    }

    /// Timestamp era.
    TIMESTAMP_ERA = "ext.inode.timestamp-era" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has a time stamp after 2310 that is probably before 1970",
        meaning: "Old kernels encoded dates before 1970 incorrectly.",
        repair: "The time stamp is encoded correctly.",
        loss: nothing,
        peers: [0x010082],
    }

    /// Really a directory.
    TREAT_AS_DIRECTORY = "ext.inode.really-a-directory" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has mode {stored}, but its contents are those of a directory",
        meaning: "Its first block holds directory entries, and '.' has this inode number. The mode is damaged, not the data.",
        repair: "The mode is set to that of a directory.",
        loss: nothing,
        peers: [0x010055, 0x01000D, 0x010032, 0x010076],
    }

    /// Garbage.
    INODE_GARBAGE = "ext.inode.garbage" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} seems to contain garbage: its checksum and its fields are wrong, as in most inodes of the same block",
        meaning: "The block of the inode table was overwritten with something else.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The file or directory. Files that were in a directory are reconnected to lost+found.",
        peers: [0x010067],
    }

    /// Checksum wrong.
    INODE_CHECKSUM = "ext.inode.checksum-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has checksum {stored}, should be {observed}; its fields look valid",
        meaning: "The inode was changed without updating the checksum, or a bit is wrong that no other check can detect.",
        repair: "The checksum is recomputed.",
        loss: nothing,
        peers: [0x010068],
    }

    /// Map flags on special file.
    SPECIAL_WITH_MAP_FLAGS = "ext.inode.map-flags-on-special-file" {
        severity: Minor, evidence: Local, preen: true,
        message: "special file {inode} has EXTENTS_FL or INLINE_DATA_FL set",
        meaning: "Devices, pipes and sockets hold no data.",
        repair: "The flags are cleared.",
        loss: nothing,
        // Where the file system has neither feature, e2fsck calls the whole thing malformed, by its type.
        peers: [0x010076, 0x020018, 0x020019, 0x020025, 0x020026],
    }

    /// Both flags extents.
    BOTH_FLAGS_EXTENTS = "ext.inode.both-flags-extents" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has both EXTENTS_FL and INLINE_DATA_FL set, and holds an extent tree",
        meaning: "An inode cannot have both flags.",
        repair: "INLINE_DATA_FL is cleared.",
        loss: nothing,
        peers: [0x010077],
    }

    /// Both flags inline.
    BOTH_FLAGS_INLINE = "ext.inode.both-flags-inline" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has both EXTENTS_FL and INLINE_DATA_FL set, and holds inline data",
        meaning: "An inode cannot have both flags.",
        repair: "EXTENTS_FL is cleared.",
        loss: nothing,
        peers: [0x010078],
    }

    /// Both flags block map.
    BOTH_FLAGS_BLOCK_MAP = "ext.inode.both-flags-block-map" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has both EXTENTS_FL and INLINE_DATA_FL set, but holds a block map",
        meaning: "Neither flag is correct.",
        repair: "Both flags are cleared.",
        loss: nothing,
        peers: [0x010079],
    }

    /// Both flags junk.
    BOTH_FLAGS_JUNK = "ext.inode.both-flags-junk" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has both EXTENTS_FL and INLINE_DATA_FL set, and its block map is garbage",
        meaning: "The inode holds neither an extent tree, nor inline data, nor a block map.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The file.",
        peers: [0x01007A],
    }

    /// Inline flag without feature.
    INLINE_FLAG_WITHOUT_FEATURE = "ext.inode.inline-flag-without-feature" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has INLINE_DATA_FL set, but the file system has no inline_data feature",
        meaning: "The flag is damage, or the feature was lost. The inode holds no inline data.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The file.",
        peers: [0x010070],
    }

    /// Casefold not directory.
    CASEFOLD_NOT_DIRECTORY = "ext.inode.casefold-not-directory" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has the casefold flag set but is not a directory",
        meaning: "Only directories compare names without case.",
        repair: "The flag is cleared.",
        loss: nothing,
        peers: [0x010088],
    }

    /// Casefold without feature.
    CASEFOLD_WITHOUT_FEATURE = "ext.inode.casefold-without-feature" {
        severity: Minor, evidence: Local, preen: false,
        message: "directory {inode} has the casefold flag set, but the file system has no casefold feature",
        meaning: "The flag is damage, or the feature was lost.",
        repair: "The flag is cleared.",
        loss: nothing "Nothing; names that differ only in case are different names again.",
        peers: [0x010089],
    }

    /// Verity without feature: the flag is damage, or the feature was lost; the kernel does not open such a file.
    VERITY_WITHOUT_FEATURE = "ext.inode.verity-without-feature" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} has the verity flag set, but the file system has no verity feature",
        meaning: "The flag says that the contents of the file are protected by hashes. It is damage, or the feature was lost. The kernel refuses to open such a file.",
        repair: "The flag is cleared.",
        loss: nothing "Nothing; the contents of the file are no longer verified.",
        peers: [],
    }

    /// Value holder not regular.
    VALUE_HOLDER_NOT_REGULAR = "ext.inode.value-holder-not-regular" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has EA_INODE_FL set but is not a regular file",
        meaning: "Large attribute values are stored in regular files only.",
        repair: "EA_INODE_FL is cleared.",
        loss: nothing,
        peers: [0x010091],
    }

    /// A holder of an attribute's value whose type was overwritten.
    VALUE_HOLDER_TYPE = "ext.inode.value-holder-type" {
        severity: Major, evidence: Cross, preen: true,
        message: "{inode} has EA_INODE_FL set and a matching value hash, but its mode ({stored}) is not that of a regular file",
        meaning: "Large attribute values are stored in regular files only. The hash matches, so the type was overwritten.",
        repair: "The mode is set to that of a regular file.",
        loss: nothing,
        peers: [0x010091],
    }

    /// Index flag not directory.
    INDEX_NOT_DIRECTORY = "ext.inode.index-flag-not-directory" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has INDEX_FL set but is not a directory",
        meaning: "Only directories have an index.",
        repair: "INDEX_FL is cleared.",
        loss: nothing,
        peers: [0x010048],
    }

    /// Fragment address.
    FRAGMENT_ADDRESS = "ext.inode.fragment-address" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has i_faddr {stored}, should be 0",
        meaning: "Fragments were never implemented, so the field must be 0.",
        repair: "The field is cleared.",
        loss: nothing,
        peers: [0x02000D],
    }

    /// Directory size high.
    DIRECTORY_SIZE_HIGH = "ext.inode.directory-size-high" {
        severity: Minor, evidence: Local, preen: false,
        message: "directory {inode} has i_size_high {stored}, should be 0",
        meaning: "Directories of that size need the large_dir feature.",
        repair: "i_size_high is cleared.",
        loss: nothing,
        peers: [0x02000F, 0x01000C],
    }

    /// Fragment number.
    FRAGMENT_NUMBER = "ext.inode.fragment-number" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has i_frag {stored}, should be 0",
        meaning: "Fragments were never implemented, so the field must be 0.",
        repair: "The field is cleared.",
        loss: nothing,
        peers: [0x020010],
    }

    /// A map that shares more than the file system could hold.
    MAP_CROWDED = "ext.inode.map-crowded" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} shares more blocks with other files than there are free blocks to copy them to",
        meaning: "Many files claim the same blocks, or one file claims more blocks than there are. The image was crafted, or one inode was copied over many others. There is no space for a copy for every file.",
        repair: "The inode is cleared and the names that point to it are removed. The first files that claim the blocks keep them.",
        loss: "The file.",
        peers: [0x011002],
    }

    /// Hurd: the translator's block is outside.
    TRANSLATOR_OUTSIDE = "ext.inode.translator-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has its translator in block {stored}, outside the file system",
        meaning: "On the Hurd an inode may have a block that holds the command line of a translator.",
        repair: "The block number is cleared.",
        loss: "The command line of the translator. Its location is not known.",
        peers: [0x01000E],
    }

    /// Fragment size.
    FRAGMENT_SIZE = "ext.inode.fragment-size" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has i_fsize {stored}, should be 0",
        meaning: "Fragments were never implemented, so the field must be 0.",
        repair: "The field is cleared.",
        loss: nothing,
        peers: [0x020011],
    }

    /// Type restored: the type bits are impossible, or those of a device, but there are the contents of a file or link.
    TYPE_RESTORED = "ext.inode.type-restored" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has mode {stored}, but its contents are those of a regular file or symbolic link",
        meaning: "The type bits of the mode are damaged. The flags, the block map and i_blocks are those of a file with contents.",
        repair: "The mode is set to that of a regular file, or of a symbolic link where the contents are a link target. The permissions are kept.",
        loss: nothing,
        peers: [0x020012, 0x020018, 0x020019, 0x01000D, 0x010032, 0x010076],
    }

    /// Mode unknown.
    MODE_UNKNOWN = "ext.inode.mode-unknown" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has invalid mode {stored}",
        meaning: "The type bits of the mode are damaged, and the contents do not show the type.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The file.",
        peers: [0x020012],
    }

    /// Character device wrong.
    CHAR_DEVICE_WRONG = "ext.inode.character-device-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "character device {inode} is invalid",
        meaning: "It has flags or contents that a device cannot have.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The device file.",
        peers: [0x020018],
    }

    /// Block device wrong.
    BLOCK_DEVICE_WRONG = "ext.inode.block-device-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "block device {inode} is invalid",
        meaning: "It has flags or contents that a device cannot have.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The device file.",
        peers: [0x020019],
    }

    /// Fifo wrong.
    FIFO_WRONG = "ext.inode.fifo-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "FIFO {inode} is invalid",
        meaning: "It has flags or contents that a FIFO cannot have.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The FIFO.",
        peers: [0x020025],
    }

    /// Socket wrong.
    SOCKET_WRONG = "ext.inode.socket-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "socket {inode} is invalid",
        meaning: "It has flags or contents that a socket cannot have.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The socket.",
        peers: [0x020026],
    }

    /// Symlink wrong.
    SYMLINK_WRONG = "ext.inode.symlink-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "symbolic link {inode} is invalid: i_size is {stored}, but the target has {observed:byte:bytes}",
        meaning: "i_size must be the length of the target, without holes and without a second block.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The symbolic link.",
        peers: [0x020031],
    }

    /// Attribute pointer high.
    ATTRIBUTE_POINTER_HIGH = "ext.inode.attribute-pointer-high" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has i_file_acl_hi {stored}, should be 0",
        meaning: "Only file systems with the 64bit feature use this field.",
        repair: "i_file_acl_hi is cleared.",
        loss: nothing,
        peers: [0x020048],
    }

    /// Blocks count high.
    SECTORS_HIGH = "ext.inode.blocks-count-high" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has i_blocks_hi {stored}, should be 0",
        meaning: "Only file systems with the huge_file feature use this field.",
        repair: "i_blocks_hi is cleared.",
        loss: nothing,
        peers: [0x020044],
    }
}
