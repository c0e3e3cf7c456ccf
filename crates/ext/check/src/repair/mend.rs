// SPDX-License-Identifier: MIT OR Apache-2.0
//! One round of repair: what inspections changed is laid down, then each pass repairs, in the order of the table.

use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::options::RepairPolicy;
use fsmend_engine::passes::Flow;
use fsmend_engine::pool::PoolConfig;
use fsmend_engine::repair::{Mended, RepairOverlay, WritableOverlay};
use fsmend_engine::{Edit, Layer};

use super::input::{RepairContext, RepairInput};
use crate::Fs;
use crate::allocation::Totals;
use crate::passes::PASSES;

/// Mends what `fs` has wrong, and returns what has to be written over its device, what for, and what is lost by that. Nothing is to be written
/// where something could not be done that had to be done in full. `None` when the memory does not suffice.
pub fn mend(
    fs: Fs<'_>,
    (inodes, claims): (InodeTable, Claims),
    mut repair_input: RepairInput,
    policy: RepairPolicy,
    pool: PoolConfig<'_>,
) -> Option<Mended> {
    let overlay = RepairOverlay::new(fs.device);
    leave_contested(&fs, &claims, &mut repair_input);
    overlay.lay(std::mem::take(&mut repair_input.edits));
    let fs = fs.over(&overlay);
    let mut context = RepairContext {
        fs,
        overlay: &overlay,
        inodes,
        claims,
        repair_input,
        policy,
        pool,
        backups_lag: false,
        totals: Totals::default(),
    };
    let is_done = PASSES.iter().filter_map(|pass| pass.repair).all(|repair| {
        overlay.mending(None);
        repair(&mut context) == Flow::GoesOn
    });
    let lost = std::mem::take(&mut context.repair_input.lost);
    let is_full = context.is_full();
    drop(context);
    let mends = overlay.take_mends();
    (!is_full).then(|| {
        let (changes, copies) = if is_done { overlay.into_changes(pool) } else { Default::default() };
        Mended { changes, copies, mends, lost }
    })
}

/// A block that belongs to several owners, or to the file system itself, is not mended for one of them: what is wrong for one may be
/// right for another. When each has its own, the next round mends it. A directory is mended where it is the only one, but not where what is there
/// turns out to hold attributes of another inode: they would be gone.
fn leave_contested(fs: &Fs<'_>, claims: &Claims, repair_input: &mut RepairInput) {
    let RepairInput { edits, attribute_units, .. } = repair_input;
    let is_left = |edit: &Edit| {
        let block = edit.offset / u64::from(fs.geometry.block_size);
        let unit = fs.geometry.cluster_of(block);
        match edit.layer {
            Layer::Block => fs.metadata.get(block) || claims.contested().get(unit),
            Layer::Contents => attribute_units.contains(&unit),
            Layer::Record | Layer::Amendment => false,
        }
    };
    edits.retain(|edit| !is_left(edit));
}
