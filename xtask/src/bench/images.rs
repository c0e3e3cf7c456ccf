//! The benchmark images: what they are, and how they are made once and kept outside the repository.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fsmend_testkit::host::{LoopMount, is_root, run};

use crate::bench::{fragmented, populate};

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
}

enum Fill {
    Tree(populate::Tree),
    Fragmented(fragmented::Plan),
}

/// Reserved inodes and lost+found.
const INODES_OF_MKE2FS: u32 = 11;
/// Inodes in use in each of the tree images.
const INODES_IN_USE: u32 = 1_000_026;
/// Free space that has to be there before we start.
const SPACE_NEEDED: u64 = 14 << 30;

/// All benchmark images.
pub fn all() -> Vec<Image> {
    let tree = |name, what, fan: &[u32]| Image {
        name,
        what,
        size: 40 << 30,
        kind: "ext4",
        inode_ratio: 16384,
        fill: Fill::Tree(populate::Tree { fan: fan.to_vec(), entries: INODES_IN_USE - INODES_OF_MKE2FS }),
    };
    vec![
        tree("files", "1 000 026 inodes in use, 1 % directories, ext4 defaults, 40 GB", &[100, 99]),
        tree("dirs25", "1 000 026 inodes in use, 25 % directories, ext4 defaults, 40 GB", &[100, 50, 49]),
        tree("dirs50", "1 000 026 inodes in use, 50 % directories, ext4 defaults, 40 GB", &[100, 50, 99]),
        Image {
            name: "fragmented",
            what: "ext3, 4 KiB blocks, 320 GB, fragmented files with more than 100 000 indirect blocks",
            size: 320 << 30,
            kind: "ext3",
            inode_ratio: 1 << 20,
            fill: Fill::Fragmented(fragmented::Plan { files: 64_000, seed: 3 }),
        },
    ]
}

/// Makes the images that are missing in `folder`; returns where they are.
pub fn make_all(folder: &Path) -> io::Result<Vec<(Image, PathBuf)>> {
    fs::create_dir_all(folder)?;
    let mut made = Vec::new();
    for image in all() {
        let path = folder.join(format!("{}.img", image.name));
        if !path.exists() {
            check_space(folder)?;
            let start = Instant::now();
            println!("making {} ({})", path.display(), image.what);
            make(&image, &path)?;
            println!("made {} in {:.0} s", path.display(), start.elapsed().as_secs_f64());
        }
        made.push((image, path));
    }
    Ok(made)
}

/// Where the image called `name` lies in `folder`; all of them are made if it is not there.
pub fn existing(folder: &Path, name: &str) -> io::Result<PathBuf> {
    if !all().iter().any(|image| image.name == name) {
        return Err(io::Error::other(format!("there is no benchmark image {name}")));
    }
    let path = folder.join(format!("{name}.img"));
    if !path.exists() {
        make_all(folder)?;
    }
    Ok(path)
}

fn check_space(folder: &Path) -> io::Result<()> {
    let space = rustix::fs::statvfs(folder)?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < SPACE_NEEDED {
        let folder = folder.display();
        return Err(io::Error::other(format!(
            "{folder} has {free} bytes free, the images may need {SPACE_NEEDED}; name another folder with --cache"
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
        Fill::Tree(tree) => populate::fill(mount.path(), tree, true)?,
        Fill::Fragmented(plan) => populate::fill(mount.path(), &plan.tree(), false)?,
    }
    mount.unmount()?;
    if let Fill::Fragmented(plan) = &image.fill {
        let indirect = fragmented::map_files(&part, plan)?;
        println!("{indirect} indirect blocks");
    }
    run("e2fsck", ["-fn".as_ref(), part.as_os_str()])?;
    fs::rename(&part, path)
}
