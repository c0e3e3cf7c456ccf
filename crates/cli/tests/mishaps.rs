// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens to people: Ctrl-C at a question, the wrong file behind an option, a full disk, a write-protected one.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use fsmend_testkit::host;
use images::{Folder, code, compat, debugfs, e2fsck, fsmend, have, have_root, prepared, stderr, stdout};

/// The longest wait for a question, or for the end after an interrupt.
const PATIENCE: Duration = Duration::from_secs(60);

fn damaged(folder: &Folder, name: &str) -> PathBuf {
    let image = folder.image(name, &[]);
    debugfs(&image, "sif a/one links_count 7");
    debugfs(&image, "sif a/two links_count 9");
    image
}

fn on(image: &Path, arguments: &[&str]) -> Output {
    let mut all = arguments.to_vec();
    all.push(image.to_str().unwrap());
    fsmend(&all)
}

/// Runs the program on a terminal of its own, and types Ctrl-C once it has asked. The keyboard stays open. What was said, and the code.
fn interrupted_at_question(arguments: &str, image: &Path, question: &str) -> (String, i32) {
    // In place of the shell: some shells die of the interrupt themselves, and theirs would be the code.
    let line = format!("exec {} {arguments} {}", env!("CARGO_BIN_EXE_fsmend"), image.display());
    let mut command = prepared("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut keyboard, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let (mut said, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(len @ 1..) = screen.read(&mut piece) {
            said.extend_from_slice(&piece[..len]);
            let _ = tell.send(String::from_utf8_lossy(&said).into_owned());
        }
        String::from_utf8_lossy(&said).into_owned()
    });
    let started = Instant::now();
    while !told.recv_timeout(PATIENCE).unwrap().contains(question) {
        assert!(started.elapsed() < PATIENCE, "{arguments}: no question");
    }
    keyboard.write_all(&[3]).unwrap();
    let interrupted = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if interrupted.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{arguments}: it goes on waiting for an answer");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    drop(keyboard);
    (reader.join().unwrap(), status.code().unwrap())
}

#[test]
fn an_interrupt_at_a_question_ends_the_run() {
    if !have("mishaps: interrupts", &["mke2fs", "debugfs", "script"]) {
        return;
    }
    let folder = Folder::new("mishaps-interrupt");
    let image = damaged(&folder, "x.img");
    let before = std::fs::read(&image).unwrap();
    for (arguments, question) in
        [("repair", "[y/n/?] "), ("repair --step", "[y/n/a/q/?] "), ("e2fsck -f", "Fix<y>? ")]
    {
        let (said, code) = interrupted_at_question(arguments, &image, question);
        assert_eq!(code, 32, "{arguments}: {said}");
        assert!(said.contains("stopped"), "{arguments}: {said}");
        assert_eq!(std::fs::read(&image).unwrap(), before, "{arguments}");
    }
}

#[test]
fn nothing_takes_the_place_of_another_file() {
    if !have("mishaps: files in the way", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("mishaps-places");
    let image = damaged(&folder, "x.img");
    let other = folder.image("other.img", &[]);
    let (before, others) = (std::fs::read(&image).unwrap(), std::fs::read(&other).unwrap());
    let nowhere = folder.path("nowhere/file");
    for place in [&other, &image, &nowhere, &folder.0, &PathBuf::from("/dev/null")] {
        let place = place.to_str().unwrap();
        for arguments in [["repair", "--plan", place], ["repair", "--undo", place]] {
            let refused = on(&image, &arguments);
            assert_eq!(code(&refused), 8, "{arguments:?}: {}", stdout(&refused));
            assert!(stderr(&refused).contains(place), "{arguments:?}: {}", stderr(&refused));
        }
        assert_eq!(code(&compat(&format!("-fy -z {place}"), &image)), 8, "{place}");
        assert_eq!(std::fs::read(&image).unwrap(), before, "{place}");
        assert_eq!(std::fs::read(&other).unwrap(), others, "{place}");
    }
    // Older ones of their kind are replaced.
    let (plan, undo) = (folder.path("plan"), folder.path("undo"));
    let (plan, undo) = (plan.to_str().unwrap(), undo.to_str().unwrap());
    for _ in 0..2 {
        assert_eq!(code(&on(&image, &["repair", "--plan", plan])), 0);
    }
    assert_eq!(code(&fsmend(&["apply", "--undo", other.to_str().unwrap(), plan])), 8);
    assert_eq!(std::fs::read(&other).unwrap(), others);
    for _ in 0..2 {
        let repaired = on(&image, &["repair", "-y", "--undo", undo]);
        assert_eq!(code(&repaired), 1, "{}", stderr(&repaired));
        debugfs(&image, "sif a/one links_count 7");
    }
}

#[test]
fn files_of_another_kind_are_told_by_what_they_are() {
    if !have("mishaps: kinds of files", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("mishaps-kinds");
    let image = damaged(&folder, "x.img");
    let plan = folder.path("plan");
    let plan = plan.to_str().unwrap();
    assert_eq!(code(&on(&image, &["repair", "--plan", plan])), 0);
    let taken_back = fsmend(&["undo", plan]);
    assert_eq!(code(&taken_back), 8);
    assert!(stderr(&taken_back).contains(&format!("\"fsmend apply {plan}\"")), "{}", stderr(&taken_back));
    assert_eq!(code(&on(&image, &["repair", "-y"])), 1);
    let undo = folder.path("x.img.fsmend-undo");
    let undo = undo.to_str().unwrap();
    let applied = fsmend(&["apply", undo]);
    assert_eq!(code(&applied), 8);
    assert!(stderr(&applied).contains(&format!("\"fsmend undo {undo}\"")), "{}", stderr(&applied));
    let of_image = on(&image, &["undo"]);
    assert_eq!(code(&of_image), 8);
    assert!(stderr(&of_image).contains("it is not an undo file"), "{}", stderr(&of_image));
}

/// A loop device that is write-protected. The protection would outlast the device, and hit the next device with its number.
struct Protected(host::LoopDevice);

impl Protected {
    fn new(image: &Path) -> Self {
        let device = Protected(host::LoopDevice::new(image).unwrap());
        host::run("blockdev", ["--setro", device.path()]).unwrap();
        device
    }

    fn path(&self) -> &str {
        self.0.path()
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        let _ = host::run("blockdev", ["--setrw", self.path()]);
    }
}

#[test]
fn a_write_protected_device_is_refused_before_anything_is_logged() {
    let test = "mishaps: a write-protected device";
    if !have_root(test, &["mke2fs", "debugfs", "losetup", "blockdev"]) {
        return host::skip(test, "only the superuser may attach images to loop devices");
    }
    let folder = Folder::new("mishaps-protected");
    let image = damaged(&folder, "x.img");
    let before = std::fs::read(&image).unwrap();
    let device = Protected::new(&image);
    let state = folder.path("state");
    for arguments in [&["repair", "-y"][..], &["e2fsck", "-fy"], &["e2fsck", "-p"]] {
        let mut command = prepared(env!("CARGO_BIN_EXE_fsmend"));
        let refused = command.env("FSMEND_STATE_DIR", &state).args(arguments).arg(device.path());
        let refused = refused.output().unwrap();
        assert_eq!(code(&refused), 8, "{arguments:?}: {}", stdout(&refused));
        assert!(stderr(&refused).contains("write-protected"), "{arguments:?}: {}", stderr(&refused));
    }
    assert!(!state.exists(), "a log was begun");
    assert_eq!(code(&fsmend(&["check", "-q", device.path()])), 4, "it can be checked");
    drop(device);
    assert_eq!(std::fs::read(&image).unwrap(), before);
}

#[test]
fn where_there_is_no_room_beside_an_image_its_log_goes_elsewhere() {
    let test = "mishaps: a full disk";
    if !have_root(test, &["mke2fs", "debugfs", "e2fsck", "mount"]) {
        return host::skip(test, "only the superuser may mount");
    }
    let folder = Folder::new("mishaps-full");
    let disk = folder.path("disk.img");
    std::fs::File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    host::run("mke2fs", ["-q", "-F", "-t", "ext2", "-m", "0", disk.to_str().unwrap()]).unwrap();
    let Ok(mount) = host::LoopMount::new(&disk, &folder.path("mnt"), "ext2", "") else {
        return host::skip(test, "loop mounts do not work here");
    };
    let image = mount.path().join("x.img");
    std::fs::copy(damaged(&folder, "x.img"), &image).unwrap();
    let mut fill = std::fs::File::create(mount.path().join("fill")).unwrap();
    while fill.write_all(&[1; 512]).is_ok() {}
    drop(fill);
    let state = folder.path("state");
    let mut command = prepared(env!("CARGO_BIN_EXE_fsmend"));
    let repaired =
        command.env("FSMEND_STATE_DIR", &state).args(["repair", "-y"]).arg(&image).output().unwrap();
    assert_eq!(code(&repaired), 1, "{}", stderr(&repaired));
    let undo = state.join("x.img.fsmend-undo");
    assert!(
        stdout(&repaired).contains(&format!("fsmend undo {}\n", undo.display())),
        "{}",
        stdout(&repaired)
    );
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
    assert!(!mount.path().join("x.img.fsmend-undo").exists(), "the one that did not fit is left");
    mount.unmount().unwrap();
}

#[test]
fn what_is_told_of_shared_blocks_is_what_was_asked_for() {
    if !have("mishaps: shared blocks", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("mishaps-shared");
    let image = folder.image("x.img", &["-O", "^extents,^metadata_csum,^64bit"]);
    let block = images::asked(&image, "blocks a/two");
    debugfs(&image, &format!("sif a/one block[0] {}", block.split_whitespace().next().unwrap()));
    for (wish, told, stays) in [
        ("clone", "gets its own copy of the blocks", true),
        ("zero", "get zeros", true),
        ("lost+found", "is moved to lost+found", false),
        ("delete", "is deleted", false),
    ] {
        let copy = folder.path("copy.img");
        std::fs::copy(&image, &copy).unwrap();
        let repaired = on(&copy, &["repair", "-y", "--no-undo", "--duplicates", wish]);
        assert_eq!(code(&repaired), 1, "{wish}: {}", stderr(&repaired));
        let text = stdout(&repaired).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(told), "{wish}: {text}");
        assert_eq!(text.contains("gets its own copy of the blocks"), wish == "clone", "{wish}: {text}");
        assert_eq!(text.contains("All of these files"), wish == "delete", "{wish}: {text}");
        assert_eq!(images::asked(&copy, "stat a/one").contains("Inode:"), stays, "{wish}");
        assert_eq!(code(&e2fsck("-fn", &copy)), 0, "{wish}");
    }
}

#[test]
fn an_undo_file_that_cannot_be_written_is_found_out_before_anything_is() {
    let test = "mishaps: undo file";
    if !have_root(test, &["mke2fs", "debugfs", "mount", "umount"]) {
        return;
    }
    let folder = Folder::new("mishaps-undo");
    let image = damaged(&folder, "x.img");
    let before = std::fs::read(&image).unwrap();
    let point = folder.path("small");
    std::fs::create_dir(&point).unwrap();
    let target = point.to_str().unwrap();
    if host::run("mount", ["-t", "tmpfs", "-o", "size=8k", "none", target]).is_err() {
        host::skip(test, "tmpfs cannot be mounted");
        return;
    }
    let undo = point.join("x.undo");
    let repair = || on(&image, &["repair", "-y", "--undo", undo.to_str().unwrap()]);
    let full = repair();
    host::run("mount", ["-o", "remount,ro", target]).unwrap();
    let protected = repair();
    let left = std::fs::read_dir(&point).unwrap().count();
    host::unmount(target).unwrap();
    for refused in [full, protected] {
        assert_eq!(code(&refused), 8, "{}", stdout(&refused));
        assert!(stderr(&refused).contains("nothing was written"), "{}", stderr(&refused));
    }
    assert_eq!(left, 0, "no part of it stays");
    assert!(std::fs::read(&image).unwrap() == before);
    assert!(!folder.path("x.img.fsmend-undo").exists());
}

/// Where a program may say nothing: a full disk, and a pipe whose reader has gone.
fn nowhere() -> [Stdio; 2] {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    [std::fs::File::options().write(true).open("/dev/full").unwrap().into(), writer.into()]
}

/// It panicked, with status 101, after the repair was written or before anything was done.
#[test]
fn what_cannot_be_said_changes_no_exit_code_but_to_tell_so() {
    if !have("mishaps: nothing can be said", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("unsaid");
    let (sound, image) = (folder.image("sound.img", &[]), damaged(&folder, "damaged.img"));
    let (plan, undo) = (folder.path("plan"), folder.path("undo"));
    let before = std::fs::read(&image).unwrap();
    let [sound, image, plan, undo] =
        [&sound, &image, &plan, &undo].map(|path| path.to_str().unwrap().to_owned());
    // Commands, in an order in which each finds what it needs; and their codes.
    let cases: [(&[&str], u8); 16] = [
        (&["check", "missing"], 8),
        (&["check", &image], 4),
        (&["check", "--progress", "always", &sound], 0),
        (&["inspect", &sound], 0),
        (&["inspect", "missing"], 8),
        (&["explain", "ext.inode.links-mismatch"], 0),
        (&["explain", "nonsense"], 16),
        (&["repair", "missing"], 8),
        (&["repair", "-n", &image], 4),
        (&["repair", "--plan", &plan, &image], 0),
        (&["plan", "show", &plan], 0),
        (&["plan", "verify", &plan], 0),
        (&["apply", &plan, "--undo", &undo], 1),
        (&["undo", &undo], 0),
        (&["undo", "missing"], 8),
        (&["repair", "-y", "--undo", &undo, &image], 1),
    ];
    for at in 0..2 {
        for is_stderr in [false, true] {
            std::fs::write(&image, &before).unwrap();
            let _ = [&plan, &undo].map(std::fs::remove_file);
            for (arguments, expected) in &cases {
                let [full, gone] = nowhere();
                let lost = if at == 0 { full } else { gone };
                let mut command = prepared(env!("CARGO_BIN_EXE_fsmend"));
                command.args(*arguments).stdin(Stdio::null());
                let output = if is_stderr { command.stderr(lost) } else { command.stdout(lost) };
                let output = output.output().unwrap();
                let said = stdout(&output) + &stderr(&output);
                // What says nothing on standard output loses nothing there.
                let is_lost = at == 0 && !is_stderr && said.contains("cannot write");
                let met = output.status.code().unwrap();
                let wanted = i32::from(if is_lost { *expected | 8 } else { *expected });
                // A report that is lost is all that a check has to tell.
                assert!(
                    met == wanted || is_lost && met == 8,
                    "{arguments:?} {at} {is_stderr}: {met}\n{said}"
                );
                let says = !matches!(expected, 8 | 16) && !arguments.contains(&"--plan");
                assert!(is_lost || !says || at != 0 || is_stderr, "{arguments:?} keeps silent");
            }
        }
    }
}

/// Any bytes had "unknown features" or a wrong magic number, as if they were nearly a file system.
#[test]
fn what_is_no_file_system_is_not_said_to_be_one() {
    let folder = Folder::new("nothing");
    let (file, place) = (folder.path("bytes"), folder.path("place"));
    std::fs::create_dir(&place).unwrap();
    for bytes in [
        vec![0_u8; 1 << 20],
        (0..1_u32 << 18).flat_map(|word| word.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect(),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let (file, place) = (file.to_str().unwrap(), place.to_str().unwrap());
        for arguments in [&["inspect", file][..], &["mount", file, place]] {
            let output = fsmend(arguments);
            assert_eq!(code(&output), 8, "{arguments:?}");
            assert!(
                stderr(&output).contains("no superblock was found"),
                "{arguments:?}: {}",
                stderr(&output)
            );
        }
    }
}
