// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attribute blocks.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::problem::{Problem, Value};
use fsmend_engine::{Findings, Layer};
use fsmend_ext_format::checksum;
use fsmend_ext_format::encryption::CONTEXT_NAME;
use fsmend_ext_format::features::Compat;
use fsmend_ext_format::xattr::{Area, RawXattrHeader, XATTR_MAGIC, block_hash, name_index};

use super::area::{self, Owner};
use super::{ValueReference, names, order, problems, table_end};
use crate::Fs;
use crate::region::problems::ATTRIBUTES_INSIDE;

/// What an attribute block holds, as it will be after repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockAttributes {
    /// Whether the block stays. When not, every inode that points to it loses its pointer.
    pub plausible: bool,
    /// Inodes that hold values, one per entry that refers to one (and once per block, however many inodes share it).
    pub value_inodes: Vec<ValueReference>,
    /// Those of them that get the flag `EA_INODE` by the repair.
    pub newly_flagged: Vec<InodeNo>,
    /// Bytes that `i_blocks` of every inode with this block counts for values in inodes of their own, in whole clusters
    /// (beside the attribute block itself).
    pub charged_bytes: u64,
    /// The encryption context, if the block holds one.
    pub encryption_context: Option<Vec<u8>>,
    /// Number of entries that stay.
    pub entries: usize,
}

/// Judges the attribute block pointer `file_acl` of inode `ino`: `None` when there is none or it has to be cleared.
pub fn inspect_pointer(fs: &Fs<'_>, ino: InodeNo, file_acl: u64, findings: &mut Findings) -> Option<BlockNo> {
    if file_acl == 0 {
        return None;
    }
    let block = BlockNo(file_acl);
    if !fs.geometry.features.has_compat(Compat::EXT_ATTR) {
        findings.raise(Problem::new(&problems::POINTER_WITHOUT_FEATURE).inode(ino).stored(file_acl));
        return None;
    }
    if !fs.is_valid_block(block) {
        findings.raise(Problem::new(&problems::POINTER_OUTSIDE).inode(ino).stored(file_acl));
        return None;
    }
    if fs.regions.contain(file_acl) {
        findings.raise(Problem::new(&ATTRIBUTES_INSIDE).inode(ino).stored(file_acl));
        return None;
    }
    Some(block)
}

/// Reads and inspects `block`, to which inode `ino` points; a block that cannot be read is not plausible.
/// When several inodes share the block, the others can do it with findings that are thrown away.
pub fn read_and_inspect_block(
    fs: &Fs<'_>,
    ino: InodeNo,
    block: BlockNo,
    findings: &mut Findings,
) -> BlockAttributes {
    match fs.read_block(block) {
        Ok(mut bytes) => inspect_block(fs, ino, block, &mut bytes, findings),
        Err(error) => {
            let problem = Problem::new(&problems::BLOCK_UNREADABLE).inode(ino).block(block);
            findings.raise(problem.detail("why", error.to_string()));
            BlockAttributes::default()
        }
    }
}

/// Reads and inspects `block`, to which `references` inodes point, `ino` the first of them, and keeps the mended block for the
/// repair. To be called once for each block.
pub fn settle_block(
    fs: &Fs<'_>,
    ino: InodeNo,
    block: BlockNo,
    references: u32,
    findings: &mut Findings,
) -> BlockAttributes {
    let Ok(stored) = fs.read_block(block) else {
        return read_and_inspect_block(fs, ino, block, findings);
    };
    let mut bytes = stored.clone();
    let mut subject = findings.for_subject();
    let attributes = inspect_block(fs, ino, block, &mut bytes, &mut subject);
    if attributes.plausible {
        check_references(block, references, &mut bytes, &mut subject);
        if bytes != stored {
            store_checksum(fs, block, &mut bytes);
            subject.edit(Layer::Block, fs.block_offset(block), &bytes);
        }
    }
    findings.merge(subject);
    attributes
}

/// Compares stored and observed references of a plausible attribute block, and mends the stored number.
fn check_references(block: BlockNo, observed: u32, bytes: &mut [u8], findings: &mut Findings) {
    let mut header = RawXattrHeader::from_block(bytes);
    let stored = header.h_refcount.get();
    if stored != observed {
        findings.raise(Problem::new(&problems::REFCOUNT).block(block).stored(stored).observed(observed));
        header.h_refcount.set(observed);
        header.store(bytes);
    }
}

/// Inspects the contents of attribute block `block`, to which inode `ino` points, and mends them in `bytes`: a bad
/// entry is taken out, checksum and hash are set right. A block whose layout is broken is not plausible.
pub fn inspect_block(
    fs: &Fs<'_>,
    ino: InodeNo,
    block: BlockNo,
    bytes: &mut [u8],
    findings: &mut Findings,
) -> BlockAttributes {
    let header = RawXattrHeader::from_block(bytes);
    if header.h_magic.get() != XATTR_MAGIC {
        let stored = Value::Hex(u64::from(header.h_magic.get()));
        findings.raise(Problem::new(&problems::BLOCK_MAGIC).inode(ino).block(block).stored(stored));
        return BlockAttributes::default();
    }
    let has_wrong_count = header.h_blocks.get() != 1;
    if has_wrong_count {
        let problem = Problem::new(&problems::BLOCK_COUNT).inode(ino).block(block);
        findings.raise(problem.stored(header.h_blocks.get()));
        let mut header = header;
        header.h_blocks = 1.into();
        header.store(bytes);
    }
    // The generation counts only for values in Lustre's older scheme, whose one owner is then read.
    let generation = generation_of(fs, ino, bytes);
    let owner = Owner { inode: ino, generation, block: Some(block) };
    let places = Area::of_block(bytes);
    let places = (places.entries_at, places.values_at);
    let is_ended = table_end::mend(owner, bytes, places, findings);
    let is_renamed = names::mend(owner, bytes, places, findings);
    let verdict = area::inspect(fs, owner, Area::of_block(bytes), findings);
    if verdict.broken || (verdict.has_bad_entries() && verdict.kept == 0) {
        return BlockAttributes::default();
    }
    let changes = verdict.changes_entries();
    if changes {
        verdict.mend_entries(bytes);
    }
    let is_sorted = order::mend(owner, bytes, findings);
    if changes || is_ended || is_renamed || is_sorted {
        store_hash(bytes);
        store_checksum(fs, block, bytes);
    } else if has_wrong_count {
        store_checksum(fs, block, bytes);
    } else {
        check_checksum(fs, ino, block, bytes, findings);
    }
    let area = Area::of_block(bytes);
    let context = area.find(name_index::ENCRYPTION, CONTEXT_NAME);
    BlockAttributes {
        plausible: true,
        value_inodes: verdict.value_inodes,
        newly_flagged: verdict.newly_flagged,
        charged_bytes: verdict.charged_bytes,
        encryption_context: context.and_then(|entry| area.value(&entry)).map(<[u8]>::to_vec),
        entries: verdict.kept,
    }
}

/// The generation of `ino`, read only when an entry of the block can need it.
fn generation_of(fs: &Fs<'_>, ino: InodeNo, bytes: &[u8]) -> u32 {
    let mut entries = Area::of_block(bytes).entries().filter_map(Result::ok);
    if entries.all(|entry| entry.value_inode == 0) {
        return 0;
    }
    let record = fs.read_inode(ino).and_then(Result::ok).unwrap_or_default();
    fsmend_ext_format::inode::RawInode::from_record(&record).i_generation.get()
}

fn check_checksum(fs: &Fs<'_>, ino: InodeNo, block: BlockNo, bytes: &mut [u8], findings: &mut Findings) {
    if !fs.geometry.features.metadata_csum() {
        return;
    }
    if let Some(checked) = checksum::xattr_block(fs.geometry.checksum_seed, block, bytes)
        && !checked.is_right()
    {
        let problem = Problem::new(&problems::BLOCK_CHECKSUM).inode(ino).block(block);
        let stored = Value::Hex(u64::from(checked.stored));
        findings.raise(problem.stored(stored).observed(Value::Hex(u64::from(checked.computed))));
        store_checksum(fs, block, bytes);
    }
}

fn store_checksum(fs: &Fs<'_>, block: BlockNo, bytes: &mut [u8]) {
    let checked = checksum::xattr_block(fs.geometry.checksum_seed, block, bytes);
    if let Some(checked) = checked.filter(|_| fs.geometry.features.metadata_csum()) {
        let mut header = RawXattrHeader::from_block(bytes);
        header.h_checksum = checked.computed.into();
        header.store(bytes);
    }
}

fn store_hash(bytes: &mut [u8]) {
    let mut header = RawXattrHeader::from_block(bytes);
    header.h_hash = block_hash(Area::of_block(bytes)).into();
    header.store(bytes);
}
