// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved plans as a user reads them, and the names that files get in lost+found.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::path::{Path, PathBuf};

use images::{Folder, asked, code, compat, debugfs, e2fsck, fsmend, have, stderr, stdout};
use serde_json::Value as Json;

fn ready(test: &str) -> bool {
    have(test, &["mke2fs", "debugfs", "e2fsck"])
}

fn on(image: &Path, arguments: &[&str]) -> std::process::Output {
    fsmend(&[arguments, &[image.to_str().unwrap()]].concat())
}

/// An image in which `ann/thesis.txt` has lost its name and `a/one` has a wrong link count; the number of the former.
fn nameless(folder: &Folder, name: &str) -> (PathBuf, u64) {
    let image = folder.image(name, &[]);
    let thesis = folder.path("thesis");
    std::fs::write(&thesis, "dear reader").unwrap();
    debugfs(&image, "mkdir ann");
    debugfs(&image, &format!("write {} ann/thesis.txt", thesis.display()));
    let told = asked(&image, "stat ann/thesis.txt");
    let number = told.split("Inode: ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    debugfs(&image, "unlink ann/thesis.txt");
    debugfs(&image, "sif a/one links_count 7");
    (image, number)
}

fn saved(folder: &Folder, image: &Path) -> String {
    let plan = folder.path("plan").to_str().unwrap().to_owned();
    let saved = on(image, &["repair", "--plan", &plan]);
    assert_eq!(code(&saved), 0, "{}", stderr(&saved));
    plan
}

#[test]
fn a_plan_tells_what_happens_to_which_file_and_to_the_tree() {
    if !ready("plan: show") {
        return;
    }
    let folder = Folder::new("plan-show");
    let (image, number) = nameless(&folder, "x.img");
    let plan = saved(&folder, &image);
    let shown = fsmend(&["plan", "show", &plan]);
    let text = stdout(&shown);
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
    let place = format!("#{number}.thesis.txt");
    assert!(text.contains("/a/one (inode") && text.contains(": metadata corrected"), "{text}");
    assert!(text.contains(&format!("moved to lost+found as {place}")), "{text}");
    assert!(text.contains(&format!("  + /lost+found/{place}")), "{text}");
    assert!(text.contains("inode tables") && text.contains("ext.inode.links-mismatch"), "{text}");
    let json: Json =
        serde_json::from_str(&stdout(&fsmend(&["plan", "show", "--format", "json", &plan]))).unwrap();
    let told = &json["plan"];
    assert_eq!(told["target"], image.to_str().unwrap());
    assert_eq!(told["tree"][0]["after"], format!("/lost+found/{place}"));
    let bytes = |name: &str| {
        let found =
            told["structures"].as_array().unwrap().iter().find(|one| one["structure"] == name).cloned();
        found.map_or(0, |one| one["bytes"].as_u64().unwrap())
    };
    assert!(bytes("inode tables") > 0 && bytes("file contents and directories") > 0, "{told:#}");
    assert!(told["blocks"].as_array().unwrap().len() > 2);
    // What is shown is what is done.
    assert_eq!(code(&fsmend(&["apply", "--no-undo", &plan])), 1);
    assert!(asked(&image, "ls lost+found").contains(&place), "{}", asked(&image, "ls lost+found"));
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
}

#[test]
fn a_plan_is_compared_with_its_target_without_writing() {
    if !ready("plan: verify") {
        return;
    }
    let folder = Folder::new("plan-verify");
    let (image, _) = nameless(&folder, "x.img");
    let before = std::fs::read(&image).unwrap();
    let plan = saved(&folder, &image);
    for arguments in [["plan", "verify", &plan] as [&str; 3], ["apply", "--dry-run", &plan]] {
        let fits = fsmend(&arguments);
        assert_eq!(code(&fits), 0, "{arguments:?}: {}", stderr(&fits));
        assert!(stdout(&fits).contains("unchanged since the plan was made"), "{}", stdout(&fits));
    }
    assert_eq!(std::fs::read(&image).unwrap(), before, "nothing was written");
    let other = folder.path("other.img");
    let mut changed = before.clone();
    changed[1024 + 0x78] ^= 1;
    std::fs::write(&other, changed).unwrap();
    let differs = fsmend(&["plan", "verify", &plan, other.to_str().unwrap()]);
    assert_eq!(code(&differs), 4, "{}", stdout(&differs));
    assert!(stdout(&differs).contains("has changed since"), "{}", stdout(&differs));
    assert_eq!(code(&fsmend(&["apply", "-n", &plan, other.to_str().unwrap()])), 8);
    assert_eq!(code(&fsmend(&["apply", "--no-undo", &plan])), 1);
    let done = fsmend(&["plan", "verify", &plan]);
    assert_eq!(code(&done), 0);
    assert!(stdout(&done).contains("already applied"), "{}", stdout(&done));
    std::fs::write(&plan, "no plan").unwrap();
    for arguments in [["plan", "verify", &plan] as [&str; 3], ["plan", "show", &plan]] {
        assert_eq!(code(&fsmend(&arguments)), 8, "{arguments:?}");
    }
}

#[test]
fn scripts_that_look_for_bare_numbers_find_them() {
    if !ready("plan: bare numbers") {
        return;
    }
    let folder = Folder::new("plan-bare");
    let (image, number) = nameless(&folder, "x.img");
    let copies = ["y.img", "z.img"].map(|name| folder.path(name));
    for copy in &copies {
        std::fs::copy(&image, copy).unwrap();
    }
    assert_eq!(code(&on(&image, &["repair", "-y", "--no-undo"])), 1);
    assert_eq!(code(&on(&copies[0], &["repair", "-y", "--no-undo", "--bare-numbers"])), 1);
    assert_eq!(code(&compat("-fy", &copies[1])), 1, "e2fsck_compat");
    let names = |image: &Path| asked(image, "ls lost+found");
    assert!(names(&image).contains(&format!("#{number}.thesis.txt")), "{}", names(&image));
    for copy in &copies {
        assert!(names(copy).contains(&format!("#{number} ")), "{}", names(copy));
        assert!(!names(copy).contains("thesis"), "{}", names(copy));
        assert_eq!(code(&e2fsck("-fn", copy)), 0);
    }
}

#[test]
fn a_lost_directory_of_long_and_odd_names_comes_back_with_them() {
    if !ready("plan: long names") {
        return;
    }
    let folder = Folder::new("plan-long");
    let image = folder.path("x.img");
    let tree = folder.path("tree");
    std::fs::create_dir_all(tree.join("d")).unwrap();
    let long = |number: usize| format!("{number:03}{}.txt", "n".repeat(248));
    for number in 0..60 {
        std::fs::write(tree.join("d").join(long(number)), "x").unwrap();
    }
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff<b>\n.txt");
    std::fs::write(tree.join("d").join(odd), "x").unwrap();
    std::fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let options =
        ["-q", "-F", "-t", "ext4", "-b", "1024", "-d", tree.to_str().unwrap(), image.to_str().unwrap()];
    fsmend_testkit::host::run("mke2fs", options).unwrap();
    debugfs(&image, "clri d");
    let repaired = on(&image, &["repair", "-y", "--no-undo"]);
    assert_eq!(code(&repaired), 1, "{}{}", stdout(&repaired), stderr(&repaired));
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
    let names = asked(&image, "ls -p lost+found");
    let names: Vec<&str> = names.lines().filter_map(|line| line.split('/').nth(5)).collect();
    let ours: Vec<&&str> = names.iter().filter(|name| name.starts_with('#')).collect();
    assert_eq!(ours.len(), 61, "{names:?}");
    assert!(ours.iter().all(|name| name.ends_with(".txt") && name.len() <= 255), "{ours:?}");
    assert!(ours.iter().any(|name| name.len() == 255), "long names are used up to the limit");
    assert!(ours.iter().any(|name| name.ends_with("\\xff<b>\\x0a.txt")), "{ours:?}");
}

#[test]
fn hostile_names_do_not_become_markup() {
    if !ready("plan: hostile names") {
        return;
    }
    let folder = Folder::new("plan-hostile");
    let image = folder.image("x.img", &[]);
    debugfs(&image, "mkdir \"a/<img src=x onerror=alert(1)>\"");
    debugfs(&image, "sif \"a/<img src=x onerror=alert(1)>\" links_count 7");
    let plan = saved(&folder, &image);
    for page in [
        stdout(&fsmend(&["plan", "show", "--format", "html", &plan])),
        stdout(&on(&image, &["check", "--format", "html"])),
        stdout(&on(&image, &["repair", "-n", "--format", "html"])),
    ] {
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("\\u003cimg src=x"), "{page}");
        assert!(!page.contains("<img"), "{page}");
    }
}

/// A repair of a UFS whose names change is told as one of ext: names that go, and what becomes of them.
#[test]
fn a_plan_for_ufs_tells_which_names_change() {
    use fsmend_testkit::ufs::{Maker, Shape};
    use fsmend_ufs_format::{ByteOrder, Version};

    let folder = Folder::new("plan-ufs");
    let image = folder.path("ufs.img");
    let mut made = Maker::filled(Shape::small(Version::Ufs2, ByteOrder::Little)).finish();
    // The entry of a file leads to an inode that is not in use, so that the file has no name and the name no file.
    let at = made.entry_at("/d", "single");
    made.bytes[at..at + 4].copy_from_slice(&900_u32.to_le_bytes());
    std::fs::write(&image, &made.bytes).unwrap();
    let plan = saved(&folder, &image);
    let json: Json =
        serde_json::from_str(&stdout(&fsmend(&["plan", "show", "--format", "json", &plan]))).unwrap();
    let tree = json["plan"]["tree"].as_array().unwrap();
    let has = |member: &str, wanted: &dyn Fn(&str) -> bool| {
        tree.iter().any(|change| change[member].as_str().is_some_and(wanted))
    };
    assert!(has("before", &|path| path == "/d/single"), "{tree:#?}");
    assert!(has("after", &|path| path.starts_with("/lost+found/#")), "{tree:#?}");
    let files = json["plan"]["files"].as_array().unwrap();
    let gone = files.iter().find(|file| file["inode"] == 900).unwrap();
    assert_eq!(gone["actions"][0]["action"], "name-removed", "{gone:#}");
    let directory = files.iter().find(|file| file["path"] == "/d").unwrap();
    assert_eq!(directory["actions"][0]["action"], "corrected", "{directory:#}");
}

/// What changes in a directory is its entries: it is not "kept", and a smaller one has lost nothing.
#[test]
fn a_directory_whose_entries_change_is_corrected() {
    if !ready("plan: directories") {
        return;
    }
    let folder = Folder::new("plan-directories");
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/damaged.qcow2");
    let plan = saved(&folder, &example);
    let json: Json =
        serde_json::from_str(&stdout(&fsmend(&["plan", "show", "--format", "json", &plan]))).unwrap();
    let files = json["plan"]["files"].as_array().unwrap();
    for path in
        ["/users/alice/photos/2026-06", "/users/alice/recipes", "/users/bob/thesis/figures", "/srv/mail"]
    {
        let directory = files.iter().find(|file| file["path"] == path).unwrap();
        let actions = directory["actions"].as_array().unwrap();
        let words: Vec<&str> = actions.iter().map(|action| action["action"].as_str().unwrap()).collect();
        assert_eq!(words, ["corrected"], "{path}");
    }
}
