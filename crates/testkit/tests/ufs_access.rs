// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access control lists and quota files on a mounted UFS: what is obeyed, and what the mount says that it does not do.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use fsmend_blockcache::acl::{ACCESS, Acl, DEFAULT, Entry, Tag};
use fsmend_device::{WritableDevice, WritableMemory};
use fsmend_testkit::driver::NOW;
use fsmend_testkit::ufs::checked::{Folder, check, codes, folder};
use fsmend_testkit::ufs::{Image, peers};
use fsmend_ufs_driver::mkfs::{Options, mkfs};
use fsmend_ufs_driver::{MountError, MountOptions, Ufs};
use fsmend_ufs_format::superblock::SuperblockFlags;
use fsmend_ufs_format::{ByteOrder, Version};
use fsmend_vfs::{AttributeWrite, Errno, FileSystem, NewFile, NewKind, Permissions, SetAttributes, Time};

const OF: Permissions = Permissions { mode: 0o666, uid: 0, gid: 0 };

fn now() -> Time {
    Time::at(NOW)
}

fn made(version: Version, order: ByteOrder, access_lists: bool) -> Vec<u8> {
    let device = Arc::new(WritableMemory::new("ufs", vec![0; 16 << 20]));
    let base = Options { order, access_lists, ..Options::new(version, [1, 2], now()) };
    mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &Options { block_size: 8192, ..base }).unwrap();
    device.bytes()
}

fn mounted(bytes: &[u8], options: MountOptions) -> Result<(Ufs, Arc<WritableMemory>), MountError> {
    let device = Arc::new(WritableMemory::new("ufs", bytes.to_vec()));
    Ufs::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, options).map(|ufs| (ufs, device))
}

fn list(entries: &[(Tag, u16)]) -> Acl {
    Acl {
        entries: entries
            .iter()
            .map(|(tag, permissions)| Entry { tag: *tag, permissions: *permissions })
            .collect(),
    }
}

/// Read and write for the owner and a user, nothing for others.
fn for_one_more() -> Acl {
    list(&[(Tag::Owner, 6), (Tag::User(77), 6), (Tag::OwningGroup, 4), (Tag::Mask, 6), (Tag::Other, 0)])
}

fn get(ufs: &mut Ufs, inode: fsmend_vfs::InodeNo, name: &[u8]) -> Acl {
    Acl::from_attribute(&ufs.getxattr(inode, name).unwrap()).unwrap()
}

#[test]
fn access_lists_are_kept_inherited_and_go_with_the_mode() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let (mut ufs, device) = mounted(&made(Version::Ufs2, order, true), MountOptions::new(now())).unwrap();
        let root = ufs.root();
        let file = ufs.create(root, b"file", OF, now()).unwrap().inode;
        let wanted = for_one_more();
        let set = |ufs: &mut Ufs, inode, name, list: &Acl| {
            ufs.setxattr(inode, name, &list.to_attribute(), AttributeWrite::Any, now())
        };
        set(&mut ufs, file, ACCESS, &wanted).unwrap();
        assert_eq!(ufs.getattr(file).unwrap().of.mode & 0o777, 0o660);
        assert_eq!(get(&mut ufs, file, ACCESS), wanted);
        assert_eq!(ufs.listxattr(file).unwrap(), [ACCESS]);
        // Under its name on the disk it cannot be reached past all this.
        assert_eq!(ufs.getxattr(file, b"system.posix1e.acl_access"), Err(Errno::NotSupported));
        ufs.setattr(file, &SetAttributes { mode: Some(0o604), ..SetAttributes::default() }, now()).unwrap();
        let changed = get(&mut ufs, file, ACCESS);
        assert_eq!(changed.mode(), 0o604);
        assert!(changed.entries.contains(&Entry { tag: Tag::User(77), permissions: 6 }));
        assert_eq!(set(&mut ufs, file, DEFAULT, &wanted), Err(Errno::NotPermitted));
        assert_eq!(set(&mut ufs, file, ACCESS, &list(&[(Tag::Owner, 6)])), Err(Errno::Invalid));

        let folder = ufs.mkdir(root, b"folder", Permissions { mode: 0o755, ..OF }, now()).unwrap().inode;
        set(&mut ufs, folder, DEFAULT, &wanted).unwrap();
        let inside = ufs.create(folder, b"inside", OF, now()).unwrap();
        assert_eq!(inside.of.mode & 0o777, 0o660, "others get nothing");
        assert_eq!(get(&mut ufs, inside.inode, ACCESS), wanted);
        let below = ufs.mkdir(folder, b"below", Permissions { mode: 0o777, ..OF }, now()).unwrap().inode;
        assert_eq!(get(&mut ufs, below, DEFAULT), wanted);
        let link = NewFile { kind: NewKind::Symlink(b"file"), of: OF };
        let link = ufs.make(folder, b"link", &link, now()).unwrap().inode;
        assert_eq!(ufs.listxattr(link).unwrap(), [b""; 0]);

        ufs.removexattr(file, ACCESS, now()).unwrap();
        assert_eq!(ufs.getxattr(file, ACCESS), Err(Errno::NoAttribute));
        assert!(ufs.notes().is_empty());
        ufs.unmount(now()).unwrap();
        let bytes = device.bytes();
        assert_eq!(codes(&check(&bytes, 1)), [""; 0], "{order:?}");
        if order == ByteOrder::Little
            && let Some(answer) = peers::finds(&bytes, &folder_of_peer()).unwrap()
        {
            assert!(answer.is_clean(), "{}", answer.printed);
        }
        let (mut again, _) = mounted(&bytes, MountOptions::read_only(now())).unwrap();
        let inside = again.lookup(folder, b"inside").unwrap().inode;
        assert_eq!(get(&mut again, inside, ACCESS), wanted);
    }
}

fn folder_of_peer() -> Folder {
    folder("access_lists_are_kept_inherited_and_go_with_the_mode")
}

#[test]
fn without_the_flag_there_are_no_lists() {
    let (mut ufs, _) =
        mounted(&made(Version::Ufs2, ByteOrder::Little, false), MountOptions::new(now())).unwrap();
    let root = ufs.root();
    let file = ufs.create(root, b"file", OF, now()).unwrap().inode;
    let value = for_one_more().to_attribute();
    assert_eq!(ufs.setxattr(file, ACCESS, &value, AttributeWrite::Any, now()), Err(Errno::NotSupported));
    assert_eq!(ufs.getxattr(file, ACCESS), Err(Errno::NotSupported));
}

#[test]
fn a_damaged_list_gives_no_access() {
    let (mut ufs, device) =
        mounted(&made(Version::Ufs2, ByteOrder::Little, true), MountOptions::new(now())).unwrap();
    let root = ufs.root();
    let file = ufs.create(root, b"file", OF, now()).unwrap().inode;
    ufs.setxattr(file, ACCESS, &for_one_more().to_attribute(), AttributeWrite::Any, now()).unwrap();
    ufs.unmount(now()).unwrap();
    let mut bytes = device.bytes();
    let at = bytes.windows(18).position(|bytes| bytes == b"posix1e.acl_access").unwrap();
    // The header and the name take 32 bytes; the number of entries follows.
    bytes[at - 7 + 32] = 33;
    let (mut ufs, _) = mounted(&bytes, MountOptions::read_only(now())).unwrap();
    assert!(ufs.getxattr(file, ACCESS).is_err_and(|error| error != Errno::NoAttribute));
}

#[test]
fn a_mount_says_what_it_does_not_obey() {
    let (mut ufs, device) =
        mounted(&made(Version::Ufs2, ByteOrder::Little, false), MountOptions::new(now())).unwrap();
    assert!(ufs.notes().is_empty());
    let root = ufs.root();
    ufs.create(root, b"quota.group", OF, now()).unwrap();
    assert!(ufs.notes().iter().all(|note| note.contains("/quota.group is not kept up to date")));
    assert_eq!(ufs.notes().len(), 1);
    ufs.unmount(now()).unwrap();
    let flagged = |bit: SuperblockFlags| {
        let mut image = Image::open(device.bytes()).unwrap();
        image.amend_superblock(|sb| sb.set_flags(sb.flags() | bit));
        image.bytes
    };
    let with_nfs4 = flagged(SuperblockFlags::NFS4_ACLS);
    let refused = mounted(&with_nfs4, MountOptions::new(now())).err().unwrap();
    assert!(matches!(refused, MountError::ReadOnly(why) if why.contains("NFSv4")), "{refused}");
    let (mut ufs, _) = mounted(&with_nfs4, MountOptions::read_only(now())).unwrap();
    // Nothing is written, so quota files stay as right as they are.
    let notes = ufs.notes();
    assert!(notes.len() == 1 && notes[0].starts_with("NFSv4"), "{notes:?}");
    let (mut ufs, _) = mounted(&flagged(SuperblockFlags::MULTILABEL), MountOptions::new(now())).unwrap();
    assert!(ufs.notes().iter().any(|note| note.starts_with("labels")));
}
