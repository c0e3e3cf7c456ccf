// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images that are made without the kernel have the same bytes every time.
#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_testkit::image::made_anew;
use fsmend_testkit::repair::bases;
use fsmend_testkit::target_folder;

#[test]
fn bases_of_the_field_fuzzer_are_the_same_every_time() {
    for recipe in bases::recipes() {
        let make = |turn: u32| {
            let folder =
                target_folder().join(format!("written-{}-{turn}-{}", recipe.name, std::process::id()));
            made_anew(&recipe, &folder).unwrap()
        };
        let (one, two) = (make(1), make(2));
        let differ = one.iter().zip(&two).position(|(one, two)| one != two);
        assert_eq!(differ, None, "{}: the first byte that differs", recipe.name);
    }
}
