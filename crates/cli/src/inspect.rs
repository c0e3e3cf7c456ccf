// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend inspect`: what a file system is and how full it is, without a check, as its family describes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use fsmend_device::{Device, OpenOptions};
use fsmend_engine::options::SuperblockOptions;
use fsmend_session::Description;
use serde_json::{Value as Json, json};

use crate::common_args::PlainFormat as Format;
use crate::style::printable;
use crate::target::Volume;
use crate::{exit, json as report, machine, output, target};

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

    /// Device or image with the log, if that is on another device (hybridfs) [default: the device with the UUID in the superblock]
    #[arg(short, long, value_name = "DEVICE")]
    pub journal: Option<PathBuf>,
}

/// Runs the command and returns the exit code.
pub fn run(arguments: &InspectArgs) -> u8 {
    let options = OpenOptions { offset: arguments.offset, partition: arguments.partition };
    let volumes = target::volumes_of(&arguments.target, &options);
    output::warn(&volumes);
    let (mut all, mut code) = (Vec::new(), exit::CLEAN);
    for volume in volumes {
        let target = volume.target.clone();
        match described(volume, arguments.journal.as_deref()) {
            Ok(described) => all.push(described),
            Err(why) => {
                eprintln!("fsmend: {}: {}.", printable(&target), why.trim_end_matches('.'));
                code = exit::OPERATIONAL;
            }
        }
    }
    let document = match arguments.format {
        Format::Text => all.iter().map(|described| described.text() + "\n").collect::<Vec<_>>().join("\n"),
        Format::Json => format!("{:#}\n", as_json(&all)),
    };
    print!("{document}");
    code
}

/// A file system, and what its family says of it.
struct Described {
    target: String,
    partition: Option<u32>,
    description: Description,
}

impl Described {
    fn text(&self) -> String {
        let title = &self.description.title;
        let mut head = printable(&self.target);
        let partition = self.partition.map(|number| format!("partition {number}")).into_iter();
        let words: Vec<String> = partition.chain((!title.is_empty()).then(|| title.clone())).collect();
        if !words.is_empty() {
            // What has no title is its target.
            head += if title.is_empty() { ", " } else { ": " };
            head += &words.join(", ");
        }
        std::iter::once(&head).chain(&self.description.lines).cloned().collect::<Vec<_>>().join("\n")
    }

    fn member(&self) -> Json {
        let mut fields = serde_json::Map::new();
        fields.insert("target".to_owned(), json!(self.target));
        fields.extend(self.description.members.clone());
        if let Some(number) = self.partition {
            fields.insert("partition".to_owned(), json!(number));
        }
        Json::Object(fields)
    }
}

fn described(volume: Volume, journal: Option<&Path>) -> Result<Described, String> {
    let volume = volume.whole(journal, &target::environment(), SuperblockOptions::default());
    let device: Arc<dyn Device> = volume.device.map_err(|refusal| refusal.to_string())?;
    let family = target::FAMILIES.of(&*device);
    let description = family.describe(&device, machine::time())?;
    Ok(Described { target: volume.target, partition: volume.partition, description })
}

fn as_json(all: &[Described]) -> Json {
    let file_systems: Vec<Json> = all.iter().map(Described::member).collect();
    json!({
        "version": report::VERSION,
        "tool": {"name": "fsmend", "version": env!("CARGO_PKG_VERSION")},
        "file_systems": file_systems,
    })
}
