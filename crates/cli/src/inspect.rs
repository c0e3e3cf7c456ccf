// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend inspect`: what a file system is and how full it is, without a check.
//!
//! Fields of the superblock are shown as stored; room is counted by the driver, which reads bitmaps and replays a waiting journal in memory. Where the
//! driver does not know a feature, the superblock's own counts are shown instead.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fsmend_device::{Device, OpenOptions};
use fsmend_engine::Value;
use fsmend_engine::problem::escape_name;
use fsmend_ext_driver::{Ext, MountOptions, RegionRoom, Unwritable};
use fsmend_ext_format::features::{Compat, Incompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::superblock::{RawSuperblock, written_uuid};
use fsmend_vfs::{Errno, FileSystem};
use serde_json::{Value as Json, json};

use crate::common_args::PlainFormat as Format;
use crate::numbers::{bytes, counted, percent, thousands};
use crate::style::printable;
use crate::target::Volume;
use crate::{exit, identity, json as report, machine, output, target};

/// `fsmend inspect`.
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// Image file (raw or qcow2), block device, or whole disk with partitions
    pub target: PathBuf,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// Use only this partition of a disk (kernel numbering)
    #[arg(long, value_name = "N", conflicts_with = "offset")]
    pub partition: Option<u32>,

    /// Byte offset of the file system in the target, e.g. 1M
    #[arg(long, value_name = "BYTES", value_parser = crate::numbers::parse_size)]
    pub offset: Option<u64>,
}

/// What is known of one file system.
struct Facts {
    target: String,
    partition: Option<u32>,
    superblock: RawSuperblock,
    geometry: Geometry,
    /// Blocks and inodes that are free.
    free: (u64, u64),
    /// Of each region, if there are any.
    regions: Vec<RegionRoom>,
    /// Why the superblock's counts had to do, if they had to.
    uncounted: Option<String>,
}

/// Runs the command and returns the exit code.
pub fn run(arguments: &InspectArgs) -> u8 {
    let options = OpenOptions { offset: arguments.offset, partition: arguments.partition };
    let volumes = target::volumes_of(&arguments.target, &options);
    output::warn(&volumes);
    let (mut all, mut code) = (Vec::new(), exit::CLEAN);
    for volume in &volumes {
        match described(volume).map_or_else(
            || facts(volume).map(|facts| Description::Ext(Box::new(facts))),
            |described| described.map(Description::Other),
        ) {
            Ok(description) => all.push(description),
            Err(why) => {
                eprintln!("fsmend: {}: {why}.", printable(&volume.target));
                code = exit::OPERATIONAL;
            }
        }
    }
    let told = match arguments.format {
        Format::Text => {
            all.iter().map(|description| description.text() + "\n").collect::<Vec<_>>().join("\n")
        }
        Format::Json => format!("{:#}\n", document(&all)),
    };
    // A reader that has seen enough closes the pipe; that is no error.
    let _ = std::io::stdout().lock().write_all(told.as_bytes());
    code
}

/// What is known of one file system, by its family.
enum Description {
    Ext(Box<Facts>),
    Other(Described),
}

/// A file system whose family says what is shown.
struct Described {
    target: String,
    partition: Option<u32>,
    values: Vec<(&'static str, Value)>,
}

impl Description {
    fn text(&self) -> String {
        match self {
            Description::Ext(facts) => text(facts),
            Description::Other(described) => described.text(),
        }
    }

    fn member(&self) -> Json {
        match self {
            Description::Ext(facts) => member(facts),
            Description::Other(described) => described.member(),
        }
    }
}

impl Described {
    fn text(&self) -> String {
        let partition = self.partition.map(|number| format!(", partition {number}")).unwrap_or_default();
        let mut lines = vec![format!("{}{partition}", printable(&self.target))];
        for (name, value) in &self.values {
            let value = match value {
                Value::Number(number) => thousands(*number),
                other => printable(&other.to_string()),
            };
            if !value.is_empty() {
                lines.push(format!("{}: {value}", name.replace('-', " ")));
            }
        }
        lines.join("\n")
    }

    fn member(&self) -> Json {
        let mut fields = serde_json::Map::new();
        fields.insert("target".to_owned(), json!(self.target));
        for (name, value) in &self.values {
            let value = match value {
                Value::Number(number) => json!(number),
                other => json!(other.to_string()),
            };
            fields.insert(name.replace('-', "_"), value);
        }
        if let Some(number) = self.partition {
            fields.insert("partition".to_owned(), json!(number));
        }
        Json::Object(fields)
    }
}

/// What the family of a file system says of it; `None` where it is shown in a way of its own.
fn described(volume: &Volume) -> Option<Result<Described, String>> {
    let device = volume.device.as_ref().ok()?;
    let values = target::FAMILIES.of(device).describe(&**device)?;
    let (target, partition) = (volume.target.clone(), volume.partition);
    Some(values.map(|values| Described { target, partition, values }).map_err(|refusal| refusal.to_string()))
}

fn facts(volume: &Volume) -> Result<Facts, String> {
    let device = volume.device.as_ref().map_err(ToString::to_string)?;
    let superblock =
        identity::superblock(&**device).ok_or_else(|| "its superblock cannot be read".to_owned())?;
    let geometry = Geometry::from_superblock(&superblock, device.len())
        .map_err(|unsound| format!("{unsound}; fsmend check may find a copy of the superblock"))?;
    let from_superblock = (superblock.free_blocks_count(), u64::from(superblock.s_free_inodes_count.get()));
    let (free, regions, uncounted) = match counted_by_driver(device) {
        Ok((free, regions)) => (free, regions, None),
        Err(why) => (from_superblock, Vec::new(), Some(why)),
    };
    let (target, partition) = (volume.target.clone(), volume.partition);
    Ok(Facts { target, partition, superblock, geometry, free, regions, uncounted })
}

type Room = ((u64, u64), Vec<RegionRoom>);

fn counted_by_driver(device: &Arc<dyn Device>) -> Result<Room, String> {
    let readable = Arc::new(Unwritable(Arc::clone(device)));
    let mut ext =
        Ext::mount(readable, MountOptions::read_only(machine::time())).map_err(|error| error.to_string())?;
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

fn text(facts: &Facts) -> String {
    let Facts { superblock, geometry, .. } = facts;
    let features = superblock.features();
    let size = u64::from(geometry.block_size);
    let mut lines = vec![format!("{}: {}{}", printable(&facts.target), partition(facts), features.kind())];
    let label = identity::label(superblock);
    if !label.is_empty() {
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
    lines.join("\n")
}

fn partition(facts: &Facts) -> String {
    facts.partition.map(|number| format!("partition {number}, ")).unwrap_or_default()
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

fn document(all: &[Description]) -> Json {
    let file_systems: Vec<Json> = all.iter().map(Description::member).collect();
    json!({
        "version": report::VERSION,
        "tool": {"name": "fsmend", "version": env!("CARGO_PKG_VERSION")},
        "file_systems": file_systems,
    })
}

fn member(facts: &Facts) -> Json {
    let Facts { superblock, geometry, .. } = facts;
    let features = superblock.features();
    let mut told = json!({
        "target": facts.target,
        "kind": features.kind(),
        "label": escape_name(identity::label(superblock).as_bytes()),
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
    let Some(fields) = told.as_object_mut() else { return told };
    if let Some(number) = facts.partition {
        fields.insert("partition".to_owned(), json!(number));
    }
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
    told
}
