// SPDX-License-Identifier: MIT OR Apache-2.0
//! How an image is made.

use crate::contents::Content;

/// One image: its size, the options of `mke2fs`, what goes into it and what is done to it.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Name in reports, and start of the file name.
    pub name: &'static str,
    /// Size of the image file in bytes.
    pub size: u64,
    /// Arguments of `mke2fs`, before the image.
    pub mke2fs: &'static str,
    /// Whether the journal lies on a device of its own, and the arguments of the `mke2fs` that makes that.
    pub journal: Option<&'static str>,
    /// What is done to the empty file system.
    pub before: Vec<After>,
    /// How it is filled, and with what.
    pub fill: Fill,
    /// What is done at the end.
    pub after: Vec<After>,
}

/// How an image is filled.
#[derive(Clone, Debug)]
pub enum Fill {
    /// Not at all.
    Nothing,
    /// Through the kernel, on a loop mount.
    Mount {
        /// File system type for `mount -t`.
        kind: &'static str,
        /// Further mount options.
        options: &'static str,
        /// What to put in.
        contents: Vec<Content>,
    },
    /// By `mke2fs -d`, from a folder of the host: for what this kernel cannot mount.
    Copy(Vec<Content>),
    /// By debugfs and e2fsck at a fixed time: the same bytes every time, and on every machine with the same e2fsprogs.
    Written(Vec<Content>),
}

/// Something that is done to an image while it is not mounted.
#[derive(Clone, Debug)]
pub enum After {
    /// `tune2fs` with these arguments.
    Tune2fs(&'static str),
    /// `resize2fs` with these arguments, to this many bytes.
    Resize(&'static str, u64),
    /// `e2fsck -D`, which packs directories and gives them an index.
    Optimise,
    /// Commands for `debugfs -w`.
    Debugfs(String),
}

impl Recipe {
    /// A recipe that makes an empty file system.
    pub fn new(name: &'static str, size_mib: u64, mke2fs: &'static str) -> Self {
        Recipe {
            name,
            size: size_mib << 20,
            mke2fs,
            journal: None,
            before: Vec::new(),
            fill: Fill::Nothing,
            after: Vec::new(),
        }
    }

    /// Filled through the kernel's ext4 driver, which knows all three formats.
    pub fn mounted(self, contents: &[Content]) -> Self {
        self.mounted_with("", contents)
    }

    /// Filled through the kernel with mount options.
    pub fn mounted_with(mut self, options: &'static str, contents: &[Content]) -> Self {
        self.fill = Fill::Mount { kind: "ext4", options, contents: contents.to_vec() };
        self
    }

    /// Filled by `mke2fs -d`.
    pub fn copied(mut self, contents: &[Content]) -> Self {
        self.fill = Fill::Copy(contents.to_vec());
        self
    }

    /// With its journal on a device of its own, which `mke2fs` makes with these arguments; see [`super::journal_of`].
    pub fn journal_outside(mut self, mke2fs: &'static str) -> Self {
        self.journal = Some(mke2fs);
        self
    }

    /// Filled by debugfs, to the same bytes every time. The steps that follow happen at the same time of the clock, too.
    pub fn written(mut self, contents: &[Content]) -> Self {
        self.fill = Fill::Written(contents.to_vec());
        self
    }

    /// With a step before it is filled.
    pub fn before(mut self, step: After) -> Self {
        self.before.push(step);
        self
    }

    /// With a step after it is filled.
    pub fn after(mut self, step: After) -> Self {
        self.after.push(step);
        self
    }

    /// What it is filled with.
    pub fn contents(&self) -> &[Content] {
        match &self.fill {
            Fill::Nothing => &[],
            Fill::Mount { contents, .. } | Fill::Copy(contents) | Fill::Written(contents) => contents,
        }
    }
}
