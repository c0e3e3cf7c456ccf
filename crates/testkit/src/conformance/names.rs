// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases about names: making, finding, linking and removing them, and reading directories meanwhile.

use std::collections::BTreeSet;

use fsmend_vfs::{Errno, FileKind, NewFile, NewKind, Visit};

use super::{Bench, Room, Row, permissions};

pub const CASES: &[Row] = &[
    ("a fresh file system has a root that is its own parent", Room::Small, fresh_root),
    ("every kind of file can be made and is what it is", Room::Small, kinds),
    ("a name can be had once", Room::Small, once),
    ("names have up to 255 bytes", Room::Small, long_names),
    ("names are bytes", Room::Small, names_are_bytes),
    ("what is not a directory has no names in it", Room::Small, not_a_directory),
    ("links are counted", Room::Small, links),
    ("a directory cannot be linked or unlinked", Room::Small, directories_are_no_files),
    ("rmdir takes empty directories and nothing else", Room::Small, rmdir),
    ("directories count their subdirectories", Room::Small, subdirectories),
    ("an unlinked file lives as long as it is held", Room::Small, held_file),
    ("a removed directory that is held has no names any more", Room::Small, held_directory),
    ("many names, with gaps, are found again", Room::Plenty, many_names),
    ("readdir shows what stays exactly once while entries come and go", Room::Plenty, stable_readdir),
    ("readdir can be continued anywhere", Room::Plenty, cookies),
    ("a file has as many links as the format can count", Room::Crowd, file_links),
    ("a directory has as many subdirectories as the format can count", Room::Crowd, directory_links),
];

fn fresh_root(b: &mut Bench) {
    let root = b.attr(b.root);
    assert_eq!((root.kind, root.inode), (FileKind::Directory, b.root));
    assert_eq!(b.look(b.root, "."), Ok(b.root));
    assert_eq!(b.look(b.root, ".."), Ok(b.root));
    assert_eq!(b.look(b.root, "nothing"), Err(Errno::NotFound));
    // mke2fs makes lost+found.
    let names = b.names(b.root);
    assert!(names.iter().all(|name| name == "lost+found"), "{names:?}");
    assert_eq!(root.links, 2 + names.len() as u32);
}

fn kinds(b: &mut Bench) {
    let (major, minor) = if b.can.odd.short_devices { (59, 30) } else { (259, 300) };
    let device = fsmend_vfs::DeviceNumber { major, minor };
    let all = [
        ("regular", NewKind::Regular, FileKind::Regular),
        ("directory", NewKind::Directory, FileKind::Directory),
        ("symlink", NewKind::Symlink(b"to/there"), FileKind::Symlink),
        ("fifo", NewKind::Fifo, FileKind::Fifo),
        ("socket", NewKind::Socket, FileKind::Socket),
        ("char", NewKind::CharDevice(device), FileKind::CharDevice),
        ("block", NewKind::BlockDevice(device), FileKind::BlockDevice),
    ];
    for (name, new, kind) in all {
        let (now, of) = (b.tick(), fsmend_vfs::Permissions { mode: 0o4751, uid: 70_000, gid: 80_000 });
        let made = b.fs.make(b.root, name.as_bytes(), &NewFile { kind: new, of }, now);
        let made = made.expect("every kind can be made");
        assert_eq!(b.fs.lookup(b.root, name.as_bytes()), Ok(made), "{name}");
        assert_eq!((made.kind, made.of), (kind, of), "{name}");
        assert_eq!(made.links, if kind == FileKind::Directory { 2 } else { 1 }, "{name}");
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        assert_eq!(made.device, if is_device { device } else { Default::default() }, "{name}");
        let shown = shown_kind(b, name);
        assert!(shown.is_none_or(|shown| shown == kind), "{name}: {shown:?}");
    }
}

fn shown_kind(b: &mut Bench, wanted: &str) -> Option<FileKind> {
    let mut kind = None;
    let seen = b.fs.readdir(b.root, 0, &mut |entry| {
        if entry.name == wanted.as_bytes() {
            kind = entry.kind;
        }
        Visit::More
    });
    seen.expect("the root can be read");
    kind
}

fn once(b: &mut Bench) {
    let file = b.file(b.root, "name");
    b.dir(b.root, "dir");
    let now = b.tick();
    for name in ["name", "dir"] {
        let name = name.as_bytes();
        let of = permissions(0o600);
        assert_eq!(b.fs.create(b.root, name, of, now).err(), Some(Errno::Exists));
        assert_eq!(b.fs.mkdir(b.root, name, of, now).err(), Some(Errno::Exists));
        assert_eq!(b.fs.symlink(b.root, name, b"x", of, now).err(), Some(Errno::Exists));
        assert_eq!(b.fs.link(file, b.root, name, now).err(), Some(Errno::Exists));
    }
    assert_eq!(b.attr(file).links, 1);
}

fn long_names(b: &mut Bench) {
    let longest = "n".repeat(255);
    let longer = "n".repeat(256);
    let file = b.file(b.root, &longest);
    assert_eq!(b.look(b.root, &longest), Ok(file));
    let (now, of) = (b.tick(), permissions(0o600));
    assert_eq!(b.fs.create(b.root, longer.as_bytes(), of, now).err(), Some(Errno::NameTooLong));
    assert_eq!(b.fs.mkdir(b.root, longer.as_bytes(), of, now).err(), Some(Errno::NameTooLong));
    assert_eq!(b.look(b.root, &longer), Err(Errno::NameTooLong));
    assert_eq!(b.fs.unlink(b.root, longer.as_bytes(), now), Err(Errno::NameTooLong));
    assert_eq!(b.fs.rmdir(b.root, longer.as_bytes(), now), Err(Errno::NameTooLong));
    assert_eq!(b.link(file, b.root, &longer).err(), Some(Errno::NameTooLong));
    // What only looks for such a name may also say that there is none, which is as true.
    let none = |result| matches!(result, Err(Errno::NameTooLong | Errno::NotFound));
    assert!(none(b.unlink(b.root, &longer)) && none(b.rmdir(b.root, &longer)));
    let plain = Default::default();
    assert_eq!(b.rename((b.root, &longest), (b.root, &longer), plain), Err(Errno::NameTooLong));
    assert!(none(b.rename((b.root, &longer), (b.root, "x"), plain)));
    b.rename((b.root, &longest), (b.root, "short"), plain).expect("it is there");
    assert_eq!(b.look(b.root, "short"), Ok(file));
}

fn names_are_bytes(b: &mut Bench) {
    let names: [&[u8]; 5] = [b"\xff\xfe", b" ", b"...", b"a\nb", "Grüße".as_bytes()];
    for name in names {
        let now = b.tick();
        let made = b.fs.create(b.root, name, permissions(0o600), now).expect("any bytes are a name");
        assert_eq!(b.fs.lookup(b.root, name), Ok(made));
    }
    // Upper and lower case are different.
    b.file(b.root, "case");
    b.file(b.root, "CASE");
}

fn not_a_directory(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let now = b.tick();
    let of = permissions(0o600);
    let link = b.fs.symlink(b.root, b"link", b"file", of, now).expect("there is room").inode;
    for inode in [file, link] {
        assert_eq!(b.look(inode, "x"), Err(Errno::NotDirectory));
        assert_eq!(b.fs.create(inode, b"x", of, now).err(), Some(Errno::NotDirectory));
        assert_eq!(b.fs.mkdir(inode, b"x", of, now).err(), Some(Errno::NotDirectory));
        assert_eq!(b.link(file, inode, "x").err(), Some(Errno::NotDirectory));
        assert_eq!(b.unlink(inode, "x"), Err(Errno::NotDirectory));
        assert_eq!(b.rmdir(inode, "x"), Err(Errno::NotDirectory));
        assert_eq!(b.fs.readdir(inode, 0, &mut |_| Visit::More), Err(Errno::NotDirectory));
    }
    assert_eq!(b.rmdir(b.root, "file"), Err(Errno::NotDirectory));
    assert_eq!(b.fs.readlink(file).err(), Some(Errno::Invalid));
}

fn links(b: &mut Bench) {
    let (file, dir) = (b.file(b.root, "one"), b.dir(b.root, "dir"));
    b.put(file, 0, b"content");
    assert_eq!(b.link(file, dir, "two").expect("it can be linked").links, 2);
    assert_eq!(b.link(file, b.root, "three").expect("it can be linked").links, 3);
    b.unlink(b.root, "one").expect("it is there");
    assert_eq!((b.attr(file).links, b.look(dir, "two")), (2, Ok(file)));
    assert_eq!(b.get(file, 0, 100), b"content");
    b.unlink(b.root, "three").expect("it is there");
    b.unlink(dir, "two").expect("it is there");
    assert_eq!(b.fs.getattr(file).err(), Some(Errno::NotFound));
    assert_eq!(b.unlink(dir, "two"), Err(Errno::NotFound));
    // A symbolic link can have many names as well.
    let now = b.tick();
    let link = b.fs.symlink(b.root, b"s", b"x", permissions(0o777), now).expect("there is room").inode;
    assert_eq!(b.link(link, dir, "t").expect("it can be linked").links, 2);
}

fn directories_are_no_files(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    assert_eq!(b.link(dir, b.root, "again").err(), Some(Errno::NotPermitted));
    assert_eq!(b.unlink(b.root, "dir"), Err(Errno::IsDirectory));
    assert_eq!(b.look(b.root, "dir"), Ok(dir));
}

fn rmdir(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    b.file(dir, "file");
    assert_eq!(b.rmdir(b.root, "dir"), Err(Errno::NotEmpty));
    b.unlink(dir, "file").expect("it is there");
    b.dir(dir, "sub");
    assert_eq!(b.rmdir(b.root, "dir"), Err(Errno::NotEmpty));
    b.rmdir(dir, "sub").expect("it is empty");
    b.rmdir(b.root, "dir").expect("it is empty");
    assert_eq!(b.look(b.root, "dir"), Err(Errno::NotFound));
    assert_eq!(b.rmdir(b.root, "dir"), Err(Errno::NotFound));
    assert_eq!(b.fs.getattr(dir).err(), Some(Errno::NotFound));
}

fn subdirectories(b: &mut Bench) {
    let before = b.attr(b.root).links;
    let dir = b.dir(b.root, "dir");
    assert_eq!((b.attr(dir).links, b.attr(b.root).links), (2, before + 1));
    let sub = b.dir(dir, "sub");
    b.file(dir, "file");
    assert_eq!(b.attr(dir).links, 3);
    assert_eq!(b.look(sub, ".."), Ok(dir));
    b.rmdir(dir, "sub").expect("it is empty");
    assert_eq!(b.attr(dir).links, 2);
    b.unlink(dir, "file").expect("it is there");
    b.rmdir(b.root, "dir").expect("it is empty");
    assert_eq!(b.attr(b.root).links, before);
}

fn held_file(b: &mut Bench) {
    let space = b.fs.statfs().expect("it is mounted");
    let file = b.file(b.root, "file");
    b.fs.hold(file).expect("it is there");
    b.fs.hold(file).expect("it is there");
    b.put(file, 0, &[7; 100_000]);
    b.unlink(b.root, "file").expect("it is there");
    assert_eq!(b.attr(file).links, 0);
    b.put(file, 100_000, b"more");
    assert_eq!(b.get(file, 99_999, 10), b"\x07more");
    // It can have a name again.
    assert_eq!(b.link(file, b.root, "back").map(|of| of.links), Ok(1));
    assert_eq!(b.look(b.root, "back"), Ok(file));
    b.unlink(b.root, "back").expect("it is there");
    // The number is not used again meanwhile.
    let other = b.file(b.root, "other");
    assert_ne!(other, file);
    let now = b.tick();
    b.fs.release(file, 1, now).expect("it is held");
    assert_eq!(b.get(file, 100_000, 4), b"more");
    let now = b.tick();
    b.fs.release(file, 1, now).expect("it is held");
    assert_eq!(b.fs.getattr(file).err(), Some(Errno::NotFound));
    b.unlink(b.root, "other").expect("it is there");
    let now = b.tick();
    b.fs.sync(now).expect("it can be written");
    let after = b.fs.statfs().expect("it is mounted");
    assert_eq!((after.blocks_free, after.inodes_free), (space.blocks_free, space.inodes_free));
}

fn held_directory(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    b.fs.hold(dir).expect("it is there");
    b.rmdir(b.root, "dir").expect("it is empty");
    assert_eq!(b.attr(dir).links, 0);
    let (now, of) = (b.tick(), permissions(0o600));
    assert_eq!(b.fs.create(dir, b"x", of, now).err(), Some(Errno::NotFound));
    assert_eq!(b.fs.mkdir(dir, b"x", of, now).err(), Some(Errno::NotFound));
    let file = b.file(b.root, "file");
    assert_eq!(b.link(file, dir, "x").err(), Some(Errno::NotFound));
    assert_eq!(b.rename((b.root, "file"), (dir, "x"), Default::default()), Err(Errno::NotFound));
    assert_eq!(b.look(dir, "x"), Err(Errno::NotFound));
    let now = b.tick();
    b.fs.release(dir, 1, now).expect("it is held");
    assert_eq!(b.fs.getattr(dir).err(), Some(Errno::NotFound));
}

fn many_names(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    let name = |n: u32| format!("{n}-{}", "x".repeat(n as usize * 7 % 60));
    let inodes: Vec<_> = (0..1500).map(|n| b.file(dir, &name(n))).collect();
    for n in (0..1500).filter(|n| n % 3 == 0) {
        b.unlink(dir, &name(n)).expect("it is there");
    }
    for n in (0..1500).filter(|n| n % 6 == 0) {
        b.file(dir, &name(n));
    }
    for n in 0..1500 {
        let found = b.look(dir, &name(n));
        match n {
            n if n % 6 == 0 => assert!(found.is_ok(), "{n}"),
            n if n % 3 == 0 => assert_eq!(found, Err(Errno::NotFound), "{n}"),
            n => assert_eq!(found, Ok(inodes[n as usize]), "{n}"),
        }
    }
    let mut expected: Vec<_> = (0..1500).filter(|n| n % 3 != 0 || n % 6 == 0).map(name).collect();
    expected.sort();
    assert_eq!(b.names(dir), expected);
    for name in expected {
        b.unlink(dir, &name).expect("it is there");
    }
    b.rmdir(b.root, "dir").expect("it is empty");
}

/// Reads a directory a few entries at a time, and does something in between.
fn read_in_pieces(
    b: &mut Bench,
    dir: fsmend_base::InodeNo,
    piece: usize,
    mut between: impl FnMut(&mut Bench, usize),
) -> Vec<String> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    for round in 0..100_000 {
        let mut seen = 0;
        let read = b.fs.readdir(dir, cookie, &mut |entry| {
            if seen == piece {
                return Visit::Full;
            }
            (seen, cookie) = (seen + 1, entry.cookie);
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            Visit::More
        });
        read.expect("the directory can be read");
        if seen == 0 {
            return names;
        }
        between(b, round);
    }
    names
}

fn stable_readdir(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    let stays = |n: usize| format!("stays-{n}-{}", "s".repeat(n % 40));
    let goes = |n: usize| format!("goes-{n}-{}", "g".repeat(n % 50));
    for n in 0..600 {
        b.file(dir, &stays(n));
        b.file(dir, &goes(n));
    }
    let names = read_in_pieces(b, dir, 9, |b, round| {
        // Not for ever: where what comes is always behind, reading would have no end.
        for n in (0..5).filter(|_| round < 150) {
            // Those that go do so in an order of their own; an index splits under those that come.
            let _ = b.unlink(dir, &goes((round * 5 + n) * 7 % 600));
            b.file(dir, &format!("comes-{round}-{n}-{}", "c".repeat(30)));
        }
    });
    let mut seen: Vec<_> = names.iter().filter(|name| name.starts_with("stays")).cloned().collect();
    seen.sort();
    let mut expected: Vec<_> = (0..600).map(stays).collect();
    expected.sort();
    assert_eq!(seen, expected);
    let all: BTreeSet<_> = names.iter().filter(|name| name.starts_with("goes")).collect();
    assert_eq!(all.len(), names.iter().filter(|name| name.starts_with("goes")).count(), "twice");
    assert_eq!(names.iter().filter(|name| *name == "." || *name == "..").count(), 2);
}

fn cookies(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    for n in 0..300 {
        b.file(dir, &format!("name-{n}"));
    }
    let whole = read_in_pieces(b, dir, usize::MAX, |_, _| {});
    assert_eq!(whole.len(), 302);
    for piece in [1, 2, 7] {
        assert_eq!(read_in_pieces(b, dir, piece, |_, _| {}), whole);
    }
    let mut all = Vec::new();
    let seen = b.fs.readdir(dir, 0, &mut |entry| {
        all.push((entry.cookie, String::from_utf8_lossy(entry.name).into_owned()));
        Visit::More
    });
    seen.expect("the directory can be read");
    for (at, (cookie, _)) in all.iter().enumerate().step_by(17) {
        let mut next = None;
        let seen = b.fs.readdir(dir, *cookie, &mut |entry| {
            next = Some(String::from_utf8_lossy(entry.name).into_owned());
            Visit::Full
        });
        seen.expect("the directory can be read");
        assert_eq!(next, all.get(at + 1).map(|(_, name)| name.clone()));
    }
    assert!(all.iter().all(|(cookie, _)| *cookie != 0 && i64::try_from(*cookie).is_ok()));
}

fn file_links(b: &mut Bench) {
    let (file, dir, max) = (b.file(b.root, "file"), b.dir(b.root, "dir"), b.can.file_links_max);
    for n in 1..max {
        b.link(file, dir, &n.to_string()).expect("it can be counted");
    }
    assert_eq!(b.attr(file).links, max);
    assert_eq!(b.link(file, dir, "more").err(), Some(Errno::TooManyLinks));
    b.unlink(dir, "1").expect("it is there");
    assert_eq!(b.link(file, dir, "more").map(|of| of.links), Ok(max));
}

fn directory_links(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    let Some(max) = b.can.dir_links_max else {
        for n in 0..66_000 {
            b.dir(dir, &n.to_string());
        }
        assert_eq!(b.attr(dir).links, 1, "not counted any more");
        b.rmdir(dir, "7").expect("it is empty");
        assert_eq!(b.attr(dir).links, 1, "for ever");
        return;
    };
    for n in 2..max {
        b.dir(dir, &n.to_string());
    }
    assert_eq!(b.attr(dir).links, max);
    let now = b.tick();
    let one_more = b.fs.mkdir(dir, b"more", permissions(0o755), now);
    assert_eq!(one_more.err(), Some(Errno::TooManyLinks));
    b.dir(b.root, "elsewhere");
    let plain = Default::default();
    assert_eq!(b.rename((b.root, "elsewhere"), (dir, "more"), plain), Err(Errno::TooManyLinks));
    // Over an empty one there is room.
    b.rename((b.root, "elsewhere"), (dir, "2"), plain).expect("one comes, one goes");
    assert_eq!(b.attr(dir).links, max);
    b.file(dir, "files are not counted");
}
