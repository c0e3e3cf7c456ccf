// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making and mounting UFS1 and UFS2.

use std::sync::Arc;

use fsmend_base::width;
use fsmend_blockcache::Unwritable;
use fsmend_device::{Device, WritableDevice};
use fsmend_session::driver::{Driven, Driver, Kind, Maker, Mounting, NewFileSystem, Placement};
use fsmend_session::numbers;
use fsmend_ufs_driver::mkfs::{Options, mkfs};
use fsmend_ufs_driver::{MountOptions, Ufs};
use fsmend_ufs_format::{ByteOrder, Version};
use fsmend_vfs::FileSystem;

use crate::ext::driving::is_on;

const KINDS: [Kind; 2] = [
    Kind { name: "ufs1", help: "FreeBSD's older format, with 32-bit addresses" },
    Kind { name: "ufs2", help: "FreeBSD's format, with check hashes" },
];

/// What makes and mounts them.
pub struct UfsDriver;

impl Driver for UfsDriver {
    fn title(&self) -> &'static str {
        "UFS"
    }

    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn extended(&self) -> &'static str {
        "block-size=32768, fragment-size=4096, inode-ratio=BYTES, byte-order=little (or big), check-hashes=1 (or 0), access-lists=1 (or 0)"
    }

    fn label_max(&self) -> usize {
        31
    }

    fn maker(&self, wanted: NewFileSystem) -> Result<Box<Maker>, String> {
        let version = if wanted.kind == KINDS[0].name { Version::Ufs1 } else { Version::Ufs2 };
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| wanted.random[at + byte]));
        let mut options = Options::new(
            version,
            [width::low_u32(wanted.now.seconds.cast_unsigned()), number(0)],
            wanted.now,
        );
        options.label = wanted.label;
        options.metadata_area = wanted.metadata_area;
        for word in &wanted.extended {
            take_word(&mut options, word).ok_or_else(|| {
                format!(
                    "UFS has no option \"{word}\"; -E takes block-size, fragment-size, inode-ratio, check-hashes and access-lists, each with = and a number, and byte-order=little or big"
                )
            })?;
        }
        Ok(Box::new(move |device: Arc<dyn WritableDevice>, _| {
            mkfs(Arc::clone(&device), &options).map_err(|error| error.to_string())?;
            summary(wanted.kind, &options, device)
        }))
    }

    fn mount(&self, device: Arc<dyn WritableDevice>, how: &Mounting) -> Result<Driven, String> {
        if how.placement != Placement::Format {
            return Err("UFS has only its own allocation policy, set with -k of lab make".to_owned());
        }
        let options =
            if how.read_only { MountOptions::read_only(how.now) } else { MountOptions::new(how.now) };
        let mut fs = Ufs::mount(device, options).map_err(|error| error.to_string())?;
        let notes = fs.notes();
        Ok(Driven { fs: Box::new(fs), notes })
    }
}

fn take_word(options: &mut Options, word: &str) -> Option<()> {
    let (name, value) = word.split_once('=')?;
    match (name, value) {
        ("byte-order", "little") => options.order = ByteOrder::Little,
        ("byte-order", "big") => options.order = ByteOrder::Big,
        _ => {
            let number = numbers::parse_size(value).ok()?;
            match name {
                "block-size" => options.block_size = number,
                "fragment-size" => options.fragment_size = Some(number),
                "inode-ratio" => options.inode_ratio = Some(number),
                "check-hashes" => options.hashes = is_on(number)?,
                "access-lists" => options.access_lists = is_on(number)?,
                _ => return None,
            }
        }
    }
    Some(())
}

/// What was made, as the driver sees it.
fn summary(kind: &str, options: &Options, device: Arc<dyn WritableDevice>) -> Result<String, String> {
    let len = device.len();
    let mut ufs = Ufs::mount(Arc::new(Unwritable(device)), MountOptions::read_only(options.now))
        .map_err(|error| format!("it cannot be read again: {error}"))?;
    let space = ufs.statfs().map_err(|error| error.to_string())?;
    let order = if options.order == ByteOrder::Little { "little-endian" } else { "big-endian" };
    Ok(format!(
        "{kind}, {order}, {}.\nBlocks of {} in fragments of {}, {} for files, {} inodes.",
        numbers::bytes(len),
        numbers::bytes(options.block_size),
        numbers::bytes(space.block_size.into()),
        numbers::bytes(space.blocks.saturating_mul(space.block_size.into())),
        numbers::thousands(space.inodes),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_options_of_ufs_are_understood() {
        let mut options = Options::new(Version::Ufs2, [1, 2], fsmend_vfs::Time::at(0));
        for word in
            ["block-size=8K", "fragment-size=1K", "byte-order=big", "check-hashes=0", "access-lists=1"]
        {
            take_word(&mut options, word).expect("it is known");
        }
        assert_eq!((options.block_size, options.fragment_size), (8192, Some(1024)));
        assert_eq!((options.order, options.hashes), (ByteOrder::Big, false));
        for wrong in ["inode-size=256", "byte-order=middle", "check-hashes=2", "block-size"] {
            assert_eq!(take_word(&mut options, wrong), None, "{wrong}");
        }
    }
}
