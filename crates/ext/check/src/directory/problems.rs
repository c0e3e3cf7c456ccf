//! Catalogue rows of `directory`: entries, hash tree indexes, the tree.

use fsmend_engine::problem_rows;

problem_rows! {
    /// `.` leads elsewhere.
    DOT_WRONG_INODE = "ext.directory.dot-wrong-inode" {
        severity: Major, evidence: Local, preen: false,
        message: "'.' of directory {inode} leads to inode {stored}",
        meaning: "The first entry of a directory leads to the directory itself. This one leads elsewhere.",
        repair: "It is made to lead to the directory itself.",
        loss: "Nothing.",
        peers: [0x020001],
    }
    /// The place of `.` is free.
    DOT_MISSING = "ext.directory.dot-missing" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has no '.'",
        meaning: "The first entry of a directory is '.', which leads to the directory itself. Its place is free.",
        repair: "It is put back.",
        loss: "Nothing.",
        peers: [0x020009],
    }
    /// The place of `..` is free.
    DOT_DOT_MISSING = "ext.directory.dot-dot-missing" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has no '..'",
        meaning: "The second entry of a directory is '..', which leads to its parent. Its place is free.",
        repair: "It is put back, and leads to the directory that holds the name of this one.",
        loss: "Nothing.",
        peers: [0x02000A],
    }
    /// Another name stands in the place of `.`.
    FIRST_NOT_DOT = "ext.directory.first-not-dot" {
        severity: Major, evidence: Local, preen: false,
        message: "the first entry of directory {inode} is '{name}', not '.'",
        meaning: "The first entry of a directory has to be '.'. Another name stands in its place, usually because the block was overwritten.",
        repair: "The entry becomes '.'.",
        loss: "The name that stands there; the file gets a new one in lost+found if it has no other.",
        peers: [0x02000B],
    }
    /// Another name stands in the place of `..`.
    SECOND_NOT_DOT_DOT = "ext.directory.second-not-dot-dot" {
        severity: Major, evidence: Local, preen: false,
        message: "the second entry of directory {inode} is '{name}', not '..'",
        meaning: "The second entry of a directory has to be '..'. Another name stands in its place, usually because the block was overwritten.",
        repair: "The entry becomes '..'.",
        loss: "The name that stands there; the file gets a new one in lost+found if it has no other.",
        peers: [0x02000C],
    }
    /// `.` lacks its zero byte.
    DOT_UNTERMINATED = "ext.directory.dot-unterminated" {
        severity: Minor, evidence: Local, preen: false,
        message: "'.' of directory {inode} is not followed by a zero byte",
        meaning: "A zero byte follows '.' and '..' in their records. It is missing.",
        repair: "The zero byte is put back.",
        loss: "Nothing.",
        peers: [0x020016],
    }
    /// `..` lacks its zero byte.
    DOT_DOT_UNTERMINATED = "ext.directory.dot-dot-unterminated" {
        severity: Minor, evidence: Local, preen: false,
        message: "'..' of directory {inode} is not followed by a zero byte",
        meaning: "A zero byte follows '.' and '..' in their records. It is missing.",
        repair: "The zero byte is put back.",
        loss: "Nothing.",
        peers: [0x020017],
    }
    /// `.` takes too much room.
    DOT_OVERSIZED = "ext.directory.dot-oversized" {
        severity: Minor, evidence: Local, preen: false,
        message: "the record of '.' in directory {inode} is {stored:byte:bytes} long instead of 12",
        meaning: "The record of '.' takes 12 bytes. This one takes room that others could use.",
        repair: "The record is split, and the rest becomes a free record.",
        loss: "Nothing.",
        peers: [0x020024],
    }
    /// A further `.`.
    DOT_AGAIN = "ext.directory.dot-again" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has a further entry '.' that leads to inode {stored}",
        meaning: "Only the first entry of a directory may be called '.'.",
        repair: "The further entry is removed.",
        loss: "Nothing that could be reached by this name.",
        peers: [0x02001A],
    }
    /// A further `..`.
    DOT_DOT_AGAIN = "ext.directory.dot-dot-again" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has a further entry '..' that leads to inode {stored}",
        meaning: "Only the second entry of a directory may be called '..'.",
        repair: "The further entry is removed.",
        loss: "Nothing that could be reached by this name.",
        peers: [0x02001B],
    }
    /// An inode number that no name may lead to.
    ENTRY_INODE_INVALID = "ext.directory.entry-inode-invalid" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in directory {inode} leads to inode {stored}, which no file can have",
        meaning: "The number is beyond the last inode, or is one that the file system keeps for itself.",
        repair: "The entry is removed.",
        loss: "The name. Where it led cannot be known.",
        peers: [0x020002],
    }
    /// A name of a file that is not there.
    ENTRY_INODE_UNUSED = "ext.directory.entry-inode-unused" {
        severity: Major, evidence: Cross, preen: true,
        message: "'{name}' in directory {inode} leads to inode {stored}, which {state}",
        meaning: "The file was deleted or lost, but its name stayed; or the device does not give back its inode; or its inode is too damaged to be kept.",
        repair: "The entry is removed.",
        loss: "The name. The file too, if its inode cannot be read or is removed by this repair.",
        peers: [0x020003],
    }
    /// A name of the directory in itself.
    ENTRY_TO_ITSELF = "ext.directory.entry-to-itself" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in directory {inode} leads to that directory itself",
        meaning: "Apart from '.', no entry may lead to the directory that it stands in: that would be a loop.",
        repair: "The entry is removed.",
        loss: "Nothing but the name.",
        peers: [0x020004],
    }
    /// A name of an inode in a bad block.
    ENTRY_IN_BAD_BLOCK = "ext.directory.entry-in-bad-block" {
        severity: Major, evidence: Cross, preen: false,
        message: "'{name}' in directory {inode} leads to inode {stored}, which lies in a bad block",
        meaning: "The part of the inode table that holds this inode is on the list of bad blocks, so the inode cannot be trusted.",
        repair: "The entry is removed.",
        loss: "The file, which the medium has lost already.",
        peers: [0x020005],
    }
    /// A second name of a directory.
    DIRECTORY_NAMED_TWICE = "ext.directory.named-twice" {
        severity: Major, evidence: Cross, preen: false,
        message: "'{name}' in directory {inode} is a second name of directory {stored}",
        meaning: "A directory can have one name only. It is kept where its own '..' points to, else in the directory with the smallest inode number.",
        repair: "This further name is removed.",
        loss: "Nothing but the further name.",
        peers: [0x020006],
    }
    /// A name of the root.
    ENTRY_TO_ROOT = "ext.directory.entry-to-root" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in directory {inode} leads to the root directory",
        meaning: "The root directory has no name; an entry that leads to it makes a loop.",
        repair: "The entry is removed.",
        loss: "Nothing but the name.",
        peers: [0x020007],
    }
    /// A slash or zero byte in a name.
    NAME_INVALID = "ext.directory.name-invalid" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in directory {inode} holds a slash or a zero byte",
        meaning: "No name can hold these, so the file cannot be opened by it.",
        repair: "They are replaced by dots.",
        loss: "Nothing but these characters of the name.",
        peers: [0x020008],
    }
    /// An entry without a name.
    NAME_EMPTY = "ext.directory.name-empty" {
        severity: Major, evidence: Local, preen: false,
        message: "an entry of directory {inode} that leads to inode {stored} has no name",
        meaning: "A name has at least one character.",
        repair: "The entry is removed.",
        loss: "Nothing; the file gets a name in lost+found if it has no other.",
        peers: [0x020030],
    }
    /// A name that is longer than its record.
    NAME_BEYOND_RECORD = "ext.directory.name-beyond-record" {
        severity: Major, evidence: Local, preen: false,
        message: "a name in directory {inode} does not fit into its record ({place}, byte {offset})",
        meaning: "The record says that its name is longer than the record itself.",
        repair: "The record is joined to the one before it; all others are kept.",
        loss: "This one name; the file gets a new one in lost+found if it has no other.",
        peers: [0x020013, 0x020014],
    }
    /// A record length that cannot be.
    CHAIN_BROKEN = "ext.directory.chain-broken" {
        severity: Major, evidence: Local, preen: false,
        message: "the records of directory {inode} are broken ({place}, byte {offset}: length {stored})",
        meaning: "Each record says where the next one begins. This one says something that cannot be, usually because the block was overwritten.",
        repair: "The chain is mended there, and all names that can be told are kept.",
        loss: "Names in the damaged part; their files get new ones in lost+found.",
        peers: [0x020013, 0x02001D],
    }
    /// A block is not there.
    HOLE = "ext.directory.hole" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} lacks {observed} block(s) from its block {stored} on",
        meaning: "A directory has no holes: all its blocks have to be there.",
        repair: "Empty directory blocks are put in.",
        loss: "Nothing that is still there; names that were in the missing blocks are lost.",
        peers: [0x020015],
    }
    /// A block cannot be read.
    BLOCK_UNREADABLE = "ext.directory.block-unreadable" {
        severity: Critical, evidence: Local, preen: false,
        message: "{block} of directory {inode} cannot be read",
        meaning: "The medium reports an error for this block.",
        repair: "An empty directory block takes its place.",
        loss: "The names in it; their files get new ones in lost+found.",
        peers: [0x020020],
    }
    /// The type byte is zero.
    FILE_TYPE_MISSING = "ext.directory.file-type-missing" {
        severity: Note, evidence: Cross, preen: true,
        message: "'{name}' in directory {inode} does not say what inode {stored} is",
        meaning: "Entries carry the type of the file. This one does not, for instance because it is older than the feature.",
        repair: "The type is filled in.",
        loss: "Nothing.",
        peers: [0x020027],
    }
    /// The type byte differs from the inode.
    FILE_TYPE_WRONG = "ext.directory.file-type-wrong" {
        severity: Minor, evidence: Cross, preen: false,
        message: "'{name}' in directory {inode} says that inode {target} is a {stored}, but it is a {observed}",
        meaning: "Entries carry a copy of the type of the file. This one does not agree with the inode.",
        repair: "The type is corrected after the inode.",
        loss: "Nothing.",
        peers: [0x020028],
    }
    /// A type byte without the feature.
    FILE_TYPE_UNEXPECTED = "ext.directory.file-type-unexpected" {
        severity: Minor, evidence: Local, preen: true,
        message: "'{name}' in directory {inode} carries a file type ({stored}), though entries of this file system do not",
        meaning: "Without the filetype feature the byte has to be zero.",
        repair: "The byte is cleared.",
        loss: "Nothing.",
        peers: [0x020029],
    }
    /// A name leads into an uninitialised group.
    ENTRY_IN_UNINIT_GROUP = "ext.directory.entry-in-uninit-group" {
        severity: Minor, evidence: Cross, preen: true,
        message: "'{name}' in directory {inode} leads to inode {stored} in {group}, which is marked as having no inodes in use",
        meaning: "Groups that were never used are marked, so that they need not be scanned. The mark of this group is wrong.",
        repair: "The mark is removed, and the group is scanned.",
        loss: "Nothing.",
        peers: [0x020046],
    }
    /// A name leads into a never-used tail.
    ENTRY_IN_UNUSED_TAIL = "ext.directory.entry-in-unused-tail" {
        severity: Minor, evidence: Cross, preen: true,
        message: "'{name}' in directory {inode} leads to inode {stored} in the part of {group} that is marked as never used",
        meaning: "Each group records from where on its inodes were never used, so that they need not be scanned. This record is wrong.",
        repair: "The record is corrected, and the inodes are scanned.",
        loss: "Nothing.",
        peers: [0x020047],
    }
    /// No checksum record.
    CHECKSUM_MISSING = "ext.directory.checksum-missing" {
        severity: Minor, evidence: Local, preen: true,
        message: "{block} of directory {inode} has no room for its checksum",
        meaning: "With metadata checksums every block of entries ends with a record that holds the checksum. It is not there.",
        repair: "The directory is written anew, with checksums.",
        loss: "Nothing.",
        peers: [0x02004C],
    }
    /// A block's checksum is wrong.
    CHECKSUM_WRONG = "ext.directory.checksum-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "{block} of directory {inode} has a wrong checksum ({stored}, computed {observed}), though its entries look right",
        meaning: "The block was changed without its checksum, or the checksum itself was damaged.",
        repair: "The checksum is computed anew.",
        loss: "Nothing.",
        peers: [0x02004D],
    }
    /// Too short for an encrypted name.
    ENCRYPTED_NAME_SHORT = "ext.directory.encrypted-name-short" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in the encrypted directory {inode} is too short for an encrypted name",
        meaning: "Encrypted names have at least 16 bytes, so this cannot be one.",
        repair: "The entry is removed.",
        loss: "The name; the file gets a new one in lost+found if it has no other.",
        peers: [0x020050],
    }
    /// An unencrypted file in an encrypted directory.
    ENTRY_UNENCRYPTED = "ext.directory.entry-unencrypted" {
        severity: Major, evidence: Cross, preen: false,
        message: "'{name}' in the encrypted directory {inode} leads to inode {stored}, which is not encrypted",
        meaning: "All files, directories and symbolic links in an encrypted directory are encrypted. The system refuses to open this one.",
        repair: "The entry is removed.",
        loss: "The name; the file gets a new one in lost+found if it has no other.",
        peers: [0x020051],
    }
    /// Another encryption policy than the directory's.
    ENTRY_OTHER_POLICY = "ext.directory.entry-other-policy" {
        severity: Major, evidence: Cross, preen: false,
        message: "'{name}' in the encrypted directory {inode} leads to inode {stored}, which is encrypted under another policy",
        meaning: "What stands in an encrypted directory has the same encryption policy. The system refuses to open this one.",
        repair: "The entry is removed.",
        loss: "The name; the file gets a new one in lost+found if it has no other.",
        peers: [0x020052],
    }
    /// A name that strict mode refuses.
    NAME_NOT_UTF8 = "ext.directory.name-not-utf8" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' in the case-insensitive directory {inode} is not valid UTF-8",
        meaning: "The file system is marked as accepting valid names only in such directories.",
        repair: "The bytes that are not valid are replaced by dots.",
        loss: "Nothing but these bytes of the name.",
        peers: [0x020053],
    }
    /// The same name for the same inode again.
    ENTRY_TWICE = "ext.directory.entry-twice" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' stands more than once in directory {inode}, for the same inode {stored}",
        meaning: "The same entry was written twice.",
        repair: "The further one is removed.",
        loss: "Nothing.",
        peers: [0x020041, 0x020043],
    }
    /// The same name for another inode.
    NAME_TWICE = "ext.directory.name-twice" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' stands more than once in directory {inode}, for different inodes ({stored} and {observed})",
        meaning: "Only one of the files can be opened by this name.",
        repair: "The further one is renamed.",
        loss: "Nothing but the old name of one of them.",
        peers: [0x020042, 0x020043],
    }
    /// The same encrypted name for another inode.
    NAME_TWICE_ENCRYPTED = "ext.directory.name-twice-encrypted" {
        severity: Major, evidence: Local, preen: false,
        message: "'{name}' stands more than once in the encrypted directory {inode}, for different inodes ({stored} and {observed})",
        meaning: "Only one of the files can be opened by this name, and an encrypted name cannot be changed without the key.",
        repair: "The further entry is removed.",
        loss: "The name; the file gets a new one in lost+found if it has no other.",
        peers: [0x020054, 0x020043],
    }
    /// A name of an inode that holds an attribute value.
    ENTRY_TO_VALUE_INODE = "ext.directory.entry-to-value-inode" {
        severity: Major, evidence: Cross, preen: false,
        message: "'{name}' in directory {inode} leads to inode {stored}, which holds the value of an extended attribute",
        meaning: "Inodes that hold values of attributes have no names.",
        repair: "The entry is removed.",
        loss: "Nothing but the name.",
        peers: [0x020055],
    }
    /// A huge directory without the feature.
    LARGE_DIR_MISSING = "ext.directory.large-dir-missing" {
        severity: Minor, evidence: Cross, preen: true,
        message: "directory {inode} needs the large_dir feature, which is not set",
        meaning: "The directory is over 2 GiB long, or its index has three levels.",
        repair: "The feature is set.",
        loss: "Nothing.",
        peers: [0x020039],
    }
    /// The index flag without dir_index.
    INDEX_WITHOUT_FEATURE = "ext.htree.without-feature" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is marked as an indexed directory, though the file system has no directory indexes",
        meaning: "The dir_index feature is not set, so the mark means nothing.",
        repair: "The mark is removed.",
        loss: "Nothing; all names are kept.",
        peers: [0x010047],
    }
    /// The index flag on something else than a directory.
    INDEX_NOT_DIRECTORY = "ext.htree.not-directory" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} is marked as an indexed directory, but is not a directory",
        meaning: "Only directories have an index.",
        repair: "The mark is removed.",
        loss: "Nothing.",
        peers: [0x010048],
    }
    /// The root block describes no index.
    ROOT_MALFORMED = "ext.htree.root-malformed" {
        severity: Minor, evidence: Local, preen: true,
        message: "the root of the index of directory {inode} is malformed",
        meaning: "The first block of an indexed directory describes the index. This one does not.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x010049, 0x02003C],
    }
    /// An unknown hash version.
    HASH_UNKNOWN = "ext.htree.hash-unknown" {
        severity: Minor, evidence: Local, preen: true,
        message: "the index of directory {inode} uses an unknown hash ({stored})",
        meaning: "The root of the index says by which hash it is ordered. This one is not known.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x01004A],
    }
    /// Unknown flags.
    FLAGS_UNKNOWN = "ext.htree.flags-unknown" {
        severity: Minor, evidence: Local, preen: true,
        message: "the index of directory {inode} has unknown flags ({stored})",
        meaning: "The root of the index has flags that no known implementation sets.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x01004B],
    }
    /// More levels than allowed.
    TOO_DEEP = "ext.htree.too-deep" {
        severity: Minor, evidence: Local, preen: true,
        message: "the index of directory {inode} has {stored:level:levels} of inner nodes, more than allowed",
        meaning: "The number of levels is limited by the features of the file system.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x01004C],
    }
    /// Another hash where SipHash is needed.
    NEEDS_SIPHASH = "ext.htree.needs-siphash" {
        severity: Minor, evidence: Local, preen: true,
        message: "the index of directory {inode}, which is encrypted and case-insensitive, uses hash {stored} instead of SipHash",
        meaning: "Such directories are ordered by SipHash only.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x01008D],
    }
    /// SipHash where it cannot be.
    CANNOT_SIPHASH = "ext.htree.cannot-siphash" {
        severity: Minor, evidence: Local, preen: true,
        message: "the index of directory {inode} uses SipHash, though the directory is not both encrypted and case-insensitive",
        meaning: "Only such directories can be ordered by SipHash.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x01008E],
    }
    /// A block that the index does not lead to.
    NOT_REFERENCED = "ext.htree.not-referenced" {
        severity: Major, evidence: Cross, preen: false,
        message: "block {stored} of directory {inode} is not in its index",
        meaning: "Names in this block cannot be found through the index.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x020034, 0x020040],
    }
    /// A block that the index leads to twice.
    REFERENCED_TWICE = "ext.htree.referenced-twice" {
        severity: Major, evidence: Cross, preen: false,
        message: "block {stored} of directory {inode} is in its index more than once",
        meaning: "Each block belongs to one range of hashes.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x020035],
    }
    /// A name below the range of its block.
    HASH_TOO_SMALL = "ext.htree.hash-too-small" {
        severity: Major, evidence: Cross, preen: false,
        message: "block {at} of directory {inode} holds a name with hash {observed}, below its range in the index, which begins at {stored}",
        meaning: "Such names cannot be found through the index.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x020036],
    }
    /// A name above the range of its block.
    HASH_TOO_LARGE = "ext.htree.hash-too-large" {
        severity: Major, evidence: Cross, preen: false,
        message: "block {at} of directory {inode} holds a name with hash {observed}, above its range in the index, which ends at {stored}",
        meaning: "Such names cannot be found through the index.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x020037],
    }
    /// The index has to be built anew.
    REBUILD = "ext.htree.rebuild" {
        severity: Minor, evidence: Cross, preen: false,
        message: "the index of directory {inode} is not usable",
        meaning: "What is wrong with it is said separately.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x020038],
    }
    /// An index entry beyond the end.
    BLOCK_OUT_OF_RANGE = "ext.htree.block-out-of-range" {
        severity: Major, evidence: Local, preen: false,
        message: "block {at} of the index of directory {inode} leads to block {stored} of the directory, which has {observed}",
        meaning: "The index leads beyond the end of the directory.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x02003A],
    }
    /// The capacity does not fit the block.
    LIMIT_WRONG = "ext.htree.limit-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "block {at} of the index of directory {inode} says that it has room for {stored:entry:entries}, not {observed}",
        meaning: "The room follows from the size of the block.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x02003D],
    }
    /// More entries than there is room for.
    COUNT_WRONG = "ext.htree.count-wrong" {
        severity: Minor, evidence: Local, preen: true,
        message: "block {at} of the index of directory {inode} says that it holds {stored:entry:entries}, but has room for {observed}",
        meaning: "An index block holds at least one entry and no more than it has room for.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x02003E],
    }
    /// Index entries out of order.
    HASHES_NOT_ASCENDING = "ext.htree.hashes-not-ascending" {
        severity: Major, evidence: Local, preen: true,
        message: "the hashes in block {at} of the index of directory {inode} do not ascend",
        meaning: "The index is searched by halving, so its entries have to be in order.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x02003F],
    }
    /// A leaf or a node at the wrong level.
    DEPTH_WRONG = "ext.htree.depth-wrong" {
        severity: Major, evidence: Cross, preen: false,
        message: "block {stored} of directory {inode} stands at the wrong level of its index",
        meaning: "All blocks with names stand at the level that the root says; above them are inner nodes only.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x020040, 0x020045],
    }
    /// The root's checksum is wrong.
    ROOT_CHECKSUM = "ext.htree.root-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the root of the index of directory {inode} has a wrong checksum ({stored}, computed {observed})",
        meaning: "The block was changed without its checksum, or damaged.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x020049],
    }
    /// A node's checksum is wrong.
    NODE_CHECKSUM = "ext.htree.node-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "block {at} of the index of directory {inode} has a wrong checksum ({stored}, computed {observed})",
        meaning: "The block was changed without its checksum, or damaged.",
        repair: "The index is built anew; all names are kept.",
        loss: "Nothing.",
        peers: [0x02004A],
    }
    /// There is no root directory.
    ROOT_MISSING = "ext.directory.root-missing" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the root directory is missing",
        meaning: "Inode 2, the root of the tree, is not in use or is no directory.",
        repair: "An empty root directory is made. What had a name in the old one gets a name in lost+found.",
        loss: "The names in the root directory.",
        peers: [0x030001],
    }
    /// No name leads to a directory.
    UNCONNECTED = "ext.directory.unconnected" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode} has no name (its '..' leads to inode {stored}){former_names?; it was probably }",
        meaning: "The directory that held its name was damaged, or the system stopped between two steps.",
        repair: "It gets a name in lost+found: a hash sign and its number. What still tells its former name is told.",
        loss: "Its name and place; its contents are kept.",
        peers: [0x030003],
    }
    /// `..` does not lead to the parent.
    PARENT_WRONG = "ext.directory.parent-wrong" {
        severity: Major, evidence: Cross, preen: false,
        message: "'..' of directory {inode} leads to inode {stored}, but its name stands in directory {observed}",
        meaning: "'..' has to lead to the directory that holds the name.",
        repair: "'..' is made to lead there.",
        loss: "Nothing.",
        peers: [0x030005],
    }
    /// A directory is its own ancestor.
    LOOPED = "ext.directory.looped" {
        severity: Major, evidence: Cross, preen: false,
        message: "directory {inode} lies within itself",
        meaning: "Going up from it leads back to it, never to the root, so it cannot be reached.",
        repair: "It is taken out of the loop and gets a name in lost+found.",
        loss: "Its name and place; its contents are kept.",
        peers: [0x03001D],
    }
    /// No lost+found.
    LOST_FOUND_MISSING = "ext.directory.lost-found-missing" {
        severity: Note, evidence: Cross, preen: true,
        message: "there is no lost+found in the root directory",
        meaning: "A repair puts files and directories there whose names are lost. File systems work without it.",
        repair: "The directory is made.",
        loss: "Nothing.",
        peers: [0x030004],
    }
    /// No lost+found, and no way to make one.
    LOST_FOUND_IMPOSSIBLE = "ext.directory.lost-found-impossible" {
        severity: Note, evidence: Cross, preen: true,
        message: "there is no lost+found in the root directory, and no inode or block is free to make one",
        meaning: "A repair puts files that have lost their names into lost+found. The file system is full: there is nothing left to make it of.",
        repair: "Nothing is done; files without a name get one in the root directory, if there is room.",
        loss: "Nothing.",
        peers: [0x030004, 0x030008, 0x030019],
    }
    /// lost+found is a file.
    LOST_FOUND_NOT_DIRECTORY = "ext.directory.lost-found-not-directory" {
        severity: Major, evidence: Cross, preen: false,
        message: "lost+found leads to inode {stored}, which is not a directory",
        meaning: "A repair puts files and directories there whose names are lost.",
        repair: "The name is given to a new directory; the file gets another name in it.",
        loss: "Nothing but the name of the file.",
        peers: [0x030017],
    }
    /// lost+found is stored inline.
    LOST_FOUND_INLINE = "ext.directory.lost-found-inline" {
        severity: Minor, evidence: Cross, preen: false,
        message: "lost+found (inode {stored}) is stored in its inode",
        meaning: "It has to grow without being moved, so it has blocks of its own.",
        repair: "It is replaced by a new one.",
        loss: "Nothing; what is in it is kept.",
        peers: [0x030018],
    }
    /// lost+found is encrypted.
    LOST_FOUND_ENCRYPTED = "ext.directory.lost-found-encrypted" {
        severity: Minor, evidence: Cross, preen: false,
        message: "lost+found (inode {stored}) is encrypted",
        meaning: "A repair cannot put names into an encrypted directory.",
        repair: "It is replaced by a new one, and gets a name in that.",
        loss: "Nothing but its name; what is in it is kept.",
        peers: [0x03001B],
    }
    /// lost+found is too small.
    LOST_FOUND_FULL = "ext.directory.lost-found-full" {
        severity: Minor, evidence: Cross, preen: false,
        message: "lost+found ({inode}) has room for {stored:more name:more names}, but {observed:is:are} needed",
        meaning: "Files and directories without a name get one there.",
        repair: "It is enlarged.",
        loss: "Nothing.",
        peers: [0x030002],
    }
}
