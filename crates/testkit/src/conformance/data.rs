// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases about the contents of files: reading, writing, cutting, holes, room.

use fsmend_vfs::{Allocation, Errno, Extent, InodeNo};

use super::{Bench, Room, Row, permissions};

pub const CASES: &[Row] = &[
    ("what was written is read", Room::Small, write_and_read),
    ("reading ends at the end of the file", Room::Small, end_of_file),
    ("only regular files have contents", Room::Small, no_contents),
    ("holes are zeroes", Room::Small, holes),
    ("holes take no room", Room::Small, holes_take_no_room),
    ("what was cut off is gone for good", Room::Small, cut),
    ("a file grows by being cut at a later place", Room::Small, grow),
    ("data far behind", Room::Small, far),
    ("a file ends where the format ends", Room::Small, too_large),
    ("writing in pieces of any size", Room::Small, pieces),
    ("a full file system says so, and takes what fits", Room::Small, full),
    ("room comes back when files go", Room::Small, room_comes_back),
    ("a full file system still removes and overwrites", Room::Small, full_but_alive),
    ("there are only so many inodes", Room::Small, inodes_run_out),
    ("blocks can be had in advance", Room::Small, allocate),
    ("allocating behind the end keeps the size if asked to", Room::Small, allocate_and_keep_size),
    ("allocating fails as a whole where there is no room", Room::Small, allocate_too_much),
    ("extents say where data is", Room::Small, extents),
    ("nothing but the file that is written changes", Room::Small, neighbours),
];

/// Bytes that tell where they belong.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| ((n * 31 + seed * 17) ^ (n >> 8)) as u8).collect()
}

fn write_and_read(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let now = b.tick();
    assert_eq!(b.fs.write(file, 0, b"", now), Ok(0));
    assert_eq!(b.get(file, 0, 10), b"");
    let bytes = pattern(1, 300_000);
    b.put(file, 0, &bytes);
    assert_eq!(b.attr(file).size, 300_000);
    assert!(b.get(file, 0, 300_000) == bytes);
    b.put(file, 4_090, b"over a boundary");
    assert_eq!(b.get(file, 4_090, 15), b"over a boundary");
    assert_eq!(b.get(file, 4_089, 1), bytes[4_089..4_090]);
    assert_eq!(b.get(file, 4_105, 5), bytes[4_105..4_110]);
    assert_eq!(b.attr(file).size, 300_000);
}

fn end_of_file(b: &mut Bench) {
    let file = b.file(b.root, "file");
    b.put(file, 0, b"0123456789");
    assert_eq!(b.get(file, 8, 100), b"89");
    assert_eq!(b.get(file, 10, 100), b"");
    assert_eq!(b.get(file, 1 << 50, 100), b"");
    assert_eq!(b.get(file, 3, 0), b"");
    let now = b.tick();
    assert_eq!(b.fs.write(file, 1000, b"", now), Ok(0));
    assert_eq!(b.attr(file).size, 10, "writing nothing makes nothing longer");
}

fn no_contents(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    let now = b.tick();
    let link = b.fs.symlink(b.root, b"link", b"there", permissions(0o777), now).expect("there is room").inode;
    let mut buf = [0; 10];
    assert_eq!(b.fs.read(dir, 0, &mut buf), Err(Errno::IsDirectory));
    assert_eq!(b.fs.write(dir, 0, b"x", now), Err(Errno::IsDirectory));
    assert_eq!(b.cut(dir, 0).err(), Some(Errno::IsDirectory));
    assert!(b.fs.write(link, 0, b"x", now).is_err() && b.cut(link, 0).is_err());
    assert_eq!(b.fs.readlink(link), Ok(b"there".to_vec()));
}

fn holes(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let places = [70_000_u64, 3, 1_000_000, 30_000, 12 << 12, (12 << 12) + (1024 << 12) - 3];
    for (seed, place) in places.into_iter().enumerate() {
        b.put(file, place, &pattern(seed as u64, 10));
    }
    let len = b.attr(file).size as usize;
    assert_eq!(len, (12 << 12) + (1024 << 12) + 7);
    let mut expected = vec![0; len];
    for (seed, place) in places.into_iter().enumerate() {
        expected[place as usize..place as usize + 10].copy_from_slice(&pattern(seed as u64, 10));
    }
    assert!(b.get(file, 0, len) == expected);
}

fn holes_take_no_room(b: &mut Bench) {
    let file = b.file(b.root, "file");
    b.cut(file, 1 << 30).expect("a hole is no room");
    let at_end = b.attr(file).blocks_512;
    assert_eq!(b.attr(file).size, 1 << 30);
    assert!(at_end <= b.can.odd.hole_512_max, "{at_end}");
    b.put(file, 1 << 29, b"x");
    let taken = b.attr(file).blocks_512 - at_end;
    // A block of data and what leads to it.
    let most = 32.max(4 * b.file_block() / 512);
    assert!((2..=most).contains(&taken), "{taken}");
    let before = b.attr(file).blocks_512;
    b.put(file, (1 << 29) + 1, b"y");
    assert_eq!(b.attr(file).blocks_512, before);
    b.cut(file, 0).expect("it can be cut");
    assert_eq!(b.attr(file).blocks_512, 0);
}

fn cut(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let bytes = pattern(2, 200_000);
    for size in [199_999, 65_536, 65_535, 49_153, 49_152, 4_097, 4_096, 100, 1, 0_u64] {
        b.put(file, 0, &bytes);
        assert_eq!(b.cut(file, size).map(|of| of.size), Ok(size));
        assert!(b.get(file, 0, 300_000) == bytes[..size as usize], "{size}");
        b.cut(file, 200_000).expect("it can grow");
        let mut expected = bytes[..size as usize].to_vec();
        expected.resize(200_000, 0);
        assert!(b.get(file, 0, 300_000) == expected, "{size}");
        b.cut(file, 0).expect("it can be cut");
    }
    // The rest of the last block is not seen again by a write behind it, either.
    b.put(file, 0, &bytes[..4_000]);
    b.cut(file, 10).expect("it can be cut");
    b.put(file, 4_000, b"x");
    let mut expected = bytes[..10].to_vec();
    expected.resize(4_000, 0);
    expected.push(b'x');
    assert!(b.get(file, 0, 5_000) == expected);
}

fn grow(b: &mut Bench) {
    let file = b.file(b.root, "file");
    b.put(file, 0, b"abc");
    b.cut(file, 100_000).expect("it can grow");
    let bytes = b.get(file, 0, 200_000);
    assert_eq!((bytes.len(), &bytes[..4]), (100_000, b"abc\0".as_slice()));
    assert!(bytes[3..].iter().all(|byte| *byte == 0));
}

fn far(b: &mut Bench) {
    // Through every level of a map by pointers, as far as the format goes.
    let file = b.file(b.root, "file");
    let last = b.can.size_max - 5;
    let places = [1_u64 << 16, 1 << 22, 1 << 25, 1 << 31, (1 << 32) + 7, (1 << 33) - 2, last];
    for (seed, place) in places.into_iter().enumerate() {
        b.put(file, place, &pattern(seed as u64, 5));
    }
    assert_eq!(b.attr(file).size, b.can.size_max);
    for (seed, place) in places.into_iter().enumerate() {
        assert_eq!(b.get(file, place, 5), pattern(seed as u64, 5), "{place}");
        assert_eq!(b.get(file, place - 3, 3), [0; 3], "{place}");
    }
    b.cut(file, (1 << 32) + 9).expect("it can be cut");
    assert_eq!(b.get(file, (1 << 32) + 7, 5), pattern(4, 5)[..2]);
    b.cut(file, 0).expect("it can be cut");
    assert_eq!(b.attr(file).blocks_512, 0);
}

fn too_large(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let (max, now) = (b.can.size_max, b.tick());
    assert_eq!(b.fs.write(file, max, b"x", now), Err(Errno::TooLarge));
    assert_eq!(b.fs.write(file, u64::MAX - 2, b"xyz", now), Err(Errno::TooLarge));
    assert_eq!(b.cut(file, max + 1).err(), Some(Errno::TooLarge));
    assert_eq!(b.cut(file, u64::MAX).err(), Some(Errno::TooLarge));
    assert_eq!(b.attr(file).size, 0);
    b.cut(file, max).expect("so large it can be");
    let now = b.tick();
    // What fits is written.
    assert_eq!(b.fs.write(file, max - 2, b"xyz", now), Ok(2));
    assert_eq!((b.attr(file).size, b.get(file, max - 3, 9)), (max, b"\0xy".to_vec()));
}

fn pieces(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let bytes = pattern(3, 100_000);
    for piece in [1, 511, 512, 513, 1_024, 4_095, 4_097, 70_000] {
        b.cut(file, 0).expect("it can be cut");
        let end = if piece == 1 { 5_000 } else { bytes.len() };
        for at in (0..end).step_by(piece) {
            b.put(file, at as u64, &bytes[at..(at + piece).min(end)]);
        }
        assert!(b.get(file, 0, 200_000) == bytes[..end], "{piece}");
    }
    // From the end to the beginning.
    b.cut(file, 0).expect("it can be cut");
    for at in (0..bytes.len()).step_by(3_000).rev() {
        b.put(file, at as u64, &bytes[at..(at + 3_000).min(bytes.len())]);
    }
    assert!(b.get(file, 0, 200_000) == bytes);
}

/// Writes until there is no room any more, the same 64 KiB again and again, counted from the start of the file; returns how many bytes
/// fitted.
fn fill(b: &mut Bench, file: InodeNo) -> u64 {
    let bytes = pattern(4, 1 << 16);
    let mut at = b.attr(file).size;
    let from = at;
    loop {
        let now = b.tick();
        let rest = &bytes[at as usize % bytes.len()..];
        match b.fs.write(file, at, rest, now) {
            Ok(written) => {
                assert!((1..=rest.len()).contains(&written), "{written}");
                at += written as u64;
            }
            Err(error) => {
                assert_eq!(error, Errno::NoSpace);
                return at - from;
            }
        }
    }
}

fn full(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let filled = fill(b, file);
    assert!(filled > 1 << 20);
    assert_eq!(b.attr(file).size, filled, "what did not fit has not made it longer");
    let bytes = pattern(4, 1 << 16);
    for at in (0..filled).step_by(1 << 16) {
        let len = (filled - at).min(1 << 16) as usize;
        assert!(b.get(file, at, len) == bytes[..len], "from byte {at} on");
    }
    let space = b.fs.statfs().expect("it is mounted");
    let left = space.blocks_free * u64::from(space.block_size);
    assert!(left < 1 << 16, "{left} bytes left");
    // An empty file needs no block, but perhaps its name does; a directory needs one.
    let now = b.tick();
    while b.fs.mkdir(b.root, now.seconds.to_string().as_bytes(), permissions(0o755), b.now()).is_ok() {
        let now = b.tick();
        let made = b.fs.mkdir(b.root, now.seconds.to_string().as_bytes(), permissions(0o755), now);
        if let Err(error) = made {
            assert_eq!(error, Errno::NoSpace);
            break;
        }
    }
}

fn room_comes_back(b: &mut Bench) {
    let before = b.fs.statfs().expect("it is mounted");
    for round in 0..3 {
        let file = b.file(b.root, "file");
        let filled = fill(b, file);
        assert!(filled > 1 << 20, "round {round}: {filled}");
        b.unlink(b.root, "file").expect("it is there");
    }
    let now = b.tick();
    b.fs.sync(now).expect("it can be written");
    let after = b.fs.statfs().expect("it is mounted");
    assert_eq!((after.blocks_free, after.inodes_free), (before.blocks_free, before.inodes_free));
}

fn full_but_alive(b: &mut Bench) {
    let (file, other) = (b.file(b.root, "file"), b.file(b.root, "other"));
    b.put(other, 0, &pattern(5, 8_192));
    let filled = fill(b, file);
    b.put(other, 100, b"room that was there before");
    assert_eq!(b.get(other, 100, 4), b"room");
    b.rename((b.root, "other"), (b.root, "others"), Default::default()).expect("a name for a name");
    b.cut(file, filled / 2).expect("to give room back takes none");
    b.unlink(b.root, "file").expect("to give room back takes none");
    b.put(other, 8_192, &pattern(6, 100_000));
}

fn inodes_run_out(b: &mut Bench) {
    let free = b.fs.statfs().expect("it is mounted").inodes_free;
    let dir = b.dir(b.root, "dir");
    let mut made = 1;
    loop {
        let now = b.tick();
        match b.fs.create(dir, made.to_string().as_bytes(), permissions(0o600), now) {
            Ok(_) => made += 1,
            Err(error) => {
                assert_eq!(error, Errno::NoSpace);
                break;
            }
        }
    }
    assert!(made <= free);
    let space = b.fs.statfs().expect("it is mounted");
    assert_eq!(space.inodes_free, free - made);
    assert!(space.inodes_free == 0 || space.blocks_free < 8, "{space:?}");
    b.unlink(dir, "1").expect("it is there");
    b.file(dir, "again");
}

fn allocate(b: &mut Bench) {
    let file = b.file(b.root, "file");
    b.put(file, 0, &pattern(7, 5_000));
    let now = b.tick();
    let allocated = b.fs.allocate(file, 2_000, 500_000, Allocation::Unwritten, now);
    if !b.can.unwritten {
        assert_eq!(allocated, Err(Errno::NotSupported));
        assert_eq!(b.attr(file).size, 5_000);
        return;
    }
    allocated.expect("there is room");
    let of = b.attr(file);
    assert_eq!(of.size, 502_000);
    assert!(of.blocks_512 >= 502_000 / 512, "{}", of.blocks_512);
    let mut expected = pattern(7, 5_000);
    expected.resize(502_000, 0);
    assert!(b.get(file, 0, 600_000) == expected);
    for place in [100_000, 4_096 * 50, 400_001] {
        b.put(file, place, b"within");
        expected[place as usize..place as usize + 6].copy_from_slice(b"within");
    }
    assert!(b.get(file, 0, 600_000) == expected);
    // The room was there; only the map may need a unit more, for there are more pieces now.
    let more = b.attr(file).blocks_512 - of.blocks_512;
    assert!(more <= 8 * b.can.unit_blocks, "{more}");
    b.cut(file, 0).expect("it can be cut");
    assert_eq!(b.attr(file).blocks_512, 0);
}

fn allocate_and_keep_size(b: &mut Bench) {
    if !b.can.unwritten {
        return;
    }
    let file = b.file(b.root, "file");
    b.put(file, 0, b"abc");
    let now = b.tick();
    let how = Allocation::UnwrittenKeepSize;
    b.fs.allocate(file, 0, 300_000, how, now).expect("there is room");
    let of = b.attr(file);
    assert_eq!((of.size, b.get(file, 0, 10)), (3, b"abc".to_vec()));
    assert!(of.blocks_512 >= 300_000 / 512);
    b.put(file, 299_990, b"0123456789");
    assert_eq!(b.attr(file).blocks_512, of.blocks_512, "the room was there");
    assert_eq!(b.get(file, 299_988, 5), b"\0\x00012");
}

fn allocate_too_much(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let space = b.fs.statfs().expect("it is mounted");
    let all = space.blocks * u64::from(space.block_size);
    let now = b.tick();
    let allocated = b.fs.allocate(file, 0, all * 2, Allocation::Unwritten, now);
    let expected = if b.can.unwritten { Errno::NoSpace } else { Errno::NotSupported };
    assert_eq!(allocated, Err(expected));
    b.unlink(b.root, "file").expect("it is there");
    let now = b.tick();
    b.fs.sync(now).expect("it can be written");
    assert_eq!(b.fs.statfs().map(|after| after.blocks_free), Ok(space.blocks_free));
}

fn extents(b: &mut Bench) {
    let file = b.file(b.root, "file");
    assert_eq!(b.fs.extents(file, 0, 10), Ok(Vec::new()));
    let size = b.file_block();
    for block in [0, 1, 2, 10, 11, 600] {
        b.put(file, block * size, &pattern(block, size as usize));
    }
    let now = b.tick();
    b.fs.fsync(file, false, now).expect("it can be written");
    let all = b.fs.extents(file, 0, 100).expect("they can be told");
    assert!(all.windows(2).all(|two| two[0].offset + two[0].len <= two[1].offset), "{all:?}");
    let covers = |extents: &[Extent], at: u64| {
        extents
            .iter()
            .any(|extent| at >= extent.offset && at < extent.offset + extent.len && !extent.unwritten)
    };
    for block in 0..700 {
        let expected = matches!(block, 0..=2 | 10 | 11 | 600);
        assert_eq!(covers(&all, block * size), expected, "{block}");
    }
    let later = b.fs.extents(file, 10 * size, 1).expect("they can be told");
    assert!(later.len() == 1 && covers(&later, 10 * size), "{later:?}");
}

fn neighbours(b: &mut Bench) {
    let files: Vec<_> = (0..8).map(|n| b.file(b.root, &n.to_string())).collect();
    // Block by block in turns, so that they lie between each other.
    for block in 0..40_u64 {
        for (n, file) in files.iter().enumerate() {
            b.put(*file, block * 4_096, &pattern(n as u64 * 100 + block, 4_096));
        }
    }
    for n in [1, 3, 5] {
        b.cut(files[n], 10_000).expect("it can be cut");
    }
    b.unlink(b.root, "7").expect("it is there");
    let new = b.file(b.root, "new");
    b.put(new, 0, &pattern(9_999, 300_000));
    for (n, file) in files.iter().enumerate().take(7) {
        let expected: Vec<_> = (0..40).flat_map(|block| pattern(n as u64 * 100 + block, 4_096)).collect();
        let len = if matches!(n, 1 | 3 | 5) { 10_000 } else { expected.len() };
        assert!(b.get(*file, 0, 200_000) == expected[..len], "{n}");
    }
    assert!(b.get(new, 0, 300_000) == pattern(9_999, 300_000));
}
