// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an ext file system is and how full it is, without a check.
//!
//! Fields of the superblock are shown as stored; room is counted by the driver, which reads bitmaps and replays a waiting journal in memory. Where the
//! driver does not know a feature, the superblock's own counts are shown instead.

use std::sync::Arc;

use fsmend_blockcache::Unwritable;
use fsmend_device::Device;
use fsmend_engine::problem::escape_name;
use fsmend_ext_driver::{Ext, MountOptions, RegionRoom};
use fsmend_ext_format::features::{Compat, Incompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::settle::Unsound;
use fsmend_ext_format::superblock::{RawSuperblock, written_uuid};
use fsmend_session::Description;
use fsmend_session::numbers::{bytes, counted, percent, thousands};
use fsmend_vfs::{Errno, FileSystem, Time};
use serde_json::{Map, Value as Json, json};

/// What is known of one file system.
struct Facts {
    superblock: RawSuperblock,
    geometry: Geometry,
    /// Blocks and inodes that are free.
    free: (u64, u64),
    /// Of each region, if there are any.
    regions: Vec<RegionRoom>,
    /// Why the superblock's counts had to do, if they had to.
    uncounted: Option<String>,
}

/// Describes the file system on `device`.
pub fn describe(device: &Arc<dyn Device>, now: Time) -> Result<Description, String> {
    let facts = facts(device, now)?;
    let title = facts.superblock.features().kind().to_owned();
    Ok(Description { title, lines: lines(&facts), members: members(&facts) })
}

fn facts(device: &Arc<dyn Device>, now: Time) -> Result<Facts, String> {
    let superblock =
        super::superblock(&**device).ok_or_else(|| "its superblock cannot be read".to_owned())?;
    let geometry = Geometry::from_superblock(&superblock, device.len()).map_err(|unsound| match unsound {
        Unsound::Magic(_) => "no superblock was found; fsmend check may find a copy of one".to_owned(),
        unsound => format!("{unsound}; fsmend check may find a copy of the superblock"),
    })?;
    let from_superblock = (superblock.free_blocks_count(), u64::from(superblock.s_free_inodes_count.get()));
    let (free, regions, uncounted) = match counted_by_driver(device, now) {
        Ok((free, regions)) => (free, regions, None),
        Err(why) => (from_superblock, Vec::new(), Some(why)),
    };
    Ok(Facts { superblock, geometry, free, regions, uncounted })
}

type Room = ((u64, u64), Vec<RegionRoom>);

fn counted_by_driver(device: &Arc<dyn Device>, now: Time) -> Result<Room, String> {
    let readable = Arc::new(Unwritable(Arc::clone(device)));
    let mut ext = Ext::mount(readable, MountOptions::read_only(now)).map_err(|error| error.to_string())?;
    let room = ext.statfs().and_then(|space| Ok(((space.blocks_free, space.inodes_free), ext.regions()?)));
    room.map_err(|error: Errno| ext.trouble().map_or_else(|| error.to_string(), ToOwned::to_owned))
}

fn journal(superblock: &RawSuperblock) -> &'static str {
    let features = superblock.features();
    if !features.has_compat(Compat::HAS_JOURNAL) {
        "none"
    } else if features.has_incompat(Incompat::RECOVER) {
        "to-be-replayed"
    } else {
        "clean"
    }
}

/// Sums over regions: blocks, free ones, and how many regions are full.
fn sums(regions: &[RegionRoom]) -> (u64, u64, u64) {
    regions.iter().fold((0, 0, 0), |(blocks, free, full), region| {
        let is_full = u64::from(region.blocks > 0 && region.free == 0);
        (blocks + u64::from(region.blocks), free + u64::from(region.free), full + is_full)
    })
}

/// What stands below the first line.
fn lines(facts: &Facts) -> Vec<String> {
    let Facts { superblock, geometry, .. } = facts;
    let features = superblock.features();
    let size = u64::from(geometry.block_size);
    let mut lines = Vec::new();
    if let Some(label) = super::label(superblock) {
        lines.push(format!("label: {}", escape_name(label.as_bytes())));
    }
    lines.push(format!("UUID: {}", written_uuid(&superblock.s_uuid)));
    lines.push(format!(
        "blocks: {} of {} ({}), {} free, {} reserved for the superuser",
        thousands(geometry.blocks_count),
        bytes(size),
        bytes(geometry.blocks_count.saturating_mul(size)),
        thousands(facts.free.0),
        thousands(superblock.reserved_blocks_count()),
    ));
    lines.push(format!(
        "inodes: {} of {} bytes, {} free",
        thousands(u64::from(geometry.inodes_count)),
        geometry.inode_size,
        thousands(facts.free.1)
    ));
    lines.push(format!(
        "groups: {} of {}",
        thousands(u64::from(geometry.group_count)),
        counted(u64::from(geometry.blocks_per_group), "block", "blocks")
    ));
    lines.push(format!("features: {}", features.names().join(" ")));
    lines.push(format!("journal: {}", journal(superblock).replace('-', " ")));
    if geometry.rext3() {
        lines.push(format!("indirect regions: {}", regions(facts)));
    }
    if let Some(why) = &facts.uncounted {
        lines.push(format!("free counts are from the superblock, not counted: {why}"));
    }
    lines
}

fn regions(facts: &Facts) -> String {
    let each = counted(u64::from(facts.geometry.region_blocks), "block", "blocks");
    if facts.uncounted.is_some() {
        return format!("{each} in each group");
    }
    let (blocks, free, full) = sums(&facts.regions);
    let used = blocks - free;
    let share = percent(used, blocks);
    let full = match full {
        0 => "none is full".to_owned(),
        1 => "1 is full".to_owned(),
        full => format!("{} are full", thousands(full)),
    };
    format!(
        "{each} in each group, {} of {} blocks in use ({share}), {full}",
        thousands(used),
        thousands(blocks)
    )
}

fn members(facts: &Facts) -> Map<String, Json> {
    let Facts { superblock, geometry, .. } = facts;
    let features = superblock.features();
    let known = json!({
        "kind": features.kind(),
        "label": escape_name(super::label(superblock).unwrap_or_default().as_bytes()),
        "uuid": written_uuid(&superblock.s_uuid),
        "features": features.names(),
        "block_size": geometry.block_size,
        "blocks": geometry.blocks_count,
        "blocks_free": facts.free.0,
        "blocks_reserved": superblock.reserved_blocks_count(),
        "inode_size": geometry.inode_size,
        "inodes": geometry.inodes_count,
        "inodes_free": facts.free.1,
        "groups": geometry.group_count,
        "blocks_per_group": geometry.blocks_per_group,
        "journal": journal(superblock),
    });
    let Json::Object(mut fields) = known else { return Map::new() };
    if let Some(why) = &facts.uncounted {
        fields.insert("uncounted".to_owned(), json!(why));
    } else if geometry.rext3() {
        let (blocks, free, full) = sums(&facts.regions);
        let used: Vec<u32> = facts.regions.iter().map(|region| region.blocks - region.free).collect();
        let regions = json!({
            "blocks_per_group": geometry.region_blocks,
            "blocks_total": blocks,
            "blocks_used": blocks - free,
            "full": full,
            "blocks_used_by_group": used,
        });
        fields.insert("metadata_regions".to_owned(), regions);
    }
    fields
}
