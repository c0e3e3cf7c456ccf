// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests need and no user does: image builders, seeded damage, crash sweeps, oracles, hostile images, bodies of fuzz targets.

pub mod conformance;
pub mod contents;
pub mod crash;
pub mod damage;
pub mod driver;
pub mod flawed;
pub mod fleet;
pub mod fsmend;
pub mod fuzzing;
pub mod host;
pub mod hostile;
pub mod hybridfs;
pub mod image;
pub mod memfs;
pub mod oracle;
pub mod process;
pub mod qcow2;
pub mod repair;
pub mod rext3;
pub mod sharing;
pub mod structured_damage;
pub mod toy;
pub mod toy_image;
pub mod ufs;
pub mod within;

use std::path::PathBuf;

/// Cargo's target folder of this workspace.
pub fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    }
}
