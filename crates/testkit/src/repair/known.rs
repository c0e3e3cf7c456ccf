// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is true of a repaired image in every case: very different damage often ends in the same bytes, and these are looked at once.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::judge::Failure;

/// What was found out about one image.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What `e2fsck -fn` says about it.
    pub complaint: Option<String>,
    /// What the kernel says when it mounts and reads it.
    pub kernel: Option<String>,
    /// What is wrong with a second repair.
    pub again: Option<Failure>,
    /// Whether every name leads to what it led to before the damage.
    pub is_as_before: bool,
}

/// Facts about repaired images of one base, by their fingerprints.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<u128, Arc<Facts>>>);

impl Known {
    /// The facts about the image with this fingerprint, found out by `find` if it was not asked before.
    pub fn facts(
        &self,
        fingerprint: u128,
        find: impl FnOnce() -> io::Result<Facts>,
    ) -> io::Result<Arc<Facts>> {
        // Not held during a look: at worst two look at the same image.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&fingerprint).cloned();
        if let Some(facts) = known {
            return Ok(facts);
        }
        let facts = Arc::new(find()?);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(fingerprint, Arc::clone(&facts));
        Ok(facts)
    }
}
