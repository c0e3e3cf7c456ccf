// SPDX-License-Identifier: MIT OR Apache-2.0
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

/// What the inspection of a block raises.
fn raised_by_block(bytes: &mut [u8]) -> Vec<&'static str> {
    let device = device();
    let mut findings = Findings::new();
    inspect_block(&fs(&device, all_features()), OWNER, BLOCK, bytes, &mut findings);
    raised(&findings)
}

/// What the inspection of the attributes in an inode raises.
fn inspected(record: &mut [u8]) -> Vec<&'static str> {
    let device = device();
    let mut findings = Findings::new();
    inspect_in_inode(&fs(&device, all_features()), OWNER, record, &mut findings);
    raised(&findings)
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
fn an_attribute_under_the_prefix_of_access_lists_keeps_its_name_and_value() {
    for index in [name_index::POSIX_ACL_ACCESS, name_index::POSIX_ACL_DEFAULT] {
        let sound = block_with(BLOCK, &two());
        let mut block = sound.clone();
        block[32 + 1] = index;
        assert_eq!(expect_block(&mut block, &[&problems::LIST_WITH_NAME]).entries, 2);
        assert_eq!(block[32..], sound[32..]);
        let sound = record_with(&[Attribute { index: name_index::TRUSTED, ..two()[0] }; 1]);
        let mut record = sound.clone();
        record[NAME_LEN + 1] = index;
        assert_eq!(expect_plain(&mut record, &[&problems::LIST_WITH_NAME]).entries, 1);
        assert_eq!(record[NAME_LEN + 1], name_index::USER, "no other tells");
        record[NAME_LEN + 1] = name_index::TRUSTED;
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

#[test]
fn a_bit_in_the_mark_that_ends_a_list_makes_no_attribute() {
    // The kernel lists "user." or an access list, and cannot read it.
    for index in [1, 2, 3, 4, 6] {
        for sound in [record_with(&two()), record_with(&[])] {
            let mut record = sound.clone();
            let count = names(&record).len();
            let mark = Area::of_inode(&record).unwrap();
            let mut entries = mark.entries();
            entries.by_ref().for_each(drop);
            let start = AREA_AT + entries.position();
            record[start + 1] = index;
            let found = expect_plain(&mut record, &[&problems::NAMELESS]);
            assert_eq!((found.entries, names(&record).len()), (count, count), "{index}");
            if count > 0 {
                assert_eq!(record, sound, "{index}: the others are as they were");
            }
            expect_plain(&mut record, &[]);
        }
    }
}

/// The kernel lists "security." and answers "Invalid argument" when it is read.
#[test]
fn a_value_without_a_name_is_the_access_list_that_it_is_or_goes() {
    let entry = |(tag, permissions): (u16, u16)| [tag.to_le_bytes(), permissions.to_le_bytes()].concat();
    let list = [&[1, 0, 0, 0][..], &[(1, 6), (4, 4), (32, 4)].map(entry).concat()].concat();
    let access = |value| Attribute { index: name_index::POSIX_ACL_ACCESS, name: b"", value };
    for index in [name_index::USER, name_index::TRUSTED, name_index::SECURITY] {
        let unnamed = |value| Attribute { index, name: b"", value };
        let sound = record_with(&[access(Stored::Here(&list)), two()[1]]);
        let mut record = record_with(&[unnamed(Stored::Here(&list)), two()[1]]);
        assert_eq!(expect_plain(&mut record, &[&problems::LIST_PREFIX]).entries, 2);
        assert_eq!(record, sound, "{index}");
        // With a list of the file beside it, it is the default list.
        let mut record = record_with(&[access(Stored::Here(&list)), unnamed(Stored::Here(&list))]);
        assert_eq!(expect_plain(&mut record, &[&problems::LIST_PREFIX]).entries, 2);
        let mut record = record_with(&[unnamed(Stored::Here(b"no list")), two()[1]]);
        assert_eq!(expect_plain(&mut record, &[&problems::UNNAMED]).entries, 1);
        assert_eq!(names(&record), names(&record_with(&[two()[1]])));
    }
}

/// The kernel takes the name for the next attribute, and finds neither.
#[test]
fn an_attribute_whose_name_length_is_zero_gets_its_name_back() {
    let names_of: [&[u8]; 5] = [b"a", b"two", b"four", b"other", b"eight.by"];
    for index in [name_index::USER, name_index::TRUSTED, name_index::SECURITY] {
        for name in names_of {
            let first = Attribute { index, name, value: Stored::Here(b"value 1") };
            for others in [&[][..], &[user(b"yyyy", b"3")]] {
                let mut sound = record_with(&[&[first], others].concat());
                for has_hash in [true, false] {
                    if !has_hash {
                        sound[HASH..HASH + 4].fill(0);
                    }
                    let mut record = sound.clone();
                    record[NAME_LEN] = 0;
                    expect_plain(&mut record, &[&problems::NAME_LENGTH]);
                    assert_eq!(record, sound, "{index} {} {has_hash}", name.escape_ascii());
                }
                let sound = block_with(BLOCK, &[&[first], others].concat());
                let mut block = sound.clone();
                block[32] = 0;
                let found = raised_by_block(&mut block);
                assert!(found.contains(&problems::NAME_LENGTH.code), "{found:?}");
                let area = Area::of_block(&block);
                assert_eq!(area.entries().count(), others.len() + 1);
                assert!(area.entries().any(|entry| entry.is_ok_and(|entry| entry.name == name)));
            }
        }
    }
    // The last of several, whose table ends behind it.
    let sound = record_with(&two());
    let second = NAME_LEN + 20;
    let mut record = sound.clone();
    record[second] = 0;
    expect_plain(&mut record, &[&problems::NAME_LENGTH]);
    assert_eq!(record, sound);
}

#[test]
fn a_lost_name_is_not_guessed() {
    // The prefix of a list was overwritten: what follows is the next entry, not a name.
    let unnamed = Attribute { index: name_index::USER, name: b"", value: Stored::Here(b"no list") };
    let mut record = record_with(&[unnamed, two()[1]]);
    record[HASH..HASH + 4].fill(0);
    assert_eq!(expect_plain(&mut record, &[&problems::UNNAMED]).entries, 1);
    assert_eq!(names(&record), [b"other"]);
    // A letter was overwritten, too: no name goes with the hash.
    let mut block = block_with(BLOCK, &two());
    (block[32], block[49]) = (0, b'?');
    assert!(!raised_by_block(&mut block).contains(&problems::NAME_LENGTH.code));
    // Behind no name does the list go on.
    let mut record = record_with(&two());
    record[HASH..HASH + 4].fill(0);
    (record[NAME_LEN], record[NAME_LEN + 21]) = (0, 77);
    let found = inspected(&mut record);
    assert!(!found.contains(&problems::NAME_LENGTH.code), "{found:?}");
}

#[test]
fn a_list_whose_name_length_hides_an_overwritten_end_is_a_list_again() {
    let entry = |(tag, permissions): (u16, u16)| [tag.to_le_bytes(), permissions.to_le_bytes()].concat();
    let tags = [(1, 6), (4, 4), (16, 4), (32, 4)].map(entry).concat();
    let list = [&[1, 0, 0, 0][..], &tags].concat();
    let sound = record_with(&[Attribute {
        index: name_index::POSIX_ACL_DEFAULT,
        name: b"",
        value: Stored::Here(&list),
    }]);
    let mut record = sound.clone();
    record[HASH..HASH + 4].fill(0);
    let healed = record.clone();
    record[NAME_LEN] = 34;
    record[NAME_LEN + 16] = 8;
    let found = expect_plain(&mut record, &[&problems::END_OVERWRITTEN, &problems::NAME_WITH_ZERO]);
    assert_eq!((found.entries, record), (1, healed));
}

/// The kernel lists such an attribute and answers "Structure needs cleaning" when it is read.
#[test]
fn a_value_whose_blocks_are_gone_is_no_value() {
    for (entries, physical, is_kept) in [(1, 30, true), (1, 60_000_000, false), (0, 0, false)] {
        let mut inode = RawInode::from_record(&holder_record(1));
        inode.set_flag(fsmend_ext_format::inode::InodeFlags::EXTENTS);
        inode.i_block = [0; 60];
        inode.i_block[..8].copy_from_slice(&[0x0A, 0xF3, entries, 0, 4, 0, 0, 0]);
        inode.i_block[16..18].copy_from_slice(&3_u16.to_le_bytes());
        inode.i_block[20..24].copy_from_slice(&u32::to_le_bytes(physical));
        let mut record = holder_record(1);
        inode.store(&mut record);
        let device = device_with_holder(&record);
        let mut file = record_with(&referring(HOLDER.0, VALUE_HASH, 3000));
        let rows: &[&'static fsmend_engine::Row] = if is_kept { &[] } else { &[&problems::VALUE_INODE] };
        let found = expect_in_inode(&device, all_features(), &mut file, rows);
        assert_eq!(found.entries, usize::from(is_kept), "{physical}");
    }
}
