//! What the writing protocol has to know of the format: the mark that a repair is under way, and the change that ends it.

use fsmend_device::Device;
use fsmend_ext_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};

use crate::superblock;

/// The primary superblock as it lies on `device`, but marked as being repaired (not clean, with errors), with the byte offset where
/// it belongs. Written before anything else, it keeps everybody from taking a half-repaired file system for a clean one. `None`
/// when the primary cannot be read or is itself damaged: then nobody will take it for clean.
pub fn marker(device: &dyn Device) -> Option<(u64, Vec<u8>)> {
    let mut stored = [0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut stored).ok()?;
    superblock::repair::marked(&stored).map(|marked| (SUPERBLOCK_OFFSET, marked))
}

/// Parts `changes` (ascending, without overlaps) into those that are written first, in their order, and the primary superblock,
/// which is written last and takes the mark away. Where the changes leave the superblock as it is, the one on `device` is written
/// again. `None` for a device too small or too damaged to have one.
#[allow(clippy::type_complexity, reason = "offsets and bytes, as in `Repair::changes`")]
pub fn superblock_last(
    device: &dyn Device,
    changes: Vec<(u64, Vec<u8>)>,
) -> (Vec<(u64, Vec<u8>)>, Option<(u64, Vec<u8>)>) {
    let end = SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE as u64;
    let mut last = vec![0; SUPERBLOCK_SIZE];
    let mut known = device.read_at(SUPERBLOCK_OFFSET, &mut last).is_ok();
    let mut first = Vec::with_capacity(changes.len());
    for (offset, bytes) in changes {
        let stop = offset + bytes.len() as u64;
        if stop <= SUPERBLOCK_OFFSET || offset >= end {
            first.push((offset, bytes));
            continue;
        }
        let (from, to) = (offset.max(SUPERBLOCK_OFFSET), stop.min(end));
        let part = |from: u64, to: u64| &bytes[(from - offset) as usize..(to - offset) as usize];
        known |= from == SUPERBLOCK_OFFSET && to == end;
        last[(from - SUPERBLOCK_OFFSET) as usize..(to - SUPERBLOCK_OFFSET) as usize]
            .copy_from_slice(part(from, to));
        if offset < from {
            first.push((offset, part(offset, from).to_vec()));
        }
        if to < stop {
            first.push((to, part(to, stop).to_vec()));
        }
    }
    (first, known.then_some((SUPERBLOCK_OFFSET, last)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use fsmend_device::MemoryDevice;

    use super::*;
    use crate::superblock::testing::Image;

    #[test]
    fn a_marked_superblock_is_not_clean_and_has_a_right_checksum() {
        for image in [Image::plain(), Image::with_checksums()] {
            let device = MemoryDevice::new("image", image.bytes.clone());
            let (offset, bytes) = marker(&device).unwrap();
            assert_eq!((offset, bytes.len()), (1024, 1024));
            assert_eq!(bytes[0x3A] & 3, 2, "not valid, with errors");
            let mut marked = image;
            marked.bytes[1024..2048].copy_from_slice(&bytes);
            let codes = marked.settle().1;
            assert!(codes.iter().all(|code| *code != "ext.superblock.checksum"), "{codes:?}");
        }
    }

    #[test]
    fn a_damaged_superblock_gets_no_mark() {
        let mut image = Image::with_checksums();
        image.bytes[1024 + 0x78] ^= 1;
        assert_eq!(marker(&MemoryDevice::new("image", image.bytes.clone())), None);
        assert_eq!(marker(&MemoryDevice::new("image", vec![0; 4096])), None);
        assert_eq!(marker(&MemoryDevice::new("image", vec![0; 100])), None);
    }

    #[test]
    fn the_superblock_is_cut_out_of_its_block() {
        let device = MemoryDevice::new("image", vec![9; 8192]);
        let mut block = vec![1; 4096];
        block[1024..2048].fill(2);
        let (first, last) = superblock_last(&device, vec![(0, block), (4096, vec![3; 8])]);
        assert_eq!(first, [(0, vec![1; 1024]), (2048, vec![1; 2048]), (4096, vec![3; 8])]);
        assert_eq!(last, Some((1024, vec![2; 1024])));
    }

    #[test]
    fn an_unchanged_superblock_is_written_again() {
        let device = MemoryDevice::new("image", vec![9; 8192]);
        let (first, last) = superblock_last(&device, vec![(4096, vec![3; 8])]);
        assert_eq!(first, [(4096, vec![3; 8])]);
        assert_eq!(last, Some((1024, vec![9; 1024])));
    }
}
