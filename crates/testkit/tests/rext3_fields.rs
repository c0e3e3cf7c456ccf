// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every field of what makes a rext3, damaged: one repair leaves nothing wrong, and loses nothing that did not hang on that field.
//!
//! The usual run takes a sample; `cargo test -p fsmend-testkit --test rext3_fields -- --ignored` takes all, `FSMEND_REXT3_CASE=NUMBER` one of them;
//! `FSMEND_REXT3_KEEP=FOLDER` leaves the damaged images there.
#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::SeededRandom;
use fsmend_testkit::rext3::fields::Cases;
use fsmend_testkit::rext3::{Shape, build};

/// Cases of the usual run.
const SAMPLE: u64 = 250;
/// Cases that went wrong once.
const ONCE_WRONG: [u64; 4] = [3288, 3896, 4280, 5546];

fn cases() -> Cases {
    let shape = Shape { crowd: 6, region_blocks: 40, journal_blocks: 1024, ..Shape::default() };
    Cases::on(build(shape)).unwrap()
}

fn judge(cases: &Cases, numbers: impl Iterator<Item = u64>) {
    let (mut judged, mut wrong) = (0, Vec::new());
    for number in numbers {
        let Some(case) = cases.case(number) else { continue };
        if let Some(folder) = std::env::var_os("FSMEND_REXT3_KEEP") {
            let path = std::path::Path::new(&folder).join(format!("rext3-{number}.img"));
            std::fs::write(path, &case.image.bytes).unwrap();
        }
        judged += 1;
        wrong.extend(cases.judge(&case));
    }
    assert!(judged > 0, "none of these numbers is a case");
    assert!(wrong.is_empty(), "{} complaints about {judged} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_sample_of_damaged_fields_is_mended() {
    let cases = cases();
    if let Some(number) = std::env::var("FSMEND_REXT3_CASE").ok().and_then(|number| number.parse().ok()) {
        return judge(&cases, std::iter::once(number));
    }
    let mut random = SeededRandom::new(1);
    let numbers: Vec<u64> = (0..SAMPLE).map(|_| random.below(cases.count())).collect();
    judge(&cases, numbers.into_iter().chain(ONCE_WRONG));
}

#[test]
#[ignore = "takes minutes; the sample runs always"]
fn every_damaged_field_is_mended() {
    let cases = cases();
    judge(&cases, 0..cases.count());
}
