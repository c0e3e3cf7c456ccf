// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases about rename, over whatever may stand under the new name.

use fsmend_vfs::{Errno, RenameFlags};

use super::{Bench, Room, Row};

pub const CASES: &[Row] = &[
    ("a file can be renamed within and between directories", Room::Small, plain),
    ("a directory that moves takes its parent and its count with it", Room::Small, directory_moves),
    ("a file replaces a file, which lives on while it is held", Room::Small, over_file),
    ("a directory replaces an empty directory and no other", Room::Small, over_directory),
    ("files and directories do not replace each other", Room::Small, kinds_do_not_mix),
    ("a directory does not go into itself", Room::Small, into_itself),
    ("a rename from one name to another of the same file does nothing", Room::Small, same_file),
    ("what is not there cannot be renamed", Room::Small, missing),
    ("a rename that may not replace does not", Room::Small, no_replace),
    ("two names can be exchanged", Room::Small, exchange),
    ("an exchange does not make a directory its own parent", Room::Small, exchange_into_itself),
    ("a rename in a full directory of many names", Room::Plenty, in_large_directories),
];

const PLAIN: RenameFlags = RenameFlags::Replace;

fn plain(b: &mut Bench) {
    let (file, dir) = (b.file(b.root, "file"), b.dir(b.root, "dir"));
    b.put(file, 0, b"content");
    let before = b.attr(file);
    b.rename((b.root, "file"), (b.root, "other"), PLAIN).expect("it is there");
    assert_eq!((b.look(b.root, "file"), b.look(b.root, "other")), (Err(Errno::NotFound), Ok(file)));
    b.rename((b.root, "other"), (dir, "third"), PLAIN).expect("it is there");
    assert_eq!((b.look(b.root, "other"), b.look(dir, "third")), (Err(Errno::NotFound), Ok(file)));
    let after = b.attr(file);
    assert_eq!((after.links, after.mtime, after.size), (1, before.mtime, before.size));
    assert_eq!(b.get(file, 0, 10), b"content");
}

fn directory_moves(b: &mut Bench) {
    let (one, two) = (b.dir(b.root, "one"), b.dir(b.root, "two"));
    let sub = b.dir(one, "sub");
    let file = b.file(sub, "file");
    b.rename((one, "sub"), (two, "moved"), PLAIN).expect("it is there");
    assert_eq!((b.look(sub, ".."), b.look(sub, "file")), (Ok(two), Ok(file)));
    assert_eq!((b.attr(one).links, b.attr(two).links, b.attr(sub).links), (2, 3, 2));
    b.rename((two, "moved"), (two, "again"), PLAIN).expect("it is there");
    assert_eq!((b.attr(two).links, b.look(sub, "..")), (3, Ok(two)));
    b.rmdir(b.root, "one").expect("it is empty");
}

fn over_file(b: &mut Bench) {
    let (file, old) = (b.file(b.root, "file"), b.file(b.root, "old"));
    b.put(old, 0, b"old content");
    b.fs.hold(old).expect("it is there");
    b.rename((b.root, "file"), (b.root, "old"), PLAIN).expect("files replace files");
    assert_eq!(b.look(b.root, "old"), Ok(file));
    assert_eq!((b.attr(old).links, b.get(old, 0, 100)), (0, b"old content".to_vec()));
    let now = b.tick();
    b.fs.release(old, 1, now).expect("it is held");
    assert_eq!(b.fs.getattr(old).err(), Some(Errno::NotFound));
    // One of several names is replaced.
    let (linked, dir) = (b.file(b.root, "linked"), b.dir(b.root, "dir"));
    b.link(linked, dir, "second").expect("it can be linked");
    b.rename((b.root, "old"), (dir, "second"), PLAIN).expect("files replace files");
    assert_eq!((b.attr(linked).links, b.attr(file).links), (1, 1));
    // A symbolic link is a file.
    let now = b.tick();
    let of = super::permissions(0o777);
    let link = b.fs.symlink(b.root, b"link", b"linked", of, now).expect("there is room").inode;
    b.rename((b.root, "link"), (b.root, "linked"), PLAIN).expect("files replace files");
    assert_eq!(b.look(b.root, "linked"), Ok(link));
    assert_eq!(b.fs.getattr(linked).err(), Some(Errno::NotFound));
}

fn over_directory(b: &mut Bench) {
    let (one, two, top) = (b.dir(b.root, "one"), b.dir(b.root, "two"), b.dir(b.root, "top"));
    let links = b.attr(b.root).links;
    b.file(one, "inside");
    assert_eq!(b.rename((b.root, "two"), (b.root, "one"), PLAIN), Err(Errno::NotEmpty));
    b.rename((b.root, "one"), (b.root, "two"), PLAIN).expect("it is empty");
    assert_eq!((b.look(b.root, "two"), b.look(b.root, "one")), (Ok(one), Err(Errno::NotFound)));
    assert_eq!(b.fs.getattr(two).err(), Some(Errno::NotFound));
    assert_eq!(b.attr(b.root).links, links - 1);
    let empty = b.dir(top, "empty");
    b.rename((b.root, "two"), (top, "empty"), PLAIN).expect("it is empty");
    assert_eq!((b.attr(top).links, b.attr(b.root).links, b.look(one, "..")), (3, links - 2, Ok(top)));
    assert_eq!(b.fs.getattr(empty).err(), Some(Errno::NotFound));
    // A directory with something in it is not replaced by what lies in it, either.
    assert_eq!(b.rename((top, "empty"), (b.root, "top"), PLAIN), Err(Errno::NotEmpty));
}

fn kinds_do_not_mix(b: &mut Bench) {
    let (file, dir) = (b.file(b.root, "file"), b.dir(b.root, "dir"));
    assert_eq!(b.rename((b.root, "file"), (b.root, "dir"), PLAIN), Err(Errno::IsDirectory));
    assert_eq!(b.rename((b.root, "dir"), (b.root, "file"), PLAIN), Err(Errno::NotDirectory));
    assert_eq!((b.look(b.root, "file"), b.look(b.root, "dir")), (Ok(file), Ok(dir)));
}

fn into_itself(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    let sub = b.dir(dir, "sub");
    let deep = b.dir(sub, "deep");
    for parent in [dir, sub, deep] {
        assert_eq!(b.rename((b.root, "dir"), (parent, "x"), PLAIN), Err(Errno::Invalid));
    }
    assert_eq!(b.rename((b.root, "dir"), (sub, "deep"), PLAIN), Err(Errno::Invalid));
    b.rename((sub, "deep"), (b.root, "up"), PLAIN).expect("upwards it can go");
    assert_eq!(b.look(deep, ".."), Ok(b.root));
    b.rename((b.root, "dir"), (deep, "down"), PLAIN).expect("it is not below any more");
    assert_eq!(b.look(dir, ".."), Ok(deep));
}

fn same_file(b: &mut Bench) {
    let (file, dir) = (b.file(b.root, "one"), b.dir(b.root, "dir"));
    b.link(file, dir, "two").expect("it can be linked");
    b.rename((b.root, "one"), (dir, "two"), PLAIN).expect("nothing is to be done");
    assert_eq!((b.look(b.root, "one"), b.look(dir, "two")), (Ok(file), Ok(file)));
    b.rename((b.root, "one"), (b.root, "one"), PLAIN).expect("nothing is to be done");
    b.rename((b.root, "dir"), (b.root, "dir"), PLAIN).expect("nothing is to be done");
    assert_eq!((b.attr(file).links, b.look(b.root, "dir")), (2, Ok(dir)));
}

fn missing(b: &mut Bench) {
    let file = b.file(b.root, "file");
    assert_eq!(b.rename((b.root, "none"), (b.root, "file"), PLAIN), Err(Errno::NotFound));
    assert_eq!(b.rename((b.root, "none"), (b.root, "new"), PLAIN), Err(Errno::NotFound));
    assert_eq!(b.rename((b.root, "file"), (file, "new"), PLAIN), Err(Errno::NotDirectory));
    assert_eq!(b.rename((file, "x"), (b.root, "new"), PLAIN), Err(Errno::NotDirectory));
    assert_eq!(b.look(b.root, "file"), Ok(file));
}

fn no_replace(b: &mut Bench) {
    let (file, old) = (b.file(b.root, "file"), b.file(b.root, "old"));
    let flags = RenameFlags::NoReplace;
    assert_eq!(b.rename((b.root, "file"), (b.root, "old"), flags), Err(Errno::Exists));
    assert_eq!((b.look(b.root, "file"), b.look(b.root, "old")), (Ok(file), Ok(old)));
    b.rename((b.root, "file"), (b.root, "new"), flags).expect("nobody has the name");
    assert_eq!(b.look(b.root, "new"), Ok(file));
}

fn exchange(b: &mut Bench) {
    let flags = RenameFlags::Exchange;
    let (one, two) = (b.dir(b.root, "one"), b.dir(b.root, "two"));
    let (file, sub) = (b.file(one, "file"), b.dir(two, "sub"));
    assert_eq!(b.rename((one, "file"), (two, "none"), flags), Err(Errno::NotFound));
    b.rename((one, "file"), (two, "sub"), flags).expect("both are there");
    assert_eq!((b.look(one, "file"), b.look(two, "sub"), b.look(sub, "..")), (Ok(sub), Ok(file), Ok(one)));
    assert_eq!((b.attr(one).links, b.attr(two).links), (3, 2));
    b.rename((b.root, "one"), (b.root, "two"), flags).expect("both are there");
    assert_eq!((b.look(b.root, "one"), b.look(b.root, "two")), (Ok(two), Ok(one)));
    let (x, y) = (b.dir(one, "x"), b.dir(two, "y"));
    b.file(x, "full");
    b.rename((one, "x"), (two, "y"), flags).expect("directories need not be empty");
    assert_eq!((b.look(x, ".."), b.look(y, "..")), (Ok(two), Ok(one)));
}

fn exchange_into_itself(b: &mut Bench) {
    let dir = b.dir(b.root, "dir");
    let sub = b.dir(dir, "sub");
    let flags = RenameFlags::Exchange;
    assert_eq!(b.rename((b.root, "dir"), (dir, "sub"), flags), Err(Errno::Invalid));
    assert_eq!(b.rename((dir, "sub"), (b.root, "dir"), flags), Err(Errno::Invalid));
    assert_eq!((b.look(b.root, "dir"), b.look(dir, "sub"), b.look(sub, "..")), (Ok(dir), Ok(sub), Ok(dir)));
}

fn in_large_directories(b: &mut Bench) {
    let (one, two) = (b.dir(b.root, "one"), b.dir(b.root, "two"));
    let name = |n: u32| format!("{n}{}", "-".repeat(100));
    let inodes: Vec<_> = (0..500).map(|n| b.file(one, &name(n))).collect();
    for n in 0..500 {
        let to = if n % 2 == 0 { one } else { two };
        b.rename((one, &name(n)), (to, &format!("new {}", name(n))), PLAIN).expect("it is there");
    }
    for n in 0..500_u32 {
        let to = if n % 2 == 0 { one } else { two };
        assert_eq!(b.look(to, &format!("new {}", name(n))), Ok(inodes[n as usize]), "{n}");
        assert_eq!(b.look(one, &name(n)), Err(Errno::NotFound), "{n}");
    }
    assert_eq!((b.names(one).len(), b.names(two).len()), (250, 250));
}
