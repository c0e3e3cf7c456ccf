//! The repair oracle: whatever is wrong with an image, one repair makes it sound for us and for e2fsck, loses no file that e2fsck keeps,
//! has nothing left to do, is the same at any number of threads, and the kernel mounts and reads the result.

pub mod bases;
mod bytes;
mod case;
mod compare;
mod judge;
mod mount;
mod subject;
mod table;
mod tree;

pub use case::{Case, PER_KIND, bytes_case, field_cases};
pub use compare::{Loss, Trees};
pub use judge::{Depth, Failure, Judge, Judgement, Reference};
pub use subject::{E2fsck, Fsmend, Outcome, Scratch, Subject, laid_over};
pub use table::{Finding, table};
pub use tree::{Node, Tree};

use std::io;

/// Judges our repair of one case.
pub fn judge_case(case: &Case, depth: Depth) -> io::Result<Judgement> {
    judge_subject(case, &Fsmend { now: case.base.now }, depth)
}

/// Judges anybody's repair of one case.
pub fn judge_subject(case: &Case, subject: &dyn Subject, depth: Depth) -> io::Result<Judgement> {
    let judge = Judge { sound: &case.base.tree, e2fsck: E2fsck { now: case.base.now } };
    let depth = Depth { reference: depth.reference && case.base.reference, ..depth };
    judge.judge(&case.image(), subject, depth)
}
