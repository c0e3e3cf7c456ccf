// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where one thread lays out images: a copy in memory for the reader of trees and a file for programs. Both hold the sound image between two
//! uses, so that a case costs no more than the blocks in which it differs.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::image::{BLOCK, Image};
use super::subject::Scratch;
use crate::host::LoopDevice;

/// A copy of one sound image, twice.
struct ScratchImage {
    sound: &'static [u8],
    copy: Vec<u8>,
    /// Made when the first program is to see an image.
    file: Option<Bench>,
}

/// A file for programs.
struct Bench {
    /// The loop device on it, once the kernel has been asked. (Detached before the file goes.)
    device: Option<LoopDevice>,
    scratch: Scratch,
    file: File,
}

thread_local! {
    static SCRATCH: RefCell<Option<ScratchImage>> = const { RefCell::new(None) };
}

/// Calls `work` with all bytes of the image.
pub fn with_bytes<T>(image: &Image, work: impl FnOnce(&[u8]) -> T) -> T {
    on_scratch(image.base(), |scratch| {
        image.lay_over(&mut scratch.copy);
        let result = work(&scratch.copy);
        image.take_off(&mut scratch.copy);
        result
    })
}

/// Calls `work` with the path of a file that holds the image, and may only be read.
pub fn with_file<T>(image: &Image, work: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    on_scratch(image.base(), |scratch| {
        let bench = scratch.take_file()?;
        write_blocks(&bench.file, image)?;
        let result = work(bench.scratch.path())?;
        restore(&bench.file, image)?;
        scratch.file = Some(bench);
        Ok(result)
    })
}

/// Calls `work` with the path of a file that holds the image. Returns what it left there as well.
pub fn with_file_to_write<T>(
    image: &Image,
    work: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<(T, Image)> {
    on_bench(image, |bench| work(bench.scratch.path()))
}

/// Calls `work` with a loop device on a file that holds the image, and a folder to mount it on. Returns what was left there as well.
pub fn with_loop<T>(
    image: &Image,
    work: impl FnOnce(&Path, &Path) -> io::Result<T>,
) -> io::Result<(T, Image)> {
    on_bench(image, |bench| {
        let path = bench.scratch.path();
        let point = PathBuf::from(format!("{}.mnt", path.display()));
        let device = match bench.device.take() {
            Some(device) => device,
            None => LoopDevice::new(path)?,
        };
        fs::create_dir_all(&point)?;
        let result = work(Path::new(device.path()), &point);
        fs::remove_dir(&point)?;
        bench.device = Some(device);
        result
    })
}

fn on_bench<T>(image: &Image, work: impl FnOnce(&mut Bench) -> io::Result<T>) -> io::Result<(T, Image)> {
    on_scratch(image.base(), |scratch| {
        let mut bench = scratch.take_file()?;
        write_blocks(&bench.file, image)?;
        let result = work(&mut bench)?;
        let file = &bench.file;
        if file.metadata()?.len() != scratch.sound.len() as u64 {
            return Err(io::Error::other("a program made the image longer or shorter"));
        }
        if let Err(error) = file.read_exact_at(&mut scratch.copy, 0) {
            scratch.copy.copy_from_slice(scratch.sound);
            return Err(error);
        }
        let left = Image::of(scratch.sound, &scratch.copy)?;
        left.take_off(&mut scratch.copy);
        restore(file, &left)?;
        scratch.file = Some(bench);
        Ok((result, left))
    })
}

/// With this thread's scratch image for a sound image: the one at hand, or a new one.
fn on_scratch<T>(sound: &'static [u8], work: impl FnOnce(&mut ScratchImage) -> T) -> T {
    SCRATCH.with_borrow_mut(|slot| {
        let fits = |scratch: &ScratchImage| std::ptr::eq(scratch.sound, sound);
        let scratch = slot.take().filter(fits).unwrap_or_else(|| ScratchImage {
            sound,
            copy: sound.to_vec(),
            file: None,
        });
        work(slot.insert(scratch))
    })
}

impl ScratchImage {
    /// Taken out, so that a file that could not be put right again is not used once more.
    fn take_file(&mut self) -> io::Result<Bench> {
        if let Some(bench) = self.file.take() {
            return Ok(bench);
        }
        let scratch = Scratch::with(self.sound)?;
        let file = File::options().read(true).write(true).open(scratch.path())?;
        Ok(Bench { device: None, scratch, file })
    }
}

fn write_blocks(file: &File, image: &Image) -> io::Result<()> {
    image.changed().iter().try_for_each(|(number, block)| file.write_all_at(block, (number * BLOCK) as u64))
}

/// Writes the sound blocks where the image differs.
fn restore(file: &File, image: &Image) -> io::Result<()> {
    image.changed().keys().try_for_each(|number| {
        let end = image.base().len().min((number + 1) * BLOCK);
        let sound = image.base().get(number * BLOCK..end).unwrap_or_default();
        file.write_all_at(sound, (number * BLOCK) as u64)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    fn on_file(image: &Image) -> Vec<u8> {
        let read = |path: &Path| {
            let bytes = fs::read(path)?;
            Ok(bytes)
        };
        with_file(image, read).unwrap()
    }

    #[test]
    fn the_desk_is_as_it_was_after_every_use() {
        let sound: &'static [u8] = vec![7; 3 * BLOCK + 1].leak();
        let mut image = Image::sound(sound);
        image.write(BLOCK as u64 - 1, &[1, 2]);
        image.write(3 * BLOCK as u64, &[3]);
        for _ in 0..2 {
            with_bytes(&image, |bytes| assert_eq!(bytes, image.bytes()));
            assert_eq!(on_file(&image), image.bytes());
            let write = |path: &Path| {
                let file = File::options().write(true).open(path)?;
                file.write_all_at(&[9; 5], 2 * BLOCK as u64)?;
                file.write_all_at(&[7], 3 * BLOCK as u64)
            };
            let ((), left) = with_file_to_write(&image, write).unwrap();
            let mut expected = image.clone();
            expected.write(2 * BLOCK as u64, &[9; 5]);
            expected.write(3 * BLOCK as u64, &[7]);
            assert_eq!(left, expected);
            assert_eq!(on_file(&Image::sound(sound)), sound);
        }
        assert!(with_file(&image, |_| Err::<(), _>(io::Error::other("no"))).is_err());
        assert_eq!(on_file(&Image::sound(sound)), sound);
        let longer = |path: &Path| File::options().append(true).open(path)?.set_len(9 * BLOCK as u64);
        assert!(with_file_to_write(&image, longer).is_err());
        assert_eq!(on_file(&image), image.bytes());
    }
}
