// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair says that is lost: every file by name, with what happens to it, and no more than is true.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;
#[path = "support/schema.rs"]
mod schema;

use std::path::Path;

use fsmend_testkit::host;
use images::{Folder, asked, debugfs, fsmend, have, stdout};
use schema::valid_report;
use serde_json::Value;

/// What a dry run says, its line breaks taken out, and its document.
fn planned(image: &Path) -> (String, Value) {
    let image = image.to_str().unwrap();
    let text = stdout(&fsmend(&["repair", "--dry-run", image]));
    let document = valid_report(&stdout(&fsmend(&["repair", "--dry-run", "--format", "json", image])));
    (text.split_whitespace().collect::<Vec<_>>().join(" "), document["repair"].clone())
}

fn file(repair: &Value, path: &str) -> Value {
    let files = repair["files"].as_array().unwrap();
    let found = files.iter().find(|file| file["path"] == path);
    found.unwrap_or_else(|| panic!("{path}: {files:#?}")).clone()
}

fn actions(file: &Value) -> Vec<&str> {
    let actions = file["actions"].as_array().unwrap();
    actions.iter().map(|action| action["action"].as_str().unwrap()).collect()
}

#[test]
fn what_may_be_lost_names_each_file_and_what_happens_to_it() {
    if !have("losses: files by name", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("losses-files");
    let image = folder.image("x.img", &["-O", "^metadata_csum"]);
    let big = folder.path("big");
    std::fs::write(&big, vec![7; 300_000]).unwrap();
    for request in [
        format!("write {} a/nameless", big.display()),
        format!("write {} a/short", big.display()),
        format!("write {} a/free", big.display()),
        format!("write {} a/odd", big.display()),
        "unlink a/nameless".to_owned(),
        "sif a/short size 5000".to_owned(),
        "sif a/odd mode 0170644".to_owned(),
        "sif a/free links_count 0".to_owned(),
        "sif a/free dtime 1".to_owned(),
    ] {
        debugfs(&image, &request);
    }
    let (text, repair) = planned(&image);
    assert!(!text.contains("gone already"), "{text}");
    // A name of an inode that was freed before: nothing but the name.
    let freed = file(&repair, "/a/free");
    assert_eq!((freed["state"].as_str(), actions(&freed)), (Some("unused"), vec!["name-removed"]));
    assert!(text.contains("name removed. The name. Its inode was not in use before this repair."), "{text}");
    // The contents that have lost their name are kept under another one.
    let nameless = repair["files"].as_array().unwrap().iter().find(|file| file["path"].is_null()).unwrap();
    assert_eq!((nameless["size"].as_u64(), actions(nameless)), (Some(300_000), vec!["moved-to-lost-found"]));
    let place = format!("moved to lost+found as #{}", nameless["inode"]);
    assert!(text.contains(&place), "{text}");
    let short = file(&repair, "/a/short");
    assert_eq!((short["size"].as_u64(), actions(&short)), (Some(5000), vec!["extended"]));
    // Whatever becomes of a file with an impossible mode: what is told of it is what the repair leaves.
    let is_removed = actions(&file(&repair, "/a/odd")) == ["removed"];
    let code = images::code(&fsmend(&["repair", "-y", image.to_str().unwrap()]));
    assert_eq!(code, 1);
    let stays = images::asked(&image, "stat a/odd").contains("Inode:");
    assert_eq!(stays, !is_removed);
    // Each file that is listed has a verb.
    for file in repair["files"].as_array().unwrap() {
        assert!(!actions(file).is_empty(), "{file}");
    }
}

#[test]
fn files_that_share_blocks_are_told_with_what_is_copied() {
    if !have("losses: shared blocks", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("losses-shared");
    let image = folder.image("x.img", &["-O", "^metadata_csum,^extents,^64bit"]);
    // Both begin with the same block now.
    let first = images::asked(&image, "bmap a/one 0");
    debugfs(&image, &format!("sif a/two block[0] {}", first.trim()));
    let (text, repair) = planned(&image);
    let told = [file(&repair, "/a/one"), file(&repair, "/a/two")];
    let copied = told.iter().filter(|file| actions(file).contains(&"copied")).count();
    assert_eq!(copied, 1, "one gets a copy, one keeps its block: {text}");
    assert!(text.contains("1 block copied"), "{text}");
}

#[test]
fn a_file_that_is_no_file_system_is_named() {
    let folder = Folder::new("losses-foreign");
    let path = folder.path("x");
    let said = |at: usize, magic: &[u8]| {
        let mut bytes = vec![0; 1 << 20];
        bytes[at..at + magic.len()].copy_from_slice(magic);
        std::fs::write(&path, bytes).unwrap();
        let checked = fsmend(&["check", path.to_str().unwrap()]);
        assert_eq!(images::code(&checked), 8);
        assert!(!stdout(&checked).contains("ext.superblock.unusable"), "{}", stdout(&checked));
        images::stderr(&checked)
    };
    let name = path.to_str().unwrap();
    for (at, magic, what, remedy) in [
        (0, b"KDMV" as &[u8], "a VMDK image", format!("qemu-img convert -f vmdk -O raw {name} {name}.raw")),
        (0, b"conectix", "a VHD image", "-f vpc".to_owned()),
        (0, b"vhdxfile", "a VHDX image", "-f vhdx".to_owned()),
        (64, b"\x7f\x10\xda\xbe", "a VDI image", "-f vdi".to_owned()),
        (0, b"QFI\xfb\0\0\0\x01", "a QCOW image of version 1", "-f qcow ".to_owned()),
        (0, b"QED\0", "a QED image", "-f qed".to_owned()),
        (0, b"XFSB", "an XFS file system", format!("xfs_repair -n {name}")),
        (4086, b"SWAPSPACE2", "swap space", "the right device".to_owned()),
        (0, b"FSMNDPLN", "a plan of fsmend", "the right file".to_owned()),
        (0, b"\x1f\x8b\x08", "a gzip archive", format!("gzip -dc {name} > {name}.raw")),
        (0, b"\xfd7zXZ\0", "an xz archive", "xz -dc".to_owned()),
        (0, b"\x28\xb5\x2f\xfd", "a zstd archive", "zstd -dc".to_owned()),
        (257, b"ustar", "a tar archive", "tar -xf".to_owned()),
        (0, b"\x89PNG\r\n\x1a\n", "a PNG picture", "the right file".to_owned()),
        (0, b"%PDF-", "a PDF document", "the right file".to_owned()),
        (0, b"\x7fELF", "an ELF program", "the right file".to_owned()),
        // Nothing that is known, and no file system either.
        (5, b"hello", "no file system that was recognised", String::new()),
    ] {
        let said = said(at, magic);
        let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(what) && flat.contains(&remedy), "{what}: {said}");
    }
}

/// A crash during a truncation leaves the old map: here so many pieces that what stays of it needs more than four leaves.
#[test]
fn a_truncation_of_a_file_in_thousands_of_pieces_stays_done() {
    if !have("losses: a large truncation", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("losses-truncation");
    let image = folder.path("x.img");
    std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    host::run("mke2fs", ["-q", "-F", "-t", "ext4", "-b", "1024", image.to_str().unwrap()]).unwrap();
    let (big, script) = (folder.path("big"), folder.path("script"));
    let contents = numbered_blocks(8000);
    std::fs::write(&big, &contents).unwrap();
    let holes: String = (0..4000).map(|tooth| format!("punch big {0} {0}\n", tooth * 2)).collect();
    let cut = "sif big size 6500000\nsif big dtime 0\nssv last_orphan 12\n";
    std::fs::write(&script, format!("write {} big\n{holes}{cut}", big.display())).unwrap();
    host::run("debugfs", ["-w", "-f", script.to_str().unwrap(), image.to_str().unwrap()]).unwrap();
    let image = image.to_str().unwrap();
    let repaired = fsmend(&["repair", "-y", image]);
    assert!(stdout(&repaired).contains("repaired"), "{}", stdout(&repaired));
    host::run("e2fsck", ["-fn", image]).unwrap();
    let stat = host::run("debugfs", ["-R", "stat big", image]).unwrap();
    let stat = String::from_utf8_lossy(&stat.stdout).into_owned();
    assert!(stat.contains("Size: 6500000"), "{stat}");
    // What is kept is what was there: every other block, the rest are the holes.
    let mut expected = contents;
    expected.truncate(6_500_000);
    expected.chunks_mut(1024).step_by(2).take(4000).for_each(|block| block.fill(0));
    assert!(dumped(&folder, image, "big") == expected, "the kept part of the file has changed");
}

/// So many blocks of 1 KiB, no two of them alike, and none of zeroes.
fn numbered_blocks(count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|block| (0..256_u32).flat_map(move |word| (block << 8 | word | 1 << 31).to_le_bytes()))
        .collect()
}

/// What a file holds, as debugfs reads it.
fn dumped(folder: &Folder, image: &str, name: &str) -> Vec<u8> {
    let out = folder.path("dumped");
    host::run("debugfs", ["-R", &format!("dump {name} {}", out.display()), image]).unwrap();
    std::fs::read(&out).unwrap()
}

/// What a user threw away does not come back because something else is wrong, too: a pointer of the map, or an error that the kernel has noted.
#[test]
fn a_truncation_stays_done_where_the_map_is_damaged_or_errors_are_noted() {
    if !have("losses: a truncation and damage", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("losses-truncation-damaged");
    // Kind, damage, and the bytes that it takes from the file.
    let damages = [
        ("ext3", "sif big block[1] 4000000000\n", 1024..2048),
        ("ext3", "sif big block[IND] 4000000000\n", 12 << 10..268 << 10),
        ("ext3", "ssv state 2\n", 0..0),
        ("ext4", "ssv state 2\n", 0..0),
        ("ext4", "sif big block[5] 4000000000\n", 0..300_000),
    ];
    let contents = numbered_blocks(4000);
    for (at, (kind, damage, lost)) in damages.into_iter().enumerate() {
        let image = folder.path(&format!("{at}.img"));
        std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let image = image.to_str().unwrap();
        host::run("mke2fs", ["-q", "-F", "-t", kind, "-b", "1024", image]).unwrap();
        let (big, script) = (folder.path("big"), folder.path("script"));
        std::fs::write(&big, &contents).unwrap();
        let cut = "sif big size 300000\nsif big dtime 0\nssv last_orphan 12\n";
        std::fs::write(&script, format!("write {} big\n{cut}{damage}", big.display())).unwrap();
        host::run("debugfs", ["-w", "-f", script.to_str().unwrap(), image]).unwrap();
        let repaired = fsmend(&["repair", "-y", image]);
        assert!(stdout(&repaired).contains("repaired"), "{kind} {damage}: {}", stdout(&repaired));
        host::run("e2fsck", ["-fn", image]).unwrap();
        let stat = host::run("debugfs", ["-R", "stat big", image]).unwrap();
        let stat = String::from_utf8_lossy(&stat.stdout).into_owned();
        let size =
            stat.split("Size: ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        let size = size.unwrap();
        assert!(size == 300_000 || size <= lost.start as u64, "{kind} {damage}: {size} bytes are left");
        // What is kept is what was there, at its place; what is lost is a hole, and nothing else.
        let mut left = dumped(&folder, image, "big");
        left.resize(300_000, 0);
        let mut expected = contents[..300_000].to_vec();
        expected[lost].fill(0);
        let other = left.iter().zip(&expected).position(|(left, expected)| left != expected);
        assert_eq!(other, None, "{kind} {damage}: the kept part has changed");
    }
}

/// All checksums hang on the UUID, and so do those of attribute values in inodes of their own, which could not be read any more. The inodes tell the seed.
#[test]
fn values_in_inodes_of_their_own_stay_readable_when_the_uuid_is_lost() {
    if !have("losses: the UUID", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("losses-uuid");
    let (image, value, script) = (folder.path("x.img"), folder.path("value"), folder.path("script"));
    std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let name = image.to_str().unwrap();
    host::run("mke2fs", ["-q", "-F", "-t", "ext4", "-b", "4096", "-O", "ea_inode,metadata_csum", name])
        .unwrap();
    let contents: Vec<u8> = (0..20_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    std::fs::write(&value, &contents).unwrap();
    let value = value.display();
    std::fs::write(&script, format!("write {value} file\nea_set -f {value} file user.large\n")).unwrap();
    host::run("debugfs", ["-w", "-f", script.to_str().unwrap(), name]).unwrap();
    // debugfs counts the blocks of the value wrong.
    let _ = host::run("e2fsck", ["-fy", name]);
    host::run("e2fsck", ["-fn", name]).unwrap();
    let read = |image: &str| {
        let out = folder.path("out");
        host::run("debugfs", ["-R", &format!("ea_get -f {} file user.large", out.display()), image]).unwrap();
        std::fs::read(&out).unwrap()
    };
    let before = read(name);
    // debugfs keeps no more than a block of it.
    assert!(!before.is_empty() && contents.starts_with(&before), "{} bytes", before.len());
    for uuid in [[0_u8; 16], *b"another identity"] {
        let damaged = folder.path("damaged.img");
        let mut bytes = std::fs::read(&image).unwrap();
        bytes[1024 + 0x68..1024 + 0x78].copy_from_slice(&uuid);
        std::fs::write(&damaged, bytes).unwrap();
        let damaged = damaged.to_str().unwrap();
        let found = stdout(&fsmend(&["check", "--format", "json", damaged]));
        assert!(found.contains("ext.superblock.seed-lost"), "{uuid:?}: {found}");
        let others = found.replace("ext.superblock.checksum\"", "");
        assert!(!others.contains("checksum\""), "no checksum but the superblock's own is wrong: {found}");
        let repaired = fsmend(&["repair", "-y", damaged]);
        assert!(stdout(&repaired).contains("repaired"), "{uuid:?}: {}", stdout(&repaired));
        host::run("e2fsck", ["-fn", damaged]).unwrap();
        assert!(read(damaged) == before, "{uuid:?}");
    }
}

/// If no inode is free for lost+found, files without a name are reconnected in the root directory, and the report says so.
#[test]
fn names_in_the_root_are_told_where_there_is_no_room_for_lost_found() {
    if !have("losses: no inode for lost+found", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("no-home");
    let image = folder.path("full.img");
    std::fs::write(&image, vec![0; 1 << 20]).unwrap();
    host::run("mke2fs", ["-q", "-t", "ext4", "-N", "16", image.to_str().unwrap()]).unwrap();
    for request in ["rmdir lost+found", "mkdir a", "mkdir b", "mkdir c", "mkdir d", "mkdir e", "mkdir f"] {
        debugfs(&image, request);
    }
    let lost = asked(&image, "stat a").split_whitespace().nth(1).unwrap().to_owned();
    let number: u64 = lost.parse().unwrap();
    debugfs(&image, "unlink a");
    let (text, repair) = planned(&image);
    let name = format!("/#{lost}");
    assert!(text.contains(&format!("named {name}")), "{text}");
    let files = repair["files"].as_array().unwrap();
    let found = files.iter().find(|file| file["inode"] == number).unwrap();
    assert_eq!(actions(found), ["moved-to-lost-found"], "{found:#}");
}
