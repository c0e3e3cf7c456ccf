//! What an image may open besides itself: backing images, to a bounded depth, all of them read-only.

use std::io;

use imago::format::gate::ImplicitOpenGate;
use imago::{FormatAccess, FormatDriverBuilder, Storage, StorageOpenOptions};

use super::storage::HostFile;

/// Longer chains are taken for loops: an image that is its own backing file would open itself for ever.
const CHAIN_LEN_MAX: usize = 64;

/// Opens what images refer to.
#[derive(Clone, Copy)]
pub(super) struct Gate {
    depth: usize,
}

impl Gate {
    /// The gate of the image that the user named.
    pub(super) fn new() -> Self {
        Gate { depth: 0 }
    }
}

impl ImplicitOpenGate<HostFile> for Gate {
    fn open_format<F: FormatDriverBuilder<HostFile>>(
        &mut self,
        builder: F,
    ) -> io::Result<FormatAccess<HostFile>> {
        if self.depth >= CHAIN_LEN_MAX {
            let text = format!("more than {CHAIN_LEN_MAX} images are based on one another");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let image = builder.write(false).open(Gate { depth: self.depth + 1 })?;
        Ok(FormatAccess::new(image))
    }

    fn open_storage(&mut self, options: StorageOpenOptions) -> io::Result<HostFile> {
        HostFile::open(options)
    }
}
