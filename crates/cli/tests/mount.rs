// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend mkfs` and `fsmend mount`, as users call them; and a day's work on a file system of ours.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use fsmend_testkit::host::{find_program, is_root, run, skip, unmount};

const FSMEND: &str = env!("CARGO_BIN_EXE_fsmend");

fn fsmend(arguments: &[&str]) -> Output {
    Command::new(FSMEND).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder of this test alone, with a place to mount on in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fsmend-cli-mount-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("mnt")).unwrap();
        Folder(path)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Whatever is still mounted goes first, or its contents would.
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        if mounts.contains(&format!(" {} ", self.at("mnt"))) {
            let _ = run("umount", ["-l", &self.at("mnt")]);
        }
        if fs::remove_dir(self.at("mnt")).is_ok() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A running `fsmend mount`, ended with the test.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(FSMEND);
        command.arg("mount").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(" is mounted on "), "{line}");
        Running(child)
    }

    fn signal(&self, signal: &str) {
        run("kill", [signal, &self.0.id().to_string()]).unwrap();
    }

    fn code(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            self.signal("-TERM");
            let _ = self.0.wait();
        }
    }
}

fn may_mount(test: &str) -> bool {
    let may = is_root() && Path::new("/dev/fuse").exists();
    if !may {
        skip(test, "mounting takes the superuser and /dev/fuse");
    }
    may
}

fn assert_sound(image: &str) {
    let theirs = run("e2fsck", ["-fn", image]);
    match fsmend_testkit::driver::is_rext3(&fs::read(image).unwrap()) {
        true => assert!(theirs.unwrap_err().to_string().contains("unsupported feature")),
        false => drop(theirs.unwrap()),
    }
    let checked = fsmend(&["check", image]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked.stdout));
}

#[test]
fn mkfs_makes_sound_file_systems_and_tells_what() {
    let folder = Folder::new("mkfs");
    for kind in ["ext2", "ext3", "rext3", "ext4"] {
        let image = folder.at(kind);
        let made = fsmend(&["mkfs", "--type", kind, "-L", "my label", &image, "64M"]);
        assert_eq!(made.status.code(), Some(0), "{}", said(&made.stderr));
        let told = said(&made.stdout);
        let journal = if kind == "ext2" { "without a journal" } else { "with a journal" };
        assert!(
            told.contains(&format!("{kind}, {journal}")) && told.contains("label \"my label\""),
            "{told}"
        );
        assert_eq!(fs::metadata(&image).unwrap().len(), 64 << 20);
        assert_sound(&image);
    }
}

/// The sizes by the letters that newfs and mke2fs have for them; a type without fragments says so.
#[test]
fn mkfs_takes_sizes_by_single_letters() {
    let folder = Folder::new("mkfs-letters");
    let image = folder.at("ufs");
    let made = fsmend(&["mkfs", "-t", "ufs2", "-b", "16K", "-f", "2K", "-i", "4K", &image, "64M"]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made.stderr));
    let long = folder.at("ufs-long");
    let options = "block-size=16384,fragment-size=2048,inode-ratio=4096";
    let made_long = fsmend(&["mkfs", "-t", "ufs2", "-E", options, &long, "64M"]);
    let sizes = |told: &[u8]| said(told).lines().last().map(ToOwned::to_owned);
    assert_eq!(sizes(&made.stdout), sizes(&made_long.stdout));
    assert!(said(&made.stdout).contains("16 KiB in fragments of 2 KiB"), "{}", said(&made.stdout));
    assert_eq!(fsmend(&["check", &image]).status.code(), Some(0));
    let refused = fsmend(&["mkfs", "-t", "ext4", "-f", "2K", &folder.at("ext"), "64M"]);
    assert_eq!(refused.status.code(), Some(16));
    let why = said(&refused.stderr);
    assert!(why.contains("ext has no option \"fragment-size=2048\"; -E takes block-size"), "{why}");
}

#[test]
fn inspect_tells_how_full_regions_are() {
    let folder = Folder::new("inspect");
    let image = folder.at("image");
    let made = fsmend(&["mkfs", "-t", "rext3", "-E", "indirect-region=20", "-L", "mine", &image, "64M"]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made.stderr));
    assert!(
        said(&made.stdout).contains("with an indirect region of 20 blocks each"),
        "{}",
        said(&made.stdout)
    );
    let told = said(&fsmend(&["inspect", &image]).stdout);
    for line in [
        ": rext3\n",
        "label: mine\n",
        "journal: clean\n",
        "indirect regions: 20 blocks in each group, 31 of 160 blocks in use (19.4%), 1 is full\n",
    ] {
        assert!(told.contains(line), "{line}{told}");
    }
    // A block of the root, 12 of lost+found, 18 indirect ones of the journal: more than the first region takes.
    let document = fsmend(&["inspect", "--format", "json", &image]);
    let document: serde_json::Value = serde_json::from_slice(&document.stdout).unwrap();
    let one = &document["file_systems"][0];
    assert_eq!((one["kind"].as_str(), one["groups"].as_u64()), (Some("rext3"), Some(8)));
    let used: Vec<u64> = [20, 11, 0, 0, 0, 0, 0, 0].to_vec();
    assert_eq!(one["metadata_regions"]["blocks_used_by_group"], serde_json::json!(used));
    assert_eq!(one["metadata_regions"]["full"].as_u64(), Some(1));
    // Others have none, and what is none is told.
    let other = folder.at("other");
    assert_eq!(fsmend(&["mkfs", &other, "32M"]).status.code(), Some(0));
    let told = fsmend(&["inspect", &other]);
    assert!(told.status.success() && !said(&told.stdout).contains("region"), "{}", said(&told.stdout));
    fs::write(&other, vec![0; 1 << 20]).unwrap();
    let nothing = fsmend(&["inspect", &other]);
    assert_eq!(nothing.status.code(), Some(8));
    assert!(said(&nothing.stderr).contains("no superblock was found"), "{}", said(&nothing.stderr));
}

#[test]
fn mkfs_overwrites_nothing_unless_it_is_told_to() {
    let folder = Folder::new("force");
    let image = folder.at("image");
    let missing = fsmend(&["mkfs", &image]);
    assert_eq!(missing.status.code(), Some(8));
    assert!(said(&missing.stderr).contains("give its size"), "{}", said(&missing.stderr));
    let first = ["mkfs", "-t", "ext3", "-L", "precious", &image, "32M"];
    assert_eq!(fsmend(&first).status.code(), Some(0));
    let before = fs::read(&image).unwrap();
    let again = fsmend(&["mkfs", "-t", "ext2", &image]);
    assert_eq!(again.status.code(), Some(8));
    let why = said(&again.stderr);
    assert!(
        why.contains("an ext2, ext3 or ext4 file system with the label \"precious\"")
            && why.contains("--force"),
        "{why}"
    );
    assert!(fs::read(&image).unwrap() == before);
    let forced = fsmend(&["mkfs", "-t", "ext2", "--force", "-E", "block-size=4096,inodes=500", &image]);
    assert_eq!(forced.status.code(), Some(0), "{}", said(&forced.stderr));
    assert_sound(&image);
    let larger = fsmend(&["mkfs", "--force", &image, "64M"]);
    assert_eq!(larger.status.code(), Some(8));
    assert!(said(&larger.stderr).contains("it has only 32 MiB"), "{}", said(&larger.stderr));
    assert_eq!(fsmend(&["mkfs", "--force", "-E", "color=blue", &image]).status.code(), Some(16));
    assert_eq!(fsmend(&["mkfs", "--type", "ext5", &image]).status.code(), Some(16));
    // Something else's mark.
    let other = folder.at("other");
    let mut bytes = vec![0; 8 << 20];
    bytes[..4].copy_from_slice(b"XFSB");
    fs::write(&other, &bytes).unwrap();
    let refused = fsmend(&["mkfs", &other]);
    assert!(said(&refused.stderr).contains("XFS"), "{}", said(&refused.stderr));
}

#[test]
fn mount_serves_until_it_is_unmounted_or_ended() {
    if !may_mount("mount_serves_until_it_is_unmounted_or_ended") {
        return;
    }
    let folder = Folder::new("mount");
    let (image, mnt) = (folder.at("image"), folder.at("mnt"));
    assert_eq!(fsmend(&["mkfs", "-t", "ext3", &image, "32M"]).status.code(), Some(0));
    let running = Running::start(&[&image, &mnt]);
    fs::write(folder.at("mnt/file"), b"content").unwrap();
    // No other process may have it meanwhile.
    assert_eq!(fsmend(&["mkfs", "--force", &image]).status.code(), Some(8));
    assert_eq!(fsmend(&["mount", &image, &mnt]).status.code(), Some(8));
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table.lines().find(|line| line.contains(&mnt)).unwrap();
    assert!(line.starts_with(&format!("{} ", fs::canonicalize(&image).unwrap().display())), "{line}");
    assert!(line.contains(" rw,nosuid,nodev,noatime,"), "{line}");
    unmount(&mnt).unwrap();
    assert_eq!(running.code(), Some(0));
    assert_sound(&image);
    for signal in ["-TERM", "-INT", "-HUP"] {
        let running = Running::start(&["-o", "commit=100", &image, &mnt]);
        assert_eq!(fs::read(folder.at("mnt/file")).unwrap(), b"content");
        fs::write(folder.at(&format!("mnt/by{signal}")), b"x").unwrap();
        running.signal(signal);
        assert_eq!(running.code(), Some(0));
        assert_sound(&image);
    }
    let running = Running::start(&["-o", "ro", &image, &mnt]);
    assert!(folder.0.join("mnt/by-HUP").exists() && fs::write(folder.at("mnt/new"), b"x").is_err());
    unmount(&mnt).unwrap();
    assert_eq!(running.code(), Some(0));
    let background = fsmend(&["mount", "--background", &image, &mnt]);
    assert_eq!(background.status.code(), Some(0), "{}", said(&background.stderr));
    fs::write(folder.at("mnt/in the background"), b"x").unwrap();
    unmount(&mnt).unwrap();
    // The process ends after the folder has gone; what uses the image next waits for it.
    assert_sound_by_us(&image);
    assert_sound(&image);
}

fn assert_sound_by_us(image: &str) {
    let checked = fsmend(&["check", image]);
    assert_eq!(checked.status.code(), Some(0), "{}{}", said(&checked.stdout), said(&checked.stderr));
    assert!(!said(&checked.stdout).contains("replayed"), "{}", said(&checked.stdout));
    assert_eq!(said(&checked.stderr), "");
}

#[test]
fn a_mount_right_after_an_unmount_waits_for_the_one_that_is_ending() {
    if !may_mount("a_mount_right_after_an_unmount_waits_for_the_one_that_is_ending") {
        return;
    }
    let folder = Folder::new("again");
    let (image, mnt) = (folder.at("image"), folder.at("mnt"));
    assert_eq!(fsmend(&["mkfs", "-t", "ext4", &image, "64M"]).status.code(), Some(0));
    for round in 0..5 {
        let mounted = fsmend(&["mount", "--background", "-o", "commit=100", &image, &mnt]);
        assert_eq!(mounted.status.code(), Some(0), "{}", said(&mounted.stderr));
        for file in 0..100 {
            let content = vec![round; 100_000];
            fs::write(folder.at(&format!("mnt/{file}")), content).unwrap();
        }
        unmount(&mnt).unwrap();
    }
    assert_sound_by_us(&image);
    assert_eq!(fsmend(&["repair", "-p", &image]).status.code(), Some(0));
}

#[test]
fn an_image_that_is_mounted_for_writing_is_not_mounted_twice_and_check_says_so() {
    if !may_mount("an_image_that_is_mounted_for_writing_is_not_mounted_twice_and_check_says_so") {
        return;
    }
    let folder = Folder::new("twice");
    let (image, mnt) = (folder.at("image"), folder.at("mnt"));
    fs::create_dir_all(folder.at("other")).unwrap();
    assert_eq!(fsmend(&["mkfs", "-t", "ext4", &image, "32M"]).status.code(), Some(0));
    let refused = |options: &str, why: &str| {
        let refused = fsmend(&["mount", "-o", options, &image, &folder.at("other")]);
        assert_eq!(refused.status.code(), Some(8));
        assert!(said(&refused.stderr).contains(why), "{}", said(&refused.stderr));
    };
    let is_ours = format!("is mounted at {mnt}");
    let running = Running::start(&[&image, &mnt]);
    refused("rw", &is_ours);
    refused("ro", &is_ours);
    let checked = fsmend(&["check", &image]);
    assert!(said(&checked.stderr).contains(&is_ours), "{}", said(&checked.stderr));
    unmount(&mnt).unwrap();
    assert_eq!(running.code(), Some(0));
    // The kernel's own mount says the same.
    run("mount", ["-o", "loop", &image, &mnt]).unwrap();
    refused("ro", &is_ours);
    unmount(&mnt).unwrap();
    // Readers share it, and keep writers away.
    let running = Running::start(&["-o", "ro", &image, &mnt]);
    let beside = Running::start(&["-o", "ro", &image, &folder.at("other")]);
    refused("rw", "(read-only)");
    assert_eq!(fsmend(&["repair", "-p", &image]).status.code(), Some(8));
    assert_eq!(said(&fsmend(&["check", &image]).stderr), "");
    unmount(folder.at("other")).unwrap();
    unmount(&mnt).unwrap();
    assert_eq!((running.code(), beside.code()), (Some(0), Some(0)));
}

#[test]
fn a_hybridfs_in_use_is_checked_while_it_goes_on() {
    if !may_mount("a_hybridfs_in_use_is_checked_while_it_goes_on") {
        return;
    }
    let folder = Folder::new("kept-state");
    let (image, mnt) = (folder.at("image"), folder.at("mnt"));
    let made = fsmend(&["mkfs", "-t", "hybridfs", "-E", "log-size=48M", &image, "128M"]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made.stderr));
    let running = Running::start(&["-o", "commit=1", &image, &mnt]);
    let end = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u32;
            while !end.load(std::sync::atomic::Ordering::Relaxed) {
                number += 1;
                let path = Path::new(&mnt).join(format!("file-{}", number % 300));
                fs::write(&path, vec![number as u8; 100 + number as usize % 60 * 500]).unwrap();
                if number.is_multiple_of(7) {
                    fs::remove_file(&path).unwrap();
                    fs::File::open(&mnt).unwrap().sync_all().unwrap();
                }
            }
        });
        for target in [&mnt, &image, &mnt, &mnt] {
            let checked = fsmend(&["check", "--online", target]);
            let told = said(&checked.stdout);
            assert_eq!(checked.status.code(), Some(0), "{told}{}", said(&checked.stderr));
            assert!(told.contains("a state that the mount kept whole"), "{told}");
            let document = fsmend(&["check", "--online", "--format", "json", target]);
            let document: serde_json::Value = serde_json::from_slice(&document.stdout).unwrap();
            assert!(document.to_string().contains("\"kept-state\""), "{document}");
        }
        end.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(
        rustix::fs::getxattr(mnt.as_str(), "user.fsmend.pinned", &mut [0; 64]).is_err(),
        "nothing is kept any more"
    );
    unmount(&mnt).unwrap();
    assert_eq!(running.code(), Some(0));
    let checked = fsmend(&["check", &image]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked.stdout));
    let told = said(&fsmend(&["inspect", &image]).stdout);
    assert!(told.contains("write amplification: ") && told.contains("log free extents: "), "{told}");
}

#[test]
fn a_file_is_no_mount_point() {
    let folder = Folder::new("file");
    let (image, file) = (folder.at("image"), folder.at("file"));
    assert_eq!(fsmend(&["mkfs", "-t", "ext4", &image, "16M"]).status.code(), Some(0));
    fs::write(&file, b"content").unwrap();
    let before = fs::read(&image).unwrap();
    for arguments in [vec!["mount", &image, &file], vec!["mount", "--background", &image, &file]] {
        let refused = fsmend(&arguments);
        assert_eq!(refused.status.code(), Some(8));
        assert!(said(&refused.stderr).contains("it is not a directory"), "{}", said(&refused.stderr));
    }
    assert_eq!(fs::read(&file).unwrap(), b"content");
    assert!(fs::read(&image).unwrap() == before);
}

/// Runs `script` where `/sbin` has the helper in it, unless that cannot be had here.
fn with_helper(test: &str, folder: &Folder, script: &str) {
    let sbin = fs::canonicalize("/sbin").unwrap();
    fs::create_dir_all(folder.at("sbin")).unwrap();
    std::os::unix::fs::symlink(FSMEND, folder.at("sbin/mount.fuse.fsmend")).unwrap();
    let overlay = format!("mount -t overlay overlay -o lowerdir=$PWD/sbin:{0} {0}", sbin.display());
    if run("unshare", ["-m", "sh", "-c", &overlay.replace("$PWD", &folder.at(""))]).is_err() {
        skip(test, "there are no overlays here");
        return;
    }
    let script = format!("{overlay}; {script}");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-e", "-x", "-c", &script]).current_dir(&folder.0).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
}

#[test]
fn mount_and_fstab_work_with_the_type_fuse_fsmend() {
    let name = "mount_and_fstab_work_with_the_type_fuse_fsmend";
    if !may_mount(name) {
        return;
    }
    let folder = Folder::new("fstab");
    let (image, mnt) = (folder.at("image"), folder.at("mnt"));
    assert_eq!(fsmend(&["mkfs", "-t", "ext4", &image, "32M"]).status.code(), Some(0));
    let options = "noauto,nofail,_netdev,relatime,async,x-systemd.device-timeout=5,user,exec,dev,allow_other,fsname=disk";
    fs::write(folder.at("fstab"), format!("{image} {mnt} fuse.fsmend {options} 0 0\n")).unwrap();
    with_helper(
        name,
        &folder,
        r#"
        shows() { findmnt -n -o "$1" -t fuse.fsmend --mountpoint mnt | grep -q "$2"; }
        mount -t fuse.fsmend -o noexec,uid=1234 image mnt
        shows SOURCE "$PWD/image"; shows OPTIONS noexec
        echo one > mnt/file; test "$(stat -c %u mnt/file)" = 1234
        mount -o remount,ro mnt
        shows OPTIONS ^ro,; ! touch mnt/new; test "$(cat mnt/file)" = one
        mount -o remount,rw mnt
        shows OPTIONS ^rw,; shows OPTIONS noexec; echo two > mnt/file
        umount mnt
        mount -T fstab mnt
        shows SOURCE "$PWD/image"; shows OPTIONS allow_other
        mkdir other; ! mount -t fuse.fsmend -o ro image other 2> told; grep -q "is mounted at $PWD/mnt" told
        test "$(cat mnt/file)" = two; test "$(stat -c %u mnt/file)" = 0
        umount mnt
        mount -t fuse.fsmend -o ro image mnt
        ! mount -o remount,rw mnt
        shows OPTIONS ^ro,
        umount mnt
        ! mount -t fuse.fsmend -o data=journal image mnt
        mount -s -t fuse.fsmend -o data=journal image mnt
        umount mnt
        "#,
    );
    assert_sound_by_us(&image);
    assert_sound(&image);
}

/// For each file of another owner, the kernel asks for its access control list.
#[test]
fn other_users_use_file_systems_of_formats_without_access_control_lists() {
    if !may_mount("other_users_use_file_systems_of_formats_without_access_control_lists") {
        return;
    }
    for kind in ["ufs1", "ufs2", "hybridfs"] {
        let folder = Folder::new(kind);
        let (image, mnt) = (folder.at("image"), folder.at("mnt"));
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(fsmend(&["mkfs", "-t", kind, &image, "64M"]).status.code(), Some(0));
        let running = Running::start(&["-o", "allow_other", &image, &mnt]);
        fs::set_permissions(&mnt, fs::Permissions::from_mode(0o755)).unwrap();
        let file = folder.at("mnt/file");
        fs::write(&file, "for all").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let user = ["--reuid", "1000", "--regid", "1000", "--clear-groups", "cat", &file];
        assert_eq!(said(&run("setpriv", user).unwrap().stdout), "for all", "{kind}");
        unmount(&mnt).unwrap();
        assert_eq!(running.code(), Some(0));
    }
}

#[test]
fn mount_says_what_it_cannot_do() {
    let folder = Folder::new("refusals");
    let (image, mnt) = (folder.at("image"), folder.at("mnt"));
    let option = fsmend(&["mount", "-o", "ro,data=journal", &image, &mnt]);
    assert_eq!(option.status.code(), Some(16));
    assert!(said(&option.stderr).contains("\"data=journal\" is no option"), "{}", said(&option.stderr));
    let missing = fsmend(&["mount", &image, &mnt]);
    assert_eq!(missing.status.code(), Some(8));
    assert!(said(&missing.stderr).contains("no such file"), "{}", said(&missing.stderr));
    fs::write(&image, vec![0; 1 << 20]).unwrap();
    assert_eq!(fsmend(&["mount", &image, &mnt]).status.code(), Some(8));
    fs::remove_file(&image).unwrap();
    assert_eq!(fsmend(&["mkfs", &image, "16M"]).status.code(), Some(0));
    let nowhere = fsmend(&["mount", &image, "/nowhere/at/all"]);
    assert_eq!(nowhere.status.code(), Some(8));
    assert_sound(&image);
}

/// Runs a shell script in `folder`; what it says if it fails.
fn shell(folder: &Path, script: &str) {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(folder).env("HOME", folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = [said(&output.stdout), said(&output.stderr)].concat();
    assert!(output.status.success(), "{script}\n{text}");
}

/// A source tree to work with: this one.
fn sources() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap()
}

const SQLITE: &str = r#"
import sqlite3, os
for mode in ('delete', 'wal'):
    db = sqlite3.connect('data-%s.db' % mode)
    db.execute('pragma journal_mode=%s' % mode)
    db.execute('create table t (id integer primary key, text text, number real)')
    for part in range(20):
        with db:
            db.executemany('insert into t (text, number) values (?, ?)', [('row %d' % n * (n % 9), n / 3) for n in range(200)])
    with db:
        db.execute('delete from t where id % 3 = 0')
    db.execute('create index i on t (text)')
    db.execute('vacuum')
    assert db.execute('pragma integrity_check').fetchone() == ('ok',)
    assert db.execute('select count(*) from t').fetchone()[0] == 4000 - 1333
    db.close()
    db = sqlite3.connect('data-%s.db' % mode)
    assert db.execute('pragma integrity_check').fetchone() == ('ok',)
    db.close()
"#;

fn session(kind: &str) {
    if !may_mount("session") {
        return;
    }
    let folder = Folder::new(&format!("session-{kind}"));
    let (image, mnt) = (folder.at("image"), folder.at("mnt"));
    assert_eq!(fsmend(&["mkfs", "-t", kind, &image, "512M"]).status.code(), Some(0));
    let running = Running::start(&[&image, &mnt]);
    let place = PathBuf::from(&mnt);
    let done = |what: &str| eprintln!("{kind}: {what}");
    let from = sources();
    let from = from.display();
    shell(
        &place,
        &format!(
            "tar -C {from} -cf sources.tar . && mkdir tree && tar -C tree -xpf sources.tar && diff -r {from} tree"
        ),
    );
    done("untarred");
    let git = "git -c user.name=Somebody -c user.email=somebody@example.invalid";
    shell(
        &place,
        &format!(
            "cd tree && git init -q && git add -A && {git} commit -qm first && git status --porcelain > ../status && test ! -s ../status"
        ),
    );
    shell(
        &place,
        &format!(
            "git clone -q tree clone && cd clone && git fsck --strict && echo more >> cli/Cargo.toml && {git} commit -qam second && git gc -q && git fsck"
        ),
    );
    shell(&place, "rm -rf clone/.git && diff -r -x .git -x Cargo.toml tree clone");
    done("committed, cloned, collected");
    match find_program("python3") {
        Some(_) => {
            fs::write(place.join("work.py"), SQLITE).unwrap();
            shell(&place, "python3 work.py");
            done("SQLite");
        }
        None => skip("session: SQLite", "there is no python3"),
    }
    match find_program("rsync") {
        Some(_) => {
            shell(
                &place,
                &format!(
                    "rsync -aHAX --exclude .git tree/ copy/ && rsync -aHAXc --delete -i --exclude .git tree/ copy/ > changes && test ! -s changes && diff -r {from} copy"
                ),
            );
            done("rsync");
        }
        None => skip("session: rsync", "there is no rsync"),
    }
    match find_program("cc") {
        Some(_) => {
            fs::write(
                place.join("hello.c"),
                "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n",
            )
            .unwrap();
            shell(&place, "cc -O1 -o hello hello.c && test \"$(./hello)\" = hello");
            done("compiled and run");
        }
        None => skip("session: compiling", "there is no cc"),
    }
    shell(&place, "find . -type f -print0 | xargs -0 sha256sum | sort > ../sums");
    unmount(&mnt).unwrap();
    assert_eq!(running.code(), Some(0));
    match kind {
        "hybridfs" => assert_sound_by_us(&image),
        _ => assert_sound(&image),
    }
    // The kernel sees the same. Of a rext3 or hybridfs, it sees nothing, and a mount for reading only has to do.
    if matches!(kind, "rext3" | "hybridfs") {
        assert!(run("mount", ["-o", "loop,ro", &image, &mnt]).is_err());
        let running = Running::start(&["-o", "ro", &image, &mnt]);
        shell(&place, "find . -type f -print0 | xargs -0 sha256sum | sort | diff - ../sums");
        unmount(&mnt).unwrap();
        assert_eq!(running.code(), Some(0));
        return done("sound, and refused by the kernel");
    }
    run("mount", ["-o", "loop,ro", &image, &mnt]).unwrap();
    shell(&place, "find . -type f -print0 | xargs -0 sha256sum | sort | diff - ../sums");
    unmount(&mnt).unwrap();
    done("sound, and the kernel sees the same");
}

#[test]
#[ignore = "takes a minute; cargo test -p fsmend-cli --test mount -- --ignored"]
fn a_days_work_on_ext3() {
    session("ext3");
}

#[test]
#[ignore = "takes a minute; cargo test -p fsmend-cli --test mount -- --ignored"]
fn a_days_work_on_rext3() {
    session("rext3");
}

#[test]
#[ignore = "takes a minute; cargo test -p fsmend-cli --test mount -- --ignored"]
fn a_days_work_on_ext4() {
    session("ext4");
}

#[test]
#[ignore = "takes a minute; cargo test -p fsmend-cli --test mount -- --ignored"]
fn a_days_work_on_hybridfs() {
    session("hybridfs");
}

#[test]
fn a_hybridfs_with_its_log_on_another_device_is_inspected_and_checked_while_it_goes_on() {
    if !may_mount("a_hybridfs_with_its_log_on_another_device_is_inspected_and_checked_while_it_goes_on") {
        return;
    }
    let folder = Folder::new("log-elsewhere");
    let (image, log, mnt) = (folder.at("image"), folder.at("log"), folder.at("mnt"));
    fs::File::create(&log).unwrap().set_len(24 << 20).unwrap();
    let made = fsmend(&["mkfs", "-t", "hybridfs", "-E", &format!("log-device={log}"), &image, "64M"]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made.stderr));
    let running = Running::start(&["-o", &format!("log={log}"), &image, &mnt]);
    fs::write(Path::new(&mnt).join("file"), vec![7; 5000]).unwrap();
    for target in [&mnt, &image] {
        let checked = fsmend(&["check", "--online", "-j", &log, target]);
        let told = said(&checked.stdout);
        assert_eq!(checked.status.code(), Some(0), "{told}{}", said(&checked.stderr));
        assert!(told.contains("a state that the mount kept whole") && told.contains("2 inodes"), "{told}");
        let without = fsmend(&["check", "--online", target]);
        assert_eq!(without.status.code(), Some(8));
        assert!(said(&without.stderr).contains("is on another device"), "{}", said(&without.stderr));
    }
    unmount(&mnt).unwrap();
    assert_eq!(running.code(), Some(0));
    let told = fsmend(&["inspect", "-j", &log, &image]);
    assert!(said(&told.stdout).contains("inodes used: 2"), "{}{}", said(&told.stdout), said(&told.stderr));
    assert_eq!(fsmend(&["inspect", &image]).status.code(), Some(8));
    let other = folder.at("other");
    fs::File::create(&other).unwrap().set_len(24 << 20).unwrap();
    let wrong = fsmend(&["check", "-j", &other, &image]);
    assert_eq!(wrong.status.code(), Some(8));
    assert!(said(&wrong.stderr).contains("-j gives the device with its log"), "{}", said(&wrong.stderr));
    // The journal of what the kernel has mounted is not ours to name.
    let refused = fsmend(&["check", "--online", "-j", &log, "/"]);
    assert!(said(&refused.stderr).contains("-j is for mounts of fsmend"), "{}", said(&refused.stderr));
}
