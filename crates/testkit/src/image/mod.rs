// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images: a recipe says how one is made, `build` makes it once and keeps it under `target/testkit-images`.

mod make;
pub mod matrix;
mod recipe;
mod settle;

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub use recipe::{After, Fill, Recipe};

use crate::contents;
use crate::host::{LoopDevice, find_program, is_root, run};

/// Changes when the builders change in a way that recipes do not show; old cached images are then made anew.
const GENERATION: u32 = 1;

/// Size of an external journal.
const JOURNAL_SIZE: u64 = 16 << 20;

/// What became of a recipe.
pub enum Built {
    /// The image is here.
    Image(PathBuf),
    /// This machine cannot make it, for this reason.
    Skipped(String),
}

/// Makes the image of `recipe`, or finds it where an earlier run left it.
pub fn build(recipe: &Recipe) -> io::Result<Built> {
    let folder = crate::target_folder().join("testkit-images");
    fs::create_dir_all(&folder)?;
    let stem = format!("{}-{:016x}", recipe.name, fingerprint(recipe));
    let image = folder.join(format!("{stem}.img"));
    if image.exists() {
        return Ok(Built::Image(image));
    }
    if let Some(reason) = cannot_make(recipe) {
        return Ok(Built::Skipped(reason));
    }
    // Several tests of one process may want the same image at the same time.
    static WORKSHOPS: AtomicU32 = AtomicU32::new(0);
    let number = WORKSHOPS.fetch_add(1, Relaxed);
    let workshop = folder.join(format!("{stem}.{}-{number}.making", std::process::id()));
    let _ = fs::remove_dir_all(&workshop);
    fs::create_dir_all(&workshop)?;
    let made = make::make(recipe, &workshop);
    if made.is_ok() {
        if recipe.journal.is_some() {
            fs::rename(workshop.join("journal"), journal_of(&image))?;
        }
        fs::rename(workshop.join("image"), &image)?;
    }
    let _ = fs::remove_dir_all(&workshop);
    made.map(|()| Built::Image(image))
}

/// Where the external journal of an image is, if it has one.
pub fn journal_of(image: &Path) -> PathBuf {
    image.with_extension("journal")
}

fn fingerprint(recipe: &Recipe) -> u64 {
    let mut hasher = DefaultHasher::new();
    (GENERATION, format!("{recipe:?}")).hash(&mut hasher);
    hasher.finish()
}

fn cannot_make(recipe: &Recipe) -> Option<String> {
    let mut programs = vec!["mke2fs", "debugfs", "tune2fs", "resize2fs", "e2fsck"];
    let through_kernel = matches!(recipe.fill, Fill::Mount { .. }) || recipe.journal.is_some();
    if through_kernel {
        programs.extend(["mount", "umount", "losetup"]);
    }
    if recipe.contents().contains(&contents::Content::Encrypted) {
        programs.push("xfs_io");
    }
    match programs.into_iter().find(|program| find_program(program).is_none()) {
        Some(program) => Some(format!("needs {program}")),
        None if through_kernel && !is_root() => Some("needs a loop mount, and so the superuser".to_owned()),
        None => None,
    }
}

/// Makes the image of a recipe and reads it, whatever an earlier run left; `folder` must not exist and is gone afterwards.
pub fn made_anew(recipe: &Recipe, folder: &Path) -> io::Result<Vec<u8>> {
    fs::create_dir_all(folder)?;
    let image = make::make(recipe, folder).and_then(|()| fs::read(folder.join("image")));
    let _ = fs::remove_dir_all(folder);
    image
}

/// Makes the external journal. `mke2fs` takes only block devices for one, so it stays attached as long as it is needed.
pub fn make_journal(mke2fs: &str, file: &Path) -> io::Result<LoopDevice> {
    File::create(file)?.set_len(JOURNAL_SIZE)?;
    let options = ["-q", "-F", "-O", "journal_dev"].into_iter().chain(mke2fs.split_whitespace());
    run("mke2fs", options.map(OsStr::new).chain([file.as_os_str()]))?;
    LoopDevice::new(file)
}
