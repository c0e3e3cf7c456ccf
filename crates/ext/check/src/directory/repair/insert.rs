// SPDX-License-Identifier: MIT OR Apache-2.0
//! New names in a directory: where there is room, then in new blocks at its end.

use fsmend_base::{InodeNo, width};
use fsmend_ext_format::directory::{ENTRY_HEADER_LEN, Entry, EntryHeader};

use super::contents::{NameRef, NewName};
use super::linear::BlockWriter;
use super::{chains, rewrite};
use crate::directory::Directory;
use crate::directory::params::DirectoryParams;
use crate::inode::MapRun;
use crate::repair::RepairContext;

/// Puts `names`, none of which is taken, into directory `inode`; returns how many, from the first on, found room.
pub(super) fn names(context: &mut RepairContext<'_>, inode: InodeNo, names: &[NewName]) -> usize {
    let Some(directory) = Directory::open(&context.fs, inode) else { return 0 };
    let params = DirectoryParams::of(&context.fs, &directory);
    if params.encrypted {
        return 0;
    }
    if params.index_flag && !directory.inline {
        return if rewrite::rewrite(context, inode, names) { names.len() } else { 0 };
    }
    let mut done = 0;
    chains::change(context, &directory, &params, &mut |bytes, first| {
        let before = done;
        done += fill(bytes, &params, first, &names[done..]);
        done > before
    });
    let rest = &names[done..];
    if rest.is_empty() {
        done
    } else if directory.inline {
        done + if rewrite::rewrite(context, inode, rest) { rest.len() } else { 0 }
    } else {
        done + append(context, inode, &params, rest)
    }
}

/// Puts names between the records of a sound chain; returns how many found room.
fn fill(bytes: &mut [u8], params: &DirectoryParams, first: bool, names: &[NewName]) -> usize {
    let layout = params.layout;
    let (mut at, mut index, mut done) = (0, 0, 0);
    while let Ok(entry) = Entry::at(bytes, at, layout, first && index < 2) {
        let Some(new) = names.get(done) else { break };
        let header = entry.header;
        let is_dot = first && index < 2;
        let taken = if header.inode == 0 { 0 } else { layout.needed_len(entry.name.len(), is_dot) };
        (at, index) = (at + header.rec_len, index + 1);
        if is_dot && header.inode == 0 || header.rec_len < taken + layout.needed_len(new.name.len(), false) {
            continue;
        }
        let start = at - header.rec_len;
        if taken > 0 {
            EntryHeader { rec_len: taken, ..header }.store(bytes, start, layout);
        }
        let place = start + taken;
        let header = EntryHeader {
            inode: new.inode.0,
            rec_len: header.rec_len - taken,
            name_len: width::len_u8(new.name.len()),
            file_type: if params.file_types { new.file_type } else { 0 },
        };
        header.store(bytes, place, layout);
        bytes[place + ENTRY_HEADER_LEN..place + ENTRY_HEADER_LEN + new.name.len()].copy_from_slice(&new.name);
        // The next one may fit behind this one.
        (at, done) = (place, done + 1);
        index = index.max(2);
    }
    done
}

/// Puts names into new blocks; returns how many found room.
fn append(
    context: &mut RepairContext<'_>,
    inode: InodeNo,
    params: &DirectoryParams,
    names: &[NewName],
) -> usize {
    let Some(mut map) = context.open_map(inode) else { return 0 };
    let block_size = u64::from(params.layout.block_size);
    let (mut blocks, mut taken, mut done) = (Vec::new(), Vec::new(), 0);
    while done < names.len() {
        let logical = map.runs.end();
        let Some((block, is_new)) = context.place_for(&map, logical) else { break };
        map.runs.map(MapRun { logical, physical: block.0, count: 1, unwritten: false });
        taken.extend(is_new.then_some(block));
        let mut writer = BlockWriter::new(params);
        while names.get(done).is_some_and(|new| {
            let NewName { inode, file_type, name } = new;
            writer.push(NameRef { inode: inode.0, file_type: *file_type, hash: None, name }, 0)
        }) {
            done += 1;
        }
        blocks.push((block, writer.finish()));
    }
    map.set_size(map.runs.end().saturating_mul(block_size));
    if blocks.is_empty() || !context.store_map(map) {
        taken.iter().for_each(|block| context.free_blocks(*block, 1));
        return 0;
    }
    blocks.iter().for_each(|(block, bytes)| context.write_block(*block, bytes));
    done
}
