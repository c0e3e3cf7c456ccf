// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system is changed by the tools of e2fsprogs, one after the other, in every way that they know. Some leave old backups,
//! counts or checksums behind on purpose: what e2fsck calls sound after that, we call sound.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fsmend_testkit::contents::Content;
use fsmend_testkit::host::{command, find_program, run, skip};
use fsmend_testkit::image::{Built, Recipe, build};
use fsmend_testkit::oracle::Verdict;
use fsmend_testkit::{fsmend, oracle, target_folder};

/// What is changed: name, options of mke2fs.
const BASES: &[(&str, &str)] = &[
    ("ext4-1k", "-t ext4 -b 1024"),
    ("ext4-4k", "-t ext4 -b 4096"),
    ("ext3", "-t ext3 -b 1024"),
    ("ext2", "-t ext2 -b 1024"),
    ("no-sparse-super", "-t ext4 -b 1024 -O ^sparse_super,^resize_inode"),
    ("sparse-super2", "-t ext4 -b 1024 -O sparse_super2,^resize_inode"),
    ("meta-bg", "-t ext4 -b 1024 -O meta_bg,^resize_inode"),
    ("inodes-128", "-t ext4 -b 1024 -I 128"),
    ("uninit-bg", "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg"),
    ("no-flex-bg", "-t ext4 -b 1024 -O ^flex_bg -g 1024"),
    ("no-64bit", "-t ext4 -b 1024 -O ^64bit"),
    ("seed", "-t ext4 -b 1024 -O metadata_csum_seed"),
    ("orphan-file", "-t ext4 -b 1024 -O orphan_file"),
    ("quota", "-t ext4 -b 1024 -O quota"),
    ("bigalloc", "-t ext4 -b 1024 -O bigalloc -C 4096"),
    ("inline", "-t ext4 -b 1024 -O inline_data"),
    ("ext2-no-sparse-super", "-t ext2 -b 1024 -O ^sparse_super,^resize_inode"),
    ("revision-0", "-t ext2 -b 1024 -r 0"),
];

/// What is done: commands, with `$` for the image. A tool may refuse; then the next one comes.
const CHANGES: &[&str] = &[
    "tune2fs -O ^sparse_super $",
    "tune2fs -O sparse_super $",
    "tune2fs -O sparse_super $; e2fsck -fy $",
    "tune2fs -I 256 $",
    "tune2fs -O ^metadata_csum $",
    "tune2fs -O metadata_csum $",
    "tune2fs -O ^metadata_csum $; tune2fs -U random $; tune2fs -O metadata_csum $",
    "tune2fs -f -U random $",
    "tune2fs -U time $",
    "tune2fs -U clear $",
    "e2label $ another",
    "tune2fs -L label -m 1 -c 30 -i 10 -e panic -M /somewhere $",
    "tune2fs -r 1000 -u 12 -g 13 -o acl,user_xattr,journal_data $",
    "tune2fs -O ^has_journal $",
    "tune2fs -j $",
    "tune2fs -O ^has_journal $; tune2fs -J size=2 $",
    "tune2fs -O ^dir_index $",
    "tune2fs -O dir_index $",
    "tune2fs -O dir_index $; e2fsck -fyD $",
    "tune2fs -O ^filetype $; e2fsck -fy $",
    "tune2fs -O filetype $; e2fsck -fy $",
    "tune2fs -O ^resize_inode $",
    "tune2fs -O ^resize_inode $; e2fsck -fy $",
    "tune2fs -O quota $",
    "tune2fs -O project $",
    "tune2fs -O quota $; tune2fs -O ^quota $",
    "tune2fs -O mmp $",
    "tune2fs -O mmp $; tune2fs -O ^mmp $",
    "tune2fs -O read-only $",
    "tune2fs -O metadata_csum_seed $; tune2fs -U random $",
    "tune2fs -O ^metadata_csum_seed $",
    "tune2fs -O ea_inode,large_dir,verity,stable_inodes,fast_commit $",
    "tune2fs -O encrypt $",
    "tune2fs -O casefold $",
    "tune2fs -O orphan_file $",
    "tune2fs -O ^orphan_file $",
    "tune2fs -O extents,dir_nlink,extra_isize,huge_file,large_file,uninit_bg $; e2fsck -fy $",
    "tune2fs -O ^uninit_bg $",
    "tune2fs -O uninit_bg $; e2fsck -fy $",
    "tune2fs -O ^huge_file $",
    "tune2fs -O ^large_file $",
    "tune2fs -O ^extra_isize $",
    "e2fsck -fy $; resize2fs -s $",
    "e2fsck -fy $; resize2fs -b $",
    "truncate -s 150M $; resize2fs $",
    "truncate -s 3000M $; resize2fs $",
    "e2fsck -fy $; resize2fs $ 30M",
    "e2fsck -fy $; resize2fs -M $",
    "e2fsck -fy $; resize2fs $ 20M; resize2fs $ 60M",
    "truncate -s 200M $; resize2fs $; e2fsck -fy $; resize2fs $ 60M",
    "e2fsck -fy $; resize2fs $ 31000K; truncate -s 31000K $",
    "e2fsck -fyD $",
    "tune2fs -O extent $; e2fsck -fy -E bmap2extent $",
    "tune2fs -E stride=4,stripe_width=8,hash_alg=tea,mount_opts=nodelalloc $",
    "tune2fs -E hash_alg=legacy $",
    "tune2fs -E force_fsck $",
    "tune2fs -E test_fs $",
    "tune2fs -T 20200101 -C 5 $",
    "tune2fs -z $.undo -O ^has_journal $; e2undo -f $.undo $",
    "tune2fs -z $.undo -I 512 $; e2undo -f $.undo $",
    "e2image -r $ $.raw; mv $.raw $",
    "e2image -ra $ $.raw; mv $.raw $",
    "mke2fs -q -F -t ext4 -b 4096 $",
    "mke2fs -q -F -t ext2 -b 1024 $ 40M",
    "mke2fs -q -F -t ext3 -b 1024 -g 4096 $",
    "mke2fs -q -F -t ext4 -b 1024 -O sparse_super2 $",
    "debugfs -w -R dirty $",
    "e2fsck -fy -b 8193 -B 1024 $",
    "tune2fs -O ext_attr $",
];

/// What e2fsck 1.47 calls damaged and we do not: base, change, why.
const OTHERWISE: &[(&str, &str, &str)] = &[
    (
        "orphan-file",
        "tune2fs -O ^metadata_csum",
        "old checksums stay in the orphan file, where nobody looks at them without that feature but e2fsck",
    ),
    ("inline", "tune2fs -O quota", "e2fsck charges nobody for a link that lies in its inode"),
    ("inline", "tune2fs -O project", "e2fsck charges nobody for a link that lies in its inode"),
];

/// What e2fsck 1.47 calls sound and we do not: change, our code, why.
const STRICTER: &[(&str, &str, &str)] = &[(
    "tune2fs -O ea_inode,large_dir,verity,stable_inodes,fast_commit",
    "ext.journal.no-room-for-fast-commits",
    "tune2fs does not look at the length of the journal; the kernel does, and refuses to mount",
)];

/// One pair in so many is tried, unless `FSMEND_TOOLS=all` asks for every one. It is less than the number of bases and has no divisor in
/// common with it, so that every change meets a base, and every base several changes.
const ONE_IN: usize = 13;

#[test]
fn what_tools_leave_sound_is_called_sound() {
    if let Some(missing) = ["mke2fs", "tune2fs", "resize2fs", "debugfs", "e2image", "e2undo"]
        .iter()
        .find(|program| find_program(program).is_none())
    {
        return skip("after every tool", &format!("needs {missing}"));
    }
    let all = std::env::var("FSMEND_TOOLS").is_ok_and(|word| word == "all");
    let pairs = CHANGES.iter().flat_map(|change| BASES.iter().map(move |base| (base, *change)));
    let pairs: Vec<_> = pairs.enumerate().filter(|(at, _)| all || at % ONE_IN == 0).collect();
    let (next, sound) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((at, (base, change))) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match judged(*at, base, change) {
                        Ok(is_sound) => drop(sound.fetch_add(usize::from(is_sound), Ordering::Relaxed)),
                        Err(failure) => {
                            failures.lock().unwrap().push(format!("{}, {change}: {failure}", base.0))
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), pairs.len(), failures.join("\n"));
    let sound = sound.into_inner();
    assert!(
        sound * 2 > pairs.len(),
        "only {sound} of {} are sound: the tools do not do what they should",
        pairs.len()
    );
}

/// Judges one base after one change; says whether e2fsck calls it sound.
fn judged(
    number: usize,
    (name, mke2fs): &(&'static str, &'static str),
    change: &str,
) -> Result<bool, String> {
    let image = target_folder().join(format!("tools-{number}-{}.img", std::process::id()));
    let outcome = made(&image, name, mke2fs, change).and_then(|()| compared(&image));
    for leftover in ["img", "img.undo", "img.raw"] {
        let _ = fs::remove_file(image.with_extension(leftover));
    }
    let (theirs, ours) = outcome.map_err(|error| error.to_string())?;
    let is_sound = ours.code() == Some(0) && ours.json.is_some() && ours.codes().is_empty();
    let is_known = OTHERWISE.iter().any(|(base, start, _)| base == name && change.starts_with(start));
    let is_stricter =
        STRICTER.iter().any(|(start, code, _)| change.starts_with(start) && ours.codes() == [*code]);
    match theirs {
        Verdict::Sound if !is_sound && !is_stricter => Err(format!("false alarm: {}", ours.summary())),
        Verdict::Damaged if is_sound && !is_known => Err("e2fsck finds damage, we do not".to_owned()),
        verdict => Ok(verdict == Verdict::Sound),
    }
}

fn made(image: &Path, name: &'static str, mke2fs: &'static str, change: &str) -> io::Result<()> {
    let contents = [
        Content::Basic,
        Content::Entries(300),
        Content::Nested(5),
        Content::HardLinks,
        Content::Symlinks,
        Content::Tiny,
    ];
    let Built::Image(base) = build(&Recipe::new(name, 64, mke2fs).copied(&contents))? else {
        return Err(io::Error::other("it cannot be made"));
    };
    run("cp", ["--sparse=always".as_ref(), base.as_os_str(), image.as_os_str()])?;
    for step in change.split(';') {
        let step = step.replace('$', &image.to_string_lossy());
        let mut words = step.split_whitespace();
        let Some(program) = words.next() else { continue };
        // Which of them refuse does not matter.
        command(program).args(words).output()?;
    }
    Ok(())
}

fn compared(image: &Path) -> io::Result<(Verdict, fsmend::Report)> {
    let (theirs, _) = oracle::e2fsck(image, Duration::from_secs(60))?;
    Ok((theirs, fsmend::check(image, &["--all"])?))
}
