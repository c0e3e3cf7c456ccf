// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree before and after a repair, as far as it changes.

use std::collections::BTreeSet;

use fsmend_engine::{Action, FileChange};
use serde::Serialize;

/// A name that goes, comes, or becomes another one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct TreeChange {
    /// The path before the repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The path after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What happens to the names of `files`, in the order of the paths before.
pub fn of_files(files: &[FileChange]) -> Vec<TreeChange> {
    files.iter().flat_map(of_file).collect::<BTreeSet<_>>().into_iter().collect()
}

fn of_file(file: &FileChange) -> Vec<TreeChange> {
    let mut gone: Vec<String> = Vec::new();
    let mut come: Vec<String> = Vec::new();
    let mut changes = Vec::new();
    for action in &file.actions {
        match action {
            Action::Renamed(from, to) => {
                changes.push(TreeChange { before: Some(from.clone()), after: Some(to.clone()) });
            }
            Action::NameRemoved(path) => gone.push(path.clone()),
            Action::MovedToLostFound(name) if name.starts_with('/') => come.push(name.clone()),
            Action::MovedToLostFound(name) => come.push(format!("/lost+found/{name}")),
            Action::Removed => gone.extend(file.path.clone()),
            _ => {}
        }
    }
    let mut gone = gone.into_iter();
    for after in come {
        changes.push(TreeChange { before: gone.next(), after: Some(after) });
    }
    changes.extend(gone.map(|before| TreeChange { before: Some(before), after: None }));
    changes
}

#[cfg(test)]
mod tests {
    use fsmend_base::InodeNo;
    use fsmend_engine::InodeState;
    use fsmend_engine::inodes::Kind;

    use super::*;

    fn file(path: Option<&str>, actions: Vec<Action>) -> FileChange {
        FileChange {
            inode: InodeNo(12),
            path: path.map(str::to_owned),
            former_names: Vec::new(),
            kind: Kind::Regular,
            state: InodeState::InUse,
            size: None,
            actions,
            losses: Vec::new(),
        }
    }

    fn told(file: &FileChange) -> Vec<(Option<String>, Option<String>)> {
        of_files(std::slice::from_ref(file)).into_iter().map(|change| (change.before, change.after)).collect()
    }

    #[test]
    fn names_go_come_and_move() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(told(&file(Some("/a"), vec![Action::Removed])), [(some("/a"), None)]);
        assert_eq!(told(&file(Some("/a"), vec![Action::Corrected])), []);
        let moved = vec![
            Action::MovedToLostFound("#12.b".to_owned()),
            Action::NameRemoved("/a/b".to_owned()),
            Action::NameRemoved("/a/c".to_owned()),
        ];
        let expected = [(some("/a/b"), some("/lost+found/#12.b")), (some("/a/c"), None)];
        assert_eq!(told(&file(None, moved)), expected);
        let renamed = vec![Action::Renamed("/a".to_owned(), "/a~0".to_owned())];
        assert_eq!(told(&file(Some("/a"), renamed)), [(some("/a"), some("/a~0"))]);
    }
}
