// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `fsmend --version` says.

use std::sync::LazyLock;

/// Version, and commit and date of the source where they are known: `0.1.0 (48350bc 2026-11-23)`.
pub fn short() -> &'static str {
    if env!("FSMEND_COMMIT").is_empty() {
        env!("CARGO_PKG_VERSION")
    } else {
        concat!(env!("CARGO_PKG_VERSION"), " (", env!("FSMEND_COMMIT"), ")")
    }
}

/// The same with what the program can do.
pub fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let families: Vec<&str> = fsmend::FAMILIES.all().map(|family| family.name()).collect();
        format!(
            "{}\nfile systems: {}\nimages: raw, qcow2; partition tables: MBR, GPT, BSD disklabel\nreading: io_uring, pread; mounting: FUSE\ntarget: {}-{}",
            short(),
            families.join(", "),
            std::env::consts::ARCH,
            std::env::consts::OS,
        )
    });
    &LONG
}
