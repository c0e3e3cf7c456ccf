// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounting: which state counts, and what has to be done before anything is written. docs/formats/hybridfs.md, Recovery.

use fsmend_base::width;
use fsmend_blockcache::{HeldInodes, MountState};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use fsmend_device::WritableDevice;
use fsmend_hybridfs_format::{
    ANCHORS, Anchor, AnchorFlags, DATA_BITMAPS, HEADER_LEN, Incompat, Kind, OWNER_BFILE, Run, Stream,
    Summary, SummaryFlags, Superblock, anchor_offset, plain_crc,
};
use fsmend_vfs::{Caller, Errno, Result, Time};

use crate::cleaner::Cleaning;
use crate::commit::read_bits;
use crate::fs::Hybrid;
use crate::group::Groups;
use crate::io::{Expected, Io};
use crate::space::Space;
use crate::tree::{Leaves, Tree};
use crate::volume::{Commit, Last, Need, Volume, ifile};

/// Segments that recovery follows at most, fences included.
const CHAIN_MAX: usize = 256;

/// How to mount.
#[derive(Clone, Copy, Debug)]
pub struct MountOptions {
    /// Nothing is written to the device.
    pub read_only: bool,
    /// For measuring: data blocks are taken from the log, out of place, as a log-structured file system does it. Other programs take what comes of it for damage.
    pub all_in_log: bool,
    /// For measuring, with `all_in_log`: the log is taken in free zones as large as a segment, and zones are cleaned to have some.
    pub cleaner: Option<Cleaning>,
    /// The time.
    pub now: Time,
}

impl MountOptions {
    /// For reading and writing.
    pub fn new(now: Time) -> Self {
        MountOptions { read_only: false, all_in_log: false, cleaner: None, now }
    }

    /// For reading only.
    pub fn read_only(now: Time) -> Self {
        MountOptions { read_only: true, all_in_log: false, cleaner: None, now }
    }
}

/// Why a file system cannot be mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MountError {
    /// The device could not be read or written.
    Io(String),
    /// There is no superblock of a hybridfs that can be used, and why.
    Superblock(String),
    /// Features that this driver does not know.
    Features(u64),
    /// It is damaged, and how.
    Corrupt(String),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::Io(why) => f.write_str(why),
            MountError::Superblock(why) => write!(f, "no usable superblock: {why}"),
            MountError::Features(bits) => write!(f, "unknown features: {bits:#x}"),
            MountError::Corrupt(what) => write!(f, "damaged: {what}"),
        }
    }
}

impl std::error::Error for MountError {}

/// A segment that recovery has read.
struct Found {
    summary: Summary,
    crc: u32,
    stream: Stream,
    continuations: Vec<u64>,
}

impl Hybrid {
    /// Mounts what lies on `device`. The last segment that is whole counts; what a crash has left is cleaned up.
    pub fn mount(
        device: Arc<dyn WritableDevice>,
        options: MountOptions,
    ) -> std::result::Result<Hybrid, MountError> {
        let sb = superblock(&device)?;
        let unknown =
            (sb.incompat & !Incompat::LOG_DEVICE).bits() | if options.read_only { 0 } else { sb.ro_compat };
        if unknown != 0 {
            return Err(MountError::Features(unknown));
        }
        if let Some((start, _)) = sb.log_device() {
            let mut bytes = vec![0; 512];
            let read = device.read_at(start, &mut bytes).map_err(|error| MountError::Io(error.to_string()));
            read?;
            let is_ours = |copy: Superblock| (copy.uuid, copy.log_uuid) == (sb.uuid, sb.log_uuid);
            if Superblock::parse(&bytes).is_ok_and(|copy| !is_ours(copy)) {
                return Err(MountError::Superblock("the device of the log is another one".to_owned()));
            }
        }
        let mut io = Io::new(device, sb);
        io.all_in_log = options.all_in_log;
        let (anchor, chain) = chain(&io)?;
        let mut volume =
            volume(io, &anchor, &chain, options.read_only).map_err(|failed| told(&failed.0, failed.1))?;
        if !options.read_only {
            let is_clean = anchor.flags.contains(AnchorFlags::CLEAN)
                && chain.len() == 1
                && anchor.ssn == volume.last.ssn;
            volume.set_cleaner(options.cleaner);
            let prepared = volume.prepare(is_clean, anchor.ssn, options.now);
            prepared.map_err(|error| told(&volume.io, error))?;
        }
        Ok(Hybrid { volume })
    }
}

fn told(io: &Io, error: Errno) -> MountError {
    let what = io.trouble.get().cloned().unwrap_or_else(|| error.to_string());
    if error == Errno::Corrupt { MountError::Corrupt(what) } else { MountError::Io(what) }
}

/// The first superblock that is right: the one at its place, or a copy at the end or where the log is likely to be. The one in a log elsewhere cannot be found without one of them.
fn superblock(device: &Arc<dyn WritableDevice>) -> std::result::Result<Superblock, MountError> {
    let mut why = String::new();
    let likely = || Superblock::likely_places(device.len());
    for offset in
        Superblock::usual_places(device.len()).into_iter().chain(std::iter::once_with(likely).flatten())
    {
        let mut bytes = vec![0; 512];
        let sb = match device.read_at(offset, &mut bytes) {
            Err(error) => Err(error.to_string()),
            Ok(()) => Superblock::parse(&bytes).map_err(|error| error.to_string()),
        };
        match sb {
            Ok(sb) if sb.fragments.saturating_mul(u64::from(sb.fragment_size)) <= device.len() => {
                return Ok(sb);
            }
            Ok(sb) if sb.log_device().is_some() => {
                why =
                    "its log is on another device, which was not found; give it with -o log=PATH".to_owned();
            }
            Ok(_) => why = "the device is too short".to_owned(),
            Err(error) if why.is_empty() => why = error,
            Err(_) => {}
        }
    }
    Err(MountError::Superblock(why))
}

/// The anchor to begin with, and the segments from there to the last one that is whole.
fn chain(io: &Io) -> std::result::Result<(Anchor, Vec<Found>), MountError> {
    let mut anchors: Vec<Anchor> = (0..ANCHORS).filter_map(|slot| read_anchor(io, slot)).collect();
    anchors.sort_by_key(|anchor| std::cmp::Reverse(anchor.number));
    for anchor in anchors {
        let Some(first) = segment(io, anchor.summary) else { continue };
        // Numbers have to go on for as long as anything lives.
        let is_it = anchor.ssn < 1 << 60
            && anchor.number < 1 << 60
            && first.summary.ssn == anchor.ssn
            && first.crc == anchor.summary_crc;
        if !is_it || !first.summary.flags.contains(SummaryFlags::CHECKPOINT) {
            continue;
        }
        let mut found = vec![first];
        while let Some(last) = found.last().filter(|_| found.len() < CHAIN_MAX) {
            let Some(next) = segment(io, last.summary.next) else { break };
            let follows = next.summary.ssn == last.summary.ssn.wrapping_add(1)
                && next.summary.previous == last.summary.address
                && next.summary.previous_crc == last.crc;
            if !follows {
                break;
            }
            found.push(next);
        }
        while found.last().is_some_and(|last| !is_whole(io, &last.stream)) {
            found.pop();
        }
        if !found.is_empty() {
            return Ok((anchor, found));
        }
    }
    Err(MountError::Corrupt("no anchor leads to a whole segment".to_owned()))
}

fn read_anchor(io: &Io, slot: u64) -> Option<Anchor> {
    let mut bytes = vec![0; 512];
    io.peek(anchor_offset(&io.sb, slot), &mut bytes)?;
    Anchor::parse(&bytes, &io.sb.uuid).ok()
}

fn block(io: &Io, address: u64) -> Option<Vec<u8>> {
    let (log, per_block) = (io.sb.log(), io.sb.per_block());
    if address < log.start || address.checked_add(per_block)? > log.end {
        return None;
    }
    let mut bytes = vec![0; io.block_size()];
    io.peek(io.offset(address), &mut bytes)?;
    Some(bytes)
}

/// A summary with all of its stream.
fn segment(io: &Io, address: u64) -> Option<Found> {
    let first = block(io, address)?;
    let (summary, crc, part) = Summary::parse(&first, address, &io.sb.uuid).ok()?;
    let len = usize::try_from(summary.stream_len).ok()?;
    // More than the log can hold is nonsense.
    let rows_max = usize::try_from(io.sb.log_fragments.saturating_mul(64)).ok()?;
    if len > rows_max {
        return None;
    }
    let mut stream = part.to_vec();
    let mut continuations = Vec::new();
    let mut next = summary.continuation;
    for number in 0..summary.continuations {
        let bytes = block(io, next)?;
        continuations.push(next);
        let (behind, part) =
            Summary::parse_continuation(&bytes, (summary.ssn, u64::from(number), next), &io.sb.uuid).ok()?;
        stream.extend_from_slice(part);
        if stream.len() > len {
            return None;
        }
        next = behind;
    }
    if stream.len() != len || plain_crc(&stream) != summary.stream_crc {
        return None;
    }
    let stream = Stream::parse(&stream, summary.counts).ok()?;
    Some(Found { summary, crc, stream, continuations })
}

/// Whether every object of the body is what it was.
fn is_whole(io: &Io, stream: &Stream) -> bool {
    let log = io.sb.log();
    stream.rows.iter().all(|row| {
        let end = row.address.checked_add(u64::from(row.len));
        let is_large = u64::from(row.len) > io.sb.per_block();
        if is_large || row.address < log.start || end.is_none_or(|end| end > log.end) {
            return false;
        }
        let mut bytes = vec![0; usize::from(row.len) * io.sb.fragment_size as usize];
        io.peek(io.offset(row.address), &mut bytes).is_some() && plain_crc(&bytes) == row.crc
    })
}

type Failed = Box<(Io, Errno)>;

/// The file system as the last segment has it.
fn volume(io: Io, anchor: &Anchor, chain: &[Found], read_only: bool) -> std::result::Result<Volume, Failed> {
    let Some(last) = chain.last() else { return Err(Box::new((io, Errno::Corrupt))) };
    let summary = &last.summary;
    let Some(start) = chain.iter().position(|found| found.summary.ssn == summary.checkpoint) else {
        let error = io.corrupt(|| "the last checkpoint is not on the way from the anchor".to_owned());
        return Err(Box::new((io, error)));
    };
    let mut bfile = Tree::new(Leaves::Bitmaps, OWNER_BFILE, 0, summary.bfile.clone());
    let space = match read_only {
        // A reader takes no space.
        true => Ok(Space::new(
            &io.sb,
            vec![u64::MAX; words(io.sb.log_fragments)],
            vec![u64::MAX; words(io.sb.data_blocks())],
            summary.totals,
        )),
        false => bitmaps(&io, &mut bfile, &chain[start..], summary),
    };
    let space = match space {
        Ok(space) => space,
        Err(error) => return Err(Box::new((io, error))),
    };
    let per_block = io.sb.per_block();
    let own = |found: &Found| {
        let places = [found.summary.address].into_iter().chain(found.continuations.iter().copied());
        (found.summary.ssn, places.map(|address| Run { address, len: per_block }).collect())
    };
    Ok(Volume {
        ifile: ifile(summary.ifile.clone()),
        bfile,
        space,
        inodes: HashMap::new(),
        blocks: BTreeMap::new(),
        held: HeldInodes::default(),
        caller: Caller::SUPERUSER,
        last: Last {
            ssn: summary.ssn,
            address: summary.address,
            crc: last.crc,
            next: summary.next,
            checkpoint: summary.checkpoint,
            checkpoint_address: summary.checkpoint_address,
            checkpoint_crc: chain[start].crc,
            anchor: anchor.number,
            mount: summary.mount,
        },
        summaries: chain[start..].iter().map(own).collect(),
        dirty: BTreeSet::new(),
        waiting: 0,
        waiting_data: 0,
        doomed: Vec::new(),
        groups: Groups::default(),
        written: summary.written,
        pin: None,
        cleaner: None,
        generation: summary.generation,
        hint: 0,
        mode: if read_only { MountState::ReadOnly } else { MountState::Writable },
        io,
    })
}

fn words(units: u64) -> usize {
    width::index(units.div_ceil(64))
}

/// The bitmaps of the checkpoint, and what came after it.
fn bitmaps(io: &Io, bfile: &mut Tree, chain: &[Found], last: &Summary) -> Result<Space> {
    let sb = &io.sb;
    let mut log = vec![u64::MAX; words(sb.log_fragments)];
    let mut data = vec![u64::MAX; words(sb.data_blocks())];
    let keys = (0..sb.log_bitmaps()).chain((0..sb.ags()).map(|ag| DATA_BITMAPS + ag));
    for key in keys {
        let record = bfile.get(io, key)?.ok_or_else(|| io.corrupt(|| format!("there is no bitmap {key}")))?;
        let expected = Expected {
            kind: Kind::Bitmap,
            level: 0,
            owner: OWNER_BFILE,
            generation: 0,
            key,
            birth: record.birth,
        };
        let (_, bytes) = io.headed(record.place, &expected)?;
        let bits = bytes.get(HEADER_LEN..).unwrap_or_default();
        match key.checked_sub(DATA_BITMAPS) {
            None => read_bits(&mut log, key * sb.bitmap_units(), sb.bitmap_units(), bits),
            Some(ag) => read_bits(&mut data, ag * u64::from(sb.ag_blocks), u64::from(sb.ag_blocks), bits),
        }
    }
    let mut space = Space::new(sb, log, data, last.totals);
    for found in chain.iter().skip(1) {
        let stream = &found.stream;
        for run in &stream.freed {
            space.mark(sb, *run, false);
        }
        let rows = stream.rows.iter().map(|row| Run { address: row.address, len: u64::from(row.len) });
        let own = found.continuations.iter().map(|address| Run { address: *address, len: sb.per_block() });
        for run in rows.chain(stream.data.iter().copied()).chain(own) {
            space.mark(sb, run, true);
        }
        space.mark_log(found.summary.address, sb.per_block(), true);
        space.mark_log(found.summary.next, sb.per_block(), true);
    }
    space.pending = VecDeque::new();
    Ok(space)
}

impl Volume {
    /// What a writer does first: a fence, the anchor, the orphans.
    fn prepare(&mut self, is_clean: bool, anchored: u64, now: Time) -> Result<()> {
        if is_clean {
            self.last.mount = self.last.mount.wrapping_add(1);
            return Ok(());
        }
        // Until the anchor has moved, summaries from the old one on must stay; the fence takes one block that is free in all of these states.
        if anchored != self.last.checkpoint {
            self.write_anchor(false)?;
        }
        self.commit(now, Commit::Fence)?;
        // However often the power fails on the way, the next mount does not read more and more.
        if self.summaries.len() as u64 > u64::from(self.io.sb.checkpoint_segments) {
            self.commit(now, Commit::Checkpoint)?;
        }
        self.remove_orphans(now)
    }

    /// Removes all inodes without names.
    pub fn remove_orphans(&mut self, now: Time) -> Result<()> {
        if self.space.totals.orphans == 0 {
            return Ok(());
        }
        let per_block = u64::from(self.io.sb.inodes_per_block());
        let mut key = 0;
        let mut orphans: Vec<u32> = Vec::new();
        while let Some(record) = self.ifile.next(&self.io, key)? {
            let bits = (record.aux >> 32) as u32;
            let number = |at: u64| {
                record.key.checked_mul(per_block)?.checked_add(at).and_then(|at| u32::try_from(at).ok())
            };
            orphans.extend((0..per_block).filter(|at| bits >> at & 1 != 0).filter_map(number));
            key = record.key.saturating_add(1);
        }
        let pending = self.blocks.iter().filter(|(_, block)| block.dirty);
        for (block, inodes) in pending {
            orphans.extend(
                (0..per_block)
                    .filter(|at| inodes.orphans >> at & 1 != 0)
                    .map(|at| width::low_u32(block * per_block + at)),
            );
        }
        orphans.sort_unstable();
        orphans.dedup();
        for number in orphans {
            self.admit(Need { removes: true, log: 0 }, now)?;
            let (block, at) = (u64::from(number) / per_block, u64::from(number) % per_block);
            // It may have got a name again since the last segment.
            if self.inode_block(block)?.orphans >> at & 1 != 0 {
                self.remove_in_steps(number, now)?;
            }
        }
        Ok(())
    }
}
