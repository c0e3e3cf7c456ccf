// SPDX-License-Identifier: MIT OR Apache-2.0
//! Primaries that have lost the UUID, or the seed, on which all checksums hang. Believed as they are, nothing has a right checksum, and
//! what the checksums would tell right from wrong by is gone. Where the superblock itself has none (`uninit_bg`), nothing else tells.
//!
//! Without a backup that knows them, the checksums of inodes tell the seed: a checksum of 32 bits has one seed only that it is right with.

use std::ops::RangeInclusive;

use fsmend_base::InodeNo;
use fsmend_device::Device;
use fsmend_ext_format::checksum::{self, Checked};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::geometry::Geometry;

use super::Settled;
use super::candidates::Candidate;
use crate::group::{self, right_checksums};

/// The copies of the first block of descriptors that are asked: the primary one, and the first backup.
const COPIES: [usize; 2] = [0, 1];

/// The inodes that are asked for the seed, and how many have to agree.
const FIRST_INODES: RangeInclusive<u32> = 1..=16;
const WITNESSES: usize = 2;
/// The inodes of which none may have a right checksum with the seed that is stored.
const ASKED_OF_STORED: RangeInclusive<u32> = 1..=1024;

/// The primary with the identity of `backup`, if no descriptor of its own has a right checksum without, and some have with it. (Tools that
/// change the UUID write new checksums, and a backup that lags behind is no better witness than these.)
pub(super) fn taken_back(device: &dyn Device, primary: &Candidate, backup: &Candidate) -> Option<Candidate> {
    let (Ok(own), Ok(other)) = (&primary.geometry, &backup.geometry) else { return None };
    let is_same = identity(primary) == identity(backup);
    if is_same || !own.features.group_csum() || right_checksums(device, own, COPIES[0]) > 0 {
        return None;
    }
    let with_other = Geometry { uuid: other.uuid, checksum_seed: other.checksum_seed, ..own.clone() };
    if COPIES.iter().all(|copy| right_checksums(device, &with_other, *copy) == 0) {
        return None;
    }
    let mut raw = primary.raw.clone();
    let stored_seed = backup.raw.s_feature_incompat.get() & Incompat::CSUM_SEED.bits();
    raw.s_feature_incompat.set(raw.s_feature_incompat.get() & !Incompat::CSUM_SEED.bits() | stored_seed);
    (raw.s_uuid, raw.s_checksum_seed) = (backup.raw.s_uuid, backup.raw.s_checksum_seed);
    Some(primary.set_right(raw, device.len()))
}

/// The primary with the seed that its own inodes were checksummed with, if no descriptor and no inode has a right checksum without. (With it, the only descriptor of a
/// small file system may be damaged as well: that several inodes agree is enough.) The UUID stays as it is: the seed is stored beside it, as after a change
/// of the UUID.
pub(super) fn with_seed_of_inodes(device: &dyn Device, primary: &Candidate) -> Option<Candidate> {
    let geometry = primary.geometry.as_ref().ok()?;
    if !geometry.features.metadata_csum() || right_checksums(device, geometry, COPIES[0]) > 0 {
        return None;
    }
    let asked = group::first_inodes(device, geometry, ASKED_OF_STORED);
    let right_with = |seed: u32, records: &[(InodeNo, Vec<u8>)]| {
        let is_right = |(inode, record): &&(InodeNo, Vec<u8>)| {
            checksum::inode(seed, *inode, record).is_some_and(Checked::is_right)
        };
        records.iter().filter(is_right).count()
    };
    // Damaged records may agree on a wrong seed; no record is right with a wrong one by chance.
    if right_with(geometry.checksum_seed, &asked) > 0 {
        return None;
    }
    let first = &asked[..asked.partition_point(|(inode, _)| FIRST_INODES.contains(&inode.0))];
    let mut seeds = first.iter().filter_map(|(inode, record)| checksum::seed_of_inode(*inode, record));
    let seed = seeds.find(|seed| right_with(*seed, first) >= WITNESSES)?;
    let mut raw = primary.raw.clone();
    raw.s_feature_incompat |= Incompat::CSUM_SEED.bits();
    raw.s_checksum_seed = seed.into();
    let candidate = primary.set_right(raw.clone(), device.len());
    let geometry = candidate.geometry.clone().ok()?;
    let settled = Settled { superblock: raw, geometry, block: candidate.block, is_corrected: true };
    // Records that stand some places away from their own agree as well, on another seed: where their numbers differ in the same bits, so do their seeds.
    group::leads_to_root(device, &settled).then_some(candidate)
}

/// UUID and seed.
fn identity(candidate: &Candidate) -> Option<([u8; 16], u32)> {
    let geometry = candidate.geometry.as_ref().ok()?;
    Some((geometry.uuid, geometry.checksum_seed))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use fsmend_ext_format::features::{Incompat, RoCompat};
    use fsmend_ext_format::superblock::RawSuperblock;
    use zerocopy::{FromBytes, IntoBytes};

    use crate::superblock::problems;
    use crate::superblock::testing::Image;

    /// Images with each kind of checksum.
    fn images() -> [Image; 2] {
        [Image::with_checksums(), Image::new(|raw| raw.s_feature_ro_compat += RoCompat::GDT_CSUM.bits())]
    }

    /// Damages the primary; its checksum stays as it was.
    fn damage(image: &mut Image, change: impl Fn(&mut RawSuperblock)) {
        let mut raw = RawSuperblock::read_from_bytes(&image.bytes[1024..2048]).unwrap();
        change(&mut raw);
        image.bytes[1024..2048].copy_from_slice(raw.as_bytes());
    }

    #[test]
    fn an_identity_that_no_checksum_knows_is_taken_from_the_backup() {
        for mut image in images() {
            let right = image.bytes[1024..2048].to_vec();
            damage(&mut image, |raw| raw.s_uuid[3] ^= 0x40);
            let (settled, codes) = image.settle();
            let settled = settled.ok().unwrap();
            assert_eq!(codes, [problems::IDENTITY_LOST.code], "nothing else is wrong then");
            assert_eq!(settled.superblock.as_bytes(), right);
            assert_eq!(settled.geometry, image.geometry);
            assert!(settled.is_corrected, "what comes next works on the corrected one");
        }
    }

    #[test]
    fn a_seed_that_was_switched_on_by_accident_goes_again() {
        let mut image = Image::with_checksums();
        damage(&mut image, |raw| raw.s_feature_incompat += Incompat::CSUM_SEED.bits());
        damage(&mut image, |raw| raw.s_uuid[3] ^= 0x40);
        let (settled, codes) = image.settle();
        assert_eq!(settled.ok().unwrap().geometry, image.geometry);
        assert_eq!(codes, [problems::IDENTITY_LOST.code]);
    }

    #[test]
    fn an_identity_that_a_checksum_knows_stays() {
        for mut image in images() {
            // A tool has changed it, and did not come to the backups.
            let with_new = Image::new(|raw| {
                *raw = RawSuperblock::read_from_bytes(&image.bytes[1024..2048]).unwrap();
                raw.s_uuid[3] ^= 0x40;
            });
            image.bytes[1024..3072].copy_from_slice(&with_new.bytes[1024..3072]);
            let (settled, codes) = image.settle();
            assert_eq!(settled.ok().unwrap().superblock.s_uuid[3], b'3' ^ 0x40);
            assert_eq!(codes, [""; 0]);
        }
    }

    #[test]
    fn without_a_witness_an_identity_stays() {
        for image in images() {
            let mut image = image.without_backups();
            damage(&mut image, |raw| raw.s_uuid[3] ^= 0x40);
            let (settled, codes) = image.settle();
            assert_eq!(settled.ok().unwrap().superblock.s_uuid[3], b'3' ^ 0x40);
            assert!(!codes.contains(&problems::IDENTITY_LOST.code), "{codes:?}");
        }
        // And where no checksum hangs on it, nothing speaks against it.
        let mut image = Image::plain();
        damage(&mut image, |raw| raw.s_uuid[3] ^= 0x40);
        assert_eq!(image.settle().1, [""; 0]);
    }
}
