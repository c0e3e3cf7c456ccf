// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmark images: what they are, and how they are made once and kept outside the repository.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fsmend_testkit::host::{LoopMount, find_program, is_root, run};

use crate::bench::{aged, fragmented, populate};

/// One benchmark image.
pub struct Image {
    /// Name of the file (without `.img`) and of the row in the report.
    pub name: &'static str,
    /// What it holds, in words.
    pub what: &'static str,
    size: u64,
    kind: &'static str,
    /// Bytes per inode (`mke2fs -i`). Only the ext3 image deviates from the default: without uninitialised groups, both
    /// checkers would read gigabytes of unused inode tables, which is not what it is for.
    inode_ratio: u32,
    fill: Fill,
    /// What is wanted of it.
    pub targets: Targets,
    /// Made and measured only when it is asked for by name: it takes many minutes, or only `bench repair` wants it.
    pub on_demand: bool,
}

/// How many times faster than e2fsck a check is to be.
#[derive(Clone, Copy)]
pub struct Targets {
    /// With everything in the page cache.
    pub warm: f64,
    /// With nothing in it.
    pub cold: f64,
}

enum Fill {
    Tree(populate::Tree, populate::Files),
    Fragmented(fragmented::Plan),
    Aged(aged::Plan),
}

/// Reserved inodes and lost+found.
const INODES_OF_MKE2FS: u32 = 11;
/// Inodes in use in each of the tree images.
const INODES_IN_USE: u32 = 1_000_026;
/// Free space that has to be there before we start; less for images that are smaller.
const SPACE_NEEDED: u64 = 14 << 30;

/// All benchmark images.
pub fn all() -> Vec<Image> {
    let tree = |name, what, fan: &[u32], cold| Image {
        name,
        what,
        size: 40 << 30,
        kind: "ext4",
        inode_ratio: 16384,
        fill: Fill::Tree(
            populate::Tree { fan: fan.to_vec(), entries: INODES_IN_USE - INODES_OF_MKE2FS },
            populate::Files::Written,
        ),
        targets: Targets { warm: 15.0, cold },
        on_demand: false,
    };
    let fragmented = Targets { warm: 10.0, cold: 4.5 };
    vec![
        tree("files", "1 000 026 inodes in use, 1 % directories, ext4 defaults, 40 GB", &[100, 99], 6.0),
        tree(
            "indexed",
            "1 000 026 inodes in use, directories of 1 000 names with indexes, ext4 defaults, 40 GB",
            &[10, 99],
            6.0,
        ),
        tree(
            "dirs25",
            "1 000 026 inodes in use, 25 % directories, ext4 defaults, 40 GB",
            &[100, 50, 49],
            4.5,
        ),
        tree(
            "dirs50",
            "1 000 026 inodes in use, 50 % directories, ext4 defaults, 40 GB",
            &[100, 50, 99],
            4.5,
        ),
        Image {
            name: "fragmented",
            what: "ext3, 4 KiB blocks, 320 GB, fragmented files with more than 100 000 indirect blocks",
            size: 320 << 30,
            kind: "ext3",
            inode_ratio: 1 << 20,
            fill: Fill::Fragmented(fragmented::Plan { files: 64_000, seed: 3 }),
            targets: fragmented,
            on_demand: false,
        },
        Image {
            name: "aged",
            what: "ext4 defaults, 160 GB, free space in holes of 1 to 12 blocks and files that fill them: extent trees of two levels",
            size: 160 << 30,
            kind: "ext4",
            inode_ratio: 1 << 18,
            fill: Fill::Aged(aged::Plan { old_files: 24, old_blocks: 1 << 20, new_files: 16_000, seed: 5 }),
            targets: fragmented,
            on_demand: false,
        },
        Image {
            name: "files10m",
            what: "10 000 026 inodes in use, 1 % directories, empty files, ext4 defaults, 200 GB",
            size: 200 << 30,
            kind: "ext4",
            inode_ratio: 16384,
            fill: Fill::Tree(
                populate::Tree { fan: vec![1000, 99], entries: INODES_IN_USE * 10 - 234 - INODES_OF_MKE2FS },
                populate::Files::Empty,
            ),
            targets: Targets { warm: 15.0, cold: 6.0 },
            on_demand: true,
        },
        Image {
            name: "files50k",
            what: "50 011 inodes in use, 1 % directories, ext4 defaults, 1 GB",
            size: 1 << 30,
            kind: "ext4",
            inode_ratio: 16384,
            fill: Fill::Tree(populate::Tree { fan: vec![50, 9], entries: 50_000 }, populate::Files::Written),
            targets: Targets { warm: 15.0, cold: 6.0 },
            on_demand: true,
        },
    ]
}

/// Makes the images that are missing in `folder`, or only that called `only`; returns where they are.
pub fn make_all(folder: &Path, only: Option<&str>) -> io::Result<Vec<(Image, PathBuf)>> {
    fs::create_dir_all(folder)?;
    let is_wanted = |image: &Image| only.map_or(!image.on_demand, |name| name == image.name);
    let made = |image: Image| make_missing(folder, &image).map(|path| (image, path));
    all().into_iter().filter(is_wanted).map(made).collect()
}

fn make_missing(folder: &Path, image: &Image) -> io::Result<PathBuf> {
    let path = folder.join(format!("{}.img", image.name));
    if !path.exists() {
        check_space(folder, image.size.min(SPACE_NEEDED))?;
        let start = Instant::now();
        println!("making {} ({})", path.display(), image.what);
        make(image, &path)?;
        println!("made {} in {:.0} s", path.display(), start.elapsed().as_secs_f64());
    }
    Ok(path)
}

/// The tree of `image` in XFS, where that can be made: the same names, files of one block that is allocated but not written.
pub fn in_xfs(folder: &Path, image: &Image) -> io::Result<Option<PathBuf>> {
    let Fill::Tree(tree, _) = &image.fill else { return Ok(None) };
    if image.on_demand || find_program("mkfs.xfs").is_none() {
        return Ok(None);
    }
    let path = folder.join(format!("{}-xfs.img", image.name));
    if !path.exists() {
        println!("making {} (the same tree in XFS)", path.display());
        let part = path.with_extension("part");
        File::create(&part)?.set_len(image.size)?;
        run("mkfs.xfs", ["-q".as_ref(), "-f".as_ref(), part.as_os_str()])?;
        let mount = LoopMount::new(&part, &path.with_extension("mnt"), "xfs", "noatime,nodiscard")?;
        populate::fill(mount.path(), tree, populate::Files::Allocated)?;
        mount.unmount()?;
        run("xfs_repair", ["-n".as_ref(), part.as_os_str()])?;
        fs::rename(&part, &path)?;
    }
    Ok(Some(path))
}

/// Where the image called `name` lies in `folder`; it is made if it is not there.
pub fn existing(folder: &Path, name: &str) -> io::Result<PathBuf> {
    if !all().iter().any(|image| image.name == name) {
        return Err(io::Error::other(format!("there is no benchmark image {name}")));
    }
    let path = folder.join(format!("{name}.img"));
    if !path.exists() {
        make_all(folder, Some(name))?;
    }
    Ok(path)
}

fn check_space(folder: &Path, needed: u64) -> io::Result<()> {
    let space = rustix::fs::statvfs(folder)?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < needed {
        let folder = folder.display();
        return Err(io::Error::other(format!(
            "{folder} has {free} bytes free, and an image may need {needed}; name another folder with --cache"
        )));
    }
    Ok(())
}

/// Makes one image beside its final place, and moves it there once e2fsck has called it sound.
fn make(image: &Image, path: &Path) -> io::Result<()> {
    if !is_root() {
        return Err(io::Error::other("making benchmark images needs loop mounts: run this as root"));
    }
    let part = path.with_extension("part");
    File::create(&part)?.set_len(image.size)?;
    let ratio = image.inode_ratio.to_string();
    let mke2fs: [&std::ffi::OsStr; 9] = [
        "-q".as_ref(),
        "-F".as_ref(),
        "-t".as_ref(),
        image.kind.as_ref(),
        "-i".as_ref(),
        ratio.as_ref(),
        "-E".as_ref(),
        "lazy_itable_init=1,lazy_journal_init=1".as_ref(),
        part.as_ref(),
    ];
    run("mke2fs", mke2fs)?;
    let mount =
        LoopMount::new(&part, &path.with_extension("mnt"), image.kind, "noatime,nodiscard,noinit_itable")
            .or_else(|_| LoopMount::new(&part, &path.with_extension("mnt"), image.kind, "noatime"))?;
    match &image.fill {
        Fill::Tree(tree, files) => populate::fill(mount.path(), tree, *files)?,
        Fill::Fragmented(plan) => populate::fill(mount.path(), &plan.tree(), populate::Files::Empty)?,
        Fill::Aged(plan) => aged::fill(mount.path(), plan)?,
    }
    mount.unmount()?;
    if let Fill::Fragmented(plan) = &image.fill {
        let indirect = fragmented::map_files(&part, plan)?;
        println!("{indirect} indirect blocks");
    }
    run("e2fsck", ["-fn".as_ref(), part.as_os_str()])?;
    fs::rename(&part, path)
}
