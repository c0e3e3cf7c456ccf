//! `cargo xtask bench`: how fast is it, beside the established checker and beside the floor?

mod fragmented;
mod images;
mod populate;

use std::io;
use std::path::PathBuf;

/// Runs `bench WHAT [--cache FOLDER]`.
pub fn run(words: &[&str]) -> io::Result<()> {
    match words {
        ["images", options @ ..] => images::make_all(&cache_folder(options)?).map(|_| ()),
        _ => Err(io::Error::other("expected `bench images` or `bench check`")),
    }
}

fn cache_folder(options: &[&str]) -> io::Result<PathBuf> {
    if let Some(at) = options.iter().position(|option| *option == "--cache") {
        let folder = options.get(at + 1).ok_or_else(|| io::Error::other("--cache needs a folder"))?;
        return Ok(PathBuf::from(folder));
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = cache
        .or(home)
        .ok_or_else(|| io::Error::other("neither XDG_CACHE_HOME nor HOME is set; use --cache FOLDER"))?;
    Ok(base.join("fsmend-bench"))
}
