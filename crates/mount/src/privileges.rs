// SPDX-License-Identifier: MIT OR Apache-2.0
//! Set-user-ID and set-group-ID bits go when a file is written by others, and when it is given away. The kernel leaves that to the server where both
//! agree on it (`FUSE_HANDLE_KILLPRIV_V2`): then it need not look before every write whether there is something to be dropped.

use fsmend_base::InodeNo;
use fsmend_vfs::{FileKind, FileSystem, Result, SetAttributes, Time};

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o010;

/// A mode without the bits; `None` if it has none that go. (Without execution for the group, the set-group-ID bit once meant locks.)
fn without(mode: u16) -> Option<u16> {
    let group = if mode & GROUP_EXECUTE != 0 { SET_GROUP_ID } else { 0 };
    let left = mode & !(SET_USER_ID | group);
    (left != mode).then_some(left)
}

fn mode_without(fs: &mut dyn FileSystem, inode: InodeNo) -> Result<Option<u16>> {
    let of = fs.getattr(inode)?;
    Ok(if of.kind == FileKind::Directory { None } else { without(of.of.mode) })
}

/// Takes the bits away before a write that drops them.
pub(crate) fn drop_privileges(fs: &mut dyn FileSystem, inode: InodeNo, now: Time) -> Result<()> {
    if let Some(mode) = mode_without(fs, inode)? {
        fs.setattr(inode, &SetAttributes { mode: Some(mode), ..SetAttributes::default() }, now)?;
    }
    Ok(())
}

/// What `changes` come to with the mode that is left after them. Giving a file away takes the bits, whoever does it; so does another length, unless
/// the superuser sets it. A request that changes nothing comes from chown(2) without owner and group, or before a write.
pub(crate) fn after_change(
    fs: &mut dyn FileSystem,
    inode: InodeNo,
    changes: SetAttributes,
    uid: u32,
) -> Result<SetAttributes> {
    let is_given = changes.uid.is_some() || changes.gid.is_some();
    let is_cut = changes.size.is_some() && uid != 0;
    let drops = is_given || is_cut || changes == SetAttributes::default();
    if !drops || changes.mode.is_some() {
        return Ok(changes);
    }
    Ok(SetAttributes { mode: mode_without(fs, inode)?, ..changes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bits_that_give_rights_go() {
        assert_eq!(without(0o6755), Some(0o755));
        assert_eq!(without(0o2745), None);
        assert_eq!(without(0o4644), Some(0o644));
        assert_eq!(without(0o2755), Some(0o755));
        assert_eq!(without(0o1755), None);
    }
}
