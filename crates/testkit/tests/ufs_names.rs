// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has lost its name is called in lost+found what it was called before, where a directory still tells.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::WritableMemory;
use fsmend_engine::checker::Checker;
use fsmend_engine::options::{RepairOptions, RepairPolicy};
use fsmend_engine::report::Repair;
use fsmend_engine::{Action, FileChange, Progress, Witness};
use fsmend_testkit::ufs::checked::{check, codes, manner, memory, repaired, with};
use fsmend_testkit::ufs::judged::judge;
use fsmend_testkit::ufs::{Image, Maker, Shape, tree};
use fsmend_testkit::within::options;
use fsmend_ufs_check::Ufs as Family;
use fsmend_ufs_driver::mkfs::{Options, mkfs};
use fsmend_ufs_driver::{MountOptions, Ufs};
use fsmend_ufs_format::ByteOrder::{Big, Little};
use fsmend_ufs_format::Version::{Ufs1, Ufs2};
use fsmend_ufs_format::directory::{self, Entries};
use fsmend_vfs::{FileSystem, Permissions, Time};

const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 0 };

/// A repair that calls files what they were called.
fn plan(image: &Image) -> Repair {
    let policy = RepairPolicy { former_names: true, ..RepairPolicy::default() };
    let options = RepairOptions { check: options(manner(2)), policy };
    let planned =
        Checker(Family).plan(&memory(&image.bytes), &options, &Progress::new(), &AtomicBool::new(false));
    planned.unwrap_or_else(|why| panic!("{}", why.refusal))
}

/// What is reported of the former names of an inode.
fn told(repair: &Repair, inode: u32) -> Vec<(Witness, String)> {
    let about =
        repair.found.findings.iter().filter(|problem| problem.object.inode.is_some_and(|of| of.0 == inode));
    about.flat_map(|problem| problem.former_names()).map(|name| (name.witness, name.path)).collect()
}

#[test]
fn directories_tell_what_files_without_a_name_were_called() {
    for shape in Shape::all() {
        let mut image = Maker::filled(shape).finish();
        let [lost, deep, inner, single, many] =
            ["/d/e/f", "/d/e/f/deep", "/d/e", "/d/single", "/many/a name of some length 007"]
                .map(|path| image.inode(path));
        // A directory whose inode is lost, a name that was removed, and one of which nothing is left.
        let at = image.record_at(lost);
        let size = image.geometry.version.inode_size();
        image.bytes[at..at + size].fill(0);
        image.remove_name("/many", "a name of some length 007");
        let entry = image.entry_at("/d", "e");
        image.remove_name("/d", "e");
        image.bytes[entry..entry + 8].fill(0);
        let repair = plan(&image);
        assert!(repair.is_clean(), "{shape:?}: {:?}", codes(&repair.left));
        let is_in_d = |(witness, path): &(Witness, String)| *witness == Witness::ParentEntry && path == "/d";
        assert!(told(&repair, inner).iter().any(is_in_d), "{shape:?}: {:?}", told(&repair, inner));
        assert_eq!(
            told(&repair, many),
            [(Witness::DeletedEntry, "/many/a name of some length 007".to_owned())],
            "{shape:?}"
        );
        let of_deep = told(&repair, deep);
        let is_entry =
            |(witness, path): &(Witness, String)| *witness == Witness::Entry && path.ends_with("/deep");
        assert!(of_deep.iter().any(is_entry), "{shape:?}: {of_deep:?}");
        assert_eq!(told(&repair, single), []);
        let repaired = with(&image.bytes, &repair.changes);
        assert_eq!(codes(&check(&repaired, 1)), [""; 0], "{shape:?}");
        let names: Vec<String> = tree(&repaired).into_keys().collect();
        for name in [format!("{deep}.deep"), format!("{many}.a name of some length 007")] {
            assert!(names.iter().any(|path| path.ends_with(&name)), "{shape:?} {name}: {names:?}");
        }
    }
}

/// Before, such an image was refused, and what is refused cannot be mounted to make room.
#[test]
fn what_has_lost_its_name_goes_into_the_root_where_no_inode_is_left_for_lost_found() {
    for (version, order) in [(Ufs2, Little), (Ufs1, Big)] {
        let device = Arc::new(WritableMemory::new("ufs", vec![0; 4 << 20]));
        let made = Options {
            order,
            block_size: 4096,
            inode_ratio: Some(65536),
            ..Options::new(version, [7, 8], NOW)
        };
        mkfs(device.clone(), &made).unwrap();
        let mut ufs = Ufs::mount(device.clone(), MountOptions::new(NOW)).unwrap();
        let (root, of) = (ufs.root(), Permissions { mode: 0o755, uid: 0, gid: 0 });
        let lost = ufs.mkdir(root, b"lost", of, NOW).unwrap().inode;
        ufs.mkdir(lost, b"below", of, NOW).unwrap();
        let mut files = 0;
        while ufs.create(root, format!("file-{files}").as_bytes(), of, NOW).is_ok() {
            files += 1;
        }
        assert!(files > 10);
        ufs.unmount(NOW).unwrap();
        let mut image = Image::open(device.bytes()).unwrap();
        let inode = image.inode("/lost");
        image.remove_name("/", "lost");
        assert_eq!(judge(&image.bytes, None, order == Little), Ok(()), "{version:?}");
        let mut repair = plan(&image);
        let device = memory(&image.bytes);
        let files = Checker(Family).files(&device, &mut repair, &options(manner(1)));
        let after = tree(&with(&image.bytes, &repair.changes));
        let name =
            after.keys().find(|path| path.starts_with("/#") && path.ends_with(".lost")).unwrap().clone();
        assert!(after.contains_key(&format!("{name}/below")), "{version:?}: {:?}", after.keys());
        let is_told = |file: &FileChange| file.actions.contains(&Action::MovedToLostFound(name.clone()));
        assert!(files.iter().any(|file| file.inode.0 == inode && is_told(file)), "{version:?}: {files:#?}");
    }
}

/// Where chunk 1 of `/many` begins, and chunk 0.
fn chunks_of_many(image: &Image) -> [usize; 2] {
    let at = image.geometry.place(image.record(image.inode("/many")).pointer(0)) as usize;
    [at, at + directory::CHUNK]
}

/// A chunk of a directory was written over its first one: every name of it stands twice, and `.` and `..` take the room of one. Each stays once; before, both went of the one that
/// found no room.
#[test]
fn names_that_stand_twice_stay_once() {
    for shape in Shape::all() {
        let mut image = Maker::filled(shape).finish();
        let [first, second] = chunks_of_many(&image);
        let in_second: Vec<String> =
            Entries::new(&image.bytes[second..second + directory::CHUNK], shape.order)
                .map(|entry| String::from_utf8(entry.unwrap().name.to_vec()).unwrap())
                .collect();
        image.bytes.copy_within(second..second + directory::CHUNK, first);
        let names = tree(&repaired(&image.bytes, "a chunk over the first one").bytes);
        for name in &in_second {
            assert!(names.contains_key(&format!("/many/{name}")), "{shape:?}: {name}");
        }
        let again =
            |path: &&String| in_second.iter().any(|name| path.contains("lost+found") && path.contains(name));
        assert_eq!(names.keys().find(again), None, "{shape:?}");
    }
}

/// Two files with one name: the second gets a suffix and stays in its directory; without room for it, the suffix takes the end of the name. Where the first leads nowhere, the
/// second keeps its name.
#[test]
fn equal_names_of_different_files_get_suffixes() {
    for shape in Shape::all() {
        let mut image = Maker::filled(shape).finish();
        let names = [7, 8, 30, 31].map(|index| format!("a name of some length {index:03}"));
        let [_, second, nowhere, heir] =
            [0, 1, 2, 3].map(|at: usize| image.inode(&format!("/many/{}", names[at])));
        for (name, equal) in [(1, 0), (3, 2)] {
            let at = image.entry_at("/many", &names[name]);
            image.bytes[at + 8..at + 8 + names[equal].len()].copy_from_slice(names[equal].as_bytes());
        }
        let size = image.geometry.version.inode_size();
        let at = image.record_at(nowhere);
        image.bytes[at..at + size].fill(0);
        let repaired = repaired(&image.bytes, "equal names");
        let inode =
            |path: &str| repaired.entry(repaired.inode("/many"), path.as_bytes()).map(|(inode, _)| inode);
        let renamed = ["a name of some length 007~0", "a name of some length 0~0"];
        assert!(renamed.iter().any(|name| inode(name) == Some(second)), "{shape:?}");
        assert_eq!(inode(&names[2]), Some(heir), "{shape:?}");
        assert!(!tree(&repaired.bytes).keys().any(|path| path.contains("lost+found/")), "{shape:?}");
    }
}
