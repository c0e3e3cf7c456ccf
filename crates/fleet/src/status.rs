// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a run is, from its folder alone.

use serde::Serialize;

use crate::attempt::Progress;
use crate::error::Error;
use crate::run::RunFolder;

/// How far it is.
#[derive(Serialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Volumes that are planned.
    pub planned: u64,
    /// Volumes with a record.
    pub recorded: u64,
    /// Of those, volumes whose check came to its end.
    pub checked: u64,
    /// Volumes that an attempt has begun and not finished: in work, or left by a worker that is gone.
    pub begun: u64,
    /// Bytes that are planned, as far as the list says.
    pub bytes_planned: u64,
    /// Bytes of volumes with a record.
    pub bytes_recorded: u64,
    /// Attempts at shards.
    pub attempts: u64,
    /// Lines in records that are none.
    pub unreadable_lines: u64,
    /// The shards.
    pub shards: Vec<ShardStatus>,
}

/// How far a shard is.
#[derive(Serialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardStatus {
    /// Its number.
    pub shard: usize,
    /// The only node that can open its volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Volumes.
    pub planned: u64,
    /// Volumes with a record.
    pub recorded: u64,
    /// Volumes whose check came to its end.
    pub checked: u64,
    /// Attempts at it.
    pub attempts: u64,
    /// The volumes that attempts have begun and not finished, with the node.
    pub begun: Vec<Begun>,
}

/// A volume that was begun.
#[derive(Serialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// The volume.
    pub id: String,
    /// Where.
    pub node: String,
}

impl Status {
    /// Whether every volume has a record.
    pub fn is_complete(&self) -> bool {
        self.recorded == self.planned
    }
}

/// Looks at all shards.
pub fn status(folder: &RunFolder) -> Result<Status, Error> {
    let mut status = Status::default();
    for (number, facts) in folder.run.shards.iter().enumerate() {
        let items = folder.shard(number)?;
        let mut progress = Progress::default();
        progress.refresh(folder, number)?;
        let mut shard = ShardStatus { shard: number, node: facts.node.clone(), ..ShardStatus::default() };
        for item in &items {
            let size = item.size.unwrap_or(0);
            shard.planned += 1;
            status.bytes_planned = status.bytes_planned.saturating_add(size);
            match progress.done.get(&item.id) {
                Some(is_checked) => {
                    shard.recorded += 1;
                    shard.checked += u64::from(*is_checked);
                    status.bytes_recorded = status.bytes_recorded.saturating_add(size);
                }
                None => shard.begun.extend(begun(&progress, &item.id)),
            }
        }
        shard.attempts = progress.attempts.len() as u64;
        status.unreadable_lines += progress.attempts.values().map(|seen| seen.unreadable).sum::<u64>();
        status.planned += shard.planned;
        status.recorded += shard.recorded;
        status.checked += shard.checked;
        status.begun += shard.begun.len() as u64;
        status.attempts += shard.attempts;
        status.shards.push(shard);
    }
    Ok(status)
}

/// The last attempt that has begun with a volume.
fn begun(progress: &Progress, id: &str) -> Option<Begun> {
    let seen = progress.attempts.values().rev().find(|seen| seen.open.as_deref() == Some(id))?;
    let node = seen.header.as_ref().map(|header| header.node.clone()).unwrap_or_default();
    Some(Begun { id: id.to_owned(), node })
}

/// The shards that have volumes without a record; with `retry`, also those with volumes that could not be checked.
pub fn incomplete(folder: &RunFolder, retry: bool) -> Result<Vec<usize>, Error> {
    let lacks = |shard: &ShardStatus| shard.planned > if retry { shard.checked } else { shard.recorded };
    let status = status(folder)?;
    Ok(status.shards.iter().filter(|shard| lacks(shard)).map(|shard| shard.shard).collect())
}
