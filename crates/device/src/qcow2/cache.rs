// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compressed clusters, unpacked: installation images consist of nothing else, and a checker reads many small blocks that
//! share one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Memory for unpacked clusters of one image.
const CACHE_BYTES: u64 = 8 << 20;

/// The clusters unpacked last, by their number on the disk.
pub(super) struct ClusterCache {
    cluster_bytes: u64,
    /// The newest is in front. A few dozen: searching them costs little beside unpacking one.
    clusters: Mutex<VecDeque<(u64, Arc<[u8]>)>>,
}

impl ClusterCache {
    /// A cache for clusters of `cluster_bytes`.
    pub(super) fn new(cluster_bytes: u64) -> Self {
        ClusterCache { cluster_bytes, clusters: Mutex::new(VecDeque::new()) }
    }

    /// Most memory that the cache takes: one more cluster while it is unpacked, and its packed bytes.
    pub(super) fn memory_max(&self) -> u64 {
        CACHE_BYTES.max(self.cluster_bytes) + 2 * self.cluster_bytes
    }

    /// Size of a cluster.
    pub(super) fn cluster_bytes(&self) -> u64 {
        self.cluster_bytes
    }

    /// The contents of `cluster`, from `unpack` if they are not here. Two threads may unpack the same one at a time; no lock
    /// is held meanwhile.
    pub(super) fn get<E>(
        &self,
        cluster: u64,
        unpack: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        if let Some(contents) = self.find(cluster) {
            return Ok(contents);
        }
        let contents: Arc<[u8]> = unpack()?.into();
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.push_front((cluster, Arc::clone(&contents)));
        clusters.truncate((CACHE_BYTES / self.cluster_bytes).clamp(1, 128) as usize);
        Ok(contents)
    }

    /// Looks a cluster up and makes it the newest.
    fn find(&self, cluster: u64) -> Option<Arc<[u8]>> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let index = clusters.iter().position(|(number, _)| *number == cluster)?;
        let found = clusters.remove(index)?;
        let contents = Arc::clone(&found.1);
        clusters.push_front(found);
        Some(contents)
    }
}
