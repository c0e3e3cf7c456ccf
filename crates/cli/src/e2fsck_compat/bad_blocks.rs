// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-c`, `-cc`, `-l`, `-L`, `-k`: what is to stand on the list of bad blocks.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::sync::Arc;

use fsmend_device::{Overlay, Unrestored};
use fsmend_engine::options::BadBlockOption;
use fsmend_ext_check::bad_blocks::read_test;
use fsmend_ext_check::precheck::Precheck;

use super::options::BadBlocks;
use super::session::Session;
use crate::exit;
use crate::place::Access;

impl Session {
    /// What the command line wants on the list, if anything; the exit code if that cannot be known.
    pub(super) fn bad_block_option(&mut self, seen: &Precheck) -> Result<Option<BadBlockOption>, u8> {
        let Some(asked) = self.options.bad_blocks.clone() else { return Ok(self.unrestored_wish(seen)) };
        let raw = &seen.superblock;
        let range = (u64::from(raw.s_first_data_block.get()), raw.blocks_count());
        let (found, keeps) = match &asked {
            BadBlocks::ReadTest => (self.read_blocks(seen, range)?, self.options.keep_bad_blocks),
            BadBlocks::WriteTest => (self.write_blocks(seen, range)?, self.options.keep_bad_blocks),
            BadBlocks::More(file) => (self.read_list(file)?, true),
            BadBlocks::All(file) => (self.read_list(file)?, false),
        };
        let (blocks, strays): (Vec<u64>, Vec<u64>) =
            found.into_iter().partition(|block| (range.0..range.1).contains(block));
        let blocks: BTreeSet<u64> = blocks.into_iter().chain(self.unrestored_blocks(seen)).collect();
        let blocks: Vec<u64> = blocks.into_iter().collect();
        for stray in strays {
            self.out.complain(&format!("Bad block {stray} is out of range; ignored.\n"));
        }
        self.out.print(&format!("{}: Updating bad block inode.\n", self.name));
        Ok(Some(BadBlockOption { blocks: blocks.into(), keeps }))
    }

    /// `-c`.
    fn read_blocks(&mut self, seen: &Precheck, range: (u64, u64)) -> Result<Vec<u64>, u8> {
        self.out.print("Reading all blocks to find bad ones\n");
        if let Some(hold) = &self.hold {
            hold.forget();
        }
        let Some(bad) = read_test(&*self.device, block_size(seen), range, &self.cancel) else {
            return Err(exit::CANCELLED);
        };
        self.out.print(&format!("{}: {} of {} blocks cannot be read\n", self.name, bad.len(), range.1));
        Ok(bad)
    }

    /// `-cc`: what cannot be given back to a bad block lies over the device from then on, so that the repair finds it.
    fn write_blocks(&mut self, seen: &Precheck, (first, end): (u64, u64)) -> Result<Vec<u64>, u8> {
        if self.access != Access::Free {
            let text = format!("{}: {}: mounted (read-only): -cc is not possible\n", self.program, self.name);
            self.out.complain(&text);
            return Err(exit::OPERATIONAL);
        }
        let Some(hold) = &self.hold else { return Err(exit::OPERATIONAL) };
        self.out.print("Testing all blocks with a non-destructive read-write test\n");
        let size = u64::from(block_size(seen));
        let end = end.min(hold.target.device.len() / size);
        let range = first.saturating_mul(size)..end.saturating_mul(size);
        let tested = hold.test_writing(range, size, &self.cancel).map_err(|failure| self.fail(&failure))?;
        let bad = tested.bad.len();
        self.out.print(&format!("{}: {bad} of {end} blocks cannot be read or written\n", self.name));
        self.keep_unrestored(tested.unrestored);
        Ok(tested.bad.into_iter().collect())
    }

    /// Lays what bad blocks do not take back over the device.
    pub(super) fn keep_unrestored(&mut self, unrestored: Vec<Unrestored>) {
        if unrestored.is_empty() {
            return;
        }
        let mut overlay = Overlay::new(Arc::clone(&self.device));
        for (at, bytes) in unrestored.iter().flat_map(|left| &left.blocks) {
            // The log is one of this device.
            let _ = overlay.write(*at, bytes);
        }
        self.device = Arc::new(overlay);
        self.unrestored.extend(unrestored);
    }

    /// What an interrupted test could not give back is moved, whatever else was asked for.
    fn unrestored_wish(&mut self, seen: &Precheck) -> Option<BadBlockOption> {
        let blocks = self.unrestored_blocks(seen);
        (!blocks.is_empty() && self.hold.is_some())
            .then(|| BadBlockOption { blocks: blocks.into(), keeps: true })
    }

    fn unrestored_blocks(&self, seen: &Precheck) -> Vec<u64> {
        let size = u64::from(block_size(seen));
        let all = self.unrestored.iter().flat_map(|left| &left.blocks);
        let first = u64::from(seen.superblock.s_first_data_block.get());
        let blocks: BTreeSet<u64> =
            all.flat_map(|(at, bytes)| at / size..(at + bytes.len() as u64).div_ceil(size)).collect();
        blocks.into_iter().filter(|block| (first..seen.superblock.blocks_count()).contains(block)).collect()
    }

    /// The repair is written: what bad blocks held has other places, or is lost for good with the record that it was.
    pub(super) fn close_unrestored(&mut self) {
        for left in std::mem::take(&mut self.unrestored) {
            let name = left.log.name().to_owned();
            if let Err(error) = left.close() {
                self.out.complain(&format!("{}: {}: {name}: {error}\n", self.program, self.name));
            }
        }
    }

    fn read_list(&mut self, file: &OsStr) -> Result<Vec<u64>, u8> {
        fs::read(file).map(|bytes| numbers(&bytes)).map_err(|error| {
            let text = format!("{}: {}: {error}\n", self.program, file.to_string_lossy());
            self.out.complain(&text);
            exit::OPERATIONAL
        })
    }
}

fn block_size(seen: &Precheck) -> u32 {
    1024u32.checked_shl(seen.superblock.s_log_block_size.get()).unwrap_or(1024)
}

/// The numbers with which lines begin; other lines mean nothing.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    let first = |line: &[u8]| {
        let text = line.trim_ascii_start();
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
    };
    bytes.split(|byte| *byte == b'\n').filter_map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn a_number_to_a_line() {
        assert_eq!(numbers(b"12\n  13 \n\nfoo\n14x\n99999999999999999999999\n\xff\n15"), [12, 13, 14, 15]);
        assert!(numbers(b"").is_empty());
    }
}
