// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run folder: what was planned, and where records go.
//!
//! ```text
//!  run.json               the run: version, options, and the digest of each shard. Written last, so a folder that has it is whole
//!  shards/00007.jsonl     the volumes of a shard, as they are in the list
//!  records/00007/0001.jsonl   what the first attempt at it did
//!  plans/                 plans of repairs, where they are wanted
//!  engine/                scripts and manifests that were submitted;  logs/  what jobs printed
//! ```
//!
//! Nothing in `run.json` and `shards` changes once it stands there. Every worker compares its digest first.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::choices::Choices;
use crate::digest::{digest, written};
use crate::divide::Shard;
use crate::error::Error;
use crate::list::{self, Item};
use crate::part::Part;

/// The version of the folder's shape.
const VERSION: u32 = 1;

/// The file that makes a folder a run.
const RUN_FILE: &str = "run.json";

/// What was planned.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Version of the folder's shape.
    pub version: u32,
    /// What tells this run from others: names of jobs hold it.
    pub id: String,
    /// The program that planned it. Workers are of the same version.
    pub tool: String,
    /// When, in seconds since 1970.
    pub created: u64,
    /// What became of the list.
    pub list: ListFacts,
    /// Options of all checks.
    pub options: Choices,
    /// Whether plans of repairs are saved.
    pub plans: bool,
    /// How many problems of a volume a record holds.
    pub problems_max: usize,
    /// The shards.
    pub shards: Vec<ShardFacts>,
}

/// What became of the list.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFacts {
    /// Digest of the volumes that are planned, in the order of the list.
    pub digest: String,
    /// Volumes in the list.
    pub volumes: u64,
    /// Volumes that are planned.
    pub planned: u64,
    /// Their bytes, as far as the list says.
    pub bytes: u64,
    /// The part of the list that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub part: Option<Part>,
    /// Volumes that belong to other parts.
    pub other_parts: u64,
    /// Volumes left out because they were found sound lately.
    pub recent: u64,
}

/// One shard.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ShardFacts {
    /// The only node that can open its volumes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node: Option<String>,
    /// Volumes.
    pub volumes: u64,
    /// Their bytes, as far as the list says.
    pub bytes: u64,
    /// Digest of its file.
    pub digest: String,
}

impl Run {
    /// The run of these shards. `list` tells what became of the list; what depends on the shards is filled in here.
    pub fn new(tool: &str, created: u64, list: ListFacts, shards: &[Shard]) -> Result<Run, Error> {
        let (mut facts, mut all) = (Vec::new(), Vec::new());
        for shard in shards {
            let text = text_of(&shard.items)?;
            let digest = written(digest(&text));
            all.extend_from_slice(digest.as_bytes());
            facts.push(ShardFacts {
                node: shard.node.clone(),
                volumes: shard.items.len() as u64,
                bytes: shard.bytes(),
                digest,
            });
        }
        let digest_of_list = written(digest(&all));
        let list = ListFacts {
            digest: digest_of_list.clone(),
            planned: facts.iter().map(|shard| shard.volumes).sum(),
            bytes: facts.iter().fold(0, |sum, shard| sum.saturating_add(shard.bytes)),
            ..list
        };
        let id = written(digest(format!("{digest_of_list} {created} {tool}").as_bytes()));
        Ok(Run {
            version: VERSION,
            id,
            tool: tool.to_owned(),
            created,
            list,
            options: Choices::default(),
            plans: false,
            problems_max: 100,
            shards: facts,
        })
    }

    /// Whether `other` plans the same, at whatever time.
    fn is_like(&self, other: &Run) -> bool {
        let timeless = |run: &Run| Run { id: String::new(), created: 0, ..run.clone() };
        timeless(self) == timeless(other)
    }
}

fn text_of(items: &[Item]) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    for item in items {
        serde_json::to_writer(&mut text, item).map_err(|error| Error::Failed(error.to_string()))?;
        text.push(b'\n');
    }
    Ok(text)
}

/// A run and the folder it lies in.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// What was planned.
    pub run: Run,
    /// What tells whether the file was replaced since it was read.
    stamp: Stamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64);

impl Stamp {
    fn of(path: &Path) -> io::Result<Stamp> {
        let found = fs::metadata(path)?;
        Ok(Stamp(found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
    }
}

impl RunFolder {
    /// Makes the folder at `path`; whether it was made, or held the same run before.
    pub fn create(path: &Path, run: &Run, shards: &[Shard]) -> Result<(RunFolder, bool), Error> {
        let file = path.join(RUN_FILE);
        if file.exists() {
            let there = RunFolder::open(path)?;
            if !there.run.is_like(run) {
                let what = "holds another run. Use a new folder for a new plan";
                return Err(Error::Usage(format!("{} {what}", path.display())));
            }
            return Ok((there, false));
        }
        refuse_strangers(path)?;
        for folder in ["shards", "records", "plans", "engine", "logs"] {
            let folder = path.join(folder);
            fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, &error))?;
        }
        for (number, shard) in shards.iter().enumerate() {
            let (file, records) = (shard_file(path, number), records_folder(path, number));
            fs::create_dir_all(&records).map_err(|error| Error::io(&records, &error))?;
            fs::write(&file, text_of(&shard.items)?).map_err(|error| Error::io(&file, &error))?;
        }
        let mut text = serde_json::to_vec_pretty(run).map_err(|error| Error::Failed(error.to_string()))?;
        text.push(b'\n');
        replace(&file, &text).map_err(|error| Error::io(&file, &error))?;
        Ok((RunFolder::open(path)?, true))
    }

    /// Opens the folder at `path`.
    pub fn open(path: &Path) -> Result<RunFolder, Error> {
        let file = path.join(RUN_FILE);
        let text = fs::read(&file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Error::Usage(format!("{} is no run folder: it has no {RUN_FILE}", path.display()))
            }
            _ => Error::io(&file, &error),
        })?;
        let stamp = Stamp::of(&file).map_err(|error| Error::io(&file, &error))?;
        let run: Run = serde_json::from_slice(&text)
            .map_err(|error| Error::Usage(format!("{}: {error}", file.display())))?;
        match run.version {
            VERSION => Ok(RunFolder { path: path.to_owned(), run, stamp }),
            other => Err(Error::Usage(format!("{}: version {other} is not known", file.display()))),
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses to go on for a program that did not plan the run.
    pub fn must_be_planned_by(&self, tool: &str) -> Result<(), Error> {
        if self.run.tool == tool {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "the run was planned by fsmend {}, and this is fsmend {tool}. Plan it again, or use that version",
            self.run.tool
        )))
    }

    /// Refuses to go on where another run lies in the folder now.
    pub fn must_be_unchanged(&self) -> Result<(), Error> {
        let file = self.path.join(RUN_FILE);
        match Stamp::of(&file) {
            Ok(stamp) if stamp == self.stamp => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io(&file, &error)),
            _ => {}
        }
        match RunFolder::open(&self.path)?.run == self.run {
            true => Ok(()),
            false => Err(Error::Usage(format!("{} was planned anew in the meantime", self.path.display()))),
        }
    }

    /// The volumes of a shard.
    pub fn shard(&self, number: usize) -> Result<Vec<Item>, Error> {
        let Some(facts) = self.run.shards.get(number) else {
            let last = self.run.shards.len().saturating_sub(1);
            return Err(Error::Usage(format!("there is no shard {number}: the last one is {last}")));
        };
        let path = shard_file(&self.path, number);
        let text = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Usage(format!("{} is missing", path.display())),
            _ => Error::io(&path, &error),
        })?;
        if written(digest(&text)) != facts.digest {
            let why = "is not the list that was planned: it was changed in the meantime";
            return Err(Error::Usage(format!("{} {why}", path.display())));
        }
        list::read(BufReader::new(text.as_slice()), &path.display().to_string())
    }

    /// The folder that holds what attempts at a shard did.
    pub fn records(&self, number: usize) -> PathBuf {
        records_folder(&self.path, number)
    }

    /// The name of the file for the plan of a volume's repair, in the folder `plans`: the id, so far as file names can hold it.
    pub fn plan_name(id: &str) -> String {
        let mut name = String::new();
        for byte in id.bytes() {
            let is_plain =
                byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || byte == b'.' && !name.is_empty();
            match is_plain {
                true => name.push(char::from(byte)),
                false => name.push_str(&format!("%{byte:02X}")),
            }
        }
        if name.len() > 180 {
            name = format!("{}-{}", &name[..150], written(digest(id.as_bytes())));
        }
        name + ".fsmend"
    }
}

fn shard_file(folder: &Path, number: usize) -> PathBuf {
    folder.join("shards").join(format!("{number:05}.jsonl"))
}

fn records_folder(folder: &Path, number: usize) -> PathBuf {
    folder.join("records").join(format!("{number:05}"))
}

/// A folder may be new, empty, or what an interrupted plan has left.
fn refuse_strangers(path: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|error| Error::io(path, &error))?,
    };
    for entry in entries {
        let name = entry.map_err(|error| Error::io(path, &error))?.file_name();
        let name = name.to_string_lossy();
        let is_ours = ["shards", "records", "plans", "engine", "logs"].contains(&&*name);
        if !is_ours && !name.starts_with(".run.json.") && name != "lost+found" {
            return Err(Error::Usage(format!("{} is not empty: it holds {name}", path.display())));
        }
    }
    Ok(())
}

/// Puts a whole new file in the place of an old one: a reader never sees a part.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace_with(path, |file| file.write_all(contents))
}

/// The same with what `write` writes.
pub fn replace_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let builder = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut file = File::create(&builder)?;
    let written = write(&mut file).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&builder, path));
    if written.is_err() {
        let _ = fs::remove_file(&builder);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_have_names_that_lead_nowhere_else() {
        assert_eq!(RunFolder::plan_name("vm-1.img"), "vm-1.img.fsmend");
        assert_eq!(RunFolder::plan_name("../../etc/x"), "%2E.%2F..%2Fetc%2Fx.fsmend");
        assert_eq!(RunFolder::plan_name("ü"), "%C3%BC.fsmend");
        let long = |end: char| RunFolder::plan_name(&format!("{}{end}", "x".repeat(400)));
        assert!(long('a').len() < 200 && long('a') != long('b'));
    }
}
