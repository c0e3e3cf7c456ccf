//! Catalogue rows of `inode`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Root not directory: every path starts at inode 2.
    ROOT_NOT_DIRECTORY = "ext.inode.root-not-directory" {
        severity: Critical, evidence: Local, preen: false,
        message: "the root directory, {inode}, is not a directory (mode {stored})",
        meaning: "Every path starts at inode 2. Its mode was overwritten, most likely together with the rest of its inode.",
        repair: "The inode is cleared and a new root directory is made; what it held is reconnected in lost+found.",
        loss: "The names of the files and directories in the root.",
        peers: [0x010001],
    }

    /// Root deletion time: very old versions of mke2fs left one there.
    ROOT_DELETION_TIME = "ext.inode.root-deletion-time" {
        severity: Minor, evidence: Local, preen: true,
        message: "the root directory, {inode}, has a deletion time ({stored})",
        meaning: "Very old versions of mke2fs left one there.",
        repair: "The deletion time is cleared.",
        loss: "Nothing.",
        peers: [0x010002],
    }

    /// Reserved mode: inodes below the first ordinary one belong to the file system itself; this one should be empty.
    RESERVED_MODE = "ext.inode.reserved-mode" {
        severity: Minor, evidence: Local, preen: true,
        message: "reserved {inode} has mode {stored}, but must not be a file of that type",
        meaning: "Inodes below the first ordinary one belong to the file system itself; this one should be empty.",
        repair: "Its mode is cleared.",
        loss: "Nothing that belongs to a user.",
        peers: [0x010003],
    }

    /// What no reserved inode has: attributes, or a map by extents where there are none.
    RESERVED_REMAINS = "ext.inode.reserved-remains" {
        severity: Minor, evidence: Local, preen: true,
        message: "reserved {inode}, which holds nothing, says that it has {what} ({stored})",
        meaning: "Inodes below the first ordinary one belong to the file system itself, and this one is not in use. It was overwritten.",
        repair: "The field is cleared.",
        loss: "Nothing that belongs to a user.",
        peers: [0x01005A, 0x01003A],
    }

    /// Deletion time missing: the inode was freed, or never finished, when the system stopped; nothing links to it.
    DELETION_TIME_MISSING = "ext.inode.deletion-time-missing" {
        severity: Minor, evidence: Local, preen: true,
        message: "free {inode} has a mode ({stored}) but no deletion time",
        meaning: "The inode was freed, or never finished, when the system stopped; nothing links to it.",
        repair: "It gets a deletion time and stays free.",
        loss: "Nothing.",
        peers: [0x010004],
    }

    /// Deletion time in use: the inode has links, so it is not deleted; its deletion time is left over or damaged.
    DELETION_TIME_IN_USE = "ext.inode.deletion-time-in-use" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is in use but has a deletion time ({stored})",
        meaning: "The inode has links, so it is not deleted; its deletion time is left over or damaged.",
        repair: "The deletion time is cleared.",
        loss: "Nothing.",
        peers: [0x010005],
    }

    /// Orphan remains: while a file that is still open is deleted, its deletion time holds the number of the next such file.
    ORPHAN_REMAINS = "ext.inode.orphan-remains" {
        severity: Minor, evidence: Local, preen: false,
        message: "the deletion time of {inode} ({stored}) looks like a link of the list of orphans",
        meaning: "While a file that is still open is deleted, its deletion time holds the number of the next such file. This inode is not on the list any more: the list was broken.",
        repair: "The deletion time is cleared, or set if the inode is free.",
        loss: "Nothing.",
        peers: [0x010036, 0x010037],
    }

    /// Directory without blocks: a directory has at least one block, with its entries for itself and its parent.
    EMPTY_DIRECTORY = "ext.inode.directory-without-blocks" {
        severity: Major, evidence: Local, preen: true,
        message: "directory {inode} has no blocks",
        meaning: "A directory has at least one block, with its entries for itself and its parent. All of its blocks were lost or wrong.",
        repair: "The inode is cleared; what was in it is reconnected in lost+found.",
        loss: "The names that the directory held, if it held any.",
        peers: [0x010006],
    }

    /// Size wrong: the size does not fit the blocks that are mapped: blocks behind the end of the file, a size that no file of this kind can have, or a directory that is not made of whole blocks.
    SIZE_WRONG = "ext.inode.size-wrong" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} has size {stored}, but its blocks make it {observed:byte:bytes} long",
        meaning: "The size does not fit the blocks that are mapped: blocks behind the end of the file, a size that no file of this kind can have, or a directory that is not made of whole blocks.",
        repair: "The size is set to the end of the last mapped block.",
        loss: "Nothing; a file may end in bytes that were not part of it.",
        peers: [0x01000C],
    }

    /// Blocks count wrong: the count of an inode's space (i_blocks) was not updated with its map, or the map is damaged.
    SECTORS_WRONG = "ext.inode.blocks-count-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} counts {stored} units of disk space, but uses {observed}",
        meaning: "The count of an inode's space (i_blocks) was not updated with its map, or the map is damaged.",
        repair: "The count is set to what is mapped.",
        loss: "Nothing.",
        peers: [0x01000D],
    }

    /// Imagic flag: the flag belongs to an extension for AFS; its bit is most likely damage.
    IMAGIC_WITHOUT_FEATURE = "ext.inode.imagic-flag" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has the imagic flag, which this file system does not use",
        meaning: "The flag belongs to an extension for AFS; its bit is most likely damage.",
        repair: "The flag is cleared.",
        loss: "Nothing.",
        peers: [0x01002F],
    }

    /// Immutable special file: devices, pipes, sockets and symbolic links cannot be marked so; the flags are damage, and would keep the file from being deleted.
    IMMUTABLE_SPECIAL = "ext.inode.immutable-special-file" {
        severity: Minor, evidence: Local, preen: true,
        message: "special file {inode} is marked immutable or append-only",
        meaning: "Devices, pipes, sockets and symbolic links cannot be marked so; the flags are damage, and would keep the file from being deleted.",
        repair: "The flags are cleared.",
        loss: "Nothing.",
        peers: [0x010030, 0x010031],
    }

    /// Size of special file: devices, pipes and sockets hold no data.
    SIZE_OF_SPECIAL = "ext.inode.size-of-special-file" {
        severity: Minor, evidence: Local, preen: true,
        message: "special file {inode} has size {stored} instead of 0",
        meaning: "Devices, pipes and sockets hold no data.",
        repair: "The size is set to 0.",
        loss: "Nothing.",
        peers: [0x010032],
    }

    /// Journal not clear: the journal was removed without clearing its inode, or the journal feature was lost.
    JOURNAL_NOT_CLEAR = "ext.inode.journal-not-clear" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is reserved for a journal and is not empty, but the file system has no internal journal",
        meaning: "The journal was removed without clearing its inode, or the journal feature was lost.",
        repair: "The inode is cleared and its blocks are freed.",
        loss: "What the old journal held.",
        peers: [0x010034],
    }

    /// Journal mode: the journal is a regular file.
    JOURNAL_MODE = "ext.inode.journal-mode" {
        severity: Minor, evidence: Local, preen: true,
        message: "the journal, {inode}, has mode {stored} instead of that of a regular file",
        meaning: "The journal is a regular file.",
        repair: "It is made a regular file.",
        loss: "Nothing.",
        peers: [0x010035],
    }

    /// Quota mode: quota files are regular files.
    QUOTA_MODE = "ext.inode.quota-mode" {
        severity: Minor, evidence: Local, preen: true,
        message: "quota file {inode} has mode {stored} instead of that of a regular file",
        meaning: "Quota files are regular files.",
        repair: "It is made a regular file.",
        loss: "Nothing.",
        peers: [0x010062],
    }

    /// Quota not clear: the quota feature was removed without clearing the inode, or the feature was lost.
    QUOTA_NOT_CLEAR = "ext.inode.quota-not-clear" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is reserved for a quota file and is not empty, but the file system does not use it",
        meaning: "The quota feature was removed without clearing the inode, or the feature was lost.",
        repair: "The inode is cleared and its blocks are freed.",
        loss: "Usage and limits that the old quota file held.",
        peers: [0x010063],
    }

    /// Quota not hidden: user and group quota belong into the reserved inodes 3 and 4.
    QUOTA_NOT_HIDDEN = "ext.inode.quota-not-hidden" {
        severity: Minor, evidence: Local, preen: true,
        message: "quota file {inode} is an ordinary inode that users can reach",
        meaning: "User and group quota belong into the reserved inodes 3 and 4.",
        repair: "The quota file is moved to its reserved inode.",
        loss: "Nothing.",
        peers: [0x010064],
    }

    /// Orphan file mode: the orphan file is a regular file.
    ORPHAN_FILE_MODE = "ext.inode.orphan-file-mode" {
        severity: Minor, evidence: Local, preen: true,
        message: "the orphan file, {inode}, has mode {stored} instead of that of a regular file",
        meaning: "The orphan file is a regular file.",
        repair: "It is cleared and made anew.",
        loss: "Nothing.",
        peers: [0x01008F],
    }

    /// Orphan file not clear: the feature was removed without clearing the inode, or it was lost.
    ORPHAN_FILE_NOT_CLEAR = "ext.inode.orphan-file-not-clear" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is named as the orphan file and is not empty, but the file system has no orphan file",
        meaning: "The feature was removed without clearing the inode, or it was lost.",
        repair: "The inode is cleared and its blocks are freed.",
        loss: "Nothing.",
        peers: [0x010090],
    }

    /// Extra size wrong: the size of the extra fields has to be a multiple of four that fits the inode record.
    EXTRA_SIZE_WRONG = "ext.inode.extra-size-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} says that it has {stored} extra bytes, which is impossible (it will be {observed})",
        meaning: "The size of the extra fields has to be a multiple of four that fits the inode record.",
        repair: "It is set to the usual size.",
        loss: "Attributes in the inode, if they cannot be found behind the new size.",
        peers: [0x01004F],
    }

    /// Timestamp era: old kernels encoded dates before 1970 wrongly, in a way that reads as a date after 2310.
    TIMESTAMP_ERA = "ext.inode.timestamp-era" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has a time stamp in the far future that is most likely one from before 1970",
        meaning: "Old kernels encoded dates before 1970 wrongly, in a way that reads as a date after 2310.",
        repair: "The time stamp is encoded as it should be.",
        loss: "Nothing.",
        peers: [0x010082],
    }

    /// Really a directory: its first block holds the entries of a directory with this very number: the mode is damaged, not the data.
    TREAT_AS_DIRECTORY = "ext.inode.really-a-directory" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is not a directory by its mode ({stored}), but its data are those of one",
        meaning: "Its first block holds the entries of a directory with this very number: the mode is damaged, not the data.",
        repair: "It is made a directory again.",
        loss: "Nothing.",
        peers: [0x010055],
    }

    /// Garbage: the block of the inode table was overwritten with something else.
    INODE_GARBAGE = "ext.inode.garbage" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} holds nonsense: its checksum is wrong, as are those of most of its neighbours, and so are its fields",
        meaning: "The block of the inode table was overwritten with something else.",
        repair: "The inode is cleared.",
        loss: "The file or directory; what was in a directory is reconnected in lost+found.",
        peers: [0x010067],
    }

    /// Checksum wrong: the inode was changed without its checksum, or a bit of it is wrong that nothing else can show.
    INODE_CHECKSUM = "ext.inode.checksum-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} makes sense, but its checksum is {stored} instead of {observed}",
        meaning: "The inode was changed without its checksum, or a bit of it is wrong that nothing else can show.",
        repair: "The checksum is computed anew.",
        loss: "Nothing.",
        peers: [0x010068],
    }

    /// Map flags on special file: devices, pipes and sockets hold no data.
    SPECIAL_WITH_MAP_FLAGS = "ext.inode.map-flags-on-special-file" {
        severity: Minor, evidence: Local, preen: true,
        message: "special file {inode} has the extents or inline-data flag",
        meaning: "Devices, pipes and sockets hold no data.",
        repair: "The flags are cleared.",
        loss: "Nothing.",
        // Where the file system has neither feature, e2fsck calls the whole thing malformed, by its type.
        peers: [0x010076, 0x020018, 0x020019, 0x020025, 0x020026],
    }

    /// Both flags extents: only one of the flags can be true.
    BOTH_FLAGS_EXTENTS = "ext.inode.both-flags-extents" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has both the extents and the inline-data flag; it holds an extent tree",
        meaning: "Only one of the flags can be true.",
        repair: "The inline-data flag is cleared.",
        loss: "Nothing.",
        peers: [0x010077],
    }

    /// Both flags inline: only one of the flags can be true.
    BOTH_FLAGS_INLINE = "ext.inode.both-flags-inline" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has both the extents and the inline-data flag; it holds inline data",
        meaning: "Only one of the flags can be true.",
        repair: "The extents flag is cleared.",
        loss: "Nothing.",
        peers: [0x010078],
    }

    /// Both flags block map: neither of the flags is true.
    BOTH_FLAGS_BLOCK_MAP = "ext.inode.both-flags-block-map" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has both the extents and the inline-data flag, but holds a block map",
        meaning: "Neither of the flags is true.",
        repair: "Both flags are cleared.",
        loss: "Nothing.",
        peers: [0x010079],
    }

    /// Both flags junk: neither an extent tree, nor inline data, nor a block map can be found.
    BOTH_FLAGS_JUNK = "ext.inode.both-flags-junk" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has both the extents and the inline-data flag, and its map is junk",
        meaning: "Neither an extent tree, nor inline data, nor a block map can be found.",
        repair: "The inode is cleared.",
        loss: "The file.",
        peers: [0x01007A],
    }

    /// Inline flag without feature: the flag is damage, or the feature was lost; no inline data can be found.
    INLINE_FLAG_WITHOUT_FEATURE = "ext.inode.inline-flag-without-feature" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has the inline-data flag, but the file system has no inline data",
        meaning: "The flag is damage, or the feature was lost; no inline data can be found.",
        repair: "The inode is cleared.",
        loss: "The file.",
        peers: [0x010070],
    }

    /// Casefold not directory: only directories compare names without case.
    CASEFOLD_NOT_DIRECTORY = "ext.inode.casefold-not-directory" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has the casefold flag but is not a directory",
        meaning: "Only directories compare names without case.",
        repair: "The flag is cleared.",
        loss: "Nothing.",
        peers: [0x010088],
    }

    /// Casefold without feature: the flag is damage, or the feature was lost.
    CASEFOLD_WITHOUT_FEATURE = "ext.inode.casefold-without-feature" {
        severity: Minor, evidence: Local, preen: false,
        message: "directory {inode} has the casefold flag, but the file system has no casefolding",
        meaning: "The flag is damage, or the feature was lost.",
        repair: "The flag is cleared.",
        loss: "Nothing; names that differ in case only are told apart again.",
        peers: [0x010089],
    }

    /// Verity without feature: the flag is damage, or the feature was lost; the kernel does not open such a file.
    VERITY_WITHOUT_FEATURE = "ext.inode.verity-without-feature" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} has the verity flag, but the file system has no verity",
        meaning: "The flag says that hashes behind the end of the file prove what it holds. It is damage, or the feature was lost. The kernel does not open such a file.",
        repair: "The flag is cleared.",
        loss: "Nothing; what the file holds is no longer proved.",
        peers: [],
    }

    /// Value holder not regular: attribute values lie in regular files only.
    VALUE_HOLDER_NOT_REGULAR = "ext.inode.value-holder-not-regular" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} is marked as holding an attribute value but is not a regular file",
        meaning: "Attribute values lie in regular files only.",
        repair: "The flag is cleared.",
        loss: "Nothing.",
        peers: [0x010091],
    }

    /// A holder of an attribute's value whose type was overwritten.
    VALUE_HOLDER_TYPE = "ext.inode.value-holder-type" {
        severity: Major, evidence: Cross, preen: true,
        message: "{inode} is marked as holding an attribute value, and what it holds has the hash of one, but its mode ({stored}) does not say that it is a regular file",
        meaning: "Attribute values lie in regular files only. The hash proves that this is one; its type was overwritten.",
        repair: "It becomes a regular file again.",
        loss: "Nothing.",
        peers: [0x010091],
    }

    /// Index flag not directory: only directories have an index.
    INDEX_NOT_DIRECTORY = "ext.inode.index-flag-not-directory" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has the flag of an indexed directory but is not a directory",
        meaning: "Only directories have an index.",
        repair: "The flag is cleared.",
        loss: "Nothing.",
        peers: [0x010048],
    }

    /// Fragment address: fragments were never implemented.
    FRAGMENT_ADDRESS = "ext.inode.fragment-address" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has fragment address {stored} instead of 0",
        meaning: "Fragments were never implemented.",
        repair: "The field is cleared.",
        loss: "Nothing.",
        peers: [0x02000D],
    }

    /// Directory size high: directories of that size need the large_dir feature.
    DIRECTORY_SIZE_HIGH = "ext.inode.directory-size-high" {
        severity: Minor, evidence: Local, preen: false,
        message: "directory {inode} has {stored} in the high half of its size",
        meaning: "Directories of that size need the large_dir feature.",
        repair: "The high half is cleared.",
        loss: "Nothing.",
        peers: [0x02000F, 0x01000C],
    }

    /// Fragment number: fragments were never implemented.
    FRAGMENT_NUMBER = "ext.inode.fragment-number" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has fragment number {stored} instead of 0",
        meaning: "Fragments were never implemented.",
        repair: "The field is cleared.",
        loss: "Nothing.",
        peers: [0x020010],
    }

    /// A map that shares more than the file system could hold.
    MAP_CROWDED = "ext.inode.map-crowded" {
        severity: Major, evidence: Cross, preen: false,
        message: "the map of {inode} names blocks of others so often that the file system has not enough blocks for all of them",
        meaning: "Many files say that the same blocks are parts of their maps, or one file maps more blocks than there are. Such maps were made up, or an inode was copied over many others; not all of the files can get blocks of their own.",
        repair: "The inode is cleared. The first of the files that share these blocks keep what they have.",
        loss: "The file.",
        peers: [0x011002],
    }

    /// Hurd: the translator's block is outside.
    TRANSLATOR_OUTSIDE = "ext.inode.translator-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has its translator in block {stored}, outside the file system",
        meaning: "On the Hurd an inode may name a block with the command that serves it. This number is no block of the file system.",
        repair: "The number is cleared.",
        loss: "The translator's command line, whose place is not known.",
        peers: [0x01000E],
    }

    /// Fragment size: fragments were never implemented.
    FRAGMENT_SIZE = "ext.inode.fragment-size" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has fragment size {stored} instead of 0",
        meaning: "Fragments were never implemented.",
        repair: "The field is cleared.",
        loss: "Nothing.",
        peers: [0x020011],
    }

    /// Type restored: the type bits are impossible, or those of a device, but there are the contents of a file.
    TYPE_RESTORED = "ext.inode.type-restored" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has mode {stored}, but it holds the contents of a regular file",
        meaning: "The type bits of the mode are damaged. Its flags, its map and its space in use are those of a regular file.",
        repair: "It is made a regular file again. The permissions stay as they are.",
        loss: "Nothing.",
        peers: [0x020012, 0x020018, 0x020019],
    }

    /// Mode unknown: the type bits of the mode are damaged, and the data do not show what it was.
    MODE_UNKNOWN = "ext.inode.mode-unknown" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is of no known type (mode {stored})",
        meaning: "The type bits of the mode are damaged, and the data do not show what it was.",
        repair: "The inode is cleared, with the names that lead to it.",
        loss: "The file.",
        peers: [0x020012],
    }

    /// Character device wrong: it has flags and contents that a device cannot have.
    CHAR_DEVICE_WRONG = "ext.inode.character-device-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "character device {inode} makes no sense",
        meaning: "It has flags and contents that a device cannot have.",
        repair: "The inode is cleared, with the names that lead to it.",
        loss: "The device file.",
        peers: [0x020018],
    }

    /// Block device wrong: it has flags and contents that a device cannot have.
    BLOCK_DEVICE_WRONG = "ext.inode.block-device-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "block device {inode} makes no sense",
        meaning: "It has flags and contents that a device cannot have.",
        repair: "The inode is cleared, with the names that lead to it.",
        loss: "The device file.",
        peers: [0x020019],
    }

    /// Fifo wrong: it has flags and contents that a pipe cannot have.
    FIFO_WRONG = "ext.inode.fifo-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "named pipe {inode} makes no sense",
        meaning: "It has flags and contents that a pipe cannot have.",
        repair: "The inode is cleared, with the names that lead to it.",
        loss: "The pipe.",
        peers: [0x020025],
    }

    /// Socket wrong: it has flags and contents that a socket cannot have.
    SOCKET_WRONG = "ext.inode.socket-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "socket {inode} makes no sense",
        meaning: "It has flags and contents that a socket cannot have.",
        repair: "The inode is cleared, with the names that lead to it.",
        loss: "The socket.",
        peers: [0x020026],
    }

    /// Symlink wrong: the length of the target has to be the size, with nothing else in the way: no holes, no second block.
    SYMLINK_WRONG = "ext.inode.symlink-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "symbolic link {inode} is not valid: its size is {stored}, its target has {observed:byte:bytes}",
        meaning: "The length of the target has to be the size, with nothing else in the way: no holes, no second block.",
        repair: "The inode is cleared, with the names that lead to it.",
        loss: "The symbolic link.",
        peers: [0x020031],
    }

    /// Attribute pointer high: only a file system with the 64bit feature has blocks that need it.
    ATTRIBUTE_POINTER_HIGH = "ext.inode.attribute-pointer-high" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has {stored} in the high half of its attribute block pointer",
        meaning: "Only a file system with the 64bit feature has blocks that need it.",
        repair: "The high half is cleared.",
        loss: "Nothing.",
        peers: [0x020048],
    }

    /// Blocks count high: only a file system with the huge_file feature uses it.
    SECTORS_HIGH = "ext.inode.blocks-count-high" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode} has {stored} in the high half of its count of disk space",
        meaning: "Only a file system with the huge_file feature uses it.",
        repair: "The high half is cleared.",
        loss: "Nothing.",
        peers: [0x020044],
    }
}
