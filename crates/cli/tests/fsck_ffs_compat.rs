// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of fsck_ffs: every option, every exit code, and the lines that rc scripts look for; beside FreeBSD's own program where that is there.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fsmend_testkit::host::skip;
use fsmend_testkit::ufs::{Image, Maker, Shape, peers};
use fsmend_ufs_format::summary::Counts;
use fsmend_ufs_format::superblock::SuperblockFlags;
use fsmend_ufs_format::{ByteOrder, Version};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fsmend-fsck-ffs-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A fresh copy of an image, always under the same name.
    fn copy(&self, image: &Image) -> PathBuf {
        let path = self.0.join("image");
        fs::write(&path, &image.bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(
    program: impl AsRef<std::ffi::OsStr>,
    words: &[&str],
    options: &str,
    image: &Path,
) -> (i32, String, String) {
    let mut command = Command::new(program);
    command.args(words).args(options.split_whitespace()).arg(image).stdin(Stdio::null());
    command.env("FSMEND_STATE_DIR", std::env::temp_dir().join("fsmend-test-state"));
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn compat(options: &str, image: &Path) -> (i32, String, String) {
    run(env!("CARGO_BIN_EXE_fsmend"), &["fsck_ffs"], options, image)
}

fn sound(version: Version) -> Image {
    Maker::filled(Shape::small(version, ByteOrder::Little)).finish()
}

fn changed(change: impl FnOnce(&mut Image)) -> Image {
    let mut image = sound(Version::Ufs2);
    change(&mut image);
    image
}

fn unclean() -> Image {
    changed(|image| image.amend_superblock(|superblock| superblock.set_clean(0)))
}

/// Counts are stale: safe for an unattended run.
fn miscounted() -> Image {
    changed(|image| {
        image.amend_superblock(|superblock| superblock.set_clean(0));
        image.amend_group(1, |group, _| {
            let counts = group.counts();
            group.set_counts(Counts { free_blocks: counts.free_blocks - 1, ..counts });
        });
    })
}

/// A damage that needs an administrator.
fn damaged() -> Image {
    changed(|image| image.amend("/d/single", |record| record.set_pointer(2, u64::MAX)))
}

fn with_flags(bits: SuperblockFlags) -> Image {
    changed(|image| image.amend_superblock(|superblock| superblock.set_flags(superblock.flags() | bits)))
}

/// The lines that scripts look for.
fn lines(text: &str) -> Vec<&str> {
    let marks = ["** ", "*****", " frags, ", "SKIPPING CHECKS", "INCONSISTENCY", "RERUN", "CANNOT RUN"];
    text.lines().filter(|line| marks.iter().any(|mark| line.contains(mark))).collect()
}

#[test]
fn sound_and_stale_file_systems_are_told_as_fsck_ffs_tells_them() {
    let test = "sound_and_stale_file_systems_are_told_as_fsck_ffs_tells_them";
    let Some(peer) = peers::program("fsck_ffs") else { return skip(test, peers::FOLDER) };
    let folder = Folder::new(test);
    let images = [sound(Version::Ufs1), sound(Version::Ufs2), unclean(), miscounted()];
    for (number, image) in images.iter().enumerate() {
        for options in [
            "-n",
            "-p",
            "-y",
            "-f -n",
            "-f -y",
            "-f -p",
            "-C -y",
            "-C -p",
            "-fny",
            "-fyn",
            "-p -y",
            "-B",
            "-F",
            "-R -fn",
            "-r -fn",
            "-S -fn",
            "-c 3 -fn",
            "-b 99999 -n",
        ] {
            let theirs = run(&peer, &[], options, &folder.copy(image));
            let ours = compat(options, &folder.copy(image));
            assert_eq!(lines(&ours.1), lines(&theirs.1), "{number} {options}: {}{}", theirs.1, ours.2);
            assert_eq!(ours.0, theirs.0, "{number} {options}: {}{}", ours.1, ours.2);
        }
    }
}

#[test]
fn every_option_is_taken_or_refused() {
    let folder = Folder::new("options");
    let image = sound(Version::Ufs2);
    // Options, exit code, and a part of what is said.
    for (options, code, said) in [
        ("-n", 0, "(NO WRITE)"),
        ("-y", 0, "FILE SYSTEM IS CLEAN"),
        ("-p", 0, "FILE SYSTEM CLEAN; SKIPPING CHECKS"),
        ("-fp", 0, " files, "),
        ("-fn", 0, "** Phase 5 - Check Cyl groups"),
        ("-C -n", 0, "SKIPPING CHECKS"),
        ("-d -fn", 0, "** Phase 1 - Check Blocks and Sizes"),
        ("-R -fn", 0, "** Phase 2 - Check Pathnames"),
        ("-r -fn", 0, "** Phase 3 - Check Connectivity"),
        ("-S -fn", 0, "** Phase 4 - Check Reference Counts"),
        ("-E -fn", 0, "-E: free blocks are not trimmed"),
        ("-Z -fn", 0, "-Z: free blocks are not overwritten"),
        ("-z -fn", 0, "-z: unused parts of directories"),
        ("-m 0755 -fn", 0, " files, "),
        ("-c 3 -fn", 0, " files, "),
        ("-b 160 -fn", 8, "160 is not a file system superblock"),
        ("-B", 8, "NOT MOUNTED, CANNOT RUN IN BACKGROUND"),
        ("-F", 5, ""),
        ("-m 9 -n", 8, "-m flag requires a mode"),
        ("-b none -n", 8, "-b flag requires a number"),
        ("-c new -n", 8, "-c flag requires"),
        ("-Q", 1, "usage: fsck_ffs"),
        ("-f", 8, "need a terminal"),
    ] {
        let (found, out, wrong) = compat(options, &folder.copy(&image));
        assert_eq!(found, code, "{options}: {out}{wrong}");
        assert!(out.contains(said) || wrong.contains(said), "{options}: {out}{wrong}");
        assert!(fs::read(folder.0.join("image")).unwrap() == image.bytes, "{options} has written");
    }
    let sector = image.geometry.superblock_copy(1) / 512;
    let (found, out, wrong) = compat(&format!("-b {sector} -fn"), &folder.copy(&image));
    assert_eq!(found, 0, "{out}{wrong}");
    assert!(out.contains(&format!("Alternate super block location: {sector}")), "{out}");
}

#[test]
fn exit_codes_tell_what_became_of_a_file_system() {
    let folder = Folder::new("codes");
    let mut lost = sound(Version::Ufs2);
    lost.bytes.fill(0);
    let cases: &[(&str, Image, &str, i32, &str)] = &[
        ("unclean", unclean(), "-p", 0, " files, "),
        ("unclean", unclean(), "-y", 0, "***** FILE SYSTEM MARKED CLEAN *****"),
        ("stale counts", miscounted(), "-p", 0, "(FIXED)"),
        ("stale counts", miscounted(), "-y", 0, "***** FILE SYSTEM WAS MODIFIED *****"),
        ("damaged", damaged(), "-fp", 8, "UNEXPECTED INCONSISTENCY; RUN fsck_ffs MANUALLY."),
        ("damaged", damaged(), "-fy", 0, "***** FILE SYSTEM WAS MODIFIED *****"),
        ("damaged", damaged(), "-fn", 0, "FIX? no"),
        ("journal", with_flags(SuperblockFlags::SOFT_UPDATES | SuperblockFlags::JOURNAL), "-F", 4, ""),
        ("soft updates", with_flags(SuperblockFlags::SOFT_UPDATES), "-F", 6, ""),
        (
            "needs a check",
            with_flags(SuperblockFlags::SOFT_UPDATES | SuperblockFlags::NEEDS_FSCK),
            "-F",
            4,
            "",
        ),
        ("no superblock", lost.clone(), "-F", 3, ""),
        ("no superblock", lost.clone(), "-p", 3, "no superblock"),
        ("no superblock", lost, "-n", 8, "no superblock"),
    ];
    for (name, image, options, code, said) in cases {
        let path = folder.copy(image);
        let (found, out, wrong) = compat(options, &path);
        assert_eq!(found, *code, "{name} {options}: {out}{wrong}");
        assert!(
            format!("{out}{wrong}").to_lowercase().contains(&said.to_lowercase()),
            "{name} {options}: {out}{wrong}"
        );
        let is_repaired = matches!(*options, "-y" | "-fy") || *options == "-p" && found == 0;
        if is_repaired {
            let (found, out, _) = compat("-fn", &path);
            assert!(
                found == 0 && out.contains("FILE SYSTEM IS CLEAN") || !out.contains("FIX?"),
                "{name}: {out}"
            );
            if let Some(answer) = peers::fsck(&["-fn"], &path).unwrap() {
                assert!(answer.is_clean(), "{name} {options}: {}", answer.printed);
            }
        } else {
            assert!(fs::read(&path).unwrap() == image.bytes, "{name} {options} has written");
        }
    }
}

#[test]
fn several_file_systems_end_at_the_first_that_fails() {
    let folder = Folder::new("several");
    let (good, bad) = (folder.0.join("good"), folder.0.join("bad"));
    fs::write(&good, sound(Version::Ufs1).bytes).unwrap();
    fs::write(&bad, damaged().bytes).unwrap();
    let (code, out, _) =
        run(env!("CARGO_BIN_EXE_fsmend"), &["fsck.ufs", "-fp", good.to_str().unwrap()], "", &bad);
    assert_eq!(code, 8, "{out}");
    assert!(out.contains("good: ") && out.contains("bad: UNEXPECTED INCONSISTENCY"), "{out}");
}

#[test]
fn big_endian_file_systems_are_repaired_too() {
    let folder = Folder::new("big");
    for version in [Version::Ufs1, Version::Ufs2] {
        let mut image = Maker::filled(Shape::small(version, ByteOrder::Big)).finish();
        image.amend("/d/single", |record| record.set_links(9));
        let path = folder.copy(&image);
        let (code, out, wrong) = compat("-fp", &path);
        assert_eq!(code, 0, "{out}{wrong}");
        assert!(out.contains("(FIXED)"), "{out}");
        assert!(!compat("-fn", &path).1.contains("FIX?"));
    }
}
