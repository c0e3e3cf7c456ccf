// SPDX-License-Identifier: MIT OR Apache-2.0
//! An image as what it was made from and the blocks in which it differs from that: a case changes a few of thousands, and so do repairs.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;

use fsmend_device::{Device, ReadError};

/// Bytes of a block here, whatever the file system takes for one.
pub const BLOCK: usize = 4096;

/// A sound image, and what is different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    sound: &'static [u8],
    /// Blocks that differ from the sound ones, by number; the last block of an image may be shorter. Never one that is the same, so that equal
    /// images are equal here.
    changed: BTreeMap<usize, Vec<u8>>,
}

impl Image {
    /// The sound image as it is.
    pub fn sound(sound: &'static [u8]) -> Self {
        Image { sound, changed: BTreeMap::new() }
    }

    /// `bytes`, kept as what differs from `sound`. Fails where it has another length: nothing that is judged here makes an image longer.
    pub fn of(sound: &'static [u8], bytes: &[u8]) -> io::Result<Self> {
        if bytes.len() != sound.len() {
            return Err(io::Error::other(format!("{} bytes became {}", sound.len(), bytes.len())));
        }
        let pairs = sound.chunks(BLOCK).zip(bytes.chunks(BLOCK)).enumerate();
        let changed = pairs.filter(|(_, (sound, here))| sound != here);
        Ok(Image { sound, changed: changed.map(|(block, (_, here))| (block, here.to_vec())).collect() })
    }

    /// What it differs from.
    pub fn base(&self) -> &'static [u8] {
        self.sound
    }

    /// The blocks that differ, with their numbers.
    pub fn changed(&self) -> &BTreeMap<usize, Vec<u8>> {
        &self.changed
    }

    /// Writes bytes; what lies behind the end is left out.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (usize::try_from(offset).unwrap_or(usize::MAX), bytes);
        while !rest.is_empty() && at < self.sound.len() {
            let (number, within) = (at / BLOCK, at % BLOCK);
            let Some(sound) = self.sound.chunks(BLOCK).nth(number) else { return };
            let block = self.changed.entry(number).or_insert_with(|| sound.to_vec());
            let len = rest.len().min(block.len().saturating_sub(within));
            if let Some(place) = block.get_mut(within..within + len) {
                place.copy_from_slice(&rest[..len]);
            }
            if *block == sound {
                self.changed.remove(&number);
            }
            (at, rest) = (at + len, &rest[len..]);
            if len == 0 {
                return;
            }
        }
    }

    /// All of it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.sound.to_vec();
        self.lay_over(&mut bytes);
        bytes
    }

    /// Writes what differs over a copy of the sound image.
    pub fn lay_over(&self, copy: &mut [u8]) {
        for (number, block) in &self.changed {
            if let Some(place) = copy.get_mut(number * BLOCK..number * BLOCK + block.len()) {
                place.copy_from_slice(block);
            }
        }
    }

    /// Takes it back.
    pub fn take_off(&self, copy: &mut [u8]) {
        for (number, block) in &self.changed {
            let range = number * BLOCK..number * BLOCK + block.len();
            if let Some((place, sound)) = copy.get_mut(range.clone()).zip(self.sound.get(range)) {
                place.copy_from_slice(sound);
            }
        }
    }

    /// A number that two different images of one base practically never share.
    pub fn fingerprint(&self) -> u128 {
        let part = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            (salt, &self.changed).hash(&mut hasher);
            hasher.finish()
        };
        u128::from(part(1)) << 64 | u128::from(part(2))
    }

    /// Bytes at `offset`; `None` where the image ends before them.
    pub fn read(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.read_into(offset, &mut bytes)?;
        Some(bytes)
    }

    fn read_into(&self, offset: u64, buf: &mut [u8]) -> Option<()> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(buf.len())?;
        buf.copy_from_slice(self.sound.get(start..end)?);
        for (number, block) in self.changed.range(start / BLOCK..end.div_ceil(BLOCK)) {
            let (first, last) = (start.max(number * BLOCK), end.min(number * BLOCK + block.len()));
            let from = block.get(first - number * BLOCK..last.saturating_sub(number * BLOCK));
            if let Some((place, from)) = buf.get_mut(first - start..last - start).zip(from) {
                place.copy_from_slice(from);
            }
        }
        Some(())
    }

    /// As a device.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::new(ImageDevice(self.clone()))
    }
}

/// An image that is read and never written.
struct ImageDevice(Image);

impl Device for ImageDevice {
    fn name(&self) -> &str {
        "subject"
    }

    fn len(&self) -> u64 {
        self.0.sound.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_into(offset, buf).ok_or_else(|| ReadError::beyond_end(offset, buf.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use fsmend_base::SeededRandom;

    use super::*;

    #[test]
    fn bytes_written_in_pieces_are_read_as_from_a_copy() {
        let mut random = SeededRandom::new(5);
        let sound: &'static [u8] =
            (0..5 * BLOCK + 100).map(|_| random.next_u64() as u8 & 3).collect::<Vec<_>>().leak();
        let (mut image, mut copy) = (Image::sound(sound), sound.to_vec());
        for _ in 0..200 {
            let at = random.below(sound.len() as u64) as usize;
            let len = (1 + random.below(6000) as usize).min(sound.len() - at);
            let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8 & 3).collect();
            image.write(at as u64, &bytes);
            copy[at..at + len].copy_from_slice(&bytes);
            let from = random.below(copy.len() as u64) as usize;
            let len = random.below((copy.len() - from) as u64 + 1) as usize;
            let mut read = vec![0; len];
            image.device().read_at(from as u64, &mut read).expect("within the image");
            assert_eq!(read, copy[from..from + len]);
        }
        assert_eq!(image.bytes(), copy);
        let same = Image::of(sound, &copy).expect("of one length");
        assert_eq!((image.fingerprint(), &image), (same.fingerprint(), &same));
        image.take_off(&mut copy);
        assert_eq!(copy, sound);
        image.write(0, sound);
        assert_eq!(image, Image::sound(sound), "what is written back differs no more");
        assert!(Image::of(sound, &copy[1..]).is_err());
        assert!(image.device().read_at(sound.len() as u64 - 1, &mut [0; 2]).is_err());
    }
}
