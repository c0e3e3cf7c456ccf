// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with the example image. Each damage is one that disks, cables, kernels and power cuts really do.

use std::io;

use super::image::{I_BLOCK, Image, le16, le32, put16, put32};

/// Does all the damage.
pub fn all(image: &mut Image) -> io::Result<()> {
    inodes(image)?;
    maps(image)?;
    directories(image)?;
    index(image)?;
    attribute_block(image)?;
    allocation(image)?;
    Ok(())
}

fn inodes(image: &mut Image) -> io::Result<()> {
    // A link count that was not written back.
    let file = image.inode("users/alice/recipes/bread.md")?;
    image.edit_inode(file, |record| put16(record, 0x1A, 3));
    // A size smaller than what is mapped.
    let file = image.inode("users/alice/letters/insurance.txt")?;
    image.edit_inode(file, |record| put32(record, 0x04, 100));
    // A count of sectors that is off.
    let file = image.inode("var/log/kern.log")?;
    image.edit_inode(file, |record| put32(record, 0x1C, 998));
    // A bit that fell over in memory: only the checksum can tell.
    let file = image.inode("users/bob/src/main.c")?;
    image.edit_inode_only(file, |record| record[0x10] ^= 0x20);
    // A type that does not exist.
    let file = image.inode("var/backups/passwd.bak")?;
    image.edit_inode(file, |record| put16(record, 0x00, 0o070_644));
    // A symbolic link whose size is not the length of its target.
    let link = image.inode("etc/motd")?;
    image.edit_inode(link, |record| put32(record, 0x04, 7));
    // A file in use that says when it was deleted.
    let file = image.inode("users/alice/recipes/soup.md")?;
    image.edit_inode(file, |record| put32(record, 0x14, 1_782_900_000));
    Ok(())
}

fn maps(image: &mut Image) -> io::Result<()> {
    // Two files that both say that a block is theirs.
    let (owner, thief) =
        (image.inode("users/alice/photos/2026-06/lake.jpg")?, image.inode("var/log/syslog")?);
    let stolen = image.blocks(owner)[2] as u32;
    image.edit_inode(thief, |record| put32(record, I_BLOCK + 12 + 8, stolen));
    // An extent that points behind the end of the file system.
    let file = image.inode("users/alice/photos/2026-07/beach.jpg")?;
    image.edit_inode(file, |record| put32(record, I_BLOCK + 12 + 8, 40_000_000));
    // An extent header without its magic number.
    let file = image.inode("users/bob/thesis/figures/plot-2.svg")?;
    image.edit_inode(file, |record| put16(record, I_BLOCK, 0x1234));
    Ok(())
}

fn directories(image: &mut Image) -> io::Result<()> {
    // An entry that calls a file a directory.
    edit_entry(image, "users/alice/photos/2026-06", "sunset.jpg", |entry| entry[7] = 2)?;
    // A parent entry that leads somewhere else.
    let structured_damage = image.inode("etc")?;
    edit_entry(image, "users/bob/thesis/figures", "..", |entry| put32(entry, 0, structured_damage))?;
    // Two entries of one name.
    edit_entry(image, "users/alice/letters", "draft-2.txt", |entry| entry[14] = b'1')?;
    // An entry that leads to an inode that is not in use.
    edit_entry(image, "etc/network", "interfaces", |entry| put32(entry, 0, 200))?;
    // A name with a slash in it.
    edit_entry(image, "var/log", "auth.log", |entry| entry[12] = b'/')?;
    // A directory that lost its name; what is below it stays.
    edit_entry(image, "users/bob", "src", |entry| put32(entry, 0, 0))?;
    // An entry that overlaps the next one: the rest of the block is hard to believe.
    let directory = image.inode("users/alice/recipes")?;
    let (block, at) = image.entry(directory, "apple-pie.md")?;
    image.edit_entries(directory, block, |bytes| put16(bytes, at + 4, 6));
    Ok(())
}

fn edit_entry(
    image: &mut Image,
    directory: &str,
    name: &str,
    edit: impl FnOnce(&mut [u8]),
) -> io::Result<()> {
    let directory = image.inode(directory)?;
    let (block, at) = image.entry(directory, name)?;
    image.edit_entries(directory, block, |bytes| edit(&mut bytes[at..]));
    Ok(())
}

/// The second entry of the mail directory's index gets another hash, so that names are looked up in the wrong block.
fn index(image: &mut Image) -> io::Result<()> {
    let directory = image.inode("srv/mail")?;
    if le32(image.record(directory), 0x20) & 0x1000 == 0 {
        return Err(io::Error::other("the mail directory has no index"));
    }
    image.edit_index_root(directory, |root| {
        let hash = le32(root, 0x28);
        put32(root, 0x28, (hash / 2) & !1);
    });
    Ok(())
}

/// An attribute block whose first bytes were overwritten.
fn attribute_block(image: &mut Image) -> io::Result<()> {
    let file = image.inode("users/bob/thesis/thesis.tex")?;
    let block = u64::from(le32(image.record(file), 0x68));
    if block == 0 {
        return Err(io::Error::other("the thesis has no attribute block"));
    }
    image.edit_block(block, |bytes| bytes[..16].fill(0xA5));
    Ok(())
}

fn allocation(image: &mut Image) -> io::Result<()> {
    // A file's block that the bitmap calls free, and free blocks that it calls used.
    let file = image.inode("users/bob/thesis/references.bib")?;
    let bit = image.blocks(file)[1] as usize - 1;
    image.edit_block_bitmap(0, |bitmap| bitmap[bit / 8] &= !(1 << (bit % 8)));
    image.edit_block_bitmap(1, |bitmap| bitmap[800..802].fill(0xFF));
    // Counts of free blocks that were not written back.
    image.edit_group(1, |descriptor| put16(descriptor, 0x0C, le16(descriptor, 0x0C).wrapping_sub(77)));
    image.edit_superblock(|superblock| put32(superblock, 0x0C, le32(superblock, 0x0C) + 1_000));
    Ok(())
}
