// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repairs of file systems inside qcow2 images, with qemu-img as the judge of the image and e2fsck as that of the file system.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::path::{Path, PathBuf};

use fsmend_testkit::host;
use images::{Folder, code, debugfs, e2fsck, fsmend, have, stderr, stdout};

fn ready(test: &str) -> bool {
    have(test, &["mke2fs", "debugfs", "e2fsck", "qemu-img"])
}

fn qemu_img(words: &[&str]) -> String {
    stdout(&host::run("qemu-img", words).unwrap())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What the disk in an image holds, as QEMU sees it.
fn raw(folder: &Folder, image: &Path) -> PathBuf {
    let raw = folder.path("converted.raw");
    qemu_img(&["convert", "-O", "raw", text(image), text(&raw)]);
    raw
}

/// An ext4 of which many blocks will be written: files without names, wrong counts, a bitmap that is wrong, a directory that is gone.
fn damaged(folder: &Folder) -> PathBuf {
    let image = folder.image("x.raw", &[]);
    for request in [
        "unlink a/two",
        "sif a/one links_count 7",
        "freeb 1200 30",
        "clri a/b",
        "set_super_value free_blocks_count 17",
    ] {
        debugfs(&image, request);
    }
    image
}

/// Images of that disk in all manners that a repair has to do with, by name.
fn images_of(folder: &Folder, disk: &Path) -> Vec<(&'static str, PathBuf)> {
    let convert = |name: &'static str, options: &[&str]| {
        let image = folder.path(name);
        let words = [&["convert", "-O", "qcow2"], options, &[text(disk), text(&image)]].concat();
        qemu_img(&words);
        (name, image)
    };
    let mut images = vec![
        convert("plain", &[]),
        convert("compressed", &["-c"]),
        convert("small clusters", &["-o", "cluster_size=512"]),
        convert("large clusters", &["-o", "cluster_size=2M"]),
        convert("one bit", &["-o", "refcount_bits=1,cluster_size=4k"]),
        convert("64 bits", &["-o", "refcount_bits=64,cluster_size=512"]),
        convert("version 2", &["-o", "compat=0.10"]),
        convert("lazy", &["-o", "lazy_refcounts=on"]),
        convert("room for all", &["-o", "preallocation=metadata"]),
        convert("a snapshot", &["-o", "cluster_size=4k"]),
        convert("a compressed snapshot", &["-c"]),
    ];
    for (_, image) in &images[9..] {
        qemu_img(&["snapshot", "-c", "before", text(image)]);
    }
    let overlay = folder.path("overlay");
    qemu_img(&["create", "-q", "-f", "qcow2", "-F", "raw", "-b", text(disk), text(&overlay)]);
    images.push(("an overlay", overlay));
    images
}

#[test]
fn disks_in_images_are_repaired_and_taken_back() {
    if !ready("qcow2: repair") {
        return;
    }
    let folder = Folder::new("qcow2");
    let disk = damaged(&folder);
    let before = std::fs::read(&disk).unwrap();
    for (name, image) in images_of(&folder, &disk) {
        let repaired = fsmend(&["repair", "-y", text(&image)]);
        assert_eq!(code(&repaired), 1, "{name}: {}{}", stdout(&repaired), stderr(&repaired));
        assert_eq!(code(&fsmend(&["check", text(&image)])), 0, "{name}");
        // It fails where something is leaked, too.
        let checked = qemu_img(&["check", text(&image)]);
        assert!(checked.contains("No errors were found"), "{name}: {checked}");
        let judged = e2fsck("-fn", &raw(&folder, &image));
        assert_eq!(code(&judged), 0, "{name}: {}", stdout(&judged));
        let undo = format!("{}.fsmend-undo", text(&image));
        let undone = fsmend(&["undo", &undo]);
        assert_eq!(code(&undone), 0, "{name}: {}", stderr(&undone));
        assert!(std::fs::read(raw(&folder, &image)).unwrap() == before, "{name}");
        assert!(qemu_img(&["check", text(&image)]).contains("No errors were found"), "{name}");
        if name.contains("snapshot") {
            qemu_img(&["snapshot", "-a", "before", text(&image)]);
            assert!(std::fs::read(raw(&folder, &image)).unwrap() == before, "{name}");
        }
    }
    assert!(std::fs::read(&disk).unwrap() == before, "what is under an overlay stays");
}

#[test]
fn the_bundled_example_is_repaired() {
    let folder = Folder::new("qcow2-example");
    let image = folder.path("damaged.qcow2");
    std::fs::copy("../../examples/damaged.qcow2", &image).unwrap();
    let repaired = fsmend(&["repair", "-y", text(&image)]);
    assert_eq!(code(&repaired), 1, "{}{}", stdout(&repaired), stderr(&repaired));
    assert_eq!(code(&fsmend(&["check", text(&image)])), 0);
    assert_eq!(code(&fsmend(&["undo", &format!("{}.fsmend-undo", text(&image))])), 0);
    assert_eq!(code(&fsmend(&["check", text(&image)])), 4);
}

#[test]
fn images_are_repaired_and_not_used_otherwise() {
    let folder = Folder::new("qcow2-other");
    let image = folder.path("damaged.qcow2");
    std::fs::copy("../../examples/damaged.qcow2", &image).unwrap();
    let before = std::fs::read(&image).unwrap();
    let made = fsmend(&["mkfs", "--type", "ext4", "--force", text(&image)]);
    assert_eq!(code(&made), 8, "{}", stdout(&made));
    assert!(stderr(&made).contains("qemu-img convert"), "{}", stderr(&made));
    // What QEMU marks as corrupt is put right by qemu-img first.
    let mut corrupt = before.clone();
    corrupt[79] |= 2;
    std::fs::write(&image, &corrupt).unwrap();
    let refused = fsmend(&["repair", "-y", text(&image)]);
    assert_eq!(code(&refused), 8, "{}", stdout(&refused));
    assert!(
        stderr(&refused).contains("corrupt") && stderr(&refused).contains("qemu-img check"),
        "{}",
        stderr(&refused)
    );
    assert!(std::fs::read(&image).unwrap() == corrupt);
    assert_eq!(code(&fsmend(&["check", text(&image)])), 4);
}
