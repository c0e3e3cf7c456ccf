// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of POSIX for names that hold in every format: which names there can be, which can be taken away, whose a new file is.

use fsmend_vfs::{
    DeviceNumber, Errno, FileKind, InodeNo, NewFile, NewKind, Permissions, RenameFlags, Result,
};

/// Bytes of the longest name.
pub const NAME_MAX: usize = 255;

/// The set-group-ID bit.
pub(crate) const SET_GROUP_ID: u16 = 0o2000;

/// An error if `name` is too long to be looked up.
pub fn check_len(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX { Err(Errno::NameTooLong) } else { Ok(()) }
}

/// An error if no file can have the name `name`.
pub fn check(name: &[u8]) -> Result<()> {
    check_len(name)?;
    if name.is_empty() || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Err(Errno::Invalid);
    }
    Ok(())
}

/// Whether `name` is `.` or `..`.
pub fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// An error if `name` cannot be taken away, by `rmdir` (`as_directory`) or by `unlink`.
pub fn check_removal(name: &[u8], as_directory: bool) -> Result<()> {
    match (name, as_directory) {
        (b".", true) => Err(Errno::Invalid),
        (b"..", true) => Err(Errno::NotEmpty),
        (b"." | b"..", false) => Err(Errno::IsDirectory),
        _ => Ok(()),
    }
}

/// An error if a file that is a directory or not (`is_directory`) cannot lose its name by `rmdir` (`as_directory`) or by `unlink`.
pub fn check_removable(
    is_directory: bool,
    as_directory: bool,
    is_empty: impl FnOnce() -> Result<bool>,
) -> Result<()> {
    match (is_directory, as_directory) {
        (true, false) => Err(Errno::IsDirectory),
        (false, true) => Err(Errno::NotDirectory),
        (true, true) if !is_empty()? => Err(Errno::NotEmpty),
        _ => Ok(()),
    }
}

/// An error if no name can be moved from `old` to `new`.
pub fn check_rename(old: &[u8], new: &[u8]) -> Result<()> {
    check(old)?;
    check(new)?;
    if is_dots(old) || is_dots(new) { Err(Errno::Invalid) } else { Ok(()) }
}

/// An error if the directory `at` is `moved` or lies below it: a directory must not become its own ancestor. `parent_of` tells the parent of a directory, none that of
/// the root. `None` if no root was found among `limit` directories: they form a circle.
pub fn check_not_below(
    moved: InodeNo,
    mut at: InodeNo,
    limit: u64,
    mut parent_of: impl FnMut(InodeNo) -> Result<Option<InodeNo>>,
) -> Option<Result<()>> {
    for _ in 0..limit {
        if at == moved {
            return Some(Err(Errno::Invalid));
        }
        match parent_of(at) {
            Ok(Some(parent)) if parent != at => at = parent,
            Ok(_) => return Some(Ok(())),
            Err(error) => return Some(Err(error)),
        }
    }
    None
}

/// An error if the rename `how` asks for the opposite of what `exists` says about the new name.
pub fn check_new_name(exists: bool, how: RenameFlags) -> Result<()> {
    match (exists, how) {
        (true, RenameFlags::NoReplace) => Err(Errno::Exists),
        (false, RenameFlags::Exchange) => Err(Errno::NotFound),
        _ => Ok(()),
    }
}

/// An error if no symbolic link can lead to `target`.
pub fn check_target(target: &[u8]) -> Result<()> {
    if target.is_empty() || target.contains(&0) { Err(Errno::Invalid) } else { Ok(()) }
}

/// Owner and mode of a new file of the kind `kind` in a directory with `parent`: a directory with the set-group-id bit hands its group down, and the bit to directories.
pub fn inherited(parent: Permissions, of: Permissions, kind: FileKind) -> Permissions {
    if parent.mode & SET_GROUP_ID == 0 {
        return of;
    }
    let bit = if kind == FileKind::Directory { SET_GROUP_ID } else { 0 };
    Permissions { gid: parent.gid, mode: of.mode | bit, ..of }
}

/// What overlay file systems leave under a name that is to look removed, made on behalf of `uid` and `gid`.
pub fn whiteout(uid: u32, gid: u32) -> NewFile<'static> {
    let device = DeviceNumber { major: 0, minor: 0 };
    NewFile { kind: NewKind::CharDevice(device), of: Permissions { mode: 0, uid, gid } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be() {
        assert_eq!(check(b""), Err(Errno::Invalid));
        assert_eq!(check(b"a/b"), Err(Errno::Invalid));
        assert_eq!(check(b"a\0"), Err(Errno::Invalid));
        assert_eq!(check(&[b'x'; NAME_MAX]), Ok(()));
        assert_eq!(check(&[b'/'; NAME_MAX + 1]), Err(Errno::NameTooLong));
    }

    #[test]
    fn dots_cannot_be_removed() {
        assert_eq!(check_removal(b".", true), Err(Errno::Invalid));
        assert_eq!(check_removal(b"..", true), Err(Errno::NotEmpty));
        assert_eq!(check_removal(b"..", false), Err(Errno::IsDirectory));
        assert_eq!(check_removal(b"...", false), Ok(()));
    }

    #[test]
    fn no_directory_becomes_its_own_ancestor() {
        // Each directory lies in the one with half its number.
        let below = |moved, at| {
            check_not_below(InodeNo(moved), InodeNo(at), 10, |InodeNo(at)| Ok(Some(InodeNo((at / 2).max(1)))))
        };
        assert_eq!(below(5, 5), Some(Err(Errno::Invalid)));
        assert_eq!(below(2, 11), Some(Err(Errno::Invalid)));
        assert_eq!(below(4, 11), Some(Ok(())));
        assert_eq!(below(4, u32::MAX), None);
        assert_eq!(check_not_below(InodeNo(2), InodeNo(3), 10, |_| Ok(None)), Some(Ok(())));
        assert_eq!(check_not_below(InodeNo(2), InodeNo(3), 10, |_| Err(Errno::Io)), Some(Err(Errno::Io)));
    }

    #[test]
    fn the_group_goes_down_with_the_bit() {
        let parent = Permissions { mode: 0o2755, uid: 1, gid: 7 };
        let of = Permissions { mode: 0o644, uid: 2, gid: 2 };
        assert_eq!(inherited(parent, of, FileKind::Regular), Permissions { gid: 7, ..of });
        assert_eq!(inherited(parent, of, FileKind::Directory), Permissions { mode: 0o2644, gid: 7, ..of });
        assert_eq!(inherited(Permissions { mode: 0o755, ..parent }, of, FileKind::Directory), of);
    }
}
