// SPDX-License-Identifier: MIT OR Apache-2.0
//! Problems and the catalogue they come from.
//!
//! A [`Row`] is one kind of problem: stable code, severity, texts. A [`Problem`] is one row found at one place.
//! Rows are written next to the check that raises them with [`problem_rows!`](crate::problem_rows); messages,
//! JSON, `explain` and the documentation are all generated from them.

pub mod witness;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fsmend_base::{BlockNo, GroupNo, InodeNo};

use crate::budget::growing;
use crate::edits::{Cause, Edit, Edits, Layer, Part};
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
    /// What may be lost by that repair ("Nothing." where nothing is).
    pub loss: &'static str,
    /// Code numbers of the equivalents in the established checker of the family, if any.
    pub peers: &'static [u32],
    /// What that checker prints for it, where it has messages and no numbers; a part that does not change.
    pub messages: &'static [&'static str],
}

impl Row {
    /// Whether its repair may lose something.
    pub fn loses_something(&self) -> bool {
        self.loss != "Nothing."
    }
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
///
/// ```
/// fsmend_engine::problem_rows! {
///     /// A count that is off.
///     COUNT_WRONG = "demo.count.wrong" {
///         severity: Minor, evidence: Cross, preen: true,
///         message: "group {group} says it has {stored} free blocks, but {observed} are free",
///         meaning: "The count was not updated before the system stopped.",
///         repair: "The count is set to what was counted.",
///         loss: "Nothing.",
///         peers: [0x05000E],
///     }
/// }
/// # fn main() { assert_eq!(ROWS.len(), 1); }
/// ```
#[macro_export]
macro_rules! problem_rows {
    ($( $(#[$doc:meta])* $name:ident = $code:literal {
        severity: $severity:ident, evidence: $evidence:ident, preen: $preen:literal,
        message: $message:literal,
        meaning: $meaning:literal,
        repair: $repair:literal,
        loss: $loss:literal,
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
            loss: $loss,
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
}

/// What a problem is about, whatever its operands are: code, inode, block and group.
pub type Key = (&'static str, Option<InodeNo>, Option<BlockNo>, Option<GroupNo>);

impl Problem {
    /// A problem of kind `row`, with nothing said about the place yet.
    pub fn new(row: &'static Row) -> Self {
        Problem { row, object: Object::default(), stored: None, observed: None, details: Vec::new() }
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

/// How many problems of one row are kept; further ones are only counted. Which ones are kept depends on the
/// order of problems, not on the order of discovery, so reports stay the same at any thread count.
pub const KEPT_PER_ROW: usize = 20_000;

/// A growing set of problems, private to one worker until it is merged.
///
/// It may have to do with little room: then fewer problems of each row are kept, as many as let all of them fit. How many
/// that are follows from the numbers of problems alone, and a part of them never keeps fewer than the whole: so what is
/// kept in the end does not depend on who found what, either.
#[derive(Debug)]
pub struct Findings {
    rows: BTreeMap<&'static str, RowFindings>,
    /// Problems kept of all rows.
    kept: usize,
    /// Most problems to be kept in the end; meanwhile up to twice as many are.
    room: usize,
    /// What a repair will do about them.
    edits: Edits,
    /// What was raised about one subject, where that is noted for its edits.
    raised: Option<Vec<Key>>,
}

/// Of one subject so many problems are noted for its edits. Where more are wrong, its edits are for all that is wrong with its inode.
const NOTED_MAX: usize = 1024;

/// A place in what was raised about a subject.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

impl Default for Findings {
    fn default() -> Self {
        Findings { rows: BTreeMap::new(), kept: 0, room: usize::MAX, edits: Edits::default(), raised: None }
    }
}

#[derive(Default, Debug)]
struct RowFindings {
    count: u64,
    kept: Vec<Problem>,
    /// The object of the last problem that the last trimming has left: what comes behind it will not be kept.
    ceiling: Option<Object>,
}

impl Findings {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set that keeps at most `room` problems in the end (but at least one of each row).
    pub fn with_room(room: usize) -> Self {
        Findings { room, ..Self::default() }
    }

    /// How many problems it keeps at most in the end.
    pub fn room(&self) -> usize {
        self.room
    }

    /// An empty set with as much room as this one, which gathers edits if this one does.
    pub fn fresh(&self) -> Self {
        Self::with_room(self.room).gathering(self.gathers_edits())
    }

    /// An empty set for the inspection of one subject: its edits mend what is raised about it.
    pub fn for_subject(&self) -> Self {
        Findings { raised: self.gathers_edits().then(Vec::new), ..self.fresh() }
    }

    /// The same set, which gathers the edits of a repair if `wanted`.
    pub fn gathering(mut self, wanted: bool) -> Self {
        if wanted != self.gathers_edits() {
            self.edits = Edits::gathering(wanted);
        }
        self
    }

    /// Whether the run is a repair, and inspections have to say what they mend.
    pub fn gathers_edits(&self) -> bool {
        self.edits.is_gathering()
    }

    /// Says that a repair puts `bytes` at `offset` of the device, which mends what was raised about the subject so far. In a check, nothing happens.
    pub fn edit(&mut self, layer: Layer, offset: u64, bytes: &[u8]) {
        self.edit_since(Mark(0), layer, offset, bytes);
    }

    /// The same, for what was raised since `mark`.
    pub fn edit_since(&mut self, mark: Mark, layer: Layer, offset: u64, bytes: &[u8]) {
        let raised = self.raised.as_deref().unwrap_or_default();
        self.edits.add(layer, offset, bytes, || match raised.first() {
            Some((_, Some(inode), ..)) if raised.len() >= NOTED_MAX => Cause::Part(Part::Inode(*inode)),
            _ => Cause::Problems(raised.get(mark.0..).unwrap_or_default().into()),
        });
    }

    /// A place in what was raised about the subject: what comes behind it is mended by an edit of its own.
    pub fn mark(&self) -> Mark {
        Mark(self.raised.as_ref().map_or(0, Vec::len))
    }

    /// Adds a problem that is mended by putting `bytes` at `offset` of the device.
    pub fn raise_with_edit(&mut self, problem: Problem, layer: Layer, offset: u64, bytes: &[u8]) {
        self.edits.add(layer, offset, bytes, || Cause::Problems([problem.key()].into()));
        self.raise(problem);
    }

    /// Says that a repair puts `bytes` at `offset`, whatever of `part` is wrong.
    pub fn edit_part(&mut self, part: Part, layer: Layer, offset: u64, bytes: &[u8]) {
        self.edits.add(layer, offset, bytes, || Cause::Part(part));
    }

    fn note(&mut self, key: Key) {
        if let Some(raised) = &mut self.raised
            && raised.len() < NOTED_MAX
            && raised.last() != Some(&key)
        {
            raised.push(key);
        }
    }

    /// Memory that the edits hold: their list while it grows, and what they put in place.
    pub fn edit_bytes_held(&self) -> (u64, u64) {
        self.edits.bytes_held()
    }

    /// Memory that the problems that are kept, and the edits, take.
    pub fn bytes_held(&self) -> u64 {
        let (list, bytes) = self.edits.bytes_held();
        growing::<Problem>(self.kept) + list + bytes
    }

    /// The edits that were gathered, in the order in which they have to be laid down.
    pub fn take_edits(&mut self) -> Vec<Edit> {
        self.edits.take_sorted()
    }

    /// Adds a problem. That the check supplies every operand that the message names is held to wherever debug
    /// assertions are on, in every test that damages something above all.
    pub fn raise(&mut self, problem: Problem) {
        debug_assert!(
            problem.missing_operands().is_empty(),
            "{} lacks {:?}",
            problem.row.code,
            problem.missing_operands()
        );
        if cfg!(debug_assertions) {
            witness::note(problem.row.code);
        }
        self.note(problem.key());
        let row = self.rows.entry(problem.row.code).or_default();
        row.count += 1;
        if row.is_beyond(&problem.object) {
            return;
        }
        row.kept.push(problem);
        self.kept += 1;
        self.kept -= row.trim(2 * KEPT_PER_ROW, KEPT_PER_ROW);
        self.make_room();
    }

    /// Counts a problem of `row` about `object`, if enough others are kept that come before it: then it need not be put together. Else
    /// nothing happens, and it has to be raised.
    pub fn passes_over(&mut self, row: &'static Row, object: &Object) -> bool {
        let beyond = self.rows.get_mut(row.code).filter(|row| row.is_beyond(object));
        let is_beyond = beyond.map(|row| row.count += 1).is_some();
        if is_beyond {
            self.note((row.code, object.inode, object.block, object.group));
        }
        is_beyond
    }

    fn make_room(&mut self) {
        if self.kept > self.room.saturating_mul(2) {
            let most = self.kept_per_row();
            self.kept -= self.rows.values_mut().map(|row| row.trim(most, most)).sum::<usize>();
        }
    }

    /// How many problems of a row are kept in the end: [`KEPT_PER_ROW`], or what the room allows.
    pub fn kept_per_row(&self) -> usize {
        let mut most = KEPT_PER_ROW;
        let fits = |most: usize| {
            let kept = self.rows.values().map(|row| row.count.min(most as u64));
            kept.sum::<u64>() <= self.room as u64
        };
        while most > 1 && !fits(most) {
            most /= 2;
        }
        most
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Findings) {
        self.edits.merge(other.edits);
        other.raised.into_iter().flatten().for_each(|key| self.note(key));
        for (code, mut found) in other.rows {
            let row = self.rows.entry(code).or_default();
            row.count += found.count;
            self.kept += found.kept.len();
            row.kept.append(&mut found.kept);
            // Of either part so many are held up to its ceiling as will be kept of all.
            row.ceiling = row.ceiling.take().into_iter().chain(found.ceiling).min();
            self.kept -= row.trim(2 * KEPT_PER_ROW, KEPT_PER_ROW);
            self.make_room();
        }
    }

    /// Findings that were taken apart with [`into_sorted`](Self::into_sorted) and [`counts`](Self::counts), put
    /// together again.
    pub fn from_parts(problems: Vec<Problem>, counts: BTreeMap<&'static str, u64>) -> Self {
        let mut findings = Findings::new();
        findings.kept = problems.len();
        for problem in problems {
            findings.rows.entry(problem.row.code).or_default().kept.push(problem);
        }
        for (code, row) in &mut findings.rows {
            row.count = counts.get(code).copied().unwrap_or(row.kept.len() as u64);
        }
        findings
    }

    /// Keeps only the problems that `keep` accepts (asked once per problem that is kept in memory; a row is either
    /// accepted or not, so counts of rows stay whole).
    pub fn retain(&mut self, keep: impl Fn(&Problem) -> bool) {
        self.rows.retain(|_, row| row.kept.iter().any(&keep));
        self.kept = self.rows.values().map(|row| row.kept.len()).sum();
    }

    /// Whether nothing was raised.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether something was raised that counts for the verdict (anything above a note).
    pub fn is_damaged(&self) -> bool {
        self.rows.values().any(|row| row.kept.iter().any(|problem| problem.row.severity > Severity::Note))
    }

    /// Whether a problem of this row was raised.
    pub fn has(&self, row: &Row) -> bool {
        self.rows.contains_key(row.code)
    }

    /// The number of problems of each row, by code.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.rows.iter().map(|(code, row)| (*code, row.count)).collect()
    }

    /// The kept problems in report order: worst severity first, then by row, object and operands.
    pub fn into_sorted(self) -> Vec<Problem> {
        let rows = self.into_rows();
        let mut all = Vec::with_capacity(rows.iter().map(Vec::len).sum());
        rows.into_iter().for_each(|mut row| all.append(&mut row));
        all
    }

    /// The same, row by row; none of them is empty.
    pub fn into_rows(mut self) -> Vec<Vec<Problem>> {
        self.settle();
        let mut rows: Vec<Vec<Problem>> = self.rows.into_values().map(|row| row.kept).collect();
        rows.retain(|row| !row.is_empty());
        // Rows come in the order of their codes.
        rows.sort_by_key(|row| Reverse(row.first().map(|problem| problem.row.severity)));
        rows
    }

    /// Says that all has been found: problems for which there is no room go now, and those of each row are put into the order of the
    /// report. What is added afterwards finds all the room that it needs.
    pub fn settle(&mut self) {
        let most = self.kept_per_row();
        for row in self.rows.values_mut() {
            row.trim(most, most);
            row.sort();
            row.ceiling = None;
        }
        self.kept = self.rows.values().map(|row| row.kept.len()).sum();
        self.room = usize::MAX;
    }

    /// The kept problems of each row, to have more said about them.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut [Problem]> {
        self.rows.values_mut().map(|row| row.kept.as_mut_slice())
    }

    /// The kept problems, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.rows.values().flat_map(|row| row.kept.iter())
    }
}

impl RowFindings {
    /// Puts the problems into the order of the report. They are all of one row, which need not be compared.
    fn sort(&mut self) {
        self.kept.sort_unstable_by(|a, b| {
            let others = || (&a.stored, &a.observed, &a.details).cmp(&(&b.stored, &b.observed, &b.details));
            a.object.cmp(&b.object).then_with(others)
        });
    }

    /// Whether a problem about `object` comes behind enough others.
    fn is_beyond(&self, object: &Object) -> bool {
        self.ceiling.as_ref().is_some_and(|ceiling| object > ceiling)
    }

    /// Cuts the kept problems to the `most` smallest once more than `limit` have gathered; returns how many went.
    fn trim(&mut self, limit: usize, most: usize) -> usize {
        let before = self.kept.len();
        if before > limit {
            self.sort();
            self.kept.truncate(most);
            self.kept.shrink_to(2 * most);
            self.ceiling = self.kept.last().map(|last| last.object.clone());
        }
        before - self.kept.len()
    }
}

#[cfg(test)]
mod tests;
