//! What a program asks of a disk, as the kernel's block layer sees it: below the page cache and its reading ahead.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::checkers::State;

/// Where the kernel shows its tracing.
const TRACING: &str = "/sys/kernel/tracing/instances";

/// An instance of the kernel's tracing, removed when dropped.
struct Instance(PathBuf);

impl Instance {
    fn new() -> io::Result<Self> {
        let folder = Path::new(TRACING).join(format!("fsmend-{}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Instance(folder))
    }

    fn set(&self, name: &str, value: &str) -> io::Result<()> {
        fs::write(self.0.join(name), value)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nothing can be done about one that stays; the kernel forgets it at the next boot.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A loop device, detached when dropped.
struct Loop(String);

impl Loop {
    fn over(image: &Path) -> io::Result<Self> {
        let output = Command::new("losetup").args(["--find", "--show", "--read-only"]).arg(image).output()?;
        let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if name.is_empty() {
            return Err(io::Error::other(format!("losetup: {}", String::from_utf8_lossy(&output.stderr))));
        }
        Ok(Loop(name))
    }

    /// Its number, as tracing writes it.
    fn number(&self) -> io::Result<String> {
        let name = self.0.trim_start_matches("/dev/");
        fs::read_to_string(format!("/sys/block/{name}/dev")).map(|text| text.trim().replace(':', ","))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// A read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Read {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Which of e2fsck's passes it belongs to; 0 before the first.
    pub pass: u32,
}

/// Everything that `e2fsck -fn` reads of the image when nothing is cached, in order. Needs the superuser.
pub(super) fn reads_of_e2fsck(image: &Path, state: State) -> io::Result<Vec<Read>> {
    let device = Loop::over(image)?;
    let number = device.number()?;
    let instance = Instance::new()?;
    instance.set("buffer_size_kb", "262144")?;
    let (major, minor) = number.split_once(',').ok_or_else(|| io::Error::other("no such loop device"))?;
    let number_of_kernel = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    let dev = number_of_kernel(major)? << 20 | number_of_kernel(minor)?;
    instance.set("events/block/block_rq_issue/filter", &format!("dev=={dev}"))?;
    instance.set("events/block/block_rq_issue/enable", "1")?;
    let status = Command::new("e2fsck")
        .args(["-fn", &device.0])
        // What it says of its passes goes into the record, to the place where it says so.
        .stdout(File::options().write(true).open(instance.0.join("trace_marker"))?)
        .stderr(Stdio::null())
        .status()?;
    instance.set("events/block/block_rq_issue/enable", "0")?;
    let wanted = if state == State::Sound { 0 } else { 4 };
    if status.code() != Some(wanted) {
        return Err(io::Error::other(format!("e2fsck says {status} of the driver's image")));
    }
    let trace = fs::read_to_string(instance.0.join("trace"))?;
    if trace.lines().any(|line| line.contains("LOST")) {
        return Err(io::Error::other("the kernel has lost a part of the record"));
    }
    let reads = reads_in(&trace, &number);
    if reads.is_empty() {
        return Err(io::Error::other("the kernel has recorded nothing"));
    }
    Ok(reads)
}

/// The reads of a record.
fn reads_in(trace: &str, number: &str) -> Vec<Read> {
    let (mut reads, mut pass) = (Vec::new(), 0);
    for line in trace.lines() {
        pass = pass_in(line).unwrap_or(pass);
        reads.extend(read_in(line, number).map(|(offset, len)| Read { offset, len, pass }));
    }
    reads
}

/// The pass that begins with this line: `... tracing_mark_write: Pass 1: Checking inodes, blocks, and sizes`.
fn pass_in(line: &str) -> Option<u32> {
    let (_, said) = line.split_once("tracing_mark_write: Pass ")?;
    said.chars().next()?.to_digit(10)
}

/// The read that a line of the record tells of: `... block_rq_issue: 7,0 R 4096 () 264 + 8 none,0,0 [e2fsck]`.
fn read_in(line: &str, number: &str) -> Option<(u64, u64)> {
    let (_, event) = line.split_once("block_rq_issue: ")?;
    let mut words = event.split_whitespace();
    let is_read = words.next() == Some(number) && words.next()?.starts_with('R');
    let mut words = event.split_once(") ")?.1.split_whitespace();
    let sector: u64 = words.next()?.parse().ok()?;
    let count: u64 = words.nth(1)?.parse().ok()?;
    is_read.then_some((sector * 512, count * 512))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let line =
            "  e2fsck-12   [001] .....  34.5: block_rq_issue: 7,1 RA 131072 () 264 + 256 none,0,0 [e2fsck]";
        assert_eq!(read_in(line, "7,1"), Some((264 * 512, 131_072)));
        assert_eq!(read_in(line, "7,0"), None);
        assert_eq!(read_in(&line.replace("RA", "WS"), "7,1"), None);
        assert_eq!(read_in("# tracer: nop", "7,1"), None);
    }

    #[test]
    fn reads_belong_to_passes() {
        let read = "  e2fsck-12   [001] .....  34.5: block_rq_issue: 7,1 R 4096 () 8 + 8 none,0,0 [e2fsck]";
        let mark =
            "  e2fsck-12   [001] .....  34.6: tracing_mark_write: Pass 2: Checking directory structure";
        let reads = reads_in(&[read, mark, read].join("\n"), "7,1");
        assert_eq!(reads.iter().map(|read| read.pass).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((reads[0].offset, reads[0].len), (4096, 4096));
    }
}
