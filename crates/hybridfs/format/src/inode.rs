// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inodes: 84 bytes of facts, 12 of a head, 416 of a body.

use fsmend_base::crc32c_of_record_without;

use crate::bytes::{get_u8, get_u16, get_u32, get_u64, put, put_u16, put_u32, put_u64};
use crate::record::RECORD_LEN;
use crate::{Parsed, Wrong, seed};
use fsmend_base::width::signed;

/// Bytes of an inode.
pub const INODE_LEN: usize = 512;
/// Bytes of its body.
pub const BODY_LEN: usize = 416;
const BODY: usize = INODE_LEN - BODY_LEN;
/// In [`Inode::attribute_slots`]: the last slot leads to the attributes.
pub const SLOT_ATTRIBUTES: u8 = 255;
/// Seconds from the beginning of times on the disk to 1970.
const EPOCH: i64 = 1 << 31;
const NANOSECONDS: u64 = 1_000_000_000;

/// Where contents are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Format {
    /// There are none.
    Nothing = 0,
    /// In the body.
    Inline = 1,
    /// In the log, in one piece.
    Small = 2,
    /// Where the map says.
    Map = 3,
}

/// A time on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    /// From seconds since 1970 and nanoseconds; what lies too far away becomes the nearest time there is.
    pub fn new(seconds: i64, nanoseconds: u32) -> Stamp {
        let seconds = u64::try_from(seconds.saturating_add(EPOCH)).unwrap_or(0);
        Stamp(seconds.saturating_mul(NANOSECONDS).saturating_add(u64::from(nanoseconds)))
    }

    /// Seconds since 1970, and nanoseconds.
    pub fn parts(self) -> (i64, u32) {
        // 2^64 nanoseconds are fewer than 2^35 seconds.
        (signed(self.0 / NANOSECONDS) - EPOCH, (self.0 % NANOSECONDS) as u32)
    }
}

/// An inode as it stands on the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Its number.
    pub number: u64,
    /// Tells users of the number apart.
    pub generation: u32,
    /// Type and permissions.
    pub mode: u16,
    /// Where contents are.
    pub format: Format,
    /// Flags.
    pub flags: u8,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names.
    pub links: u32,
    /// Bytes.
    pub size: u64,
    /// Last read.
    pub atime: Stamp,
    /// Last written.
    pub mtime: Stamp,
    /// Last changed.
    pub ctime: Stamp,
    /// Made.
    pub crtime: Stamp,
    /// Birth of the inode block.
    pub birth: u64,
    /// Preferred AG of a directory.
    pub group: u32,
    /// Records in the body.
    pub count: u8,
    /// Height of the map.
    pub height: u8,
    /// How attributes are kept.
    pub attribute_slots: u8,
    /// Fragments used; of a directory parent and its generation.
    pub used: u64,
    /// The body, slots of attributes included.
    pub body: [u8; BODY_LEN],
}

impl Inode {
    /// A directory of the superuser without entries, with rights `0755`, as of `now`.
    pub fn empty_directory(number: u64, generation: u32, now: Stamp) -> Inode {
        Inode {
            number,
            generation,
            mode: 0o040_755,
            format: Format::Inline,
            flags: 0,
            uid: 0,
            gid: 0,
            links: 2,
            size: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            birth: 0,
            group: 0,
            count: 0,
            height: 0,
            attribute_slots: 0,
            used: 0,
            body: [0; BODY_LEN],
        }
    }

    /// Reads an inode that should be number `number`.
    pub fn parse(bytes: &[u8], number: u64, uuid: &[u8; 16]) -> Parsed<Inode> {
        let view = InodeView::parse(bytes, number, seed(uuid))?;
        let bytes = view.bytes;
        let body = bytes.get(BODY..).and_then(|body| body.first_chunk()).ok_or(Wrong::Short)?;
        Ok(Inode {
            number,
            generation: view.generation(),
            mode: view.mode(),
            format: view.format,
            flags: get_u8(bytes, 19),
            uid: get_u32(bytes, 20),
            gid: get_u32(bytes, 24),
            links: view.links(),
            size: view.size(),
            atime: Stamp(get_u64(bytes, 40)),
            mtime: Stamp(get_u64(bytes, 48)),
            ctime: Stamp(get_u64(bytes, 56)),
            crtime: Stamp(get_u64(bytes, 64)),
            birth: view.birth(),
            group: get_u32(bytes, 80),
            count: view.count(),
            height: view.height(),
            attribute_slots: view.attribute_slots(),
            used: view.used(),
            body: *body,
        })
    }

    /// Its bytes.
    pub fn store(&self, uuid: &[u8; 16]) -> [u8; INODE_LEN] {
        let mut bytes = [0; INODE_LEN];
        put_u64(&mut bytes, 4, self.number);
        put_u32(&mut bytes, 12, self.generation);
        put_u16(&mut bytes, 16, self.mode);
        put(&mut bytes, 18, &[self.format as u8, self.flags]);
        put_u32(&mut bytes, 20, self.uid);
        put_u32(&mut bytes, 24, self.gid);
        put_u32(&mut bytes, 28, self.links);
        put_u64(&mut bytes, 32, self.size);
        put_u64(&mut bytes, 40, self.atime.0);
        put_u64(&mut bytes, 48, self.mtime.0);
        put_u64(&mut bytes, 56, self.ctime.0);
        put_u64(&mut bytes, 64, self.crtime.0);
        put_u64(&mut bytes, 72, self.birth);
        put_u32(&mut bytes, 80, self.group);
        put(&mut bytes, 84, &[self.count, self.height, self.attribute_slots, 0]);
        put_u64(&mut bytes, 88, self.used);
        put(&mut bytes, BODY, &self.body);
        Inode::reseal(&mut bytes, self.birth, uuid);
        bytes
    }

    /// Gives the bytes of a live inode another birth, and makes its checksum right.
    pub fn reseal(bytes: &mut [u8], birth: u64, uuid: &[u8; 16]) {
        put_u64(bytes, 72, birth);
        let crc = bytes.first_chunk().map_or(0, |record| checksum(seed(uuid), record));
        put_u32(bytes, 0, crc);
    }

    /// The part of the body that is not for attributes.
    pub fn room(&self) -> &[u8] {
        self.body.get(..room_len(self.attribute_slots)).unwrap_or_default()
    }

    /// The part of the body that is for attributes.
    pub fn attribute_room(&self) -> &[u8] {
        self.body.get(self.room().len()..).unwrap_or_default()
    }
}

/// Bytes of the body that so many slots of attributes leave.
fn room_len(attribute_slots: u8) -> usize {
    let slots = match attribute_slots {
        SLOT_ATTRIBUTES => 1,
        slots => usize::from(slots),
    };
    BODY_LEN.saturating_sub(slots * RECORD_LEN)
}

/// The checksum of an inode: that of its bytes with zeroes in its own place.
#[inline]
fn checksum(seed: u32, record: &[u8; INODE_LEN]) -> u32 {
    crc32c_of_record_without::<0, INODE_LEN>(seed, record)
}

/// An inode whose checksum is right, in the bytes where it stands: for those who look at many, and take few fields.
#[derive(Clone, Copy, Debug)]
pub struct InodeView<'b> {
    bytes: &'b [u8; INODE_LEN],
    /// Where contents are.
    pub format: Format,
}

impl<'b> InodeView<'b> {
    /// Looks at an inode that should be number `number`; `seed` is the [`seed`](crate::seed()) of the file system.
    #[inline]
    pub fn parse(bytes: &'b [u8], number: u64, seed: u32) -> Parsed<InodeView<'b>> {
        let bytes: &[u8; INODE_LEN] = bytes.first_chunk().ok_or(Wrong::Short)?;
        if checksum(seed, bytes) != get_u32(bytes, 0) {
            return Err(Wrong::Checksum);
        }
        if get_u64(bytes, 4) != number {
            return Err(Wrong::Identity);
        }
        let format = match get_u8(bytes, 18) {
            0 => Format::Nothing,
            1 => Format::Inline,
            2 => Format::Small,
            3 => Format::Map,
            _ => return Err(Wrong::Value("format of an inode")),
        };
        let view = InodeView { bytes, format };
        let room = view.room().len();
        let fits = match format {
            Format::Nothing => true,
            Format::Inline => view.size() <= room as u64,
            Format::Small => room >= RECORD_LEN,
            Format::Map => usize::from(view.count()) * RECORD_LEN <= room,
        };
        if fits { Ok(view) } else { Err(Wrong::Value("contents of the body")) }
    }

    /// As [`Inode::number`].
    pub fn number(&self) -> u64 {
        get_u64(self.bytes, 4)
    }

    /// As [`Inode::generation`].
    pub fn generation(&self) -> u32 {
        get_u32(self.bytes, 12)
    }

    /// As [`Inode::mode`].
    pub fn mode(&self) -> u16 {
        get_u16(self.bytes, 16)
    }

    /// As [`Inode::links`].
    pub fn links(&self) -> u32 {
        get_u32(self.bytes, 28)
    }

    /// As [`Inode::size`].
    pub fn size(&self) -> u64 {
        get_u64(self.bytes, 32)
    }

    /// As [`Inode::birth`].
    pub fn birth(&self) -> u64 {
        get_u64(self.bytes, 72)
    }

    /// As [`Inode::count`].
    pub fn count(&self) -> u8 {
        get_u8(self.bytes, 84)
    }

    /// As [`Inode::height`].
    pub fn height(&self) -> u8 {
        get_u8(self.bytes, 85)
    }

    /// As [`Inode::attribute_slots`].
    pub fn attribute_slots(&self) -> u8 {
        get_u8(self.bytes, 86)
    }

    /// As [`Inode::used`].
    pub fn used(&self) -> u64 {
        get_u64(self.bytes, 88)
    }

    /// As [`Inode::room`].
    pub fn room(&self) -> &'b [u8] {
        self.bytes.get(BODY..BODY + room_len(self.attribute_slots())).unwrap_or_default()
    }

    /// As [`Inode::attribute_room`].
    pub fn attribute_room(&self) -> &'b [u8] {
        self.bytes.get(BODY + room_len(self.attribute_slots())..).unwrap_or_default()
    }
}
