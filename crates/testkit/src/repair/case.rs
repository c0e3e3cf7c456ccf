// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases: one number says which image is damaged, where, and how.
//!
//! The number of a field case is made of the base (from bit 40), the structure (from bit 16), the field (from bit 8), the mutation (from
//! bit 1) and whether the checksum is made right (bit 0). A case of the block fuzzer has bit 56 set; below it are the base (from bit 48), how
//! many bytes are broken (as a power of ten, from bit 40) and the seed.

use std::io;

use fsmend_base::SeededRandom;

use super::bases::{self, Base};
use super::image::Image;
use crate::damage::{Damage, MUTATIONS, Structure, Survey};

const BYTES: u64 = 1 << 56;
/// How many structures of one kind are damaged in one image.
pub const PER_KIND: usize = 3;

/// A damaged image, and what it was.
pub struct Case {
    /// Its number.
    pub number: u64,
    /// What was damaged.
    pub base: &'static Base,
    /// The damage.
    pub damage: Damage,
}

impl Case {
    /// The case with this number; `None` where this machine has no such image, or nothing changes.
    pub fn of(number: u64) -> io::Result<Option<Case>> {
        let at = if number & BYTES == 0 { 40 } else { 48 };
        let Ok(base) = bases::base((number >> at & 0xFF) as usize)? else { return Ok(None) };
        let damage = if number & BYTES == 0 {
            field_damage(base, number)
        } else {
            let count = 10_usize.pow((number >> 40 & 0xFF) as u32);
            Some(broken_bytes(&base.survey, base.name, count, number))
        };
        Ok(damage.filter(|damage| !damage.is_nothing()).map(|damage| Case { number, base, damage }))
    }

    /// The damaged image.
    pub fn image(&self) -> Image {
        let mut image = Image::sound(&self.base.survey.image);
        self.damage.patches.iter().for_each(|patch| image.write(patch.offset, &patch.new));
        image
    }
}

fn field_damage(base: &Base, number: u64) -> Option<Damage> {
    let structure = base.survey.structures.get((number >> 16 & 0xFF_FFFF) as usize)?;
    let field = structure.fields.get((number >> 8 & 0xFF) as usize)?;
    let mutation = MUTATIONS.get((number >> 1 & 0x7F) as usize)?;
    let sealed = number & 1 == 1;
    let mut record = base.survey.bytes(structure).to_vec();
    let at = structure.at + field.offset;
    mutation.apply(record.get_mut(at..at + field.size)?, &mut SeededRandom::new(number));
    let seal = if sealed { ", checksum right" } else { "" };
    Some(Damage {
        label: format!("{}, {} {} {mutation:?}{seal}", base.name, structure.name, field.name),
        class: format!("{}.{}", structure.kind, field.name),
        patches: structure.patches(&base.survey, record, sealed),
    })
}

/// Random bytes anywhere in the metadata of the image called `name`, half of them whole random values and half of them single bits.
pub fn broken_bytes(survey: &Survey, name: &str, count: usize, seed: u64) -> Damage {
    let mut random = SeededRandom::new(seed);
    let ranges = survey.metadata();
    // Where each range begins when they are laid end to end.
    let begins: Vec<u64> = ranges
        .iter()
        .scan(0, |sum, range| {
            *sum += range.1;
            Some(*sum - range.1)
        })
        .collect();
    let total: u64 = ranges.iter().map(|range| range.1).sum();
    let mut patches = Vec::new();
    for _ in 0..count {
        let at = random.below(total);
        let index = begins.partition_point(|begin| *begin <= at).saturating_sub(1);
        let (Some(range), Some(begin)) = (ranges.get(index), begins.get(index)) else { continue };
        let offset = range.0 + (at - begin);
        let old = survey.image.get(offset as usize).copied().unwrap_or(0);
        let value = random.next_u64();
        let new = if value & 0x100 == 0 { value as u8 } else { old ^ 1 << (value & 7) };
        patches.push(crate::damage::Patch { offset, old: vec![old], new: vec![new] });
    }
    Damage {
        label: format!("{name}, {count} bytes of metadata"),
        class: format!("{count} bytes of {name}"),
        patches,
    }
}

/// The number of a case of the block fuzzer: 10 to the power of `magnitude` bytes of a base.
pub fn bytes_case(base: usize, magnitude: u32, seed: u64) -> u64 {
    BYTES | (base as u64) << 48 | u64::from(magnitude) << 40 | seed & 0xFF_FFFF_FFFF
}

/// Numbers of all field cases of one base: [`PER_KIND`] structures of every kind, every field, every mutation, with the checksum left wrong
/// and made right; or of one kind of structure only.
pub fn field_cases(number: usize, only: Option<&str>) -> io::Result<Vec<u64>> {
    let Ok(base) = bases::base(number)? else { return Ok(Vec::new()) };
    let mut cases = Vec::new();
    for kind in base.survey.kinds().into_iter().filter(|kind| only.is_none_or(|only| only == *kind)) {
        for (index, structure) in chosen(base, kind) {
            for field in 0..structure.fields.len() as u64 {
                for variant in 0..2 * MUTATIONS.len() as u64 {
                    if variant & 1 == 0 || structure.has_checksum(&base.survey) {
                        cases.push((number as u64) << 40 | (index as u64) << 16 | field << 8 | variant);
                    }
                }
            }
        }
    }
    Ok(cases)
}

/// Structures of a kind, spread over all that there are.
fn chosen<'b>(base: &'b Base, kind: &str) -> Vec<(usize, &'b Structure)> {
    let structures = base.survey.structures.iter().enumerate();
    let of_kind: Vec<_> = structures.filter(|(_, structure)| structure.kind == kind).collect();
    let wanted = if kind == "special inode" { of_kind.len() } else { PER_KIND.min(of_kind.len()) };
    (0..wanted).map(|step| of_kind[step * of_kind.len() / wanted]).collect()
}
