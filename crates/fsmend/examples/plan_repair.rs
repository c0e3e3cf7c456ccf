// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans the repair of an image, and prints what would be written and what happens to which file. Nothing is written:
//! `cargo run --example plan_repair -- IMAGE`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use fsmend::device::OpenOptions;
use fsmend::engine::Progress;
use fsmend::engine::options::{RepairOptions, RepairPolicy};
use fsmend::session::check_options;

/// The verified repair of every file system in `image`: lines on files and on what is written.
pub fn plan(image: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let options = RepairOptions { check: check_options(2, 256 << 20, now), policy: RepairPolicy::default() };
    let mut lines = Vec::new();
    for target in fsmend::device::open(image, &OpenOptions::default(), &fsmend::FAMILIES)?.targets {
        let family = fsmend::FAMILIES.of(&*target.device);
        let mut repair = family.plan(&target.device, &options, &Progress::new(), &AtomicBool::new(false))?;
        for file in family.files(&target.device, &mut repair, &options.check) {
            let name = file.path.clone().unwrap_or_else(|| format!("inode {}", file.inode));
            let actions: Vec<&str> = file.actions.iter().map(|action| action.word()).collect();
            lines.push(format!("{name}: {}", actions.join(", ")));
        }
        for (offset, len) in repair.writes().places() {
            lines.push(format!("write {len} bytes at {offset}"));
        }
    }
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("usage: plan_repair IMAGE")?;
    plan(Path::new(&image))?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
