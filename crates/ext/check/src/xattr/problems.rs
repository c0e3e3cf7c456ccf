//! Catalogue rows of `xattr`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Entries or values of an in-inode area lie over one another.
    INODE_OVERLAP = "ext.xattr.inode-overlap" {
        severity: Major, evidence: Local, preen: false,
        message: "the extended attributes within {inode} overlap each other or leave their area (entry at byte {at} of it)",
        meaning: "An inode keeps small attributes (labels, access control lists, user attributes) behind its fixed fields. Two of them claim the same bytes, or one reaches out of the inode: the area was overwritten.",
        repair: "The attributes within the inode are removed, because none of them can be believed. The file itself stays.",
        loss: "The extended attributes that were kept within this inode; for a file whose data live in the inode, the data behind the first 60 bytes.",
        peers: [0x010069],
    }
    /// The name of an in-inode attribute reaches out of the inode.
    INODE_NAME_OUTSIDE = "ext.xattr.inode-name-outside" {
        severity: Major, evidence: Local, preen: true,
        message: "an extended attribute within {inode} has a name of {stored:byte:bytes}, which reaches out of the inode (entry at byte {at} of the area)",
        meaning: "An attribute entry says that its name is longer than the room that is left. The area was overwritten.",
        repair: "The attributes within the inode are removed, because none of them can be believed. The file itself stays.",
        loss: "The extended attributes that were kept within this inode.",
        peers: [0x010050, 0x010069],
    }
    /// The value of an in-inode attribute lies outside of the inode.
    INODE_VALUE_OUTSIDE = "ext.xattr.inode-value-outside" {
        severity: Major, evidence: Local, preen: true,
        message: "the value of extended attribute {name} of {inode} starts at byte {stored} and reaches out of the inode",
        meaning: "An attribute within the inode points to a value that does not lie in the inode. Its entry was overwritten.",
        repair: "This attribute is removed; the others stay.",
        loss: "The value of this attribute, which cannot be found.",
        peers: [0x010051, 0x010069],
    }
    /// The length of a value cannot be.
    VALUE_SIZE = "ext.xattr.value-size" {
        severity: Major, evidence: Local, preen: true,
        message: "extended attribute {name} of {inode} says that its value has {stored:byte:bytes}, which cannot be",
        meaning: "The length does not fit the inode, or not the inode that holds the value. The entry was overwritten, or the value was never completed.",
        repair: "This attribute is removed; the others stay.",
        loss: "The value of this attribute.",
        peers: [0x010053],
    }
    /// The length of a value is not that of the inode that holds it.
    VALUE_SIZE_ASTRAY = "ext.xattr.value-size-astray" {
        severity: Major, evidence: Cross, preen: true,
        message: "extended attribute {name} of {inode} says that its value has {stored:byte:bytes}, but the inode that holds it has {observed}, and these are the value",
        meaning: "A large value lies in an inode of its own, which keeps its length and hash. With that length the value has the hash that belongs to the attribute: the length in the entry was overwritten.",
        repair: "The length is set to that of the value.",
        loss: "Nothing.",
        peers: [0x010053],
    }
    /// The end of a table is overwritten.
    END_OVERWRITTEN = "ext.xattr.end-overwritten" {
        severity: Major, evidence: Local, preen: true,
        message: "the list of extended attributes of {inode} does not end where it has to (byte {at} of the area): what stands there cannot be an attribute, and reaches into the values",
        meaning: "Four bytes of zeroes end the list of attributes; values lie behind it. Something else stands there, which makes no sense as an attribute: the end was overwritten. Taken for an attribute it would cost all the others.",
        repair: "The list ends there; all attributes before it stay.",
        loss: "Nothing, unless it was an attribute once that nothing is left of.",
        peers: [0x010050, 0x010069],
    }
    /// The hash of an attribute does not match.
    HASH = "ext.xattr.hash" {
        severity: Major, evidence: Local, preen: true,
        message: "extended attribute {name} of {inode} stores hash {stored}, but name and value give {observed}",
        meaning: "Every attribute carries a hash of its name and value. It does not match: one of them was overwritten.",
        repair: "This attribute is removed; the others stay.",
        loss: "This attribute, whose name or value is wrong anyhow.",
        peers: [0x010054],
    }
    /// The name of an attribute is shorter than its length.
    NAME_WITH_ZERO = "ext.xattr.name-with-zero" {
        severity: Major, evidence: Local, preen: true,
        message: "the name of extended attribute {name} of {inode} ends before its length of {stored:byte:bytes}",
        meaning: "A name is as long as the entry says and holds no zero byte; the kernel refuses all attributes beside one that does, and a file whose data are kept there. The length was overwritten.",
        repair: "The length is set to what there is of the name.",
        loss: "Nothing.",
        peers: [],
    }
    /// Letters of an attribute's name are gone.
    NAME_OVERWRITTEN = "ext.xattr.name-overwritten" {
        severity: Major, evidence: Local, preen: true,
        message: "letters of the name of an extended attribute of {inode} (entry at byte {at} of the area) were overwritten with zeroes: {name} is left of it",
        meaning: "No name holds a zero byte; the kernel refuses all attributes beside one that does, and a file whose data are kept there.",
        repair: "An underscore stands for every letter that is gone, so that the attributes can be read.",
        loss: "The letters.",
        peers: [],
    }
    /// An attribute block cannot be read.
    BLOCK_UNREADABLE = "ext.xattr.block-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, which holds extended attributes of {inode}, cannot be read: {why}",
        meaning: "The device reported an error, or the block lies behind the end of the device.",
        repair: "The inode's pointer to the block is cleared.",
        loss: "The extended attributes in that block.",
        peers: [0x010039],
    }
    /// An attribute block lacks its magic number.
    BLOCK_MAGIC = "ext.xattr.block-magic" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, which {inode} takes for its extended attributes, holds something else (magic number {stored})",
        meaning: "An attribute block starts with a fixed number. This one does not: the pointer is wrong, or the block was overwritten.",
        repair: "The inode's pointer to the block is cleared.",
        loss: "The extended attributes that were kept in a block for this inode.",
        peers: [0x01003A],
    }
    /// An attribute block pointer leads out of the file system.
    POINTER_OUTSIDE = "ext.xattr.pointer-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} says that its extended attributes lie in block {stored}, which the file system does not have",
        meaning: "The number of the attribute block is behind the end of the file system or before its first block.",
        repair: "The pointer is cleared.",
        loss: "The extended attributes that were kept in a block for this inode; they cannot be found.",
        peers: [0x020032, 0x01003A],
    }
    /// An attribute block pointer in a file system without attributes.
    POINTER_WITHOUT_FEATURE = "ext.xattr.pointer-without-feature" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} points to block {stored} for extended attributes, but this file system has no extended attributes",
        meaning: "The feature for extended attributes is off, so that the field has to be zero. The inode was overwritten.",
        repair: "The pointer is cleared.",
        loss: "Nothing that could be seen: without the feature, the attributes are not in use.",
        peers: [0x02000E],
    }
    /// An attribute block that says it goes on in others.
    BLOCK_COUNT = "ext.xattr.block-count" {
        severity: Major, evidence: Local, preen: false,
        message: "attribute {block} of {inode} says that it is {stored:block:blocks} long, but it has to be one",
        meaning: "Extended attributes never take more than one block. The block was overwritten.",
        repair: "The inode's pointer to the block is cleared.",
        loss: "The extended attributes in that block.",
        peers: [0x01003E],
    }
    /// Entries or values of an attribute block lie over one another.
    BLOCK_OVERLAP = "ext.xattr.block-overlap" {
        severity: Major, evidence: Local, preen: false,
        message: "entries or values in attribute {block} of {inode} overlap each other or leave the block (entry at byte {at})",
        meaning: "Two attributes claim the same bytes of the block, or one reaches out of it: the block was overwritten.",
        repair: "The pointer to the block is cleared in every inode that has it, because nothing in the block can be believed.",
        loss: "The extended attributes in that block.",
        peers: [0x010040],
    }
    /// An attribute in a block has no kind of name.
    BLOCK_NAME = "ext.xattr.block-name" {
        severity: Major, evidence: Local, preen: false,
        message: "an extended attribute in {block} of {inode} has a name without a kind (entry at byte {at})",
        meaning: "Every attribute says which namespace its name belongs to (user, security, ...). This one says none.",
        repair: "This attribute is removed; the others stay.",
        loss: "This attribute, which nobody could ask for.",
        peers: [0x010041],
    }
    /// The place of an access list is not where its entry says.
    ACL_ASTRAY = "ext.xattr.acl-astray" {
        severity: Major, evidence: Local, preen: true,
        message: "the entry of {name} of {inode} says that the list has {stored:byte:bytes} at byte {at}, but a complete list has {observed} at byte {right}",
        meaning: "The kernel denies access to a file whose access control list it cannot read. There is one complete list in the inode that belongs to no other attribute: offset or size in the entry was overwritten.",
        repair: "Offset and size are set to those of the list.",
        loss: "Nothing.",
        peers: [],
    }
    /// Attributes of a block are out of order.
    BLOCK_ORDER = "ext.xattr.block-order" {
        severity: Major, evidence: Local, preen: true,
        message: "the extended attributes in attribute {block} of {inode} are out of order ({name} stands too late)",
        meaning: "The kernel keeps the attributes of a block sorted by namespace, length and name, and stops its search at the first one behind. It does not find an attribute that stands too late.",
        repair: "The entries are sorted. Their values stay where they are.",
        loss: "Nothing.",
        peers: [],
    }
    /// The value of an attribute in a block lies outside of it.
    BLOCK_VALUE_OUTSIDE = "ext.xattr.block-value-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "the value of extended attribute {name} in {block} of {inode} reaches out of the block (offset or length {stored})",
        meaning: "The entry points to a value that does not lie in the block. It was overwritten.",
        repair: "This attribute is removed; the others stay.",
        loss: "The value of this attribute, which cannot be found.",
        peers: [0x010042],
    }
    /// Only the checksum of an attribute block is wrong.
    BLOCK_CHECKSUM = "ext.xattr.block-checksum" {
        severity: Minor, evidence: Local, preen: false,
        message: "attribute {block} of {inode} stores checksum {stored} instead of {observed}, but its contents are plausible",
        meaning: "The block does not match its checksum, although nothing in it is visibly wrong; the hash of each attribute matches too.",
        repair: "The checksum is written anew.",
        loss: "Nothing.",
        peers: [0x01006C],
    }
    /// An attribute block counts its inodes wrongly.
    REFCOUNT = "ext.xattr.refcount" {
        severity: Minor, evidence: Cross, preen: true,
        message: "attribute {block} says that {stored:inode:inodes} share it, but {observed:does:do}",
        meaning: "Inodes with equal attributes share one block, which counts them. The count was not updated before the system stopped.",
        repair: "The count is set to what was counted.",
        loss: "Nothing.",
        peers: [0x01003C],
    }
    /// An attribute refers to an inode that cannot hold its value.
    VALUE_INODE = "ext.xattr.value-inode" {
        severity: Major, evidence: Cross, preen: true,
        message: "extended attribute {name} of {inode} has its value in inode {stored}, which cannot be",
        meaning: "A large value lies in an inode of its own. The number is reserved, beyond the last inode, the owner itself, or belongs to an inode that is not in use.",
        repair: "This attribute is removed; the others stay.",
        loss: "The value of this attribute, which cannot be found.",
        peers: [0x010083, 0x010052],
    }
    /// An attribute refers to an inode that cannot hold its value, and the value lies beside it.
    VALUE_INODE_ASTRAY = "ext.xattr.value-inode-astray" {
        severity: Major, evidence: Cross, preen: true,
        message: "extended attribute {name} of {inode} has its value in inode {stored}, says its entry, but the value lies beside the entry",
        meaning: "A large value lies in an inode of its own, and the entry names that. The named one holds no such value, and at the place that the entry tells for a value beside it lies the one that its hash was made of, or, of an attribute without a hash, a value that is nobody else's: the number of the inode was overwritten.",
        repair: "The number is set to zero: the value lies beside the entry.",
        loss: "Nothing.",
        peers: [0x010083, 0x010052, 0x010085],
    }
    /// An attribute refers to an inode that holds something else.
    VALUE_INODE_FOREIGN = "ext.xattr.value-inode-foreign" {
        severity: Major, evidence: Cross, preen: true,
        message: "extended attribute {name} of {inode} has its value in inode {stored}, which is not made for values and does not match",
        meaning: "Inodes that hold attribute values carry a flag and the hash of the value. This one has neither: it is an ordinary file.",
        repair: "This attribute is removed; the other file is left alone.",
        loss: "The value of this attribute, which cannot be found.",
        peers: [0x010085, 0x010083],
    }
    /// A value inode lacks its flag.
    VALUE_INODE_UNFLAGGED = "ext.xattr.value-inode-unflagged" {
        severity: Minor, evidence: Cross, preen: true,
        message: "inode {stored} holds the value of extended attribute {name} of {inode}, but lacks the flag for it",
        meaning: "Inodes that hold attribute values carry a flag. This one matches its attribute, but the flag was lost.",
        repair: "The flag is set.",
        loss: "Nothing.",
        peers: [0x010086],
    }
    /// Value inodes are in use, but the feature is off.
    VALUE_INODE_FEATURE = "ext.xattr.value-inode-feature" {
        severity: Major, evidence: Cross, preen: true,
        message: "extended attribute {name} of {inode} has its value in inode {stored}, but the feature for that (ea_inode) is off",
        meaning: "The attribute and its inode are in order, so the feature must have been on; the bit was lost from the superblock.",
        repair: "The feature is switched on.",
        loss: "Nothing.",
        peers: [0x010092],
    }
    /// A value inode counts its references wrongly.
    VALUE_INODE_REFERENCES = "ext.xattr.value-inode-references" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} holds an attribute value and says that {stored:attribute refers:attributes refer} to it, but {observed:does:do}",
        meaning: "Equal large values are kept once, in an inode that counts its references. The count was not updated before the system stopped.",
        repair: "The count is set to what was counted.",
        loss: "Nothing.",
        peers: [0x040005],
    }
    /// A value inode has more links than one.
    VALUE_INODE_LINKS = "ext.xattr.value-inode-links" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} holds an attribute value and stores a link count of {stored} instead of 1",
        meaning: "An inode that holds a large attribute value has no name. Its link count is always 1; how many attributes refer to it stands elsewhere.",
        repair: "The count is set to 1.",
        loss: "Nothing.",
        peers: [0x040002],
    }
    /// An access list has a tag that there is not, and the others tell which it was.
    ACL_TAG = "ext.xattr.acl-tag" {
        severity: Major, evidence: Local, preen: false,
        message: "access list {name} of {inode} cannot be read: an entry has tag {stored} where only {observed} fits",
        meaning: "An access list says for whom each of its entries is, in a fixed order. One entry was overwritten, and the kernel refuses everybody but the owner of the file because it cannot read the list. The other entries and the length of the list tell what stood there.",
        repair: "The tag is written anew.",
        loss: "Nothing.",
        peers: [],
    }
    /// An access list cannot be read, and nothing tells what stood there.
    ACL_UNREADABLE = "ext.xattr.acl-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "access list {name} of {inode} cannot be read",
        meaning: "An access list says who may use a file beside its owner and group. This one was overwritten in several places. The kernel refuses to open the file while it cannot read the list, also for the superuser.",
        repair: "The list is removed. The permission bits of the file hold from then on.",
        loss: "The permissions of single users and groups. The group of the file gets what its permission bits say, which may be more than the list allowed.",
        peers: [],
    }
    /// An inode has the flag of value inodes, but holds nobody's value.
    VALUE_INODE_SPURIOUS = "ext.xattr.value-inode-spurious" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} is flagged as holding an attribute value, but no attribute refers to it",
        meaning: "The attribute was removed, or the flag was set by accident on an ordinary file.",
        repair: "The flag is cleared; a file without a name is then reconnected to lost+found.",
        loss: "Nothing.",
        peers: [0x040008],
    }
    /// An encrypted inode without its encryption context.
    ENCRYPTION_MISSING = "ext.xattr.encryption-missing" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is flagged as encrypted, but has no encryption context",
        meaning: "The attribute that says how a file is encrypted is gone, or the flag was set by accident.",
        repair: "The flag is cleared.",
        loss: "Nothing more: without its context an encrypted file cannot be decrypted.",
        peers: [0x01008A],
    }
    /// An encrypted inode with a malformed encryption context.
    ENCRYPTION_CORRUPT = "ext.xattr.encryption-corrupt" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is encrypted, but its encryption context of {stored:byte:bytes} is malformed",
        meaning: "The attribute that says how a file is encrypted has a length that its version does not have. It was overwritten.",
        repair: "The inode is cleared: nobody can decrypt it, and its contents are ciphertext.",
        loss: "The file, whose contents cannot be decrypted any more.",
        peers: [0x01008B],
    }
}
