// SPDX-License-Identifier: MIT OR Apache-2.0
//! A size of descriptors that cannot be, in a primary without a backup: a file system of one group, say, has none.

use fsmend_device::Device;

use super::Settled;
use super::candidates::Candidate;
use crate::group;

/// The usual size with the `64bit` feature, in bytes.
const USUAL: u16 = 64;

/// `primary` with the usual size, if that makes sense: its first descriptor leads to a table with the root directory. A size of zero is what file
/// systems without the feature have, and a short descriptor leads there as well: then it may be the feature that is wrong, and nothing is believed.
pub(super) fn settled(device: &dyn Device, primary: &Candidate) -> Option<Candidate> {
    if primary.raw.s_desc_size.get() == 0 {
        return None;
    }
    let mut superblock = primary.raw.clone();
    superblock.s_desc_size.set(USUAL);
    let candidate = primary.set_right(superblock.clone(), device.len());
    let geometry = candidate.geometry.clone().ok().filter(|_| !candidate.is_beyond_device)?;
    let settled = Settled { superblock, geometry, block: candidate.block, is_corrected: true };
    group::has_root(device, &settled).then_some(candidate)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use fsmend_base::{BlockNo, InodeNo};
    use fsmend_ext_format::features::Incompat;

    use crate::superblock::problems;
    use crate::superblock::testing::Image;

    #[test]
    fn the_usual_size_is_taken_where_it_leads_to_the_root() {
        for wrong in [32, 63, 65, 4096] {
            let mut image = Image::new(|raw| {
                raw.s_feature_incompat += Incompat::BIT64.bits();
                raw.s_desc_size = 64.into();
            })
            .without_backups();
            let block = BlockNo(505);
            image.put_directory(InodeNo(2), block);
            image.change_superblock(|raw| raw.s_desc_size = wrong.into());
            let (settled, codes) = image.settle();
            let settled = settled.ok().unwrap();
            assert_eq!((settled.geometry.desc_size, settled.is_corrected), (64, true), "{wrong}");
            assert!(codes.contains(&problems::DESC_SIZE.code), "{wrong}: {codes:?}");
            // Without the root nothing speaks for it.
            image.block(block).fill(0);
            let (refused, codes) = image.settle();
            assert!(refused.is_err() && codes.contains(&problems::BAD_VALUE.code), "{wrong}: {codes:?}");
        }
    }

    #[test]
    fn with_a_size_of_zero_it_may_be_the_feature_that_is_wrong() {
        let mut image = Image::plain().without_backups();
        image.put_directory(InodeNo(2), BlockNo(505));
        image.change_superblock(|raw| raw.s_feature_incompat += Incompat::BIT64.bits());
        let (refused, codes) = image.settle();
        assert!(refused.is_err() && codes.contains(&problems::BAD_VALUE.code), "{codes:?}");
    }
}
