// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver as a [`FileSystem`].

use fsmend_base::width;
use fsmend_blockcache::MountState;
use fsmend_blockcache::names::NAME_MAX;
use fsmend_hybridfs_format::ROOT;
use fsmend_vfs::{
    Allocation, AttributeWrite, Attributes, Caller, DirEntry, Errno, Extent, FileKind, FileSystem,
    FileSystemSpace, InodeNo, NewFile, RenameFlags, Result, SetAttributes, SetTime, Time, Visit,
};

use crate::file::regular;
use crate::volume::{Commit, Live, Need, Pin, Volume, stamp};

/// A mounted hybridfs.
pub struct Hybrid {
    pub(crate) volume: Volume,
}

/// A control attribute of the root: to set it makes a checkpoint and keeps it whole for those who read it from the device ([`Pin`]), its value says which one that is while
/// it is whole, and to remove it lets it go. It is in no list.
pub const PIN_ATTRIBUTE: &[u8] = b"user.fsmend.pinned";

fn is_pin(inode: InodeNo, name: &[u8]) -> bool {
    inode.0 == ROOT && name == PIN_ATTRIBUTE
}

fn shown(pin: Pin) -> Vec<u8> {
    format!("{} {}", pin.ssn, pin.summary).into_bytes()
}

const GROWS: Need = Need { removes: false, log: 0 };
const REMOVES: Need = Need { removes: true, log: 0 };

impl Hybrid {
    fn read<R>(
        &mut self,
        inode: InodeNo,
        work: impl FnOnce(&mut Volume, &mut Live) -> Result<R>,
    ) -> Result<R> {
        self.volume.check_mounted()?;
        self.volume.with(inode, work)
    }
}

fn set_attributes(volume: &mut Volume, live: &mut Live, changes: &SetAttributes, now: Time) -> Result<()> {
    if let Some(size) = changes.size {
        regular(live)?;
        volume.resize(live, size)?;
        live.disk.mtime = stamp(now);
    }
    if let Some(mode) = changes.mode {
        live.disk.mode = live.disk.mode & !0o7777 | mode & 0o7777;
        volume.change_list_mode(live, mode)?;
    }
    live.disk.uid = changes.uid.unwrap_or(live.disk.uid);
    live.disk.gid = changes.gid.unwrap_or(live.disk.gid);
    let time = |wish: SetTime| stamp(wish.at(now));
    live.disk.atime = changes.atime.map_or(live.disk.atime, time);
    live.disk.mtime = changes.mtime.map_or(live.disk.mtime, time);
    live.disk.crtime = changes.crtime.map_or(live.disk.crtime, stamp);
    live.disk.ctime = stamp(now);
    volume.mark(live)
}

impl FileSystem for Hybrid {
    fn root(&self) -> InodeNo {
        InodeNo(ROOT)
    }

    fn lookup(&mut self, parent: InodeNo, name: &[u8]) -> Result<Attributes> {
        self.volume.check_mounted()?;
        let number = self.volume.lookup(parent, name)?;
        self.volume.attributes(number)
    }

    fn getattr(&mut self, inode: InodeNo) -> Result<Attributes> {
        self.read(inode, |volume, live| volume.shown(live))
    }

    fn setattr(&mut self, inode: InodeNo, changes: &SetAttributes, now: Time) -> Result<Attributes> {
        self.volume.check_writable()?;
        if let Some(size) = changes.size {
            let grows = self.read(inode, |_, live| {
                regular(live)?;
                Ok(size > live.disk.size)
            })?;
            // Growing over a block takes the first one to data.
            if grows {
                self.volume.admit_data(1, now)?;
            } else {
                self.volume.shorten(inode, size, now)?;
            }
        }
        self.volume.operation(REMOVES, now, |volume| {
            volume.with(inode, |volume, live| set_attributes(volume, live, changes, now))?;
            volume.attributes(inode)
        })
    }

    fn make(&mut self, parent: InodeNo, name: &[u8], file: &NewFile<'_>, now: Time) -> Result<Attributes> {
        self.volume.operation(GROWS, now, |volume| {
            let number = volume.make_file(parent, name, file, now)?;
            volume.attributes(number)
        })
    }

    fn link(&mut self, inode: InodeNo, parent: InodeNo, name: &[u8], now: Time) -> Result<Attributes> {
        self.volume.operation(GROWS, now, |volume| {
            volume.link_file(inode, parent, name, now)?;
            volume.attributes(inode)
        })
    }

    fn unlink(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()> {
        self.volume.operation(REMOVES, now, |volume| volume.unlink_name(parent, name, false, now))
    }

    fn rmdir(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()> {
        self.volume.operation(REMOVES, now, |volume| volume.unlink_name(parent, name, true, now))
    }

    fn rename(
        &mut self,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        flags: RenameFlags,
        now: Time,
    ) -> Result<()> {
        let need = if flags == RenameFlags::Whiteout { GROWS } else { REMOVES };
        self.volume.operation(need, now, |volume| {
            volume.rename_name((parent, name), (new_parent, new_name), flags, now)
        })
    }

    fn read(&mut self, inode: InodeNo, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Hybrid::read(self, inode, |volume, live| {
            regular(live)?;
            volume.read_file(live, offset, buf)
        })
    }

    fn write(&mut self, inode: InodeNo, offset: u64, bytes: &[u8], now: Time) -> Result<usize> {
        self.volume.write_file(inode, offset, bytes, now)
    }

    fn allocate(&mut self, inode: InodeNo, _: u64, _: u64, _: Allocation, _: Time) -> Result<()> {
        self.volume.check_writable()?;
        self.read(inode, |_, live| regular(live))?;
        Err(Errno::NotSupported)
    }

    fn extents(&mut self, inode: InodeNo, offset: u64, max: usize) -> Result<Vec<Extent>> {
        self.read(inode, |volume, live| {
            regular(live)?;
            volume.extents_of(live, offset, max)
        })
    }

    fn readdir(
        &mut self,
        inode: InodeNo,
        cookie: u64,
        visit: &mut dyn FnMut(&DirEntry<'_>) -> Visit,
    ) -> Result<()> {
        self.volume.check_mounted()?;
        self.volume.show(inode, cookie, visit)
    }

    fn readlink(&mut self, inode: InodeNo) -> Result<Vec<u8>> {
        self.read(inode, |volume, live| match live.kind() {
            Some(FileKind::Symlink) => volume.small(live).cloned(),
            _ => Err(Errno::Invalid),
        })
    }

    fn getxattr(&mut self, inode: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        if is_pin(inode, name) {
            self.volume.check_mounted()?;
            return self.volume.pin.map(shown).ok_or(Errno::NoAttribute);
        }
        self.read(inode, |_, live| {
            crate::attributes::value(live, name).map(<[u8]>::to_vec).ok_or(Errno::NoAttribute)
        })
    }

    fn setxattr(
        &mut self,
        inode: InodeNo,
        name: &[u8],
        value: &[u8],
        how: AttributeWrite,
        now: Time,
    ) -> Result<()> {
        if is_pin(inode, name) {
            self.volume.check_writable()?;
            return self.volume.pin(now).map(drop);
        }
        self.volume.operation(GROWS, now, |volume| {
            volume.with(inode, |volume, live| {
                volume.set_attribute(live, name, Some(value), how, now)?;
                volume.mark(live)
            })
        })
    }

    fn listxattr(&mut self, inode: InodeNo) -> Result<Vec<Vec<u8>>> {
        self.read(inode, |_, live| {
            Ok(live.attributes.iter().map(|attribute| attribute.name.clone()).collect())
        })
    }

    fn removexattr(&mut self, inode: InodeNo, name: &[u8], now: Time) -> Result<()> {
        if is_pin(inode, name) {
            self.volume.check_mounted()?;
            return if self.volume.unpin() { Ok(()) } else { Err(Errno::NoAttribute) };
        }
        self.volume.operation(REMOVES, now, |volume| {
            volume.with(inode, |volume, live| {
                if crate::attributes::value(live, name).is_none() {
                    return Err(Errno::NoAttribute);
                }
                volume.set_attribute(live, name, None, AttributeWrite::Any, now)?;
                volume.mark(live)
            })
        })
    }

    fn act_for(&mut self, caller: Caller) {
        self.volume.caller = caller;
    }

    fn statfs(&mut self) -> Result<FileSystemSpace> {
        self.volume.check_mounted()?;
        let (sb, space) = (&self.volume.io.sb, &self.volume.space);
        let data = sb.data_blocks();
        let free = data.saturating_sub(space.totals.data.saturating_add(space.promised));
        // What the log has for files: without its head, the reserve, and the summaries between two checkpoints.
        let summaries = u64::from(sb.checkpoint_segments) + 2;
        let kept = sb.log_head() / sb.per_block() + u64::from(sb.reserve_blocks) + summaries;
        let log = (sb.log_fragments / sb.per_block()).saturating_sub(kept);
        // Inodes take room in the log: a number that has none is not there, neither free nor in use.
        let usable = sb.inodes.saturating_sub(2);
        let inodes_free = usable.saturating_sub(space.totals.inodes).min(self.volume.inodes_left());
        Ok(FileSystemSpace {
            block_size: sb.block_size,
            blocks: data,
            blocks_free: free,
            blocks_available: free,
            inodes: space.totals.inodes.saturating_add(inodes_free),
            inodes_free,
            name_len_max: width::len_u32(NAME_MAX),
            metadata_blocks: log,
            metadata_blocks_free: log.saturating_sub(space.totals.log.div_ceil(sb.per_block())),
        })
    }

    fn hold(&mut self, inode: InodeNo) -> Result<()> {
        self.read(inode, |_, _| Ok(()))?;
        self.volume.held.hold(inode);
        Ok(())
    }

    fn release(&mut self, inode: InodeNo, count: u64, now: Time) -> Result<()> {
        self.volume.check_mounted()?;
        if !self.volume.held.release(inode, count)? {
            return Ok(());
        }
        if self.read(inode, |_, live| Ok(live.disk.links))? > 0 || self.volume.mode == MountState::ReadOnly {
            return Ok(());
        }
        self.volume.operation(REMOVES, now, |volume| volume.drop_or_keep(inode.0))
    }

    fn fsync(&mut self, inode: InodeNo, _data_only: bool, now: Time) -> Result<()> {
        let is_waiting = self.read(inode, |volume, live| Ok(live.ssn > volume.last.ssn))?;
        if is_waiting { self.sync(now) } else { Ok(()) }
    }

    fn sync(&mut self, now: Time) -> Result<()> {
        self.volume.check_mounted()?;
        if self.volume.mode == MountState::ReadOnly {
            return Ok(());
        }
        self.volume.commit(now, Commit::Usual)
    }

    fn unmount(&mut self, now: Time) -> Result<()> {
        let result = match self.volume.mode {
            MountState::Unmounted => return Ok(()),
            MountState::ReadOnly => Ok(()),
            MountState::Failed => Err(Errno::Io),
            MountState::Writable => self.leave(now),
        };
        self.volume.mode = MountState::Unmounted;
        result
    }

    fn trouble(&self) -> Option<&str> {
        self.volume.io.trouble.get().map(String::as_str)
    }
}

impl Hybrid {
    fn leave(&mut self, now: Time) -> Result<()> {
        self.volume.held.release_all();
        self.volume.remove_orphans(now)?;
        self.volume.commit(now, Commit::Clean)
    }
}
