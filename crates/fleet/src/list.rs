// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work list: one JSON object a line, `{"id", "target", "size"?, "partition"?, "node"?, "options"?}`.

use std::collections::HashSet;
use std::io::BufRead;

use serde::{Deserialize, Serialize};

use crate::choices::Choices;
use crate::error::Error;

/// The longest line of a list, and the longest id.
const LINE_MAX: usize = 1 << 20;
const ID_MAX: usize = 512;

/// A volume to check.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What it is called in records and reports. Unique in the list.
    pub id: String,
    /// Image file or block device, as the worker's node sees it.
    pub target: String,
    /// Bytes, to balance shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Partition of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// The only node that can open the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How it is checked, where that is not as the run says.
    #[serde(default, skip_serializing_if = "Choices::is_empty")]
    pub options: Choices,
}

/// Reads a list. Empty lines are passed over; any other line that is no volume is an error that names it.
pub fn read(mut input: impl BufRead, name: &str) -> Result<Vec<Item>, Error> {
    let (mut items, mut ids, mut line) = (Vec::new(), HashSet::new(), Vec::new());
    for number in 1_u64.. {
        line.clear();
        let mut limited = std::io::Read::take(&mut input, LINE_MAX as u64);
        let read = limited.read_until(b'\n', &mut line);
        let wrong = |why: String| Error::Usage(format!("{name}, line {number}: {why}"));
        match read {
            Err(error) => return Err(Error::Failed(format!("{name}: {error}"))),
            Ok(0) => break,
            Ok(LINE_MAX) => return Err(wrong(format!("longer than {LINE_MAX} bytes"))),
            Ok(_) => {}
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let item: Item = serde_json::from_slice(&line)
            .map_err(|error| wrong(format!("not a JSON object that describes a volume: {error}")))?;
        check(&item).map_err(wrong)?;
        if !ids.insert(item.id.clone()) {
            return Err(wrong(format!("the id {:?} is not unique", item.id)));
        }
        items.push(item);
    }
    Ok(items)
}

fn check(item: &Item) -> Result<(), String> {
    let is_fine = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
    if !is_fine(&item.id) || item.id.len() > ID_MAX {
        return Err(format!("an id has 1 to {ID_MAX} bytes and no control characters"));
    }
    if item.target.is_empty() || item.target.contains('\0') {
        return Err("the target is empty or not a path".to_owned());
    }
    // Nodes stand in job scripts and manifests.
    let is_name = |text: &str| {
        text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._".contains(letter))
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
    };
    match &item.node {
        Some(node) if !is_name(node) => Err(format!("{node:?} is not the name of a node")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn error(text: &str) -> String {
        read(text.as_bytes(), "l").unwrap_err().to_string()
    }

    #[test]
    fn lists_are_read() {
        let text = "{\"id\":\"a\",\"target\":\"/x\"}\n\n{\"id\":\"b\",\"target\":\"/y\",\"size\":7,\"partition\":2,\"node\":\"n-1\",\"options\":{\"threads\":1}}";
        let items = read(text.as_bytes(), "l").unwrap();
        assert_eq!((items.len(), items[0].size, items[1].partition), (2, None, Some(2)));
        assert_eq!((items[1].node.as_deref(), items[1].options.threads), (Some("n-1"), Some(1)));
    }

    #[test]
    fn a_wrong_line_is_named() {
        assert!(error("{\"id\":\"a\",\"target\":\"x\"}\nnonsense").starts_with("l, line 2: "));
        assert!(error("{\"id\":\"a\"}").contains("target"));
        assert!(error("{\"id\":\"a\",\"target\":\"x\",\"traget\":1}").contains("traget"));
        assert!(
            error("{\"id\":\"a\",\"target\":\"x\"}\n{\"id\":\"a\",\"target\":\"y\"}").contains("not unique")
        );
        assert!(error("{\"id\":\"\",\"target\":\"x\"}").contains("an id has"));
        assert!(error("{\"id\":\"a\",\"target\":\"x\",\"node\":\"a b; rm\"}").contains("not the name"));
        assert!(error("{\"id\":\"a\",\"target\":\"x\",\"node\":\"-w\"}").contains("not the name"));
        assert!(error(&" ".repeat(LINE_MAX + 1)).contains("longer"));
    }
}
