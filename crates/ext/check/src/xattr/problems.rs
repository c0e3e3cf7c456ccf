// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `xattr`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Entries or values of an in-inode area lie over one another.
    INODE_OVERLAP = "ext.xattr.inode-overlap" {
        severity: Major, evidence: Local, preen: false,
        message: "the extended attributes in {inode} overlap or leave their area (entry at byte {at})",
        meaning: "Small attributes (labels, access control lists, user attributes) are stored after the fixed fields of the inode. Two of them use the same bytes, or one ends outside the inode. The area was overwritten.",
        repair: "All extended attributes in the inode are removed, because none can be trusted. The file is kept.",
        loss: "The extended attributes in this inode. For a file with inline data, also the data after the first 60 bytes.",
        peers: [0x010069],
    }
    /// The name of an in-inode attribute reaches out of the inode.
    INODE_NAME_OUTSIDE = "ext.xattr.inode-name-outside" {
        severity: Major, evidence: Local, preen: true,
        message: "an extended attribute in {inode} has a name of {stored:byte:bytes}, which ends outside the inode (entry at byte {at})",
        meaning: "The name is longer than the space that is left. The area was overwritten.",
        repair: "All extended attributes in the inode are removed, because none can be trusted. The file is kept.",
        loss: "The extended attributes in this inode.",
        peers: [0x010050, 0x010069],
    }
    /// The value of an in-inode attribute lies outside of the inode.
    INODE_VALUE_OUTSIDE = "ext.xattr.inode-value-outside" {
        severity: Major, evidence: Local, preen: true,
        message: "extended attribute {name} of {inode} has its value at offset {stored}, which ends outside the inode",
        meaning: "The attribute entry was overwritten.",
        repair: "This attribute is removed. The other attributes are kept.",
        loss: "The value of this attribute. It cannot be found.",
        peers: [0x010051, 0x010069],
    }
    /// The length of a value cannot be.
    VALUE_SIZE = "ext.xattr.value-size" {
        severity: Major, evidence: Local, preen: true,
        message: "extended attribute {name} of {inode} has invalid value size {stored}",
        meaning: "The size does not match the inode, or the EA inode that holds the value. The entry was overwritten, or the value was never completed.",
        repair: "This attribute is removed. The other attributes are kept.",
        loss: "The value of this attribute.",
        peers: [0x010053],
    }
    /// The length of a value is not that of the inode that holds it.
    VALUE_SIZE_ASTRAY = "ext.xattr.value-size-astray" {
        severity: Major, evidence: Cross, preen: true,
        message: "extended attribute {name} of {inode} has value size {stored}, but its EA inode has {observed}, and the hash matches",
        meaning: "A large value is stored in an EA inode, which records its size and hash. With that size the hash is correct: the size in the entry was overwritten.",
        repair: "The size in the entry is corrected.",
        loss: nothing,
        peers: [0x010053],
    }
    /// The end of a table is overwritten.
    END_OVERWRITTEN = "ext.xattr.end-overwritten" {
        severity: Major, evidence: Local, preen: true,
        message: "the extended attribute list of {inode} is not terminated (byte {at}); what follows is not a valid attribute",
        meaning: "Four zero bytes terminate the list, before the values. They were overwritten. Without this repair all attributes would be lost.",
        repair: "The list is terminated there. All attributes before it are kept.",
        loss: "Nothing, unless those bytes were an attribute that is now unreadable.",
        peers: [0x010050, 0x010069],
    }
    /// An entry without a name and without a value.
    NAMELESS = "ext.xattr.nameless" {
        severity: Minor, evidence: Local, preen: true,
        message: "an extended attribute of {inode} (entry at byte {at}) has neither a name nor a value",
        meaning: "The kernel lists this attribute, but cannot read it. The bytes that terminate the list were probably overwritten.",
        repair: "The entry is removed. The other attributes are kept.",
        loss: nothing,
        peers: [],
    }
    /// An access list under the prefix of other attributes.
    LIST_PREFIX = "ext.xattr.list-prefix" {
        severity: Major, evidence: Local, preen: true,
        message: "an extended attribute of {inode} (entry at byte {at}) has no name and holds an access control list; it must be {name}",
        meaning: "An attribute with this prefix must have a name. The prefix was overwritten. The kernel lists the attribute, but cannot read it, and does not enforce the access control list.",
        repair: "The prefix is set to that of an access control list. The list is kept.",
        loss: nothing,
        peers: [],
    }
    /// An entry without a name under a prefix that takes one.
    UNNAMED = "ext.xattr.unnamed" {
        severity: Major, evidence: Local, preen: true,
        message: "an extended attribute of {inode} (entry at byte {at}) has a value ({stored:byte:bytes}), but no name",
        meaning: "An attribute with this prefix must have a name. The length of the name or the prefix was overwritten, and the name cannot be found. The kernel lists the attribute, but cannot read it.",
        repair: "The entry is removed. The other attributes are kept.",
        loss: "The value of this attribute.",
        peers: [],
    }
    /// The hash of an attribute does not match.
    HASH = "ext.xattr.hash" {
        severity: Major, evidence: Local, preen: true,
        message: "extended attribute {name} of {inode} has hash {stored}, should be {observed}",
        meaning: "The hash covers name and value. One of them was overwritten.",
        repair: "This attribute is removed. The other attributes are kept.",
        loss: "This attribute. Its name or value is wrong.",
        peers: [0x010054],
    }
    /// The name of an attribute is shorter than its length.
    NAME_WITH_ZERO = "ext.xattr.name-with-zero" {
        severity: Major, evidence: Local, preen: true,
        message: "extended attribute {name} of {inode} has name length {stored}, but its name ends before that with a zero byte",
        meaning: "A name cannot contain a zero byte. The kernel refuses all attributes of the inode, and its inline data. The length was overwritten.",
        repair: "The length is corrected.",
        loss: nothing,
        peers: [],
    }
    /// The length of a name is 0, and the name is there.
    NAME_LENGTH = "ext.xattr.name-length" {
        severity: Major, evidence: Local, preen: true,
        message: "extended attribute {name} of {inode} (entry at byte {at}) has name length 0, should be {observed}",
        meaning: "The length of the name was overwritten. The kernel takes the name for the next attribute, and does not find the attributes after it. The name is known: it matches the hash, or it is the only one after which the list of attributes continues.",
        repair: "The length is corrected.",
        loss: nothing,
        peers: [],
    }
    /// Letters of an attribute's name are gone.
    NAME_OVERWRITTEN = "ext.xattr.name-overwritten" {
        severity: Major, evidence: Local, preen: true,
        message: "the name of an extended attribute of {inode} (entry at byte {at}) contains zero bytes; what remains is {name}",
        meaning: "A name cannot contain a zero byte. The kernel refuses all attributes of the inode, and its inline data.",
        repair: "Each zero byte is replaced by an underscore. The values are kept.",
        loss: "The overwritten characters of the name.",
        peers: [],
    }
    /// A name under the prefix of an access list.
    LIST_WITH_NAME = "ext.xattr.list-with-name" {
        severity: Major, evidence: Local, preen: true,
        message: "an access control list of {inode} (entry at byte {at}) has a name after its prefix; the attribute is probably {name}",
        meaning: "The name of an access control list is its prefix alone. The prefix was overwritten. The kernel lists the attribute, but cannot read it.",
        repair: "The prefix is set to that of the other attributes, or to 'user.'. Name and value are kept.",
        loss: "Nothing, but the attribute may have had another prefix.",
        peers: [],
    }
    /// An attribute block cannot be read.
    BLOCK_UNREADABLE = "ext.xattr.block-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, the attribute block of {inode}, cannot be read: {why}",
        meaning: "The device returned a read error, or the device ends before this block.",
        repair: "The pointer to the attribute block (i_file_acl) is cleared in this inode.",
        loss: "The extended attributes in that block.",
        peers: [0x010039],
    }
    /// An attribute block lacks its magic number.
    BLOCK_MAGIC = "ext.xattr.block-magic" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, the attribute block of {inode}, has magic number {stored}, which is invalid",
        meaning: "The pointer to it is wrong, or the block was overwritten.",
        repair: "The pointer to the attribute block (i_file_acl) is cleared in this inode.",
        loss: "The extended attributes in that block.",
        peers: [0x01003A],
    }
    /// An attribute block pointer leads out of the file system.
    POINTER_OUTSIDE = "ext.xattr.pointer-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has invalid i_file_acl {stored}, outside the file system",
        meaning: "i_file_acl is the number of the attribute block.",
        repair: "i_file_acl is cleared.",
        loss: "The extended attributes in the attribute block. It cannot be found.",
        peers: [0x020032, 0x01003A],
    }
    /// An attribute block pointer in a file system without attributes.
    POINTER_WITHOUT_FEATURE = "ext.xattr.pointer-without-feature" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has i_file_acl {stored}, but the ext_attr feature is not set",
        meaning: "Without the feature the field must be 0. The inode was overwritten.",
        repair: "i_file_acl is cleared.",
        loss: nothing "Nothing that was visible: without the feature, the attributes are not in use.",
        peers: [0x02000E],
    }
    /// An attribute block that says it goes on in others.
    BLOCK_COUNT = "ext.xattr.block-count" {
        severity: Major, evidence: Local, preen: false,
        message: "attribute {block} of {inode} has h_blocks {stored}, should be 1",
        meaning: "Extended attributes use at most one block. The number was overwritten.",
        repair: "The number is set to 1. Valid attributes are kept.",
        loss: "Nothing by this repair. Damage to the attributes themselves is reported separately.",
        peers: [0x01003E],
    }
    /// Entries or values of an attribute block lie over one another.
    BLOCK_OVERLAP = "ext.xattr.block-overlap" {
        severity: Major, evidence: Local, preen: false,
        message: "attribute {block} of {inode} is corrupt: entries or values overlap or leave the block (entry at byte {at})",
        meaning: "The block was overwritten.",
        repair: "The pointer to the block (i_file_acl) is cleared in every inode that has it, because nothing in the block can be trusted.",
        loss: "The extended attributes in that block.",
        peers: [0x010040],
    }
    /// An attribute in a block has no kind of name.
    BLOCK_NAME = "ext.xattr.block-name" {
        severity: Major, evidence: Local, preen: false,
        message: "an extended attribute in {block} of {inode} has no namespace (entry at byte {at})",
        meaning: "The name of an attribute belongs to a namespace (user, security, ...).",
        repair: "This attribute is removed. The other attributes are kept.",
        loss: "This attribute. Without a namespace it was not accessible.",
        peers: [0x010041],
    }
    /// The place of an access list is not where its entry says.
    ACL_ASTRAY = "ext.xattr.acl-astray" {
        severity: Major, evidence: Local, preen: true,
        message: "the entry of {name} of {inode} points to a list of {stored:byte:bytes} at byte {at}, but a complete list of {observed:byte:bytes} is at byte {right}",
        meaning: "The kernel denies access to a file whose access control list cannot be read. The inode holds exactly one complete list that belongs to no other attribute: the offset or size in the entry was overwritten.",
        repair: "The offset and size in the entry are corrected.",
        loss: nothing,
        peers: [],
    }
    /// Attributes of a block are out of order.
    BLOCK_ORDER = "ext.xattr.block-order" {
        severity: Major, evidence: Local, preen: true,
        message: "the extended attributes in attribute {block} of {inode} are not sorted ({name} comes too late)",
        meaning: "The kernel keeps them sorted by namespace, length and name, and does not find an attribute that comes too late.",
        repair: "The entries are sorted. Their values are kept.",
        loss: nothing,
        peers: [],
    }
    /// The value of an attribute in a block lies outside of it.
    BLOCK_VALUE_OUTSIDE = "ext.xattr.block-value-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "extended attribute {name} in {block} of {inode} has its value outside the block (offset or length {stored})",
        meaning: "The attribute entry was overwritten.",
        repair: "This attribute is removed. The other attributes are kept.",
        loss: "The value of this attribute. It cannot be found.",
        peers: [0x010042],
    }
    /// Only the checksum of an attribute block is wrong.
    BLOCK_CHECKSUM = "ext.xattr.block-checksum" {
        severity: Minor, evidence: Local, preen: false,
        message: "attribute {block} of {inode} has checksum {stored}, should be {observed}; its contents look valid",
        meaning: "The checksum is wrong, but the hash of each attribute is correct.",
        repair: "The checksum is recomputed.",
        loss: nothing,
        peers: [0x01006C],
    }
    /// An attribute block counts its inodes wrongly.
    REFCOUNT = "ext.xattr.refcount" {
        severity: Minor, evidence: Cross, preen: true,
        message: "attribute {block} has reference count {stored}, should be {observed}",
        meaning: "Inodes with equal attributes share one block, which counts them. The count was not updated before the system stopped.",
        repair: "The reference count is corrected.",
        loss: nothing,
        peers: [0x01003C],
    }
    /// An attribute refers to an inode that cannot hold its value.
    VALUE_INODE = "ext.xattr.value-inode" {
        severity: Major, evidence: Cross, preen: true,
        message: "extended attribute {name} of {inode} has its value in inode {stored}, which is invalid",
        meaning: "A large value is stored in an EA inode. The number is reserved, larger than the last inode, the file itself, or an unused inode; or that inode has no blocks for the whole value, and the kernel refuses to read it.",
        repair: "This attribute is removed. The other attributes are kept.",
        loss: "The value of this attribute. It cannot be found.",
        peers: [0x010083, 0x010052],
    }
    /// An attribute refers to an inode that cannot hold its value, and the value lies beside it.
    VALUE_INODE_ASTRAY = "ext.xattr.value-inode-astray" {
        severity: Major, evidence: Cross, preen: true,
        message: "extended attribute {name} of {inode} refers to EA inode {stored}, but its value is in the inode or block of the entry",
        meaning: "The EA inode does not hold this value. The place for a value beside the entry holds one that matches the hash, or, for an attribute without a hash, one that belongs to no other attribute. The EA inode number was overwritten.",
        repair: "The EA inode number is cleared. The value is kept.",
        loss: nothing,
        peers: [0x010083, 0x010052, 0x010085],
    }
    /// An attribute refers to an inode that holds something else.
    VALUE_INODE_FOREIGN = "ext.xattr.value-inode-foreign" {
        severity: Major, evidence: Cross, preen: true,
        message: "extended attribute {name} of {inode} has its value in inode {stored}, which is not an EA inode",
        meaning: "The inode has neither EA_INODE_FL nor a matching hash: it is an ordinary file.",
        repair: "This attribute is removed. The other file is unchanged.",
        loss: "The value of this attribute. It cannot be found.",
        peers: [0x010085, 0x010083],
    }
    /// A value inode lacks its flag.
    VALUE_INODE_UNFLAGGED = "ext.xattr.value-inode-unflagged" {
        severity: Minor, evidence: Cross, preen: true,
        message: "inode {stored} holds the value of extended attribute {name} of {inode}, but EA_INODE_FL is not set",
        meaning: "The hash in the inode matches the attribute. The flag was lost.",
        repair: "EA_INODE_FL is set.",
        loss: nothing,
        peers: [0x010086],
    }
    /// Value inodes are in use, but the feature is off.
    VALUE_INODE_FEATURE = "ext.xattr.value-inode-feature" {
        severity: Major, evidence: Cross, preen: true,
        message: "extended attribute {name} of {inode} has its value in EA inode {stored}, but the ea_inode feature is not set",
        meaning: "The attribute and the EA inode are valid. The feature bit in the superblock was lost.",
        repair: "The feature is set in the superblock.",
        loss: nothing,
        peers: [0x010092],
    }
    /// A value inode counts its references wrongly.
    VALUE_INODE_REFERENCES = "ext.xattr.value-inode-references" {
        severity: Minor, evidence: Cross, preen: true,
        message: "EA {inode} has reference count {stored}, should be {observed}",
        meaning: "Equal large values are stored once, in an EA inode that counts its references. The count was not updated before the system stopped.",
        repair: "The reference count is corrected.",
        loss: nothing,
        peers: [0x040005],
    }
    /// A value inode has more links than one.
    VALUE_INODE_LINKS = "ext.xattr.value-inode-links" {
        severity: Minor, evidence: Local, preen: true,
        message: "EA {inode} has link count {stored}, should be 1",
        meaning: "An EA inode has no name. Its link count is always 1.",
        repair: "The link count is set to 1.",
        loss: nothing,
        peers: [0x040002],
    }
    /// An access list has a tag that there is not, and the others tell which it was.
    ACL_TAG = "ext.xattr.acl-tag" {
        severity: Major, evidence: Local, preen: false,
        message: "access control list {name} of {inode} is invalid: an entry has tag {stored}, should be {observed}",
        meaning: "The entries of an access control list have a fixed order. One entry was overwritten, and the kernel denies access to all but the owner. The other entries and the length of the list determine the tag.",
        repair: "The tag is corrected.",
        loss: nothing,
        peers: [],
    }
    /// An access list cannot be read, and nothing tells what stood there.
    ACL_UNREADABLE = "ext.xattr.acl-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "access control list {name} of {inode} cannot be read",
        meaning: "An access control list gives permissions to users and groups other than the owner and the group of the file. This one was overwritten in several places. The kernel refuses to open the file while it cannot read the list, even for the superuser.",
        repair: "The list is removed. The permission bits of the file apply from then on.",
        loss: "The permissions of individual users and groups. The group of the file gets what its permission bits say, which may be more than the list allowed.",
        peers: [],
    }
    /// An inode has the flag of EA inodes, but no attribute refers to it.
    VALUE_INODE_SPURIOUS = "ext.xattr.value-inode-spurious" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} has EA_INODE_FL set, but no attribute refers to it",
        meaning: "The attribute was removed, or the flag of an ordinary file is damage.",
        repair: "EA_INODE_FL is cleared. A file with no name is then reconnected to lost+found.",
        loss: nothing,
        peers: [0x040008],
    }
    /// An encrypted inode without its encryption context.
    ENCRYPTION_MISSING = "ext.xattr.encryption-missing" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has ENCRYPT_FL set, but no encryption context",
        meaning: "The attribute with the encryption context was lost, or the flag is damage.",
        repair: "ENCRYPT_FL is cleared.",
        loss: "Nothing by this repair. If the file was encrypted, it cannot be decrypted without its context.",
        peers: [0x01008A],
    }
    /// An encrypted inode with a malformed encryption context.
    ENCRYPTION_CORRUPT = "ext.xattr.encryption-corrupt" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is encrypted, but its encryption context of {stored:byte:bytes} is invalid",
        meaning: "The length of the encryption context does not match its version. It was overwritten.",
        repair: "The inode is cleared and the names that point to it are removed: the file cannot be decrypted.",
        loss: "The file. It cannot be decrypted.",
        peers: [0x01008B],
    }
}
