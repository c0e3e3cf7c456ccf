//! Attributes that are there and that the kernel does not see, or refuses.

use super::*;

/// The list of a file with one named user, and a record that holds it without a hash, as the kernel writes it.
fn record_with_list() -> (Vec<u8>, Vec<u8>) {
    let words = [1, 0x6_0001, 0x4_0002, 1000, 0x4_0004, 0x4_0010, 0x20_u32];
    let list: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let acl = Attribute { index: name_index::POSIX_ACL_ACCESS, name: b"", value: Stored::Here(&list) };
    let mut record = record_with(&[acl, two()[1]]);
    record[HASH..HASH + 4].fill(0);
    (list, record)
}

#[test]
fn an_access_list_that_its_entry_does_not_lead_to_is_found_again() {
    let (list, sound) = record_with_list();
    expect_plain(&mut sound.clone(), &[]);
    for (field, wrong) in
        [(VALUE_OFFSET, 0x14), (VALUE_OFFSET, 0xFF), (VALUE_SIZE, 0), (VALUE_SIZE, 27), (VALUE_SIZE, 80)]
    {
        let mut record = sound.clone();
        record[field] = wrong;
        assert_eq!(expect_plain(&mut record, &[&problems::ACL_ASTRAY]).entries, 2, "{wrong} at {field}");
        assert_eq!(record, sound);
    }
    // No list is left to be found.
    let mut record = sound;
    let at = record.windows(list.len()).position(|window| window == list).unwrap();
    record[at..at + list.len()].fill(0x77);
    expect_plain(&mut record, &[&problems::ACL_UNREADABLE]);
}

#[test]
fn an_access_list_has_no_name_of_its_own() {
    let (_, sound) = record_with_list();
    for wrong in [1, 2, 20] {
        let mut record = sound.clone();
        record[AREA_AT + 4] = wrong;
        assert_eq!(expect_plain(&mut record, &[&problems::NAME_WITH_ZERO]).entries, 2);
        assert_eq!(record, sound);
    }
}

#[test]
fn an_empty_value_has_a_place_that_the_kernel_accepts() {
    let mut record = record_with(&[user(b"empty", b""), two()[0]]);
    let sound = record.clone();
    record[VALUE_OFFSET..VALUE_OFFSET + 2].fill(0xF0);
    assert_eq!(expect_plain(&mut record, &[&crate::inline_data::problems::OFFSET]).entries, 2);
    assert_eq!(record[VALUE_OFFSET..VALUE_OFFSET + 2], [0, 0]);
    assert_eq!(names(&record), names(&sound));
}

#[test]
fn the_kernel_finds_attributes_of_a_block_only_in_their_order() {
    let sound = block_with(BLOCK, &two());
    let mut block = block_with(BLOCK, &[two()[1], two()[0]]);
    assert_eq!(expect_block(&mut block, &[&problems::BLOCK_ORDER]).entries, 2);
    let list = |block: &[u8]| -> Vec<Vec<u8>> {
        Area::of_block(block).entries().map(|entry| entry.unwrap().name.to_vec()).collect()
    };
    assert_eq!(list(&block), list(&sound));
}
