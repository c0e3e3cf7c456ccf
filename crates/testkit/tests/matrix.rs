// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sound images with every feature: e2fsck calls each sound, and so must we, with nothing to report at all.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fsmend_ext_format::features::Features;
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use fsmend_testkit::contents::{self, Content};
use fsmend_testkit::host::{LoopMount, is_root, run, skip};
use fsmend_testkit::image::{Built, Recipe, build, journal_of, make_journal, matrix};
use fsmend_testkit::{fsmend, oracle, target_folder};
use zerocopy::FromBytes;

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
    let seen: Mutex<BTreeSet<&str>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(recipe) = recipes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match judge(recipe) {
                        Ok(features) => seen.lock().unwrap().extend(features),
                        Err(failure) => {
                            failures.lock().unwrap().push(format!("{}: {failure}", recipe.name));
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} images:\n{}", failures.len(), recipes.len(), failures.join("\n"));
    if is_root() && recipes.len() == matrix::all().len() {
        let known = Features::from_words(!0, !0, !0).names();
        let mut seen = seen.into_inner().unwrap();
        // Images of rext3 are not made by mke2fs: `tests/rext3.rs` has them.
        seen.insert("rext3");
        seen.extend(CRASHES.iter().flat_map(|case| case.features));
        let missing: Vec<&str> = known.into_iter().filter(|name| !seen.contains(name)).collect();
        assert!(missing.is_empty(), "no image has these features: {missing:?}");
    }
}

/// The features that the superblock of `image` names, be it a file system's or a journal's.
fn features(image: &Path) -> Vec<&'static str> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    let read = File::open(image).and_then(|file| file.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET));
    let superblock = RawSuperblock::read_from_bytes(&bytes).unwrap();
    if read.is_ok() { superblock.features().names() } else { Vec::new() }
}

/// Judges an image; returns the features that it has.
fn judge(recipe: &Recipe) -> Result<Vec<&'static str>, String> {
    let image = match build(recipe) {
        Ok(Built::Image(image)) => image,
        Ok(Built::Skipped(reason)) => {
            skip(&format!("matrix image {}", recipe.name), &reason);
            return Ok(Vec::new());
        }
        Err(error) => return Err(format!("cannot be made: {error}")),
    };
    let journal = recipe.journal.map(|_| journal_of(&image));
    let (verdict, said) = oracle::e2fsck_with(&image, journal.as_deref(), Duration::from_secs(60))
        .map_err(|error| error.to_string())?;
    if verdict != oracle::Verdict::Sound {
        return Err(format!("e2fsck says {verdict:?}: {said}"));
    }
    judge_by_fsmend(&image, journal.as_deref())?;
    Ok([Some(&image), journal.as_ref()].into_iter().flatten().flat_map(|file| features(file)).collect())
}

fn judge_by_fsmend(image: &Path, journal: Option<&Path>) -> Result<(), String> {
    let mut options = vec!["--all"];
    if let Some(journal) = journal.and_then(Path::to_str) {
        options.extend(["--journal", journal]);
    }
    let report = fsmend::check(image, &options).map_err(|error| error.to_string())?;
    if report.code() == Some(0) && report.json.is_some() && report.codes().is_empty() {
        return Ok(());
    }
    Err(report.summary())
}

/// The recipe of a three-level index has to give one, or the deepest shape is not tried.
#[test]
fn the_deepest_index_has_three_levels() {
    let recipe = matrix::all().into_iter().find(|recipe| recipe.name == "three-level-htree").unwrap();
    let Ok(Built::Image(image)) = build(&recipe) else { return skip("three levels", "needs a loop mount") };
    let dump = run("debugfs", ["-R".as_ref(), "htree_dump /long-names".as_ref(), image.as_os_str()]).unwrap();
    let dump = String::from_utf8_lossy(&dump.stdout).into_owned();
    assert!(dump.contains("Indirect levels: 2"), "{}", &dump[..dump.len().min(300)]);
}

/// A healthy file system whose power fails is not damaged: mounted, written, with files open that have no name any more and files that
/// were just truncated, cut off at many moments. What the journal holds makes it whole; totals that the kernel had not written are at most a
/// note; and a preening run leaves nothing for the next check, neither for ours nor for e2fsck's.
#[test]
fn a_healthy_file_system_that_merely_crashed_is_clean() {
    if !is_root() {
        return skip("images after a crash", "needs a loop mount, and so the superuser");
    }
    for case in CRASHES {
        let folder = target_folder().join(format!("crash-{}-{}", case.name, std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let outcome = crash(&folder, case).map(|copies| {
            let judged = copies
                .iter()
                .map(|image| judge_crashed(image, case).map_err(|why| format!("{}: {why}", image.display())));
            (judged.len(), judged.collect::<Result<(), String>>())
        });
        fs::remove_dir_all(&folder).unwrap();
        match outcome {
            Ok((0, _)) => skip(case.name, "this kernel cannot mount it"),
            Ok((_, Ok(()))) => {}
            Ok((_, Err(failure))) => panic!("{}: {failure}", case.name),
            Err(error) => panic!("{}: {error}", case.name),
        }
    }
}

/// A file system that is never unmounted.
struct Crash {
    name: &'static str,
    mke2fs: &'static str,
    /// Arguments for the external journal, if it has one.
    journal: Option<&'static str>,
    /// Features that the kernel sets while it is mounted.
    features: &'static [&'static str],
}

const fn crash_of(name: &'static str, mke2fs: &'static str) -> Crash {
    Crash { name, mke2fs, journal: None, features: &["needs_recovery"] }
}

const CRASHES: &[Crash] = &[
    crash_of("ext3", "-t ext3 -b 1024"),
    crash_of("ext4", "-t ext4"),
    Crash {
        features: &["needs_recovery", "orphan_present"],
        ..crash_of("ext4-orphan-file", "-t ext4 -O orphan_file")
    },
    crash_of("ext4-quota", "-t ext4 -O quota"),
    crash_of("ext4-inline", "-t ext4 -O inline_data"),
    crash_of("ext4-bigalloc", "-t ext4 -O bigalloc"),
    crash_of("ext4-fast-commit", "-t ext4 -O fast_commit"),
    crash_of("ext4-no-checksums", "-t ext4 -O ^metadata_csum,^uninit_bg"),
    crash_of("ext4-uninit-bg", "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg"),
    crash_of("ext4-meta-bg", "-t ext4 -b 1024 -O meta_bg,^resize_inode"),
    crash_of("ext4-no-flex-bg", "-t ext4 -b 1024 -O ^flex_bg"),
    crash_of("ext4-ea-inode", "-t ext4 -O ea_inode,metadata_csum_seed"),
    crash_of("ext4-project-quota", "-t ext4 -O quota,project"),
    crash_of("ext4-small-inodes", "-t ext4 -I 128"),
    crash_of("ext4-sparse-super2", "-t ext4 -O sparse_super2,^resize_inode"),
    Crash { journal: Some("-b 4096"), ..crash_of("ext4-journal-outside", "-t ext4 -b 4096") },
];

fn judge_crashed(image: &Path, case: &Crash) -> Result<(), String> {
    let there = features(image);
    if let Some(missing) = case.features.iter().find(|name| !there.contains(*name)) {
        return Err(format!("{missing} is not among {there:?}"));
    }
    let journal = case.journal.map(|_| journal_of(image));
    let path = journal.as_deref().map(Path::to_string_lossy).unwrap_or_default().into_owned();
    let ours = |options: &[&str]| {
        let options =
            if journal.is_some() { [options, &["--journal", &path]].concat() } else { options.to_vec() };
        let report = fsmend::check(image, &options).map_err(|error| error.to_string())?;
        if report.code() == Some(0) && report.json.is_some() { Ok(report) } else { Err(report.summary()) }
    };
    ours(&[])?;
    let mut preen = Command::new(fsmend::binary().map_err(|error| error.to_string())?);
    preen.arg0("fsck.ext4").arg("-p").args(journal.iter().flat_map(|_| ["-j", &path])).arg(image);
    let preened = preen.output().map_err(|error| error.to_string())?;
    if !matches!(preened.status.code(), Some(0 | 1)) {
        return Err(format!("preened: {preened:?}"));
    }
    let left = ours(&["--all"])?;
    if !left.problems().is_empty() {
        return Err(format!("left by -p: {:?}", left.problems()));
    }
    let (verdict, said) = oracle::e2fsck_with(image, journal.as_deref(), Duration::from_secs(60))
        .map_err(|error| error.to_string())?;
    if verdict == oracle::Verdict::Sound { Ok(()) } else { Err(said) }
}

/// Copies of the image at several moments of its life; none where the kernel does not mount it.
fn crash(folder: &Path, case: &Crash) -> io::Result<Vec<PathBuf>> {
    let image = folder.join("image");
    File::create(&image)?.set_len(64 << 20)?;
    let journal = case.journal.map(|mke2fs| make_journal(mke2fs, &journal_of(&image))).transpose()?;
    let path = journal.as_ref().map_or("", |journal| journal.path());
    let outside = [format!("-Jdevice={path}"), format!("journal_path={path}")];
    let options = ["-q", "-F"].into_iter().chain(case.mke2fs.split_whitespace());
    let options = options.chain(journal.as_ref().map(|_| outside[0].as_str()));
    run("mke2fs", options.map(OsStr::new).chain([image.as_os_str()]))?;
    let mount_options = if journal.is_some() { &outside[1] } else { "" };
    let Ok(mount) = LoopMount::new(&image, &folder.join("mount"), "ext4", mount_options) else {
        return Ok(Vec::new());
    };
    let mut copies = Vec::new();
    let mut power_fails = || -> io::Result<()> {
        let copy = folder.join(format!("copy-{}", copies.len()));
        fs::copy(&image, &copy)?;
        if journal.is_some() {
            fs::copy(journal_of(&image), journal_of(&copy))?;
        }
        copies.push(copy);
        Ok(())
    };
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
    power_fails()?;
    let grown = File::create(mount.path().join("grown"))?;
    grown.write_all_at(&vec![b'g'; 3 << 20], 0)?;
    grown.sync_all()?;
    power_fails()?;
    grown.set_len(100_000)?;
    fs::rename(mount.path().join("nested"), mount.path().join("renamed"))?;
    grown.sync_all()?;
    power_fails()?;
    run("sync", ["-f".as_ref(), mount.path().as_os_str()])?;
    power_fails()?;
    drop((open, grown));
    mount.unmount()?;
    Ok(copies)
}
