// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random work on a driver, with the same done to a model, and the two compared.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::SeededRandom;
use fsmend_vfs::{
    Allocation, AttributeWrite, DeviceNumber, Errno, FileKind, FileSystem, InodeNo, NewFile, NewKind,
    Permissions, RenameFlags, SetAttributes, Time,
};

use super::NOW;
use super::model::{Body, Contents, Model, Node};
use super::snapshot::names;

/// A driver at work, and what it should hold.
pub struct Workload<'f> {
    root: InodeNo,
    fs: &'f mut dyn FileSystem,
    random: SeededRandom,
    /// What the driver should hold.
    pub model: Model,
    held: BTreeSet<u32>,
    /// Seconds that have passed.
    pub clock: i64,
    /// Operations that had no room.
    pub refused: u64,
    /// How many names a directory tends to have.
    pub crowd: u64,
    /// Whether unwritten blocks are known.
    pub has_unwritten: bool,
    /// Whether there are extended attributes.
    pub has_attributes: bool,
    /// Whether both halves of a device's number have 8 bits.
    pub short_devices: bool,
    /// Only operations that one transaction holds.
    pub small: bool,
    /// Inodes whose contents or number may have changed since this was emptied.
    pub touched: BTreeSet<u32>,
}

/// What there is to see of a path without reading contents: inode, kind, permissions, links, length.
pub type View = BTreeMap<Vec<u8>, (u32, FileKind, Permissions, u32, u64)>;

type Done = Result<(), String>;

impl<'f> Workload<'f> {
    /// Work that belongs to `seed`, on a file system that was just made.
    pub fn new(fs: &'f mut dyn FileSystem, seed: u64, has_unwritten: bool) -> Result<Self, String> {
        let mut model = Model::default();
        let root = fs.root();
        let all = names(fs, root, 100).map_err(|error| error.to_string())?;
        let mut entries = BTreeMap::new();
        for (name, inode) in all.into_iter().filter(|(name, _)| name != b"." && name != b"..") {
            entries.insert(name, inode);
            let of = fs.getattr(inode).map_err(|error| error.to_string())?.of;
            let body = Body::Directory(BTreeMap::new(), root);
            model.nodes.insert(inode.0, Node { body, of, links: 2, attributes: BTreeMap::new() });
        }
        let attributes = fs.getattr(root).map_err(|error| error.to_string())?;
        let node = Node {
            body: Body::Directory(entries, root),
            of: attributes.of,
            links: attributes.links,
            attributes: BTreeMap::new(),
        };
        model.nodes.insert(root.0, node);
        Ok(Workload::on(fs, root, model, seed, has_unwritten))
    }

    /// Work in a new folder of the root, on a file system that may hold anything.
    pub fn in_folder(
        fs: &'f mut dyn FileSystem,
        name: &[u8],
        seed: u64,
        has_unwritten: bool,
        clock: i64,
    ) -> Result<Self, String> {
        let of = Permissions { mode: 0o755, uid: 0, gid: 0 };
        let root = fs.root();
        let folder = fs.mkdir(root, name, of, Time::at(clock)).map_err(|error| error.to_string())?;
        let mut model = Model::default();
        let body = Body::Directory(BTreeMap::new(), root);
        let node = Node { body, of: folder.of, links: 2, attributes: BTreeMap::new() };
        model.nodes.insert(folder.inode.0, node);
        let mut work = Workload::on(fs, folder.inode, model, seed, has_unwritten);
        work.clock = clock;
        Ok(work)
    }

    fn on(fs: &'f mut dyn FileSystem, root: InodeNo, model: Model, seed: u64, has_unwritten: bool) -> Self {
        Workload {
            root,
            fs,
            random: SeededRandom::new(seed),
            model,
            held: BTreeSet::new(),
            clock: NOW,
            refused: 0,
            crowd: 30,
            has_unwritten,
            has_attributes: true,
            short_devices: false,
            small: false,
            touched: BTreeSet::new(),
        }
    }

    /// The tree as it should be, without contents.
    pub fn view(&self) -> View {
        let mut view = View::new();
        let mut waiting = vec![(Vec::new(), self.root)];
        while let Some((path, inode)) = waiting.pop() {
            let Some(node) = self.model.nodes.get(&inode.0) else { continue };
            let (kind, size) = match &node.body {
                Body::File(contents) => (FileKind::Regular, contents.size),
                Body::Symlink(target) => (FileKind::Symlink, target.len() as u64),
                Body::Special(kind, _) => (*kind, 0),
                Body::Directory(entries, _) => {
                    let below = |name: &Vec<u8>| [&path[..], b"/", name].concat();
                    waiting.extend(entries.iter().map(|(name, inode)| (below(name), *inode)));
                    (FileKind::Directory, 0)
                }
            };
            view.insert(path, (inode.0, kind, node.of, node.links, size));
        }
        view
    }

    fn now(&self) -> Time {
        Time { seconds: self.clock, nanoseconds: 5 }
    }

    fn sorted(&self, wanted: impl Fn(&Node) -> bool) -> Vec<InodeNo> {
        let mut all: Vec<u32> =
            self.model.nodes.iter().filter(|(_, node)| wanted(node)).map(|(inode, _)| *inode).collect();
        all.sort_unstable();
        all.into_iter().map(InodeNo).collect()
    }

    fn pick(&mut self, wanted: impl Fn(&Node) -> bool) -> Option<InodeNo> {
        let all = self.sorted(wanted);
        let at = self.random.below(all.len() as u64) as usize;
        all.get(at).copied()
    }

    fn a_directory(&mut self) -> InodeNo {
        let root = self.root;
        self.pick(|node| matches!(node.body, Body::Directory(..)) && node.links > 0).unwrap_or(root)
    }

    fn a_file(&mut self) -> Option<InodeNo> {
        self.pick(|node| matches!(node.body, Body::File(_)))
    }

    fn a_name(&mut self) -> Vec<u8> {
        let number = self.random.below(self.crowd * 3);
        let len = match self.random.below(12) {
            0 => 200 + self.random.below(50) as usize,
            1..4 => 40,
            _ => 0,
        };
        let mut name = format!("name-{number}").into_bytes();
        name.resize(name.len().max(len.min(255)), b'a' + (number % 26) as u8);
        name
    }

    /// A name that is there, and the directory in which it is.
    fn a_place(&mut self) -> Option<(InodeNo, Vec<u8>, InodeNo)> {
        let directory =
            self.pick(|node| matches!(&node.body, Body::Directory(entries, _) if !entries.is_empty()))?;
        let entries = self.model.entries(directory)?;
        let at = self.random.below(entries.len() as u64) as usize;
        let (name, inode) = entries.iter().nth(at)?;
        // A file system without it is one that checks complain about.
        (name != b"lost+found").then(|| (directory, name.clone(), *inode))
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let start = self.random.next_u64();
        (0..len).map(|at| (start >> (at % 7) as u32) as u8 ^ at as u8).collect()
    }

    /// Does one thing, to both.
    pub fn step(&mut self) -> Done {
        self.clock += 1;
        match self.random.below(100) {
            0..18 => self.create(),
            18..22 => self.create_other(),
            22..27 => self.make_directory(),
            27..50 => self.write(),
            50..57 => self.truncate(),
            57..68 => self.unlink(),
            68..71 => self.remove_directory(),
            71..79 => self.rename(),
            79..82 => self.link(),
            82..88 if self.has_attributes => self.attribute(),
            82..88 => self.read_one(),
            88..91 => self.set_owner(),
            91..93 => self.hold_or_release(),
            93..95 => self.allocate(),
            95..97 => self.try_nonsense(),
            97 => self.durable(),
            _ => self.read_one(),
        }
        .map_err(|what| format!("{what}, at {}", self.clock))
    }

    /// Whether the driver had no room; everything else but success is wrong.
    fn judged<T>(&mut self, what: &str, result: Result<T, Errno>) -> Result<Option<T>, String> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Errno::NoSpace) => {
                self.refused += 1;
                Ok(None)
            }
            Err(error) => Err(format!("{what}: {error} ({})", self.fs.trouble().unwrap_or("no trouble"))),
        }
    }

    fn permissions(&mut self) -> Permissions {
        let mode = [0o644, 0o755, 0o600, 0o4755, 0o1777][self.random.below(5) as usize];
        Permissions { mode, uid: self.random.below(70_000) as u32 * 3, gid: self.random.below(70_000) as u32 }
    }

    fn make(&mut self, kind: NewKind<'_>, body: Body) -> Done {
        let (parent, name, of) = (self.a_directory(), self.a_name(), self.permissions());
        let result = self.fs.make(parent, &name, &NewFile { kind, of }, self.now());
        let is_there = self.model.entries(parent).is_some_and(|entries| entries.contains_key(&name));
        if is_there {
            return if result == Err(Errno::Exists) {
                Ok(())
            } else {
                Err(format!("made twice: {result:?}"))
            };
        }
        let Some(attributes) = self.judged("make", result)? else { return Ok(()) };
        self.touched.insert(attributes.inode.0);
        let is_directory = kind == NewKind::Directory;
        let body = if is_directory { Body::Directory(BTreeMap::new(), parent) } else { body };
        let links = if is_directory { 2 } else { 1 };
        let node = Node { body, of, links, attributes: BTreeMap::new() };
        if self.model.nodes.insert(attributes.inode.0, node).is_some() {
            return Err(format!("inode {} was in use", attributes.inode));
        }
        if let Some(entries) = self.model.entries_mut(parent) {
            entries.insert(name, attributes.inode);
        }
        if is_directory {
            self.model.count_link(parent, 1, true);
        }
        Ok(())
    }

    fn create(&mut self) -> Done {
        self.make(NewKind::Regular, Body::File(Contents::default()))
    }

    fn create_other(&mut self) -> Done {
        let (majors, minors) = if self.short_devices { (256, 256) } else { (600, 9000) };
        let device =
            DeviceNumber { major: self.random.below(majors) as u32, minor: self.random.below(minors) as u32 };
        match self.random.below(4) {
            0 => self.make(NewKind::Fifo, Body::Special(FileKind::Fifo, DeviceNumber::default())),
            1 => self.make(NewKind::BlockDevice(device), Body::Special(FileKind::BlockDevice, device)),
            _ => {
                let len = [5, 59, 60, 61, 300, 1000][self.random.below(6) as usize];
                let target: Vec<u8> = self.bytes(len).into_iter().map(|byte| byte | 1).collect();
                self.make(NewKind::Symlink(&target), Body::Symlink(target.clone()))
            }
        }
    }

    fn make_directory(&mut self) -> Done {
        self.make(NewKind::Directory, Body::File(Contents::default()))
    }

    fn write(&mut self) -> Done {
        let Some(file) = self.a_file() else { return Ok(()) };
        let size = match self.model.nodes.get(&file.0).map(|node| &node.body) {
            Some(Body::File(contents)) => contents.size,
            _ => 0,
        };
        self.touched.insert(file.0);
        let len = match self.random.below(10) {
            0 if !self.small => 200_000,
            1..4 => 20_000,
            _ => 2_000,
        };
        let len = 1 + self.random.below(len) as usize;
        let offset = match self.random.below(20) {
            // So far behind that every level of pointers is used.
            0 => 300_000 + self.random.below(5) * 17_000_000,
            1..4 => self.random.below(2_000_000),
            4..10 => self.random.below(size + 1),
            _ => size,
        };
        let bytes = self.bytes(len);
        let result = self.fs.write(file, offset, &bytes, self.now());
        let Some(count) = self.judged("write", result)? else { return Ok(()) };
        if count == 0 || count > bytes.len() {
            return Err(format!("wrote {count} of {}", bytes.len()));
        }
        if let Some(Node { body: Body::File(contents), .. }) = self.model.nodes.get_mut(&file.0) {
            contents.write(offset, &bytes[..count]);
        }
        Ok(())
    }

    fn truncate(&mut self) -> Done {
        let Some(file) = self.a_file() else { return Ok(()) };
        self.touched.insert(file.0);
        let size = match self.random.below(4) {
            0 => 0,
            1 => self.random.below(3_000_000),
            _ => self.random.below(100_000),
        };
        let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        let result = self.fs.setattr(file, &changes, self.now());
        if self.judged("truncate", result)?.is_some()
            && let Some(Node { body: Body::File(contents), .. }) = self.model.nodes.get_mut(&file.0)
        {
            contents.resize(size);
        }
        Ok(())
    }

    fn unlink(&mut self) -> Done {
        let Some((parent, name, inode)) = self.a_place() else { return Ok(()) };
        let result = self.fs.unlink(parent, &name, self.now());
        if self.model.is_directory(inode) {
            return if result == Err(Errno::IsDirectory) {
                Ok(())
            } else {
                Err(format!("unlink: {result:?}"))
            };
        }
        if self.judged("unlink", result)?.is_some() {
            self.forget_name(parent, &name, inode);
        }
        Ok(())
    }

    fn forget_name(&mut self, parent: InodeNo, name: &[u8], inode: InodeNo) {
        if let Some(entries) = self.model.entries_mut(parent) {
            entries.remove(name);
        }
        let is_held = self.held.contains(&inode.0);
        if self.model.is_directory(inode) {
            self.model.count_link(parent, -1, true);
            self.model.count_link(inode, -2, is_held);
        } else {
            self.model.count_link(inode, -1, is_held);
        }
    }

    fn remove_directory(&mut self) -> Done {
        let Some((parent, name, inode)) = self.a_place() else { return Ok(()) };
        let result = self.fs.rmdir(parent, &name, self.now());
        let expected = match self.model.entries(inode) {
            None => Some(Errno::NotDirectory),
            Some(entries) if !entries.is_empty() => Some(Errno::NotEmpty),
            Some(_) => None,
        };
        if let Some(expected) = expected {
            return if result == Err(expected) { Ok(()) } else { Err(format!("rmdir: {result:?}")) };
        }
        if self.judged("rmdir", result)?.is_some() {
            self.forget_name(parent, &name, inode);
        }
        Ok(())
    }

    fn rename(&mut self) -> Done {
        let Some((parent, name, inode)) = self.a_place() else { return Ok(()) };
        let (new_parent, new_name) = match self.random.below(3) {
            0 => self.a_place().map_or((parent, name.clone()), |(parent, name, _)| (parent, name)),
            _ => (self.a_directory(), self.a_name()),
        };
        let how = [RenameFlags::Replace, RenameFlags::Replace, RenameFlags::NoReplace, RenameFlags::Exchange]
            [self.random.below(4) as usize];
        let there = self.model.entries(new_parent).and_then(|entries| entries.get(&new_name)).copied();
        let result = self.fs.rename(parent, &name, new_parent, &new_name, how, self.now());
        let is_into_itself = self.model.is_directory(inode) && self.model.is_below(new_parent, inode);
        let other_into_itself = how == RenameFlags::Exchange
            && there
                .is_some_and(|there| self.model.is_directory(there) && self.model.is_below(parent, there));
        let is_fine = match (there, how) {
            (Some(_), RenameFlags::NoReplace) | (None, RenameFlags::Exchange) => false,
            (Some(there), _) if there == inode => true,
            _ if is_into_itself || other_into_itself => false,
            (Some(there), RenameFlags::Replace) => {
                let is_empty = self.model.entries(there).is_none_or(BTreeMap::is_empty);
                self.model.is_directory(there) == self.model.is_directory(inode) && is_empty
            }
            _ => true,
        };
        if !is_fine {
            return if result.is_err() && result != Err(Errno::Corrupt) {
                Ok(())
            } else {
                Err(format!("rename: {result:?}"))
            };
        }
        if self.judged("rename", result)?.is_none() || there == Some(inode) {
            return Ok(());
        }
        match (there, how) {
            (Some(there), RenameFlags::Exchange) => {
                self.place(parent, &name, there, new_parent);
                self.place(new_parent, &new_name, inode, parent);
            }
            _ => {
                if let Some(there) = there {
                    self.forget_name(new_parent, &new_name, there);
                }
                if let Some(entries) = self.model.entries_mut(parent) {
                    entries.remove(&name);
                }
                self.place(new_parent, &new_name, inode, parent);
            }
        }
        Ok(())
    }

    /// A name in `parent` leads to `inode` now, which was in `before`.
    fn place(&mut self, parent: InodeNo, name: &[u8], inode: InodeNo, before: InodeNo) {
        if let Some(entries) = self.model.entries_mut(parent) {
            entries.insert(name.to_vec(), inode);
        }
        if let Some(Node { body: Body::Directory(_, dots), .. }) = self.model.nodes.get_mut(&inode.0) {
            *dots = parent;
            self.model.count_link(before, -1, true);
            self.model.count_link(parent, 1, true);
        }
    }

    fn link(&mut self) -> Done {
        let Some((_, _, inode)) = self.a_place() else { return Ok(()) };
        let (parent, name) = (self.a_directory(), self.a_name());
        let result = self.fs.link(inode, parent, &name, self.now());
        let is_there = self.model.entries(parent).is_some_and(|entries| entries.contains_key(&name));
        if self.model.is_directory(inode) || is_there {
            return if result.is_err() { Ok(()) } else { Err("linked what cannot be".to_owned()) };
        }
        if self.judged("link", result)?.is_some() {
            if let Some(entries) = self.model.entries_mut(parent) {
                entries.insert(name, inode);
            }
            self.model.count_link(inode, 1, true);
        }
        Ok(())
    }

    fn attribute(&mut self) -> Done {
        let Some(inode) = self.pick(|node| !matches!(node.body, Body::Symlink(_) | Body::Special(..))) else {
            return Ok(());
        };
        let name = format!("user.attribute-{}", self.random.below(6)).into_bytes();
        let is_there = self.model.nodes.get(&inode.0).is_some_and(|node| node.attributes.contains_key(&name));
        if is_there && self.random.below(3) == 0 {
            let result = self.fs.removexattr(inode, &name, self.now());
            if self.judged("removexattr", result)?.is_some()
                && let Some(node) = self.model.nodes.get_mut(&inode.0)
            {
                node.attributes.remove(&name);
            }
            return Ok(());
        }
        let len = [0, 1, 20, 60, 200, 600][self.random.below(6) as usize];
        let value = self.bytes(len);
        let how = [AttributeWrite::Any, AttributeWrite::Create, AttributeWrite::Replace]
            [self.random.below(3) as usize];
        let result = self.fs.setxattr(inode, &name, &value, how, self.now());
        match (how, is_there, result) {
            (AttributeWrite::Create, true, Err(Errno::Exists))
            | (AttributeWrite::Replace, false, Err(Errno::NoAttribute)) => return Ok(()),
            (AttributeWrite::Create, true, _) | (AttributeWrite::Replace, false, _) => {
                return Err(format!("setxattr {how:?}: {result:?}"));
            }
            _ => {}
        }
        if self.judged("setxattr", result)?.is_some()
            && let Some(node) = self.model.nodes.get_mut(&inode.0)
        {
            node.attributes.insert(name, value);
        }
        Ok(())
    }

    fn set_owner(&mut self) -> Done {
        let Some(inode) = self.pick(|_| true) else { return Ok(()) };
        let of = self.permissions();
        let changes = SetAttributes {
            mode: Some(of.mode),
            uid: Some(of.uid),
            gid: Some(of.gid),
            ..SetAttributes::default()
        };
        let result = self.fs.setattr(inode, &changes, self.now());
        if self.judged("setattr", result)?.is_some()
            && let Some(node) = self.model.nodes.get_mut(&inode.0)
        {
            node.of = of;
        }
        Ok(())
    }

    fn hold_or_release(&mut self) -> Done {
        let some: Option<u32> = self.held.iter().next().copied();
        if let Some(inode) = some.filter(|_| self.random.below(2) == 0) {
            self.held.remove(&inode);
            let result = self.fs.release(InodeNo(inode), 1, self.now());
            self.judged("release", result)?;
            if self.model.nodes.get(&inode).is_some_and(|node| node.links == 0) {
                self.model.nodes.remove(&inode);
            }
        } else if let Some(file) = self.a_file()
            && self.held.insert(file.0)
        {
            let result = self.fs.hold(file);
            self.judged("hold", result)?;
        }
        Ok(())
    }

    fn allocate(&mut self) -> Done {
        let Some(file) = self.a_file() else { return Ok(()) };
        self.touched.insert(file.0);
        let (offset, len) = (self.random.below(500_000), 1 + self.random.below(100_000));
        let how =
            if self.random.below(2) == 0 { Allocation::Unwritten } else { Allocation::UnwrittenKeepSize };
        let result = self.fs.allocate(file, offset, len, how, self.now());
        if !self.has_unwritten {
            return if result == Err(Errno::NotSupported) {
                Ok(())
            } else {
                Err(format!("allocate: {result:?}"))
            };
        }
        let size = self.fs.getattr(file).map_err(|error| error.to_string())?.size;
        self.judged("allocate", result)?;
        if let Some(Node { body: Body::File(contents), .. }) = self.model.nodes.get_mut(&file.0) {
            // Where the room ran out, a part may have been done.
            contents.size = size.max(contents.size);
        }
        Ok(())
    }

    fn try_nonsense(&mut self) -> Done {
        let root = self.fs.root();
        let now = self.now();
        let long = vec![b'x'; 256];
        let results = [
            (self.fs.create(root, b"", Permissions::default(), now).err(), Errno::Invalid),
            (self.fs.create(root, b"a/b", Permissions::default(), now).err(), Errno::Invalid),
            (self.fs.create(root, &long, Permissions::default(), now).err(), Errno::NameTooLong),
            (self.fs.create(root, b"..", Permissions::default(), now).err(), Errno::Exists),
            (self.fs.unlink(root, b"not there", now).err(), Errno::NotFound),
            (self.fs.getattr(InodeNo(u32::MAX)).err(), Errno::NotFound),
            (self.fs.lookup(root, b"not there").err(), Errno::NotFound),
        ];
        match results.iter().find(|(got, wanted)| *got != Some(*wanted)) {
            Some((got, wanted)) => Err(format!("{got:?} instead of {wanted:?}")),
            None => Ok(()),
        }
    }

    /// Makes everything durable.
    pub fn durable(&mut self) -> Done {
        let result = self.fs.sync(self.now());
        self.judged("sync", result).map(|_| ())
    }

    fn read_one(&mut self) -> Done {
        let Some(file) = self.a_file() else { return Ok(()) };
        self.compare_file(file)
    }

    fn compare_file(&mut self, file: InodeNo) -> Done {
        let Some(Node { body: Body::File(contents), .. }) = self.model.nodes.get(&file.0) else {
            return Ok(());
        };
        let mut places: BTreeSet<u64> = contents.written().into_iter().collect();
        places.extend([0, contents.size / 2, contents.size.saturating_sub(3000)]);
        for place in places {
            let expected = contents.read(place, 3000);
            let mut buf = vec![0xEE; 3000];
            let count = self.fs.read(file, place, &mut buf).map_err(|error| format!("read: {error}"))?;
            if buf[..count] != expected {
                let at = buf.iter().zip(&expected).position(|(one, other)| one != other);
                return Err(format!(
                    "inode {file} differs at {place} + {at:?}, {count} bytes instead of {}",
                    expected.len()
                ));
            }
        }
        Ok(())
    }

    /// Compares everything.
    pub fn compare(&mut self) -> Done {
        let all = self.sorted(|_| true);
        for inode in all {
            self.compare_inode(inode).map_err(|what| format!("inode {inode}: {what}"))?;
        }
        Ok(())
    }

    fn compare_inode(&mut self, inode: InodeNo) -> Done {
        let text = |error: Errno| error.to_string();
        let attributes = self.fs.getattr(inode).map_err(text)?;
        let node = self.model.nodes.get(&inode.0).cloned().ok_or("gone")?;
        if (attributes.of, attributes.links) != (node.of, node.links) {
            return Err(format!("{attributes:?} instead of {:?} with {} links", node.of, node.links));
        }
        let mut found = BTreeMap::new();
        for name in self.fs.listxattr(inode).map_err(text)? {
            let value = self.fs.getxattr(inode, &name).map_err(text)?;
            found.insert(name, value);
        }
        if found != node.attributes {
            return Err(format!("attributes {:?} instead of {:?}", found.keys(), node.attributes.keys()));
        }
        match &node.body {
            Body::File(contents) if attributes.size != contents.size => {
                Err(format!("{} bytes instead of {}", attributes.size, contents.size))
            }
            Body::File(_) => self.compare_file(inode),
            Body::Symlink(target) => match self.fs.readlink(inode).map_err(text)? {
                found if found == *target => Ok(()),
                found => Err(format!("leads to {found:?}")),
            },
            Body::Special(kind, device) if (attributes.kind, attributes.device) != (*kind, *device) => {
                Err(format!("{attributes:?}"))
            }
            Body::Special(..) => Ok(()),
            Body::Directory(entries, parent) => {
                let mut expected: Vec<(Vec<u8>, InodeNo)> =
                    entries.iter().map(|(name, inode)| (name.clone(), *inode)).collect();
                expected.extend([(b".".to_vec(), inode), (b"..".to_vec(), *parent)]);
                expected.sort();
                let portion = 1 + self.random.below(9) as usize;
                let mut found = names(self.fs, inode, portion).map_err(text)?;
                found.sort();
                if found != expected {
                    return Err(format!("{} names instead of {}", found.len(), expected.len()));
                }
                for (name, wanted) in expected {
                    let found = self.fs.lookup(inode, &name).map_err(text)?.inode;
                    if found != wanted {
                        return Err(format!("a name leads to {found} instead of {wanted}"));
                    }
                }
                Ok(())
            }
        }
    }

    /// Lets go of all that is held.
    pub fn release_all(&mut self) -> Done {
        for inode in std::mem::take(&mut self.held) {
            let result = self.fs.release(InodeNo(inode), 1, self.now());
            self.judged("release", result)?;
            if self.model.nodes.get(&inode).is_some_and(|node| node.links == 0) {
                self.model.nodes.remove(&inode);
            }
        }
        Ok(())
    }
}
