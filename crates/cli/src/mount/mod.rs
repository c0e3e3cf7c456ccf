// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend mount`: a file system in a folder, served by this process until it is unmounted or the process ends.

pub mod helper;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use fsmend_blockcache::Unwritable;
use fsmend_device::{
    Device, OpenError, OpenErrorKind, OpenOptions, ReadHold, Usage, WritableDevice, WriteOptions,
};
use fsmend_engine::options::SuperblockOptions;
use fsmend_mount::{Ended, Mounted, Options, Stopper};
use fsmend_session::driver::{Driven, Mounting};
use fsmend_session::interrupted::left_half_written;

use crate::{exit, failure, machine, target};

const AFTER: &str = "Unmount with umount DIR, or end the process with SIGTERM or SIGINT. After umount the process writes the remaining data; other fsmend commands wait for it. \
                     Exit status: 0 unmounted cleanly, 8 could not be mounted or unmounted cleanly, 16 usage error.";

/// `fsmend mount`.
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct MountArgs {
    /// Image file or block device with an ext2, ext3, ext4, UFS1, UFS2 or hybridfs file system
    pub target: PathBuf,

    /// Mount point
    pub dir: PathBuf,

    /// Mount options, separated by commas: ro, allow_other, suid, dev, noexec, commit=SECONDS, log=PATH (docs/mount.md)
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<String>,

    /// Serve in a background process and return when the file system is mounted
    #[arg(long)]
    pub background: bool,

    /// Use only this partition of a disk (kernel numbering)
    #[arg(long, value_name = "N", conflicts_with = "offset")]
    pub partition: Option<u32>,

    /// Byte offset of the file system in the target, e.g. 1M
    #[arg(long, value_name = "BYTES", value_parser = crate::numbers::parse_size)]
    pub offset: Option<u64>,

    /// We are the process that --background has started
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// What the started process says when the folder can be used.
const READY: &str = "ready";

/// Runs the command and returns the exit code.
pub fn run(arguments: &MountArgs) -> u8 {
    let mut asked = Asked::default();
    if let Err(why) = arguments.options.iter().try_for_each(|list| asked.take(list)) {
        eprintln!("fsmend: {why}.");
        return exit::USAGE;
    }
    if asked.options.source.is_empty() {
        asked.options.source = source(&arguments.target);
    }
    if arguments.background && !arguments.detached {
        return in_background(arguments).unwrap_or_else(|error| {
            eprintln!("fsmend: cannot serve it in the background: {error}.");
            exit::OPERATIONAL
        });
    }
    let place = OpenOptions {
        offset: arguments.offset.or(asked.place.offset),
        partition: arguments.partition.or(asked.place.partition),
    };
    serve(arguments, &asked.options, (&place, asked.log.as_deref())).unwrap_or_else(|why| {
        eprintln!("fsmend: {}: {why}.", arguments.target.display());
        exit::OPERATIONAL
    })
}

/// What `-o` says.
struct Asked {
    options: Options,
    /// In fstab there is no other place to say it.
    place: OpenOptions,
    /// The device of the log.
    log: Option<PathBuf>,
}

impl Default for Asked {
    fn default() -> Self {
        let options = Options { source: String::new(), ..Options::default() };
        Asked { options, place: OpenOptions::default(), log: None }
    }
}

impl Asked {
    fn take(&mut self, list: &str) -> Result<(), String> {
        let words = list.split(',').filter(|word| !word.is_empty());
        for word in words {
            if let Some(bytes) = word.strip_prefix("offset=") {
                self.place.offset = Some(crate::numbers::parse_size(bytes)?);
            } else if word.starts_with("fsname=") {
                // Passed over: by the name in the mount table, other commands find out where a target is mounted.
            } else if let Some(path) = word.strip_prefix("log=") {
                self.log = Some(PathBuf::from(path));
            } else if let Some(number) = word.strip_prefix("partition=") {
                let wrong = |_| format!("\"{word}\" is not a partition");
                self.place.partition = Some(number.parse().map_err(wrong)?);
            } else {
                self.options.take(word).map_err(|unknown| unknown.to_string())?;
            }
        }
        Ok(())
    }
}

/// Whether a word behind `-o` is understood.
fn take(word: &str) -> Result<(), String> {
    Asked::default().take(word)
}

/// What the mount table says is mounted.
fn source(target: &Path) -> String {
    target.canonicalize().unwrap_or_else(|_| target.to_owned()).display().to_string()
}

/// Starts this program again and waits until the folder can be used.
fn in_background(arguments: &MountArgs) -> io::Result<u8> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words(arguments));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut said = String::new();
    if let Some(pipe) = child.stdout.take() {
        BufReader::new(pipe).read_line(&mut said)?;
    }
    if said.trim_end() == READY {
        return Ok(exit::CLEAN);
    }
    // It has said why it did not come so far.
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(exit::OPERATIONAL))
}

/// The words that start a process of its own for `arguments`.
fn words(arguments: &MountArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["mount".into(), "--detached".into()];
    arguments.options.iter().for_each(|list| words.extend(["-o".into(), list.into()]));
    let mut number = |name: &str, value: Option<u64>| {
        words.extend(value.map(|value| OsString::from(format!("--{name}={value}"))));
    };
    number("partition", arguments.partition.map(u64::from));
    number("offset", arguments.offset);
    words.extend(["--".into(), arguments.target.clone().into(), arguments.dir.clone().into()]);
    words
}

fn serve(
    arguments: &MountArgs,
    options: &Options,
    (place, log): (&OpenOptions, Option<&Path>),
) -> Result<u8, String> {
    let unusable =
        |error: &dyn Display| format!("it cannot be mounted on {}: {error}", arguments.dir.display());
    // Before anything is opened, replayed or finished.
    fsmend_mount::place(&arguments.dir).map_err(|error| unusable(&error))?;
    target::wait_for_ending_mount(&arguments.target);
    let (device, _hold) = open(&arguments.target, (place, log), options.read_only)?;
    let driver = target::FAMILIES.driver_of(&*device, "mount")?;
    let Driven { fs, notes } = driver.mount(device, &Mounting::new(machine::time(), options.read_only))?;
    notes.iter().for_each(|note| eprintln!("fsmend: {note}."));
    let mounted =
        Mounted::mount(fs, &arguments.dir, options, machine::time).map_err(|refused| unusable(&refused))?;
    if let Err(error) = stop_on_signals(mounted.stopper()) {
        eprintln!("fsmend: cannot handle signals ({error}): unmount the directory to end it.");
    }
    tell_ready(arguments, mounted.place()).map_err(|error| error.to_string())?;
    let ended = mounted.wait().map_err(|failure| failure.to_string())?;
    if ended == Ended::StoppedInUse {
        eprintln!("fsmend: files were open in {}; they can no longer be used.", arguments.dir.display());
    }
    Ok(exit::CLEAN)
}

/// A target, and what keeps others from writing it if we do not write it ourselves.
type Opened = (Arc<dyn WritableDevice>, Option<ReadHold>);

/// Opens the target, with its log if that is on another device, so that no other process writes it meanwhile; if it may be written, what an interrupted repair has left is finished first.
fn open(
    path: &Path,
    (options, log): (&OpenOptions, Option<&Path>),
    read_only: bool,
) -> Result<Opened, String> {
    let refused = |error: OpenError| target::refusal(&error).to_string();
    let environment = target::environment();
    let known = (&environment, SuperblockOptions::default());
    let tell = |text: String| eprintln!("fsmend: {text}");
    let several = || "it has several file systems; select one with --partition".to_owned();
    if read_only {
        let opened = fsmend_device::open(path, options, &target::FAMILIES).map_err(refused)?;
        let hold = hold(path, opened.usage).map_err(refused)?;
        let mut targets = opened.targets;
        let only = targets.pop().filter(|_| targets.is_empty()).ok_or_else(several)?;
        check_log(&*only.device, log)?;
        let device: Arc<dyn WritableDevice> = Arc::new(Unwritable(Arc::clone(&only.device)));
        let device = match target::other_part(&*only.device, log, known, tell) {
            Some(place) => {
                target::FAMILIES.driver_of(&*only.device, "mount")?.with_log(device, &place, true)?
            }
            None => device,
        };
        if let Some(told) = left_half_written(&environment, path, only.start, &*device) {
            return Err(told);
        }
        return Ok((device, Some(hold)));
    }
    let mut holds = target::hold(path, options, WriteOptions::without_image_formats()).map_err(refused)?;
    let only = holds.pop().filter(|_| holds.is_empty()).ok_or_else(several)?;
    check_log(&*only.target.device, log)?;
    let only = only.whole(log, SuperblockOptions::default(), tell).map_err(|refusal| refusal.message)?;
    let told = only.finish_interrupted(&AtomicBool::new(false)).map_err(|failure| failure::told(&failure))?;
    told.iter().for_each(|told| eprintln!("fsmend: {told}."));
    Ok((only.target.device, None))
}

/// Refuses a log for what has none elsewhere.
fn check_log(device: &dyn Device, log: Option<&Path>) -> Result<(), String> {
    match log.is_none() || target::FAMILIES.of(device).is_divided(device) {
        true => Ok(()),
        false => Err("its log is on no other device; leave out log=".to_owned()),
    }
}

/// Holds a target that is only read. If another process may write it, what is read would be inconsistent.
fn hold(path: &Path, mut usage: Vec<Usage>) -> Result<ReadHold, OpenError> {
    // A loop device that is not mounted changes nothing by itself.
    usage.retain(|usage| !matches!(usage, Usage::Attached { .. }));
    let error = |kind| OpenError { path: path.to_owned(), kind };
    if usage.iter().any(Usage::may_write) {
        return Err(error(OpenErrorKind::Busy(usage)));
    }
    ReadHold::open(path, &usage).map_err(|why| {
        error(match why.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy => OpenErrorKind::Busy(Vec::new()),
            _ => OpenErrorKind::Io(why),
        })
    })
}

/// A thread that ends the mount on the signals that ask for it.
fn stop_on_signals(stopper: Stopper) -> io::Result<()> {
    let (mut reader, writer) = UnixStream::pair()?;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut signals = [0; 1];
        while reader.read_exact(&mut signals).is_ok() {
            stopper.stop();
        }
    })?;
    Ok(())
}

fn tell_ready(arguments: &MountArgs, place: &Path) -> io::Result<()> {
    if !arguments.detached {
        println!("{} is mounted on {}.", arguments.target.display(), place.display());
        return Ok(());
    }
    // From here on standard error is closed.
    rustix::process::setsid()?;
    println!("{READY}");
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    // A current directory keeps what it lies on from being unmounted.
    std::env::set_current_dir("/")
}
