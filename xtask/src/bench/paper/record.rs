//! What a program asks of a disk, as the kernel's block layer sees it: below the page cache and its reading ahead.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Offset and length of everything that `e2fsck -fn` reads of the image when nothing is cached, in order. Needs the superuser.
pub(super) fn reads_of_e2fsck(image: &Path) -> io::Result<Vec<(u64, u64)>> {
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
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    instance.set("events/block/block_rq_issue/enable", "0")?;
    if !status.success() {
        return Err(io::Error::other(format!("e2fsck says {status} of the driver's image")));
    }
    let trace = fs::read_to_string(instance.0.join("trace"))?;
    if trace.lines().any(|line| line.contains("LOST")) {
        return Err(io::Error::other("the kernel has lost a part of the record"));
    }
    let reads: Vec<(u64, u64)> = trace.lines().filter_map(|line| read_in(line, &number)).collect();
    if reads.is_empty() {
        return Err(io::Error::other("the kernel has recorded nothing"));
    }
    Ok(reads)
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
}
