// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS1 and UFS2.

mod driving;

use fsmend_base::width;
use fsmend_device::{Device, Trace};
use fsmend_engine::checker::Checker;
use fsmend_engine::detail::Detail;
use fsmend_engine::layout::Layout;
use fsmend_engine::options::CheckOptions;
use fsmend_engine::{Refusal, Row};
use fsmend_session::{Change, Driver, Plain};
use fsmend_ufs_check::{opening, rows};
use fsmend_ufs_format::superblock::{SUPERBLOCK_MAX, Superblock};

/// The family.
pub struct Ufs;

impl Plain for Ufs {
    type Format = fsmend_ufs_check::Ufs;

    const CHECKER: Checker<Self::Format> = Checker(fsmend_ufs_check::Ufs);
    const NAME: &'static str = "ufs";
    const TITLE: &'static str = "a UFS file system";
    const KERNEL_TYPES: &'static [&'static str] = &["ufs"];
    const RECOVERING: &'static [&'static Row] =
        &[&rows::UNATTACHED, &rows::UNATTACHED_LEFT, &rows::UNCONNECTED, &rows::UNCONNECTED_LEFT];

    const DRIVER: Option<&'static dyn Driver> = Some(&driving::UfsDriver);

    fn trace(device: &dyn Device) -> Option<Trace> {
        match primary(device) {
            Some((_, superblock)) if is_plausible(&superblock) => Some(Trace::Superblock),
            Some(_) => Some(Trace::Magic),
            None => opening::recognises(device).then_some(Trace::Copy),
        }
    }

    fn is_hidden_on(device: &dyn Device) -> bool {
        opening::is_hidden_on(device)
    }

    fn rows() -> Vec<&'static Row> {
        rows::all()
    }

    fn describe(device: &dyn Device) -> Option<Result<Vec<(&'static str, Detail)>, Refusal>> {
        let described = fsmend_ufs_check::describe::describe(device);
        Some(described.map(|told| told.into_iter().map(|(name, value)| (name, value.into())).collect()))
    }

    fn layout(device: &dyn Device, check: &CheckOptions, with_free: bool) -> Option<Layout> {
        fsmend_ufs_check::layout::layout(device, check, with_free)
    }

    fn marker(device: &dyn Device, changes: &[Change]) -> Vec<Change> {
        // While a repair is written the superblock says that the file system is not clean.
        let Some((place, mut superblock)) = primary(device) else { return Vec::new() };
        let is_rewritten = changes.iter().any(|(at, bytes)| (*at..*at + bytes.len() as u64).contains(&place));
        superblock.set_clean(0);
        superblock.seal();
        if is_rewritten { vec![(place, superblock.covered().to_vec())] } else { Vec::new() }
    }

    fn last(changes: &[Change]) -> Vec<(u64, u64)> {
        let superblock = |(at, bytes): &Change| {
            let mut placed = Superblock::parse(bytes)?;
            placed.modernise();
            (placed.sblockactualloc() == width::signed(*at) || opening::is_primary_place(*at))
                .then_some((*at, bytes.len() as u64))
        };
        changes.iter().filter_map(superblock).collect()
    }
}

/// Whether the sizes in `superblock` can be ones, so that the magic is hardly chance.
fn is_plausible(superblock: &Superblock) -> bool {
    superblock.bsize() >= 4096 && superblock.fsize() >= 512 && superblock.fsize() <= superblock.bsize()
}

/// The primary superblock and where it is, if it bears the magic.
fn primary(device: &dyn Device) -> Option<(u64, Superblock)> {
    fsmend_ufs_format::superblock::SEARCH.into_iter().find_map(|place| {
        let mut bytes = vec![0; SUPERBLOCK_MAX];
        device.read_at(place, &mut bytes).ok()?;
        Some((place, Superblock::parse(&bytes)?))
    })
}
