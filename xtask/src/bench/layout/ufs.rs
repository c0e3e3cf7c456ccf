// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the metadata of a UFS image lies.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsmend_device::FileDevice;
use fsmend_engine::Findings;
use fsmend_engine::options::SuperblockOptions;
use fsmend_ufs_check::opening::find_layout;
use fsmend_ufs_format::geometry::DIRECT;
use fsmend_ufs_format::inode::{Inode, mode};
use fsmend_ufs_format::{Geometry, Version};

use super::{BLOCK, Layout};

/// Walks the inode tables of `image`.
pub fn find(image: &Path) -> io::Result<Layout> {
    let file = File::open(image)?;
    let device = FileDevice::open(image)?;
    let found = find_layout(&device, SuperblockOptions::default(), 0, &mut Findings::new());
    let found = found.map_err(|refusal| io::Error::other(refusal.to_string()))?;
    let geometry = &found.geometry;
    let mut layout = Layout {
        are_directories_sealed: false,
        inode_size: geometry.version.inode_size(),
        tables: Vec::new(),
        directories: Vec::new(),
        pointers: Vec::new(),
    };
    for (group, count) in (0..).zip(found.initialised.iter()) {
        let place = geometry.inode_place(group * geometry.group_inodes);
        if let Some(start) = place.filter(|_| *count > 0) {
            layout.tables.push((start, *count as usize * layout.inode_size));
        }
    }
    let mut table = Vec::new();
    for (start, len) in layout.tables.clone() {
        table.resize(len, 0);
        file.read_exact_at(&mut table, start)?;
        for record in table.chunks(layout.inode_size) {
            note(&file, geometry, &Inode::new(record, geometry.order, geometry.version), &mut layout)?;
        }
    }
    layout.directories.sort_unstable();
    layout.pointers.sort_unstable();
    Ok(layout)
}

fn note(file: &File, geometry: &Geometry, inode: &Inode<&[u8]>, layout: &mut Layout) -> io::Result<()> {
    let is_directory = inode.file_type() == mode::DIRECTORY;
    if !is_directory && inode.file_type() != mode::REGULAR {
        return Ok(());
    }
    let pointers = inode.pointers();
    let (direct, indirect) = pointers.split_at(DIRECT as usize);
    if is_directory {
        for (index, fragment) in (0..).zip(direct).filter(|(_, fragment)| **fragment != 0) {
            let count = geometry.block_fragments(inode.size(), index);
            layout.directories.extend(units(geometry, *fragment, count));
        }
    }
    for (level, fragment) in indirect.iter().enumerate().filter(|(_, fragment)| **fragment != 0) {
        note_indirect(file, geometry, *fragment, level, layout)?;
    }
    Ok(())
}

/// An indirect block, and those below it.
fn note_indirect(
    file: &File,
    geometry: &Geometry,
    fragment: u64,
    level: usize,
    layout: &mut Layout,
) -> io::Result<()> {
    layout.pointers.extend(units(geometry, fragment, geometry.fragments));
    if level == 0 {
        return Ok(());
    }
    let mut bytes = vec![0; geometry.block_size as usize];
    file.read_exact_at(&mut bytes, geometry.place(fragment))?;
    let below = bytes.chunks_exact(geometry.version.pointer_size()).map(|stored| match geometry.version {
        Version::Ufs1 => u64::from(geometry.order.u32(stored, 0)),
        Version::Ufs2 => geometry.order.u64(stored, 0),
    });
    below.filter(|to| *to != 0).try_for_each(|to| note_indirect(file, geometry, to, level - 1, layout))
}

/// A run of fragments as blocks of the floor.
fn units(geometry: &Geometry, fragment: u64, count: u64) -> impl Iterator<Item = u64> + use<> {
    let (start, end) = (geometry.place(fragment), geometry.place(fragment + count));
    (start..end).step_by(BLOCK)
}
