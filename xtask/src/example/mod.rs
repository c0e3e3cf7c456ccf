// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask example`: makes examples/damaged.qcow2, the image of the README's first command.
//!
//! mke2fs and debugfs build a small sound file system with everything fixed that is otherwise random (UUID, hash
//! seed, times); then it is damaged byte by byte, with checksums made right again so that each damage shows as
//! itself; then it is written as qcow2. The same e2fsprogs gives the same bytes.

mod damage;
mod image;
mod qcow2;
mod tree;

use std::io;
use std::path::Path;
use std::process::Command;

use image::Image;

/// Everything on the image happened at this second (2026-07-01 12:00 UTC).
const NOW: &str = "1782907200";
const UUID: &str = "5eed0000-f5ed-4e1d-8000-000000000001";
const HASH_SEED: &str = "5eed0000-f5ed-4e1d-8000-000000000002";
const BLOCKS: &str = "16384";
const FEATURES: &str = "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,\
                        large_file,huge_file,dir_nlink,extra_isize,metadata_csum";

/// Makes the image anew in `workspace`/examples.
pub fn run(workspace: &Path) -> io::Result<()> {
    let scratch = std::env::temp_dir().join(format!("fsmend-example-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let made = make(&scratch);
    std::fs::remove_dir_all(&scratch)?;
    let bytes = qcow2::write(&made?);
    let target = workspace.join("examples/damaged.qcow2");
    let before = std::fs::read(&target).unwrap_or_default();
    let change = if before == bytes { "unchanged" } else { "new" };
    std::fs::write(&target, &bytes)?;
    println!("{}: {} bytes, {change}", target.display(), bytes.len());
    Ok(())
}

fn make(scratch: &Path) -> io::Result<Vec<u8>> {
    let raw = scratch.join("image");
    let label =
        ["-q", "-F", "-t", "ext4", "-b", "1024", "-I", "256", "-N", "512", "-L", "examples", "-J", "size=1"];
    let fixed = ["-m", "1", "-U", UUID, "-O", FEATURES, "-E"];
    let extended =
        format!("hash_seed={HASH_SEED},resize=1000000,root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0");
    tool("mke2fs").args(label).args(fixed).arg(extended).arg(&raw).arg(BLOCKS).succeed(&[0])?;
    let script = tree::write(scratch)?;
    tool("debugfs").args(["-w", "-f"]).arg(script).arg(&raw).succeed(&[0])?;
    // Only e2fsck and the kernel make directory indexes; it also proves that the tree is sound so far.
    tool("e2fsck").args(["-f", "-y", "-D"]).arg(&raw).succeed(&[0, 1])?;
    tool("e2fsck").args(["-f", "-n"]).arg(&raw).succeed(&[0])?;
    let mut image = Image::new(std::fs::read(&raw)?);
    damage::all(&mut image)?;
    Ok(image.into_bytes())
}

fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let fixed = [("E2FSPROGS_FAKE_TIME", NOW), ("E2FSCK_TIME", NOW), ("TZ", "UTC"), ("LC_ALL", "C")];
    command.envs(fixed).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    command.envs([
        ("MKE2FS_CONFIG", "/dev/null"),
        ("E2FSCK_CONFIG", "/dev/null"),
        ("DEBUGFS_PAGER", "__none__"),
    ]);
    command
}

trait Succeed {
    /// Runs the command; any exit code but those of `fine` is an error that shows what it printed.
    fn succeed(&mut self, fine: &[i32]) -> io::Result<()>;
}

impl Succeed for Command {
    fn succeed(&mut self, fine: &[i32]) -> io::Result<()> {
        let output = self.output()?;
        let code = output.status.code().unwrap_or(-1);
        if fine.contains(&code) {
            return Ok(());
        }
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("{self:?} ended with {code}:\n{said}")))
    }
}
