// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making and mounting hybridfs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsmend_blockcache::Unwritable;
use fsmend_device::{Device, Joined, WritableDevice, WritableFile};
use fsmend_hybridfs_check::superblock;
use fsmend_hybridfs_driver::mkfs::{Options, log_place, mkfs};
use fsmend_hybridfs_driver::{Hybrid, MountOptions};
use fsmend_session::driver::{
    Driven, Driver, Kind, Maker, Mounting, NewFileSystem, Obstacle, Placement, uuid,
};
use fsmend_session::numbers;
use fsmend_vfs::FileSystem;

const KINDS: [Kind; 1] = [Kind {
    name: "hybridfs",
    help: "Small files and metadata in a log, larger files in place. Only fsmend can mount it, no kernel can",
}];

/// The longest label.
const LABEL_MAX: usize = 32;

/// What makes and mounts them.
pub struct HybridDriver;

impl Driver for HybridDriver {
    fn title(&self) -> &'static str {
        "hybridfs"
    }

    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn extended(&self) -> &'static str {
        "block-size=16384, fragment-size=4096, log-size=BYTES, log-device=PATH, segment-size=BYTES, group-size=BYTES, inodes=N, preset=paper"
    }

    fn label_max(&self) -> usize {
        LABEL_MAX
    }

    fn maker(&self, wanted: NewFileSystem) -> Result<Box<Maker>, String> {
        if wanted.metadata_area.is_some() {
            return Err("-k is for UFS; a hybridfs takes -E log-size=BYTES".into());
        }
        let mut options = Options::new(uuid(&wanted.random), wanted.now);
        options.label = wanted.label;
        if options.label.len() > LABEL_MAX {
            return Err(format!("the label is longer than {LABEL_MAX} bytes"));
        }
        let mut log = None;
        for word in &wanted.extended {
            if let Some(path) = word.strip_prefix("log-device=") {
                options.log_device = Some(uuid(&rotated(&wanted.random)));
                log = Some(PathBuf::from(path));
                continue;
            }
            take_word(&mut options, word).ok_or_else(|| {
                format!(
                    "hybridfs has no option \"{word}\"; -E takes block-size, fragment-size, log-size, segment-size, group-size and inodes, each with = and a number, log-device=PATH and \
                     preset=paper"
                )
            })?;
        }
        let obstacle = wanted.obstacle;
        Ok(Box::new(move |device: Arc<dyn WritableDevice>, _| {
            let mut options = options.clone();
            let device = match &log {
                Some(path) => with_new_log(device, (path, obstacle), &mut options)?,
                None => device,
            };
            mkfs(Arc::clone(&device), &options).map_err(|error| error.to_string())?;
            summary(&options, device)
        }))
    }

    fn mount(&self, device: Arc<dyn WritableDevice>, how: &Mounting) -> Result<Driven, String> {
        if how.placement != Placement::Format {
            return Err("hybridfs has only its own allocation policy".to_owned());
        }
        if let (Err(_), Some(sb)) = (superblock::find(&*device), superblock::of_log(&*device)) {
            let name = superblock::name(&sb);
            return Err(format!("it is only the log of a hybridfs ({name}); mount the device with its data"));
        }
        let options =
            if how.read_only { MountOptions::read_only(how.now) } else { MountOptions::new(how.now) };
        let fs = Hybrid::mount(device, options).map_err(|error| error.to_string())?;
        Ok(Driven { fs: Box::new(fs), notes: Vec::new() })
    }

    fn with_log(
        &self,
        device: Arc<dyn WritableDevice>,
        path: &Path,
        read_only: bool,
    ) -> Result<Arc<dyn WritableDevice>, String> {
        let at = |why: String| format!("the log on {}: {why}", path.display());
        let log: Arc<dyn WritableDevice> = match read_only {
            true => {
                let log = fsmend_session::open::plain(path).map_err(|refusal| at(refusal.to_string()))?;
                Arc::new(Unwritable(log))
            }
            false => Arc::new(WritableFile::open(path, false).map_err(|error| at(error.to_string()))?),
        };
        let place = super::place_of_log(&*device, &*log).map_err(at)?;
        let joined = Joined::new(device, log, place);
        Ok(Arc::new(joined.ok_or_else(|| at("it is too short".to_owned()))?))
    }

    fn claims_unwritten(&self) -> bool {
        false
    }
}

/// Other bytes of the same luck, for a second identity.
fn rotated(random: &[u8; 32]) -> [u8; 32] {
    let mut other = *random;
    other.rotate_left(16);
    other
}

/// The device with all of another one as its log.
fn with_new_log(
    device: Arc<dyn WritableDevice>,
    (path, obstacle): (&Path, Obstacle),
    options: &mut Options,
) -> Result<Arc<dyn WritableDevice>, String> {
    let at = |why: String| format!("the log on {}: {why}", path.display());
    let log = WritableFile::open(path, false).map_err(|error| at(error.to_string()))?;
    let log: Arc<dyn WritableDevice> = Arc::new(log);
    if let Some(what) = obstacle(&log) {
        return Err(at(format!("it holds {what}, which would be lost; --force overwrites it")));
    }
    let whole = log.len() / u64::from(options.block_size) * u64::from(options.block_size);
    options.log_bytes = Some(whole);
    let len = device.len().checked_add(whole).ok_or_else(|| at("it is too long".to_owned()))?;
    let place = log_place(len, options).map_err(|error| at(error.to_string()))?;
    let joined = Joined::new(device, log, place).ok_or_else(|| at("it is too short".to_owned()))?;
    Ok(Arc::new(joined))
}

fn take_word(options: &mut Options, word: &str) -> Option<()> {
    let (name, value) = word.split_once('=')?;
    if (name, value) == ("preset", "paper") {
        let paper = Options::paper(options.uuid, options.now);
        (options.fragment_size, options.block_size) = (paper.fragment_size, paper.block_size);
        options.segment_bytes = paper.segment_bytes;
        return Some(());
    }
    let number = numbers::parse_size(value).ok()?;
    match name {
        "block-size" => options.block_size = u32::try_from(number).ok()?,
        "fragment-size" => options.fragment_size = u32::try_from(number).ok()?,
        "log-size" => options.log_bytes = Some(number),
        "segment-size" => options.segment_bytes = Some(number),
        "group-size" => options.group_bytes = number,
        "inodes" => options.inodes = Some(number),
        _ => return None,
    }
    Some(())
}

/// What was made, as the driver sees it.
fn summary(options: &Options, device: Arc<dyn WritableDevice>) -> Result<String, String> {
    let len = device.len();
    let inodes = superblock::find(&*device)?.1.inodes.saturating_sub(2);
    let mut fs = Hybrid::mount(device, MountOptions::read_only(options.now))
        .map_err(|error| format!("it cannot be read again: {error}"))?;
    let space = fs.statfs().map_err(|error| error.to_string())?;
    let bytes = |blocks: u64| numbers::bytes(blocks.saturating_mul(space.block_size.into()));
    Ok(format!(
        "hybridfs, {}.\nBlocks of {} in fragments of {}, {} for small files and metadata, {} for larger files, at most {} inodes.",
        numbers::bytes(len),
        numbers::bytes(options.block_size.into()),
        numbers::bytes(options.fragment_size.into()),
        bytes(space.metadata_blocks),
        bytes(space.blocks),
        numbers::thousands(inodes),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_options_of_hybridfs_are_understood() {
        let mut options = Options::new([7; 16], fsmend_vfs::Time::at(0));
        for word in ["preset=paper", "block-size=8K", "log-size=64M", "inodes=1000"] {
            take_word(&mut options, word).expect("it is known");
        }
        assert_eq!((options.block_size, options.fragment_size), (8192, 2048));
        assert_eq!((options.log_bytes, options.inodes), (Some(64 << 20), Some(1000)));
        for wrong in ["preset=other", "byte-order=big", "block-size"] {
            assert_eq!(take_word(&mut options, wrong), None, "{wrong}");
        }
    }
}
