// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases about what is known of an inode: owners, modes, times, targets of links; and about the file system as a whole.

use fsmend_base::InodeNo;
use fsmend_vfs::{
    Attributes, Errno, FileSystemSpace, NewFile, NewKind, Permissions, SetAttributes, SetTime, Time,
};

use super::{Bench, Room, Row, permissions};

pub const CASES: &[Row] = &[
    ("what is set is what is there, and nothing else changes", Room::Small, set),
    ("every operation changes the times that it should", Room::Small, times),
    ("times reach far, in both directions", Room::Small, far_times),
    ("files in a directory with the set-group-id bit are its group's", Room::Small, set_group_id),
    ("symbolic links of any length lead where they were told", Room::Small, symlinks),
    ("a number that is used again is told apart", Room::Small, generations),
    ("numbers that nobody has are not there", Room::Small, no_such_inode),
    ("room is counted", Room::Small, statfs),
    ("what fails changes nothing", Room::Small, failures_change_nothing),
    ("after unmounting there is nothing", Room::Small, unmounted),
];

const CHANGE: (bool, bool, bool) = (false, false, true);
const MODIFY: (bool, bool, bool) = (false, true, true);

fn set(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let before = b.attr(file);
    let change = |b: &mut Bench, changes: SetAttributes| {
        let now = b.tick();
        let after = b.fs.setattr(file, &changes, now).expect("it can be set");
        assert_eq!((after, after.ctime), (b.attr(file), now));
        after
    };
    let after = change(b, SetAttributes { mode: Some(0o7751), ..Default::default() });
    let of = Permissions { mode: 0o7751, ..before.of };
    assert_eq!(after, Attributes { of, ctime: after.ctime, ..before });
    let after = change(b, SetAttributes { uid: Some(4_000_000_000), ..Default::default() });
    let of = Permissions { uid: 4_000_000_000, ..of };
    assert_eq!(after.of, of);
    let after = change(b, SetAttributes { gid: Some(100_000), ..Default::default() });
    assert_eq!(after.of, Permissions { gid: 100_000, ..of });
    assert_eq!((after.atime, after.mtime, after.size), (before.atime, before.mtime, 0));
    // What kind it is cannot be set.
    let after = change(b, SetAttributes { mode: Some(0o040_644), ..Default::default() });
    assert_eq!((after.kind, after.of.mode), (before.kind, 0o644));
}

/// Which times of an inode an operation has set to its own: access, modification, change.
fn touched(b: &mut Bench, inode: InodeNo, do_it: impl FnOnce(&mut Bench)) -> (bool, bool, bool) {
    let before = b.attr(inode);
    b.tick();
    do_it(b);
    let (after, now) = (b.attr(inode), b.now());
    let is_now = |before: Time, after: Time| {
        assert!(after == before || after == now, "{before:?} became {after:?}, now is {now:?}");
        after == now
    };
    (is_now(before.atime, after.atime), is_now(before.mtime, after.mtime), is_now(before.ctime, after.ctime))
}

fn times(b: &mut Bench) {
    const NONE: (bool, bool, bool) = (false, false, false);
    let (dir, other) = (b.dir(b.root, "dir"), b.dir(b.root, "other"));
    assert_eq!(
        touched(b, dir, |b| {
            b.file(dir, "file");
        }),
        MODIFY
    );
    let file = b.look(dir, "file").expect("it is there");
    let of = b.attr(file);
    assert_eq!((of.atime, of.mtime, of.ctime), (b.now(), b.now(), b.now()));
    assert!(of.crtime == if b.can.crtime { Some(b.now()) } else { of.crtime });
    assert_eq!(touched(b, file, |b| b.put(file, 0, b"content")), MODIFY);
    assert_eq!(touched(b, dir, |b| b.put(file, 0, b"content")), NONE);
    assert_eq!(touched(b, file, |b| drop(b.get(file, 0, 10))), NONE);
    assert_eq!(touched(b, dir, |b| drop(b.names(dir))), NONE);
    assert_eq!(
        touched(b, file, |b| {
            b.cut(file, 3).expect("it can be cut");
        }),
        MODIFY
    );
    assert_eq!(
        touched(b, file, |b| {
            b.link(file, other, "link").expect("it can be linked");
        }),
        CHANGE
    );
    assert_eq!(
        touched(b, other, |b| {
            b.link(file, other, "third").expect("it can be linked");
        }),
        MODIFY
    );
    assert_eq!(touched(b, file, |b| b.unlink(other, "third").expect("it is there")), CHANGE);
    assert_eq!(touched(b, other, |b| b.unlink(other, "link").expect("it is there")), MODIFY);
    assert_eq!(
        touched(b, dir, |b| {
            b.dir(dir, "sub");
        }),
        MODIFY
    );
    assert_eq!(touched(b, dir, |b| b.rmdir(dir, "sub").expect("it is empty")), MODIFY);
    let rename = |b: &mut Bench, from, to| b.rename(from, to, Default::default()).expect("it is there");
    assert_eq!(touched(b, dir, |b| rename(b, (dir, "file"), (other, "file"))), MODIFY);
    assert_eq!(touched(b, dir, |b| rename(b, (other, "file"), (dir, "file"))), MODIFY);
    assert_eq!(touched(b, file, |b| rename(b, (dir, "file"), (other, "file"))), CHANGE);
    let set = |b: &mut Bench, changes| {
        let now = b.tick();
        b.fs.setattr(file, &changes, now).expect("it can be set");
    };
    let mode = SetAttributes { mode: Some(0o600), ..Default::default() };
    assert_eq!(touched(b, file, |b| set(b, mode)), CHANGE);
    let now = SetAttributes { atime: Some(SetTime::Now), ..Default::default() };
    assert_eq!(touched(b, file, |b| set(b, now)), (true, false, true));
    let now = SetAttributes { mtime: Some(SetTime::Now), ..Default::default() };
    assert_eq!(touched(b, file, |b| set(b, now)), MODIFY);
    if b.can.value_min > 0 {
        attributes_touch(b, file);
    }
    // What is replaced by a rename loses a name.
    let (old, new) = (b.file(dir, "old"), b.file(dir, "new"));
    b.link(old, other, "second").expect("it can be linked");
    assert_eq!(touched(b, old, |b| rename(b, (dir, "new"), (dir, "old"))), CHANGE);
    assert_eq!(b.attr(new).ctime, b.now());
}

fn attributes_touch(b: &mut Bench, file: InodeNo) {
    let name = b"user.name";
    assert_eq!(
        touched(b, file, |b| {
            let now = b.tick();
            b.fs.setxattr(file, name, b"value", Default::default(), now).expect("there is room");
        }),
        CHANGE
    );
    assert_eq!(
        touched(b, file, |b| {
            let now = b.tick();
            b.fs.removexattr(file, name, now).expect("it is there");
        }),
        CHANGE
    );
}

fn far_times(b: &mut Bench) {
    let file = b.file(b.root, "file");
    // 32 bits of seconds are what the oldest formats have.
    let mut times = vec![
        Time::at(0),
        Time::at(1),
        Time::at(-1),
        Time::at(i64::from(i32::MIN)),
        Time::at(i64::from(i32::MAX)),
    ];
    if b.can.nanoseconds {
        if !b.can.odd.short_times {
            times.extend([Time::at(1 << 31), Time::at((1 << 32) + 5), Time::at((3 << 32) - 1)]);
        }
        times.extend([1, 999_999_999].map(|nanoseconds| Time { seconds: 1_234_567_890, nanoseconds }));
        times.push(Time { seconds: -5, nanoseconds: 300_000_000 });
    }
    for time in times {
        let set = Some(SetTime::To(time));
        let (changes, now) = (SetAttributes { atime: set, mtime: set, ..Default::default() }, b.tick());
        let after = b.fs.setattr(file, &changes, now).expect("it can be set");
        assert_eq!((after.atime, after.mtime, after.ctime), (time, time, now));
        assert_eq!(b.attr(file), after);
    }
}

fn set_group_id(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    let changes = SetAttributes { mode: Some(0o2775), gid: Some(77), ..Default::default() };
    let now = b.tick();
    b.fs.setattr(dir, &changes, now).expect("it can be set");
    let of = Permissions { mode: 0o755, uid: 5, gid: 6 };
    let now = b.tick();
    let file = b.fs.create(dir, b"file", of, now).expect("there is room");
    assert_eq!(file.of, Permissions { gid: 77, ..of });
    let sub = b.fs.mkdir(dir, b"sub", of, now).expect("there is room");
    assert_eq!(sub.of, Permissions { mode: 0o2755, gid: 77, ..of });
    let plain = b.fs.create(b.root, b"plain", of, now).expect("there is room");
    assert_eq!(plain.of, of);
}

fn symlinks(b: &mut Bench) {
    let space = b.fs.statfs().expect("it is mounted");
    // Short ones lie in the inode; a block has to hold the others and a zero behind.
    let longest = b.file_block().min(4096) as usize - 1;
    for len in [1, 4, 58, 59, 60, 61, 100, 1_000, longest] {
        let target: Vec<u8> = (0..len).map(|n| b"abc/"[n % 4]).collect();
        let (name, now) = (len.to_string(), b.tick());
        let made = b.fs.symlink(b.root, name.as_bytes(), &target, permissions(0o777), now);
        let made = made.expect("there is room");
        assert_eq!((made.size, b.fs.readlink(made.inode)), (len as u64, Ok(target)), "{len}");
        assert_eq!(b.attr(made.inode), made);
    }
    let now = b.tick();
    let too_long = vec![b'x'; longest + 1];
    let made = b.fs.symlink(b.root, b"long", &too_long, permissions(0o777), now);
    assert_eq!(made.err(), Some(Errno::NameTooLong));
    assert_eq!(b.look(b.root, "long"), Err(Errno::NotFound));
    for len in [1, 4, 58, 59, 60, 61, 100, 1_000, longest] {
        b.unlink(b.root, &len.to_string()).expect("it is there");
    }
    let now = b.tick();
    b.fs.sync(now).expect("it can be written");
    assert_eq!(b.fs.statfs().map(|after| after.blocks_free), Ok(space.blocks_free));
}

fn generations(b: &mut Bench) {
    let mut seen = std::collections::HashSet::new();
    for n in 0..50 {
        let file = b.file(b.root, "file");
        assert!(seen.insert((file, b.attr(file).generation)), "{n}: {file}");
        b.unlink(b.root, "file").expect("it is there");
    }
}

fn no_such_inode(b: &mut Bench) {
    let file = b.file(b.root, "file");
    b.unlink(b.root, "file").expect("it is there");
    for inode in [file, InodeNo(0), InodeNo(u32::MAX), InodeNo(file.0 + 1)] {
        let now = b.tick();
        assert!(b.fs.getattr(inode).is_err(), "{inode}");
        assert!(b.fs.write(inode, 0, b"x", now).is_err(), "{inode}");
        assert!(b.fs.read(inode, 0, &mut [0; 4]).is_err(), "{inode}");
        assert!(b.fs.hold(inode).is_err(), "{inode}");
        assert!(b.fs.link(inode, b.root, b"new", now).is_err(), "{inode}");
        assert!(b.fs.setattr(inode, &SetAttributes::default(), now).is_err(), "{inode}");
    }
}

fn statfs(b: &mut Bench) {
    let before = b.fs.statfs().expect("it is mounted");
    assert_eq!(before.name_len_max, 255);
    assert!(before.blocks_free <= before.blocks && before.blocks_available <= before.blocks_free);
    assert!(before.inodes_free <= before.inodes);
    let file = b.file(b.root, "file");
    b.put(file, 0, &vec![1; 10 * before.block_size as usize]);
    b.dir(b.root, "dir");
    let now = b.tick();
    b.fs.sync(now).expect("it can be written");
    let after = b.fs.statfs().expect("it is mounted");
    assert_eq!(after.inodes_free, before.inodes_free - 2);
    // What is set apart for directories and maps is counted by itself.
    let free = |space: FileSystemSpace| space.blocks_free + space.metadata_blocks_free;
    assert!(after.metadata_blocks_free <= after.metadata_blocks);
    let taken = free(before) - free(after);
    let of_file = b.attr(file).blocks_512 * 512 / u64::from(before.block_size);
    assert!(of_file >= 10);
    assert_eq!(taken, of_file + b.can.dir_blocks, "a file and a directory");
    assert_eq!(
        (after.blocks, after.inodes, after.block_size),
        (before.blocks, before.inodes, before.block_size)
    );
}

fn failures_change_nothing(b: &mut Bench) {
    let (file, dir) = (b.file(b.root, "file"), b.dir(b.root, "dir"));
    b.file(dir, "inside");
    let before = (b.attr(b.root), b.attr(file), b.attr(dir));
    let now = b.tick();
    let of = permissions(0o644);
    assert!(b.fs.create(b.root, b"file", of, now).is_err());
    let directory = NewFile { kind: NewKind::Directory, of };
    assert!(b.fs.make(b.root, b"file", &directory, now).is_err());
    assert!(b.fs.link(dir, b.root, b"new", now).is_err());
    assert!(b.fs.unlink(b.root, b"none", now).is_err());
    assert!(b.fs.unlink(b.root, b"dir", now).is_err());
    assert!(b.fs.rmdir(b.root, b"dir", now).is_err());
    assert!(b.fs.rmdir(b.root, b"file", now).is_err());
    let plain = Default::default();
    assert!(b.fs.rename(b.root, b"none", dir, b"new", plain, now).is_err());
    assert!(b.fs.rename(b.root, b"dir", dir, b"new", plain, now).is_err());
    assert!(b.fs.rename(b.root, b"file", b.root, b"dir", plain, now).is_err());
    assert!(b.fs.removexattr(file, b"user.none", now).is_err());
    assert!(b.cut(file, u64::MAX).is_err());
    assert_eq!((b.attr(b.root), b.attr(file), b.attr(dir)), before);
}

fn unmounted(b: &mut Bench) {
    let file = b.file(b.root, "file");
    b.fs.hold(file).expect("it is there");
    b.unlink(b.root, "file").expect("it is there");
    let now = b.tick();
    b.fs.unmount(now).expect("it can be left clean");
    b.fs.unmount(now).expect("nothing is to be done");
    let of = permissions(0o600);
    assert_eq!(b.fs.getattr(b.root).err(), Some(Errno::NotMounted));
    assert_eq!(b.fs.lookup(b.root, b"x").err(), Some(Errno::NotMounted));
    assert_eq!(b.fs.create(b.root, b"x", of, now).err(), Some(Errno::NotMounted));
    assert_eq!(b.fs.write(file, 0, b"x", now).err(), Some(Errno::NotMounted));
    assert_eq!(b.fs.statfs().err(), Some(Errno::NotMounted));
    assert_eq!(b.fs.sync(now).err(), Some(Errno::NotMounted));
}
