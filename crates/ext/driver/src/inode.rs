// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inodes: reading and writing their records, times, owners, and what a new one looks like.

use fsmend_base::{GroupNo, width};
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::build_node;
use fsmend_ext_format::features::{Incompat, RoCompat};
pub(crate) use fsmend_ext_format::inode::LINKS_MAX;
use fsmend_ext_format::inode::{BASE_INODE_SIZE, I_BLOCK_LEN, InodeFlags, RawInode, mode};
use fsmend_vfs::{Attributes, DeviceNumber, Errno, FileKind, InodeNo, Permissions, Result, Time};
use zerocopy::{FromZeros, IntoBytes};

use crate::volume::Volume;

/// Bytes of the record that the fields up to `i_crtime_extra` take.
const CRTIME_END: usize = std::mem::offset_of!(RawInode, i_crtime_extra) + 4;
const CTIME_EXTRA_END: usize = std::mem::offset_of!(RawInode, i_ctime_extra) + 4;
const MTIME_EXTRA_END: usize = std::mem::offset_of!(RawInode, i_mtime_extra) + 4;
const ATIME_EXTRA_END: usize = std::mem::offset_of!(RawInode, i_atime_extra) + 4;

/// An inode in memory.
#[derive(Clone)]
pub(crate) struct Inode {
    pub number: InodeNo,
    pub raw: RawInode,
    /// The whole record; of its fixed fields, those in `raw` count.
    pub record: Vec<u8>,
}

impl Inode {
    pub fn kind(&self) -> Option<FileKind> {
        FileKind::of_mode(self.raw.i_mode.get())
    }

    pub fn is_directory(&self) -> bool {
        self.raw.file_type() == mode::DIRECTORY
    }

    pub fn is_regular(&self) -> bool {
        self.raw.file_type() == mode::REGULAR
    }

    pub fn has_extents(&self) -> bool {
        self.raw.has_flag(InodeFlags::EXTENTS)
    }

    pub fn has_inline_data(&self) -> bool {
        self.raw.has_flag(InodeFlags::INLINE_DATA)
    }

    /// Whether `i_block` maps blocks (and does not hold a device number or the target of a link).
    pub fn has_map(&self) -> bool {
        match self.raw.file_type() {
            mode::REGULAR | mode::DIRECTORY => !self.has_inline_data(),
            mode::SYMLINK => !self.is_fast_symlink() && !self.has_inline_data(),
            _ => false,
        }
    }

    /// Whether the target of a symbolic link stands in the inode itself.
    pub fn is_fast_symlink(&self) -> bool {
        self.raw.size() < I_BLOCK_LEN as u64 && !self.has_extents()
    }

    /// Puts the fixed fields into the record, as far as they reach; behind them, attributes begin.
    pub fn store_fields(&mut self) {
        let extra = usize::from(self.raw.i_extra_isize.get());
        let end = match self.record.len() {
            0..=BASE_INODE_SIZE => BASE_INODE_SIZE,
            _ => (BASE_INODE_SIZE + extra).min(size_of::<RawInode>()),
        };
        let bytes = self.raw.as_bytes();
        for (place, byte) in self.record.iter_mut().zip(&bytes[..end]) {
            *place = *byte;
        }
    }

    pub fn links(&self) -> u16 {
        self.raw.i_links_count.get()
    }

    pub fn permissions(&self) -> Permissions {
        Permissions { mode: self.raw.i_mode.get() & 0o7777, uid: self.raw.uid(), gid: self.raw.gid() }
    }

    pub fn set_owner(&mut self, uid: u32, gid: u32) {
        self.raw.i_uid.set(width::low_u16(u64::from(uid)));
        self.raw.i_uid_high.set((uid >> 16) as u16);
        self.raw.i_gid.set(width::low_u16(u64::from(gid)));
        self.raw.i_gid_high.set((gid >> 16) as u16);
    }

    pub fn set_atime(&mut self, time: Time) {
        let (seconds, extra) = encode_time(time, self.raw.has_extra(ATIME_EXTRA_END));
        self.raw.i_atime.set(seconds);
        self.raw.i_atime_extra.set(extra);
    }

    pub fn set_mtime(&mut self, time: Time) {
        let (seconds, extra) = encode_time(time, self.raw.has_extra(MTIME_EXTRA_END));
        self.raw.i_mtime.set(seconds);
        self.raw.i_mtime_extra.set(extra);
    }

    pub fn set_ctime(&mut self, time: Time) {
        let (seconds, extra) = encode_time(time, self.raw.has_extra(CTIME_EXTRA_END));
        self.raw.i_ctime.set(seconds);
        self.raw.i_ctime_extra.set(extra);
    }

    pub fn set_crtime(&mut self, time: Time) {
        if self.raw.has_extra(CRTIME_END) {
            let (seconds, extra) = encode_time(time, true);
            self.raw.i_crtime.set(seconds);
            self.raw.i_crtime_extra.set(extra);
        }
    }

    /// Its contents have changed.
    pub fn touch(&mut self, now: Time) {
        self.set_mtime(now);
        self.set_ctime(now);
    }

    /// What the rest of the world may know of it.
    pub fn attributes(&self, wide_blocks: bool, block_size: u32) -> Result<Attributes> {
        let raw = &self.raw;
        let time =
            |seconds: u32, extra: u32, end: usize| decode_time(seconds, raw.has_extra(end).then_some(extra));
        let kind = self.kind().ok_or(Errno::Corrupt)?;
        Ok(Attributes {
            inode: self.number,
            generation: raw.i_generation.get(),
            kind,
            of: self.permissions(),
            links: u32::from(self.links()),
            size: raw.size(),
            blocks_512: self.sectors(wide_blocks, block_size) + self.inline_sectors(),
            device: self.device(),
            atime: time(raw.i_atime.get(), raw.i_atime_extra.get(), ATIME_EXTRA_END),
            mtime: time(raw.i_mtime.get(), raw.i_mtime_extra.get(), MTIME_EXTRA_END),
            ctime: time(raw.i_ctime.get(), raw.i_ctime_extra.get(), CTIME_EXTRA_END),
            crtime: raw
                .has_extra(CRTIME_END)
                .then(|| decode_time(raw.i_crtime.get(), Some(raw.i_crtime_extra.get()))),
        })
    }

    /// What the contents of a file in its inode would take: programs take a file without blocks for a hole.
    fn inline_sectors(&self) -> u64 {
        if self.has_inline_data() && self.is_regular() { self.raw.size().div_ceil(512) } else { 0 }
    }

    /// The device number of a device node: the old form in the first word, or the new one in the second.
    pub fn device(&self) -> DeviceNumber {
        if !matches!(self.raw.file_type(), mode::CHAR_DEVICE | mode::BLOCK_DEVICE) {
            return DeviceNumber::default();
        }
        let (old, new) = (self.raw.block_word(0), self.raw.block_word(1));
        if old != 0 {
            return DeviceNumber { major: old >> 8 & 0xFF, minor: old & 0xFF };
        }
        DeviceNumber { major: new >> 8 & 0xFFF, minor: new & 0xFF | new >> 12 & 0xF_FF00 }
    }

    pub fn set_device(&mut self, device: DeviceNumber) -> Result<()> {
        let DeviceNumber { major, minor } = device;
        if major < 256 && minor < 256 {
            self.raw.set_block_word(0, major << 8 | minor);
        } else if major < 1 << 12 && minor < 1 << 20 {
            self.raw.set_block_word(1, minor & 0xFF | major << 8 | (minor & 0xF_FF00) << 12);
        } else {
            return Err(Errno::Invalid);
        }
        Ok(())
    }

    /// `i_blocks` in units of 512 bytes.
    pub fn sectors(&self, huge_file: bool, block_size: u32) -> u64 {
        let low = u64::from(self.raw.i_blocks_lo.get());
        if !huge_file {
            return low;
        }
        let count = u64::from(self.raw.i_blocks_high.get()) << 32 | low;
        if self.raw.has_flag(InodeFlags::HUGE_FILE) {
            count.saturating_mul(u64::from(block_size / 512))
        } else {
            count
        }
    }
}

fn encode_time(time: Time, wide: bool) -> (u32, u32) {
    if !wide {
        let seconds = time.seconds.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
        return (width::low_u32(seconds.cast_unsigned()), 0);
    }
    // Two more bits of seconds: 34 bits, counted from the lowest number of 32 signed bits.
    let low = i64::from(i32::MIN);
    let seconds = time.seconds.clamp(low, low + (1 << 34) - 1);
    let stored = width::low_u32(seconds.cast_unsigned());
    let epoch = width::low_u32(((seconds - i64::from(stored.cast_signed())) >> 32).cast_unsigned()) & 3;
    (stored, epoch | time.nanoseconds.min(999_999_999) << 2)
}

fn decode_time(seconds: u32, extra: Option<u32>) -> Time {
    let low = i64::from(seconds.cast_signed());
    match extra {
        None => Time::at(low),
        Some(extra) => {
            Time { seconds: low + (i64::from(extra & 3) << 32), nanoseconds: (extra >> 2).min(999_999_999) }
        }
    }
}

impl Volume {
    /// Where the record of an inode stands: its block, and the byte in that block.
    pub fn inode_place(&mut self, inode: InodeNo) -> Result<(u64, usize)> {
        let (group, index) = self.geometry.inode_place(inode).ok_or(Errno::NotFound)?;
        let at = u64::from(index) * u64::from(self.geometry.inode_size);
        let block_size = u64::from(self.geometry.block_size);
        let table = self.desc(group)?.inode_table;
        Ok((table.saturating_add(at / block_size), width::index(at % block_size)))
    }

    /// The group an inode lies in.
    pub fn inode_group(&self, inode: InodeNo) -> GroupNo {
        self.geometry.inode_place(inode).map_or(GroupNo(0), |(group, _)| group)
    }

    /// An inode, whether in use or not.
    pub fn load_any(&mut self, number: InodeNo) -> Result<Inode> {
        let (block, at) = self.inode_place(number)?;
        let bytes = self.cache.get(block)?;
        let size = self.geometry.inode_size as usize;
        let record = bytes.get(at..at + size).ok_or(Errno::Corrupt)?.to_vec();
        Ok(Inode { number, raw: RawInode::from_record(&record), record })
    }

    /// An inode that is in use: it has a name or is held.
    pub fn load(&mut self, number: InodeNo) -> Result<Inode> {
        let inode = self.load_any(number)?;
        if inode.links() == 0 && !self.is_held(number) {
            return Err(Errno::NotFound);
        }
        self.check_inode(&inode)?;
        Ok(inode)
    }

    /// Whether the inode is one that can be worked with.
    pub fn check_inode(&mut self, inode: &Inode) -> Result<()> {
        let number = inode.number;
        if self.geometry.features.metadata_csum() {
            let sum = checksum::inode(self.geometry.checksum_seed, number, &inode.record);
            if !sum.is_some_and(|sum| sum.is_right()) {
                return Err(self.cache.corrupt(|| format!("inode {number} has a wrong checksum")));
            }
        }
        let extra_fits = self.geometry.inode_size as usize == BASE_INODE_SIZE
            || BASE_INODE_SIZE + usize::from(inode.raw.i_extra_isize.get())
                <= self.geometry.inode_size as usize;
        if inode.kind().is_none() || !extra_fits {
            return Err(self.cache.corrupt(|| format!("inode {number} is of no kind that there is")));
        }
        Ok(())
    }

    /// A directory.
    pub fn load_directory(&mut self, number: InodeNo) -> Result<Inode> {
        let inode = self.load(number)?;
        if inode.is_directory() { Ok(inode) } else { Err(Errno::NotDirectory) }
    }

    /// Writes an inode back.
    pub fn save(&mut self, inode: &mut Inode) -> Result<()> {
        inode.store_fields();
        if self.geometry.features.metadata_csum() {
            checksum::seal_inode(self.geometry.checksum_seed, inode.number, &mut inode.record);
            inode.raw = RawInode::from_record(&inode.record);
        }
        let (block, at) = self.inode_place(inode.number)?;
        let bytes = self.cache.change(block)?;
        let place = bytes.get_mut(at..at + inode.record.len()).ok_or(Errno::Corrupt)?;
        place.copy_from_slice(&inode.record);
        Ok(())
    }

    /// A new inode without contents, in memory only.
    pub fn new_inode(&mut self, number: InodeNo, kind: FileKind, of: Permissions, now: Time) -> Inode {
        let mut inode =
            Inode { number, raw: RawInode::new_zeroed(), record: vec![0; self.geometry.inode_size as usize] };
        if inode.record.len() > BASE_INODE_SIZE {
            inode.raw.i_extra_isize.set(self.extra_isize);
        }
        self.generation = self.generation.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F);
        inode.raw.i_generation.set(self.generation);
        inode.raw.i_mode.set(kind.mode_bits() | of.mode & 0o7777);
        inode.set_owner(of.uid, of.gid);
        inode.set_atime(now);
        inode.set_crtime(now);
        inode.touch(now);
        if matches!(kind, FileKind::Regular | FileKind::Directory) && self.uses_extents() {
            self.start_extents(&mut inode);
        }
        inode
    }

    /// Whether new files are mapped by extents.
    pub fn uses_extents(&self) -> bool {
        self.geometry.features.has_incompat(Incompat::EXTENTS)
    }

    /// Gives an inode an empty map of the kind that new files have.
    pub fn start_extents(&self, inode: &mut Inode) {
        if self.uses_extents() {
            inode.raw.set_flag(InodeFlags::EXTENTS);
            let root = build_node(I_BLOCK_LEN, 0, &[]);
            inode.raw.i_block.copy_from_slice(&root);
        }
    }

    /// Whether `i_blocks` has 48 bits.
    pub fn has_huge_files(&self) -> bool {
        self.geometry.features.has_ro_compat(RoCompat::HUGE_FILE)
    }

    /// Counts units of allocation that a file gets (or gives back), and charges its owner for them: blocks, or clusters where there are such.
    pub fn count_blocks(&mut self, inode: &mut Inode, delta: i64) -> Result<()> {
        let block_size = self.geometry.block_size;
        let unit = i64::from(block_size) * i64::from(self.geometry.cluster_blocks);
        let bytes = delta.checked_mul(unit).ok_or(Errno::Corrupt)?;
        let sectors = bytes / 512;
        self.charge(inode, bytes, 0)?;
        let before = inode.sectors(self.has_huge_files(), block_size);
        let count = before.checked_add_signed(sectors).ok_or(Errno::Corrupt)?;
        inode.raw.clear_flag(InodeFlags::HUGE_FILE);
        if count <= u64::from(u32::MAX) {
            inode.raw.i_blocks_lo.set(width::low_u32(count));
            inode.raw.i_blocks_high.set(0);
            return Ok(());
        }
        if !self.has_huge_files() {
            return Err(Errno::TooLarge);
        }
        let stored = if count < 1 << 48 {
            count
        } else {
            inode.raw.set_flag(InodeFlags::HUGE_FILE);
            count / u64::from(block_size / 512)
        };
        inode.raw.i_blocks_lo.set(width::low_u32(stored));
        inode.raw.i_blocks_high.set(u16::try_from(stored >> 32).map_err(|_| Errno::TooLarge)?);
        Ok(())
    }

    /// The attributes of an inode.
    pub fn attributes(&mut self, inode: &Inode) -> Result<Attributes> {
        inode.attributes(self.has_huge_files(), self.geometry.block_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_ages_come_back() {
        for seconds in
            [0, -1, i64::from(i32::MIN), i64::from(i32::MAX) + 1, 1 << 33, (1 << 33) + (1 << 32) + 77]
        {
            let time = Time { seconds, nanoseconds: 123_456_789 };
            let (low, extra) = encode_time(time, true);
            assert_eq!(decode_time(low, Some(extra)), time);
        }
        let far = Time::at(i64::from(i32::MAX) + 5);
        assert_eq!(decode_time(encode_time(far, false).0, None), Time::at(i64::from(i32::MAX)));
    }
}
