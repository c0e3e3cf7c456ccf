//! Catalogue rows of `extent`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Root invalid: the root of the extent tree was overwritten.
    TREE_ROOT_INVALID = "ext.extent.root-invalid" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is mapped by extents, but holds no extent tree",
        meaning: "The root of the extent tree was overwritten.",
        repair: "The inode is cleared.",
        loss: "The contents of the file.",
        peers: [0x010081],
    }

    /// One word of the root's header wrong: the others, and the entries, prove that it is one.
    TREE_HEAD_DAMAGED = "ext.extent.root-damaged" {
        severity: Major, evidence: Local, preen: false,
        message: "a word at the start of the extent tree of {inode} is wrong; all others, and what it leads to, make sense",
        meaning: "A tree begins with a mark, how many extents it holds and how many it has room for. One of these was overwritten; without it the whole file would be lost.",
        repair: "The word is set right.",
        loss: "Nothing.",
        peers: [],
    }

    /// Header invalid: the header of the node is damaged, or its pointer leads elsewhere.
    HEADER_INVALID = "ext.extent.header-invalid" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} should hold a node of the extent tree of {inode}, but does not",
        meaning: "The header of the node is damaged, or its pointer leads elsewhere.",
        repair: "The node is taken out of the tree.",
        loss: "The part of the file that it mapped.",
        peers: [0x01005F],
    }

    /// The depth of a node is not what its place in the tree says.
    NODE_DEPTH = "ext.extent.node-depth" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block}, a node of the extent tree of {inode}, has {observed:level:levels} below it and says otherwise",
        meaning: "Every node says how many levels are below it. This one says another number than its place in the tree and its entries tell; the kernel refuses to read what it maps.",
        repair: "The number is set to what the tree tells.",
        loss: "Nothing.",
        peers: [],
    }

    /// Unreadable: the device reported an error.
    NODE_UNREADABLE = "ext.extent.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, a node of the extent tree of {inode}, cannot be read",
        meaning: "The device reported an error.",
        repair: "The node is taken out of the tree.",
        loss: "The part of the file that it mapped.",
        peers: [0x010056, 0x010057],
    }

    /// Node repeated: a pointer of the tree is damaged: a node can stand in one place only.
    NODE_REPEATED = "ext.extent.node-repeated" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} occurs twice in the extent tree of {inode}",
        meaning: "A pointer of the tree is damaged: a node can stand in one place only.",
        repair: "The second occurrence is taken out of the tree.",
        loss: "The part of the file that was mapped there, if any.",
        peers: [],
    }

    /// Node in metadata: the pointer is damaged, or the metadata have overwritten the node.
    NODE_IN_METADATA = "ext.extent.node-in-metadata" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, a node of the extent tree of {inode}, lies within the file system's own metadata",
        meaning: "The pointer is damaged, or the metadata have overwritten the node.",
        repair: "The node gets a block of its own; what makes no sense in it is taken out.",
        loss: "Parts of the file, most likely.",
        peers: [0x01000F, 0x010071],
    }

    /// Start outside: the entry is damaged.
    START_OUTSIDE = "ext.extent.start-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (file block {logical}, length {length}) starts at block {stored}, where no data can lie",
        meaning: "The entry is damaged.",
        repair: "The entry is taken out of the tree.",
        loss: "The part of the file that it mapped.",
        peers: [0x010058],
    }

    /// End outside: the entry is damaged.
    END_OUTSIDE = "ext.extent.end-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (file block {logical}, length {length}, starting at block {stored}) reaches beyond the end of the file system",
        meaning: "The entry is damaged.",
        repair: "The entry is taken out of the tree.",
        loss: "The part of the file that it mapped.",
        peers: [0x010059],
    }

    /// Out of order: the entries of an extent tree are sorted.
    OUT_OF_ORDER = "ext.extent.out-of-order" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} for file block {logical} stands behind one for block {observed}",
        meaning: "The entries of an extent tree are sorted.",
        repair: "The entry is taken out of the tree.",
        loss: "The part of the file that it mapped.",
        peers: [0x01005E],
    }

    /// An extent out of order that fits into the gap between its neighbours.
    MISPLACED = "ext.extent.misplaced" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} for file block {logical} stands where one for block {observed} is missing, which is as long",
        meaning: "The entries of an extent tree are sorted. This one is out of order, and what its neighbours leave free is as long as it is: only where it says that it begins is wrong.",
        repair: "It maps the blocks between those of its neighbours.",
        loss: "Nothing.",
        peers: [0x01005E],
    }

    /// An extent that reaches beyond the end of its file.
    BEYOND_SIZE = "ext.extent.beyond-size" {
        severity: Major, evidence: Local, preen: false,
        message: "the last extent of {inode} (file block {logical}, length {length}) reaches beyond the end of the file; size and space in use leave it {observed:block:blocks}",
        meaning: "The size of the file and the number of blocks that it has in use agree with each other, and the extent with neither: its length was overwritten, and what lies behind belongs to others.",
        repair: "The extent is cut where the file ends.",
        loss: "Nothing that belongs to the file.",
        peers: [],
    }
    /// Behind the end of a directory, where what lies there is not its own, and the space in use tells nothing.
    DIRECTORY_BEYOND_SIZE = "ext.extent.directory-beyond-size" {
        severity: Major, evidence: Local, preen: false,
        message: "the last extent of directory {inode} (file block {logical}, length {length}) reaches beyond its end, into blocks that are not its own; its size leaves it {observed:block:blocks}",
        meaning: "The directory ends inside of the extent by its size. Most of the blocks that would come next hold no names, or are the first ones of other directories, and the number of blocks in use goes with neither length: the extent's was overwritten.",
        repair: "The extent is cut where the directory ends.",
        loss: "Nothing that belongs to the directory.",
        peers: [],
    }
    /// Too long: it covers several entries that are in order.
    TOO_LONG = "ext.extent.too-long" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (file block {logical}, length {length}) reaches over several that stand behind it; it has room for {observed}",
        meaning: "The length of the entry is damaged: the entries behind it are in order among themselves.",
        repair: "The entry is cut where the next one begins.",
        loss: "Nothing that belongs to the file.",
        peers: [0x01007D],
    }

    /// Length zero: the entry is damaged.
    LENGTH_ZERO = "ext.extent.length-zero" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} for file block {logical} has no length",
        meaning: "The entry is damaged.",
        repair: "The entry is taken out of the tree.",
        loss: "The part of the file that it mapped, if any.",
        peers: [0x010066],
    }

    /// Beyond parent: the entry, or one above it, is damaged.
    BEYOND_PARENT = "ext.extent.beyond-parent" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (file block {logical}, length {length}) reaches beyond block {observed}, where the part of the tree ends that it stands in",
        meaning: "The entry, or one above it, is damaged.",
        repair: "The entry is taken out of the tree.",
        loss: "The part of the file that it mapped.",
        peers: [0x01006E],
    }

    /// Overlap: the entry is damaged.
    OVERLAP = "ext.extent.overlap" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (file block {logical}, length {length}) maps a part of the file that is mapped already",
        meaning: "The entry is damaged.",
        repair: "The entry is taken out of the tree.",
        loss: "That version of the part of the file; the other one stays.",
        peers: [0x01007D],
    }

    /// Index start: the key of an interior entry has to be the first block that its child maps; otherwise that part of the file cannot be found.
    INDEX_START = "ext.extent.index-start" {
        severity: Minor, evidence: Local, preen: false,
        message: "{block} of the extent tree of {inode} starts with file block {observed}, but its parent says {stored}",
        meaning: "The key of an interior entry has to be the first block that its child maps; otherwise that part of the file cannot be found.",
        repair: "The key is set to what the child says.",
        loss: "Nothing.",
        peers: [0x01006D],
    }

    /// Checksum wrong: the node was changed without its checksum, or a bit of it is wrong that nothing else can show.
    NODE_CHECKSUM = "ext.extent.checksum-wrong" {
        severity: Minor, evidence: Local, preen: false,
        message: "{block} of the extent tree of {inode} makes sense, but its checksum is {stored} instead of {observed}",
        meaning: "The node was changed without its checksum, or a bit of it is wrong that nothing else can show.",
        repair: "The checksum is computed anew.",
        loss: "Nothing.",
        peers: [0x01006A],
    }

    /// Too deep: the tree is correct, but readers refuse such depths.
    TOO_DEEP = "ext.extent.too-deep" {
        severity: Minor, evidence: Local, preen: true,
        message: "the extent tree of {inode} has depth {stored}, more than the {observed} that any file needs",
        meaning: "The tree is correct, but readers refuse such depths.",
        repair: "The tree is built anew.",
        loss: "Nothing.",
        peers: [0x01007F],
    }

    /// Directory gap: directories have no holes.
    DIRECTORY_HOLE = "ext.extent.directory-gap" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has a gap before its block {stored}, which should be block {observed}",
        meaning: "Directories have no holes. Blocks in the middle of the directory were lost, or the entry is damaged.",
        repair: "The blocks behind the gap move down.",
        loss: "Nothing.",
        peers: [0x010072],
    }

    /// Directory unwritten: directory blocks are always written.
    DIRECTORY_UNWRITTEN = "ext.extent.directory-unwritten" {
        severity: Minor, evidence: Local, preen: true,
        message: "an extent of directory {inode} at file block {logical} is marked as never written",
        meaning: "Directory blocks are always written.",
        repair: "The mark is cleared and the blocks are read as they are.",
        loss: "Nothing.",
        peers: [0x010073],
    }

    /// Unwritten not allowed: symbolic links and the file system's own files are always written.
    UNWRITTEN_NOT_ALLOWED = "ext.extent.unwritten-not-allowed" {
        severity: Minor, evidence: Local, preen: true,
        message: "an extent of {inode} at file block {logical} is marked as never written, which this inode may not have",
        meaning: "Symbolic links and the file system's own files are always written.",
        repair: "The mark is cleared and the blocks are read as they are.",
        loss: "Nothing.",
        peers: [0x010087],
    }

    /// Directory too big: the entry is damaged, or the large_dir feature was lost.
    DIRECTORY_TOO_BIG = "ext.extent.directory-too-big" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of directory {inode} (file block {logical}, length {length}) makes the directory larger than directories can be",
        meaning: "The entry is damaged, or the large_dir feature was lost.",
        repair: "The entry is taken out of the tree.",
        loss: "Names in that part of the directory.",
        peers: [0x010044, 0x010043],
    }

    /// Flag without feature: the flag is damage.
    FLAG_WITHOUT_TREE = "ext.extent.flag-without-feature" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has the extents flag, but the file system has no extents and the inode no extent tree",
        meaning: "The flag is damage.",
        repair: "The inode is cleared.",
        loss: "The file.",
        peers: [0x01005A, 0x010081],
    }

    /// Feature missing: the feature bit in the superblock was lost.
    TREE_WITHOUT_FEATURE = "ext.extent.feature-missing" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is mapped by extents, but the file system says that it has none",
        meaning: "The feature bit in the superblock was lost.",
        repair: "The feature bit is set.",
        loss: "Nothing.",
        peers: [0x01005B],
    }

    /// Flag missing: the flag was lost.
    FLAG_MISSING = "ext.extent.flag-missing" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} holds an extent tree but lacks the extents flag",
        meaning: "The flag was lost.",
        repair: "The flag is set.",
        loss: "Nothing.",
        peers: [0x01005C],
    }

    /// Flag on symlink: such links have no blocks to map.
    FLAG_ON_FAST_SYMLINK = "ext.extent.flag-on-symlink" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode}, a symbolic link that lies in its inode, has the extents flag",
        meaning: "Such links have no blocks to map.",
        repair: "The flag is cleared.",
        loss: "Nothing.",
        peers: [0x01005D],
    }

    /// Misaligned cluster: where space is allocated in clusters, a file block has to lie at its own place within one, and all blocks of a file's cluster together.
    MISALIGNED_CLUSTER = "ext.extent.misaligned-cluster" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} maps its block {logical} to {block}, which is not at the same place within its cluster",
        meaning: "Where space is allocated in clusters, a file block has to lie at its own place within one, and all blocks of a file's cluster together.",
        repair: "The blocks are moved to clusters of their own.",
        loss: "Nothing.",
        peers: [0x010074],
    }
}
