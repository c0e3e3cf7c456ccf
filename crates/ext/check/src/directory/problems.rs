// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `directory`: entries, hash tree indexes, the tree.

use fsmend_engine::problem_rows;

problem_rows! {
    /// `.` leads elsewhere.
    DOT_WRONG_INODE = "ext.directory.dot-wrong-inode" {
        severity: Major, evidence: Local, preen: false,
        message: "'.' in directory {inode} points to inode {stored}",
        meaning: "The first entry of a directory must point to the directory itself.",
        repair: "'.' is set to the inode of the directory.",
        loss: nothing,
        peers: [0x020001],
    }
    /// The place of `.` is free.
    DOT_MISSING = "ext.directory.dot-missing" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has no '.' entry",
        meaning: "The first entry of a directory must be '.', which points to the directory itself. The entry is empty.",
        repair: "'.' is added.",
        loss: nothing,
        peers: [0x020009],
    }
    /// The place of `..` is free.
    DOT_DOT_MISSING = "ext.directory.dot-dot-missing" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has no '..' entry",
        meaning: "The second entry of a directory must be '..', which points to its parent. The entry is empty.",
        repair: "'..' is added and points to the directory that contains this one.",
        loss: nothing,
        peers: [0x02000A],
    }
    /// Another name stands in the place of `.`.
    FIRST_NOT_DOT = "ext.directory.first-not-dot" {
        severity: Major, evidence: Local, preen: false,
        message: "the first entry of directory {inode} is '{name}', not '.'",
        meaning: "The first entry of a directory must be '.'. The block was probably overwritten.",
        repair: "The entry is replaced by '.'.",
        loss: "The name in that entry. A file with no other name is reconnected to lost+found.",
        peers: [0x02000B],
    }
    /// Another name stands in the place of `..`.
    SECOND_NOT_DOT_DOT = "ext.directory.second-not-dot-dot" {
        severity: Major, evidence: Local, preen: false,
        message: "the second entry of directory {inode} is '{name}', not '..'",
        meaning: "The second entry of a directory must be '..'. The block was probably overwritten.",
        repair: "The entry is replaced by '..'.",
        loss: "The name in that entry. A file with no other name is reconnected to lost+found.",
        peers: [0x02000C],
    }
    /// `.` lacks its zero byte.
    DOT_UNTERMINATED = "ext.directory.dot-unterminated" {
        severity: Minor, evidence: Local, preen: false,
        message: "'.' in directory {inode} is not NUL-terminated",
        meaning: "The names '.' and '..' must be followed by a zero byte.",
        repair: "The zero byte is written.",
        loss: nothing,
        peers: [0x020016],
    }
    /// `..` lacks its zero byte.
    DOT_DOT_UNTERMINATED = "ext.directory.dot-dot-unterminated" {
        severity: Minor, evidence: Local, preen: false,
        message: "'..' in directory {inode} is not NUL-terminated",
        meaning: "The names '.' and '..' must be followed by a zero byte.",
        repair: "The zero byte is written.",
        loss: nothing,
        peers: [0x020017],
    }
    /// `.` takes too much room.
    DOT_OVERSIZED = "ext.directory.dot-oversized" {
        severity: Minor, evidence: Local, preen: false,
        message: "the '.' entry of directory {inode} has rec_len {stored:byte:bytes}, should be 12",
        meaning: "The entry takes space that other names could use.",
        repair: "The entry is split. The rest becomes an empty entry.",
        loss: nothing,
        peers: [0x020024],
    }
    /// A further `.`.
    DOT_AGAIN = "ext.directory.dot-again" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has a duplicate '.' entry, which points to inode {stored}",
        meaning: "Only the first entry of a directory may be named '.'.",
        repair: "The duplicate entry is removed.",
        loss: nothing "Nothing that was reachable by this name.",
        peers: [0x02001A],
    }
    /// A further `..`.
    DOT_DOT_AGAIN = "ext.directory.dot-dot-again" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has a duplicate '..' entry, which points to inode {stored}",
        meaning: "Only the second entry of a directory may be named '..'.",
        repair: "The duplicate entry is removed.",
        loss: nothing "Nothing that was reachable by this name.",
        peers: [0x02001B],
    }
    /// A `.` that is free, at the end of a block.
    FREE_DOT = "ext.directory.free-dot" {
        severity: Major, evidence: Local, preen: true,
        message: "the last entry of {block} of directory {inode} is free, but is named '.'",
        meaning: "Kernels since 2025 refuse to read a directory in which an entry named '.' ends a block, even if the entry is free. e2fsck accepts it.",
        repair: "The free entry loses its name.",
        loss: nothing,
        peers: [],
    }
    /// An inode number that no name may lead to.
    ENTRY_INODE_INVALID = "ext.directory.entry-inode-invalid" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in directory {inode} points to inode {stored}, which is not a valid inode number",
        meaning: "The number is larger than the last inode, or is reserved for the file system.",
        repair: "The entry is removed.",
        loss: "The name. The file that it pointed to is not known; if it has no other name, it is reconnected to lost+found.",
        peers: [0x020002],
    }
    /// A name of a file that is not there.
    ENTRY_INODE_UNUSED = "ext.directory.entry-inode-unused" {
        severity: Major, evidence: Cross, preen: true,
        message: "'{name}' in directory {inode} points to inode {stored}, which {state}",
        meaning: "The file was deleted or lost but its name remained, the inode cannot be read, or the inode is too damaged to keep.",
        repair: "The entry is removed.",
        loss: "The name. Also the file, if its inode cannot be read or is cleared by this repair.",
        peers: [0x020003],
    }
    /// A name of the directory in itself.
    ENTRY_TO_ITSELF = "ext.directory.entry-to-itself" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in directory {inode} points to the directory itself",
        meaning: "Only '.' may point to its own directory. Any other such entry is a loop.",
        repair: "The entry is removed.",
        loss: "Nothing but the name.",
        peers: [0x020004],
    }
    /// A name of an inode in a bad block.
    ENTRY_IN_BAD_BLOCK = "ext.directory.entry-in-bad-block" {
        severity: Major, evidence: Cross, preen: false,
        message: "'{name}' in directory {inode} points to inode {stored}, which is in a bad block",
        meaning: "The block of the inode table that holds the inode is on the bad block list, so the inode cannot be trusted.",
        repair: "The entry is removed.",
        loss: "The file. Its inode is in a bad block and cannot be recovered.",
        peers: [0x020005],
    }
    /// A second name of a directory.
    DIRECTORY_NAMED_TWICE = "ext.directory.named-twice" {
        severity: Major, evidence: Cross, preen: false,
        message: "'{name}' in directory {inode} is a second name of directory {stored}",
        meaning: "A directory can have only one name. The name in the directory that its '..' points to is kept; otherwise the one in the directory with the lowest inode number.",
        repair: "This second name is removed.",
        loss: "Nothing but the second name.",
        peers: [0x020006],
    }
    /// A name of the root.
    ENTRY_TO_ROOT = "ext.directory.entry-to-root" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in directory {inode} points to the root directory",
        meaning: "The root directory has no name. An entry that points to it makes a loop.",
        repair: "The entry is removed.",
        loss: "Nothing but the name.",
        peers: [0x020007],
    }
    /// A slash or zero byte in a name.
    NAME_INVALID = "ext.directory.name-invalid" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in directory {inode} contains a slash or a zero byte",
        meaning: "A file name cannot contain these characters, so the file cannot be opened.",
        repair: "The characters are replaced by dots, or by '_' where the name would become '.' or '..'. The file is renamed; its contents are unchanged.",
        loss: "Nothing but these characters of the name.",
        peers: [0x020008],
    }
    /// An entry without a name.
    NAME_EMPTY = "ext.directory.name-empty" {
        severity: Major, evidence: Local, preen: false,
        message: "an entry in directory {inode} points to inode {stored} and has a zero-length name",
        meaning: "A name has at least one character.",
        repair: "The entry is removed.",
        loss: nothing "Nothing; a file with no other name is reconnected to lost+found.",
        peers: [0x020030],
    }
    /// A name that is longer than its record.
    NAME_BEYOND_RECORD = "ext.directory.name-beyond-record" {
        severity: Major, evidence: Local, preen: false,
        message: "a name in directory {inode} is longer than its entry ({place}, offset {offset})",
        meaning: "The name length (name_len) does not fit into the entry length (rec_len).",
        repair: "The entry is merged with the one before it. All other entries are kept.",
        loss: "This name. A file with no other name is reconnected to lost+found.",
        peers: [0x020013, 0x020014],
    }
    /// A record length that cannot be.
    CHAIN_BROKEN = "ext.directory.chain-broken" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has a corrupted entry ({place}, offset {offset}: rec_len {stored})",
        meaning: "The length of an entry says where the next one begins. This length is impossible; the block was probably overwritten.",
        repair: "The chain of entries is repaired at that place. All names that can be read are kept.",
        loss: "Names in the damaged part. Their files are reconnected to lost+found.",
        peers: [0x020013, 0x02001D],
    }
    /// A block is not there.
    HOLE = "ext.directory.hole" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has a hole of {observed:block:blocks} at its block {stored}",
        meaning: "A directory must not have holes.",
        repair: "Empty directory blocks are added.",
        loss: "Names that were in the missing blocks.",
        peers: [0x020015],
    }
    /// A block cannot be read.
    BLOCK_UNREADABLE = "ext.directory.block-unreadable" {
        severity: Critical, evidence: Local, preen: false,
        message: "{block} of directory {inode} cannot be read",
        meaning: "The device returned a read error for this block.",
        repair: "The block is replaced by an empty directory block.",
        loss: "The names in the block. Their files are reconnected to lost+found.",
        peers: [0x020020],
    }
    /// The type byte is zero.
    FILE_TYPE_MISSING = "ext.directory.file-type-missing" {
        severity: Note, evidence: Cross, preen: true,
        message: "'{name}' in directory {inode} has no file type (inode {stored})",
        meaning: "Directory entries hold the file type. Entries written before the filetype feature was set have none.",
        repair: "The file type is set from the inode.",
        loss: nothing,
        peers: [0x020027],
    }
    /// The type byte differs from the inode.
    FILE_TYPE_WRONG = "ext.directory.file-type-wrong" {
        severity: Minor, evidence: Cross, preen: false,
        message: "'{name}' in directory {inode} has file type {stored}, but inode {target} is a {observed}",
        meaning: "The file type in the directory entry does not match the inode.",
        repair: "The file type in the entry is set from the inode. The file is unchanged.",
        loss: nothing,
        peers: [0x020028],
    }
    /// A type byte without the feature.
    FILE_TYPE_UNEXPECTED = "ext.directory.file-type-unexpected" {
        severity: Minor, evidence: Local, preen: true,
        message: "'{name}' in directory {inode} has a file type ({stored}), but the filetype feature is not set",
        meaning: "Without the filetype feature this byte must be zero.",
        repair: "The byte is cleared.",
        loss: nothing,
        peers: [0x020029],
    }
    /// A name leads into an uninitialised group.
    ENTRY_IN_UNINIT_GROUP = "ext.directory.entry-in-uninit-group" {
        severity: Minor, evidence: Cross, preen: true,
        message: "'{name}' in directory {inode} points to inode {stored} in {group}, which has the INODE_UNINIT flag",
        meaning: "The flag says that no inode of the group is in use. It is wrong.",
        repair: "The flag is cleared and the inodes of the group are checked.",
        loss: nothing,
        peers: [0x020046],
    }
    /// A name leads into a never-used tail.
    ENTRY_IN_UNUSED_TAIL = "ext.directory.entry-in-unused-tail" {
        severity: Minor, evidence: Cross, preen: true,
        message: "'{name}' in directory {inode} points to inode {stored}, which is among the unused inodes of {group}",
        meaning: "The group descriptor counts the unused inodes at the end of the inode table (bg_itable_unused). The count is too high.",
        repair: "The count is corrected and the inodes are checked.",
        loss: nothing,
        peers: [0x020047],
    }
    /// No checksum record.
    CHECKSUM_MISSING = "ext.directory.checksum-missing" {
        severity: Minor, evidence: Local, preen: true,
        message: "{block} of directory {inode} has no space for its checksum",
        meaning: "With metadata_csum every directory block ends with an entry that holds the checksum. This one does not.",
        repair: "The directory is rewritten with checksums. All names are kept.",
        loss: nothing,
        peers: [0x02004C],
    }
    /// A block's checksum is wrong.
    CHECKSUM_WRONG = "ext.directory.checksum-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "{block} of directory {inode} has checksum {stored}, should be {observed}; its entries look valid",
        meaning: "The block was changed without updating the checksum, or the checksum was damaged.",
        repair: "The checksum is recomputed.",
        loss: nothing,
        peers: [0x02004D],
    }
    /// Too short for an encrypted name.
    ENCRYPTED_NAME_SHORT = "ext.directory.encrypted-name-short" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in the encrypted directory {inode} is too short for an encrypted name",
        meaning: "Encrypted names have at least 16 bytes.",
        repair: "The entry is removed.",
        loss: "The name. A file with no other name is reconnected to lost+found.",
        peers: [0x020050],
    }
    /// An unencrypted file in an encrypted directory.
    ENTRY_UNENCRYPTED = "ext.directory.entry-unencrypted" {
        severity: Major, evidence: Cross, preen: false,
        message: "'{name}' in the encrypted directory {inode} points to inode {stored}, which is not encrypted",
        meaning: "Every file, directory and symbolic link in an encrypted directory must be encrypted. The kernel refuses to open this one.",
        repair: "The entry is removed.",
        loss: "The name. A file with no other name is reconnected to lost+found.",
        peers: [0x020051],
    }
    /// Another encryption policy than the directory's.
    ENTRY_OTHER_POLICY = "ext.directory.entry-other-policy" {
        severity: Major, evidence: Cross, preen: false,
        message: "'{name}' in the encrypted directory {inode} points to inode {stored}, which is encrypted with another policy",
        meaning: "Everything in an encrypted directory has the same encryption policy. The kernel refuses to open this file.",
        repair: "The entry is removed.",
        loss: "The name. A file with no other name is reconnected to lost+found.",
        peers: [0x020052],
    }
    /// A name that strict mode refuses.
    NAME_NOT_UTF8 = "ext.directory.name-not-utf8" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in the case-insensitive directory {inode} is not valid UTF-8",
        meaning: "The file system uses strict encoding: names in case-insensitive directories must be valid UTF-8.",
        repair: "The invalid bytes are replaced by dots.",
        loss: "Nothing but these bytes of the name.",
        peers: [0x020053],
    }
    /// The same name for the same inode again.
    ENTRY_TWICE = "ext.directory.entry-twice" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has '{name}' more than once, each time for inode {stored}",
        meaning: "The same entry was written twice.",
        repair: "The duplicate entry is removed.",
        loss: nothing,
        peers: [0x020041, 0x020043],
    }
    /// The same name for another inode.
    NAME_TWICE = "ext.directory.name-twice" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has '{name}' more than once, for different inodes ({stored} and {observed})",
        meaning: "Only one of the files can be opened by this name.",
        repair: "The duplicate entry is renamed. Both files are kept.",
        loss: "Nothing but the old name of one of the files.",
        peers: [0x020042, 0x020043],
    }
    /// The same encrypted name for another inode.
    NAME_TWICE_ENCRYPTED = "ext.directory.name-twice-encrypted" {
        severity: Major, evidence: Local, preen: false,
        message: "the encrypted directory {inode} has '{name}' more than once, for different inodes ({stored} and {observed})",
        meaning: "Only one of the files can be opened by this name. An encrypted name cannot be changed without the key.",
        repair: "The duplicate entry is removed.",
        loss: "The name. A file with no other name is reconnected to lost+found.",
        peers: [0x020054, 0x020043],
    }
    /// A name of an inode that holds an attribute value.
    ENTRY_TO_VALUE_INODE = "ext.directory.entry-to-value-inode" {
        severity: Major, evidence: Cross, preen: false,
        message: "'{name}' in directory {inode} points to inode {stored}, which holds the value of an extended attribute",
        meaning: "EA inodes have no names.",
        repair: "The entry is removed.",
        loss: "Nothing but the name.",
        peers: [0x020055],
    }
    /// A huge directory without the feature.
    LARGE_DIR_MISSING = "ext.directory.large-dir-missing" {
        severity: Minor, evidence: Cross, preen: true,
        message: "directory {inode} needs the large_dir feature, which is not set",
        meaning: "The directory is larger than 2 GiB, or its index has three levels.",
        repair: "The feature is set in the superblock.",
        loss: nothing,
        peers: [0x020039],
    }
    /// The index flag without dir_index.
    INDEX_WITHOUT_FEATURE = "ext.htree.without-feature" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has INDEX_FL set, but the file system has no dir_index feature",
        meaning: "Without the feature the flag has no effect.",
        repair: "INDEX_FL is cleared.",
        loss: nothing "Nothing; all names are kept.",
        peers: [0x010047],
    }
    /// The root block describes no index.
    ROOT_MALFORMED = "ext.htree.root-malformed" {
        severity: Minor, evidence: Local, preen: true,
        message: "directory {inode} has an invalid htree root node",
        meaning: "The first block of an indexed directory describes the index. This one does not.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x010049, 0x02003C],
    }
    /// An unknown hash version.
    HASH_UNKNOWN = "ext.htree.hash-unknown" {
        severity: Minor, evidence: Local, preen: true,
        message: "the htree of directory {inode} has an unsupported hash version ({stored})",
        meaning: "The root node says which hash the index uses. This hash is unknown.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x01004A],
    }
    /// Unknown flags.
    FLAGS_UNKNOWN = "ext.htree.flags-unknown" {
        severity: Minor, evidence: Local, preen: true,
        message: "the htree root node of directory {inode} has unknown flags ({stored})",
        meaning: "No known implementation sets these flags.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x01004B],
    }
    /// More levels than allowed.
    TOO_DEEP = "ext.htree.too-deep" {
        severity: Minor, evidence: Local, preen: true,
        message: "the htree of directory {inode} has {stored:level:levels} of interior nodes, which is too deep",
        meaning: "The features of the file system limit the depth.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x01004C],
    }
    /// Another hash where SipHash is needed.
    NEEDS_SIPHASH = "ext.htree.needs-siphash" {
        severity: Minor, evidence: Local, preen: true,
        message: "the htree of directory {inode} uses hash {stored}, but the directory is encrypted and case-insensitive and needs SipHash",
        meaning: "Directories with both flags can only use SipHash.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x01008D],
    }
    /// SipHash where it cannot be.
    CANNOT_SIPHASH = "ext.htree.cannot-siphash" {
        severity: Minor, evidence: Local, preen: true,
        message: "the htree of directory {inode} uses SipHash, but the directory is not both encrypted and case-insensitive",
        meaning: "Only directories with both flags can use SipHash.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x01008E],
    }
    /// A block that the index does not lead to.
    NOT_REFERENCED = "ext.htree.not-referenced" {
        severity: Major, evidence: Cross, preen: false,
        message: "block {stored} of directory {inode} is not referenced by its htree",
        meaning: "Names in this block cannot be found.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x020034, 0x020040],
    }
    /// A block that the index leads to twice.
    REFERENCED_TWICE = "ext.htree.referenced-twice" {
        severity: Major, evidence: Cross, preen: false,
        message: "block {stored} of directory {inode} is referenced twice by its htree",
        meaning: "Each block must hold one range of hashes.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x020035],
    }
    /// A name below the range of its block.
    HASH_TOO_SMALL = "ext.htree.hash-too-small" {
        severity: Major, evidence: Cross, preen: false,
        message: "block {at} of directory {inode} holds a name with hash {observed}, below its hash range in the htree, which begins at {stored}",
        meaning: "The name cannot be found through the index.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x020036],
    }
    /// A name above the range of its block.
    HASH_TOO_LARGE = "ext.htree.hash-too-large" {
        severity: Major, evidence: Cross, preen: false,
        message: "block {at} of directory {inode} holds a name with hash {observed}, above its hash range in the htree, which ends at {stored}",
        meaning: "The name cannot be found through the index.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x020037],
    }
    /// The index has to be built anew.
    REBUILD = "ext.htree.rebuild" {
        severity: Minor, evidence: Cross, preen: false,
        message: "the htree of directory {inode} is invalid and must be rebuilt",
        meaning: "The defects are reported as separate problems.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x020038],
    }
    /// An index entry beyond the end.
    BLOCK_OUT_OF_RANGE = "ext.htree.block-out-of-range" {
        severity: Major, evidence: Local, preen: false,
        message: "htree node {at} of directory {inode} points to block {stored}, but the directory has {observed}",
        meaning: "The index points beyond the end of the directory.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x02003A],
    }
    /// The capacity does not fit the block.
    LIMIT_WRONG = "ext.htree.limit-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "htree node {at} of directory {inode} has an invalid limit ({stored:entry:entries}, should be {observed})",
        meaning: "The limit follows from the block size.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x02003D],
    }
    /// More entries than there is room for.
    COUNT_WRONG = "ext.htree.count-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "htree node {at} of directory {inode} has an invalid count ({stored:entry:entries}, but space for {observed})",
        meaning: "A node holds at least one entry, and no more than it has space for.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x02003E],
    }
    /// Index entries out of order.
    HASHES_NOT_ASCENDING = "ext.htree.hashes-not-ascending" {
        severity: Major, evidence: Local, preen: true,
        message: "htree node {at} of directory {inode} has an unordered hash table",
        meaning: "The index is searched by bisection, so its entries must be sorted.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x02003F],
    }
    /// A leaf or a node at the wrong level.
    DEPTH_WRONG = "ext.htree.depth-wrong" {
        severity: Major, evidence: Cross, preen: false,
        message: "block {stored} of directory {inode} is at the wrong depth of its htree",
        meaning: "All blocks with names must be at the depth that the root node gives.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x020040, 0x020045],
    }
    /// The root's checksum is wrong.
    ROOT_CHECKSUM = "ext.htree.root-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the htree root node of directory {inode} has checksum {stored}, should be {observed}",
        meaning: "The block was changed without updating the checksum, or was damaged.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x020049],
    }
    /// A node's checksum is wrong.
    NODE_CHECKSUM = "ext.htree.node-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "htree node {at} of directory {inode} has checksum {stored}, should be {observed}",
        meaning: "The block was changed without updating the checksum, or was damaged.",
        repair: "The directory index is rebuilt. All names are kept.",
        loss: nothing,
        peers: [0x02004A],
    }
    /// There is no root directory.
    ROOT_MISSING = "ext.directory.root-missing" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the root directory is missing",
        meaning: "Inode 2 is not in use or is not a directory.",
        repair: "An empty root directory is created. The contents of the old one are reconnected to lost+found.",
        loss: "The names in the root directory.",
        peers: [0x030001],
    }
    /// No name leads to a directory.
    UNCONNECTED = "ext.directory.unconnected" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode} has no name ('..' points to inode {stored}){former_names?; it was probably }",
        meaning: "The directory that contained it was damaged, or the system stopped between two updates.",
        repair: "The directory is reconnected to lost+found as '#' and its inode number. Any recoverable name is reported.",
        loss: "Its name and location. Its contents are kept.",
        peers: [0x030003],
    }
    /// `..` does not lead to the parent.
    PARENT_WRONG = "ext.directory.parent-wrong" {
        severity: Major, evidence: Cross, preen: false,
        message: "'..' in directory {inode} points to inode {stored}, should be {observed}",
        meaning: "'..' must point to the directory that contains the name.",
        repair: "'..' is corrected.",
        loss: nothing,
        peers: [0x030005],
    }
    /// A directory is its own ancestor.
    LOOPED = "ext.directory.looped" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode} is contained in itself",
        meaning: "Its chain of parents is a loop that does not reach the root, so no path leads to it.",
        repair: "The loop is broken and the directory is reconnected to lost+found.",
        loss: "Its name and location. Its contents are kept.",
        peers: [0x03001D],
    }
    /// No lost+found.
    LOST_FOUND_MISSING = "ext.directory.lost-found-missing" {
        severity: Note, evidence: Cross, preen: true,
        message: "the root directory has no lost+found",
        meaning: "A repair reconnects files and directories without names there. The file system works without it.",
        repair: "The lost+found directory is created.",
        loss: nothing,
        peers: [0x030004],
    }
    /// No lost+found, and no way to make one.
    LOST_FOUND_IMPOSSIBLE = "ext.directory.lost-found-impossible" {
        severity: Note, evidence: Cross, preen: true,
        message: "the root directory has no lost+found, and there is no free inode or block to create it",
        meaning: "A repair reconnects files and directories without names there. The file system is full.",
        repair: "None. Files without names are reconnected to the root directory if it has space.",
        loss: nothing,
        peers: [0x030004, 0x030008, 0x030019],
    }
    /// lost+found is a file.
    LOST_FOUND_NOT_DIRECTORY = "ext.directory.lost-found-not-directory" {
        severity: Major, evidence: Cross, preen: false,
        message: "lost+found (inode {stored}) is not a directory",
        meaning: "A repair reconnects files and directories without names there.",
        repair: "A new directory takes the name lost+found. The file is reconnected in it.",
        loss: "Nothing but the name of the file.",
        peers: [0x030017],
    }
    /// lost+found is stored inline.
    LOST_FOUND_INLINE = "ext.directory.lost-found-inline" {
        severity: Minor, evidence: Cross, preen: false,
        message: "lost+found (inode {stored}) has inline data",
        meaning: "The lost+found directory needs blocks of its own, so that it can grow.",
        repair: "The lost+found directory is replaced by a new directory.",
        loss: nothing "Nothing; its contents are kept.",
        peers: [0x030018],
    }
    /// lost+found is encrypted.
    LOST_FOUND_ENCRYPTED = "ext.directory.lost-found-encrypted" {
        severity: Minor, evidence: Cross, preen: false,
        message: "lost+found (inode {stored}) is encrypted",
        meaning: "A repair cannot add names to an encrypted directory.",
        repair: "The lost+found directory is replaced by a new directory. The old one is reconnected in it.",
        loss: "Nothing but its name. Its contents are kept.",
        peers: [0x03001B],
    }
    /// lost+found is too small.
    LOST_FOUND_FULL = "ext.directory.lost-found-full" {
        severity: Minor, evidence: Cross, preen: false,
        message: "lost+found ({inode}) has space for {stored:more name:more names}, but {observed:is:are} needed",
        meaning: "Files and directories without names are reconnected there.",
        repair: "The lost+found directory is expanded.",
        loss: nothing,
        peers: [0x030002],
    }
}
