// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making and mounting ext2, ext3, ext4 and rext3.

use std::sync::Arc;

use fsmend_device::{Device, WritableDevice};
use fsmend_ext_driver::mkfs::{Kind as Made, Options, mkfs};
use fsmend_ext_driver::policy::MetaclusterPolicy;
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_ext_format::features::Compat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::superblock::written_uuid;
use fsmend_session::driver::{Driven, Driver, Kind, Maker, Mounting, NewFileSystem, Placement, uuid};
use fsmend_session::numbers;

/// The types, and what the driver makes.
const KINDS: [Kind; 4] = [
    Kind { name: "ext2", help: "Without a journal" },
    Kind { name: "ext3", help: "With a journal" },
    Kind {
        name: "rext3",
        help: "Ext3 with a layout for fast checks. Only fsmend can mount it, no kernel can",
    },
    Kind { name: "ext4", help: "With a journal, extents and checksums" },
];

/// What makes and mounts them.
pub struct ExtDriver;

impl Driver for ExtDriver {
    fn title(&self) -> &'static str {
        "ext"
    }

    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn extended(&self) -> &'static str {
        "block-size=4096, inode-size=256, inodes=N, inode-ratio=BYTES, blocks-per-group=N, journal-blocks=N, reserved-percent=5, resize-inode=1, \
         orphan-file=1, checksum-seed=1 (or 0), and for rext3 indirect-region=BLOCKS"
    }

    fn label_max(&self) -> usize {
        16
    }

    fn maker(&self, wanted: NewFileSystem) -> Result<Box<Maker>, String> {
        if wanted.metadata_area.is_some() {
            return Err("-k is for UFS; a rext3 takes -E indirect-region=BLOCKS".into());
        }
        let random = &wanted.random;
        let mut options = Options::new(made(wanted.kind)?, uuid(random), wanted.now);
        options.hash_seed =
            [16, 20, 24, 28].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|byte| random[at + byte])));
        options.label = wanted.label;
        wanted.extended.iter().try_for_each(|word| take(&mut options, word))?;
        Ok(Box::new(move |device: Arc<dyn WritableDevice>, blank| {
            let options = Options { blank, ..options.clone() };
            mkfs(Arc::clone(&device), &options).map_err(|error| error.to_string())?;
            summary(wanted.kind, &*device)
        }))
    }

    fn mount(&self, device: Arc<dyn WritableDevice>, how: &Mounting) -> Result<Driven, String> {
        let options =
            if how.read_only { MountOptions::read_only(how.now) } else { MountOptions::new(how.now) };
        let options = MountOptions { bulk: how.bulk, ..options };
        let options = match how.placement {
            Placement::Format => options,
            Placement::Metacluster => options.with_policy(MetaclusterPolicy::default()),
            Placement::MetaclusterAll => options
                .with_policy(MetaclusterPolicy { first_map_in_line: false, ..MetaclusterPolicy::default() }),
        };
        let fs = Ext::mount(device, options).map_err(|error| error.to_string())?;
        Ok(Driven { fs: Box::new(fs), notes: Vec::new() })
    }
}

/// What the driver calls the type `name`.
fn made(name: &str) -> Result<Made, String> {
    match name {
        "ext2" => Ok(Made::Ext2),
        "ext3" => Ok(Made::Ext3),
        "rext3" => Ok(Made::Rext3),
        "ext4" => Ok(Made::Ext4),
        other => Err(format!("there is no type \"{other}\"")),
    }
}

/// What was made.
fn summary(kind: &str, device: &dyn Device) -> Result<String, String> {
    let raw = super::superblock(device).ok_or("it cannot be read again")?;
    let geometry = Geometry::from_superblock(&raw, device.len()).map_err(|error| error.to_string())?;
    let journal =
        if raw.features().has_compat(Compat::HAS_JOURNAL) { "with a journal" } else { "without a journal" };
    let size = u64::from(geometry.block_size);
    let regions = match geometry.region_blocks {
        0 => String::new(),
        count => format!(
            " with an indirect region of {} each",
            numbers::counted(u64::from(count), "block", "blocks")
        ),
    };
    Ok(format!(
        "{kind}, {journal}.\n{} blocks of {} ({}), {} inodes of {} bytes, {} groups{regions}.\nUUID {}{}",
        numbers::thousands(geometry.blocks_count),
        numbers::bytes(size),
        numbers::bytes(geometry.blocks_count.saturating_mul(size)),
        numbers::thousands(u64::from(geometry.inodes_count)),
        geometry.inode_size,
        numbers::thousands(u64::from(geometry.group_count)),
        written_uuid(&raw.s_uuid),
        super::label(&raw).map(|label| format!(", label \"{label}\"")).unwrap_or_default(),
    ))
}

/// Takes in an extended option.
fn take(options: &mut Options, word: &str) -> Result<(), String> {
    take_word(options, word).ok_or_else(|| {
        format!(
            "ext has no option \"{word}\"; -E takes block-size, inode-size, inodes, inode-ratio, blocks-per-group, journal-blocks, \
             reserved-percent, resize-inode, orphan-file, checksum-seed and indirect-region, each with = and a number"
        )
    })
}

fn take_word(options: &mut Options, word: &str) -> Option<()> {
    let (name, value) = word.split_once('=')?;
    let number = numbers::parse_size(value).ok()?;
    let small = u32::try_from(number).ok();
    match name {
        "block-size" => options.block_size = Some(small?),
        "inode-size" => options.inode_size = small?,
        "inodes" => options.inodes = Some(small?),
        "inode-ratio" => options.inode_ratio = Some(number),
        "blocks-per-group" => options.blocks_per_group = Some(small?),
        "journal-blocks" => options.journal_blocks = Some(small?),
        "indirect-region" => options.indirect_region = Some(small?),
        "resize-inode" => options.resize_inode = is_on(number)?,
        "orphan-file" => options.orphan_file = is_on(number)?,
        "checksum-seed" => options.checksum_seed = is_on(number)?,
        "reserved-percent" => options.reserved_percent = small.filter(|percent| *percent <= 50)?,
        _ => return None,
    }
    Some(())
}

/// A switch: 0 or 1.
pub(crate) fn is_on(number: u64) -> Option<bool> {
    (number <= 1).then_some(number == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_vfs::Time;

    #[test]
    fn every_type_can_be_made() {
        assert!(KINDS.iter().all(|kind| made(kind.name).is_ok()));
    }

    #[test]
    fn extended_options_are_understood() {
        let mut options = Options::new(Made::Ext3, [0; 16], Time::at(0));
        let mut known =
            |list: &str| list.split(',').for_each(|word| take(&mut options, word).expect("it is known"));
        known("block-size=4K,inodes=5000,journal-blocks=1024");
        known("reserved-percent=0,inode-size=128,indirect-region=300");
        assert_eq!((options.block_size, options.inodes), (Some(4096), Some(5000)));
        assert_eq!((options.journal_blocks, options.reserved_percent), (Some(1024), 0));
        assert_eq!((options.inode_size, options.indirect_region), (128, Some(300)));
        let mut known =
            |list: &str| list.split(',').for_each(|word| take(&mut options, word).expect("it is known"));
        known("resize-inode=1,orphan-file=0");
        assert_eq!((options.resize_inode, options.orphan_file, options.checksum_seed), (true, false, false));
        for wrong in [
            "stride=4",
            "orphan-file=2",
            "inodes",
            "inodes=many",
            "reserved-percent=51",
            "inodes=99999999999",
        ] {
            let error = take(&mut options, wrong).expect_err("it is not known");
            assert!(error.contains(&format!("\"{wrong}\"")), "{error}");
        }
    }
}
