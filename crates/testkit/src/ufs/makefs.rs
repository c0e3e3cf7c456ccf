// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images by Debian's makefs, in both versions and byte orders, with check hashes put in.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use fsmend_base::SeededRandom;
use fsmend_ufs_format::superblock::{Hashes, SUPERBLOCK_MAX, Superblock, SuperblockFlags};
use fsmend_ufs_format::{ByteOrder, Version};

use super::Image;
use crate::host::{find_program, run};
use crate::target_folder;

/// A kind of image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Make {
    /// The version.
    pub version: Version,
    /// The byte order.
    pub order: ByteOrder,
    /// Whether it has check hashes, which makefs does not make: they are put in afterwards. UFS2 only.
    pub has_hashes: bool,
}

/// All kinds.
pub const KINDS: [Make; 5] = [
    Make { version: Version::Ufs1, order: ByteOrder::Little, has_hashes: false },
    Make { version: Version::Ufs1, order: ByteOrder::Big, has_hashes: false },
    Make { version: Version::Ufs2, order: ByteOrder::Little, has_hashes: false },
    Make { version: Version::Ufs2, order: ByteOrder::Little, has_hashes: true },
    Make { version: Version::Ufs2, order: ByteOrder::Big, has_hashes: true },
];

/// What the trees of all images hold: directories, small files with sizes at the edges of fragments and blocks, files with single and double indirect blocks, links.
fn fill(folder: &Path) -> io::Result<()> {
    let mut random = SeededRandom::new(7);
    let mut contents = |len: usize| -> Vec<u8> { (0..len).map(|_| random.next_u64() as u8).collect() };
    for number in 0..6 {
        let sub = folder.join(format!("d{number}"));
        fs::create_dir(&sub)?;
        for (index, len) in [0, 1, 511, 512, 513, 4095, 4096, 4097, 9000].into_iter().enumerate() {
            fs::write(sub.join(format!("f{index}")), contents(len))?;
        }
    }
    fs::create_dir_all(folder.join("n0/n1/n2/n3"))?;
    fs::write(folder.join("n0/n1/n2/deep.txt"), b"deep")?;
    let many = folder.join("many");
    fs::create_dir(&many)?;
    for number in 0..150 {
        fs::write(
            many.join(format!("a-rather-long-name-to-fill-the-chunks-{number:03}")),
            number.to_string(),
        )?;
    }
    fs::write(folder.join("single"), contents(200_000))?;
    fs::write(folder.join("double"), contents(4_700_000))?;
    fs::hard_link(folder.join("single"), folder.join("d1/other-name"))?;
    symlink("short", folder.join("short-link"))?;
    symlink("x/".repeat(200), folder.join("long-link"))?;
    fs::create_dir(folder.join("lost+found"))
}

/// An image of this kind, of 12 MiB in four groups; `None` where there is no makefs. Made once.
pub fn image(make: Make) -> Option<Vec<u8>> {
    find_program("makefs")?;
    let mut bytes = made(make).unwrap_or_else(|error| panic!("makefs: {error}"));
    if make.has_hashes {
        put_hashes(&mut bytes);
    }
    Some(bytes)
}

fn made(make: Make) -> io::Result<Vec<u8>> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = target_folder().join("testkit-images/ufs");
    fs::create_dir_all(&folder)?;
    let number = if make.version == Version::Ufs1 { "1" } else { "2" };
    let order = if make.order == ByteOrder::Big { "be" } else { "le" };
    let file = folder.join(format!("ufs{number}-{order}.img"));
    if !file.exists() {
        let unique = format!("{}-{number}{order}", std::process::id());
        let (tree, draft) = (folder.join(format!("tree-{unique}")), folder.join(format!("draft-{unique}")));
        fs::create_dir_all(&tree)?;
        fill(&tree)?;
        let options = format!("version={number},bsize=4096,fsize=512,minfree=5,maxbpcg=6400,density=4096");
        let arguments = ["-t", "ffs", "-B", order, "-s", "12m", "-o", &options];
        run("makefs", arguments.iter().map(Path::new).chain([&*draft, &*tree]))?;
        fs::remove_dir_all(&tree)?;
        fs::rename(&draft, &file)?;
    }
    fs::read(&file)
}

impl Image {
    /// The image of this kind.
    pub fn of(make: Make) -> Option<Image> {
        let image = Image::open(image(make)?);
        Some(image.unwrap_or_else(|| panic!("makefs made no usable superblock: {make:?}")))
    }
}

/// Turns check hashes on and seals everything.
fn put_hashes(bytes: &mut Vec<u8>) {
    let Some(mut image) = Image::open(std::mem::take(bytes)) else { return };
    image.geometry.hashes = Hashes::ALL;
    image.amend_superblock(|superblock| {
        superblock.set_flags(superblock.flags() | SuperblockFlags::HASHES);
        superblock.set_metackhash(Hashes::ALL.bits());
    });
    // The copies have to agree.
    for group in 0..image.geometry.groups {
        let at = image.geometry.superblock_copy(group) as usize;
        if let Some(mut copy) = Superblock::parse(&image.bytes[at..at + SUPERBLOCK_MAX]) {
            copy.set_flags(copy.flags() | SuperblockFlags::HASHES);
            copy.set_metackhash(Hashes::ALL.bits());
            copy.seal();
            let covered = copy.covered().to_vec();
            image.bytes[at..at + covered.len()].copy_from_slice(&covered);
        }
        image.amend_group(group, |_, _| {});
        for index in 0..image.geometry.group_inodes {
            let inode = group * image.geometry.group_inodes + index;
            if image.record(inode).mode() != 0 {
                image.amend_inode(inode, |_| {});
            }
        }
    }
    *bytes = image.bytes;
}
