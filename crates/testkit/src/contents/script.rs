// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents as commands for debugfs. No kernel has a part in it: names, numbers of inodes, blocks and times are the same every time and on
//! every machine, so that the same number of a case is the same damage everywhere.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Content;

/// Inodes that stay free until everything is in place, so that the contents lie in several groups: first and how many.
const SPREAD: (u32, u32) = (60, 90);

/// The commands for debugfs.
pub struct Script<'w> {
    workshop: &'w Path,
    sources: u32,
    folder: String,
    late: Vec<String>,
    /// Makes everything. e2fsck has to look at it then: it counts links, writes checksums and gives directories their index.
    pub make: String,
    /// Takes away again what leaves gaps.
    pub thin: String,
}

impl<'w> Script<'w> {
    /// The commands that put `contents` into an empty file system; files that they read are made in `workshop`.
    pub fn of(contents: &[Content], workshop: &'w Path) -> io::Result<Self> {
        let (first, count) = SPREAD;
        let mut script = Script {
            workshop,
            sources: 0,
            folder: String::new(),
            late: Vec::new(),
            make: format!("seti <{first}> {count}\n"),
            thin: String::new(),
        };
        contents.iter().try_for_each(|content| script.put(*content))?;
        script.make(&format!("freei <{first}> {count}"));
        // What lies in a directory first: its checksum is wrong then.
        script.make.extend(script.late.drain(..).rev());
        Ok(script)
    }

    fn put(&mut self, content: Content) -> io::Result<()> {
        match content {
            Content::Tiny => self.tiny(),
            Content::Entries(count) => self.entries(count),
            Content::LongNames(count) => self.long_names(count),
            Content::Nested(depth) => self.nested(depth),
            Content::Sparse => self.sparse(),
            Content::Fragmented => self.fragmented(),
            Content::Preallocated => self.preallocated(),
            Content::HardLinks => self.hard_links(),
            Content::Symlinks => self.symlinks(),
            Content::Special => self.special(),
            Content::Attributes => self.attributes(),
            Content::HugeAttributes => self.huge_attributes(),
            Content::Acls => self.acls(),
            Content::Owners => self.owners(),
            other => Err(io::Error::other(format!("{other:?} takes a kernel"))),
        }
    }

    fn make(&mut self, command: &str) {
        self.make.push_str(command);
        self.make.push('\n');
    }

    fn remove(&mut self, path: &str) {
        self.thin.push_str(&format!("rm {path}\n"));
    }

    /// Makes a directory and goes there.
    fn folder(&mut self, path: &str) {
        // It takes `/name` for a name where it is.
        self.make(&format!("cd /\nmkdir {path}\ncd {path}"));
        path.clone_into(&mut self.folder);
        self.generation(".");
    }

    /// No two neighbours have the same generation. As it is part of checksums that debugfs relies on, it comes at the end, and e2fsck
    /// writes these anew.
    fn generation(&mut self, name: &str) {
        let generation = 0x2026_1121_u32.wrapping_mul(self.make.len() as u32 | 1);
        self.late.push(format!("sif {}/{name} generation {generation}\n", self.folder));
    }

    fn source(&mut self, pieces: &[(u64, Vec<u8>)]) -> io::Result<PathBuf> {
        self.sources += 1;
        let path = self.workshop.join(format!("source-{}", self.sources));
        let file = File::create(&path)?;
        pieces.iter().try_for_each(|(offset, bytes)| file.write_all_at(bytes, *offset))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        Ok(path)
    }

    /// A file in the directory where we are: pieces, and holes between them.
    fn file(&mut self, name: &str, pieces: &[(u64, Vec<u8>)]) -> io::Result<()> {
        let source = self.source(pieces)?;
        self.make(&format!("write {} {name}", source.display()));
        self.generation(name);
        Ok(())
    }

    fn text(&mut self, name: &str, len: usize) -> io::Result<()> {
        self.file(name, &[(0, text(name, len))])
    }

    /// Sets an attribute of something in the directory where we are.
    fn attribute(&mut self, file: &str, name: &str, value: &[u8]) -> io::Result<()> {
        let source = self.source(&[(0, value.to_vec())])?;
        self.make(&format!("ea_set -f {} {file} {name}", source.display()));
        Ok(())
    }

    /// Links do not make a directory longer by themselves. Files between its blocks break it into pieces.
    fn room_for(&mut self, bytes: usize, beside: &str) -> io::Result<()> {
        for block in 0..bytes / 1000 + 1 {
            self.make("expand_dir .");
            if block % 8 == 3 {
                self.text(&format!("{beside}-{block}"), 1000)?;
            }
        }
        Ok(())
    }

    fn tiny(&mut self) -> io::Result<()> {
        self.folder("/tiny");
        for size in [1, 20, 59, 60, 61, 100, 130, 150, 200, 400, 800] {
            self.text(&format!("tiny-{size}"), size)?;
        }
        for entries in 0..12 {
            self.folder(&format!("/tiny/with-{entries}-entries"));
            (0..entries).try_for_each(|entry| self.text(&entry.to_string(), 0))?;
            if entries > 4 {
                self.remove(&format!("/tiny/with-{entries}-entries/1"));
                self.remove(&format!("/tiny/with-{entries}-entries/3"));
            }
        }
        Ok(())
    }

    fn entries(&mut self, count: u32) -> io::Result<()> {
        self.folder("/entries");
        (0..count).try_for_each(|number| self.text(&format!("entry-{number}"), 0))?;
        (0..count).step_by(10).for_each(|number| self.remove(&format!("/entries/entry-{number}")));
        Ok(())
    }

    fn long_names(&mut self, count: u32) -> io::Result<()> {
        self.folder("/long-names");
        self.room_for(count as usize * 300, "beside")?;
        self.text("0", 0)?;
        for number in 0..count {
            let name = format!("{number:-<width$}", width = 200 + (number % 56) as usize);
            self.make(&format!("ln 0 {name}"));
            if number % 9 == 4 {
                // Not `rm`: the others need the file.
                self.thin.push_str(&format!("unlink /long-names/{name}\n"));
            }
        }
        let left = 1 + (0..count).filter(|number| number % 9 != 4).count();
        self.thin.push_str(&format!("sif /long-names/0 links_count {left}\n"));
        Ok(())
    }

    fn nested(&mut self, depth: u32) -> io::Result<()> {
        let mut path = "/nested".to_owned();
        self.folder(&path);
        for level in 0..depth {
            path += &format!("/level-{level}");
            self.folder(&path);
        }
        self.text("at-the-bottom", 6)
    }

    fn sparse(&mut self) -> io::Result<()> {
        self.folder("/sparse");
        for (name, offsets) in [
            ("end", &[0, 1 << 20][..]),
            ("double", &[5_000, 300 << 10, 3 << 20, 60 << 20]),
            ("triple", &[70 << 20, 200 << 20, 1500 << 20]),
            ("hole-at-start", &[9 << 20]),
        ] {
            let pieces: Vec<_> =
                offsets.iter().map(|offset| (*offset, text(&format!("{name}@{offset}"), 12))).collect();
            self.file(name, &pieces)?;
        }
        self.text("nothing-but-a-hole", 0)?;
        self.make("sif nothing-but-a-hole size 1073741824");
        Ok(())
    }

    /// Two files that lie in the gaps of each other, and one with every other block missing.
    fn fragmented(&mut self) -> io::Result<()> {
        self.folder("/fragmented");
        self.text("two", 320 << 10)?;
        (0..40).for_each(|gap| self.make(&format!("punch two {} {}", gap * 8, gap * 8 + 3)));
        self.text("one", 160 << 10)?;
        let pieces: Vec<_> =
            (0..400).map(|block| (block * 8192, text(&format!("block {block}"), 10))).collect();
        self.file("every-other-block", &pieces)
    }

    /// Blocks that are not written yet, inside and behind the end.
    fn preallocated(&mut self) -> io::Result<()> {
        self.folder("/preallocated");
        self.file("unwritten", &[(20 << 10, text("written in the middle", 3000))])?;
        self.make("fallocate unwritten 0 40");
        self.text("behind-the-end", 700)?;
        self.make("fallocate behind-the-end 1 30");
        Ok(())
    }

    fn hard_links(&mut self) -> io::Result<()> {
        self.folder("/hard-links");
        self.text("pair", 4)?;
        self.text("many", 4)?;
        self.folder("/hard-links/other");
        self.room_for(201 * 24, "beside")?;
        self.make("ln ../pair pair-0");
        (0..200).for_each(|name| self.make(&format!("ln ../many many-{name}")));
        Ok(())
    }

    fn symlinks(&mut self) -> io::Result<()> {
        self.folder("/symlinks");
        for length in [1, 10, 58, 59, 60, 61, 100, 150, 151, 200, 900, 1022] {
            let name = format!("to-{length}");
            self.make(&format!("symlink {name} {}", "target-".repeat(150).get(..length).unwrap_or_default()));
            self.generation(&name);
        }
        Ok(())
    }

    fn special(&mut self) -> io::Result<()> {
        self.folder("/special");
        self.make("mknod pipe p\nmknod character c 1 3\nmknod block b 7 200");
        // What debugfs cannot make by itself: e2fsck puts the types of the entries right.
        self.make("mknod socket p\nsif socket mode 0140600");
        self.make("mknod large-numbers c 1 3\nsif large-numbers block[0] 0");
        let number = 300_u32 << 8 | 70_000 & 0xFF | (70_000 & !0xFF) << 12;
        self.make(&format!("sif large-numbers block[1] {number}"));
        let names = ["pipe", "character", "block", "socket", "large-numbers"];
        names.iter().for_each(|name| self.generation(name));
        Ok(())
    }

    /// From one small value in the inode to a full block; ten files share one block.
    fn attributes(&mut self) -> io::Result<()> {
        self.folder("/attributes");
        for (name, count, length) in
            [("one", 1, 3), ("empty", 1, 0), ("some", 4, 20), ("block", 3, 200), ("many", 20, 10)]
        {
            self.text(name, name.len())?;
            for number in 0..count {
                self.attribute(name, &format!("user.attribute-{number}"), &text(name, length))?;
            }
        }
        self.text("shared-0", 0)?;
        self.attribute("shared-0", "user.shared", &text("shared", 500))?;
        self.attribute("shared-0", "trusted.shared", &text("trusted", 100))?;
        (1..10).try_for_each(|number| self.twin("shared-0", &format!("shared-{number}")))?;
        self.make("mkdir directory");
        self.attribute("directory", "user.of-a-directory", &text("directory", 300))?;
        self.make("symlink link nowhere");
        self.attribute("many", "user.attribute-3", b"replaced by something longer")?;
        self.make("ea_rm many user.attribute-5");
        Ok(())
    }

    /// An empty file with the attributes of another one; e2fsck counts how many share their block or inode.
    fn twin(&mut self, of: &str, name: &str) -> io::Result<()> {
        self.text(name, 0)?;
        self.make(&format!("copy_inode {of} {name}"));
        Ok(())
    }

    fn huge_attributes(&mut self) -> io::Result<()> {
        self.folder("/huge-attributes");
        for (name, length) in [("five", 5_000), ("twenty", 20_000), ("sixty", 60_000)] {
            self.text(name, if name == "twenty" { 0 } else { name.len() })?;
            self.attribute(name, "user.huge", &text(name, length))?;
            self.attribute(name, "user.small", b"beside it")?;
        }
        self.twin("twenty", "twenty-again")
    }

    /// Access and default lists, in the kernel's version 2 form: tag, permissions, id.
    fn acls(&mut self) -> io::Result<()> {
        let list = super::special::access_list();
        self.folder("/acls");
        for number in 0..5 {
            let name = format!("file-{number}");
            self.text(&name, 11)?;
            self.attribute(&name, "system.posix_acl_access", &list)?;
        }
        self.make("mkdir inherits");
        self.attribute("inherits", "system.posix_acl_access", &list)?;
        self.attribute("inherits", "system.posix_acl_default", &list)?;
        self.attribute(".", "system.posix_acl_default", &list)
    }

    /// Files of users and groups with small and large numbers.
    fn owners(&mut self) -> io::Result<()> {
        self.folder("/owners");
        for owner in [1_u32, 2, 1000, 1001, 65_534, 70_000, 4_000_000_000] {
            let name = format!("of-{owner}");
            self.text(&name, (owner % 50_000) as usize)?;
            self.make(&format!("sif {name} uid {owner}\nsif {name} gid {}", owner / 2));
        }
        Ok(())
    }
}

/// Text that tells every block of every file from every other.
fn text(name: &str, len: usize) -> Vec<u8> {
    let lines = (0..).flat_map(|line: u32| format!("{name} {line}\n").into_bytes());
    lines.take(len).collect()
}
