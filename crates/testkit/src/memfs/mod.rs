// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system in memory, as simple as POSIX lets it be: the model that drivers are compared with, and something to mount where no driver is
//! under test. It takes limits of a format, such as more than 32 000 links.

mod names;
mod sparse;

use std::collections::BTreeMap;

use fsmend_base::InodeNo;
use fsmend_vfs::{
    Allocation, AttributeWrite, Attributes, Caller, DeviceNumber, DirEntry, Errno, Extent, FileKind,
    FileSystem, FileSystemSpace, NewFile, NewKind, Permissions, RenameFlags, Result, SetAttributes, SetTime,
    Time, Visit,
};

use sparse::{PAGE, Sparse};

/// What the format cannot do beyond. The default is ext4's with blocks of 4 KiB.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Blocks of 4 KiB for everything.
    pub blocks: u64,
    /// Inodes.
    pub inodes: u64,
    /// Names of one file.
    pub file_links_max: u32,
    /// Names of one directory, its own and its children's dots among them; [`None`] where it stops to be counted (and is 1) instead.
    pub dir_links_max: Option<u32>,
    /// Bytes of a file.
    pub size_max: u64,
    /// Bytes of a symbolic link's target.
    pub target_max: usize,
    /// Bytes of one attribute's value.
    pub value_max: usize,
    /// Bytes of all attributes of an inode, names and values.
    pub values_max: usize,
    /// Whether blocks can be had without being written.
    pub unwritten: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            blocks: 1 << 20,
            inodes: 1 << 16,
            file_links_max: 65_000,
            dir_links_max: None,
            size_max: (1 << 44) - 4096,
            target_max: 4095,
            value_max: 3 << 10,
            values_max: 3 << 10,
            unwritten: true,
        }
    }
}

/// From so many links on a directory's links are not counted any more, where that is how it is done.
const DIR_LINKS_COUNTED_MAX: u32 = 65_000;

/// Longest name.
const NAME_MAX: usize = 255;

const ROOT: InodeNo = InodeNo(2);

#[derive(Clone)]
struct Node {
    attributes: Attributes,
    body: Body,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    held: u64,
}

#[derive(Clone)]
enum Body {
    File(Sparse),
    Directory(Directory),
    Symlink(Vec<u8>),
    Special,
}

#[derive(Clone)]
struct Directory {
    parent: InodeNo,
    /// By the order in which they came.
    entries: BTreeMap<u64, (Vec<u8>, InodeNo)>,
    numbers: BTreeMap<Vec<u8>, u64>,
    next: u64,
}

/// A file system in memory.
pub struct MemFs {
    nodes: BTreeMap<u32, Node>,
    limits: Limits,
    next_inode: u32,
    generation: u32,
    /// Blocks in use.
    used: u64,
    mounted: bool,
    /// Of who asks.
    umask: u16,
}

impl MemFs {
    /// An empty one.
    pub fn new(limits: Limits, now: Time) -> Self {
        let mut fs = MemFs {
            nodes: BTreeMap::new(),
            limits,
            next_inode: ROOT.0,
            generation: 0,
            used: 0,
            mounted: true,
            umask: 0,
        };
        let of = Permissions { mode: 0o755, uid: 0, gid: 0 };
        let root = fs.new_node(&NewFile { kind: NewKind::Directory, of }, ROOT, now);
        // There is room for a root in any.
        fs.insert(root);
        fs.next_inode = 11;
        fs
    }

    fn node(&self, inode: InodeNo) -> Result<&Node> {
        if !self.mounted {
            return Err(Errno::NotMounted);
        }
        self.nodes.get(&inode.0).ok_or(Errno::NotFound)
    }

    fn node_mut(&mut self, inode: InodeNo) -> Result<&mut Node> {
        if !self.mounted {
            return Err(Errno::NotMounted);
        }
        self.nodes.get_mut(&inode.0).ok_or(Errno::NotFound)
    }

    fn directory(&self, inode: InodeNo) -> Result<&Directory> {
        match &self.node(inode)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::NotDirectory),
        }
    }

    fn directory_mut(&mut self, inode: InodeNo) -> Result<&mut Directory> {
        match &mut self.node_mut(inode)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::NotDirectory),
        }
    }

    fn file(&self, inode: InodeNo) -> Result<&Sparse> {
        match &self.node(inode)?.body {
            Body::File(file) => Ok(file),
            Body::Directory(_) => Err(Errno::IsDirectory),
            _ => Err(Errno::Invalid),
        }
    }

    fn file_mut(&mut self, inode: InodeNo) -> Result<&mut Sparse> {
        match &mut self.node_mut(inode)?.body {
            Body::File(file) => Ok(file),
            Body::Directory(_) => Err(Errno::IsDirectory),
            _ => Err(Errno::Invalid),
        }
    }

    /// The lowest free number, beginning with where the last one was found.
    fn free_number(&mut self) -> Result<InodeNo> {
        if self.nodes.len() as u64 >= self.limits.inodes {
            return Err(Errno::NoSpace);
        }
        while self.nodes.contains_key(&self.next_inode) {
            self.next_inode = self.next_inode.checked_add(1).unwrap_or(11);
        }
        Ok(InodeNo(self.next_inode))
    }

    fn new_node(&mut self, file: &NewFile<'_>, parent: InodeNo, now: Time) -> Node {
        self.generation += 1;
        let kind = file.kind.kind();
        let (body, size, device) = match file.kind {
            NewKind::Regular => (Body::File(Sparse::default()), 0, DeviceNumber::default()),
            NewKind::Directory => {
                let (entries, numbers) = (BTreeMap::new(), BTreeMap::new());
                (
                    Body::Directory(Directory { parent, entries, numbers, next: 3 }),
                    PAGE,
                    DeviceNumber::default(),
                )
            }
            NewKind::Symlink(target) => {
                (Body::Symlink(target.to_vec()), target.len() as u64, DeviceNumber::default())
            }
            NewKind::CharDevice(device) | NewKind::BlockDevice(device) => (Body::Special, 0, device),
            NewKind::Fifo | NewKind::Socket => (Body::Special, 0, DeviceNumber::default()),
        };
        let attributes = Attributes {
            inode: InodeNo(self.next_inode),
            generation: self.generation,
            kind,
            of: file.of,
            links: if kind == FileKind::Directory { 2 } else { 1 },
            size,
            blocks_512: 0,
            device,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: Some(now),
        };
        Node { attributes, body, xattrs: BTreeMap::new(), held: 0 }
    }

    /// Blocks that an inode takes besides its data.
    fn fixed_blocks(node: &Node) -> u64 {
        let long_target = matches!(&node.body, Body::Symlink(target) if target.len() > 59);
        u64::from(matches!(node.body, Body::Directory(_)) || long_target) + u64::from(!node.xattrs.is_empty())
    }

    fn blocks_of(node: &Node) -> u64 {
        let data = if let Body::File(file) = &node.body { file.pages() } else { 0 };
        data + Self::fixed_blocks(node)
    }

    fn insert(&mut self, node: Node) {
        self.used += Self::blocks_of(&node);
        self.nodes.insert(node.attributes.inode.0, node);
    }

    /// Takes `more` blocks, or fails.
    fn take(&mut self, more: u64) -> Result<()> {
        if self.used + more > self.limits.blocks {
            return Err(Errno::NoSpace);
        }
        self.used += more;
        Ok(())
    }

    /// Removes an inode that has neither names nor holders.
    fn reap(&mut self, inode: InodeNo) {
        let Some(node) = self.nodes.get(&inode.0) else { return };
        if node.attributes.links == 0 && node.held == 0 {
            self.used -= Self::blocks_of(node);
            self.nodes.remove(&inode.0);
        }
    }

    /// Notes that the contents changed.
    fn modified(&mut self, inode: InodeNo, now: Time) {
        if let Some(node) = self.nodes.get_mut(&inode.0) {
            (node.attributes.mtime, node.attributes.ctime) = (now, now);
        }
    }
}

impl FileSystem for MemFs {
    fn root(&self) -> InodeNo {
        ROOT
    }

    fn lookup(&mut self, parent: InodeNo, name: &[u8]) -> Result<Attributes> {
        let found = self.find(parent, name)?;
        self.getattr(found)
    }

    fn getattr(&mut self, inode: InodeNo) -> Result<Attributes> {
        let node = self.node(inode)?;
        Ok(Attributes { blocks_512: Self::blocks_of(node) * 8, ..node.attributes })
    }

    fn setattr(&mut self, inode: InodeNo, changes: &SetAttributes, now: Time) -> Result<Attributes> {
        if let Some(size) = changes.size {
            let before = self.node(inode)?.attributes.size;
            let pages = self.file(inode)?.pages();
            if size > self.limits.size_max {
                return Err(Errno::TooLarge);
            }
            let file = self.file_mut(inode)?;
            if size < before {
                file.cut(size);
            }
            let left = file.pages();
            self.used -= pages - left;
            self.node_mut(inode)?.attributes.size = size;
            self.modified(inode, now);
        }
        let to = |time: SetTime| time.at(now);
        let of = &mut self.node_mut(inode)?.attributes;
        of.of.mode = changes.mode.map_or(of.of.mode, |mode| mode & 0o7777);
        of.of.uid = changes.uid.unwrap_or(of.of.uid);
        of.of.gid = changes.gid.unwrap_or(of.of.gid);
        of.atime = changes.atime.map_or(of.atime, to);
        of.mtime = changes.mtime.map_or(of.mtime, to);
        of.crtime = changes.crtime.or(of.crtime);
        of.ctime = now;
        self.getattr(inode)
    }

    fn make(&mut self, parent: InodeNo, name: &[u8], file: &NewFile<'_>, now: Time) -> Result<Attributes> {
        self.make_node(parent, name, file, now)
    }

    fn link(&mut self, inode: InodeNo, parent: InodeNo, name: &[u8], now: Time) -> Result<Attributes> {
        self.link_node(inode, parent, name, now)?;
        self.getattr(inode)
    }

    fn unlink(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()> {
        self.unlink_node(parent, name, now)
    }

    fn rmdir(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()> {
        self.rmdir_node(parent, name, now)
    }

    fn rename(
        &mut self,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        flags: RenameFlags,
        now: Time,
    ) -> Result<()> {
        self.rename_node((parent, name), (new_parent, new_name), flags, now)
    }

    fn read(&mut self, inode: InodeNo, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let file = self.file(inode)?;
        let size = self.node(inode)?.attributes.size;
        let len = size.saturating_sub(offset).min(buf.len() as u64) as usize;
        if len > 0 {
            file.read(offset, &mut buf[..len]);
        }
        Ok(len)
    }

    fn write(&mut self, inode: InodeNo, offset: u64, bytes: &[u8], now: Time) -> Result<usize> {
        let (room, size_max) = (self.limits.blocks - self.used, self.limits.size_max);
        let file = self.file(inode)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        if offset >= size_max {
            return Err(Errno::TooLarge);
        }
        let mut end = offset.saturating_add(bytes.len() as u64).min(size_max);
        // As far as there is room.
        while file.missing(offset, end) > room {
            end = (end - 1) / PAGE * PAGE;
        }
        if end <= offset {
            return Err(Errno::NoSpace);
        }
        let missing = file.missing(offset, end);
        self.take(missing)?;
        let written = (end - offset) as usize;
        self.file_mut(inode)?.write(offset, &bytes[..written]);
        let of = &mut self.node_mut(inode)?.attributes;
        of.size = of.size.max(end);
        self.modified(inode, now);
        Ok(written)
    }

    fn allocate(&mut self, inode: InodeNo, offset: u64, len: u64, how: Allocation, now: Time) -> Result<()> {
        let file = self.file(inode)?;
        if !self.limits.unwritten {
            return Err(Errno::NotSupported);
        }
        if len == 0 {
            return Err(Errno::Invalid);
        }
        let end = offset.checked_add(len).filter(|end| *end <= self.limits.size_max);
        let end = end.ok_or(Errno::TooLarge)?;
        let missing = file.missing(offset, end);
        self.take(missing)?;
        self.file_mut(inode)?.reserve(offset, end);
        let of = &mut self.node_mut(inode)?.attributes;
        of.ctime = now;
        if how != Allocation::UnwrittenKeepSize && end > of.size {
            (of.size, of.mtime) = (end, now);
        }
        Ok(())
    }

    fn act_for(&mut self, caller: Caller) {
        self.umask = caller.umask;
    }

    fn extents(&mut self, inode: InodeNo, offset: u64, max: usize) -> Result<Vec<Extent>> {
        let runs = self.file(inode)?.runs(offset, max);
        let place = u64::from(inode.0) << 44;
        Ok(runs
            .into_iter()
            .map(|(offset, len, unwritten)| Extent { offset, at: place + offset, len, unwritten })
            .collect())
    }

    fn readdir(
        &mut self,
        inode: InodeNo,
        cookie: u64,
        visit: &mut dyn FnMut(&DirEntry<'_>) -> Visit,
    ) -> Result<()> {
        let directory = self.directory(inode)?;
        let dots = [(1, b".".as_slice(), inode), (2, b"..".as_slice(), directory.parent)];
        let others = directory.entries.range(cookie.saturating_add(1)..);
        let others = others.map(|(number, (name, inode))| (*number, name.as_slice(), *inode));
        for (number, name, inode) in dots.into_iter().filter(|dot| dot.0 > cookie).chain(others) {
            let kind = self.nodes.get(&inode.0).map(|node| node.attributes.kind);
            if visit(&DirEntry { inode, kind, name, cookie: number }) == Visit::Full {
                break;
            }
        }
        Ok(())
    }

    fn readlink(&mut self, inode: InodeNo) -> Result<Vec<u8>> {
        match &self.node(inode)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::Invalid),
        }
    }

    fn getxattr(&mut self, inode: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        self.node(inode)?.xattrs.get(name).cloned().ok_or(Errno::NoAttribute)
    }

    fn setxattr(
        &mut self,
        inode: InodeNo,
        name: &[u8],
        value: &[u8],
        how: AttributeWrite,
        now: Time,
    ) -> Result<()> {
        let (used, blocks, limits) = (self.used, self.limits.blocks, self.limits);
        let node = self.node_mut(inode)?;
        let before = Self::fixed_blocks(node);
        let is_there = node.xattrs.contains_key(name);
        match how {
            AttributeWrite::Create if is_there => return Err(Errno::Exists),
            AttributeWrite::Replace if !is_there => return Err(Errno::NoAttribute),
            _ => {}
        }
        let others = node.xattrs.iter().filter(|(other, _)| *other != name);
        let others: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        if value.len() > limits.value_max || others + name.len() + value.len() > limits.values_max {
            return Err(Errno::NoSpace);
        }
        if node.xattrs.is_empty() && used == blocks {
            return Err(Errno::NoSpace);
        }
        node.xattrs.insert(name.to_vec(), value.to_vec());
        node.attributes.ctime = now;
        let after = Self::fixed_blocks(node);
        self.used += after - before;
        Ok(())
    }

    fn listxattr(&mut self, inode: InodeNo) -> Result<Vec<Vec<u8>>> {
        Ok(self.node(inode)?.xattrs.keys().cloned().collect())
    }

    fn removexattr(&mut self, inode: InodeNo, name: &[u8], now: Time) -> Result<()> {
        let node = self.node_mut(inode)?;
        let before = Self::fixed_blocks(node);
        node.xattrs.remove(name).ok_or(Errno::NoAttribute)?;
        node.attributes.ctime = now;
        let after = Self::fixed_blocks(node);
        self.used -= before - after;
        Ok(())
    }

    fn statfs(&mut self) -> Result<FileSystemSpace> {
        if !self.mounted {
            return Err(Errno::NotMounted);
        }
        let free = self.limits.blocks - self.used;
        Ok(FileSystemSpace {
            block_size: PAGE as u32,
            blocks: self.limits.blocks,
            blocks_free: free,
            blocks_available: free,
            inodes: self.limits.inodes,
            inodes_free: self.limits.inodes - self.nodes.len() as u64,
            name_len_max: NAME_MAX as u32,
            ..FileSystemSpace::default()
        })
    }

    fn hold(&mut self, inode: InodeNo) -> Result<()> {
        self.node_mut(inode)?.held += 1;
        Ok(())
    }

    fn release(&mut self, inode: InodeNo, count: u64, _: Time) -> Result<()> {
        let node = self.node_mut(inode)?;
        node.held = node.held.checked_sub(count).ok_or(Errno::Invalid)?;
        self.reap(inode);
        Ok(())
    }

    fn fsync(&mut self, inode: InodeNo, _: bool, _: Time) -> Result<()> {
        self.node(inode).map(|_| ())
    }

    fn sync(&mut self, _: Time) -> Result<()> {
        self.node(ROOT).map(|_| ())
    }

    fn unmount(&mut self, _: Time) -> Result<()> {
        self.mounted = false;
        Ok(())
    }

    fn trouble(&self) -> Option<&str> {
        None
    }
}
