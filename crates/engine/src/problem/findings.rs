// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of problems that grow while a check runs, with the edits that mend them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Key, Object, Problem, Row, Severity, witness};
use crate::budget::growing;
use crate::edits::{Cause, Edit, Edits, Layer, Part};

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
