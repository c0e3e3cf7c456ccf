// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of a mount helper: called as `mount.fuse.fsmend`, the program takes what mount(8) gives its helpers, so that fstab, `mount -t fuse.fsmend` and
//! `mount -o remount,ro` work.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fsmend_mount::{Options, remount};

use super::MountArgs;
use crate::exit;

/// The name that means this command line.
const NAME: &str = "mount.fuse.fsmend";

const USAGE: &str = "mount.fuse.fsmend SOURCE DIR [-fnrsvw] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]";

/// The arguments, if the program is called like that: by the program's own name, or by the first argument.
pub fn called_as(arguments: &[OsString]) -> Option<&[OsString]> {
    let (program, rest) = arguments.split_first()?;
    if Path::new(program).file_name() == Some(OsStr::new(NAME)) {
        return Some(rest);
    }
    let (first, rest) = rest.split_first()?;
    (first == NAME).then_some(rest)
}

/// What mount(8) asks for.
#[derive(Default)]
struct Request {
    target: PathBuf,
    dir: PathBuf,
    options: Vec<String>,
    /// `-s`: options that are not known are passed over.
    sloppy: bool,
    /// `-f`: everything but the mount itself.
    fake: bool,
}

/// Runs it and returns the exit code, which mount(8) hands on.
pub fn run(arguments: &[OsString]) -> u8 {
    let Some(request) = read(arguments) else {
        eprintln!("usage: {USAGE}");
        return exit::USAGE;
    };
    let words = || request.options.iter().flat_map(|list| list.split(','));
    if request.fake {
        return exit::CLEAN;
    }
    if words().any(|word| word == "remount") {
        let mut options = Options::default();
        let known = words().try_for_each(|word| options.take(word));
        return match known.map_err(|unknown| unknown.to_string()).and_then(|()| again(&request, &options)) {
            Ok(()) => exit::CLEAN,
            Err(why) => {
                eprintln!("fsmend: {}: {why}.", request.dir.display());
                exit::OPERATIONAL
            }
        };
    }
    let is_known = |word: &&str| !request.sloppy || super::take(word).is_ok();
    let options = words().filter(is_known).collect::<Vec<_>>().join(",");
    super::run(&MountArgs {
        target: request.target,
        dir: request.dir,
        options: vec![options],
        background: true,
        partition: None,
        offset: None,
        detached: false,
    })
}

fn read(arguments: &[OsString]) -> Option<Request> {
    let mut request = Request::default();
    let mut places = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let text = word.to_str().unwrap_or_default();
        match text {
            "-o" => request.options.push(rest.next()?.to_str()?.to_owned()),
            "-t" | "-N" => drop(rest.next()?),
            _ if text.starts_with('-') && text.len() > 1 => {
                for letter in text.chars().skip(1) {
                    match letter {
                        'f' => request.fake = true,
                        's' => request.sloppy = true,
                        'r' => request.options.push("ro".to_owned()),
                        'w' => request.options.push("rw".to_owned()),
                        'n' | 'v' => {}
                        _ => return None,
                    }
                }
            }
            _ => places.push(PathBuf::from(word)),
        }
    }
    let [target, dir] = <[PathBuf; 2]>::try_from(places).ok()?;
    Some(Request { target, dir, ..request })
}

/// Changes the options of a mount that is there.
fn again(request: &Request, options: &Options) -> Result<(), String> {
    let told = |error: io::Error| format!("it cannot be remounted: {error}");
    remount(&request.dir, options).map_err(told)?;
    if options.read_only {
        // What the process still has in memory comes to the device.
        return File::open(&request.dir).and_then(|dir| dir.sync_all()).map_err(told);
    }
    // A target that was opened for reading cannot be written: any change shows that.
    if let Err(rustix::io::Errno::ROFS) = rustix::fs::removexattr(&request.dir, "user.fsmend.remount") {
        let back = Options { read_only: true, ..options.clone() };
        remount(&request.dir, &back).map_err(told)?;
        return Err("it was mounted read-only; unmount it and mount it again".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn what_mount_gives_its_helpers_is_understood() {
        let line = words("a.img /mnt -sn -t fuse.fsmend -N 5 -o rw,nofail -r");
        let request = read(&line).expect("it is a command line of mount(8)");
        assert_eq!((request.target.to_str(), request.dir.to_str()), (Some("a.img"), Some("/mnt")));
        assert!(request.sloppy && !request.fake);
        assert_eq!(request.options, ["rw,nofail", "ro"]);
        for wrong in ["a.img", "a b c", "a b -x", "a b -o"] {
            assert!(read(&words(wrong)).is_none(), "{wrong}");
        }
    }

    #[test]
    fn the_name_means_the_helper() {
        assert_eq!(called_as(&words("/sbin/mount.fuse.fsmend a b")).map(<[_]>::len), Some(2));
        assert_eq!(called_as(&words("fsmend mount.fuse.fsmend a b")).map(<[_]>::len), Some(2));
        assert_eq!(called_as(&words("fsmend mount a b")), None);
    }
}
