// SPDX-License-Identifier: MIT OR Apache-2.0
//! The repair oracle: whatever is wrong with an image, one repair makes it sound for us and for e2fsck, loses no file that e2fsck keeps,
//! has nothing left to do, is the same at any number of threads, and the kernel mounts and reads the result.

pub mod bases;
pub(crate) mod bytes;
mod case;
mod compare;
mod image;
mod judge;
pub(crate) mod known;
pub(crate) mod mount;
pub(crate) mod scratch;
mod seen;
mod spoiled;
mod subject;
mod table;
mod tree;

pub use case::{Case, PER_KIND, broken_bytes, bytes_case, field_cases};
pub use compare::{Loss, Trees};
pub use image::Image;
pub use judge::{Depth, Failure, Judge, Judgement, Reference};
pub use subject::{E2fsck, Fsmend, Outcome, Scratch, Subject, changes_of_repair, laid_over};
pub use table::{Finding, table};
pub use tree::{Node, Tree};

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use known::Known;

/// Judges our repair of one case.
pub fn judge_case(case: &Case, depth: Depth) -> io::Result<Judgement> {
    judge_with(case, &Fsmend { now: case.base.now }, depth, &case.base.known)
}

/// What came of one case.
pub struct Judged {
    /// What e2fsck did.
    pub reference: Reference,
    /// What is wrong with our repair.
    pub findings: Vec<Finding>,
}

/// What is wrong with our repair of the case with this number; keeps the images of the case in `folder`, where one is named.
pub fn findings_of(number: u64, depth: Depth, folder: Option<&Path>) -> io::Result<Vec<Finding>> {
    Ok(judged(number, depth, folder)?.map(|judged| judged.findings).unwrap_or_default())
}

/// The same, with what e2fsck did; `None` where there is no such case.
pub fn judged(number: u64, depth: Depth, folder: Option<&Path>) -> io::Result<Option<Judged>> {
    let Some(case) = Case::of(number)? else { return Ok(None) };
    let judgement = judge_case(&case, depth)?;
    if let Some(folder) = folder {
        write_sparse(&folder.join(format!("{number}-damaged.img")), &case.image().bytes())?;
        for (name, image) in [("ours", &judgement.ours), ("theirs", &judgement.theirs)] {
            if let Some(image) = image {
                write_sparse(&folder.join(format!("{number}-{name}.img")), &image.bytes())?;
            }
        }
    }
    let finding = |failure: Failure| Finding {
        number,
        class: case.damage.class.clone(),
        label: case.damage.label.clone(),
        kind: failure.kind,
        detail: failure.detail,
    };
    let findings = judgement.failures.into_iter().map(finding).collect();
    Ok(Some(Judged { reference: judgement.reference, findings }))
}

/// Writes an image with holes where it has nothing but zeroes.
pub fn write_sparse(path: &Path, image: &[u8]) -> io::Result<()> {
    let file = fs::File::create(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    file.set_len(image.len() as u64)?;
    let blocks = image.chunks(4096).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0));
    blocks.into_iter().try_for_each(|(at, block)| file.write_all_at(block, at as u64 * 4096))
}

/// Judges a repair of one case.
pub fn judge_subject(case: &Case, subject: &dyn Subject, depth: Depth) -> io::Result<Judgement> {
    judge_with(case, subject, depth, &Known::default())
}

/// What is known about repaired images was found out with the same subject.
fn judge_with(case: &Case, subject: &dyn Subject, depth: Depth, known: &Known) -> io::Result<Judgement> {
    let judge = Judge {
        sound: &case.base.tree,
        known,
        e2fsck: E2fsck { now: case.base.now },
        is_mountable: case.base.is_mountable(),
    };
    let mount = depth.mount && judge.is_mountable;
    let depth = Depth { reference: depth.reference && case.base.reference, mount, ..depth };
    judge.judge(&case.image(), subject, depth)
}
