// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounting: from a device to a file system that can be worked with, the journal replayed, and everything refused that is not understood.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use fsmend_base::width;
use fsmend_blockcache::{Block, BlockCache, HeldInodes, MountState, PendingFrees};
use fsmend_device::WritableDevice;
use fsmend_ext_format::features::{Compat, Features, Incompat, RoCompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::special;
use fsmend_ext_format::settle::Unsound;
use fsmend_ext_format::superblock::{
    EXT_MAGIC, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, SuperblockState,
};
use fsmend_vfs::{Caller, Errno, InodeNo, Time};
use zerocopy::{FromBytes, IntoBytes};

use crate::alloc::Reserve;
use crate::journal::{Log, Piece};
use crate::policy::{Ext3Policy, Layout, Policy, Rext3Policy};
use crate::quota::Quotas;
use crate::region::Regions;
use crate::volume::{Totals, Volume};

/// Features that may be read and written here.
const INCOMPAT_WRITABLE: Incompat = Incompat::FILETYPE
    .union(Incompat::RECOVER)
    .union(Incompat::META_BG)
    .union(Incompat::EXTENTS)
    .union(Incompat::BIT64)
    .union(Incompat::FLEX_BG)
    .union(Incompat::CSUM_SEED)
    .union(Incompat::LARGEDIR)
    .union(Incompat::INLINE_DATA)
    .union(Incompat::REXT3);
/// Features with which a file system can at least be read here.
const INCOMPAT_READABLE: Incompat = INCOMPAT_WRITABLE.union(Incompat::EA_INODE).union(Incompat::MMP);
const RO_COMPAT_WRITABLE: RoCompat = RoCompat::SPARSE_SUPER
    .union(RoCompat::LARGE_FILE)
    .union(RoCompat::HUGE_FILE)
    .union(RoCompat::GDT_CSUM)
    .union(RoCompat::DIR_NLINK)
    .union(RoCompat::EXTRA_ISIZE)
    .union(RoCompat::QUOTA)
    .union(RoCompat::BIGALLOC)
    .union(RoCompat::METADATA_CSUM)
    .union(RoCompat::PROJECT)
    .union(RoCompat::VERITY)
    .union(RoCompat::ORPHAN_PRESENT);
/// Bytes of metadata that stay in memory if nothing else is said.
const CACHE_BYTES: usize = 256 << 20;

/// How a file system is to be mounted.
pub struct MountOptions {
    /// Nothing is written to the device; what the journal holds is replayed in memory.
    pub read_only: bool,
    /// Where blocks are wished for; `None` for the policy of the format: `rext3` on a rext3, else `ext3`.
    pub policy: Option<Box<dyn Policy>>,
    /// How many bytes of unchanged metadata are kept in memory, more or less.
    pub cache_bytes: usize,
    /// For filling a file system that may be lost on the way: nothing goes through the journal, and nothing is synchronised before a caller
    /// asks for it. What a crash leaves then has to be checked, and says so; the journal is empty meanwhile.
    pub bulk: bool,
    /// What is committed when a caller asks for everything to be durable is written home at once, too, and the log emptied; otherwise that happens when the log is half
    /// full. It is no safer and takes longer: for measuring.
    pub home_at_sync: bool,
    /// The time.
    pub now: Time,
}

impl MountOptions {
    /// For reading and writing, at this time, with the policy of the format.
    pub fn new(now: Time) -> Self {
        MountOptions {
            read_only: false,
            policy: None,
            cache_bytes: CACHE_BYTES,
            bulk: false,
            home_at_sync: false,
            now,
        }
    }

    /// For reading only.
    pub fn read_only(now: Time) -> Self {
        MountOptions { read_only: true, ..MountOptions::new(now) }
    }

    /// For filling a file system that may be lost on the way.
    pub fn in_bulk(self) -> Self {
        MountOptions { bulk: true, ..self }
    }

    /// With another policy.
    pub fn with_policy(self, policy: impl Policy + 'static) -> Self {
        MountOptions { policy: Some(Box::new(policy)), ..self }
    }
}

/// Why a file system cannot be mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MountError {
    /// The device could not be read or written.
    Io(String),
    /// There is no superblock with which anything can be computed.
    Superblock(Unsound),
    /// Features that this driver does not know, by their names.
    Features(Vec<String>),
    /// Features with which the file system could be mounted for reading only, by their names.
    ReadOnlyFeatures(Vec<String>),
    /// The journal lies on another device.
    ExternalJournal,
    /// It is damaged, and how.
    Corrupt(String),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::Io(why) => write!(f, "{why}"),
            MountError::Superblock(Unsound::Magic(_)) => {
                f.write_str("no superblock was found; fsmend check may find a copy of one")
            }
            MountError::Superblock(unsound) => write!(f, "the superblock is no good: {unsound}"),
            MountError::Features(names) => write!(f, "unknown features: {}", names.join(", ")),
            MountError::ReadOnlyFeatures(names) => {
                write!(f, "can be mounted for reading only (-o ro) because of: {}", names.join(", "))
            }
            MountError::ExternalJournal => f.write_str("the journal is on another device"),
            MountError::Corrupt(what) => write!(f, "damaged: {what}"),
        }
    }
}

impl std::error::Error for MountError {}

/// Names of incompatible bits, one for each.
fn incompat_names(bits: Incompat) -> Vec<String> {
    names(bits.bits(), |bit| Features::from_words(0, bit, 0))
}

fn ro_compat_names(bits: RoCompat) -> Vec<String> {
    names(bits.bits(), |bit| Features::from_words(0, 0, bit))
}

fn names(bits: u32, features: impl Fn(u32) -> Features) -> Vec<String> {
    let set = (0..32).map(|shift| 1u32 << shift).filter(|bit| bits & bit != 0);
    set.map(|bit| {
        let known = features(bit).names().first().map(|name| (*name).to_owned());
        known.unwrap_or_else(|| format!("bit {bit:#x}"))
    })
    .collect()
}

/// An error for features that are not understood; whether the rest may be written, if it is to be.
fn check_features(features: Features, read_only: bool) -> Result<(), MountError> {
    let unknown = features.incompat & !INCOMPAT_READABLE;
    if !unknown.is_empty() {
        return Err(MountError::Features(incompat_names(unknown)));
    }
    if read_only {
        return Ok(());
    }
    let mut unwritable = incompat_names(features.incompat & !INCOMPAT_WRITABLE);
    unwritable.extend(ro_compat_names(features.ro_compat & !RO_COMPAT_WRITABLE));
    if unwritable.is_empty() { Ok(()) } else { Err(MountError::ReadOnlyFeatures(unwritable)) }
}

fn read_superblock(device: &dyn WritableDevice) -> Result<RawSuperblock, MountError> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes).map_err(|error| MountError::Io(error.to_string()))?;
    RawSuperblock::read_from_bytes(&bytes).map_err(|_| MountError::Corrupt("no superblock".into()))
}

/// Whether the checksum of a superblock is right, if it has to have one.
fn has_right_sum(superblock: &RawSuperblock) -> bool {
    !superblock.features().metadata_csum() || fsmend_ext_format::checksum::superblock(superblock).is_right()
}

impl Volume {
    /// Reads the superblock, whose checksum is for others to judge; nothing is replayed or written yet.
    pub fn open(
        device: Arc<dyn WritableDevice>,
        policy: Option<Box<dyn Policy>>,
        cache_bytes: usize,
        now: Time,
    ) -> Result<Volume, MountError> {
        let raw = read_superblock(&*device)?;
        let geometry = Geometry::from_superblock(&raw, device.len()).map_err(MountError::Superblock)?;
        let blocks_on_device = device.len() / u64::from(geometry.block_size);
        if geometry.blocks_count > blocks_on_device {
            return Err(MountError::Corrupt("the file system is larger than its device".into()));
        }
        let layout = Layout {
            groups: geometry.group_count,
            blocks_per_group: geometry.blocks_per_group,
            first_data_block: geometry.first_data_block,
            blocks_count: geometry.blocks_count,
        };
        let places = (0..geometry.desc_blocks()).map(|index| geometry.descriptor_copies(index, 1));
        let desc_places = places.filter_map(|places| places.first().map(|place| place.0)).collect();
        let own_policy = || -> Box<dyn Policy> {
            if geometry.rext3() { Box::new(Rext3Policy) } else { Box::new(Ext3Policy) }
        };
        let policy = policy.unwrap_or_else(own_policy);
        let cache = BlockCache::new(device, geometry.block_size, geometry.blocks_count, cache_bytes);
        let room = geometry.inode_size.saturating_sub(128);
        let known = width::len_u32(size_of::<fsmend_ext_format::inode::RawInode>()) - 128;
        let want = u32::from(raw.s_want_extra_isize.get());
        let want = if want < 4 || want > room || !want.is_multiple_of(4) { known.min(room) } else { want };
        let seed = raw.s_hash_seed.map(|word| word.get());
        Ok(Volume {
            cache,
            layout,
            policy,
            log: None,
            mode: MountState::ReadOnly,
            totals: Totals::default(),
            desc_places,
            own: HashMap::new(),
            regions: Regions::default(),
            touched: BTreeSet::new(),
            freed: PendingFrees::default(),
            held: HeldInodes::default(),
            uses: Vec::new(),
            reserve: Reserve::of(&raw),
            caller: Caller::SUPERUSER,
            now,
            quotas: Quotas::default(),
            is_bulk: false,
            home_at_sync: false,
            hash_version: raw.s_def_hash_version,
            hash_flags: raw.s_flags.get(),
            hash_seed: seed,
            extra_isize: width::low_u16(u64::from(want)),
            overhead: 0,
            orphan_block: None,
            generation: width::low_u32(now.seconds.cast_unsigned()) ^ now.nanoseconds ^ seed[0],
            geometry,
        })
    }

    fn why(&self, error: Errno) -> MountError {
        match error {
            Errno::Io => MountError::Io(self.cache.trouble().unwrap_or("the device failed").to_owned()),
            _ => {
                MountError::Corrupt(self.cache.trouble().map_or_else(|| error.to_string(), ToOwned::to_owned))
            }
        }
    }

    /// Mounts what lies on `device`.
    pub fn mount(device: Arc<dyn WritableDevice>, options: MountOptions) -> Result<Volume, MountError> {
        let MountOptions { read_only, policy, cache_bytes, bulk, home_at_sync, now } = options;
        let first = read_superblock(&*device)?;
        // Without it nothing else there means anything.
        if first.s_magic.get() != EXT_MAGIC {
            return Err(MountError::Superblock(Unsound::Magic(first.s_magic.get())));
        }
        check_features(first.features(), read_only)?;
        let mut volume = Volume::open(Arc::clone(&device), policy, cache_bytes, now)?;
        volume.is_bulk = bulk;
        volume.home_at_sync = home_at_sync;
        volume.prepare_journal(read_only, !has_right_sum(&first))?;
        // The journal may have brought another superblock.
        let raw = volume.superblock().map_err(|error| volume.why(error))?;
        if !has_right_sum(&raw) {
            return Err(MountError::Corrupt("the superblock has a wrong checksum".into()));
        }
        let geometry = Geometry::from_superblock(&raw, device.len()).map_err(MountError::Superblock)?;
        if geometry.group_count != volume.geometry.group_count
            || geometry.region_blocks != volume.geometry.region_blocks
        {
            return Err(MountError::Corrupt("the journal changes the shape of the file system".into()));
        }
        check_features(geometry.features, read_only)?;
        volume.geometry = geometry;
        volume.reserve = Reserve::of(&raw);
        volume.start(read_only, now).map_err(|error| volume.why(error))?;
        Ok(volume)
    }

    /// A superblock of two sectors may have been cut in two by a crash (`is_torn`); then a good one is in the log.
    fn prepare_journal(&mut self, read_only: bool, is_torn: bool) -> Result<(), MountError> {
        let features = self.geometry.features;
        let raw = self.superblock().map_err(|error| self.why(error))?;
        let needs_recovery = features.has_incompat(Incompat::RECOVER) || is_torn;
        if !features.has_compat(Compat::HAS_JOURNAL) {
            return Ok(());
        }
        if raw.s_journal_inum.get() == 0 {
            let matters = needs_recovery || !read_only;
            return if matters { Err(MountError::ExternalJournal) } else { Ok(()) };
        }
        let journal = InodeNo(raw.s_journal_inum.get());
        self.read_journal(journal, (needs_recovery, is_torn), read_only).map_err(|error| self.why(error))
    }

    fn read_journal(
        &mut self,
        number: InodeNo,
        (needs_recovery, is_torn): (bool, bool),
        read_only: bool,
    ) -> Result<(), Errno> {
        let inode = self.load(number)?;
        if !inode.is_regular() || number.0 < special::JOURNAL {
            return Err(self.cache.corrupt(|| "the journal is no file".into()));
        }
        let block_size = self.geometry.block_size;
        if inode.raw.size() / u64::from(block_size) > self.geometry.blocks_count {
            return Err(self.cache.corrupt(|| "the journal is larger than the file system".into()));
        }
        let extents = self.list_extents(&inode, 0, usize::MAX)?;
        let size = u64::from(block_size);
        let pieces: Vec<Piece> = extents
            .iter()
            .map(|extent| Piece {
                logical: extent.offset / size,
                physical: extent.at / size,
                count: extent.len / size,
            })
            .collect();
        let mut log = Log::open(&mut self.cache, pieces, block_size)?;
        // Without the flag, everything is home already, whatever the log says.
        if needs_recovery {
            let mut blocks = match is_torn && !log.is_dirty() {
                true => log.spare(&mut self.cache, SUPERBLOCK_OFFSET / size)?,
                false => log.replay(&mut self.cache)?,
            };
            self.cache.drop_cache();
            self.keep_flag(&mut blocks)?;
            if read_only {
                self.cache.set_replayed(blocks.into_iter().collect());
            } else {
                self.cache.write_blocks(blocks.iter().map(|(block, bytes)| (*block, bytes)))?;
                self.cache.sync()?;
            }
        }
        if !read_only {
            self.log = Some(log);
        }
        self.cache.drop_cache();
        Ok(())
    }

    /// A superblock in a log that other versions of this driver have left may be without the flag. It has it until all of the log is at home.
    fn keep_flag(&self, blocks: &mut BTreeMap<u64, Block>) -> Result<(), Errno> {
        let (block, at) = self.superblock_place();
        let Some(bytes) = blocks.get_mut(&block) else { return Ok(()) };
        let place = Arc::make_mut(bytes).get_mut(at..at + SUPERBLOCK_SIZE).ok_or(Errno::Corrupt)?;
        let mut superblock = RawSuperblock::read_from_bytes(place).map_err(|_| Errno::Corrupt)?;
        if !has_right_sum(&superblock) {
            return Ok(());
        }
        superblock.s_feature_incompat.set(superblock.s_feature_incompat.get() | Incompat::RECOVER.bits());
        if superblock.features().metadata_csum() {
            fsmend_ext_format::checksum::seal_superblock(&mut superblock);
        }
        place.copy_from_slice(superblock.as_bytes());
        Ok(())
    }

    /// From now on, the log is written to.
    fn start_log(&mut self) -> Result<(), Errno> {
        let Some(mut log) = self.log.take() else { return Ok(()) };
        log.start(&mut self.cache, self.geometry.features.has_incompat(Incompat::BIT64))?;
        if self.is_bulk {
            return log.close(&mut self.cache);
        }
        self.log = Some(log);
        Ok(())
    }

    fn start(&mut self, read_only: bool, now: Time) -> Result<(), Errno> {
        self.survey_groups()?;
        self.overhead = self.count_overhead()?;
        if read_only {
            return Ok(());
        }
        self.open_quotas()?;
        // Whatever is refused is refused before this.
        self.start_log()?;
        self.mode = MountState::Writable;
        let has_log = self.log.is_some();
        self.operation(now, |volume| {
            volume.change_superblock(|superblock| {
                if has_log {
                    let features = superblock.s_feature_incompat.get() | Incompat::RECOVER.bits();
                    superblock.s_feature_incompat.set(features);
                } else {
                    // What a journal held has been replayed, and it gets nothing new.
                    let features = superblock.s_feature_incompat.get() & !Incompat::RECOVER.bits();
                    superblock.s_feature_incompat.set(features);
                    superblock.set_state(superblock.state() & !SuperblockState::VALID);
                }
                superblock.s_mtime.set(width::low_u32(now.seconds.cast_unsigned()));
                superblock.s_mtime_hi = width::low_u8(now.seconds.cast_unsigned() >> 32);
                superblock.s_mnt_count.set(superblock.s_mnt_count.get().saturating_add(1));
            })
        })?;
        if has_log {
            self.geometry.features.incompat |= Incompat::RECOVER;
        } else {
            self.geometry.features.incompat &= !Incompat::RECOVER;
        }
        // This is the spare transaction. Only when the superblock is home does the log say that it may hold something.
        self.commit(now)?;
        self.empty_log()?;
        self.clean_up_orphans(now)
    }

    /// Units of a group that `ranges` of its blocks lie in, which are sorted and do not touch.
    fn own_units(&self, ranges: &[std::ops::Range<u64>]) -> u64 {
        let mut end = 0;
        ranges
            .iter()
            .map(|range| {
                let units = self.units_of(range);
                let new = units.end.saturating_sub(units.start.max(end));
                end = units.end;
                new
            })
            .sum()
    }

    /// Blocks that the format itself takes, the journal and the indirect regions among them.
    fn count_overhead(&mut self) -> Result<u64, Errno> {
        let own: u64 = self.own.values().map(|ranges| self.own_units(ranges)).sum();
        let mut overhead =
            own * self.unit() + u64::from(self.geometry.first_data_block) + self.regions.blocks();
        let journal = self.superblock()?.s_journal_inum.get();
        if self.geometry.features.has_compat(Compat::HAS_JOURNAL) && journal != 0 {
            let inode = self.load(InodeNo(journal))?;
            overhead += inode.raw.size() / u64::from(self.geometry.block_size);
        }
        Ok(overhead)
    }

    /// Leaves the file system clean.
    pub fn unmount(&mut self, now: Time) -> Result<(), Errno> {
        let result = match self.mode {
            MountState::Unmounted => return Ok(()),
            MountState::ReadOnly => Ok(()),
            MountState::Failed => Err(Errno::Io),
            MountState::Writable => self.leave_clean(now),
        };
        self.mode = MountState::Unmounted;
        result
    }

    fn leave_clean(&mut self, now: Time) -> Result<(), Errno> {
        for number in self.held.release_all() {
            if self.load_any(number)?.links() == 0 {
                self.finish_removal(number, now)?;
            }
        }
        let had_log = self.log.is_some();
        self.commit(now)?;
        self.flush_home()?;
        // Everything is at home now: the log says so first, then, in the spare transaction and at home, the superblock.
        self.set_log_aside()?;
        self.change_superblock(|superblock| {
            if had_log {
                let features = superblock.s_feature_incompat.get() & !Incompat::RECOVER.bits();
                superblock.s_feature_incompat.set(features);
            }
            superblock.set_state(superblock.state() | SuperblockState::VALID);
        })?;
        self.commit(now)?;
        self.flush_home()?;
        self.log = None;
        Ok(())
    }
}
