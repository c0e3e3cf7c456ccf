// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the files: nothing that e2fsck's repair keeps may be lost or different, unless it is as it was before the damage.

use super::spoiled::Spoiled;
use super::tree::{DIRECTORY, Node, Tree};

/// A difference to the disadvantage of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What kind of loss, for tables.
    pub kind: String,
    /// Which path.
    pub path: String,
}

/// The three trees of a case.
pub struct Trees<'t> {
    /// Before the damage.
    pub sound: &'t Tree,
    /// As the reference leaves it; without one, the sound tree.
    pub theirs: &'t Tree,
    /// As the repair under test leaves it.
    pub ours: &'t Tree,
    /// What the reference destroyed.
    pub spoiled: &'t Spoiled,
}

impl Trees<'_> {
    /// Everything that is lost.
    pub fn losses(&self) -> Vec<Loss> {
        let nodes = self.theirs.nodes.iter();
        nodes
            .filter_map(|(path, node)| self.loss_of(path, node).map(|kind| Loss { kind, path: show(path) }))
            .collect()
    }

    fn loss_of(&self, path: &[u8], theirs: &Node) -> Option<String> {
        let before = self.sound.nodes.get(path).or_else(|| self.before(theirs));
        let here = self.ours.nodes.get(path);
        let what = here.map(|here| self.worse(here, before, theirs));
        if what == Some(None) || self.is_elsewhere(path, theirs) {
            return None;
        }
        if path.is_empty() && here.is_some() && self.is_new_root() {
            return None;
        }
        if path == b"lost+found" && here.is_some_and(|here| self.may_be_new_lost_found(here, theirs)) {
            return None;
        }
        if is_made_up(path) && before.is_some_and(|before| theirs.is_nothing_of(before)) {
            return None;
        }
        if is_made_up(path) && before.is_none() && self.was_none(theirs) {
            return None;
        }
        if what.is_none() && (self.is_further_name(path, theirs) || self.is_empty_astray(path, theirs)) {
            return None;
        }
        let Some(what) = what.flatten() else { return Some(format!("{} lost", theirs.word())) };
        // What neither repair could know, both may choose: but a type, a length or content that was intact stays.
        let kept =
            if before.is_some_and(|before| before.difference(theirs).is_none()) { "intact " } else { "" };
        Some(format!("{what} of {kept}{} differs", theirs.word()))
    }

    /// Whether the same thing lies somewhere else: found by its inode, or, where a name was made up, by what it holds.
    fn is_elsewhere(&self, path: &[u8], theirs: &Node) -> bool {
        let before = self.before(theirs);
        let number = before.map_or(theirs.inode, |before| before.inode);
        if let Some((node, paths)) = self.ours.by_inode(number)
            && self.worse(node, before, theirs).is_none()
            && paths.iter().any(|ours| {
                self.may_stand_for(path, ours)
                    || self.hangs_the_same(path, ours)
                    || self.changed_names(path, ours)
            })
        {
            return true;
        }
        is_made_up(path)
            && (self.is_value(theirs) || self.ours.nodes.values().any(|node| node.holds_the_same(theirs)))
    }

    /// Whether the reference made up a name in a directory that the thing never was in, besides those that it had, and all of those that it kept are in
    /// ours. (A block of one directory that two claimed, say, whose names it lets stand in both.)
    fn is_further_name(&self, path: &[u8], theirs: &Node) -> bool {
        let Some(before) = self.before(theirs).and_then(|before| self.sound.paths.get(&before.inode)) else {
            return false;
        };
        let Some(paths) = self.theirs.paths.get(&theirs.inode) else { return false };
        let home = |tree: &Tree, path: &[u8]| tree.nodes.get(folder(path)).map(|folder| folder.inode);
        let was_in = |path: &[u8]| {
            let here = home(self.theirs, path);
            here.is_none() || before.iter().any(|before| home(self.sound, before) == here)
        };
        let is_called = |path: &[u8]| before.iter().any(|before| last(before) == last(path));
        // Where all directories have changed their numbers, the names themselves tell which it had.
        let has_some_in = paths.iter().any(|path| was_in(path));
        let is_its_own = |path: &[u8]| if has_some_in { was_in(path) } else { is_called(path) };
        let mut known = paths.iter().filter(|path| is_its_own(path)).peekable();
        !is_its_own(path)
            && paths.len() > before.len()
            && known.peek().is_some()
            && known.all(|known| self.loss_of(known, theirs).is_none())
    }

    /// Whether the reference keeps an empty file only by names in directories that it never was in (those of another directory's blocks that it took for
    /// a part of this one): without them it frees it, as any repair may free what is empty and has no name.
    fn is_empty_astray(&self, path: &[u8], theirs: &Node) -> bool {
        let Some(before) = self.before(theirs) else { return false };
        let Some(names) = self.sound.paths.get(&before.inode) else { return false };
        let was_in = |path: &[u8]| {
            let here = self.theirs.nodes.get(folder(path)).map(|folder| folder.inode);
            let there = |name: &Vec<u8>| self.sound.nodes.get(folder(name)).map(|folder| folder.inode);
            here.is_none() || names.iter().any(|name| there(name) == here)
        };
        let all = self.theirs.paths.get(&theirs.inode).map(Vec::as_slice).unwrap_or_default();
        [before, theirs].iter().all(|node| node.is_empty_file())
            && !is_made_up(path)
            && all.iter().all(|path| !was_in(path))
    }

    /// Whether the reference may have made a new lost+found, with the owner and the permissions that every new one has, so that they are nothing that it
    /// kept: ours is a directory, and nothing was in it before.
    fn may_be_new_lost_found(&self, ours: &Node, theirs: &Node) -> bool {
        let was_used = self.sound.nodes.keys().any(|path| is_made_up(path));
        [ours, theirs].iter().all(|node| node.kind == DIRECTORY)
            && (theirs.owner, theirs.mode) == ((0, 0), 0o700)
            && theirs.attributes.is_empty()
            && !was_used
    }

    /// What a thing that the reference keeps was before the damage: the inode whose record stands there, or else the one with its number. (With
    /// another number of inodes in a group, all others get new ones.)
    fn before(&self, theirs: &Node) -> Option<&Node> {
        let number = self.sound.records.get(&theirs.at).copied().unwrap_or(theirs.inode);
        self.sound.by_inode(number).map(|(before, _)| before)
    }

    /// Whether the reference made a new root, with the owner and the permissions that every new one has, so that they are nothing that it kept:
    /// none of the names stands in it that did before, but for what it makes itself.
    fn is_new_root(&self) -> bool {
        let mut names = self.sound.nodes.keys().filter(|path| !path.is_empty() && !path.contains(&b'/'));
        names.all(|name| name == b"lost+found" || !self.theirs.nodes.contains_key(name))
    }

    /// Whether the reference took for an inode what was none before the damage: its number is one that the file system did not have. (Too many
    /// inodes in a group, say, and copies of records in the journal behind the table.)
    fn was_none(&self, theirs: &Node) -> bool {
        self.sound.inodes_count != 0 && theirs.inode > self.sound.inodes_count
    }

    /// In what ours is worse: neither as the reference leaves it nor as it was before the damage. Each quality stands for itself, and
    /// no repair has to follow the reference in what it spoils; what neither could know (attributes that are there besides, parts of a file
    /// that are not what they were before the damage anyway) both may choose.
    fn worse(&self, ours: &Node, before: Option<&Node>, theirs: &Node) -> Option<&'static str> {
        let mut known = self.with_known_attributes(ours, theirs);
        let Some(before) = before else { return known.difference(theirs) };
        if ours.keeps_as_much(theirs, before, self.spoiled) || ours.holds_the_same(before) {
            known = Node { kind: theirs.kind, ..known.holding(theirs) };
        }
        if ours.owner == before.owner {
            known.owner = theirs.owner;
        }
        if ours.mode == before.mode {
            known.mode = theirs.mode;
        }
        if ours.attributes == before.attributes {
            known.attributes.clone_from(&theirs.attributes);
        }
        known.difference(theirs)
    }

    /// Ours, with the reference's attributes, if ours has at least those, each with the same value or the one that it had before.
    fn with_known_attributes(&self, ours: &Node, theirs: &Node) -> Node {
        let before = self.sound.by_inode(ours.inode).map(|(before, _)| &before.attributes);
        // The kernel refuses all attributes of a file as soon as the name of one holds a zero, and reads no access list with a name of its own, nor
        // anything else without one.
        let is_nameless = |name: &[u8]| matches!(name, [index] if !matches!(index, 2 | 3));
        let is_unreadable =
            |name: &[u8]| name.contains(&0) || matches!(name, [2 | 3, _, ..]) || is_nameless(name);
        let ours_has_unreadable = |value: &u64| ours.attributes.values().any(|ours| ours == value);
        let is_kept = |(name, value): (&Vec<u8>, &u64)| {
            let ours = ours.attributes.get(name);
            let is_same = ours.is_some_and(|ours| {
                ours == value || before.is_some_and(|before| before.get(name) == Some(ours))
            });
            is_same || is_unreadable(name) && ours_has_unreadable(value)
        };
        let mut known = ours.clone();
        if theirs.attributes.iter().all(is_kept) {
            known.attributes = theirs.attributes.clone();
        }
        known
    }

    /// Whether a path ends in the same name of the same directory as that of the reference, or the one before the damage, wherever that directory
    /// hangs: what becomes of it is a question of its own. A name that is damaged itself, the same in both, may stand in the directory that the
    /// inode had its name in before the damage, though the reference took the block for another directory's.
    fn hangs_the_same(&self, path: &[u8], ours: &[u8]) -> bool {
        let Some(parent) = self.ours.nodes.get(folder(ours)) else { return false };
        let is_same = |tree: &Tree, path: &[u8]| {
            last(path) == last(ours)
                && tree.nodes.get(folder(path)).is_some_and(|node| node.inode == parent.inode)
        };
        let before = self.ours.nodes.get(ours).and_then(|node| self.sound.paths.get(&node.inode));
        let was_there = |path: &Vec<u8>| {
            self.sound.nodes.get(folder(path)).is_some_and(|node| node.inode == parent.inode)
        };
        is_same(self.theirs, path)
            || before.is_some_and(|paths| paths.iter().any(|path| is_same(self.sound, path)))
            || last(path) == last(ours) && before.is_some_and(|paths| paths.iter().any(was_there))
    }

    /// Whether two things of one directory had come to the same name, and each repair let another one of them keep it; or the one that keeps it in
    /// ours is the one that had it before the damage.
    fn changed_names(&self, path: &[u8], ours: &[u8]) -> bool {
        let is_second = |tree: &Tree, path: &[u8]| {
            is_numbered(path) && !self.sound.nodes.contains_key(path) && tree.nodes.contains_key(path)
        };
        let Some(first) = self.ours.nodes.get(path).map(|first| first.inode) else { return false };
        let is_rightful = self.sound.nodes.get(path).is_some_and(|node| node.inode == first);
        let is_in_turn = |paths: &[Vec<u8>]| {
            paths.iter().any(|other| is_second(self.theirs, other) && folder(other) == folder(path))
        };
        // What was there under another name, and the reference has not kept there, is not in the way of its name.
        let is_here = |tree: &Tree| {
            let paths = tree.by_inode(first).map(|(_, paths)| paths).unwrap_or_default();
            paths.iter().any(|other| folder(other) == folder(path))
        };
        let is_only_ours = is_here(self.sound) && !is_here(self.theirs);
        is_second(self.ours, ours)
            && folder(ours) == folder(path)
            && (is_rightful
                || is_only_ours
                || self.theirs.by_inode(first).is_some_and(|(_, paths)| is_in_turn(paths)))
    }

    /// Whether the reference gave something a number because another thing has the name that it has in ours: the two had come to one name.
    fn made_way(&self, path: &[u8], ours: &[u8]) -> bool {
        is_numbered(path) && self.theirs.nodes.contains_key(ours)
    }

    /// Whether what the reference keeps as a file is the value of an attribute of ours.
    fn is_value(&self, theirs: &Node) -> bool {
        let value = theirs.content.wrapping_add(theirs.size << 40);
        self.ours.nodes.values().any(|node| node.attributes.values().any(|ours| *ours == value))
    }

    /// Whether a thing that the reference keeps as `path` may stand at `ours`: where it was before the damage, or one of
    /// the two names was made up: of something that lost its name, or of something whose name another one in the same directory has.
    fn may_stand_for(&self, path: &[u8], ours: &[u8]) -> bool {
        let is_new = !self.sound.nodes.contains_key(path);
        let gave_way = is_numbered(ours) && (is_numbered(path) || self.ours.nodes.contains_key(path));
        is_made_up(path)
            || is_made_up(ours) && is_new
            || self.sound.nodes.contains_key(ours)
            || is_new && folder(path) == folder(ours) && (gave_way || self.made_way(path, ours))
    }
}

/// Whether a name ends as those do that repairs give to the second one of a name: `~` and a number.
fn is_numbered(path: &[u8]) -> bool {
    let mut parts = path.rsplitn(2, |byte| *byte == b'~');
    let number = parts.next().unwrap_or_default();
    parts.next().is_some() && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

fn folder(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.get(..end).unwrap_or_default()
}

fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn is_made_up(path: &[u8]) -> bool {
    path.starts_with(b"lost+found/")
}

fn show(path: &[u8]) -> String {
    format!("/{}", path.escape_ascii())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;

    fn node(inode: u32, content: u64) -> Node {
        Node {
            inode,
            at: u64::from(inode) * 128,
            kind: 0o100_000,
            mode: 0o644,
            owner: (0, 0),
            size: 3 * 1024,
            content,
            parts: Arc::new(BTreeMap::from([(0, content)])),
            attributes: BTreeMap::new(),
            has_blocks: true,
        }
    }

    fn tree(nodes: &[(&str, Node)]) -> Tree {
        let mut tree = Tree::default();
        for (path, node) in nodes {
            tree.nodes.insert(path.as_bytes().to_vec(), node.clone());
            tree.paths.entry(node.inode).or_default().push(path.as_bytes().to_vec());
            tree.records.insert(node.at, node.inode);
        }
        tree
    }

    fn losses(sound: &[(&str, Node)], theirs: &[(&str, Node)], ours: &[(&str, Node)]) -> Vec<String> {
        let (sound, theirs, ours) = (tree(sound), tree(theirs), tree(ours));
        let trees = Trees { sound: &sound, theirs: &theirs, ours: &ours, spoiled: &Spoiled::default() };
        trees.losses().into_iter().map(|loss| loss.kind).collect()
    }

    #[test]
    fn what_is_gone_is_lost() {
        let file = [("a", node(12, 1))];
        assert_eq!(losses(&file, &file, &[]), ["file lost"]);
        assert!(losses(&file, &[], &[]).is_empty(), "the reference lost it too");
    }

    #[test]
    fn what_is_as_before_the_damage_is_right() {
        let (before, after) = ([("a", node(12, 1))], [("a", node(12, 2))]);
        assert!(losses(&before, &after, &before).is_empty());
        assert_eq!(losses(&before, &before, &after), ["content of intact file differs"]);
    }

    #[test]
    fn a_damaged_name_may_stand_in_the_directory_that_it_was_in() {
        let folder = |inode: u32| Node { kind: 0o040_000, ..node(inode, 0) };
        let (root, a, b) = (("", folder(2)), ("a", folder(13)), ("b", folder(14)));
        let with = |name| [root.clone(), a.clone(), b.clone(), (name, node(12, 1))];
        let before = with("a/name");
        assert!(losses(&before, &with("b/nXme"), &with("a/nXme")).is_empty());
        assert_eq!(losses(&before, &with("a/nXme"), &with("b/nXme")), ["file lost"]);
        assert_eq!(losses(&before, &with("b/nXme"), &with("a/nYme")), ["file lost"]);
    }

    #[test]
    fn the_owner_of_a_root_counts_where_the_reference_kept_it() {
        let root = |group: u32| ("", Node { kind: 0o040_000, owner: (0, group), ..node(2, 0) });
        let (file, ours) = (("a", node(12, 1)), [root(2048), ("a", node(12, 1))]);
        let before = [root(0), file.clone()];
        assert!(
            losses(
                &before,
                &[root(0), ("lost+found", node(11, 1))],
                &[root(2048), ("lost+found", node(11, 1))]
            )
            .is_empty()
        );
        assert_eq!(losses(&before, &before, &ours), ["owner of intact directory differs"]);
        assert_eq!(losses(&before, &[root(0)], &[]), ["directory lost"]);
    }

    #[test]
    fn a_new_lost_and_found_has_the_owner_that_all_have() {
        let folder = |group: u32, mode: u16| Node { kind: 0o040_000, owner: (0, group), mode, ..node(11, 0) };
        let of = |group, mode| [("lost+found", folder(group, mode))];
        assert!(losses(&of(0, 0o700), &of(0, 0o700), &of(7, 0o700)).is_empty());
        assert_eq!(
            losses(&of(0, 0o755), &of(0, 0o755), &of(7, 0o755)),
            ["owner of intact directory differs"]
        );
        let used = [("lost+found", folder(0, 0o700)), ("lost+found/a", node(12, 1))];
        let ours = [("lost+found", folder(7, 0o700)), ("lost+found/a", node(12, 1))];
        assert_eq!(losses(&used, &used, &ours), ["owner of intact directory differs"]);
        assert_eq!(losses(&of(0, 0o700), &of(0, 0o700), &[]), ["directory lost"]);
    }

    #[test]
    fn an_empty_file_that_only_a_strangers_block_names_may_go() {
        let folder = |inode: u32| Node { kind: 0o040_000, ..node(inode, 0) };
        let empty = Node { size: 0, content: 0, parts: Arc::default(), has_blocks: false, ..node(12, 0) };
        let with = |name, file: &Node| [("a", folder(13)), ("b", folder(14)), (name, file.clone())];
        let nothing = [("a", folder(13)), ("b", folder(14))];
        assert!(losses(&with("a/name", &empty), &with("b/name", &empty), &nothing).is_empty());
        assert_eq!(losses(&with("a/name", &empty), &with("a/name", &empty), &nothing), ["file lost"]);
        let file = node(12, 1);
        assert_eq!(losses(&with("a/name", &file), &with("b/name", &file), &nothing), ["file lost"]);
    }

    #[test]
    fn a_name_may_be_taken_by_what_the_reference_has_not_kept() {
        let folder = ("a", Node { kind: 0o040_000, ..node(13, 0) });
        let before = [folder.clone(), ("a/first-1", node(12, 1)), ("a/first-2", node(14, 2))];
        let theirs = [folder.clone(), ("a/first", node(12, 1))];
        let ours = [folder.clone(), ("a/first", node(14, 2)), ("a/first~0", node(12, 1))];
        assert!(losses(&before, &theirs, &ours).is_empty());
        // The other way round: the reference gave the number, and ours has the name that made it do so.
        let theirs_numbered = [folder.clone(), ("a/first", node(14, 2)), ("a/first~0", node(12, 1))];
        let ours_plain = [folder.clone(), ("a/first", node(12, 1)), ("a/first~0", node(14, 2))];
        assert!(losses(&before, &theirs_numbered, &ours_plain).is_empty());
        let both = [folder, ("a/first", node(12, 1)), ("a/first-2", node(14, 2))];
        assert!(!losses(&before, &both, &ours).is_empty(), "it is kept under its own name");
    }

    #[test]
    fn holes_may_be_filled_by_a_repair_that_saves_as_many_parts() {
        let file = |parts: &[(u64, u64)]| {
            let content = parts.iter().map(|(_, part)| part).sum();
            [(
                "a",
                Node {
                    size: 9 * 1024,
                    parts: Arc::new(parts.iter().copied().collect()),
                    ..node(12, content)
                },
            )]
        };
        let before = file(&[(0, 1), (2, 2), (4, 3)]);
        let theirs = file(&[(0, 1)]);
        assert!(losses(&before, &theirs, &file(&[(0, 1), (2, 2), (6, 7)])).is_empty());
        assert_eq!(losses(&before, &theirs, &file(&[(0, 1), (6, 7)])), ["content of file differs"]);
        assert_eq!(losses(&before, &theirs, &file(&[(0, 9), (2, 2)])), ["content of file differs"]);
    }

    #[test]
    fn what_the_reference_spoils_may_stay_as_it_was() {
        let link = |target: u64, mode: u16| [("a", Node { kind: 0o120_000, mode, ..node(12, target) })];
        let (before, theirs) = (link(1, 0o777), link(2, 0o700));
        assert!(losses(&before, &theirs, &link(1, 0o700)).is_empty(), "as before, and as theirs");
        assert_eq!(losses(&before, &theirs, &link(3, 0o700)), ["content of link differs"]);
        assert_eq!(losses(&before, &theirs, &link(1, 0o755)), ["permissions of link differs"]);
    }

    #[test]
    fn parts_that_were_damaged_may_be_anything_and_the_others_stay() {
        let of = |parts: [u64; 3]| {
            let parts = BTreeMap::from_iter((0..).zip(parts));
            let content = parts.values().sum();
            [("a", Node { parts: Arc::new(parts), ..node(12, content) })]
        };
        let (before, theirs) = (of([1, 2, 3]), of([1, 7, 3]));
        assert!(losses(&before, &theirs, &of([1, 8, 3])).is_empty());
        assert_eq!(losses(&before, &theirs, &of([1, 7, 4])), ["content of file differs"]);
        assert_eq!(losses(&before, &before, &of([1, 8, 3])), ["content of intact file differs"]);
    }

    #[test]
    fn what_lies_behind_the_end_that_a_file_had_may_be_anything() {
        let of = |size: u64, parts: &[(u64, u64)]| {
            let content = parts.iter().map(|(_, sum)| sum).sum();
            [("a", Node { size, parts: Arc::new(parts.iter().copied().collect()), ..node(12, content) })]
        };
        let (before, theirs) = (of(1024, &[(0, 1)]), of(9216, &[(0, 1)]));
        assert!(losses(&before, &theirs, &of(9216, &[(0, 1), (8, 5)])).is_empty());
        assert_eq!(losses(&before, &theirs, &of(9216, &[(8, 5)])), ["content of file differs"]);
    }

    #[test]
    fn a_part_may_be_cut_where_the_reference_has_lost_the_length() {
        let of = |size: u64, parts: [u64; 3]| {
            let parts = BTreeMap::from_iter((0..).zip(parts).filter(|(_, sum)| *sum > 0));
            let content = parts.values().sum();
            [("a", Node { size, parts: Arc::new(parts), ..node(12, content) })]
        };
        // Its length was damaged a little, and a pointer as well, to which the reference lets the file grow.
        let (before, theirs) = (of(3000, [1, 2, 3]), of(9216, [1, 2, 3]));
        assert!(losses(&before, &theirs, &of(2990, [1, 2, 4])).is_empty());
        assert_eq!(losses(&before, &theirs, &of(2990, [1, 5, 4])).len(), 1, "a part before that");
        assert_eq!(losses(&before, &theirs, &of(1500, [1, 5, 0])).len(), 1, "a part behind it");
        assert_eq!(losses(&before, &before, &of(2990, [1, 2, 4])).len(), 1, "the reference has kept it");
    }

    #[test]
    fn a_file_with_a_new_name_is_known_by_its_record() {
        let (before, theirs) = ([("a", node(12, 1))], [("b", node(12, 2))]);
        assert!(losses(&before, &theirs, &[("b", node(12, 1))]).is_empty(), "as before, under its new name");
        let kept = [("b", node(12, 1))];
        assert_eq!(losses(&before, &kept, &[("b", node(12, 3))]), ["content of intact file differs"]);
        // With another number as well: the record stands where it stood.
        let renumbered = [("lost+found/#8", Node { inode: 8, ..node(12, 2) })];
        assert!(losses(&before, &renumbered, &before).is_empty());
        assert_eq!(losses(&before, &renumbered, &[]), ["file lost"]);
    }

    #[test]
    fn attributes_may_be_more_and_not_fewer() {
        let with = |names: &[&str]| {
            let attributes = names.iter().map(|name| (name.as_bytes().to_vec(), 1)).collect();
            [("a", Node { attributes, ..node(12, 1) })]
        };
        assert!(losses(&with(&["one", "two"]), &with(&["one"]), &with(&["one", "new"])).is_empty());
        assert_eq!(
            losses(&with(&["one", "two"]), &with(&["one"]), &with(&["two"])),
            ["attributes of file differs"]
        );
    }

    #[test]
    fn a_name_that_the_kernel_refuses_may_be_another() {
        let with = |name: &str, value| {
            let attributes = BTreeMap::from([(name.as_bytes().to_vec(), value)]);
            [("a", Node { attributes, ..node(12, 1) })]
        };
        let (before, theirs) = (with("one", 7), with("o\0e", 7));
        assert!(losses(&before, &theirs, &with("o_e", 7)).is_empty());
        assert_eq!(losses(&before, &theirs, &with("o_e", 8)), ["attributes of file differs"]);
        assert_eq!(losses(&before, &with("oxe", 7), &with("o_e", 7)), ["attributes of file differs"]);
    }

    #[test]
    fn second_ones_of_a_name_may_be_numbered_in_any_way() {
        let before = [("d/ab", node(12, 1)), ("d/abc", node(13, 2))];
        // The name of 13 was damaged, so that there were two of one name.
        let theirs = [("d/ab", node(12, 1)), ("d/a~0", node(13, 2))];
        let ours = |name| [("d/ab", node(12, 1)), (name, node(13, 2))];
        assert!(losses(&before, &theirs, &ours("d/ab~0")).is_empty());
        for other in ["d/abx", "d/ab~", "d/ab~x", "e/ab~0"] {
            assert_eq!(losses(&before, &theirs, &ours(other)), ["file lost"], "{other}");
        }
        let known = [("d/ab", node(12, 1)), ("d/abc~0", node(13, 2))];
        assert_eq!(losses(&known, &known, &ours("d/ab~0")), ["file lost"], "a name that was always there");
    }

    #[test]
    fn either_of_two_things_of_one_name_may_keep_it() {
        let before = [("d/a", node(12, 1)), ("d/b", node(13, 2))];
        let (theirs, ours) =
            ([("d/a", node(12, 1)), ("d/a~0", node(13, 2))], [("d/a", node(13, 2)), ("d/a~1", node(12, 1))]);
        assert!(losses(&before, &theirs, &ours).is_empty());
        let elsewhere = [("d/a", node(13, 2)), ("e/a~1", node(12, 1))];
        assert_eq!(losses(&before, &theirs, &elsewhere), ["content of intact file differs"]);
        // Nothing had the same name for the reference.
        assert_eq!(losses(&before, &before, &ours), ["content of intact file differs"]);
    }

    #[test]
    fn the_one_that_had_a_name_may_keep_it() {
        let folder = || ("d", Node { kind: 0o040_000, ..node(12, 0) });
        let of = |path, inode| (path, node(inode, u64::from(inode)));
        // The name of 15 was damaged into that of 14, which the reference cleared.
        let before = [folder(), of("d/a", 14), of("d/b", 15)];
        let theirs = [folder(), of("d/a", 15)];
        // Its owner is damaged as well.
        let spoiled = || ("d/a", Node { owner: (7, 7), ..node(14, 14) });
        assert!(losses(&before, &theirs, &[folder(), spoiled(), of("d/a~0", 15)]).is_empty());
        assert_eq!(losses(&before, &theirs, &[folder(), spoiled()]).len(), 1, "the other one is gone");
        let other = ("d/a", Node { owner: (7, 7), ..node(16, 16) });
        let structured_damage = [folder(), other, of("d/a~0", 15)];
        assert_eq!(losses(&before, &theirs, &structured_damage).len(), 1, "it never had that name");
    }

    #[test]
    fn a_name_that_the_reference_adds_elsewhere_is_none_that_was_lost() {
        let folder = |inode| Node { kind: 0o040_000, ..node(inode, 0) };
        let with = |files: &[(&'static str, u32)]| {
            let files = files.iter().map(|(path, inode)| (*path, node(*inode, u64::from(*inode))));
            [("d", folder(12)), ("e", folder(13))].into_iter().chain(files).collect::<Vec<_>>()
        };
        // The name of 15 was damaged, so that there were two of one name, and each repair let another one keep it.
        let before = with(&[("d/a", 14), ("d/b", 15)]);
        let ours = with(&[("d/a", 15), ("d/a~0", 14)]);
        let theirs =
            |further: &[(&'static str, u32)]| with(&[&[("d/a", 14), ("d/a~0", 15)], further].concat());
        assert!(losses(&before, &theirs(&[]), &ours).is_empty());
        assert!(losses(&before, &theirs(&[("e/a", 14)]), &ours).is_empty());
        assert_eq!(
            losses(&before, &theirs(&[("d/c", 14)]), &ours),
            ["file lost"],
            "where it was, each counts"
        );
        let moved = with(&[("d/a", 15), ("e/a", 14)]);
        assert_eq!(losses(&before, &moved, &ours), ["file lost"], "its only name");
        assert_eq!(losses(&before, &theirs(&[("e/a", 14)]), &with(&[])).len(), 3, "nothing of it is left");
    }

    #[test]
    fn what_lies_in_a_directory_moves_with_it() {
        let folder = |inode| Node { kind: 0o040_000, ..node(inode, 0) };
        let before = [("d", folder(12)), ("e", folder(13)), ("d/f", folder(14)), ("d/f/a", node(15, 1))];
        let theirs = [("d", folder(12)), ("e", folder(13)), ("d/f", folder(14)), ("d/f/x", node(15, 1))];
        let ours = [("d", folder(12)), ("e", folder(13)), ("e/f", folder(14)), ("e/f/x", node(15, 1))];
        assert_eq!(losses(&before, &theirs, &ours), ["directory lost"], "and not what is in it");
        let other = [("d", folder(12)), ("e", folder(13)), ("e/g", folder(14)), ("e/g/y", node(15, 1))];
        assert_eq!(losses(&before, &theirs, &other), ["directory lost", "file lost"]);
    }

    #[test]
    fn what_is_kept_without_a_name_and_without_anything_that_it_was_is_no_loss() {
        let of = |parts: &[(u64, u64)], size, kind| {
            let content = parts.iter().map(|(_, sum)| sum).sum();
            Node {
                kind,
                size,
                content,
                parts: Arc::new(parts.iter().copied().collect()),
                ..node(12, content)
            }
        };
        const FILE: u16 = 0o100_000;
        let before = [("a", of(&[(0, 1), (1, 2)], 2048, FILE))];
        let lost = |name, theirs| losses(&before, &[(name, theirs)], &[]);
        assert!(lost("lost+found/#12", of(&[(0, 7), (2, 2)], 4096, FILE)).is_empty(), "only other parts");
        assert_eq!(lost("lost+found/#12", of(&[(0, 7), (1, 2)], 4096, FILE)), ["file lost"], "a part of it");
        assert_eq!(lost("lost+found/#12", of(&[(0, 7)], 2048, FILE)), ["file lost"], "its length");
        assert_eq!(lost("a", of(&[(0, 7)], 4096, FILE)), ["file lost"], "its name");
        assert!(lost("lost+found/#12", of(&[], 0, 0o140_000)).is_empty(), "another type");
        let empty = [("a", Node { has_blocks: false, ..of(&[], 0, FILE) })];
        let foreign = [("lost+found/#12", of(&[(3, 7)], 4096, FILE))];
        assert!(losses(&empty, &foreign, &[]).is_empty(), "an empty one, with blocks of others");
        let hole = |has_blocks| [("lost+found/#12", Node { has_blocks, ..of(&[], 4096, FILE) })];
        assert_eq!(
            losses(&empty, &hole(false), &[]),
            ["file lost"],
            "an empty one that is still nearly that"
        );
        assert!(losses(&empty, &hole(true), &[]).is_empty(), "an empty one, with blocks full of zeroes");
        let with_attributes = [("a", of(&[], 0, FILE))];
        assert_eq!(
            losses(&with_attributes, &hole(true), &[]),
            ["file lost"],
            "its block is that of attributes"
        );
        let nameless = [("lost+found/#12", of(&[], 0, FILE))];
        assert_eq!(losses(&empty, &nameless, &[]), ["file lost"], "it was empty before");
    }

    #[test]
    fn an_inode_that_there_never_was_is_no_loss() {
        let before = Tree { inodes_count: 16, ..tree(&[("a", node(12, 1))]) };
        let lost = |name, inode| {
            let (theirs, ours) = (tree(&[(name, node(inode, 7))]), tree(&[("a", node(12, 1))]));
            let trees = Trees { sound: &before, theirs: &theirs, ours: &ours, spoiled: &Spoiled::default() };
            trees.losses().len()
        };
        assert_eq!(lost("lost+found/#17", 17), 0);
        assert_eq!(lost("lost+found/#16", 16), 1, "its number was there");
        assert_eq!(lost("b", 17), 1, "it has a name");
    }

    #[test]
    fn names_in_lost_and_found_may_be_any() {
        let before = [("a", node(12, 1))];
        let (theirs, ours) = ([("lost+found/#12", node(12, 1))], [("lost+found/x", node(12, 1))]);
        assert!(losses(&before, &theirs, &ours).is_empty());
        assert!(losses(&before, &theirs, &before).is_empty(), "a name that is still known is better");
        assert_eq!(losses(&before, &before, &ours), ["file lost"], "a name that the reference keeps is kept");
    }
}
