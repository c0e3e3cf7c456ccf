// SPDX-License-Identifier: MIT OR Apache-2.0
//! Problems and the catalogue they come from.
//!
//! A [`Row`] is one kind of problem: stable code, severity, texts. A [`Problem`] is one row found at one place.
//! Rows are written next to the check that raises them with [`problem_rows!`](crate::problem_rows); messages,
//! JSON, `explain` and the documentation are all generated from them.

mod findings;
pub mod witness;

pub use findings::{Findings, KEPT_PER_ROW, Mark};

use fsmend_base::{BlockNo, GroupNo, InodeNo};

use crate::names::former::FormerName;

/// How bad a kind of problem is, mildest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Worth saying, but the file system is sound with it: does not count for the verdict.
    Note,
    /// Bookkeeping is wrong (counts, bitmaps, checksums of intact contents); no file is affected by it or by its repair.
    Minor,
    /// A file, directory or structure is wrong; the repair may change what users see.
    Major,
    /// Much of the file system hangs on it.
    Critical,
}

impl Severity {
    /// The word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Minor => "minor",
            Severity::Major => "major",
            Severity::Critical => "critical",
        }
    }
}

/// What proves a problem (ffsck §4.3.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Evidence {
    /// One record proves it by itself: a self-check.
    Local,
    /// It takes several records: a cross-check.
    Cross,
}

impl Evidence {
    /// The word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Evidence::Local => "self-check",
            Evidence::Cross => "cross-check",
        }
    }
}

/// One kind of problem: a row of the catalogue. All texts are plain sentences for the person at the console.
#[derive(Debug)]
pub struct Row {
    /// Stable code, `family.object.what`, e.g. `NAME.inode.links-mismatch`. Never reused, never renamed.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What proves it.
    pub evidence: Evidence,
    /// Whether an unattended repair (`-p`) may fix it.
    pub preen: bool,
    /// One-line message. `{inode}`, `{block}`, `{group}`, `{name}`, `{stored}`, `{observed}` and any detail name in
    /// braces are replaced by the problem's operands; see [`Problem::message`].
    pub message: &'static str,
    /// What it means and how it comes about.
    pub meaning: &'static str,
    /// What a repair does about it.
    pub repair: &'static str,
    /// Whether that repair may lose something.
    pub loses: bool,
    /// What may be lost by it; where nothing is, that says so.
    pub loss: &'static str,
    /// Code numbers of the equivalents in the established checker of the family, if any.
    pub peers: &'static [u32],
    /// What that checker prints for it, where it has messages and no numbers; a part that does not change.
    pub messages: &'static [&'static str],
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl Eq for Row {}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.code.cmp(other.code)
    }
}

/// Declares catalogue rows as statics, and a slice `ROWS` of all of them. Every field is required, but for `messages` behind `peers`.
/// `loss: nothing` says that a repair loses nothing, and can be followed by a sentence in place of "Nothing.".
///
/// ```
/// fsmend_engine::problem_rows! {
///     /// A count that is off.
///     COUNT_WRONG = "demo.count.wrong" {
///         severity: Minor, evidence: Cross, preen: true,
///         message: "group {group} says it has {stored} free blocks, but {observed} are free",
///         meaning: "The count was not updated before the system stopped.",
///         repair: "The count is set to what was counted.",
///         loss: nothing,
///         peers: [0x05000E],
///     }
/// }
/// # fn main() { assert_eq!(ROWS.len(), 1); }
/// ```
#[macro_export]
macro_rules! problem_rows {
    (@loses nothing $($loss:literal)?) => { false };
    (@loses $loss:literal) => { true };
    (@loss nothing) => { "Nothing." };
    (@loss $(nothing)? $loss:literal) => { $loss };
    ($( $(#[$doc:meta])* $name:ident = $code:literal {
        severity: $severity:ident, evidence: $evidence:ident, preen: $preen:literal,
        message: $message:literal,
        meaning: $meaning:literal,
        repair: $repair:literal,
        loss: $($nothing:ident)? $($loss:literal)?,
        peers: [$($peer:literal),* $(,)?] $(, messages: [$($said:literal),* $(,)?])? $(,)?
    } )*) => {
        $( $(#[$doc])* pub static $name: $crate::problem::Row = $crate::problem::Row {
            code: $code,
            severity: $crate::problem::Severity::$severity,
            evidence: $crate::problem::Evidence::$evidence,
            preen: $preen,
            message: $message,
            meaning: $meaning,
            repair: $repair,
            loses: $crate::problem_rows!(@loses $($nothing)? $($loss)?),
            loss: $crate::problem_rows!(@loss $($nothing)? $($loss)?),
            peers: &[$($peer),*],
            messages: &[$($($said),*)?],
        }; )*
        /// All rows of this module, in the order in which they stand here.
        #[allow(dead_code, reason = "rows of tests are in no catalogue")]
        pub static ROWS: &[&$crate::problem::Row] = &[$(&$name),*];
    };
}

/// An operand of a problem: a number or a piece of text as it stands on the disk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Value {
    /// A number, printed in decimal.
    Number(u64),
    /// A bit pattern or checksum, printed in hexadecimal.
    Hex(u64),
    /// Text; bytes that are not UTF-8 were escaped when it was made (see [`Value::name`]).
    Text(String),
    /// A further inode beside the one that the problem is about. Its path is filled in like the object's.
    Inode(InodeNo, Option<String>),
    /// What something was called before.
    Former(FormerName),
    /// Several of them, printed with commas between.
    List(Vec<Value>),
}

impl Value {
    /// A file name as text: printable UTF-8 stays, everything else becomes `\xNN`.
    pub fn name(bytes: &[u8]) -> Value {
        Value::Text(escape_name(bytes))
    }

    /// Calls `visit` for every inode in it, with the place for its path.
    pub fn visit_inodes(&mut self, visit: &mut dyn FnMut(InodeNo, &mut Option<String>)) {
        match self {
            Value::Inode(inode, path) => visit(*inode, path),
            // Lists do not nest.
            Value::List(values) => values.iter_mut().for_each(|value| {
                if let Value::Inode(inode, path) = value {
                    visit(*inode, path);
                }
            }),
            Value::Number(_) | Value::Hex(_) | Value::Text(_) | Value::Former(_) => {}
        }
    }
}

/// Makes a file name printable: control characters, backslashes and bytes that are not UTF-8 become `\xNN`.
pub fn escape_name(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                let mut utf8 = [0; 4];
                for byte in character.encode_utf8(&mut utf8).bytes() {
                    text.push_str(&format!("\\x{byte:02x}"));
                }
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Hex(number) => write!(f, "{number:#x}"),
            Value::Text(text) => f.write_str(text),
            Value::Inode(inode, None) => write!(f, "inode {inode}"),
            Value::Inode(inode, Some(path)) => write!(f, "{path} (inode {inode})"),
            Value::Former(name) => name.fmt(f),
            Value::List(values) => values.iter().enumerate().try_for_each(|(at, value)| {
                f.write_str(if at == 0 { "" } else { ", " })?;
                value.fmt(f)
            }),
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Value::Number(u64::from(number))
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Value::Number(u64::from(number))
    }
}

impl From<u8> for Value {
    fn from(number: u8) -> Self {
        Value::Number(u64::from(number))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

/// What a problem is about; whatever applies is filled in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Object {
    /// The group.
    pub group: Option<GroupNo>,
    /// The inode (for problems in a directory: the directory).
    pub inode: Option<InodeNo>,
    /// The block, as a device block number.
    pub block: Option<BlockNo>,
    /// How many blocks, when it is about a run that starts at `block`.
    pub block_count: Option<u64>,
    /// A path to the inode, filled in at the end of the run when one is known.
    pub path: Option<String>,
}

/// One row found at one place. The derived order (row, object, operands) is the order of the report.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Problem {
    /// What kind of problem.
    pub row: &'static Row,
    /// Where.
    pub object: Object,
    /// What the disk says.
    pub stored: Option<Value>,
    /// What we found, or what it has to be.
    pub observed: Option<Value>,
    /// More operands by name, in the order in which they were given.
    pub details: Vec<(&'static str, Value)>,
    /// Which of the row's peers do not apply here: bit N stands for the Nth.
    pub peers_absent: u32,
}

/// What a problem is about, whatever its operands are: code, inode, block and group.
pub type Key = (&'static str, Option<InodeNo>, Option<BlockNo>, Option<GroupNo>);

impl Problem {
    /// A problem of kind `row`, with nothing said about the place yet.
    pub fn new(row: &'static Row) -> Self {
        Problem {
            row,
            object: Object::default(),
            stored: None,
            observed: None,
            details: Vec::new(),
            peers_absent: 0,
        }
    }

    /// Of the row's peers, keeps those that `applies` accepts.
    pub fn keep_peers(&mut self, applies: impl Fn(u32) -> bool) {
        let absent = self.row.peers.iter().zip(0..u32::BITS).filter(|(peer, _)| !applies(**peer));
        self.peers_absent = absent.fold(0, |absent, (_, bit)| absent | 1 << bit);
    }

    /// Code numbers of the equivalents in the established checker that apply here.
    pub fn peers(&self) -> impl Iterator<Item = u32> {
        let is_absent = |bit: &u32| self.peers_absent.checked_shr(*bit).is_some_and(|mask| mask & 1 == 1);
        self.row.peers.iter().zip(0..).filter(move |(_, bit)| !is_absent(bit)).map(|(peer, _)| *peer)
    }

    /// What it is about, whatever its operands are.
    pub fn key(&self) -> Key {
        (self.row.code, self.object.inode, self.object.block, self.object.group)
    }

    /// Names the inode.
    pub fn inode(mut self, inode: InodeNo) -> Self {
        self.object.inode = Some(inode);
        self
    }

    /// Names the block.
    pub fn block(mut self, block: BlockNo) -> Self {
        self.object.block = Some(block);
        self
    }

    /// Names a run of blocks.
    pub fn blocks(mut self, start: BlockNo, count: u64) -> Self {
        self.object.block = Some(start);
        self.object.block_count = Some(count);
        self
    }

    /// Names the group.
    pub fn group(mut self, group: GroupNo) -> Self {
        self.object.group = Some(group);
        self
    }

    /// Says what the disk says.
    pub fn stored(mut self, value: impl Into<Value>) -> Self {
        self.stored = Some(value.into());
        self
    }

    /// Says what was found or expected.
    pub fn observed(mut self, value: impl Into<Value>) -> Self {
        self.observed = Some(value.into());
        self
    }

    /// Adds a named operand.
    pub fn detail(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    /// The row's message with the operands put in. `{inode}` becomes "inode 12", or "/path (inode 12)" when the
    /// path is known; `{block}` becomes "block 7" or "blocks 7 to 9"; `{group}` becomes "group 3";
    /// `{stored:name leads:names lead}` becomes "1 name leads" or "3 names lead"; `{why?, as }` becomes nothing, or ", as it was".
    pub fn message(&self) -> String {
        let mut text = String::new();
        let mut rest = self.row.message;
        while let Some(open) = rest.find('{') {
            text.push_str(&rest[..open]);
            rest = &rest[open + 1..];
            let close = rest.find('}').unwrap_or(rest.len());
            text.push_str(&self.operand(&rest[..close]).unwrap_or_else(|| "?".to_owned()));
            rest = rest.get(close + 1..).unwrap_or("");
        }
        text.push_str(rest);
        text
    }

    /// The former names that it lists.
    pub fn former_names(&self) -> Vec<FormerName> {
        let lists = self.details.iter().filter_map(|(_, value)| match value {
            Value::List(values) => Some(values),
            _ => None,
        });
        let names = lists.flatten().filter_map(|value| match value {
            Value::Former(name) => Some(name.clone()),
            _ => None,
        });
        names.collect()
    }

    /// The operands that the row's message names and that were not supplied: none, if the check is right.
    pub fn missing_operands(&self) -> Vec<&'static str> {
        let named = self.row.message.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
        named.map(|(operand, _)| operand).filter(|operand| self.operand(operand).is_none()).collect()
    }

    fn operand(&self, operand: &str) -> Option<String> {
        if let Some((name, before)) = operand.split_once('?') {
            return Some(self.value(name).map_or_else(String::new, |value| format!("{before}{value}")));
        }
        let mut parts = operand.split(':');
        let value = self.value(parts.next()?)?;
        Some(match (parts.next(), parts.next()) {
            (Some(one), Some(many)) => format!("{value} {}", if value == "1" { one } else { many }),
            _ => value,
        })
    }

    fn value(&self, name: &str) -> Option<String> {
        match name {
            "inode" => self.object.inode.map(|inode| match &self.object.path {
                Some(path) => format!("{path} (inode {inode})"),
                None => format!("inode {inode}"),
            }),
            "block" => self.object.block.map(|block| match self.object.block_count {
                Some(count) if count > 1 => {
                    format!("blocks {block} to {}", block.0.saturating_add(count - 1))
                }
                _ => format!("block {block}"),
            }),
            "group" => self.object.group.map(|group| format!("group {group}")),
            "stored" => self.stored.as_ref().map(Value::to_string),
            "observed" => self.observed.as_ref().map(Value::to_string),
            _ => self.details.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
