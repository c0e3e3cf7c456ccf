//! Sound images with every feature: e2fsck calls each sound, and so must we, with nothing to report at all.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fsmend_testkit::contents::{self, Content};
use fsmend_testkit::host::{LoopMount, is_root, run, skip};
use fsmend_testkit::image::{Built, Recipe, build, matrix};
use fsmend_testkit::{fsmend, oracle, target_folder};

/// `FSMEND_MATRIX=word` restricts the run to recipes with that word in their name.
fn wanted() -> Vec<Recipe> {
    let word = std::env::var("FSMEND_MATRIX").unwrap_or_default();
    matrix::all().into_iter().filter(|recipe| recipe.name.contains(&word)).collect()
}

#[test]
fn sound_images_are_called_sound() {
    let recipes = wanted();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(recipe) = recipes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(failure) = judge(recipe) {
                        failures.lock().unwrap().push(format!("{}: {failure}", recipe.name));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} images:\n{}", failures.len(), recipes.len(), failures.join("\n"));
}

fn judge(recipe: &Recipe) -> Result<(), String> {
    let image = match build(recipe) {
        Ok(Built::Image(image)) => image,
        Ok(Built::Skipped(reason)) => {
            skip(&format!("matrix image {}", recipe.name), &reason);
            return Ok(());
        }
        Err(error) => return Err(format!("cannot be made: {error}")),
    };
    let (verdict, said) =
        oracle::e2fsck(&image, Duration::from_secs(60)).map_err(|error| error.to_string())?;
    if verdict != oracle::Verdict::Sound {
        return Err(format!("e2fsck says {verdict:?}: {said}"));
    }
    judge_by_fsmend(&image)
}

fn judge_by_fsmend(image: &Path) -> Result<(), String> {
    let report = fsmend::check(image, &["--all"]).map_err(|error| error.to_string())?;
    if report.code() == Some(0) && report.json.is_some() && report.codes().is_empty() {
        return Ok(());
    }
    Err(report.summary())
}

/// The image as it is when the power fails: mounted, with files open that have no name any more. What the journal holds
/// makes it whole, but for the totals in the superblock, which kernels let lag behind.
#[test]
fn an_image_after_a_crash_is_whole_but_for_its_totals() {
    if !is_root() {
        return skip("images after a crash", "needs a loop mount, and so the superuser");
    }
    for (name, mke2fs) in [
        ("ext3", "-t ext3 -b 1024"),
        ("ext4", "-t ext4"),
        ("ext4-orphan-file", "-t ext4 -O orphan_file"),
        ("ext4-quota", "-t ext4 -O quota"),
        ("ext4-inline", "-t ext4 -O inline_data"),
        ("ext4-bigalloc", "-t ext4 -O bigalloc"),
    ] {
        let folder = target_folder().join(format!("crash-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let outcome = crash(&folder, mke2fs).map(|image| image.map(|image| fsmend::check(&image, &[])));
        fs::remove_dir_all(&folder).unwrap();
        match outcome {
            Ok(Some(report)) => {
                let report = report.unwrap();
                let wrong: Vec<String> = report.codes();
                let is_whole = wrong.iter().all(|code| code == "ext.allocation.totals-stale");
                assert!(is_whole && report.json.is_some(), "{name}: {}", report.summary());
            }
            Ok(None) => skip(name, "this kernel cannot mount it"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// Makes the image; `None` where the kernel does not mount it.
fn crash(folder: &Path, mke2fs: &str) -> io::Result<Option<PathBuf>> {
    let (image, copy) = (folder.join("image"), folder.join("copy"));
    File::create(&image)?.set_len(64 << 20)?;
    let options = ["-q", "-F"].into_iter().chain(mke2fs.split_whitespace());
    run("mke2fs", options.map(OsStr::new).chain([image.as_os_str()]))?;
    let Ok(mount) = LoopMount::new(&image, &folder.join("mount"), "ext4", "") else { return Ok(None) };
    contents::fill(mount.path(), &[Content::Basic, Content::Entries(400), Content::HardLinks])?;
    let open = (0..20)
        .map(|number| {
            let path = mount.path().join(format!("nameless-{number}"));
            fs::write(&path, vec![b'n'; number * 3000])?;
            let file = File::open(&path)?;
            fs::remove_file(&path).map(|()| file)
        })
        .collect::<io::Result<Vec<File>>>()?;
    contents::fill(mount.path(), &[Content::Nested(20), Content::Symlinks, Content::Attributes])?;
    File::open(mount.path().join("nested/level-0"))?.sync_all()?;
    fs::copy(&image, &copy)?;
    drop(open);
    mount.unmount()?;
    Ok(Some(copy))
}
