// SPDX-License-Identifier: MIT OR Apache-2.0
//! The passes of a check and of its repair, in their order: places before contents, owners before names, names before counts, allocation
//! maps and totals last.
//!
//! Opening (superblock, descriptors, journal, orphans that wait, bad blocks) comes before the table, and so does the scan, whose stages run side by
//! side: [`run`](crate::run). What inspections change is laid down before the first repair: [`repair`](crate::repair).

use fsmend_base::InodeNo;
use fsmend_engine::crosscheck::allocation::{InUse, check as compare_maps};
use fsmend_engine::passes::{Flow, Pass};
use fsmend_ext_format::inode::special;

use crate::crosscheck::CrossCheck;
use crate::repair::{RepairContext, improve};
use crate::{
    allocation, directory, extent, group, inode, journal, links, mmp, orphan, owners, quota, region,
    resize_inode, superblock, xattr,
};

/// One row.
pub(crate) type ExtPass = Pass<fn(&mut CrossCheck<'_>), fn(&mut RepairContext<'_>) -> Flow>;

/// A repair that always goes on.
macro_rules! repair {
    ($call:expr) => {
        Some(|context: &mut RepairContext<'_>| {
            $call(context);
            Flow::GoesOn
        })
    };
}

/// A check over everything that the scan has left.
macro_rules! check {
    ($call:expr) => {
        Some(|cross: &mut CrossCheck<'_>| $call(cross))
    };
}

/// All of them.
#[rustfmt::skip]
pub(crate) const PASSES: &[ExtPass] = &[
    Pass { name: "identity", needs: &[], check: None, repair: repair!(superblock::repair::identify) },
    Pass { name: "groups", needs: &["identity"], check: None, repair: repair!(group::repair::mend) },
    Pass { name: "mmp", needs: &["groups"], check: check!(check_mmp), repair: repair!(mmp::repair::mend) },
    Pass { name: "suspect directories", needs: &[], check: check!(CrossCheck::directories), repair: None },
    Pass { name: "attribute blocks", needs: &["suspect directories"], check: check!(CrossCheck::attributes), repair: None },
    Pass { name: "owners", needs: &["groups", "attribute blocks"], check: check!(CrossCheck::owners), repair: Some(repair_owners) },
    Pass { name: "maps", needs: &["owners"], check: None, repair: repair!(extent::repair::mend) },
    Pass { name: "resize inode", needs: &["owners"], check: check!(check_resize_inode), repair: repair!(resize_inode::repair::mend) },
    Pass { name: "large files", needs: &["resize inode"], check: check!(check_large_files), repair: None },
    Pass { name: "attribute values", needs: &["owners"], check: None, repair: repair!(xattr::repair::mend) },
    Pass { name: "improvements", needs: &["maps"], check: None, repair: repair!(improve::improve) },
    Pass { name: "directories", needs: &["maps", "suspect directories"], check: None, repair: repair!(directory::repair::mend) },
    Pass { name: "links", needs: &["directories"], check: check!(CrossCheck::tree_and_links), repair: repair!(links::repair::mend) },
    Pass { name: "journal", needs: &["owners"], check: None, repair: repair!(journal::repair::mend) },
    Pass { name: "orphans", needs: &["links"], check: check!(check_refugees), repair: repair!(orphan::repair::mend) },
    Pass { name: "quota", needs: &["links"], check: check!(check_quota), repair: repair!(quota::repair::mend) },
    Pass { name: "region directories", needs: &["directories"], check: None, repair: repair!(region::repair::seal_directories) },
    Pass { name: "bitmaps", needs: &["owners", "links", "quota"], check: check!(check_bitmaps), repair: repair!(repair_bitmaps) },
    Pass { name: "counts of backups", needs: &["bitmaps"], check: check!(name_counts_of_backups), repair: None },
    Pass { name: "overhead", needs: &["bitmaps"], check: check!(check_overhead), repair: repair!(superblock::overhead::mend) },
    Pass { name: "superblock", needs: &["overhead"], check: check!(check_totals), repair: repair!(superblock::repair::mend) },
];

fn check_mmp(cross: &mut CrossCheck<'_>) {
    mmp::check(cross.fs, &mut cross.outcome.findings);
}

fn check_resize_inode(cross: &mut CrossCheck<'_>) {
    cross.resize = resize_inode::check(cross.fs, &mut cross.outcome.findings);
    cross.repair_input.resize_is_wrong = cross.resize.is_wrong;
}

fn check_large_files(cross: &mut CrossCheck<'_>) {
    let resize = cross.resize.is_large.then_some(InodeNo(special::RESIZE));
    let large = resize.or(cross.outcome.first_large_file);
    superblock::check_large_files(cross.fs, large, &mut cross.outcome.findings);
}

fn check_refugees(cross: &mut CrossCheck<'_>) {
    let counts = cross.outcome.findings.counts();
    let refugees = counts.get(inode::problems::ORPHAN_REMAINS.code).copied().unwrap_or(0);
    orphan::refugees(refugees, &mut cross.outcome.findings);
}

fn check_quota(cross: &mut CrossCheck<'_>) {
    cross.repair_input.quota.merge(std::mem::take(&mut cross.outcome.quota));
    quota::check(cross.fs, &cross.repair_input.quota, &mut cross.outcome.findings);
}

fn check_bitmaps(cross: &mut CrossCheck<'_>) {
    let pool = cross.run_context.pool();
    let findings = &mut cross.outcome.findings;
    let in_use = InUse { inodes: &cross.inodes, claims: &cross.claims };
    cross.totals = compare_maps(cross.fs, in_use, (pool, cross.cancel), findings).into();
}

fn name_counts_of_backups(cross: &mut CrossCheck<'_>) {
    let in_use = InUse { inodes: &cross.inodes, claims: &cross.claims };
    allocation::old_counts::name(cross.fs, in_use, &cross.totals, &mut cross.outcome.findings);
}

fn check_totals(cross: &mut CrossCheck<'_>) {
    allocation::check_totals(cross.fs, &cross.totals, cross.on_disk, &mut cross.outcome.findings);
}

fn check_overhead(cross: &mut CrossCheck<'_>) {
    superblock::overhead::check(cross.fs, &cross.totals, &mut cross.outcome.findings);
}

fn repair_owners(context: &mut RepairContext<'_>) -> Flow {
    if owners::repair::mend(context) { Flow::GoesOn } else { Flow::Stops }
}

fn repair_bitmaps(context: &mut RepairContext<'_>) {
    context.totals = allocation::repair::mend(context);
}

#[cfg(test)]
mod tests {
    use fsmend_engine::passes::disorder;

    use super::PASSES;

    #[test]
    fn what_a_pass_needs_comes_before_it() {
        assert_eq!(disorder(PASSES), None);
    }
}
