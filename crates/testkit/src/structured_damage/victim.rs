// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sound image that is damaged and judged, over and over.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use fsmend_engine::Severity;

use super::{Mischief, mischief};
use crate::oracle::{self, Verdict};
use crate::repair::bytes::{Reader, u32_at};
use crate::repair::known::Known;
use crate::repair::mount::mount_and_read;
use crate::repair::scratch::{with_bytes, with_file};
use crate::repair::{Depth, E2fsck, Failure, Fsmend, Image, Judge, Reference, Tree};
use crate::within::{Manner, checked};

/// `needs_recovery` among the incompatible features.
const WAITS: u32 = 4;

/// A sound image.
pub struct Victim {
    sound: &'static [u8],
    tree: Tree,
    known: Known,
    now: u64,
    mountable: OnceLock<bool>,
}

/// One case, judged.
pub struct Trial {
    /// What was done to the image.
    pub mischief: Mischief,
    /// What is wrong with our check and repair.
    pub failures: Vec<Failure>,
    /// What e2fsck did.
    pub reference: Reference,
}

impl Victim {
    /// Reads an image; `None` without a superblock or a root directory. It is kept in memory until the process ends.
    pub fn of(path: &Path) -> io::Result<Option<Victim>> {
        let sound: &'static [u8] = fs::read(path)?.leak();
        let now = u64::from(u32_at(sound, 1024 + 0x30)) + 3600;
        let mountable = OnceLock::new();
        Ok(Tree::of(sound).map(|tree| Victim { sound, tree, known: Known::default(), now, mountable }))
    }

    /// How many names are in it.
    pub fn names(&self) -> usize {
        self.tree.nodes.len()
    }

    /// Damaged in the way of this number, as [`mischief`] does it.
    pub fn damaged(&self, seed: u64) -> Option<Mischief> {
        mischief(self.sound, &self.tree, seed)
    }

    /// Damages it in the way of this number, checks and repairs it. `None` where nothing came of the number.
    pub fn try_out(&self, seed: u64, depth: Depth) -> io::Result<Option<Trial>> {
        let depth = Depth { mount: depth.mount && self.is_mountable(), ..depth };
        let Some(mischief) = self.damaged(seed) else { return Ok(None) };
        let judge = Judge {
            sound: &self.tree,
            known: &self.known,
            e2fsck: E2fsck { now: self.now },
            is_mountable: self.is_mountable(),
        };
        let mut failures: Vec<Failure> = self.verdict(&mischief.image)?.into_iter().collect();
        let judgement = judge.judge(&mischief.image, &Fsmend { now: self.now }, depth)?;
        failures.extend(judgement.failures);
        Ok(Some(Trial { mischief, failures, reference: judgement.reference }))
    }

    /// Whether this kernel mounts the sound image and reads all of it.
    fn is_mountable(&self) -> bool {
        let e2fsck = E2fsck { now: self.now };
        let tried = || mount_and_read(&Image::sound(self.sound), &e2fsck).is_ok_and(|result| result.is_ok());
        *self.mountable.get_or_init(tried)
    }

    /// Whether our check and e2fsck's come to different verdicts.
    fn verdict(&self, image: &Image) -> io::Result<Option<Failure>> {
        // With `-n`, e2fsck does not look into a journal that waits.
        let words = image.read(1024 + 0x60, 4).unwrap_or_default();
        let report = checked(&image.device(), Manner::default());
        let mut ours = Vec::new();
        if let Ok(report) = report {
            let problems = report.findings.into_sorted();
            let counting = problems.iter().filter(|problem| problem.row.severity != Severity::Note);
            ours = counting.map(|problem| problem.row.code).collect();
        } else {
            ours.push("refused");
        }
        let (theirs, said) = with_file(image, |path| oracle::e2fsck(path, Duration::from_secs(20)))?;
        let waits = u32_at(&words, 0) & WAITS != 0;
        let knows = !said.contains("Get a newer version");
        Ok(match theirs {
            Verdict::Damaged if ours.is_empty() && !waits && knows && !is_a_guess(image, &said) => {
                let said = said.lines().filter(|line| {
                    !line.starts_with("Pass ") && !line.starts_with("e2fsck 1.") && !line.is_empty()
                });
                let detail = said.take(3).collect::<Vec<_>>().join(" | ");
                Some(Failure { kind: "missed".to_owned(), detail })
            }
            Verdict::Sound if !ours.is_empty() && !waits => {
                let first = ours.first().copied().unwrap_or_default();
                Some(Failure { kind: format!("too strict: {first}"), detail: ours.join(" ") })
            }
            _ => None,
        })
    }
}

/// Whether e2fsck complains of nothing but extents that it believes to see in files whose contents lie in their inodes, and which have no
/// blocks: such a file may hold any bytes, also those of the head of an extent tree, and the kernel reads them as what they are.
fn is_a_guess(image: &Image, said: &str) -> bool {
    let about_extents = |line: &str| {
        let rest =
            line.strip_prefix("Inode ")?.strip_suffix(" missing EXTENT_FL, but is in extents format")?;
        rest.parse::<u32>().ok()
    };
    let is_inline = |bytes: &[u8], number: u32| {
        let record = Reader::new(bytes).and_then(|reader| reader.inode(number));
        record.is_some_and(|record| record.is_inline() && u32_at(record.bytes, 28) == 0)
    };
    let mut lines = said.lines().filter(|line| line.starts_with("Inode ")).peekable();
    let questions = said.lines().filter(|line| line.ends_with("? no")).count();
    let complaints = said.lines().filter(|line| line.starts_with("Inode ")).count();
    lines.peek().is_some()
        && questions == complaints
        && with_bytes(image, |bytes| {
            lines.all(|line| about_extents(line).is_some_and(|number| is_inline(bytes, number)))
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_contents_of_inodes_are_guesses() {
        let mut image = vec![0; 16 << 10];
        for (at, value) in [(0, 16_u32), (20, 1), (32, 8192), (40, 16), (56, 0xEF53), (76, 1)] {
            image[1024 + at..][..4].copy_from_slice(&value.to_le_bytes());
        }
        image[1024 + 88..][..2].copy_from_slice(&256_u16.to_le_bytes());
        image[2048 + 8..][..4].copy_from_slice(&5_u32.to_le_bytes());
        let flags = 5 * 1024 + 11 * 256 + 32;
        let said =
            "Pass 1: Checking inodes\nInode 12 missing EXTENT_FL, but is in extents format\nFix? no\n\n";
        let guess = |image: &[u8], said: &str| is_a_guess(&Image::sound(image.to_vec().leak()), said);
        assert!(!guess(&image, said), "a file with blocks");
        image[flags..flags + 4].copy_from_slice(&0x1000_0000_u32.to_le_bytes());
        assert!(guess(&image, said));
        for more in ["Inode 12, i_size is 0, should be 1.  Fix? no\n", "Free blocks count wrong.\nFix? no\n"]
        {
            assert!(!guess(&image, &(said.to_owned() + more)), "{more}");
        }
        image[flags - 4] = 2;
        assert!(!guess(&image, said), "it has blocks");
    }
}
