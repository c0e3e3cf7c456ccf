// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeded damage: every field of every on-disk structure of a sound image, in eight ways, with the checksum left wrong or made
//! right again. The same seed does the same damage; a failure names its seed.

mod fields;
mod mutate;
mod seal;
mod survey;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fsmend_base::SeededRandom;

pub use mutate::{MUTATIONS, Mutation};
pub use survey::{Structure, Survey};

/// Some damage to one image, ready to be done and undone.
#[derive(Clone, Debug)]
pub struct Damage {
    /// What it does, e.g. `inode 12 i_mode zero, sealed`.
    pub label: String,
    /// Kind of structure and field, e.g. `inode.i_mode`, for tables.
    pub class: String,
    /// What changes.
    pub patches: Vec<Patch>,
}

/// Bytes that change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Where.
    pub offset: u64,
    /// What stands there.
    pub old: Vec<u8>,
    /// What will stand there.
    pub new: Vec<u8>,
}

impl Damage {
    /// One field of one structure: the kind of structure is drawn first, so that rare kinds are as likely as inodes.
    pub fn of_a_field(survey: &Survey, seed: u64) -> Damage {
        let mut random = SeededRandom::new(seed);
        let kinds = survey.kinds();
        let kind = kinds[random.below(kinds.len() as u64) as usize];
        let of_kind: Vec<&Structure> =
            survey.structures.iter().filter(|structure| structure.kind == kind).collect();
        let structure = of_kind[random.below(of_kind.len() as u64) as usize];
        let field = structure.fields[random.below(structure.fields.len() as u64) as usize];
        let mutation = MUTATIONS[random.below(MUTATIONS.len() as u64) as usize];
        let sealed = random.below(2) == 1;
        let mut record = survey.bytes(structure).to_vec();
        let at = structure.at + field.offset;
        if let Some(bytes) = record.get_mut(at..at + field.size) {
            mutation.apply(bytes, &mut random);
        }
        let patches = structure.patches(survey, record, sealed);
        let seal = if sealed { "sealed" } else { "not sealed" };
        Damage {
            label: format!("{} {} {mutation:?}, {seal}", structure.name, field.name),
            class: format!("{kind}.{}", field.name),
            patches,
        }
    }

    /// Between 1 and 32 random bytes somewhere in random structures.
    pub fn of_bytes(survey: &Survey, seed: u64) -> Damage {
        let mut random = SeededRandom::new(seed);
        let mut patches = Vec::new();
        for _ in 0..1 + random.below(4) {
            let structure = &survey.structures[random.below(survey.structures.len() as u64) as usize];
            let mut record = survey.bytes(structure).to_vec();
            for _ in 0..1 + random.below(8) {
                let at = random.below(record.len() as u64) as usize;
                record[at] = random.next_u64() as u8;
            }
            patches.extend(structure.patches(survey, record, random.below(2) == 1));
        }
        Damage {
            label: format!("random bytes in {} structures", patches.len()),
            class: "random bytes".to_owned(),
            patches,
        }
    }

    /// One entry of a directory leads where another one leads: a file gets a name too many and one too few, a
    /// directory two names, a parent entry a wrong parent. Its type is changed along or not.
    pub fn of_a_name(survey: &Survey, seed: u64) -> Damage {
        let mut random = SeededRandom::new(seed);
        let mut draw = |kinds: &[&str], of_directory: bool| {
            let fits = |structure: &&Structure| {
                let is_directory = survey.bytes(structure).get(structure.at + 7) == Some(&2);
                kinds.contains(&structure.kind) && (is_directory || !of_directory)
            };
            let mut entries: Vec<&Structure> = survey.structures.iter().filter(fits).collect();
            if entries.is_empty() {
                entries = survey.structures.iter().filter(|entry| kinds.contains(&entry.kind)).collect();
            }
            entries[random.below(entries.len() as u64) as usize]
        };
        let victim = draw(
            &["directory entry", if seed.is_multiple_of(4) { "dot entries" } else { "" }],
            seed.is_multiple_of(3),
        );
        let model = draw(&["directory entry"], seed % 8 > 2);
        let mut record = survey.bytes(victim).to_vec();
        let from = survey.bytes(model);
        let with_type = random.below(4) != 0;
        for at in (0..4).chain(if with_type { 7..8 } else { 0..0 }) {
            record[victim.at + at] = from[model.at + at];
        }
        let sealed = random.below(8) != 0;
        Damage {
            label: format!("{} leads where {} leads", victim.name, model.name),
            class: "name".to_owned(),
            patches: victim.patches(survey, record, sealed),
        }
    }

    /// Writes the damage into the image.
    pub fn apply(&self, image: &File) -> io::Result<()> {
        self.patches.iter().try_for_each(|patch| image.write_all_at(&patch.new, patch.offset))
    }

    /// Takes it back.
    pub fn undo(&self, image: &File) -> io::Result<()> {
        self.patches.iter().rev().try_for_each(|patch| image.write_all_at(&patch.old, patch.offset))
    }

    /// Writes the damage into an image in memory.
    pub fn apply_to_bytes(&self, image: &mut [u8]) {
        for patch in &self.patches {
            let at = patch.offset as usize;
            if let Some(bytes) = image.get_mut(at..at + patch.new.len()) {
                bytes.copy_from_slice(&patch.new);
            }
        }
    }

    /// Whether nothing changes at all (zeroing what is zero).
    pub fn is_nothing(&self) -> bool {
        self.patches.iter().all(|patch| patch.old == patch.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_ways_are_eight_different_ways() {
        let mut outcomes: Vec<Vec<u8>> = MUTATIONS
            .iter()
            .map(|mutation| {
                let mut bytes = vec![0x12, 0x34, 0x56, 0x78];
                mutation.apply(&mut bytes, &mut SeededRandom::new(1));
                bytes
            })
            .collect();
        outcomes.sort();
        outcomes.dedup();
        assert_eq!(outcomes.len(), 8);
    }
}
