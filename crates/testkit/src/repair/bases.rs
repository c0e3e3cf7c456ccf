// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small sound images of every feature set, to be damaged thousands of times. Their order is part of the numbers of cases: new ones go
//! to the end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::image::Image;
use super::known::Known;
use super::mount::mount_and_read;
use super::subject::E2fsck;
use super::tree::Tree;
use crate::contents::Content;
use crate::damage::Survey;
use crate::image::{After, Built, Recipe, build, matrix};

/// A base and what is known about it.
pub struct Base {
    /// Name of its recipe.
    pub name: &'static str,
    /// Image and structures.
    pub survey: Survey,
    /// What is in it.
    pub tree: Tree,
    /// Seconds since the epoch: a while after it was made.
    pub now: u64,
    mountable: OnceLock<bool>,
    /// What has been found out about repaired images of it.
    pub known: Known,
    /// Whether e2fsck can be asked to repair it (with multiple-mount protection it waits for many seconds).
    pub reference: bool,
}

impl Base {
    /// Whether this kernel mounts the sound image, reads all of it and writes to it.
    pub fn is_mountable(&'static self) -> bool {
        let e2fsck = E2fsck { now: self.now };
        let tried =
            || mount_and_read(&Image::sound(&self.survey.image), &e2fsck).is_ok_and(|result| result.is_ok());
        *self.mountable.get_or_init(tried)
    }
}

/// What fits into a few mebibytes.
const FEW: &[Content] = &[
    Content::Attributes,
    Content::Acls,
    Content::Tiny,
    Content::Entries(50),
    Content::LongNames(180),
    Content::Nested(4),
    Content::Sparse,
    Content::Fragmented,
    Content::HardLinks,
    Content::Symlinks,
    Content::Special,
];

/// The same for the first revision, which has no attributes.
const PLAIN: &[Content] = FEW.split_at(2).1;

/// All recipes.
pub fn recipes() -> Vec<Recipe> {
    let few = |name, size, mke2fs| Recipe::new(name, size, mke2fs).written(FEW);
    let also =
        |name, size, mke2fs, more: &[Content]| Recipe::new(name, size, mke2fs).written(&[FEW, more].concat());
    vec![
        few("repair-ext2", 6, "-t ext2 -b 1024 -g 1024 -N 576"),
        few("repair-ext3", 8, "-t ext3 -b 1024 -g 2048 -J size=1 -N 512"),
        few("repair-ext4", 8, "-t ext4 -b 1024 -g 2048 -J size=1 -N 512"),
        few("repair-ext4-4k", 16, "-t ext4 -b 4096 -J size=4 -N 512"),
        few(
            "repair-uninit",
            8,
            "-t ext4 -b 1024 -g 2048 -J size=1 -N 512 -O ^metadata_csum,uninit_bg,^64bit",
        ),
        also(
            "repair-bigalloc",
            16,
            "-t ext4 -b 1024 -C 4096 -J size=1 -N 512 -O bigalloc",
            &[Content::Owners],
        )
        .after(After::Tune2fs("-O quota")),
        few("repair-inline", 8, "-t ext4 -b 1024 -I 512 -J size=1 -N 512 -O inline_data"),
        also("repair-quota", 8, "-t ext4 -b 1024 -g 2048 -J size=1 -N 512", &[Content::Owners])
            .after(After::Tune2fs("-O project"))
            .after(After::Tune2fs("-O quota -Q usrquota,grpquota,prjquota"))
            .after(After::Optimise)
            .after(After::Optimise),
        also(
            "repair-ea-inode",
            8,
            "-t ext4 -b 1024 -J size=1 -N 512 -O ea_inode",
            &[Content::HugeAttributes],
        ),
        few("repair-orphan-file", 8, "-t ext4 -b 1024 -J size=1 -N 512 -O orphan_file,metadata_csum_seed"),
        folded(),
        few(
            "repair-sparse2",
            6,
            "-t ext4 -b 1024 -g 1024 -N 576 -O sparse_super2,large_dir,^resize_inode,^flex_bg,^has_journal",
        ),
        few("repair-dirty", 8, "-t ext4 -b 1024 -g 2048 -J size=1 -N 512")
            .after(After::Debugfs(TRANSACTION.to_owned())),
        Recipe::new("repair-old", 6, "-t ext2 -r 0 -b 1024 -g 1024 -N 576").written(PLAIN),
        // Not from the start: each of the programs would wait for seconds.
        few("repair-mmp", 8, "-t ext4 -b 1024 -g 2048 -J size=1 -N 512")
            .after(After::Tune2fs("-O mmp -E mmp_update_interval=1")),
        Recipe::new("repair-deep", 8, "-t ext4 -b 1024 -J size=1 -N 512").written(&[
            Content::LongNames(1000),
            Content::Entries(200),
            Content::Attributes,
            Content::Preallocated,
        ]),
    ]
}

/// A transaction that waits in the journal: a block in free space, and one that is taken back.
const TRANSACTION: &str = "jo\njw -b 8100,8101 /dev/zero\njw -r 8101\njc\n";

fn folded() -> Recipe {
    let mut commands = "mkdir /folded\nsif /folded flags 0x40080000\ncd /folded\n".to_owned();
    for number in 0..150 {
        commands.push_str(&format!("mknod Name-{number}-ÄÖÜ-Straße p\n"));
    }
    Recipe::new("repair-casefold", 6, "-t ext4 -b 1024 -J size=1 -N 512 -O casefold -E encoding=utf8")
        .written(&[])
        .after(After::Debugfs(commands))
        .after(After::Optimise)
}

/// How many bases there are.
pub fn count() -> usize {
    recipes().len()
}

/// The first number of a large base.
pub const LARGE: usize = 128;

/// Images for the block fuzzer and for the clock: too large to be damaged thousands of times.
pub fn large_recipes() -> Vec<Recipe> {
    let names = ["ext4-defaults", "ext3-1k", "deep-htree-1k", "indirect-4k", "hundred-thousand-entries"];
    let all = matrix::all();
    names.iter().filter_map(|name| all.iter().find(|recipe| recipe.name == *name).cloned()).collect()
}

/// The base with this number; the inner error says why this machine cannot make it.
pub fn base(number: usize) -> io::Result<Result<&'static Base, String>> {
    static BASES: Mutex<BTreeMap<usize, Result<&'static Base, String>>> = Mutex::new(BTreeMap::new());
    let mut bases = BASES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = bases.get(&number) {
        return Ok(known.clone());
    }
    let recipes = if number < LARGE { recipes() } else { large_recipes() };
    let Some(recipe) = recipes.into_iter().nth(number % LARGE) else {
        return Err(io::Error::other(format!("there is no base {number}")));
    };
    let made = match build(&recipe)? {
        Built::Skipped(reason) => Err(reason),
        // Kept until the process ends, as every case of it needs it.
        Built::Image(path) => Ok(&*Box::leak(Box::new(surveyed(&recipe, fs::read(path)?)?))),
    };
    bases.insert(number, made.clone());
    Ok(made)
}

fn surveyed(recipe: &Recipe, image: Vec<u8>) -> io::Result<Base> {
    let useless = || io::Error::other(format!("{} cannot be surveyed", recipe.name));
    let tree = Tree::of(&image).ok_or_else(useless)?;
    let written = u64::from(super::bytes::u32_at(&image, 1024 + 0x30));
    let survey = Survey::of_bytes(image).ok_or_else(useless)?;
    let has_mmp = survey.structures.iter().any(|structure| structure.kind == "mmp");
    Ok(Base {
        name: recipe.name,
        survey,
        tree,
        now: written + 3600,
        mountable: OnceLock::new(),
        known: Known::default(),
        reference: !has_mmp,
    })
}
