// SPDX-License-Identifier: MIT OR Apache-2.0
//! How large files are and in how many pieces they lie, counts for histograms, and where directories are. A family adds its files; nothing here knows one.

/// Files beyond these are not looked at: a histogram of so many says the same.
pub const FILES_MAX: u64 = 200_000;
/// Pieces of directories beyond these are not kept.
pub const DIRECTORY_PIECES_MAX: usize = 1 << 17;
/// Buckets by powers of two.
const BUCKETS: usize = 65;

/// Counts of files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileShapes {
    files: u64,
    sizes: [u64; BUCKETS],
    pieces: [u64; BUCKETS],
    piece_bytes: [u64; BUCKETS],
    directories: Vec<(u64, u64)>,
}

impl Default for FileShapes {
    fn default() -> Self {
        let counts = [0; BUCKETS];
        FileShapes { files: 0, sizes: counts, pieces: counts, piece_bytes: counts, directories: Vec::new() }
    }
}

/// The bucket of a number: 0 for 0, otherwise the number of its binary digits.
fn bucket(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()) as usize
}

impl FileShapes {
    /// Adds a regular file of `size` bytes whose blocks come to `bytes` in `pieces` pieces. False once no more files are wanted.
    pub fn add(&mut self, size: u64, bytes: u64, pieces: u64) -> bool {
        if self.files >= FILES_MAX {
            return false;
        }
        self.files += 1;
        self.sizes[bucket(size)] += 1;
        if let Some(average) = bytes.checked_div(pieces) {
            // Powers of two stand at the end of a bucket: 1, 2, 3 to 4, 5 to 8.
            self.pieces[bucket(pieces - 1)] += 1;
            self.piece_bytes[bucket(average)] += 1;
        }
        true
    }

    /// Adds a piece of a directory, in bytes.
    pub fn add_directory(&mut self, offset: u64, len: u64) {
        if self.directories.len() < DIRECTORY_PIECES_MAX && len > 0 {
            self.directories.push((offset, len));
        }
    }

    /// Where directories lie, ascending: offset and length.
    pub fn directories(&self) -> Vec<(u64, u64)> {
        let mut sorted = self.directories.clone();
        sorted.sort_unstable();
        sorted
    }

    /// How many files were added.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Files by size: the smallest size of a bucket, and how many there are.
    pub fn sizes(&self) -> Vec<(u64, u64)> {
        filled(&self.sizes, &|at| at.checked_sub(1).map_or(0, |power| 1 << power))
    }

    /// Files by the number of their pieces: the smallest number of a bucket, and how many there are.
    pub fn pieces(&self) -> Vec<(u64, u64)> {
        filled(&self.pieces, &|at| at.checked_sub(1).map_or(1, |power| (1u64 << power).saturating_add(1)))
    }

    /// Files by the average length of their pieces in bytes.
    pub fn piece_bytes(&self) -> Vec<(u64, u64)> {
        filled(&self.piece_bytes, &|at| at.checked_sub(1).map_or(0, |power| 1 << power))
    }
}

/// The buckets from the first that is not empty to the last, each with its least number.
fn filled(counts: &[u64; BUCKETS], least: &dyn Fn(usize) -> u64) -> Vec<(u64, u64)> {
    let Some(first) = counts.iter().position(|count| *count > 0) else { return Vec::new() };
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(first);
    (first..=last).map(|at| (least(at), counts[at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_by_size_and_pieces() {
        let mut shapes = FileShapes::default();
        for (size, bytes, pieces) in [(0, 0, 0), (1, 4096, 1), (5000, 8192, 2), (16384, 16384, 4)] {
            assert!(shapes.add(size, bytes, pieces));
        }
        assert_eq!(shapes.files(), 4);
        let sizes = shapes.sizes();
        assert_eq!((sizes[0], sizes[1], sizes[2]), ((0, 1), (1, 1), (2, 0)));
        assert_eq!(sizes.last(), Some(&(16384, 1)));
        assert_eq!(shapes.pieces(), [(1, 1), (2, 1), (3, 1)]);
        assert_eq!(shapes.piece_bytes(), [(4096, 3)]);
        assert!(shapes.add(u64::MAX, u64::MAX, u64::MAX));
    }
}
