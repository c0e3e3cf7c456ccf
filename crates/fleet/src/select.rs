// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which volumes of a list are due: those that earlier runs did not find sound lately.

use std::collections::HashMap;

use crate::error::Error;
use crate::list::Item;
use crate::record;
use crate::run::RunFolder;
use crate::verdict;

/// Keeps the volumes that are not known to have been sound since `since`, in seconds since 1970, by the records of earlier runs.
pub fn outdated(items: Vec<Item>, earlier: &[RunFolder], since: u64) -> Result<Vec<Item>, Error> {
    let mut last: HashMap<String, (u64, bool)> = HashMap::new();
    for folder in earlier {
        record::visit(folder, |record| {
            let known = last.entry(record.id.into_owned()).or_default();
            *known = (*known).max((record.started, record.verdict == verdict::SOUND));
        })?;
    }
    let is_due = |item: &Item| !last.get(&item.id).is_some_and(|(at, is_sound)| *is_sound && *at >= since);
    Ok(items.into_iter().filter(is_due).collect())
}
