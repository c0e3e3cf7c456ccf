// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has lost its name is called in lost+found what it was called before, where a directory still tells.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::AtomicBool;

use fsmend_engine::checker::Checker;
use fsmend_engine::options::{RepairOptions, RepairPolicy};
use fsmend_engine::report::Repair;
use fsmend_engine::{Progress, Witness};
use fsmend_testkit::ufs::checked::{check, codes, manner, memory, with};
use fsmend_testkit::ufs::{Image, Maker, Shape, tree};
use fsmend_testkit::within::options;
use fsmend_ufs_check::Ufs;

/// A repair that calls files what they were called.
fn plan(image: &Image) -> Repair {
    let policy = RepairPolicy { former_names: true, ..RepairPolicy::default() };
    let options = RepairOptions { check: options(manner(2)), policy };
    let planned =
        Checker(Ufs).plan(&memory(&image.bytes), &options, &Progress::new(), &AtomicBool::new(false));
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
