//! rext3: sound images are called sound, and whatever breaks the rules of the format is found.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use fsmend_device::{Device, MemoryDevice};
use fsmend_ext_check::run::CheckReport;
use fsmend_testkit::rext3::{DEEP, JOURNAL, MANY, ONE, TWO};
use fsmend_testkit::rext3::{Image, Role, Shape, build};
use fsmend_testkit::within::{Manner, checked};

fn report(image: &Image) -> CheckReport {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("rext3", image.bytes.clone()));
    checked(&device, Manner::default()).unwrap_or_else(|refused| panic!("{refused}"))
}

/// The codes that a check raises, notes too.
fn codes(image: &Image) -> Vec<&'static str> {
    report(image).findings.counts().keys().copied().collect()
}

#[test]
fn sound_images_are_sound() {
    for shape in [Shape::default(), Shape::with_blocks_of(2048), Shape::with_blocks_of(4096)] {
        let report = report(&build(shape));
        let told: Vec<String> = report.findings.into_sorted().iter().map(|one| format!("{one:?}")).collect();
        assert_eq!(told, [""; 0], "{shape:?}");
    }
}

#[test]
fn images_are_the_same_each_time() {
    let (one, other) = (build(Shape::default()), build(Shape::default()));
    assert!(one.bytes == other.bytes);
    let (start, count) = one.region(0);
    assert!((start..start + count).all(|block| one.owned.contains_key(&block)), "the first region is full");
    assert!(one.owned.keys().any(|block| *block >= one.region(1).0), "and the rest lies in the next one");
    assert_eq!(one.of(DEEP, Role::Indirect(3)).len(), 1);
    assert_eq!((one.of(MANY, Role::Indirect(1)).len(), one.of(JOURNAL, Role::Indirect(2)).len()), (1, 1));
}

#[test]
fn a_foreign_indirect_block_is_not_followed() {
    let mut image = build(Shape::default());
    let (own, foreign) = (image.of(ONE, Role::Indirect(1))[0], image.of(TWO, Role::Indirect(1))[0]);
    let at = image.pointer_at(ONE, 12);
    assert_eq!(u64::from(image.word(at)), own);
    image.set_word(at, foreign as u32);
    let codes = codes(&image);
    assert!(codes.contains(&"ext.region.backpointer-wrong"), "{codes:?}");
    assert!(!codes.contains(&"ext.block.shared"), "what it maps is nobody's but its own: {codes:?}");
}
