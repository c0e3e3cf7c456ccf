// SPDX-License-Identifier: MIT OR Apache-2.0
//! The superblocks and the anchors: which of them count, and what has to be written where one does not.

use std::sync::Arc;

use fsmend_base::width;
use fsmend_device::Device;
use fsmend_engine::options::SuperblockOptions;
use fsmend_engine::problem::escape_name;
use fsmend_engine::{Findings, Layer, Problem, Refusal};
use fsmend_hybridfs_format::{ANCHORS, Anchor, Incompat, STATIC_LEN, Superblock, anchor_offset};

use crate::log::{Log, Segment};
use crate::rows;

const LEN: usize = 512;
/// Bytes at the start of a device in which a superblock in the log is looked for everywhere.
const SEARCHED: u64 = 64 << 20;
/// Bytes of that which are read together.
const PIECE: u64 = 256 << 10;

fn read(device: &dyn Device, offset: u64) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; LEN];
    device.read_at(offset, &mut bytes).map_err(|_| "it cannot be read".to_owned())?;
    Ok(bytes)
}

fn parsed(device: &dyn Device, offset: u64) -> Result<Superblock, String> {
    Superblock::parse(&read(device, offset)?).map_err(|wrong| wrong.to_string())
}

/// The superblock at its place, or a copy: one that [`find_usual`] finds, or else the one in a log whose size was chosen.
pub fn find(device: &dyn Device) -> Result<(u64, Superblock), String> {
    find_usual(device).or_else(|why| in_log(device).ok_or(why))
}

/// The superblock in a log whose size was chosen: where sizes that people choose would put it, or anywhere in the first [`SEARCHED`] bytes. It has to say itself that it is there.
fn in_log(device: &dyn Device) -> Option<(u64, Superblock)> {
    let is_it = |place: u64, bytes: &[u8]| {
        let sb = Superblock::parse(bytes).ok()?;
        (sb.copies()[1] == place && !is_cut_off(device, &sb)).then_some((place, sb))
    };
    let read_at = |place: u64| is_it(place, &read(device, place).ok()?);
    let likely = || Superblock::likely_places(device.len()).into_iter().find_map(read_at);
    let mut piece = vec![0; width::index(PIECE)];
    // The log is in the middle.
    let starts = (0..SEARCHED.min(device.len() / 2 + PIECE)).step_by(width::index(PIECE));
    let mut pieces =
        starts.filter(|start| device.len().checked_sub(*start).is_some_and(|rest| rest >= PIECE));
    let searched = pieces.find_map(|start| {
        if device.read_at(start, &mut piece).is_err() {
            return (start..start + PIECE).step_by(width::index(STATIC_LEN)).find_map(read_at);
        }
        let mut places =
            (start..).step_by(width::index(STATIC_LEN)).zip(piece.chunks(width::index(STATIC_LEN)));
        places.find_map(|(place, bytes)| is_it(place, bytes))
    });
    searched.or_else(likely)
}

/// The superblock at its place, or a copy: the one at the end of the device, or the one in a log that lies where logs usually do.
pub fn find_usual(device: &dyn Device) -> Result<(u64, Superblock), String> {
    let mut why = None;
    for place in Superblock::usual_places(device.len()) {
        match parsed(device, place) {
            Ok(sb) => return Ok((place, sb)),
            Err(wrong) => why = why.or(Some(wrong)),
        }
    }
    Err(why.unwrap_or_default())
}

/// The superblock on a device that has nothing but the log of a file system.
pub fn of_log(device: &dyn Device) -> Option<Superblock> {
    parsed(device, 0).ok().filter(|sb| sb.log_device().is_some())
}

/// Whether two superblocks are those of one file system and its log.
pub fn are_of_one(one: &Superblock, other: &Superblock) -> bool {
    (one.uuid, one.log_uuid) == (other.uuid, other.log_uuid)
}

/// What a file system is called in a message.
pub fn name(sb: &Superblock) -> String {
    match label(sb) {
        label if label.is_empty() => format!("UUID {}", uuid(sb)),
        label => format!("\"{label}\", UUID {}", uuid(sb)),
    }
}

/// The label, as text.
pub fn label(sb: &Superblock) -> String {
    escape_name(sb.label.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// The UUID, as text.
pub fn uuid(sb: &Superblock) -> String {
    let uuid: String = sb.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| uuid.get(part).unwrap_or_default()).join("-")
}

/// Whether the log of a file system is on another device, and `device` does not have it.
pub(crate) fn is_divided(device: &dyn Device, sb: &Superblock) -> bool {
    sb.log_device().is_some() && is_cut_off(device, sb)
}

/// Whether a file system is larger than `device`.
fn is_cut_off(device: &dyn Device, sb: &Superblock) -> bool {
    sb.fragments.saturating_mul(u64::from(sb.fragment_size)) > device.len()
}

fn refused(code: &'static str, message: String, hint: &str) -> Refusal {
    Refusal { code, message, hint: hint.to_owned() }
}

/// The superblock in the block that the user named, of that size or of any that a fragment or a block may have.
fn named(device: &dyn Device, block: u64, size: Option<u32>) -> Result<(u64, Superblock), Refusal> {
    let sizes = size.map_or_else(|| (9..=16).map(|shift| 1 << shift).collect(), |size| vec![u64::from(size)]);
    let places = sizes.into_iter().filter_map(|size| block.checked_mul(size));
    let mut found = places.filter_map(|place| Some((place, parsed(device, place).ok()?)));
    found.next().ok_or_else(|| {
        let message = format!("There is no usable hybridfs superblock in block {block}");
        refused(
            "no-superblock",
            message,
            "Give its block and with -B the size of one, or leave -b out: copies are found without it",
        )
    })
}

/// Finds the superblock that counts, and raises what is wrong with the others. Returns where it was found, too.
pub(crate) fn settle(
    device: &dyn Device,
    wanted: SuperblockOptions,
    is_repair: bool,
    findings: &mut Findings,
) -> Result<(u64, Arc<Superblock>), Refusal> {
    let (place, first) = match wanted.block {
        Some(block) => named(device, block, wanted.block_size)?,
        None => find(device).map_err(|why| {
            if let Some(sb) = of_log(device) {
                let message =
                    format!("This is only the log of a hybridfs ({}), which is on another device", name(&sb));
                return refused("only-log", message, "Check that device, and give this one with -j");
            }
            let message = format!("There is no usable hybridfs superblock: {why}");
            refused("not-hybridfs", message, "Check that this is the right device and offset")
        })?,
    };
    let copies = first.copies().map(|offset| (offset, parsed(device, offset)));
    let (place, used) = match wanted.block {
        Some(_) => (place, first),
        None => chosen(device, (place, first), &copies),
    };
    if is_cut_off(device, &used) {
        if is_divided(device, &used) {
            let message = format!("The log of the file system ({}) is on another device", name(&used));
            let hint = "No block device has it; give its device or image with -j";
            return Err(refused("log-elsewhere", message, hint));
        }
        let (all, there) = (used.fragments.saturating_mul(u64::from(used.fragment_size)), device.len());
        let message = format!("The file system has {all} bytes, its device only {there}");
        return Err(refused("cut-off", message, "Extend the device or restore the missing part"));
    }
    if used.log_device().is_some() && matches!(&copies[1].1, Ok(copy) if !are_of_one(copy, &used)) {
        let message = "The device of the log belongs to another file system".to_owned();
        return Err(refused("wrong-log", message, "Give the right one with -j"));
    }
    let unknown = (used.incompat & !Incompat::LOG_DEVICE).bits() | if is_repair { used.ro_compat } else { 0 };
    if unknown != 0 {
        let message = format!("The file system has unknown features ({unknown:#x})");
        return Err(refused("unknown-feature", message, "Use a newer version of fsmend"));
    }
    let bytes = used.store();
    for (offset, found) in copies {
        let problem = match found {
            Ok(found) if found == used => continue,
            Ok(_) => Problem::new(&rows::SUPERBLOCK_DIFFERS),
            Err(why) => Problem::new(&rows::SUPERBLOCK).detail("why", why),
        };
        findings.raise_with_edit(problem.detail("place", offset), Layer::Record, offset, &bytes);
    }
    Ok((place, Arc::new(used)))
}

/// The version that most have; of two that differ the one that anchors belong to.
fn chosen(
    device: &dyn Device,
    first: (u64, Superblock),
    copies: &[(u64, Result<Superblock, String>); 3],
) -> (u64, Superblock) {
    let votes = |sb: &Superblock| {
        let same = copies.iter().filter(|(_, copy)| copy.as_ref() == Ok(sb)).count();
        let anchors = (0..ANCHORS).filter(|slot| anchor(device, sb, *slot).is_ok()).count();
        (same, anchors)
    };
    let mut best = first;
    for (offset, copy) in copies {
        if let Ok(copy) = copy
            && votes(copy) > votes(&best.1)
        {
            best = (*offset, copy.clone());
        }
    }
    best
}

fn anchor(device: &dyn Device, sb: &Superblock, slot: u64) -> Result<Anchor, String> {
    let bytes = read(device, anchor_offset(sb, slot))?;
    Anchor::parse(&bytes, &sb.uuid).map_err(|wrong| wrong.to_string())
}

/// All anchors that can be read, the newest first.
pub(crate) fn anchors(log: &Log<'_>) -> Vec<Anchor> {
    let mut found: Vec<Anchor> =
        (0..ANCHORS).filter_map(|slot| anchor(log.device, log.sb, slot).ok()).collect();
    // Numbers have to go on for as long as anything lives.
    found.retain(|anchor| anchor.ssn < 1 << 60 && anchor.number < 1 << 60);
    found.sort_by_key(|anchor| std::cmp::Reverse(anchor.number));
    found
}

/// The segment that an anchor leads to, if it is that.
pub(crate) fn segment_of(log: &Log<'_>, anchor: &Anchor) -> Option<Segment> {
    let segment = log.segment(anchor.summary)?;
    let is_it = segment.summary.ssn == anchor.ssn
        && segment.crc == anchor.summary_crc
        && segment.summary.flags.contains(fsmend_hybridfs_format::SummaryFlags::CHECKPOINT);
    is_it.then_some(segment)
}

/// Raises which anchors before the newest one are lost. The slot that is written next, where the oldest stands, may be torn.
pub(crate) fn check_anchors(log: &Log<'_>, newest: &Anchor, findings: &mut Findings) {
    for number in (newest.number + 2).saturating_sub(ANCHORS)..newest.number + 2 {
        // Until each slot has been written once, some are empty.
        if number == 0 || number == newest.number {
            continue;
        }
        let slot = number % ANCHORS;
        let offset = anchor_offset(log.sb, slot);
        let Err(why) = anchor(log.device, log.sb, slot) else { continue };
        if number > newest.number {
            let is_empty = read(log.device, offset).is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0));
            if !is_empty || number > ANCHORS {
                findings.raise(Problem::new(&rows::ANCHOR_TORN).detail("slot", slot));
            }
            continue;
        }
        let problem = Problem::new(&rows::ANCHOR).detail("slot", slot).detail("why", why);
        let mended = Anchor { number, ..*newest };
        findings.raise_with_edit(problem, Layer::Record, offset, &mended.store(&log.sb.uuid));
    }
}
