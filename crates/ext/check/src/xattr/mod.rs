// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes: in the inode, in an attribute block, in inodes of their own.
//!
//! An inode's attributes stand in two places: behind `i_extra_isize` in its own record ([`inspect_in_inode`]) and in an
//! attribute block that several inodes with equal attributes may share ([`inspect_block`]). Values may lie in inodes of
//! their own. Where the layout of an area is broken, nothing in it can be believed and all of it goes; where only one
//! entry is wrong, that entry goes and the others stay.

mod acl;
mod area;
mod block;
mod encryption;
mod in_inode;
mod lists;
mod names;
mod order;
pub(crate) mod problems;
mod region;
pub(crate) mod repair;
mod table_end;
mod value_inode;
pub(crate) mod value_mend;

use fsmend_base::InodeNo;

pub use block::{BlockAttributes, inspect_block, inspect_pointer, read_and_inspect_block, settle_block};
pub use encryption::{EncryptionState, inspect_encryption, policies_agree, policy_of};
pub(crate) use in_inode::find_value;
pub use in_inode::{InInodeAttributes, inspect_in_inode};
pub use value_inode::check_value_inodes;
pub(crate) use value_inode::holds_value;

/// A reference to an inode that holds an attribute value, with the hash that the entry stores.
pub type ValueReference = (InodeNo, u32);

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
