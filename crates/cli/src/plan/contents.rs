// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a saved plan says of itself: its text, read back. Plans of other versions may lack parts of it, and what a plan says is not believed beyond
//! being shown: only its blocks are ever written.

use std::path::{Path, PathBuf};

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::Plan;
use fsmend_engine::inodes::Kind;
use fsmend_engine::{Action, FileChange, FormerName, InodeState, Row, Witness};
use serde_json::{Value as Json, json};

use super::tree;
use crate::target;

/// The text of a plan.
pub struct Contents {
    /// As it stands in the plan.
    json: Json,
    /// What happens to which file.
    pub files: Vec<FileChange>,
}

/// What a saved plan says of its target: the path, and the byte at which the file system starts.
pub fn target_of(plan: &Plan) -> Option<(String, u64)> {
    let text: Json = serde_json::from_str(plan.text()).ok()?;
    Some((text["target"].as_str()?.to_owned(), text["start"].as_u64()?))
}

/// Where the log of the target was, if that was on another device.
pub fn log_of(plan: &Plan) -> Option<PathBuf> {
    let text: Json = serde_json::from_str(plan.text()).ok()?;
    text["log_device"].as_str().map(PathBuf::from)
}

impl Contents {
    /// The text of `plan`.
    pub fn of(plan: &Plan) -> Contents {
        let json: Json = serde_json::from_str(plan.text()).unwrap_or_default();
        let catalogue = target::FAMILIES.catalogue();
        let files = list(&json["files"]).filter_map(|told| file(told, &catalogue)).collect();
        Contents { json, files }
    }

    /// A member that is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.json[name].as_str()
    }

    /// A member that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.json[name].as_u64()
    }

    /// The version of the program that made it.
    pub fn version(&self) -> Option<&str> {
        self.json["tool"]["version"].as_str()
    }

    /// Kinds of problems: code, how many.
    pub fn problems(&self) -> impl Iterator<Item = (&str, u64)> {
        list(&self.json["problems"])
            .filter_map(|told| Some((told["code"].as_str()?, told["count"].as_u64()?)))
    }

    /// What may be lost: code, how many, the sentence.
    pub fn losses(&self) -> impl Iterator<Item = (&str, u64, &str)> {
        list(&self.json["losses"]).filter_map(|told| {
            Some((told["code"].as_str()?, told["count"].as_u64()?, told["loss"].as_str()?))
        })
    }

    /// What of which structure is changed: its name, how many bytes.
    pub fn structures(&self) -> impl Iterator<Item = (&str, u64)> {
        list(&self.json["structures"])
            .filter_map(|told| Some((told["structure"].as_str()?, told["bytes"].as_u64()?)))
    }

    /// Files and directories in all.
    pub fn files_total(&self) -> u64 {
        self.number("files_total").unwrap_or(self.files.len() as u64)
    }

    /// All of it as JSON, with what the blocks of `plan` come to.
    pub fn to_json(&self, path: &Path, plan: &Plan) -> Json {
        let mut told = match &self.json {
            Json::Object(members) => members.clone(),
            _ => Default::default(),
        };
        let blocks: Vec<Json> =
            plan.blocks().map(|block| json!({"offset": block.offset, "length": block.len})).collect();
        for (name, value) in [
            ("file", json!(path.display().to_string())),
            ("identity", json!(String::from_utf8_lossy(plan.identity()))),
            ("target_bytes", json!(plan.target_len())),
            ("bytes", json!(plan.bytes_to_write())),
            ("blocks", json!(blocks)),
            ("tree", json!(tree::of_files(&self.files))),
        ] {
            told.insert(name.to_owned(), value);
        }
        Json::Object(told)
    }
}

fn list(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}

fn text(json: &Json) -> Option<String> {
    json.as_str().map(str::to_owned)
}

fn file(told: &Json, catalogue: &[&'static Row]) -> Option<FileChange> {
    let row = |code: &str| catalogue.iter().copied().find(|row| row.code == code);
    Some(FileChange {
        inode: InodeNo(u32::try_from(told["inode"].as_u64()?).ok()?),
        path: text(&told["path"]),
        former_names: list(&told["former_names"]).filter_map(former_name).collect(),
        kind: kind(told["kind"].as_str()),
        state: match told["state"].as_str() {
            Some("unused") => InodeState::Unused,
            Some("unreadable") => InodeState::Unreadable,
            _ => InodeState::InUse,
        },
        size: told["size"].as_u64(),
        actions: list(&told["actions"]).filter_map(action).collect(),
        losses: list(&told["losses"]).filter_map(Json::as_str).filter_map(row).collect(),
    })
}

fn kind(word: Option<&str>) -> Kind {
    match word {
        Some("regular") => Kind::Regular,
        Some("directory") => Kind::Directory,
        Some("char-device") => Kind::CharDevice,
        Some("block-device") => Kind::BlockDevice,
        Some("fifo") => Kind::Fifo,
        Some("socket") => Kind::Socket,
        Some("symlink") => Kind::Symlink,
        _ => Kind::Unknown,
    }
}

fn former_name(told: &Json) -> Option<FormerName> {
    let all =
        [Witness::Entry, Witness::BrokenEntry, Witness::DeletedEntry, Witness::Journal, Witness::ParentEntry];
    let word = told["witness"].as_str()?;
    let witness = all.into_iter().find(|witness| witness.word() == word)?;
    Some(FormerName { witness, path: text(&told["path"])?, block: told["block"].as_u64().map(BlockNo) })
}

fn action(told: &Json) -> Option<Action> {
    let (size, blocks) = (told["size"].as_u64(), told["blocks"].as_u64());
    let (path, name) = (text(&told["path"]), text(&told["name"]));
    Some(match told["action"].as_str()? {
        "removed" => Action::Removed,
        "truncated" => Action::Truncated(size?),
        "extended" => Action::Extended(size?),
        "unmapped" => Action::Unmapped(blocks?),
        "copied" => Action::Copied(blocks?),
        "renamed" => Action::Renamed(path?, name?),
        "moved-to-lost-found" => Action::MovedToLostFound(name?),
        "name-removed" => Action::NameRemoved(path?),
        "corrected" => Action::Corrected,
        "kept" => Action::Kept,
        _ => return None,
    })
}
