// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems that are put to the test: made, filled and aged by our own driver, as in §3.2 of the paper.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use fsmend_device::{WritableDevice, WritableFile};
use fsmend_ext_driver::mkfs::{Kind, Options as MkfsOptions, mkfs};
use fsmend_ext_driver::policy::MetaclusterPolicy;
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_lab::Bench;
use fsmend_lab::aging::{Aging, AgingOptions, Filling};
use fsmend_vfs::{Errno, FileSystem, Time};

/// Where all decisions come from.
pub const SEED: u64 = 2013;

/// A file system that is put to the test.
pub struct Contestant {
    /// What it is called in the tables.
    pub name: &'static str,
    /// Which member of the family.
    pub kind: Kind,
    /// Whether map blocks are wished for at the start of each group.
    pub metacluster: bool,
}

/// As it is.
pub const EXT3: Contestant = Contestant { name: "ext3", kind: Kind::Ext3, metacluster: false };
/// The same format, another policy.
pub const METACLUSTER: Contestant =
    Contestant { name: "ext3, metacluster", kind: Kind::Ext3, metacluster: true };
/// Made to be checked: indirect blocks and directories in regions.
pub const REXT3: Contestant = Contestant { name: "rext3", kind: Kind::Rext3, metacluster: false };
/// With extents.
pub const EXT4: Contestant = Contestant { name: "ext4", kind: Kind::Ext4, metacluster: false };

/// An error of the driver.
pub fn failed(what: Errno) -> io::Error {
    io::Error::other(format!("the driver: {what}"))
}

/// An empty file system in a new file of `bytes`.
pub fn make_empty(path: &Path, bytes: u64, contestant: &Contestant) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(bytes)?;
    drop(file);
    let now = Time::at(1_000_000_000);
    let shape = MkfsOptions { blank: true, ..MkfsOptions::new(contestant.kind, *b"fsmend benchmark", now) };
    mkfs(Arc::new(WritableFile::open(path, false)?), &shape).map_err(io::Error::other)
}

/// The file system on `device`, mounted.
pub fn mount(device: Arc<dyn WritableDevice>, contestant: &Contestant) -> io::Result<Ext> {
    mount_with(device, contestant, false)
}

/// The same; what is synchronised is written home at once if that is wanted.
pub fn mount_with(
    device: Arc<dyn WritableDevice>,
    contestant: &Contestant,
    home_at_sync: bool,
) -> io::Result<Ext> {
    let mut how = MountOptions { home_at_sync, ..MountOptions::new(Time::at(1_000_000_000)) };
    if contestant.metacluster {
        // Files of this size have one map block: where it stays in line, there is nothing to gather.
        how = how.with_policy(MetaclusterPolicy { first_map_in_line: false, ..MetaclusterPolicy::default() });
    }
    Ext::mount(device, how).map_err(io::Error::other)
}

/// Makes an image anew, fills it to `utilisation` and ages it by so many operations for each folder; how full it is.
pub fn make_aged(
    path: &Path,
    gib: u64,
    contestant: &Contestant,
    utilisation: f64,
    age: u32,
) -> io::Result<f64> {
    make_empty(path, gib << 30, contestant)?;
    let mut driver = mount(Arc::new(WritableFile::open(path, false)?), contestant)?;
    let mut bench = Bench::new(&mut driver, SEED);
    let wanted = AgingOptions {
        // A group of 4 KiB blocks holds 128 MiB.
        folders: (gib << 3) as u32,
        folder_bytes: 25_600_000,
        file_blocks_max: 512,
        append_blocks_max: 256,
        utilisation,
        operations_per_folder: age,
        filling: Filling::Claimed,
    };
    let mut aging = Aging::begin(&mut bench, wanted).map_err(failed)?;
    aging.fill().map_err(failed)?;
    aging.age().map_err(failed)?;
    // Deleting and cutting have made room; the paper's aged images are at least 90 % full.
    aging.fill().map_err(failed)?;
    let utilisation = aging.utilisation().map_err(failed)?;
    aging.finish().map_err(failed)?;
    let end = bench.tick();
    driver.unmount(end).map_err(failed)?;
    Ok(utilisation)
}

/// All of them.
pub const CONTESTANTS: [&Contestant; 4] = [&EXT3, &REXT3, &METACLUSTER, &EXT4];

impl Contestant {
    /// Whether e2fsck can check it.
    pub fn is_known_to_e2fsck(&self) -> bool {
        self.kind != Kind::Rext3
    }
}

/// Those whose reading and writing is compared: the first is what the others are compared with.
pub const WRITERS: [&Contestant; 3] = [&EXT3, &REXT3, &METACLUSTER];
