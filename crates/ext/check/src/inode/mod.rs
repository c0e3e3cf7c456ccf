// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inspection of one inode: everything its own record, its block map, its attributes and its inline data can
//! prove wrong, with a private copy mended on the way.

pub(crate) mod attributes;
mod fields;
pub mod inspection;
mod layout;
mod link_target;
pub(crate) mod map;
pub(crate) mod problems;
pub(crate) mod seal;
mod self_checksum;
pub(crate) mod size;
mod special;
mod special_file;
pub(crate) mod subject;
mod symlink;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod translator;

use fsmend_base::InodeNo;
use fsmend_engine::inodes::{Kind, mark};
use fsmend_engine::shared_maps::MapWalkLimiter;
use fsmend_engine::{Findings, Layer, Value};
use fsmend_ext_format::features::{Compat, RoCompat};
use fsmend_ext_format::inode::{InodeFlags, special as numbers};

use crate::Fs;
use crate::indirect;
use crate::indirect::problems::NOT_BY_EXTENTS;
use crate::resize_inode;
pub use inspection::{Inspection, MapRun, links_of, units_of};
use layout::Layout;
use map::Map;
use problems::{MAP_CROWDED, MODE_UNKNOWN};
use seal::seal_inode;
use special::Role;
use subject::Subject;

/// Inspects `record`, the record of inode `inode`, on a file system whose orphans have been released (an orphan has a
/// deletion time, or none, and blocks behind its end, for good reason). Raises every problem that it finds.
/// Reads map, attribute and directory blocks as it needs them, each at most a bounded number of times.
pub fn inspect(fs: &Fs<'_>, inode: InodeNo, record: &[u8], findings: &mut Findings) -> Inspection {
    let mut subject = Subject::new(fs, inode, record, findings.for_subject());
    let mut inspection = examine(&mut subject);
    inspection.has_problems = !subject.is_clean();
    inspection.map_reads = subject.map_reads;
    // A pointer to an attribute block that goes is taken out without a word about it here.
    let changed = inspection.has_problems || inspection.record != record;
    if changed && findings.gathers_edits() {
        if inspection.cleared {
            // Blocks that were mended on the way have no owner now.
            subject.findings.take_edits();
        }
        edit_record(&mut subject, &inspection);
    }
    findings.merge(subject.findings);
    inspection
}

/// Walks the map of `inode`, and gives it up if `limiter` does not let it be walked or claim what it leads to.
pub(crate) fn limit_walk(limiter: &mut MapWalkLimiter, fs: &Fs<'_>, inode: InodeNo, record: &[u8]) {
    let mut subject = Subject::new(fs, inode, record, Findings::new());
    subject.limiter = Some(limiter);
    let inspection = examine(&mut subject);
    let is_given_up = subject.is_given_up;
    if is_given_up || !limiter.claims(&units_of(&inspection, &fs.geometry)) {
        fs.shared_maps.add(inode);
    }
}

/// Keeps the mended record for the repair.
fn edit_record(subject: &mut Subject<'_, '_>, inspection: &Inspection) {
    let mut record = inspection.record.clone();
    seal_inode(subject.fs, subject.inode, &mut record);
    if let Some(offset) = subject.fs.inode_offset(subject.inode) {
        subject.findings.edit(Layer::Record, offset, &record);
    }
}

fn examine(subject: &mut Subject<'_, '_>) -> Inspection {
    let number = subject.inode.0;
    if number == numbers::BAD_BLOCKS {
        return finish_neutral(subject);
    }
    let verdict = self_checksum::judge(subject);
    if matches!(verdict, self_checksum::Verdict::Garbage) {
        return cleared(subject);
    }
    let inspection = examine_fields(subject);
    if let self_checksum::Verdict::Wrong(checked) = verdict
        && subject.is_clean()
    {
        self_checksum::raise(subject, checked);
    }
    inspection
}

fn examine_fields(subject: &mut Subject<'_, '_>) -> Inspection {
    let role = special::settle(subject);
    if role != Role::Cleared {
        fields::orphan_remains(subject);
    }
    match role {
        Role::Cleared => return cleared(subject),
        Role::Neutral => return neutral(subject),
        Role::System => {}
        Role::Ordinary => {
            if subject.raw.i_links_count.get() == 0 {
                fields::free_inode(subject);
                return finish_neutral(subject);
            }
            fields::deletion_time(subject);
        }
    }
    match in_use(subject, role) {
        Some(inspection) => inspection,
        None => cleared(subject),
    }
}

/// An inode in use; `None` when it has to be cleared.
fn in_use(subject: &mut Subject<'_, '_>, role: Role) -> Option<Inspection> {
    fields::value_holder_type(subject);
    fields::impossible_flags(subject);
    fields::extra_size(subject);
    fields::timestamps(subject);
    let mut attributes = attributes::inspect(subject)?;
    layout::settle(subject)?;
    special_file::recognise_directory(subject);
    special_file::recognise_file(subject);
    attributes::inspect_inline_data(subject, &mut attributes)?;
    layout::fast_symlink_flag(subject);
    let kind = known_kind(subject)?;
    fields::imagic_flag(subject);
    if role == Role::Ordinary && !subject.raw.has_flag(InodeFlags::EA_INODE) {
        fields::verity_flag(subject);
        fields::zero_fields(subject);
    }
    if subject.is_special_file() && !special_file::inspect(subject) {
        return None;
    }
    fields::index_flag(subject);
    let layout = layout::of(subject);
    let map = walk(subject, layout, role)?;
    let inline = layout == Layout::Inline;
    let clusters = map.clusters + attributes.clusters;
    if !size::directory_has_blocks(subject, layout, map.clusters) {
        return None;
    }
    let is_mapped = matches!(layout, Layout::BlockMap | Layout::Extents);
    let translator = if is_mapped { translator::inspect(subject) } else { None };
    size::inspect(subject, layout, &map, attributes.inline_capacity);
    size::inspect_sectors(subject, clusters);
    if subject.is_symlink() && !symlink::inspect(subject, layout, &map, attributes.inline_capacity) {
        return None;
    }
    let rebuild = block_mapped_bigalloc(subject, layout, role, &map) || map.rebuild;
    subject.store();
    Some(Inspection {
        record: std::mem::take(&mut subject.record),
        kind,
        marks: marks(subject, role),
        charged_sectors: size::charged_sectors(subject, clusters),
        misaligned: map.misaligned.clone(),
        map_blocks: map.map_blocks.clone(),
        runs: map.into_runs(),
        xattr_block: attributes.block,
        translator,
        value_inodes: attributes.value_inodes,
        inline,
        rebuild,
        ..Inspection::default()
    })
}

fn known_kind(subject: &mut Subject<'_, '_>) -> Option<Kind> {
    let kind = subject.kind();
    if kind.is_none() {
        let mode = Value::Text(format!("{:#o}", subject.raw.i_mode.get()));
        let problem = subject.problem(&MODE_UNKNOWN).stored(mode);
        subject.raise(problem);
    }
    kind
}

fn walk(subject: &mut Subject<'_, '_>, layout: Layout, role: Role) -> Option<Map> {
    if matches!(layout, Layout::BlockMap | Layout::Extents) && subject.fs.shared_maps.contains(subject.inode)
    {
        let problem = subject.problem(&MAP_CROWDED);
        subject.raise(problem);
        return None;
    }
    match layout {
        Layout::None | Layout::Inline => Some(Map::default()),
        Layout::BlockMap => indirect::walk(subject),
        Layout::Extents => {
            let may_be_unwritten = subject.is_regular() && role == Role::Ordinary;
            crate::extent::walk(subject, may_be_unwritten)
        }
    }
}

/// With clusters, files have to be mapped by extents; whether one is that is not.
fn block_mapped_bigalloc(subject: &mut Subject<'_, '_>, layout: Layout, role: Role, map: &Map) -> bool {
    let applies = (subject.is_regular() || subject.is_directory())
        && subject.has_ro_compat(RoCompat::BIGALLOC)
        && role == Role::Ordinary
        && subject.inode.0 >= subject.fs.geometry.first_inode;
    let is_wrong = applies && layout == Layout::BlockMap && map.clusters > 0;
    if is_wrong {
        let problem = subject.problem(&NOT_BY_EXTENTS);
        subject.raise(problem);
    }
    is_wrong
}

fn marks(subject: &Subject<'_, '_>, role: Role) -> u8 {
    let raw = &subject.raw;
    let mut marks = 0;
    if raw.has_flag(InodeFlags::EA_INODE) {
        marks |= mark::EA_INODE;
    }
    if raw.has_flag(InodeFlags::ENCRYPT) {
        marks |= mark::ENCRYPTED;
    }
    if role == Role::System {
        marks |= mark::RESERVED;
    }
    marks
}

/// A reserved inode that is empty, or that another check looks after.
fn neutral(subject: &mut Subject<'_, '_>) -> Inspection {
    if subject.inode.0 == numbers::RESIZE && subject.fs.geometry.features.has_compat(Compat::RESIZE_INODE) {
        return resize_inode_space(subject);
    } else if subject.inode.0 != numbers::BAD_BLOCKS {
        fields::impossible_flags(subject);
        special::repair_input(subject);
        // The type of the boot loader's inode is not checked; the rest is.
        if subject.raw.i_mode.get() == 0 || subject.inode.0 == numbers::BOOT_LOADER {
            size::inspect_unused(subject);
            size::inspect_sectors(subject, 0);
        }
    }
    finish_neutral(subject)
}

/// Attributes, size and space of the resize inode, whose map is checked elsewhere.
fn resize_inode_space(subject: &mut Subject<'_, '_>) -> Inspection {
    fields::impossible_flags(subject);
    let Some(extent) = resize_inode::extent(subject.fs, &subject.raw) else { return finish_neutral(subject) };
    // It has no attributes, so most have no block to be read.
    let has_block = subject.file_acl() != 0;
    let attributes = if has_block { attributes::inspect(subject) } else { None };
    let (block, clusters) =
        attributes.map_or((None, 0), |attributes| (attributes.block, attributes.clusters));
    let map = Map::ending(extent.last);
    size::inspect(subject, Layout::BlockMap, &map, None);
    size::inspect_sectors(subject, extent.blocks + clusters);
    Inspection { xattr_block: block, ..finish_neutral(subject) }
}

fn finish_neutral(subject: &mut Subject<'_, '_>) -> Inspection {
    let reserved = subject.inode.0 < subject.fs.geometry.first_inode && subject.inode.0 != numbers::ROOT;
    subject.store();
    Inspection {
        record: std::mem::take(&mut subject.record),
        marks: if reserved { mark::RESERVED } else { 0 },
        ..Inspection::default()
    }
}

/// An inode that will be cleared.
fn cleared(subject: &mut Subject<'_, '_>) -> Inspection {
    let reserved = subject.inode.0 < subject.fs.geometry.first_inode && subject.inode.0 != numbers::ROOT;
    Inspection {
        record: vec![0; subject.record.len()],
        marks: if reserved { mark::RESERVED } else { 0 },
        cleared: true,
        ..Inspection::default()
    }
}
