// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the empty files of an unmounted ext3 image large, fragmented block maps, without writing a byte of data.
//!
//! Through the kernel this would take hundreds of gigabytes of writes. So the maps are written straight into the image: blocks are
//! handed out in short runs to many files in turn, the way an old and busy file server leaves them, and bitmaps, counts and
//! indirect blocks are written as the kernel would. e2fsck judges the result before it is used.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsmend_base::SeededRandom;
use fsmend_ext_format::group::RawGroupDesc;
use fsmend_ext_format::inode::{RawInode, mode};
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::bench::populate::Tree;

/// How many files there are, and the seed of their sizes and fragments.
pub struct Plan {
    /// Number of files.
    pub files: u32,
    /// Seed.
    pub seed: u64,
}

impl Plan {
    /// The tree of empty files that the kernel makes first.
    pub fn tree(&self) -> Tree {
        Tree { fan: vec![20, 10], entries: self.files + 220 }
    }
}

const BLOCK: usize = 4096;
const POINTERS: usize = BLOCK / 4;
const DIRECT: usize = 12;
/// Files whose fragments are dealt out in turn.
const FILES_AT_ONCE: usize = 64;

/// Gives every empty regular file of the image a map; returns how many indirect blocks there are now.
pub fn map_files(image: &Path, plan: &Plan) -> io::Result<u64> {
    let mut volume = Volume::open(OpenOptions::new().read(true).write(true).open(image)?)?;
    let mut random = SeededRandom::new(plan.seed);
    let files = volume.empty_files()?;
    let mut indirect = 0;
    for batch in files.chunks(FILES_AT_ONCE) {
        let mut maps: Vec<Map> = batch.iter().map(|_| Map::new(wanted_blocks(&mut random))).collect();
        while maps.iter().any(|map| map.data.len() < map.wanted) {
            for map in &mut maps {
                let run = (1 + random.below(12) as usize).min(map.wanted - map.data.len());
                for _ in 0..run {
                    map.data.push(volume.allocate()?);
                }
            }
        }
        for (place, map) in batch.iter().zip(&maps) {
            indirect += volume.write_map(*place, &map.data)?;
        }
    }
    volume.finish()?;
    Ok(indirect)
}

/// Sizes as on a file server: most need one to three indirect blocks, a few need many.
fn wanted_blocks(random: &mut SeededRandom) -> usize {
    let blocks = match random.below(100) {
        0 => 4000 + random.below(12_000),
        1..=29 => 20 + random.below(900),
        _ => 200 + random.below(1800),
    };
    blocks as usize
}

struct Map {
    wanted: usize,
    data: Vec<u32>,
}

impl Map {
    fn new(wanted: usize) -> Self {
        Map { wanted, data: Vec::with_capacity(wanted) }
    }
}

/// The image under the knife. Old-style ext3 only: 4 KiB blocks, 32-byte descriptors, no checksums.
struct Volume {
    file: File,
    superblock: RawSuperblock,
    descriptors: Vec<RawGroupDesc>,
    bitmap: Vec<u8>,
    group: usize,
    bit: usize,
    allocated_in_group: u16,
}

impl Volume {
    fn open(file: File) -> io::Result<Self> {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        file.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET)?;
        let superblock: RawSuperblock = zerocopy::transmute!(bytes);
        let groups =
            superblock.s_blocks_count_lo.get().div_ceil(superblock.s_blocks_per_group.get()) as usize;
        let mut table = vec![0; groups * 32];
        file.read_exact_at(&mut table, BLOCK as u64)?;
        let descriptors = table.chunks(32).map(parse_descriptor).collect();
        let mut volume = Volume {
            file,
            superblock,
            descriptors,
            bitmap: vec![0; BLOCK],
            group: 0,
            bit: 0,
            allocated_in_group: 0,
        };
        volume.load_bitmap()?;
        Ok(volume)
    }

    fn load_bitmap(&mut self) -> io::Result<()> {
        let block = u64::from(self.descriptors[self.group].bg_block_bitmap_lo.get());
        self.file.read_exact_at(&mut self.bitmap, block * BLOCK as u64)
    }

    fn store_bitmap(&mut self) -> io::Result<()> {
        let descriptor = &mut self.descriptors[self.group];
        let block = u64::from(descriptor.bg_block_bitmap_lo.get());
        let free = descriptor.bg_free_blocks_count_lo.get() - self.allocated_in_group;
        descriptor.bg_free_blocks_count_lo.set(free);
        let total = self.superblock.s_free_blocks_count_lo.get() - u32::from(self.allocated_in_group);
        self.superblock.s_free_blocks_count_lo.set(total);
        self.allocated_in_group = 0;
        self.file.write_all_at(&self.bitmap, block * BLOCK as u64)
    }

    /// The next free block, in address order (bits beyond the end of the last group are set in the bitmap).
    fn allocate(&mut self) -> io::Result<u32> {
        loop {
            while self.bit < BLOCK * 8 {
                let (byte, mask) = (self.bit / 8, 1 << (self.bit % 8));
                self.bit += 1;
                if self.bitmap[byte] & mask == 0 {
                    self.bitmap[byte] |= mask;
                    self.allocated_in_group += 1;
                    return Ok((self.group * BLOCK * 8 + self.bit - 1) as u32);
                }
            }
            self.store_bitmap()?;
            self.group += 1;
            self.bit = 0;
            if self.group >= self.descriptors.len() {
                return Err(io::Error::other("the image is full: fewer or smaller files, please"));
            }
            self.load_bitmap()?;
        }
    }

    /// Byte offsets of the inode records of all empty regular files.
    fn empty_files(&self) -> io::Result<Vec<u64>> {
        let inode_size = usize::from(self.superblock.s_inode_size.get());
        let mut places = Vec::new();
        for descriptor in &self.descriptors {
            let table_start = u64::from(descriptor.bg_inode_table_lo.get()) * BLOCK as u64;
            let mut table = vec![0; self.superblock.s_inodes_per_group.get() as usize * inode_size];
            self.file.read_exact_at(&mut table, table_start)?;
            for (index, record) in table.chunks(inode_size).enumerate() {
                let inode = RawInode::from_record(record);
                if inode.file_type() == mode::REGULAR
                    && inode.i_links_count.get() == 1
                    && inode.size() == 0
                    && inode.i_blocks_lo.get() == 0
                {
                    places.push(table_start + (index * inode_size) as u64);
                }
            }
        }
        Ok(places)
    }

    /// Maps `data` into the inode at `place`, writing the indirect blocks; returns how many those are.
    fn write_map(&mut self, place: u64, data: &[u32]) -> io::Result<u64> {
        let mut record = [0; size_of::<RawInode>()];
        self.file.read_exact_at(&mut record, place)?;
        let mut inode = RawInode::from_record(&record);
        let mut words = [0; 15];
        let (direct, rest) = data.split_at(DIRECT.min(data.len()));
        words[..direct.len()].copy_from_slice(direct);
        let mut indirect = 0;
        let (single, rest) = rest.split_at(POINTERS.min(rest.len()));
        if !single.is_empty() {
            words[12] = self.write_pointers(single)?;
            indirect += 1;
        }
        if !rest.is_empty() {
            let leaves: Vec<u32> =
                rest.chunks(POINTERS).map(|leaf| self.write_pointers(leaf)).collect::<io::Result<_>>()?;
            words[13] = self.write_pointers(&leaves)?;
            indirect += leaves.len() as u64 + 1;
        }
        inode.i_block.copy_from_slice(&words.map(u32::to_le_bytes).concat());
        inode.i_size_lo.set((data.len() * BLOCK) as u32);
        inode.i_blocks_lo.set(((data.len() as u64 + indirect) * (BLOCK as u64 / 512)) as u32);
        inode.store(&mut record);
        self.file.write_all_at(&record, place)?;
        Ok(indirect)
    }

    fn write_pointers(&mut self, pointers: &[u32]) -> io::Result<u32> {
        let block = self.allocate()?;
        let mut bytes: Vec<u8> = pointers.iter().flat_map(|pointer| pointer.to_le_bytes()).collect();
        bytes.resize(BLOCK, 0);
        self.file.write_all_at(&bytes, u64::from(block) * BLOCK as u64)?;
        Ok(block)
    }

    /// Writes the last bitmap, the descriptors and the superblock (the backups keep their old counts, as usual).
    fn finish(mut self) -> io::Result<()> {
        self.store_bitmap()?;
        let table: Vec<u8> =
            self.descriptors.iter().flat_map(|descriptor| descriptor.as_bytes()[..32].to_vec()).collect();
        self.file.write_all_at(&table, BLOCK as u64)?;
        self.file.write_all_at(self.superblock.as_bytes(), SUPERBLOCK_OFFSET)?;
        self.file.sync_all()
    }
}

fn parse_descriptor(bytes: &[u8]) -> RawGroupDesc {
    let mut descriptor = RawGroupDesc::new_zeroed();
    if let Ok(half) = <[u8; 32]>::read_from_bytes(bytes) {
        descriptor.as_mut_bytes()[..32].copy_from_slice(&half);
    }
    descriptor
}
