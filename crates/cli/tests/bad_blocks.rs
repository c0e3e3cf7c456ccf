// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bad blocks, as `e2fsck_compat` finds and lists them: `-c`, `-cc`, `-l`, `-L`, `-k`.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fsmend_testkit::host;
use images::{Folder, asked, code, compat, debugfs, e2fsck, have, prepared, stderr, stdout};

/// Size, and blocks, of the list of bad blocks as debugfs tells them.
fn bad_block_list(image: &Path) -> Vec<String> {
    let output = asked(image, "stat <1>");
    let is_told =
        |line: &&str| line.contains("Size:") || line.contains("Blockcount:") || line.starts_with('(');
    output.lines().filter(is_told).map(str::to_owned).collect()
}

#[test]
fn the_list_of_bad_blocks_is_as_e2fsck_leaves_it() {
    if !have("e2fsck_compat: bad blocks", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-bad-blocks");
    let image = folder.image("bad.img", &["-b", "1024"]);
    let (few, many, one) = (folder.path("few"), folder.path("many"), folder.path("one"));
    std::fs::write(&few, "7000\n 7001\n99999999\n").unwrap();
    let numbers: Vec<String> = (5000..6500).step_by(3).map(|block| format!("{block}\n")).collect();
    std::fs::write(&many, numbers.concat()).unwrap();
    std::fs::write(&one, "7003\n").unwrap();
    let theirs = folder.path("theirs.img");
    std::fs::copy(&image, &theirs).unwrap();
    for (letter, list) in [("l", &few), ("l", &many), ("L", &few), ("l", &one), ("c", &one), ("L", &many)] {
        let options = match letter {
            "c" => "-y -c -k".to_owned(),
            _ => format!("-y -{letter} {}", list.display()),
        };
        let output = compat(&options, &image);
        assert!(
            code(&output) == 1 || letter == "c" && code(&output) == 0,
            "{options}: {}{}",
            stdout(&output),
            stderr(&output)
        );
        if letter != "c" {
            e2fsck(&options, &theirs);
        }
        assert_eq!(bad_block_list(&image), bad_block_list(&theirs), "{options}");
        assert_eq!(code(&e2fsck("-fn", &image)), 0, "{options}");
        assert_eq!(code(&compat("-fn", &image)), 0, "{options}");
    }
    assert_eq!(code(&compat("-y -c", &image)), 1);
    assert!(bad_block_list(&image).iter().all(|line| !line.starts_with('(')), "nothing is bad any more");
    assert_eq!(code(&compat("-y -l /nonexistent/list", &image)), 8);
}

#[test]
fn a_file_keeps_its_contents_when_its_blocks_turn_bad() {
    if !have("e2fsck_compat: bad blocks of files", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-bad-file");
    let image = folder.image("bad.img", &["-b", "1024"]);
    let blocks = asked(&image, "blocks a/one");
    let list = folder.path("list");
    std::fs::write(&list, blocks.replace(' ', "\n")).unwrap();
    let before = asked(&image, "cat a/one");
    let preened = compat(&format!("-p -l {}", list.display()), &image);
    assert_eq!(code(&preened), 4, "{}", stdout(&preened));
    let mended = compat(&format!("-y -l {}", list.display()), &image);
    assert_eq!(code(&mended), 1, "{}", stdout(&mended));
    assert_eq!(asked(&image, "cat a/one"), before);
    assert_ne!(asked(&image, "blocks a/one"), blocks);
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
}

#[test]
fn inodes_in_a_bad_block_are_lost_and_count_as_used() {
    if !have("e2fsck_compat: bad inode tables", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-bad-table");
    let image = folder.image("bad.img", &["-b", "1024", "-I", "256"]);
    let place = asked(&image, "imap a/one");
    let block = place.split("located at block ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    let list = folder.path("list");
    std::fs::write(&list, &block).unwrap();
    let theirs = copy_of(&folder, &image);
    e2fsck(&format!("-y -l {}", list.display()), &theirs);
    let ours = compat(&format!("-y -l {}", list.display()), &image);
    assert_eq!(code(&ours), 1, "{}", stdout(&ours));
    assert!(stdout(&ours).contains("is in a bad block"), "{}", stdout(&ours));
    for image in [&image, &theirs] {
        assert_eq!(code(&e2fsck("-fn", image)), 0);
        assert_eq!(code(&compat("-fn", image)), 0);
    }
    let bitmap = |image: &Path| {
        asked(image, "show_super_stats -h")
            .lines()
            .find(|line| line.starts_with("Free inodes:"))
            .map(str::to_owned)
    };
    assert_eq!(bitmap(&image), bitmap(&theirs), "what lies in a bad block counts as used");
}

/// The tools of the tests with write tests.
const TOOLS: [&str; 3] = ["mke2fs", "debugfs", "e2fsck"];

/// Whether two images are the same but for their superblocks, in which the time of the check stands.
fn same_but_superblock(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| std::fs::read(path).unwrap());
    one.len() == other.len() && one[..1024] == other[..1024] && one[2048..] == other[2048..]
}

fn copy_of(folder: &Folder, image: &Path) -> PathBuf {
    let copy = folder.path("copy.img");
    std::fs::copy(image, &copy).unwrap();
    copy
}

/// The log of a run on `image`.
fn log_of(image: &Path) -> PathBuf {
    PathBuf::from(format!("{}.fsmend-undo", image.display()))
}

#[test]
fn a_write_test_keeps_everything() {
    if !have("e2fsck_compat: write test", &TOOLS) {
        return;
    }
    let folder = Folder::new("compat-write-test");
    for options in [["-b", "1024"], ["-b", "4096"]] {
        let image = folder.image("good.img", &options);
        let before = copy_of(&folder, &image);
        let output = compat("-y -cc", &image);
        assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains(" 0 of "), "{}", stdout(&output));
        assert!(same_but_superblock(&image, &before) && !log_of(&image).exists());
        assert_eq!(code(&e2fsck("-fn", &image)), 0);
    }
}

#[test]
fn a_write_test_is_refused_on_what_is_in_use_and_on_what_cannot_be_marked() {
    if !have("e2fsck_compat: write test refused", &TOOLS) {
        return;
    }
    let folder = Folder::new("compat-write-refused");
    let image = folder.image("x.img", &[]);
    let dead = folder.path("dead.img");
    let mut bytes = std::fs::read(&image).unwrap();
    bytes[1024 + 0x3FC] ^= 1;
    std::fs::write(&dead, &bytes).unwrap();
    let output = compat("-y -cc", &dead);
    assert_eq!(code(&output), 8, "{}", stdout(&output));
    assert!(stderr(&output).contains("repair it first"), "{}", stderr(&output));
    assert!(std::fs::read(&dead).unwrap() == bytes);
    let Some(mount) = host::is_root()
        .then(|| host::LoopMount::new(&image, &folder.path("mnt"), "ext4", "ro").ok())
        .flatten()
    else {
        return host::skip("e2fsck_compat: write test refused", "loop mounts are not possible");
    };
    let before = std::fs::read(&image).unwrap();
    let output = compat("-y -cc", &image);
    assert_eq!(code(&output), 8, "{}", stdout(&output));
    mount.unmount().unwrap();
    assert!(std::fs::read(&image).unwrap() == before);
}

/// An image of 64 MiB that is full of one file but for its first part; and where that file ends.
fn filled(folder: &Folder) -> (PathBuf, u64) {
    let image = folder.path("full.img");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    host::run("mke2fs", ["-q", "-F", "-t", "ext4", "-b", "4096", image.to_str().unwrap()]).unwrap();
    let (pad, big) = (folder.path("pad"), folder.path("big"));
    std::fs::write(&pad, vec![b'x'; 10 << 20]).unwrap();
    let bytes: Vec<u8> =
        (0..45u32 << 18).flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
    std::fs::write(&big, bytes).unwrap();
    debugfs(&image, &format!("write {} pad", pad.display()));
    debugfs(&image, &format!("write {} big", big.display()));
    debugfs(&image, "rm pad");
    let blocks = asked(&image, "blocks big");
    let last = blocks.split_whitespace().filter_map(|block| block.parse().ok()).max().unwrap();
    (image, last)
}

/// `e2fsck_compat` where nothing can be written from `block` (of 4 KiB) of any file on: writes fail with an error, reads do not.
fn face_with_limit(options: &str, image: &Path, block: u64) -> Output {
    let line = format!(
        "trap '' XFSZ; ulimit -f {}; exec {} e2fsck {options} {}",
        block * 8,
        env!("CARGO_BIN_EXE_fsmend"),
        image.display()
    );
    prepared("sh").arg("-c").arg(line).output().unwrap()
}

#[test]
fn what_bad_blocks_do_not_take_back_gets_another_place() {
    if !have("e2fsck_compat: write test finds bad blocks", &TOOLS) {
        return;
    }
    let folder = Folder::new("compat-write-bad");
    let (image, last) = filled(&folder);
    let bad = last - 9;
    // Unattended nothing is repaired, and what the blocks held is kept.
    let preened = face_with_limit("-p -cc", &image, bad);
    assert_eq!(code(&preened), 4, "{}{}", stdout(&preened), stderr(&preened));
    assert!(log_of(&image).exists());
    let native = images::fsmend(&["repair", "-n", image.to_str().unwrap()]);
    assert!(stderr(&native).contains("interrupted"), "{}", stderr(&native));
    let mended = face_with_limit("-y", &image, bad);
    assert_eq!(code(&mended), 1, "{}{}", stdout(&mended), stderr(&mended));
    assert!(!log_of(&image).exists());
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
    let out = folder.path("out");
    debugfs(&image, &format!("dump big {}", out.display()));
    assert!(std::fs::read(&out).unwrap() == std::fs::read(folder.path("big")).unwrap());
    let listed: Vec<u64> =
        asked(&image, "blocks <1>").split_whitespace().filter_map(|block| block.parse().ok()).collect();
    assert!((bad..16384).all(|block| listed.contains(&block)), "{listed:?}");
    let places = asked(&image, "blocks big");
    let is_good = |place: &str| place.parse::<u64>().is_ok_and(|block| block < bad);
    assert!(places.split_whitespace().all(is_good), "{places}");
}

#[test]
fn what_a_write_test_saved_is_kept_and_not_written_over_what_came_later() {
    if !have("e2fsck_compat: write test overtaken", &TOOLS) {
        return;
    }
    let folder = Folder::new("compat-write-overtaken");
    let (image, last) = filled(&folder);
    let original = std::fs::read(&image).unwrap();
    let bad = last - 9;
    let preened = face_with_limit("-p -cc", &image, bad);
    assert_eq!(code(&preened), 4, "{}{}", stdout(&preened), stderr(&preened));
    // The disk has lost two of these blocks, and the file system has been mounted since.
    let (lost, junk) = (bad as usize * 4096, vec![b'J'; 8192]);
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    file.write_all_at(&junk, lost as u64).unwrap();
    debugfs(&image, "ssv mnt_count 7");
    debugfs(&image, "mkdir newer");
    let mended = compat("-p", &image);
    let told = stdout(&mended);
    assert_eq!(code(&mended), 1, "{told}{}", stderr(&mended));
    assert!(!log_of(&image).exists());
    let saved = folder.path("full.img.fsmend-saved");
    assert!(told.contains(saved.to_str().unwrap()), "{told}");
    assert!(told.contains(&format!("bytes {lost} to {}", lost + 8191)), "{told}");
    let now = std::fs::read(&image).unwrap();
    assert!(now[lost..lost + junk.len()] == junk, "nothing old was written over it");
    assert!(asked(&image, "ls /").contains("newer"));
    let saved = std::fs::read(saved).unwrap();
    assert!(
        saved[lost..] == original[lost..lost + junk.len()],
        "what it held, and nothing else, in its place"
    );
    assert!(saved[..lost].iter().all(|byte| *byte == 0));
    let again = compat("-p", &image);
    assert_eq!(code(&again), 0, "{}{}", stdout(&again), stderr(&again));
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
}

/// A write test that has begun to write.
fn begun(image: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fsmend"))
        .args(["e2fsck", "-y", "-cc"])
        .arg(image)
        .env("E2FSCK_CONFIG", "/nonexistent")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    // The mark: patterns come right after it.
    let is_marked = || {
        let mut state = [0; 2];
        let read = std::fs::File::open(image).unwrap().read_exact_at(&mut state, 1024 + 0x3A);
        read.is_ok() && u16::from_le_bytes(state) & 2 != 0
    };
    while !is_marked() && Instant::now() < until {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

#[test]
fn a_write_test_that_is_killed_loses_nothing() {
    if !have("e2fsck_compat: write test killed", &TOOLS) {
        return;
    }
    let folder = Folder::new("compat-write-killed");
    let (image, _) = filled(&folder);
    let before = copy_of(&folder, &image);
    let mut was_seen = false;
    for pause in [1, 3, 5, 10, 20, 40, 80] {
        let mut child = begun(&image);
        std::thread::sleep(Duration::from_millis(pause));
        child.kill().unwrap();
        child.wait().unwrap();
        was_seen |= !same_but_superblock(&image, &before);
        let output = compat("-p", &image);
        assert!(code(&output) <= 1, "{}{}", stdout(&output), stderr(&output));
        assert!(same_but_superblock(&image, &before) && !log_of(&image).exists(), "{pause}");
    }
    if !was_seen {
        host::skip("e2fsck_compat: write test killed", "no kill came while patterns stood on the target");
    }
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
}

#[test]
fn a_write_test_that_is_stopped_gives_everything_back_and_exits_32() {
    if !have("e2fsck_compat: write test stopped", &TOOLS) {
        return;
    }
    let folder = Folder::new("compat-write-stopped");
    let (image, _) = filled(&folder);
    let before = std::fs::read(&image).unwrap();
    let mut child = begun(&image);
    host::run("kill", ["-TERM", &child.id().to_string()]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(32));
    assert!(std::fs::read(&image).unwrap() == before && !log_of(&image).exists());
}
