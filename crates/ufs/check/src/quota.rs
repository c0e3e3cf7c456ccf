// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quota files: what they say that users and groups have in use, beside what inodes say. FreeBSD's fsck_ffs does not look at them; quotacheck(8) does, on mounted file systems.
//!
//! Nothing is gathered while inodes are scanned: few file systems have quota files, and those have their inodes read once more. An owner without a record has no limits
//! and is not judged.

use std::collections::BTreeMap;

use fsmend_base::{InodeNo, width};
use fsmend_engine::checker::{Checkable, InodeSummary};
use fsmend_engine::crosscheck::quota::{Owner, QuotaKind, QuotaUsage, Used};
use fsmend_engine::format::Volume;
use fsmend_engine::names::paths::Directories;
use fsmend_engine::repair::WritableOverlay;
use fsmend_engine::{Findings, Problem};
use fsmend_ufs_format::SECTOR;
use fsmend_ufs_format::geometry::ROOT;
use fsmend_ufs_format::inode::{Inode, mode};
use fsmend_ufs_format::quota::{InUse, Layout, NAMES, header, header_is_right};

use crate::blocks::contents;
use crate::inode::is_snapshot;
use crate::{UfsFs, rows};

/// So many bytes of inodes are read at once.
const READ_BYTES: u64 = 1 << 20;
/// Permission of others to write.
const OTHERS_WRITE: u16 = 0o002;
const KINDS: [QuotaKind; 2] = [QuotaKind::User, QuotaKind::Group];

/// A quota file.
struct File {
    kind: QuotaKind,
    number: InodeNo,
    layout: Layout,
    /// Byte offsets in the file, on the device, and the bytes of each block.
    blocks: Vec<(u64, u64, Vec<u8>)>,
}

/// A record that is wrong: the byte where it stands, what it says, what it should.
struct Wrong {
    owner: u32,
    place: u64,
    record: Vec<u8>,
    stored: InUse,
    observed: InUse,
}

/// Raises what is wrong with quota files.
pub fn check(fs: &UfsFs<'_>, findings: &mut Findings) {
    let row = if fs.layout.is_clean() { &rows::QUOTA_USAGE } else { &rows::QUOTA_STALE };
    visit(fs, &mut |file, wrongs| {
        if file.needs_header() {
            findings.raise(Problem::new(&rows::QUOTA_HEADER).inode(file.number));
        }
        for wrong in wrongs {
            for (what, stored, observed) in [
                ("sectors", wrong.stored.sectors, wrong.observed.sectors),
                ("inodes", wrong.stored.inodes, wrong.observed.inodes),
            ] {
                if stored != observed {
                    let problem = Problem::new(row).inode(file.number).detail("what", what);
                    let kind = if file.kind == QuotaKind::User { "user" } else { "group" };
                    let problem = problem.detail("kind", kind).detail("owner", wrong.owner);
                    findings.raise(problem.stored(stored).observed(observed));
                }
            }
        }
    });
}

/// Puts what inodes say into quota files.
pub fn store(fs: &UfsFs<'_>, to: &dyn WritableOverlay) {
    visit(fs, &mut |file, wrongs| {
        if file.needs_header()
            && let Some((_, place, _)) = file.blocks.first()
        {
            to.write(*place, &header());
        }
        for Wrong { place, mut record, observed, .. } in wrongs {
            if file.layout.write(&mut record, observed) {
                to.write(place, &record);
            }
        }
    });
}

/// Calls `found` for each quota file, with its wrong records.
fn visit(fs: &UfsFs<'_>, found: &mut dyn FnMut(&File, Vec<Wrong>)) {
    let files = files(fs);
    if files.is_empty() {
        return;
    }
    let usage = usage(fs, &files);
    for file in &files {
        let used = usage.of(file.kind);
        found(file, file.wrong(&used));
    }
}

fn files(fs: &UfsFs<'_>) -> Vec<File> {
    let mut numbers = BTreeMap::new();
    fs.visit_entries(InodeNo(ROOT), &|_| true, &mut |inode, name| {
        if let Some(index) = NAMES.iter().position(|known| *known == name) {
            numbers.insert(index, inode);
        }
    });
    numbers.into_iter().filter_map(|(index, number)| File::open(fs, KINDS[index], number)).collect()
}

impl File {
    /// The file, if it is one that root has made for quotas.
    fn open(fs: &UfsFs<'_>, kind: QuotaKind, number: InodeNo) -> Option<File> {
        let record = fs.record(number)?;
        let is_ours = record.file_type() == mode::REGULAR
            && record.uid() == 0
            && record.mode() & OTHERS_WRITE == 0
            && !is_snapshot(&record);
        if !is_ours {
            return None;
        }
        let geometry = fs.geometry();
        let block = |(index, fragment, len): (u64, u64, usize)| {
            Some((index * geometry.block_size, geometry.place(fragment), fs.read(fragment, len)?))
        };
        let blocks: Vec<_> = contents(fs, &record).into_iter().filter_map(block).collect();
        let (at, _, first) = blocks.first()?;
        let layout = Layout::of(if *at == 0 { first } else { &[] }, geometry.order);
        let file = File { kind, number, layout, blocks };
        file.makes_sense(geometry.inode_count()).then_some(file)
    }

    /// A file without a header says what it is by its first record alone: root owns inodes, the root directory at least.
    fn makes_sense(&self, inode_count: u32) -> bool {
        let inodes = self.records().find(|(owner, ..)| *owner == 0).map(|(.., stored)| stored.inodes);
        self.layout == Layout::Wide
            || inodes.is_some_and(|inodes| (1..=u64::from(inode_count)).contains(&inodes))
    }

    fn needs_header(&self) -> bool {
        self.layout == Layout::Wide && !self.blocks.first().is_some_and(|(.., bytes)| header_is_right(bytes))
    }

    /// Owner, place and bytes of each record that has a block, and what it says.
    fn records(&self) -> impl Iterator<Item = (u32, u64, &[u8], InUse)> {
        let size = self.layout.record_size();
        self.blocks.iter().flat_map(move |(offset, place, bytes)| {
            bytes.chunks_exact(size).zip((0u64..).step_by(size)).filter_map(move |(record, at)| {
                Some((self.layout.owner_at(offset + at)?, place + at, record, self.layout.read(record)))
            })
        })
    }

    fn wrong(&self, used: &BTreeMap<u32, Used>) -> Vec<Wrong> {
        let records = self.records().filter_map(|(owner, place, record, stored)| {
            let used = used.get(&owner).copied().unwrap_or_default();
            let observed = InUse { sectors: used.bytes / SECTOR, inodes: used.inodes };
            let is_wrong = stored != observed && self.layout.write(&mut record.to_vec(), observed);
            is_wrong.then(|| Wrong { owner, place, record: record.to_vec(), stored, observed })
        });
        records.collect()
    }
}

/// What all inodes take of their owners' space. Snapshots and the quota files themselves do not count, nor do owners whose numbers quotacheck takes for negative.
fn usage(fs: &UfsFs<'_>, files: &[File]) -> QuotaUsage {
    let mut usage = QuotaUsage::new();
    let mut summary = InodeSummary::default();
    each_record(fs, &mut |number, bytes| {
        let is_sound = fs.summarize(number, bytes, &mut summary);
        let mended;
        let bytes = if is_sound {
            bytes
        } else {
            mended = crate::inspection::inspect(fs, number, bytes, &mut Findings::new()).record;
            &mended
        };
        let inode = fs.view(bytes);
        if counts(&inode) && !files.iter().any(|file| file.number == number) {
            let has_blocks = matches!(inode.file_type(), mode::REGULAR | mode::DIRECTORY | mode::LINK);
            let sectors = if has_blocks { inode.sectors() } else { 0 };
            let owner = Owner { uid: inode.uid(), gid: inode.gid(), projid: 0 };
            usage.charge(owner, sectors.saturating_mul(SECTOR));
        }
    });
    usage
}

fn counts(inode: &Inode<&[u8]>) -> bool {
    let is_number = |id: u32| i32::try_from(id).is_ok();
    inode.mode() != 0 && !is_snapshot(inode) && is_number(inode.uid()) && is_number(inode.gid())
}

/// Calls `visit` for every inode that was ever written and can be read.
fn each_record(fs: &UfsFs<'_>, visit: &mut dyn FnMut(InodeNo, &[u8])) {
    let size = fs.record_bytes() as u64;
    let at_once = width::low_u32(READ_BYTES / size);
    for group in 0..fs.geometry().groups {
        let first = group * fs.inodes_per_chunk();
        let count = fs.scanned_in(group);
        for part in (0..count).step_by(at_once as usize) {
            let number = (first + part).max(ROOT);
            let len = u64::from((first + part + at_once.min(count - part)).saturating_sub(number)) * size;
            let mut bytes = vec![0; width::index(len)];
            let is_read = fs
                .record_place(InodeNo(number))
                .is_some_and(|place| fs.device().read_at(place, &mut bytes).is_ok());
            if is_read {
                for (record, number) in bytes.chunks_exact(width::index(size)).zip(number..) {
                    visit(InodeNo(number), record);
                }
            }
        }
    }
}
