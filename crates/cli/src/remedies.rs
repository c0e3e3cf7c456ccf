// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair does about a kind of problem, and what may be lost: in the words of the catalogue, unless the user has asked for something
//! else than the usual repair. What is announced before a repair has to be what it does.

use fsmend_engine::Row;

use crate::repair::DuplicatesArg;
use crate::target::FAMILIES;

/// The requests that make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedies {
    /// What to do with multiply-claimed blocks.
    pub duplicates: DuplicatesArg,
}

/// What is done about a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// What the repair does: sentences.
    pub repair: &'static str,
    /// Whether something may be lost.
    pub loses: bool,
    /// What may be lost: sentences that stand behind a colon.
    pub loss: &'static str,
}

impl Default for Remedies {
    fn default() -> Self {
        Remedies::USUAL
    }
}

impl Remedies {
    /// The repairs of the catalogue.
    pub const USUAL: Remedies = Remedies { duplicates: DuplicatesArg::Clone };

    /// What is done about problems of the kind `row`.
    pub fn of(self, row: &Row) -> Remedy {
        let of_row = Remedy { repair: row.repair, loses: row.loses, loss: row.loss };
        let (repair, loss) = match self.duplicates {
            _ if !FAMILIES.has(|family| family.sharing(), row) => return of_row,
            DuplicatesArg::Clone => return of_row,
            DuplicatesArg::Zero => (
                "As requested: one file keeps the blocks, the others get zeros instead. (Directories get copies.)",
                "The contents of these blocks, for all files but the one that keeps them. It is not known which file has the right data.",
            ),
            DuplicatesArg::LostFound => (
                "As requested: every file gets copies of the blocks and is moved to lost+found. (Directories get copies and stay.)",
                "The names and locations of these files. It is not known which file has the right data.",
            ),
            DuplicatesArg::Delete => (
                "As requested: every file that shares blocks with another one is deleted. (Directories get copies.)",
                "All of these files, with their names and contents.",
            ),
        };
        Remedy { repair, loses: true, loss }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_what_is_told() {
        let kinds = [DuplicatesArg::Zero, DuplicatesArg::LostFound, DuplicatesArg::Delete];
        let is_of_duplicates = |row: &&Row| FAMILIES.has(|family| family.sharing(), row);
        let of_duplicates: Vec<_> = FAMILIES.catalogue().into_iter().filter(is_of_duplicates).collect();
        assert!(!of_duplicates.is_empty());
        for row in of_duplicates {
            assert_eq!(
                Remedies::USUAL.of(row),
                Remedy { repair: row.repair, loses: row.loses, loss: row.loss }
            );
            for duplicates in kinds {
                let told = Remedies { duplicates }.of(row);
                assert!(told.repair != row.repair && told.loss != row.loss, "{} {duplicates:?}", row.code);
            }
        }
        for row in FAMILIES.catalogue().into_iter().filter(|row| !is_of_duplicates(row)) {
            let told = Remedies { duplicates: DuplicatesArg::Delete }.of(row);
            assert_eq!(told, Remedy { repair: row.repair, loses: row.loses, loss: row.loss });
        }
    }
}
