//! `-c`, `-l`, `-L`, `-k`: what is to stand on the list of bad blocks.

use std::ffi::OsStr;
use std::fs;

use fsmend_ext_check::bad_blocks::read_test;
use fsmend_ext_check::glance::Glance;
use fsmend_ext_check::repair::BadBlockWish;

use super::options::BadBlocks;
use super::session::Session;
use crate::exit;

impl Session {
    /// What the command line wants on the list, if anything; the exit code if that cannot be known.
    pub(super) fn bad_block_wish(&mut self, seen: &Glance) -> Result<Option<BadBlockWish>, u8> {
        let Some(asked) = self.options.bad_blocks.clone() else { return Ok(None) };
        let raw = &seen.superblock;
        let range = (u64::from(raw.s_first_data_block.get()), raw.blocks_count());
        let (found, keeps) = match &asked {
            BadBlocks::Test => (self.test_blocks(seen, range)?, self.options.keep_bad_blocks),
            BadBlocks::More(file) => (self.read_list(file)?, true),
            BadBlocks::All(file) => (self.read_list(file)?, false),
        };
        let (blocks, strays): (Vec<u64>, Vec<u64>) =
            found.into_iter().partition(|block| (range.0..range.1).contains(block));
        for stray in strays {
            self.out.complain(&format!("Bad block {stray} is out of range; ignored.\n"));
        }
        self.out.print(&format!("{}: Updating bad block inode.\n", self.name));
        Ok(Some(BadBlockWish { blocks: blocks.into(), keeps }))
    }

    fn test_blocks(&mut self, seen: &Glance, range: (u64, u64)) -> Result<Vec<u64>, u8> {
        self.out.print("Reading all blocks, to find bad ones\n");
        let block_size = 1024u32.checked_shl(seen.superblock.s_log_block_size.get()).unwrap_or(1024);
        let Some(bad) = read_test(&*self.device, block_size, range, &self.cancel) else {
            return Err(exit::CANCELLED);
        };
        self.out.print(&format!("{}: {} of {} blocks cannot be read\n", self.name, bad.len(), range.1));
        Ok(bad)
    }

    fn read_list(&mut self, file: &OsStr) -> Result<Vec<u64>, u8> {
        fs::read(file).map(|bytes| numbers(&bytes)).map_err(|error| {
            let text = format!("{}: {}: {error}\n", self.program, file.to_string_lossy());
            self.out.complain(&text);
            exit::OPERATIONAL
        })
    }
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
