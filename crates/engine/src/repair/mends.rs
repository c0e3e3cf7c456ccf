// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the bytes of a repair are for: where each was written, and the problems that it mends.

use fsmend_device::{BlockCopy, Device};

use super::Changes;
use crate::Findings;
use crate::edits::{Cause, Edit};
use crate::problem::Problem;

/// A run of bytes that a repair writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mend {
    /// Byte offset on the device.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// What for.
    pub cause: Cause,
}

impl Mend {
    /// Adds `mend` to `mends`, to the last one where it goes on there.
    pub fn add(mends: &mut Vec<Mend>, mend: Mend) {
        match mends.last_mut() {
            Some(last) if last.offset + last.len == mend.offset && last.cause == mend.cause => {
                last.len += mend.len;
            }
            _ => mends.push(mend),
        }
    }

    /// Those of `edits`, as far as they lie on `device`.
    pub fn of(edits: &[Edit], device: &dyn Device) -> Vec<Mend> {
        let mut mends = Vec::new();
        for edit in edits {
            let len = edit.bytes.len() as u64;
            if edit.offset.checked_add(len).is_some_and(|end| end <= device.len()) {
                Mend::add(&mut mends, Mend { offset: edit.offset, len, cause: edit.mends.clone() });
            }
        }
        mends
    }
}

/// What one round of a repair comes to.
#[derive(Debug, Default)]
pub struct Mended {
    /// What has to be written.
    pub changes: Changes,
    /// What has to be copied besides.
    pub copies: Vec<BlockCopy>,
    /// What for, as far as that is known.
    pub mends: Vec<Mend>,
    /// What is lost by it, beyond what was found.
    pub lost: Findings,
}

/// Start and end of the bytes in `mends` that mend `problem`.
pub(super) fn places_of<'m>(
    mends: &'m [Mend],
    problem: &'m Problem,
) -> impl Iterator<Item = (u64, u64)> + use<'m> {
    mends.iter().filter(|mend| mend.cause.is(problem)).map(|mend| (mend.offset, mend.offset + mend.len))
}

#[cfg(test)]
mod tests {
    use fsmend_base::{GroupNo, InodeNo};
    use fsmend_device::MemoryDevice;

    use super::*;
    use crate::Layer;
    use crate::edits::Part;

    crate::problem_rows! {
        /// One.
        ONE = "demo.inode.one" {
            severity: Minor, evidence: Local, preen: true, message: "{inode} is off",
            meaning: "m", repair: "r", loss: nothing, peers: [],
        }
        /// Another.
        OTHER = "demo.inode.other" {
            severity: Minor, evidence: Local, preen: true, message: "{inode} is wrong",
            meaning: "m", repair: "r", loss: nothing, peers: [],
        }
    }

    #[test]
    fn an_edit_mends_what_was_raised_about_its_subject() {
        let device = MemoryDevice::new("demo", vec![0; 4096]);
        let all = Findings::new().gathering(true);
        let mut subject = all.for_subject();
        let (one, other) = (Problem::new(&ONE).inode(InodeNo(12)), Problem::new(&OTHER).inode(InodeNo(12)));
        subject.raise(one.clone());
        let mark = subject.mark();
        let mut inner = subject.for_subject();
        inner.raise(other.clone());
        subject.merge(inner);
        subject.edit_since(mark, Layer::Block, 1024, &[1; 8]);
        subject.edit(Layer::Record, 512, &[2; 8]);
        let mut all = all;
        all.merge(subject);
        all.raise_with_edit(Problem::new(&ONE).inode(InodeNo(13)), Layer::Record, 520, &[3; 8]);
        let mends = Mend::of(&all.take_edits(), &device);
        let places = |problem: &Problem| places_of(&mends, problem).collect::<Vec<_>>();
        assert_eq!(ROWS.len(), 2);
        assert_eq!(places(&one), [(512, 520)]);
        assert_eq!(places(&other), [(512, 520), (1024, 1032)]);
        assert_eq!(places(&one.inode(InodeNo(13))), [(520, 528)]);
    }

    #[test]
    fn writes_for_a_part_are_for_all_that_is_wrong_with_it() {
        let mend = |offset, part| Mend { offset, len: 4, cause: Cause::Part(part) };
        let mut mends = Vec::new();
        Mend::add(&mut mends, mend(0, Part::Inode(InodeNo(12))));
        Mend::add(&mut mends, mend(4, Part::Inode(InodeNo(12))));
        Mend::add(&mut mends, mend(8, Part::Group(GroupNo(0))));
        Mend::add(&mut mends, mend(12, Part::FileSystem));
        let places = |problem: Problem| places_of(&mends, &problem).collect::<Vec<_>>();
        assert_eq!(places(Problem::new(&ONE).inode(InodeNo(12))), [(0, 8)]);
        assert_eq!(places(Problem::new(&ONE).group(GroupNo(0))), [(8, 12)]);
        assert_eq!(places(Problem::new(&ONE)), [(12, 16)]);
    }
}
