// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an image may open besides itself: backing images, to a bounded depth, all of them read-only.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use imago::format::gate::ImplicitOpenGate;
use imago::{FormatAccess, FormatDriverBuilder, Storage, StorageOpenOptions};

use super::storage::HostFile;

/// Longer chains are taken for loops: an image that is its own backing file would open itself for ever.
const CHAIN_LEN_MAX: usize = 64;

/// Tables of all images of a chain together may take so much memory.
const CHAIN_TABLE_BYTES_MAX: u64 = 1 << 30;

/// Opens what images refer to.
pub(super) struct Gate {
    depth: usize,
    /// What the tables of all images of the chain can take, counted up as they are opened.
    table_bytes: Arc<AtomicU64>,
}

impl Gate {
    /// The gate of the image that the user named; its own tables are in `table_bytes` already.
    pub(super) fn new(table_bytes: Arc<AtomicU64>) -> Self {
        Gate { depth: 0, table_bytes }
    }
}

impl ImplicitOpenGate<HostFile> for Gate {
    fn open_format<F: FormatDriverBuilder<HostFile>>(
        &mut self,
        builder: F,
    ) -> io::Result<FormatAccess<HostFile>> {
        if self.depth >= CHAIN_LEN_MAX {
            return refuse(format!("more than {CHAIN_LEN_MAX} images are based on one another"));
        }
        let image = builder
            .write(false)
            .open(Gate { depth: self.depth + 1, table_bytes: Arc::clone(&self.table_bytes) })?;
        Ok(FormatAccess::new(image))
    }

    fn open_storage(&mut self, options: StorageOpenOptions) -> io::Result<HostFile> {
        let file = HostFile::open(options)?;
        let more = file.header().map_or(0, |header| header.table_bytes) + file.memory_max();
        if self.table_bytes.fetch_add(more, Relaxed).saturating_add(more) > CHAIN_TABLE_BYTES_MAX {
            return refuse(
                "the tables of the images on which it is based could take over 1 GiB of memory".into(),
            );
        }
        Ok(file)
    }
}

fn refuse<T>(why: String) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}
