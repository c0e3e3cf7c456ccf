//! Multiple-mount protection: the MMP block.

pub mod problems;

use fsmend_engine::Findings;

use crate::Fs;

/// Checks the MMP block, if the file system has the feature.
pub fn check(_fs: &Fs<'_>, _findings: &mut Findings) {}
