// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks an image, and prints what is wrong: `cargo run --example check -- IMAGE`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use fsmend::device::OpenOptions;
use fsmend::engine::Progress;
use fsmend::session::check_options;

/// The problems of every file system in `image`, a sentence each.
pub fn problems(image: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let options = check_options(2, 256 << 20, now);
    let mut problems = Vec::new();
    for target in fsmend::device::open(image, &OpenOptions::default(), &fsmend::FAMILIES)?.targets {
        let family = fsmend::FAMILIES.of(&*target.device);
        let found = family.check(&target.device, &options, &Progress::new(), &AtomicBool::new(false))?;
        problems.extend(found.findings.iter().map(|problem| problem.message()));
    }
    Ok(problems)
}

fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("usage: check IMAGE")?;
    problems(Path::new(&image))?.iter().for_each(|problem| println!("{problem}"));
    Ok(())
}
