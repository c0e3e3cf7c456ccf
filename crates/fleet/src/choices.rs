// SPDX-License-Identifier: MIT OR Apache-2.0
//! How volumes are checked: the options of a run, and those of one volume in the list. There is no option here that writes to a volume.

use serde::{Deserialize, Serialize};

/// Options of a check, as `fsmend check` has them.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Choices {
    /// Byte offset of the file system in the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Block of the superblock to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superblock: Option<u64>,
    /// Block size for `superblock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u32>,
    /// Device or image of the external journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    /// Skip journal replay.
    #[serde(skip_serializing_if = "is_false")]
    pub no_replay: bool,
    /// Worker threads of a check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u16>,
    /// Memory limit of a check, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Bytes read per second, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_limit: Option<u64>,
    /// Lowest priority, idle processors only.
    #[serde(skip_serializing_if = "is_false")]
    pub background: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Choices {
    /// Whether nothing is chosen.
    pub fn is_empty(&self) -> bool {
        *self == Choices::default()
    }

    /// These choices; what they leave open is taken from `others`.
    pub fn or(&self, others: &Choices) -> Choices {
        Choices {
            offset: self.offset.or(others.offset),
            superblock: self.superblock.or(others.superblock),
            block_size: self.block_size.or(others.block_size),
            journal: self.journal.clone().or_else(|| others.journal.clone()),
            no_replay: self.no_replay || others.no_replay,
            threads: self.threads.or(others.threads),
            memory: self.memory.or(others.memory),
            read_limit: self.read_limit.or(others.read_limit),
            background: self.background || others.background,
        }
    }

    /// The same on the command line of `fsmend check` and `fsmend repair`. Values are joined to their names: none can be taken for an option.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            arguments.extend(value.map(|value| format!("--{name}={value}")));
        };
        add("offset", self.offset.map(|value| value.to_string()));
        add("superblock", self.superblock.map(|value| value.to_string()));
        add("block-size", self.block_size.map(|value| value.to_string()));
        add("journal", self.journal.clone());
        add("threads", self.threads.map(|value| value.to_string()));
        add("memory", self.memory.map(|value| value.to_string()));
        add("read-limit", self.read_limit.map(|value| value.to_string()));
        for (name, is_wanted) in [("--no-replay", self.no_replay), ("--background", self.background)] {
            arguments.extend(is_wanted.then(|| name.to_owned()));
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn options_of_a_volume_come_before_those_of_the_run() {
        let volume: Choices = serde_json::from_str(r#"{"threads": 2, "no_replay": true}"#).unwrap();
        let run = Choices { threads: Some(8), memory: Some(1 << 30), ..Choices::default() };
        assert_eq!(volume.or(&run).arguments(), ["--threads=2", "--memory=1073741824", "--no-replay"]);
    }

    #[test]
    fn no_option_of_a_list_writes() {
        for option in ["yes", "preen", "plan", "mark_for_repair", "trace", "report_dir", "args"] {
            let text = format!("{{\"{option}\": true}}");
            assert!(serde_json::from_str::<Choices>(&text).is_err(), "{option}");
        }
        let sly = Choices { journal: Some("--yes".to_owned()), ..Choices::default() };
        assert_eq!(sly.arguments(), ["--journal=--yes"]);
    }
}
