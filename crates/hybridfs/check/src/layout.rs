// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies where in a hybridfs: for maps of it, and to say which structures a repair writes.

use fsmend_device::Device;
use fsmend_engine::Findings;
use fsmend_engine::layout::{Class, Layout};
use fsmend_engine::options::SuperblockOptions;
use fsmend_hybridfs_format::{STATIC_LEN, Superblock, anchor_offset};

use crate::allocation::{Area, stored_words};
use crate::log::Log;
use crate::opening::{self, Trust};

/// Anchors that there are.
const ANCHORS: u64 = 4;

/// The layout of the file system on `device`; `None` where no state of it can be found. Its parts are allocation groups of data, with the log between them.
pub fn layout(device: &dyn Device, with_free: bool) -> Option<Layout> {
    let state =
        opening::open(device, (SuperblockOptions::default(), false), Trust::None, &mut Findings::new())
            .ok()?;
    let sb = &*state.sb;
    let fragment = u64::from(sb.fragment_size);
    let block_fragments = sb.per_block();
    let group = u64::from(sb.ag_blocks).saturating_mul(block_fragments).saturating_mul(fragment);
    let mut layout = Layout::new("stretch", fragment, (0, group, sb.fragments.saturating_mul(fragment)));
    for offset in sb.copies() {
        layout.add(offset, STATIC_LEN, Class::Metadata, "superblock and its copies");
    }
    for slot in 0..ANCHORS {
        layout.add(anchor_offset(sb, slot), STATIC_LEN, Class::Metadata, "anchors");
    }
    let log = sb.log();
    let place = |address: u64| address.saturating_mul(fragment);
    layout.add(place(log.start), place(log.end - log.start), Class::Journal, "log");
    if with_free {
        let reader = Log { device, sb };
        let mut free = Vec::new();
        // What the log has free shows as log.
        for group in 0..sb.ags() {
            let area = Area::Data(group);
            if let Ok(words) = stored_words(&state, &reader, area) {
                add_free(sb, &words, area.units(sb), &mut free);
            }
        }
        free.sort_unstable();
        free.into_iter().for_each(|(address, len)| layout.add_free(place(address), place(len)));
    }
    Some(layout.finish())
}

/// The runs of free blocks of an allocation group, in fragments.
fn add_free(sb: &Superblock, words: &[u64], (start, count): (u64, u64), free: &mut Vec<(u64, u64)>) {
    let is_free = |at: u64| words.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 0);
    for at in (0..count).filter(|at| is_free(*at)) {
        let address = sb.data_address(start + at);
        match free.last_mut() {
            Some((from, len)) if *from + *len == address => *len += sb.per_block(),
            _ => free.push((address, sb.per_block())),
        }
    }
}
