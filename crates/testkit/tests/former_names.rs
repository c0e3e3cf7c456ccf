// SPDX-License-Identifier: MIT OR Apache-2.0
//! What loses its name is reported with the name that it had: real images, damaged in the ways in which names are lost.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, MemoryDevice, ReadBackend};
use fsmend_engine::pool::Schedule;
use fsmend_engine::{FormerName, Problem, Progress, Value, Witness};
use fsmend_ext_check::run::{CheckOptions, Meter, check};
use fsmend_ext_check::superblock::SuperblockOptions;
use fsmend_testkit::host::{find_program, run, skip};
use fsmend_testkit::target_folder;

const BLOCK: usize = 1024;
const LETTERS: [&str; 9] = ["a", "bb", "ccc", "dddd", "eeeee", "f", "gg", "hhh", "iiii"];

/// An image of `/people/ann/letters` with letters and a folder, `/people/ann/note`, and `/many` with directories and files in several
/// blocks; deleted when this goes.
struct Image(std::path::PathBuf);

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Image {
    fn new(name: &str, mke2fs: &str) -> Option<Image> {
        if find_program("mke2fs").is_none() || find_program("debugfs").is_none() {
            skip(name, "needs mke2fs and debugfs");
            return None;
        }
        let path = target_folder().join(format!("former-{name}-{}.img", std::process::id()));
        let tree = path.with_extension("tree");
        fs::create_dir_all(tree.join("people/ann/letters/old")).unwrap();
        for letter in LETTERS {
            fs::write(tree.join("people/ann/letters").join(letter), letter).unwrap();
        }
        fs::write(tree.join("people/ann/note"), "note").unwrap();
        for number in 0..40 {
            fs::create_dir_all(tree.join(format!("many/a-directory-of-number-{number}"))).unwrap();
            fs::write(tree.join(format!("many/file-of-number-{number}")), "x").unwrap();
        }
        fs::File::create(&path).unwrap().set_len(12 << 20).unwrap();
        let target = path.to_str().unwrap();
        let folder = ["-d", tree.to_str().unwrap(), target];
        run("mke2fs", "-q -F".split(' ').chain(mke2fs.split(' ')).chain(folder)).unwrap();
        fs::remove_dir_all(tree).unwrap();
        Some(Image(path))
    }

    fn ask(&self, request: &str) -> String {
        let output = run("debugfs", ["-R", request, self.0.to_str().unwrap()]).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn debugfs(&self, commands: &[&str]) {
        let script = self.0.with_extension("commands");
        fs::write(&script, commands.join("\n") + "\n").unwrap();
        run("debugfs", ["-w", "-f", script.to_str().unwrap(), self.0.to_str().unwrap()]).unwrap();
        fs::remove_file(&script).unwrap();
    }

    fn inode(&self, path: &str) -> u32 {
        let told = self.ask(&format!("stat {path}"));
        let number = told.split("Inode: ").nth(1).unwrap().split_whitespace().next().unwrap();
        number.parse().unwrap()
    }

    fn block(&self, path: &str) -> u64 {
        self.ask(&format!("blocks {path}")).split_whitespace().next().unwrap().parse().unwrap()
    }

    fn patch(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(&self.0).unwrap();
        change(&mut bytes);
        fs::write(&self.0, bytes).unwrap();
    }

    /// The former names that a check tells, by inode; the same at any number of threads.
    fn former_names(&self) -> BTreeMap<u32, Vec<FormerName>> {
        let told: Vec<Vec<Problem>> = [1, 2, 7, 64].map(|threads| problems(&self.0, threads)).into();
        assert!(told.iter().all(|problems| *problems == told[0]), "threads");
        let names = |problem: &Problem| {
            let (_, names) = problem.details.iter().find(|(name, _)| *name == "former_names")?;
            let Value::List(names) = names else { panic!("{names:?}") };
            let name = |value: &Value| match value {
                Value::Former(name) => name.clone(),
                other => panic!("{other:?}"),
            };
            assert!(problem.message().contains("; it was probably "), "{}", problem.message());
            Some((problem.object.inode?.0, names.iter().map(name).collect()))
        };
        told[0].iter().filter_map(names).collect()
    }
}

fn problems(image: &Path, threads: usize) -> Vec<Problem> {
    let bytes = fs::read(image).unwrap();
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("former", bytes));
    let options = CheckOptions {
        threads,
        memory: 256 << 20,
        replay: true,
        superblock: SuperblockOptions::default(),
        external_journal: None,
        now: 4_000_000_000,
        backend: ReadBackend::Pread,
        want_all_paths: true,
        meter: Meter::default,
        stage_clock: None,
        repair: None,
        schedule: Schedule { every_worker: true, ..Schedule::default() },
        allowance: None,
        trace: None,
    };
    check(&device, &options, &Progress::new(), &AtomicBool::new(false)).unwrap().findings.into_sorted()
}

const EXT4: &str = "-t ext4 -b 1024 -O metadata_csum";

/// The inodes of all letters with their paths, and where the entries of their directory stand.
fn letters(image: &Image) -> (BTreeMap<u32, String>, u64) {
    let path = |letter: &&str| format!("/people/ann/letters/{letter}");
    let letters = LETTERS.iter().map(path).chain(["/people/ann/letters/old".to_owned()]);
    (letters.map(|path| (image.inode(&path), path)).collect(), image.block("/people/ann/letters"))
}

/// `witness`, in `block`, reports all of `expected` and nothing else.
#[track_caller]
fn expect(image: &Image, expected: &BTreeMap<u32, String>, witness: Witness, block: Option<u64>) {
    let found = image.former_names();
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (inode, names) in found {
        let [name] = &names[..] else { panic!("{inode}: {names:?}") };
        assert_eq!((&name.path, name.witness), (&expected[&inode], witness), "{inode}");
        assert!(block.is_none_or(|block| name.block.is_some_and(|found| found.0 == block)), "{name:?}");
    }
}

#[test]
fn names_in_a_lost_directory() {
    for (number, mke2fs) in [EXT4, "-t ext2 -b 1024", "-t ext3 -b 2048 -O ^filetype"].iter().enumerate() {
        let Some(image) = Image::new(&format!("lost-{number}"), mke2fs) else { return };
        let (expected, block) = letters(&image);
        image.debugfs(&["clri /people/ann/letters"]);
        expect(&image, &expected, Witness::Entry, Some(block));
    }
}

#[test]
fn names_in_a_lost_directory_within_a_lost_directory() {
    let Some(image) = Image::new("nested", EXT4) else { return };
    let (mut expected, _) = letters(&image);
    expected.insert(image.inode("/people/ann/note"), "/people/ann/note".to_owned());
    image.debugfs(&["clri /people/ann/letters", "clri /people/ann"]);
    expect(&image, &expected, Witness::Entry, None);
}

#[test]
fn names_in_what_is_no_directory_any_more() {
    let Some(image) = Image::new("mode", EXT4) else { return };
    let (expected, block) = letters(&image);
    image.debugfs(&["sif /people/ann/letters mode 0100644"]);
    expect(&image, &expected, Witness::Entry, Some(block));
}

#[test]
fn names_in_later_blocks_of_a_lost_directory() {
    let Some(image) = Image::new("later", EXT4) else { return };
    let mut expected = BTreeMap::new();
    for number in 0..40 {
        for what in ["a-directory-of-number", "file-of-number"] {
            let path = format!("/many/{what}-{number}");
            expected.insert(image.inode(&path), path);
        }
    }
    assert!(image.ask("blocks /many").split_whitespace().count() > 2);
    image.debugfs(&["clri /many"]);
    expect(&image, &expected, Witness::Entry, None);
}

#[test]
fn names_behind_damage_in_a_block() {
    let Some(image) = Image::new("broken", EXT4) else { return };
    let (expected, block) = letters(&image);
    image.patch(|bytes| {
        let start = block as usize * BLOCK;
        let records = &mut bytes[start..start + BLOCK];
        let (mut at, mut number) = (0, 0);
        while at < BLOCK - 12 {
            let len = usize::from(u16::from_le_bytes([records[at + 4], records[at + 5]]));
            if number == 3 || number == 7 {
                // Neither its length can be nor its inode: one that only has a wrong length is cut, and the names behind it stay.
                records[at..at + 6].copy_from_slice(&[0xFF, 0xFF, 0xFF, 0xFF, 0xF7, 0xFF]);
            }
            (at, number) = (at + len, number + 1);
        }
    });
    let found = image.former_names();
    assert!((3..6).contains(&found.len()), "{found:?}");
    for (inode, names) in found {
        assert_eq!((&names[0].path, names[0].witness), (&expected[&inode], Witness::BrokenEntry));
    }
}

#[test]
fn names_of_deleted_entries() {
    for (number, mke2fs) in [EXT4, "-t ext4 -b 1024 -I 256 -O inline_data"].iter().enumerate() {
        let Some(image) = Image::new(&format!("deleted-{number}"), mke2fs) else { return };
        let paths = ["/people/ann/note", "/people/ann/letters/old", "/people/ann/letters/gg"];
        let expected = paths.map(|path| (image.inode(path), path.to_owned())).into();
        image.debugfs(&paths.map(|path| format!("unlink {path}")).each_ref().map(String::as_str));
        expect(&image, &expected, Witness::DeletedEntry, None);
    }
}

#[test]
fn names_in_older_copies_in_the_journal() {
    let Some(image) = Image::new("journal", EXT4) else { return };
    let (expected, block) = letters(&image);
    let copy = image.0.with_extension("block");
    fs::write(&copy, &fs::read(&image.0).unwrap()[block as usize * BLOCK..][..BLOCK]).unwrap();
    image.debugfs(&["jo", &format!("jw -b {block} {}", copy.display()), "jc", "jr"]);
    fs::remove_file(copy).unwrap();
    assert!(image.former_names().is_empty(), "nothing is wrong");
    image.patch(|bytes| bytes[block as usize * BLOCK..][..BLOCK].fill(0xA5));
    expect(&image, &expected, Witness::Journal, None);
}

#[test]
fn older_copies_of_a_block_that_several_directories_claim() {
    let Some(image) = Image::new("shared", "-t ext3 -b 1024") else { return };
    let block: usize = image.ask("bmap /many 1").trim().parse().unwrap();
    let copy = image.0.with_extension("block");
    fs::write(&copy, &fs::read(&image.0).unwrap()[block * BLOCK..][..BLOCK]).unwrap();
    image.debugfs(&["jo", &format!("jw -b {block} {}", copy.display()), "jc", "jr"]);
    fs::remove_file(copy).unwrap();
    image.debugfs(&[
        &format!("sif /people block[1] {block}"),
        "sif /people size 2048",
        &format!("sif /people/ann/letters/old block[1] {block}"),
        "sif /people/ann/letters/old size 2048",
    ]);
    image.patch(|bytes| bytes[block * BLOCK..][..BLOCK].fill(0xA5));
    // Three directories claim the block. `..` of the subdirectories named in the copy decides.
    let found = image.former_names();
    assert!(found.len() > 5, "{found:?}");
    for (inode, names) in found {
        let [name] = &names[..] else { panic!("{inode}: {names:?}") };
        assert!(name.path.starts_with("/many/") && name.witness == Witness::Journal, "{inode}: {name:?}");
    }
}

#[test]
fn a_parent_entry_tells_the_place() {
    let Some(image) = Image::new("parent", "-t ext2 -b 1024") else { return };
    let (inode, block) = (image.inode("/people/ann/letters"), image.block("/people/ann"));
    image.patch(|bytes| {
        let records = &mut bytes[block as usize * BLOCK..][..BLOCK];
        records[24..].fill(0);
        records[16..18].copy_from_slice(&(BLOCK as u16 - 12).to_le_bytes());
    });
    expect(&image, &[(inode, "/people/ann".to_owned())].into(), Witness::ParentEntry, None);
}

#[test]
fn what_is_empty_is_told_before_it_is_freed() {
    let Some(image) = Image::new("empty", EXT4) else { return };
    image.debugfs(&["write /dev/null /people/empty"]);
    let inode = image.inode("/people/empty");
    image.debugfs(&["unlink /people/empty"]);
    expect(&image, &[(inode, "/people/empty".to_owned())].into(), Witness::DeletedEntry, None);
}
