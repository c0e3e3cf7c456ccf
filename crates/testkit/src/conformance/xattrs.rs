// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases about extended attributes.

use fsmend_base::InodeNo;
use fsmend_vfs::{AttributeWrite, Errno, Result};

use super::{Bench, Room, Row, permissions};

pub const CASES: &[Row] = &[
    ("attributes are set, read, listed and removed", Room::Small, set_and_get),
    ("attributes are created and replaced only if asked so", Room::Small, create_and_replace),
    ("values of any length that fits", Room::Small, lengths),
    ("a value that does not fit changes nothing", Room::Small, too_large),
    ("values are bytes", Room::Small, bytes),
    ("every kind of file has attributes", Room::Small, kinds),
    ("attributes of many files are their own", Room::Small, sharing),
];

fn write(b: &mut Bench, inode: InodeNo, name: &str, value: &[u8], how: AttributeWrite) -> Result<()> {
    let now = b.tick();
    b.fs.setxattr(inode, name.as_bytes(), value, how, now)
}

fn remove(b: &mut Bench, inode: InodeNo, name: &str) -> Result<()> {
    let now = b.tick();
    b.fs.removexattr(inode, name.as_bytes(), now)
}

fn list(b: &mut Bench, inode: InodeNo) -> Vec<String> {
    let names = b.fs.listxattr(inode).expect("the list can be read");
    let mut names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    names
}

const ANY: AttributeWrite = AttributeWrite::Any;

fn set_and_get(b: &mut Bench) {
    let file = b.file(b.root, "file");
    assert_eq!(list(b, file), [""; 0]);
    assert_eq!(b.fs.getxattr(file, b"user.one"), Err(Errno::NoAttribute));
    let names = ["user.one", "trusted.two", "security.three", "user.o", "user.one.more"];
    for name in names {
        write(b, file, name, name.as_bytes(), ANY).expect("there is room");
    }
    for name in names {
        assert_eq!(b.fs.getxattr(file, name.as_bytes()), Ok(name.as_bytes().to_vec()));
    }
    let mut sorted = names.map(str::to_owned);
    sorted.sort();
    assert_eq!(list(b, file), sorted);
    remove(b, file, "trusted.two").expect("it is there");
    assert_eq!(remove(b, file, "trusted.two"), Err(Errno::NoAttribute));
    assert_eq!(b.fs.getxattr(file, b"trusted.two"), Err(Errno::NoAttribute));
    assert_eq!(b.fs.getxattr(file, b"user.one"), Ok(b"user.one".to_vec()));
    for name in names.into_iter().filter(|name| *name != "trusted.two") {
        remove(b, file, name).expect("it is there");
    }
    assert_eq!((list(b, file), b.attr(file).blocks_512), (Vec::new(), 0));
}

fn create_and_replace(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let (create, replace) = (AttributeWrite::Create, AttributeWrite::Replace);
    assert_eq!(write(b, file, "user.x", b"0", replace), Err(Errno::NoAttribute));
    write(b, file, "user.x", b"1", create).expect("it is not there");
    assert_eq!(write(b, file, "user.x", b"2", create), Err(Errno::Exists));
    assert_eq!(b.fs.getxattr(file, b"user.x"), Ok(b"1".to_vec()));
    write(b, file, "user.x", b"longer than before", replace).expect("it is there");
    assert_eq!(b.fs.getxattr(file, b"user.x"), Ok(b"longer than before".to_vec()));
}

fn lengths(b: &mut Bench) {
    let file = b.file(b.root, "file");
    for len in [0, 1, 3, 4, 5, 40, 80, 100, 200, 500, b.can.value_min, 90, 2, 0] {
        let value: Vec<u8> = (0..len).map(|n| n as u8).collect();
        write(b, file, "user.value", &value, ANY).expect("there is room");
        assert_eq!(b.fs.getxattr(file, b"user.value"), Ok(value), "{len}");
        assert_eq!(list(b, file), ["user.value"]);
    }
    let name = format!("user.{}", "n".repeat(250));
    write(b, file, &name, b"x", ANY).expect("there is room");
    assert_eq!(b.fs.getxattr(file, name.as_bytes()), Ok(b"x".to_vec()));
}

fn too_large(b: &mut Bench) {
    let file = b.file(b.root, "file");
    write(b, file, "user.small", b"value", ANY).expect("there is room");
    let before = b.attr(file);
    let room = 2 * b.can.value_min + 64;
    for len in [10_000, 65_536, 100_000].into_iter().filter(|len| *len > room) {
        let error = write(b, file, "user.large", &vec![1; len], ANY);
        assert!(matches!(error, Err(Errno::NoSpace | Errno::ValueTooLarge)), "{len}: {error:?}");
        let error = write(b, file, "user.small", &vec![1; len], ANY);
        assert!(matches!(error, Err(Errno::NoSpace | Errno::ValueTooLarge)), "{len}: {error:?}");
    }
    assert_eq!((list(b, file), b.attr(file)), (vec!["user.small".to_owned()], before));
    // Many small ones do not fit for ever, either.
    let mut error = None;
    for n in 0..1_000 {
        error = write(b, file, &format!("user.many-{n}"), &[7; 50], ANY).err();
        if error.is_some() {
            assert_eq!(list(b, file).len(), n + 1);
            break;
        }
    }
    assert_eq!(error, Some(Errno::NoSpace));
    assert_eq!(b.fs.getxattr(file, b"user.small"), Ok(b"value".to_vec()));
    assert_eq!(b.fs.getxattr(file, b"user.many-0"), Ok(vec![7; 50]));
}

fn bytes(b: &mut Bench) {
    let file = b.file(b.root, "file");
    let value: Vec<u8> = (0..=255).collect();
    write(b, file, "user.all", &value, ANY).expect("there is room");
    assert_eq!(b.fs.getxattr(file, b"user.all"), Ok(value));
    let now = b.tick();
    b.fs.setxattr(file, b"user.\xff\x01", b"x", ANY, now).expect("names are bytes");
    assert_eq!(b.fs.getxattr(file, b"user.\xff\x01"), Ok(b"x".to_vec()));
}

fn kinds(b: &mut Bench) {
    let (dir, now) = (b.dir(b.root, "dir"), b.tick());
    let short = b.fs.symlink(b.root, b"s", b"x", permissions(0o777), now).expect("there is room").inode;
    let long =
        b.fs.symlink(b.root, b"l", &[b'x'; 500], permissions(0o777), now).expect("there is room").inode;
    for inode in [dir, short, long, b.root] {
        write(b, inode, "trusted.x", b"value", ANY).expect("there is room");
        write(b, inode, "trusted.y", &[3; 400], ANY).expect("there is room");
        assert_eq!(b.fs.getxattr(inode, b"trusted.x"), Ok(b"value".to_vec()));
    }
    assert_eq!(b.fs.readlink(short), Ok(b"x".to_vec()));
    assert_eq!(b.fs.readlink(long), Ok(vec![b'x'; 500]));
    b.file(dir, "file");
    b.unlink(b.root, "s").expect("it is there");
    b.unlink(b.root, "l").expect("it is there");
}

fn sharing(b: &mut Bench) {
    let before = b.fs.statfs().expect("it is mounted");
    let files: Vec<_> = (0..20).map(|n| b.file(b.root, &n.to_string())).collect();
    // The same for all, which formats may keep once.
    for file in &files {
        write(b, *file, "user.same", &[9; 500], ANY).expect("there is room");
    }
    write(b, files[3], "user.same", &[8; 500], ANY).expect("there is room");
    remove(b, files[4], "user.same").expect("it is there");
    b.unlink(b.root, "5").expect("it is there");
    for (n, file) in files.iter().enumerate() {
        match n {
            3 => assert_eq!(b.fs.getxattr(*file, b"user.same"), Ok(vec![8; 500])),
            4 => assert_eq!(b.fs.getxattr(*file, b"user.same"), Err(Errno::NoAttribute)),
            5 => {}
            _ => assert_eq!(b.fs.getxattr(*file, b"user.same"), Ok(vec![9; 500])),
        }
    }
    for n in (0..20).filter(|n| *n != 5) {
        b.unlink(b.root, &n.to_string()).expect("it is there");
    }
    let now = b.tick();
    b.fs.sync(now).expect("it can be written");
    assert_eq!(b.fs.statfs().map(|after| after.blocks_free), Ok(before.blocks_free));
}
