// SPDX-License-Identifier: MIT OR Apache-2.0
//! The feature matrix: sound images with every feature and shape that the format knows.

use super::{After, Recipe};
use crate::contents::{Content, ORDINARY};

/// All recipes of the matrix.
pub fn all() -> Vec<Recipe> {
    [
        generations(),
        block_sizes(),
        inode_sizes(),
        groups(),
        checksums(),
        clusters(),
        in_inode(),
        directories(),
        maps(),
        protection(),
        journals(),
        growth(),
    ]
    .concat()
}

fn ordinary(name: &'static str, size_mib: u64, mke2fs: &'static str) -> Recipe {
    Recipe::new(name, size_mib, mke2fs).mounted(ORDINARY)
}

fn generations() -> Vec<Recipe> {
    vec![
        ordinary("ext2-defaults", 32, "-t ext2"),
        ordinary("ext3-4k", 32, "-t ext3 -b 4096"),
        ordinary("ext4-defaults", 64, "-t ext4"),
        ordinary("revision-0", 32, "-t ext2 -r 0"),
        Recipe::new("hurd", 32, "-t ext2 -o hurd").mounted(&[
            Content::Basic,
            Content::Entries(300),
            Content::HardLinks,
        ]),
        ordinary("ext3-made-ext4", 32, "-t ext3")
            .after(After::Tune2fs("-O extents,dir_nlink,extra_isize,huge_file")),
        ordinary("no-journal", 32, "-t ext4 -O ^has_journal"),
        ordinary("no-huge-file", 32, "-t ext4 -O ^huge_file"),
        ordinary("no-extra-isize", 32, "-t ext4 -O ^extra_isize"),
        ordinary("no-dir-nlink", 32, "-t ext4 -O ^dir_nlink"),
        ordinary("no-dir-index", 32, "-t ext4 -O ^dir_index"),
        ordinary("no-filetype", 32, "-t ext2 -O ^filetype"),
        ordinary("no-ext-attr", 32, "-t ext4 -O ^ext_attr"),
        ordinary("no-large-file", 32, "-t ext2 -O ^large_file"),
        ordinary("stable-inodes", 32, "-t ext4 -O stable_inodes"),
        ordinary("read-only", 32, "-t ext4").after(After::Tune2fs("-O read-only")),
        Recipe::new("empty", 16, "-t ext4"),
        Recipe { size: 64 << 10, ..Recipe::new("tiny", 0, "-t ext2 -N 16") },
        Recipe {
            size: 200 << 10,
            ..Recipe::new("tiny-with-file", 0, "-t ext4 -O ^has_journal").mounted(&[Content::Nested(2)])
        },
        Recipe { size: (20 << 20) + 3 * 1024, ..ordinary("odd-length", 0, "-t ext4 -b 1024") },
    ]
}

fn block_sizes() -> Vec<Recipe> {
    let large = &[
        Content::Basic,
        Content::Entries(600),
        Content::Nested(5),
        Content::OddNames,
        Content::HardLinks,
        Content::Symlinks,
        Content::Special,
        Content::Attributes,
    ];
    vec![
        ordinary("ext2-1k", 32, "-t ext2 -b 1024"),
        ordinary("ext3-1k", 32, "-t ext3 -b 1024"),
        ordinary("ext4-1k", 32, "-t ext4 -b 1024"),
        ordinary("ext4-2k", 32, "-t ext4 -b 2048"),
        ordinary("ext4-4k", 32, "-t ext4 -b 4096"),
        Recipe::new("ext4-8k", 64, "-t ext4 -b 8192 -O ^has_journal").copied(large),
        Recipe::new("ext4-16k-indexed", 64, "-t ext4 -b 16384 -J size=16")
            .copied(large)
            .after(After::Optimise),
        Recipe::new("ext2-32k", 64, "-t ext2 -b 32768").copied(large),
        Recipe::new("ext4-64k", 128, "-t ext4 -b 65536 -O ^has_journal").copied(large).after(After::Optimise),
        Recipe::new("ext4-64k-journal", 256, "-t ext4 -b 65536 -J size=64").copied(large),
    ]
}

fn inode_sizes() -> Vec<Recipe> {
    vec![
        ordinary("inodes-128", 32, "-t ext4 -I 128"),
        ordinary("inodes-512", 32, "-t ext4 -I 512"),
        ordinary("inodes-1024", 32, "-t ext4 -I 1024 -b 1024"),
        ordinary("inodes-4096", 64, "-t ext4 -b 4096 -I 4096 -N 2048"),
        ordinary("many-inodes", 32, "-t ext4 -i 1024 -b 1024"),
        ordinary("few-inodes", 64, "-t ext4 -N 3000"),
    ]
}

/// More than 2^32 blocks, with as little metadata as can be.
const BEYOND_32_BITS: &str = "-t ext4 -b 2048 -O sparse_super2,^resize_inode -i 67108864 -J size=4 -E packed_meta_blocks=1,num_backup_sb=1";

fn groups() -> Vec<Recipe> {
    vec![
        ordinary("no-sparse-super", 64, "-t ext4 -b 1024 -O ^sparse_super,^resize_inode"),
        ordinary("sparse-super2", 64, "-t ext4 -b 1024 -O sparse_super2,^resize_inode"),
        ordinary(
            "sparse-super2-one",
            64,
            "-t ext4 -b 1024 -O sparse_super2,^resize_inode -E num_backup_sb=1",
        ),
        ordinary(
            "sparse-super2-none",
            64,
            "-t ext4 -b 1024 -O sparse_super2,^resize_inode -E num_backup_sb=0",
        ),
        ordinary("meta-bg", 512, "-t ext4 -b 1024 -O meta_bg,^resize_inode"),
        ordinary("meta-bg-ext2", 512, "-t ext2 -b 1024 -O meta_bg,^resize_inode"),
        ordinary("no-64bit", 32, "-t ext4 -O ^64bit"),
        ordinary("64bit-1k", 32, "-t ext4 -b 1024 -O 64bit"),
        ordinary("no-flex-bg", 64, "-t ext4 -b 1024 -O ^flex_bg"),
        ordinary("flex-bg-2", 64, "-t ext4 -b 1024 -G 2"),
        ordinary("flex-bg-64", 128, "-t ext4 -b 1024 -G 64"),
        ordinary("packed-meta-blocks", 64, "-t ext4 -b 1024 -E packed_meta_blocks=1"),
        ordinary("many-groups", 64, "-t ext4 -b 1024 -g 512 -O ^resize_inode"),
        ordinary("lazy-itable-init", 256, "-t ext4 -b 1024 -E lazy_itable_init=1"),
        ordinary("eager-itable-init", 128, "-t ext4 -b 1024 -E lazy_itable_init=0"),
        Recipe {
            size: 9 << 40,
            ..Recipe::new("beyond-32-bits", 0, BEYOND_32_BITS).copied(&[Content::Basic])
        },
        Recipe { size: 200 << 30, ..ordinary("large-and-empty", 0, "-t ext4") },
    ]
}

fn checksums() -> Vec<Recipe> {
    vec![
        ordinary("uninit-bg", 64, "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg"),
        ordinary("no-checksums", 64, "-t ext4 -b 1024 -O ^metadata_csum,^uninit_bg"),
        ordinary("metadata-csum-32bit", 64, "-t ext4 -b 1024 -O metadata_csum,^64bit"),
        ordinary("metadata-csum-ext2", 32, "-t ext2 -O metadata_csum"),
        ordinary("metadata-csum-seed", 32, "-t ext4 -b 4096 -O metadata_csum_seed")
            .after(After::Tune2fs("-U 01234567-89ab-cdef-0123-456789abcdef")),
        ordinary("metadata-csum-later", 32, "-t ext4 -O ^metadata_csum")
            .after(After::Tune2fs("-O metadata_csum"))
            .after(After::Optimise),
    ]
}

fn clusters() -> Vec<Recipe> {
    let wanted = &[Content::Preallocated, Content::Punched];
    let bigalloc = |name, size_mib, mke2fs| {
        let contents = [ORDINARY, wanted].concat();
        Recipe::new(name, size_mib, mke2fs).mounted(&contents)
    };
    vec![
        bigalloc("bigalloc-16k", 128, "-t ext4 -b 4096 -O bigalloc -C 16384"),
        bigalloc("bigalloc-64k", 512, "-t ext4 -b 4096 -O bigalloc -C 65536"),
        bigalloc("bigalloc-1k-blocks", 128, "-t ext4 -b 1024 -O bigalloc -C 8192"),
        bigalloc("bigalloc-quota", 128, "-t ext4 -O bigalloc -C 16384").after(After::Tune2fs("-O quota")),
    ]
}

fn in_inode() -> Vec<Recipe> {
    vec![
        ordinary("inline-data", 32, "-t ext4 -b 4096 -O inline_data"),
        ordinary("inline-data-1k", 32, "-t ext4 -O inline_data -I 1024 -b 1024"),
        ordinary("inline-data-512", 32, "-t ext4 -O inline_data -I 512 -b 2048"),
        Recipe::new("ea-inode", 32, "-t ext4 -b 4096 -O ea_inode").mounted(&[
            Content::Attributes,
            Content::HugeAttributes,
            Content::Acls,
        ]),
        Recipe::new("ea-inode-quota", 32, "-t ext4 -b 1024 -O ea_inode -I 512")
            .mounted(&[Content::Attributes, Content::HugeAttributes, Content::Owners])
            .after(After::Tune2fs("-O quota"))
            .after(After::Optimise),
    ]
}

fn directories() -> Vec<Recipe> {
    vec![
        Recipe::new("hundred-thousand-entries", 128, "-t ext4 -b 4096 -N 120000")
            .mounted(&[Content::Entries(100_000)]),
        Recipe::new("deep-htree-1k", 64, "-t ext4 -b 1024 -N 30000")
            .mounted(&[Content::Entries(20_000), Content::LongNames(4_000)]),
        Recipe::new("three-level-htree", 128, "-t ext4 -b 1024 -O large_dir")
            .mounted(&[Content::LongNames(60_000)]),
        Recipe::new("linear-100-blocks", 32, "-t ext2 -b 1024 -O ^dir_index -N 8000")
            .mounted(&[Content::Entries(4_000)]),
        Recipe::new("hash-tea", 32, "-t ext4 -b 1024")
            .before(After::Tune2fs("-E hash_alg=tea"))
            .mounted(&[Content::Entries(2_000), Content::OddNames]),
        Recipe::new("hash-legacy", 32, "-t ext4 -b 1024")
            .before(After::Tune2fs("-E hash_alg=legacy"))
            .mounted(&[Content::Entries(2_000), Content::OddNames]),
        Recipe::new("more-than-65000-links", 512, "-t ext4 -b 1024 -N 80000")
            .mounted(&[Content::Subdirectories(66_000)]),
        Recipe::new("deeply-nested", 32, "-t ext4 -b 1024").mounted(&[Content::Nested(230)]),
        Recipe::new("rebuilt-by-e2fsck", 32, "-t ext4 -b 1024")
            .mounted(&[Content::Entries(3_000), Content::OddNames])
            .after(After::Optimise),
        casefolded("casefold-linear", "-t ext4 -b 1024 -O casefold -E encoding=utf8"),
        casefolded("casefold-indexed", "-t ext4 -b 1024 -O casefold -E encoding=utf8").after(After::Optimise),
        casefolded(
            "casefold-strict",
            "-t ext4 -b 1024 -O casefold -E encoding=utf8-12.1,encoding_flags=strict",
        )
        .after(After::Optimise),
    ]
}

/// This kernel may not know Unicode, so the names go in by debugfs.
fn casefolded(name: &'static str, mke2fs: &'static str) -> Recipe {
    let mut commands = "mkdir /folded\nsif /folded flags 0x40080000\ncd /folded\n".to_owned();
    for number in 0..400 {
        commands.push_str(&format!("mknod Name-{number}-ÄÖÜ-Straße p\n"));
    }
    commands.push_str("mknod ALLCAPS p\nmknod lower p\n");
    Recipe::new(name, 32, mke2fs).after(After::Debugfs(commands))
}

fn maps() -> Vec<Recipe> {
    let wanted = &[Content::Punched, Content::Preallocated, Content::Fragmented, Content::Sparse];
    vec![
        Recipe::new("extents-deep-1k", 64, "-t ext4 -b 1024").mounted(wanted),
        Recipe::new("extents-deep-1k-no-checksums", 64, "-t ext4 -b 1024 -O ^metadata_csum").mounted(wanted),
        Recipe::new("extents-4k", 128, "-t ext4 -b 4096").mounted(wanted),
        Recipe::new("indirect-1k", 64, "-t ext3 -b 1024").mounted(&[
            Content::Fragmented,
            Content::Sparse,
            Content::Reuse,
        ]),
        Recipe::new("indirect-4k", 64, "-t ext3 -b 4096").mounted(&[
            Content::Fragmented,
            Content::Sparse,
            Content::Reuse,
        ]),
        ordinary("extents-and-indirect", 64, "-t ext4 -O ^extents,^64bit")
            .after(After::Tune2fs("-O extents")),
    ]
}

/// Kernels without quota refuse the feature, so the ids are set by debugfs.
const PROJECT_IDS: &str =
    "sif /owners projid 77\nsif /owners/of-1000 projid 77\nsif /owners/of-1001 projid 4000000\n";

fn protection() -> Vec<Recipe> {
    let owned = [ORDINARY, &[Content::Owners]].concat();
    vec![
        Recipe::new("quota", 32, "-t ext4 -b 4096").mounted(&owned).after(After::Tune2fs("-O quota")),
        Recipe::new("quota-1k", 32, "-t ext4 -b 1024").mounted(&owned).after(After::Tune2fs("-O quota")),
        Recipe::new("quota-project", 32, "-t ext4 -b 4096")
            .mounted(&owned)
            .after(After::Tune2fs("-O project"))
            .after(After::Debugfs(PROJECT_IDS.to_owned()))
            .after(After::Tune2fs("-O quota -Q usrquota,grpquota,prjquota"))
            .after(After::Optimise)
            .after(After::Optimise),
        Recipe::new("quota-empty", 32, "-t ext4 -O quota"),
        ordinary("mmp", 32, "-t ext4 -O mmp -E mmp_update_interval=1"),
        Recipe::new("encrypt", 32, "-t ext4 -b 4096 -O encrypt")
            .mounted(&[Content::Encrypted, Content::Basic]),
        Recipe::new("encrypt-1k-inline", 32, "-t ext4 -b 1024 -O encrypt,inline_data")
            .mounted(&[Content::Encrypted, Content::Tiny]),
        ordinary("verity", 32, "-t ext4 -O verity"),
        // This kernel may not know verity, so the flag is set by debugfs.
        Recipe::new("verity-flag", 32, "-t ext4 -O verity")
            .after(After::Debugfs("write /dev/null sealed\nsif sealed flags 0x180000\n".to_owned())),
        Recipe::new("verity-tree", 32, "-t ext4 -b 4096 -O verity").after(After::Debugfs(sealed())),
        Recipe::new("shared-blocks", 32, "-t ext4").after(After::Debugfs(shared())),
        Recipe::new("shared-blocks-ext2", 32, "-t ext2 -b 1024").after(After::Debugfs(shared())),
        ordinary("dir-prealloc", 32, "-t ext3").after(After::Debugfs("feature dir_prealloc\n".to_owned())),
        ordinary("imagic-inodes", 32, "-t ext4").after(After::Debugfs("feature imagic_inodes\n".to_owned())),
    ]
}

/// A file of the host for debugfs to copy.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/image/matrix.rs");

/// A sealed file as a kernel with verity leaves it: behind the end of the data, from the next multiple of 64 KiB on, the hashes and
/// their descriptor. Here they are zeros: no checker of the format knows the hashes.
fn sealed() -> String {
    format!("write {SOURCE} sealed\nfallocate sealed 16 17\nsif sealed flags 0x180000\n")
}

/// Files with the same blocks, by copying their inodes: no kernel writes such file systems and mke2fs does not know the feature, `e2fsdroid` makes them.
fn shared() -> String {
    let mut script = format!("feature shared_blocks\nwrite {SOURCE} first\n");
    for name in ["second", "third"] {
        script.push_str(&format!("write /dev/null {name}\ncopy_inode first {name}\n"));
    }
    script
}

fn journals() -> Vec<Recipe> {
    vec![
        ordinary("journal-1k-blocks", 32, "-t ext4 -b 1024 -J size=1"),
        ordinary("journal-64m", 256, "-t ext4 -J size=64"),
        ordinary("journal-old-checksum", 32, "-t ext4 -O ^metadata_csum")
            .mounted_with("journal_checksum", ORDINARY),
        ordinary("journal-data", 32, "-t ext4").mounted_with("data=journal", ORDINARY),
        ordinary("fast-commit", 32, "-t ext4 -b 4096 -O fast_commit"),
        ordinary("journal-outside", 64, "-t ext4 -b 4096").journal_outside("-b 4096"),
        ordinary("journal-outside-1k", 64, "-t ext3 -b 1024").journal_outside("-b 1024"),
        ordinary("orphan-file", 32, "-t ext4 -b 4096 -O orphan_file"),
        ordinary("orphan-file-1k", 32, "-t ext4 -b 1024 -O orphan_file,metadata_csum"),
    ]
}

fn growth() -> Vec<Recipe> {
    vec![
        ordinary("room-to-grow", 64, "-t ext4 -b 1024 -E resize=4194304"),
        ordinary("no-resize-inode", 64, "-t ext4 -b 1024 -O ^resize_inode"),
        ordinary("grown", 32, "-t ext4 -b 1024").after(After::Resize("", 160 << 20)),
        ordinary("grown-ext2", 32, "-t ext2 -b 1024").after(After::Resize("", 300 << 20)),
        ordinary("shrunk", 160, "-t ext4 -b 1024").after(After::Resize("", 60 << 20)),
        ordinary("made-64bit", 64, "-t ext4 -b 1024 -O ^64bit").after(After::Resize("-b", 64 << 20)),
    ]
}
