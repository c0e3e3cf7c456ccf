// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies where in a file system: for maps of it, and to say which structures a repair writes. A family fills it; nothing here knows one.

/// Stretches of free space beyond these are not kept one by one: their areas still say how much is free.
const FREE_MAX: usize = 1 << 16;
/// Stretches of structures beyond these are not kept either.
const STRETCHES_MAX: usize = 1 << 20;
/// What belongs to no structure.
pub const CONTENTS: &str = "file contents and directories";

/// What kind of thing lies in a stretch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Superblocks, descriptors, maps, tables of inodes.
    Metadata,
    /// A region kept for metadata of files.
    Region,
    /// A journal or a log.
    Journal,
    /// Directories.
    Directory,
}

impl Class {
    /// The word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Class::Metadata => "metadata",
            Class::Region => "region",
            Class::Journal => "journal",
            Class::Directory => "directory",
        }
    }
}

/// A stretch of the file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub len: u64,
    /// What kind of thing it is.
    pub class: Class,
    /// What it is, e.g. `inode tables`.
    pub what: &'static str,
}

/// A part of the file system that a map shows as a cell: a group, a cylinder group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub len: u64,
    /// Free bytes in it, as its maps say.
    pub free: u64,
}

/// What lies where.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// What an area is called, e.g. `group`.
    pub area_word: &'static str,
    /// Bytes in a block.
    pub block_size: u64,
    /// The areas, ascending.
    pub areas: Vec<Area>,
    /// Free space: offset and length, ascending.
    pub free: Vec<(u64, u64)>,
    /// Whether there is more free space than `free` lists.
    pub free_is_cut: bool,
    stretches: Vec<Stretch>,
}

impl Layout {
    /// A layout of areas that all have `area_len` bytes; the first may start behind byte 0, the last may be shorter.
    pub fn new(area_word: &'static str, block_size: u64, (first, area_len, end): (u64, u64, u64)) -> Self {
        let starts = (first..end).step_by(usize::try_from(area_len.max(1)).unwrap_or(usize::MAX));
        let area = |offset: u64| Area { offset, len: area_len.min(end - offset), free: 0 };
        Layout { area_word, block_size, areas: starts.map(area).collect(), ..Layout::default() }
    }

    /// Adds a stretch.
    pub fn add(&mut self, offset: u64, len: u64, class: Class, what: &'static str) {
        if len == 0 || self.stretches.len() >= STRETCHES_MAX {
            return;
        }
        match self.stretches.last_mut() {
            Some(last) if last.what == what && last.offset.checked_add(last.len) == Some(offset) => {
                last.len = last.len.saturating_add(len);
            }
            _ => self.stretches.push(Stretch { offset, len, class, what }),
        }
    }

    /// Adds free space; to be called in ascending order.
    pub fn add_free(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        let from = self.areas.partition_point(|area| area.offset.saturating_add(area.len) <= offset);
        for area in self.areas[from..].iter_mut().take_while(|area| area.offset < end) {
            let stop = area.offset.saturating_add(area.len).min(end);
            area.free = area.free.saturating_add(stop.saturating_sub(area.offset.max(offset)));
        }
        let is_full = self.free.len() >= FREE_MAX;
        match self.free.last_mut() {
            Some((last, count)) if last.checked_add(*count) == Some(offset) => *count += len,
            _ if is_full => self.free_is_cut = true,
            _ => self.free.push((offset, len)),
        }
    }

    /// Sorts the stretches; of two that overlap the first counts.
    pub fn finish(mut self) -> Self {
        self.stretches.sort_by_key(|stretch| (stretch.offset, stretch.len));
        let mut end = 0u64;
        for stretch in &mut self.stretches {
            let stop = stretch.offset.saturating_add(stretch.len);
            let start = stretch.offset.max(end).min(stop);
            (stretch.offset, stretch.len) = (start, stop - start);
            end = end.max(stop);
        }
        self.stretches.retain(|stretch| stretch.len > 0);
        self
    }

    /// Adds what directories take (offset and length), where nothing else is said to lie. In a log they are a part of it.
    pub fn with_directories(mut self, directories: &[(u64, u64)]) -> Self {
        let known = std::mem::take(&mut self.stretches);
        for (offset, len) in directories {
            let at = known.partition_point(|stretch| stretch.offset.saturating_add(stretch.len) <= *offset);
            let end = offset.saturating_add(*len);
            let is_taken = known.get(at).is_some_and(|stretch| stretch.offset < end);
            // A region for metadata of files is where directories lie.
            if !is_taken || known.get(at).is_some_and(|stretch| stretch.class == Class::Region) {
                self.add(*offset, *len, Class::Directory, "directories");
            }
        }
        let directories = std::mem::take(&mut self.stretches);
        for stretch in known {
            let mut from = stretch.offset;
            let end = stretch.offset.saturating_add(stretch.len);
            let inside = directories.partition_point(|one| one.offset.saturating_add(one.len) <= from);
            for one in directories.get(inside..).into_iter().flatten().take_while(|one| one.offset < end) {
                self.add(from, one.offset.saturating_sub(from), stretch.class, stretch.what);
                from = from.max(one.offset.saturating_add(one.len));
            }
            self.add(from, end.saturating_sub(from), stretch.class, stretch.what);
        }
        self.stretches.extend(directories);
        self.finish()
    }

    /// The structures, ascending and without overlaps.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// To how many bytes of each structure `writes` (offset, length) come, the most first. What lies in no structure is [`CONTENTS`].
    pub fn by_structure(&self, writes: impl Iterator<Item = (u64, u64)>) -> Vec<(&'static str, u64)> {
        let mut sums: Vec<(&'static str, u64)> = Vec::new();
        let mut count = |what, bytes: u64| match sums.iter_mut().find(|sum| sum.0 == what) {
            Some(sum) => sum.1 = sum.1.saturating_add(bytes),
            None if bytes > 0 => sums.push((what, bytes)),
            None => {}
        };
        for (offset, len) in writes {
            let end = offset.saturating_add(len);
            let from = self
                .stretches
                .partition_point(|stretch| stretch.offset.saturating_add(stretch.len) <= offset);
            let mut rest = len;
            for stretch in self.stretches[from..].iter().take_while(|stretch| stretch.offset < end) {
                let stop = stretch.offset.saturating_add(stretch.len).min(end);
                let inside = stop.saturating_sub(stretch.offset.max(offset));
                count(stretch.what, inside);
                rest = rest.saturating_sub(inside);
            }
            count(CONTENTS, rest);
        }
        sums.sort_by_key(|(what, bytes)| (u64::MAX - bytes, *what));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_structure() {
        let mut layout = Layout::new("group", 10, (0, 100, 250));
        layout.add(20, 10, Class::Metadata, "inode tables");
        layout.add(30, 10, Class::Metadata, "inode tables");
        layout.add(0, 10, Class::Metadata, "superblocks");
        layout.add(5, 10, Class::Metadata, "maps");
        let layout = layout.finish();
        let told = layout.by_structure([(0, 10), (8, 4), (35, 10)].into_iter());
        assert_eq!(told, [("superblocks", 12), (CONTENTS, 5), ("inode tables", 5), ("maps", 2)]);
        assert_eq!(layout.stretches().len(), 3);
    }

    #[test]
    fn directories_show_within_regions_and_not_within_other_structures() {
        let mut layout = Layout::new("group", 10, (0, 100, 250));
        layout.add(0, 20, Class::Metadata, "inode tables");
        layout.add(20, 60, Class::Region, "metadata area");
        let layout = layout.finish().with_directories(&[(10, 10), (30, 10), (60, 10), (100, 20)]);
        let told: Vec<_> =
            layout.stretches().iter().map(|one| (one.offset, one.len, one.class.word())).collect();
        let wanted = [
            (0, 20, "metadata"),
            (20, 10, "region"),
            (30, 10, "directory"),
            (40, 20, "region"),
            (60, 10, "directory"),
            (70, 10, "region"),
            (100, 20, "directory"),
        ];
        assert_eq!(told, wanted);
    }

    #[test]
    fn free_space_is_added_up_area_by_area() {
        let mut layout = Layout::new("group", 10, (0, 100, 250));
        layout.add_free(90, 20);
        layout.add_free(110, 10);
        layout.add_free(240, 10);
        assert_eq!(layout.areas.iter().map(|area| area.free).collect::<Vec<_>>(), [10, 20, 10]);
        assert_eq!(layout.free, [(90, 30), (240, 10)]);
        assert_eq!(layout.areas[2].len, 50);
    }
}
