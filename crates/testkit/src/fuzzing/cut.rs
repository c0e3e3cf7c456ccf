// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images cut to what a check reads of them, so that whole file systems, damaged ones above all, are small enough to be mutated.
//!
//! A cut is the length of the image in KiB (32 bits, little endian), then pieces: number (32 bits) and bytes of one KiB each. All else is zero.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fsmend_device::{Device, MemoryDevice, ReadError, ReadErrorKind};

use crate::within::{Manner, checked};

const PIECE: usize = 1024;
/// Longest image that bytes may ask for, in pieces: zeros cost time, too.
const PIECES_MAX: u64 = 1 << 18;

/// An image of which only some pieces are not zero.
pub struct Cut {
    len: u64,
    pieces: BTreeMap<u64, Vec<u8>>,
}

/// The whole checker over a cut image.
pub fn cut_image(data: &[u8]) {
    if let Some(cut) = Cut::parse(data) {
        let device: Arc<dyn Device> = Arc::new(cut);
        let _ = checked(&device, Manner::default());
    }
}

impl Cut {
    /// Takes bytes for a cut; what is left over at the end is ignored.
    pub fn parse(data: &[u8]) -> Option<Cut> {
        let (len, mut rest) = data.split_first_chunk::<4>()?;
        let mut cut = Cut {
            len: (u64::from(u32::from_le_bytes(*len)) % PIECES_MAX) * PIECE as u64,
            pieces: BTreeMap::new(),
        };
        while let Some((number, tail)) = rest.split_first_chunk::<4>() {
            let len = tail.len().min(PIECE);
            let mut piece = tail[..len].to_vec();
            piece.resize(PIECE, 0);
            cut.pieces.insert(u64::from(u32::from_le_bytes(*number)), piece);
            rest = &tail[len..];
        }
        Some(cut)
    }

    /// Cuts an image down to what a check of it reads, as bytes; `None` where that would be more than `len_max` bytes.
    pub fn of(image: Vec<u8>, len_max: usize) -> Option<Vec<u8>> {
        let pieces = image.len().div_ceil(PIECE);
        let watched = Arc::new(Watched { image: MemoryDevice::new("cut", image), read: Mutex::default() });
        let device: Arc<dyn Device> = watched.clone();
        let _ = checked(&device, Manner::default());
        let image = watched.image.bytes();
        let mut cut = u32::try_from(pieces).ok()?.to_le_bytes().to_vec();
        let read = watched.read.lock().ok()?;
        for (number, ()) in read.iter() {
            let at = *number as usize * PIECE;
            let piece = &image[at.min(image.len())..(at + PIECE).min(image.len())];
            if piece.iter().any(|byte| *byte != 0) {
                cut.extend(u32::try_from(*number).ok()?.to_le_bytes());
                cut.extend(piece);
                cut.resize(cut.len() + PIECE - piece.len(), 0);
            }
        }
        (cut.len() <= len_max && (pieces as u64) < PIECES_MAX).then_some(cut)
    }
}

impl Device for Cut {
    fn name(&self) -> &str {
        "cut"
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.len);
        let end = end.ok_or(ReadError { offset, len: buf.len() as u64, kind: ReadErrorKind::BeyondEnd })?;
        buf.fill(0);
        let piece = PIECE as u64;
        for (number, bytes) in self.pieces.range(offset / piece..end.div_ceil(piece)) {
            let start = number * piece;
            let (from, to) = (start.max(offset), (start + piece).min(end));
            buf[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }
}

/// Remembers which pieces were read.
struct Watched {
    image: MemoryDevice,
    read: Mutex<BTreeMap<u64, ()>>,
}

impl Device for Watched {
    fn name(&self) -> &str {
        self.image.name()
    }

    fn len(&self) -> u64 {
        self.image.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let end = offset.saturating_add(buf.len() as u64).min(self.len());
        if let Ok(mut read) = self.read.lock() {
            read.extend((offset / PIECE as u64..end.div_ceil(PIECE as u64)).map(|number| (number, ())));
        }
        self.image.read_at(offset, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::base;
    use crate::within::found_on;

    #[test]
    fn a_cut_is_judged_as_the_whole() {
        let Some(base) = base() else { return };
        let mut image = base.image.clone();
        image[300_000..300_100].fill(0x5A);
        let cut = Cut::of(image.clone(), usize::MAX).and_then(|cut| Cut::parse(&cut));
        let cut: Arc<dyn Device> = Arc::new(cut.expect("it is short enough"));
        let whole: Arc<dyn Device> = Arc::new(MemoryDevice::new("cut", image));
        assert_eq!(found_on(&cut, Manner::default()), found_on(&whole, Manner::default()));
    }
}
