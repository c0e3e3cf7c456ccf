// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a description of a file system says: values, and tables such as histograms, which people and programs read in different forms.

use crate::Value;

/// A value, or a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    /// A value.
    Value(Value),
    /// A table: programs get the numbers, people the text.
    Table(Vec<TableRow>),
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// For people.
    pub text: String,
    /// For programs: names and numbers.
    pub members: Vec<(&'static str, u64)>,
}

impl<V: Into<Value>> From<V> for Detail {
    fn from(value: V) -> Detail {
        Detail::Value(value.into())
    }
}
