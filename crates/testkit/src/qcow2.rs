// SPDX-License-Identifier: MIT OR Apache-2.0
//! qcow2 images of any shape, and a judge of them that shares no code with the program: how often each cluster is used, and how often it is said to be.

use fsmend_base::SeededRandom;

const COPIED: u64 = 1 << 63;
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;

/// What is in a cluster of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: zeroes, or what the backing image has.
    Hole,
    /// Bytes of this value.
    Data(u8),
    /// Marked as zeroes, with a place kept for it or without.
    Zero {
        /// Whether there is a place.
        kept: bool,
    },
    /// Compressed bytes of this value.
    Compressed(u8),
}

/// Who else has a table of level 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// No other.
    Own,
    /// A snapshot has the table.
    Table,
    /// A snapshot has another table that leads to the same clusters.
    Data,
}

/// The shape of an image.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Bytes in a cluster, as a power of two.
    pub cluster_bits: u32,
    /// Bits of a refcount, as a power of two.
    pub refcount_order: u32,
    /// What is in the clusters of the disk.
    pub kinds: Vec<Kind>,
    /// Who has the tables of level 2; those beyond are not shared.
    pub sharing: Vec<Sharing>,
    /// Bytes that the disk has less than its clusters.
    pub cut: u64,
    /// A raw image under it.
    pub backing: Option<String>,
    /// Incompatible features, and those to clear.
    pub features: (u64, u64),
}

impl Shape {
    /// A shape without features.
    pub fn new(cluster_bits: u32, refcount_order: u32, kinds: Vec<Kind>) -> Self {
        let (sharing, cut, backing, features) = (Vec::new(), 0, None, (0, 0));
        Shape { cluster_bits, refcount_order, kinds, sharing, cut, backing, features }
    }

    /// A shape with something of everything.
    pub fn random(seed: u64) -> Self {
        let mut random = SeededRandom::new(seed);
        let cluster_bits = [9, 12, 12, 16][random.below(4) as usize];
        let entries = (1u64 << cluster_bits) / 8;
        let count = 1 + random.below(if cluster_bits == 9 { 8 * entries } else { 40 });
        let kind = |random: &mut SeededRandom| match random.below(6) {
            0 => Kind::Zero { kept: random.below(2) == 0 },
            // Smaller ones have no room in an entry for what is compressed.
            1 if cluster_bits > 9 => Kind::Compressed(1 + random.below(255) as u8),
            2 | 3 => Kind::Data(1 + random.below(255) as u8),
            _ => Kind::Hole,
        };
        let kinds: Vec<Kind> = (0..count).map(|_| kind(&mut random)).collect();
        let order = random.below(7) as u32;
        let sharing = |random: &mut SeededRandom| {
            [Sharing::Own, Sharing::Own, Sharing::Table, Sharing::Data][random.below(4) as usize]
        };
        let tables = count.div_ceil(entries);
        let mut shape = Shape::new(cluster_bits, order, kinds);
        // A count of two needs two bits; compressed clusters share theirs as well, and up to nine of them.
        if order >= 4 {
            shape.sharing = (0..tables).map(|_| sharing(&mut random)).collect();
        } else {
            shape.kinds.iter_mut().for_each(|kind| {
                if matches!(kind, Kind::Compressed(_)) {
                    *kind = Kind::Data(3);
                }
            });
        }
        shape.cut = random.below(1 << cluster_bits) & !511;
        shape
    }

    /// Bytes of the disk.
    pub fn disk_len(&self) -> u64 {
        ((self.kinds.len() as u64) << self.cluster_bits) - self.cut
    }

    /// What the disk shows, if nothing is under it.
    pub fn disk(&self) -> Vec<u8> {
        let value = |kind: &Kind| match kind {
            Kind::Data(value) | Kind::Compressed(value) => *value,
            Kind::Hole | Kind::Zero { .. } => 0,
        };
        let mut disk: Vec<u8> =
            self.kinds.iter().flat_map(|kind| vec![value(kind); 1 << self.cluster_bits]).collect();
        disk.truncate(self.disk_len() as usize);
        disk
    }

    /// The image.
    pub fn image(&self) -> Vec<u8> {
        Maker::new(self).image()
    }
}

struct Maker<'s> {
    shape: &'s Shape,
    cluster: usize,
    bytes: Vec<u8>,
    counts: Vec<u64>,
    /// Where the next compressed bytes go, and up to where there is room for them.
    packed: (usize, usize),
}

impl<'s> Maker<'s> {
    fn new(shape: &'s Shape) -> Self {
        Maker {
            shape,
            cluster: 1 << shape.cluster_bits,
            bytes: Vec::new(),
            counts: Vec::new(),
            packed: (0, 0),
        }
    }

    /// So many new clusters, used `count` times: the byte at which they start.
    fn take(&mut self, clusters: usize, count: u64) -> usize {
        let at = self.bytes.len();
        self.bytes.resize(at + clusters * self.cluster, 0);
        self.counts.resize(self.counts.len() + clusters, count);
        at
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_numbers(&mut self, at: usize, numbers: &[u64]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        self.put(at, &bytes);
    }

    fn image(mut self) -> Vec<u8> {
        let entries = self.cluster / 8;
        self.take(1, 1);
        let tables = self.shape.kinds.len().div_ceil(entries);
        let (mut active, mut kept) = (vec![0u64; tables], vec![0u64; tables]);
        for number in 0..tables {
            self.table(number, &mut active[number], &mut kept[number]);
        }
        let l1 = self.l1(&active);
        if kept.iter().any(|entry| *entry != 0) {
            let snapshot_l1 = self.l1(&kept);
            let place = self.take(1, 1);
            let mut entry = (snapshot_l1 as u64).to_be_bytes().to_vec();
            entry.extend((tables as u32).to_be_bytes());
            entry.extend([0, 1, 0, 1]);
            entry.extend([0; 20]);
            entry.extend(16u32.to_be_bytes());
            entry.extend([0; 8]);
            entry.extend(self.shape.disk_len().to_be_bytes());
            entry.extend(b"1s");
            self.put(place, &entry);
            self.put(60, &1u32.to_be_bytes());
            self.put(64, &(place as u64).to_be_bytes());
        }
        self.refcounts();
        self.header(l1, tables);
        self.bytes
    }

    fn l1(&mut self, entries: &[u64]) -> usize {
        let at = self.take((entries.len() * 8).div_ceil(self.cluster), 1);
        self.put_numbers(at, entries);
        at
    }

    /// A table of level 2 with its data; none where all is holes.
    fn table(&mut self, number: usize, active: &mut u64, kept: &mut u64) {
        let (shape, entries) = (self.shape, self.cluster / 8);
        let kinds = shape.kinds.iter().skip(number * entries).take(entries);
        let sharing = shape.sharing.get(number).copied().unwrap_or(Sharing::Own);
        let (count, mark) = if sharing == Sharing::Own { (1, COPIED) } else { (2, 0) };
        let table: Vec<u64> = kinds.map(|kind| self.entry(*kind, count, mark)).collect();
        if table.iter().all(|entry| *entry == 0) {
            return;
        }
        let at = self.take(1, if sharing == Sharing::Table { 2 } else { 1 });
        self.put_numbers(at, &table);
        *active = at as u64 | if sharing == Sharing::Table { 0 } else { COPIED };
        if sharing == Sharing::Table {
            *kept = at as u64;
        } else if sharing == Sharing::Data {
            let at = self.take(1, 1);
            self.put_numbers(at, &table);
            *kept = at as u64 | COPIED;
        }
    }

    fn entry(&mut self, kind: Kind, count: u64, mark: u64) -> u64 {
        match kind {
            Kind::Hole => 0,
            Kind::Zero { kept: false } => 1,
            // What is kept there must not be seen.
            Kind::Zero { kept: true } => self.data(0xEE, count) as u64 | mark | 1,
            Kind::Data(value) => self.data(value, count) as u64 | mark,
            Kind::Compressed(value) => self.compressed(value, count),
        }
    }

    fn data(&mut self, value: u8, count: u64) -> usize {
        let at = self.take(1, count);
        self.put(at, &vec![value; self.cluster]);
        at
    }

    /// A deflate stream of one stored block, right behind the one before. Blocks of more than 65535 bytes do not fit one.
    fn compressed(&mut self, value: u8, count: u64) -> u64 {
        let mut stream = Vec::new();
        let mut left = self.cluster;
        while left > 0 {
            let part = left.min(32768);
            left -= part;
            stream.push(u8::from(left == 0));
            stream.extend((part as u16).to_le_bytes());
            stream.extend((!(part as u16)).to_le_bytes());
            stream.extend(vec![value; part]);
        }
        // Sectors of two streams may be the same; clusters count each.
        if self.packed.1 < self.packed.0 + stream.len() {
            let at = self.take(3, 0);
            self.packed = (at, self.bytes.len());
        }
        let at = self.packed.0;
        self.packed.0 += stream.len() + 100;
        self.put(at, &stream);
        let bits = self.shape.cluster_bits;
        let more = ((at % 512 + stream.len()).div_ceil(512) - 1) as u64;
        let last = (at & !511) + (more as usize + 1) * 512 - 1;
        for cluster in at / self.cluster..=last / self.cluster {
            self.counts[cluster] += count;
        }
        1 << 62 | more << (62 - (bits - 8)) | at as u64
    }

    fn refcounts(&mut self) {
        let per_block = (self.cluster * 8) >> self.shape.refcount_order;
        let entries = self.cluster / 8;
        let (mut blocks, mut tables) = (1, 1);
        loop {
            let all = self.counts.len() + blocks + tables;
            let (needed, room) = (all.div_ceil(per_block), blocks.div_ceil(entries));
            if needed <= blocks && room <= tables {
                break;
            }
            (blocks, tables) = (blocks.max(needed), tables.max(room));
        }
        let first = self.take(blocks, 1);
        let table = self.take(tables, 1);
        let places: Vec<u64> = (0..blocks).map(|block| (first + block * self.cluster) as u64).collect();
        self.put_numbers(table, &places);
        for (cluster, count) in self.counts.clone().into_iter().enumerate() {
            let block = first + cluster / per_block * self.cluster;
            set_count(
                &mut self.bytes[block..][..self.cluster],
                self.shape.refcount_order,
                cluster % per_block,
                count,
            );
        }
        self.put(48, &(table as u64).to_be_bytes());
        self.put(56, &(tables as u32).to_be_bytes());
    }

    fn header(&mut self, l1: usize, tables: usize) {
        let shape = self.shape;
        self.put(0, b"QFI\xfb\0\0\0\x03");
        self.put(20, &shape.cluster_bits.to_be_bytes());
        self.put(24, &shape.disk_len().to_be_bytes());
        self.put(36, &(tables as u32).to_be_bytes());
        self.put(40, &(l1 as u64).to_be_bytes());
        self.put(72, &shape.features.0.to_be_bytes());
        self.put(88, &shape.features.1.to_be_bytes());
        self.put(96, &shape.refcount_order.to_be_bytes());
        self.put(100, &104u32.to_be_bytes());
        if let Some(backing) = &shape.backing {
            self.put(8, &256u64.to_be_bytes());
            self.put(16, &(backing.len() as u32).to_be_bytes());
            self.put(256, backing.as_bytes());
            // Its format, so that nothing is guessed: raw.
            self.put(104, &0xE279_2ACAu32.to_be_bytes());
            self.put(108, &3u32.to_be_bytes());
            self.put(112, b"raw");
        }
    }
}

fn set_count(block: &mut [u8], order: u32, index: usize, count: u64) {
    let bits = 1usize << order;
    for bit in 0..bits {
        // Below a byte the first entry is in the lowest bits; above, the bytes are big-endian.
        let at = if bits <= 8 { index * bits + bit } else { (index + 1) * bits - 1 - bit };
        let (byte, mask) = if bits <= 8 { (at / 8, 1 << (at % 8)) } else { (at / 8, 1 << (bit % 8)) };
        if count >> bit & 1 == 1 {
            block[byte] |= mask;
        }
    }
}

fn count_at(block: &[u8], order: u32, index: usize) -> u64 {
    let bits = 1usize << order;
    if bits < 8 {
        return u64::from(block[index * bits / 8]) >> (index * bits % 8) & ((1 << bits) - 1);
    }
    block[index * bits / 8..][..bits / 8].iter().fold(0, |count, byte| count << 8 | u64::from(*byte))
}

/// Compares refcounts with uses. Returns how many clusters are said to be used more often than they are (leaked, which is harmless); an error where one is used more
/// often than said, where the mark of an only user is wrong, or where the tables lead out of the file.
pub fn judge(image: &[u8]) -> Result<u64, String> {
    let be32 = |at: usize| u32::from_be_bytes(image[at..at + 4].try_into().unwrap_or_default());
    let be64 = |at: usize| u64::from_be_bytes(image[at..at + 8].try_into().unwrap_or_default());
    let (bits, order) = (be32(20), be32(96));
    let cluster = 1usize << bits;
    let mut uses = vec![0u64; image.len().div_ceil(cluster)];
    let mut only = Vec::new();
    let mut mark = |from: usize, len: usize| -> Result<(), String> {
        for at in from / cluster..=(from + len - 1) / cluster {
            *uses.get_mut(at).ok_or(format!("cluster {at} is outside"))? += 1;
        }
        Ok(())
    };
    mark(0, 1)?;
    let (table, blocks) = (be64(48) as usize, be32(56) as usize * cluster / 8);
    mark(table, blocks * 8)?;
    let places: Vec<usize> = (0..blocks).map(|block| be64(table + block * 8) as usize).collect();
    places.iter().filter(|place| **place != 0).try_for_each(|place| mark(*place, 1))?;
    let mut l1s = vec![(be64(40) as usize, be32(36) as usize, true)];
    if be32(60) > 0 {
        let snapshot = be64(64) as usize;
        mark(snapshot, 1)?;
        l1s.push((be64(snapshot) as usize, be32(snapshot + 8) as usize, false));
    }
    for (l1, tables, is_active) in l1s {
        mark(l1, tables * 8)?;
        for table in (0..tables).map(|table| be64(l1 + table * 8)).filter(|entry| *entry != 0) {
            let place = (table & OFFSET) as usize;
            mark(place, 1)?;
            only.extend(is_active.then_some((place / cluster, table & COPIED != 0)));
            for entry in (0..cluster / 8).map(|at| be64(place + at * 8)) {
                let shift = 62 - (bits - 8);
                if entry >> 62 & 1 == 1 {
                    let at = (entry & ((1 << shift) - 1)) as usize;
                    let sectors = ((entry & !(3 << 62)) >> shift) as usize + 1;
                    mark(at, sectors * 512 - at % 512)?;
                } else if entry & OFFSET != 0 {
                    let at = (entry & OFFSET) as usize;
                    mark(at, 1)?;
                    only.extend(is_active.then_some((at / cluster, entry & COPIED != 0)));
                }
            }
        }
    }
    let per_block = (cluster * 8) >> order;
    let count = |at: usize| match places.get(at / per_block) {
        Some(0) | None => 0,
        Some(place) => count_at(&image[*place..][..cluster], order, at % per_block),
    };
    for (at, is_said) in only {
        if is_said && uses[at] != 1 {
            return Err(format!("cluster {at} has {} users, and one is said to be the only one", uses[at]));
        }
    }
    let mut leaked = 0;
    for (at, used) in uses.iter().enumerate() {
        let said = count(at);
        if said < *used {
            return Err(format!("cluster {at} is used {used} times, and said to be used {said} times"));
        }
        leaked += u64::from(said > *used);
    }
    Ok(leaked)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_made_is_judged_to_be_well_and_damage_is_not() {
        for seed in 0..200 {
            let mut image = Shape::random(seed).image();
            assert_eq!(judge(&image), Ok(0), "{seed}: {:?}", Shape::random(seed));
            // Without a refcount block every cluster is said not to be used.
            let table = u64::from_be_bytes(image[48..56].try_into().unwrap()) as usize;
            image[table..table + 8].fill(0);
            judge(&image).unwrap_err();
        }
    }
}
