//! Encryption policies of a directory and of what stands in it.
//!
//! The policy is the value of an attribute of the inode: a version, modes, flags, and which key; then a nonce of 16 bytes
//! that differs from file to file.
//!
//! Source: the kernel's `Documentation/filesystems/fscrypt.rst`, encryption context.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::Row;
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::inode::{BASE_INODE_SIZE, RawInode, flags};

use super::problems as rows;
use crate::Fs;

/// Shortest encrypted name.
const ENCRYPTED_NAME_MIN: usize = 16;
const INDEX_ENCRYPTION: u8 = 9;
const NAME_ENCRYPTION: &[u8] = b"c";
const NONCE_LEN: usize = 16;
const XATTR_MAGIC: [u8; 4] = 0xEA02_0000u32.to_le_bytes();
const BLOCK_HEADER_LEN: usize = 32;

/// The policy of one encrypted inode: all of its context but the nonce. `None` when it cannot be told.
pub(super) fn policy(fs: &Fs<'_>, record: &[u8]) -> Option<Vec<u8>> {
    let context = match in_inode_attribute(record, INDEX_ENCRYPTION, NAME_ENCRYPTION) {
        Some(value) => value.to_vec(),
        None => in_block_context(fs, record)?,
    };
    let policy = context.get(..context.len().checked_sub(NONCE_LEN)?)?;
    Some(policy.to_vec())
}

fn in_block_context(fs: &Fs<'_>, record: &[u8]) -> Option<Vec<u8>> {
    let raw = RawInode::from_record(record);
    let block = u64::from(raw.i_file_acl_high.get()) << 32 | u64::from(raw.i_file_acl_lo.get());
    if !fs.is_valid_block(BlockNo(block)) {
        return None;
    }
    let bytes = fs.read_block(BlockNo(block)).ok()?;
    if !bytes.starts_with(&XATTR_MAGIC) {
        return None;
    }
    find_attribute(&bytes, BLOCK_HEADER_LEN, 0, INDEX_ENCRYPTION, NAME_ENCRYPTION).map(<[u8]>::to_vec)
}

/// The value of an attribute that stands in the inode itself.
pub(super) fn in_inode_attribute<'a>(record: &'a [u8], index: u8, name: &[u8]) -> Option<&'a [u8]> {
    let extra = RawInode::from_record(record).i_extra_isize.get();
    let area = record.get(BASE_INODE_SIZE + usize::from(extra)..)?;
    let entries = area.strip_prefix(&XATTR_MAGIC)?;
    find_attribute(entries, 0, 0, index, name)
}

/// Finds an attribute among the entries at `entries_at` of `bytes`; values are placed from `values_at` on.
fn find_attribute<'a>(
    bytes: &'a [u8],
    entries_at: usize,
    values_at: usize,
    index: u8,
    name: &[u8],
) -> Option<&'a [u8]> {
    let mut rest = bytes.get(entries_at..)?;
    while let Some(entry) = rest.first_chunk::<16>() {
        if entry[..4] == [0; 4] {
            return None;
        }
        let name_len = usize::from(entry[0]);
        if entry[1] == index && rest.get(16..16 + name_len) == Some(name) {
            let start = values_at + usize::from(u16::from_le_bytes([entry[2], entry[3]]));
            let size = u32::from_le_bytes([entry[8], entry[9], entry[10], entry[11]]) as usize;
            return bytes.get(start..start.checked_add(size)?);
        }
        rest = rest.get(16 + name_len.next_multiple_of(4)..)?;
    }
    None
}

/// Why an entry of an encrypted directory cannot stay: its name, or what it leads to. `directory_policy` is the policy
/// of the directory.
pub(super) fn objection(
    fs: &Fs<'_>,
    directory_policy: Option<&[u8]>,
    name: &[u8],
    target: InodeNo,
    kind: Kind,
) -> Option<&'static Row> {
    if name.len() < ENCRYPTED_NAME_MIN {
        return Some(&rows::ENCRYPTED_NAME_SHORT);
    }
    if !matches!(kind, Kind::Regular | Kind::Directory | Kind::Symlink) {
        return None;
    }
    let record = fs.read_inode(target)?.ok()?;
    if !RawInode::from_record(&record).has_flag(flags::ENCRYPT) {
        return Some(&rows::ENTRY_UNENCRYPTED);
    }
    (policy(fs, &record).as_deref() != directory_policy).then_some(&rows::ENTRY_OTHER_POLICY)
}
