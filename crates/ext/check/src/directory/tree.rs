// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree: directories without a name, in loops, with a wrong parent entry; the root. The engine [checks it](fsmend_engine::crosscheck::tree).

use fsmend_engine::crosscheck::tree::{Rows, TreeRows};

use super::problems as rows;
use crate::Fs;

impl TreeRows for Fs<'_> {
    fn tree_rows(&self) -> Rows {
        Rows {
            root_missing: &rows::ROOT_MISSING,
            unconnected: &rows::UNCONNECTED,
            looped: &rows::LOOPED,
            parent_wrong: &rows::PARENT_WRONG,
        }
    }
}
