// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of e2fsck beside the installed one, through fsck(8), and as systemd calls it.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::path::Path;
use std::process::Output;

use fsmend_testkit::host;
use images::{Folder, asked, code, compat, debugfs, e2fsck, have, have_root, prepared, stderr, stdout};

/// The lines that scripts read: the one of a clean file system, the reason of a check, and the closing one.
fn lines_for_scripts(output: &Output) -> Vec<String> {
    let is_read = |line: &&str| line.contains(" files") || line.contains("check forced");
    stdout(output).lines().filter(is_read).map(str::to_owned).collect()
}

/// Both programs on copies of one image: the same lines and the same code.
fn same_as_e2fsck(folder: &Folder, image: &Path, options: &str) {
    let copy = folder.path("copy.img");
    std::fs::copy(image, &copy).unwrap();
    let theirs = e2fsck(options, &copy);
    std::fs::copy(image, &copy).unwrap();
    let ours = compat(options, &copy);
    let name = image.file_name().unwrap().to_string_lossy();
    assert_eq!(lines_for_scripts(&ours), lines_for_scripts(&theirs), "{name} {options}: {}", stderr(&ours));
    assert_eq!(code(&ours), code(&theirs), "{name} {options}: {}", stdout(&ours));
}

#[test]
fn sound_file_systems_are_told_as_e2fsck_tells_them() {
    if !have("e2fsck_compat: sound file systems", &["mke2fs", "debugfs", "e2fsck", "tune2fs"]) {
        return;
    }
    let folder = Folder::new("compat-sound");
    let plain = folder.image("plain.img", &[]);
    let labelled = folder.image("labelled.img", &["-L", "A B:C", "-b", "1024"]);
    let old = folder.image("old.img", &["-O", "^has_journal,^extents,^64bit,^metadata_csum"]);
    let tune = |options: &[&str], image: &Path| {
        host::run("tune2fs", options.iter().copied().chain([image.to_str().unwrap()])).unwrap();
    };
    let mounted = folder.image("mounted.img", &[]);
    tune(&["-c", "3", "-C", "5"], &mounted);
    let soon = folder.image("soon.img", &[]);
    tune(&["-c", "10", "-C", "7"], &soon);
    let next = folder.image("next.img", &[]);
    tune(&["-c", "10", "-C", "9"], &next);
    let late = folder.image("late.img", &[]);
    tune(&["-i", "1d", "-T", "20200101"], &late);
    let errors = folder.image("errors.img", &[]);
    debugfs(&errors, "ssv state 2");
    let unclean = folder.image("unclean.img", &[]);
    debugfs(&unclean, "ssv state 0");
    for image in [plain, labelled, old, mounted, soon, next, late, errors, unclean] {
        for options in ["-n", "-p", "-a", "-y", "-f -n", "-f -p", "-f -y", "-fyC-1"] {
            same_as_e2fsck(&folder, &image, options);
        }
    }
}

#[test]
fn what_is_written_suits_e2fsck() {
    if !have("e2fsck_compat: repairs", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-repairs");
    let image = folder.image("links.img", &[]);
    debugfs(&image, "sif <2> links_count 9");
    let looked = compat("-fn", &image);
    assert_eq!(code(&looked), 4);
    assert!(stdout(&looked).contains("Fix? no"), "{}", stdout(&looked));
    assert!(stdout(&looked).contains("WARNING: Filesystem still has errors"));
    let mended = compat("-fy", &image);
    assert_eq!(code(&mended), 1, "{}", stderr(&mended));
    assert!(
        stdout(&mended).contains("Fix? yes")
            && stdout(&mended).contains("***** FILE SYSTEM WAS MODIFIED *****")
    );
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
    assert_eq!(code(&compat("-fy", &image)), 0);
    assert!(!folder.path("links.img.fsmend-undo").exists(), "like e2fsck, it keeps no undo file unasked");
}

#[test]
fn preening_mends_what_is_safe() {
    if !have("e2fsck_compat: preening", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-preen");
    let image = folder.image("links.img", &[]);
    debugfs(&image, "sif <2> links_count 9");
    let output = compat("-fp", &image);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let first = stdout(&output).lines().next().unwrap().to_owned();
    assert!(first.starts_with(image.to_str().unwrap()) && first.ends_with("FIXED."), "{first}");
    assert!(stderr(&output).is_empty(), "no banner when preening");
}

#[test]
fn preening_stops_at_what_is_not_safe_with_exactly_4() {
    if !have("e2fsck_compat: preening stops", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-unsafe");
    for request in ["unlink a", "unlink a/one"] {
        let image = folder.image("unsafe.img", &[]);
        debugfs(&image, request);
        let before = std::fs::read(&image).unwrap();
        let output = compat("-f -p", &image);
        assert_eq!(code(&output), 4, "{request}");
        let told = stdout(&output);
        assert!(told.contains("UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY."), "{told}");
        assert_eq!(std::fs::read(&image).unwrap(), before, "nothing was written");
        assert_eq!(code(&e2fsck("-f -p", &image)), 4, "{request}");
    }
}

#[test]
fn the_undo_file_is_where_it_was_asked_for() {
    if !have("e2fsck_compat: undo", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("compat-undo");
    let image = folder.image("links.img", &[]);
    debugfs(&image, "sif <2> links_count 9");
    let before = std::fs::read(&image).unwrap();
    let undo = folder.path("my.undo");
    let output = compat(&format!("-fy -z {}", undo.display()), &image);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stdout(&output).contains("fsmend undo"));
    assert_ne!(std::fs::read(&image).unwrap(), before);
    let undone = images::fsmend(&["undo", undo.to_str().unwrap(), image.to_str().unwrap()]);
    assert_eq!(code(&undone), 0, "{}", stderr(&undone));
    assert_eq!(std::fs::read(&image).unwrap(), before);
}

#[test]
fn usage_errors_and_what_is_not_supported_exit_16() {
    let nowhere = Path::new("/nonexistent/image");
    for options in [
        "-p -n",
        "-Q",
        "-c -l x",
        "-n -cc",
        "-l x -L x",
        "-E ea_ver=1",
        "-E nonsense",
        "-n -D",
        "-C x",
        "-y other",
    ] {
        let output = compat(options, nowhere);
        assert_eq!(code(&output), 16, "{options}: {}", stderr(&output));
        assert!(stdout(&output).is_empty() && !stderr(&output).is_empty(), "{options}");
    }
    assert_eq!(code(&images::fsmend(&["e2fsck"])), 16);
}

#[test]
fn operational_errors_exit_8() {
    assert_eq!(code(&compat("-p", Path::new("/nonexistent/image"))), 8);
    assert_eq!(code(&compat("-p", Path::new("UUID=nobody-has-this-one"))), 8);
    assert_eq!(code(&compat("-p", Path::new("/"))), 8);
    let folder = Folder::new("compat-operational");
    let noise = folder.path("noise");
    std::fs::write(&noise, vec![0x5A; 100_000]).unwrap();
    for options in ["-p", "-n", "-y"] {
        let output = compat(options, &noise);
        assert_eq!(code(&output), 8, "{options}: {}", stdout(&output));
    }
    let unattended = compat("-f", &noise);
    assert_eq!(code(&unattended), 8);
    assert!(stderr(&unattended).contains("need terminal for interactive repairs"));
    assert_eq!(code(&compat("-p -C 77", &noise)), 8, "a descriptor that nobody opened");
}

#[test]
fn a_refusal_names_the_device_once() {
    if !have("e2fsck_compat: a refusal", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("compat-refusal");
    let image = folder.image("x.img", &[]);
    let said = stderr(&compat("-fn -b 99999", &image));
    assert!(said.contains("block 99999"), "{said}");
    assert_eq!(said.matches(image.to_str().unwrap()).count(), 1, "{said}");
    let said = stderr(&compat("-fn -j /no/such/journal", &image));
    assert!(said.contains("/no/such/journal"), "{said}");
    let disk = folder.path("disk.img");
    let mut bytes = vec![0; 2 << 20];
    bytes[450] = 0x83;
    bytes[454..462].copy_from_slice(&[0, 8, 0, 0, 0, 8, 0, 0]);
    bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
    bytes[512..520].copy_from_slice(b"EFI PART");
    std::fs::write(&disk, bytes).unwrap();
    let said = stderr(&compat("-fn", &disk));
    assert!(said.contains("--partition (an option of fsmend"), "{said}");
}

#[test]
fn what_has_features_that_nobody_knows_is_not_repaired() {
    if !have("e2fsck_compat: unknown features", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-unknown");
    for feature in ["FEATURE_R25", "FEATURE_C25"] {
        let image = folder.image("x.img", &[]);
        // A time of the last check that would be written as another one, however fast this test is.
        debugfs(&image, "ssv lastcheck 20000101000000");
        debugfs(&image, &format!("feature {feature}"));
        assert_eq!(code(&compat("-fn", &image)), 0, "{feature}: it can be looked at");
        let sound = std::fs::read(&image).unwrap();
        assert_eq!(code(&compat("-fy", &image)), 0, "{feature}");
        assert!(std::fs::read(&image).unwrap() == sound, "{feature}: it was written");
        let image = folder.image("x.img", &[]);
        debugfs(&image, "sif a/one links_count 7");
        debugfs(&image, &format!("feature {feature}"));
        let before = std::fs::read(&image).unwrap();
        assert_eq!(code(&compat("-fn", &image)), 4, "{feature}");
        for options in ["-fp", "-fy"] {
            let output = compat(options, &image);
            assert_eq!(code(&output), 8, "{feature} {options}: {}", stdout(&output));
            assert!(stderr(&output).contains("0x2000000"), "{}", stderr(&output));
            assert!(std::fs::read(&image).unwrap() == before, "{feature} {options}: it was written");
        }
        assert_eq!(code(&images::fsmend(&["repair", "-y", image.to_str().unwrap()])), 8, "{feature}");
        assert_ne!(code(&e2fsck("-fy", &image)) & 8, 0, "{feature}: e2fsck does not either");
    }
}

/// Like e2fsck, which makes one and does not call that a correction.
#[test]
fn a_file_system_without_a_uuid_gets_one_and_is_clean() {
    if !have("e2fsck_compat: no UUID", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-uuid");
    // Where checksums depend on it, a lost UUID is another story.
    for features in ["^metadata_csum,^uninit_bg", "^metadata_csum,^uninit_bg,^has_journal"] {
        let image = folder.image("x.img", &["-O", features]);
        debugfs(&image, "ssv uuid clear");
        let has_none = || {
            let told = host::run("dumpe2fs", ["-h", image.to_str().unwrap()]).unwrap();
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            told.lines().any(|line| line.starts_with("Filesystem UUID:") && line.ends_with("<none>"))
        };
        assert!(has_none(), "{features}");
        assert_eq!(code(&compat("-fn", &image)), 0, "{features}");
        let output = compat("-fy", &image);
        assert_eq!(code(&output), 0, "{features}: {}", stdout(&output));
        assert!(!stdout(&output).contains("MODIFIED"), "{}", stdout(&output));
        assert!(!has_none(), "{features}");
        assert_eq!(code(&e2fsck("-fn", &image)), 0, "{features}");
    }
}

#[test]
fn a_rext3_has_a_face_of_its_own() {
    let folder = Folder::new("compat-rext3");
    let image = folder.path("r.img");
    let name = image.to_str().unwrap();
    let made = images::fsmend(&["mkfs", "-t", "rext3", "-E", "block-size=4096", name, "16M"]);
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    let clean = images::fsmend(&["fsck.rext3", "-p", name]);
    assert_eq!(code(&clean), 0, "{}", stderr(&clean));
    assert!(stdout(&clean).contains(": clean, "), "{}", stdout(&clean));
    // bg_free_inodes_count of group 0
    let mut bytes = std::fs::read(&image).unwrap();
    bytes[4096 + 14] ^= 1;
    std::fs::write(&image, &bytes).unwrap();
    assert_eq!(code(&images::fsmend(&["fsck.rext3", "-fn", name])), 4);
    assert_eq!(code(&images::fsmend(&["fsck.rext3", "-fp", name])), 1);
    assert_eq!(code(&images::fsmend(&["fsck.rext3", "-fn", name])), 0);
}

#[test]
fn the_version_goes_to_standard_error() {
    let output = images::fsmend(&["fsck.ext4", "-V"]);
    assert_eq!(code(&output), 0);
    assert!(stderr(&output).starts_with("e2fsck 1.47") && stdout(&output).is_empty(), "{}", stderr(&output));
}

/// Runs a line of shell with our links first on the path.
fn shell(folder: &Folder, line: &str) -> Output {
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:/usr/sbin:/sbin:{path}", folder.links().display());
    prepared("sh").args(["-c", line]).env("PATH", path).current_dir(&folder.0).output().unwrap()
}

#[test]
fn through_fsck() {
    if !have("e2fsck_compat: through fsck(8)", &["mke2fs", "debugfs", "fsck"]) {
        return;
    }
    let folder = Folder::new("compat-fsck");
    let image = folder.image("x.img", &[]);
    let image = image.display();
    let clean = shell(&folder, &format!("fsck -t ext4 -T -p {image}"));
    assert_eq!(code(&clean), 0, "{}", stderr(&clean));
    assert!(stdout(&clean).contains(": clean, "), "{}", stdout(&clean));
    let verbose = shell(&folder, &format!("fsck -t ext4 -V -f -y {image}"));
    assert_eq!(code(&verbose), 0, "{}", stderr(&verbose));
    assert!(stdout(&verbose).contains("bin/fsck.ext4"), "it is ours that runs: {}", stdout(&verbose));
    debugfs(Path::new(&image.to_string()), "sif <2> links_count 9");
    let mended = shell(&folder, &format!("fsck -t ext4 -T -f -y {image}"));
    assert_eq!(code(&mended), 1, "{}", stderr(&mended));
    let usage = shell(&folder, &format!("fsck -t ext4 -T -p -n {image}"));
    assert_eq!(code(&usage), 16);
}

/// What systemd-fsck makes of a line of progress: the share of the whole.
fn share_as_systemd_reckons(line: &str) -> f64 {
    const ENDS: [f64; 6] = [0.0, 70.0, 90.0, 92.0, 95.0, 100.0];
    let mut words = line.split(' ');
    let pass: usize = words.next().unwrap().parse().unwrap();
    let current: f64 = words.next().unwrap().parse().unwrap();
    let max: f64 = words.next().unwrap().parse().unwrap();
    assert!((1..=5).contains(&pass) && max > 0.0 && current <= max, "{line}");
    assert!(words.next().is_some(), "the name follows: {line}");
    ENDS[pass - 1] + (ENDS[pass] - ENDS[pass - 1]) * current / max
}

#[test]
fn as_systemd_calls_it() {
    if !have("e2fsck_compat: as systemd calls it", &["mke2fs", "debugfs", "fsck"]) {
        return;
    }
    let folder = Folder::new("compat-systemd");
    let image = folder.image("x.img", &[]);
    let image = image.display();
    let clean = shell(&folder, &format!("fsck -t ext4 -a -T -l -M -C5 {image} 5>progress"));
    assert_eq!(code(&clean), 0, "{}", stderr(&clean));
    assert_eq!(std::fs::read_to_string(folder.path("progress")).unwrap(), "", "nothing takes time");
    let forced = shell(&folder, &format!("fsck -t ext4 -a -T -l -M -f -C5 {image} 5>progress"));
    assert_eq!(code(&forced), 0, "{}", stderr(&forced));
    let progress = std::fs::read_to_string(folder.path("progress")).unwrap();
    let shares: Vec<f64> = progress.lines().map(share_as_systemd_reckons).collect();
    assert!(
        shares.is_sorted() && shares.first() == Some(&0.0) && shares.last() == Some(&100.0),
        "{progress}"
    );
    for pass in 1..=5 {
        assert!(progress.lines().any(|line| line.starts_with(&format!("{pass} 0 "))), "{progress}");
    }
}

#[test]
fn progress_starts_muted_behind_a_negative_descriptor() {
    if !have("e2fsck_compat: muted progress", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("compat-muted");
    let image = folder.image("x.img", &[]);
    let line = format!("e2fsck -fp -C -5 {} 5>progress", image.display());
    assert_eq!(code(&shell(&folder, &line)), 0);
    assert_eq!(std::fs::read_to_string(folder.path("progress")).unwrap(), "");
}

/// Types `typed` at `e2fsck_compat` on a terminal of its own.
fn at_a_terminal(folder: &Folder, options: &str, image: &Path, typed: &str) -> Output {
    shell(folder, &format!("printf '{typed}' | script -qec 'e2fsck {options} {}' /dev/null", image.display()))
}

#[test]
fn questions_at_a_terminal() {
    if !have("e2fsck_compat: questions", &["mke2fs", "debugfs", "script"]) {
        return;
    }
    let folder = Folder::new("compat-questions");
    let image = folder.image("x.img", &[]);
    debugfs(&image, "sif <2> links_count 9");
    let before = std::fs::read(&image).unwrap();
    let declined = at_a_terminal(&folder, "-f", &image, "n\\n");
    assert_eq!(code(&declined), 4, "{}", stdout(&declined));
    assert!(stdout(&declined).contains("Fix<y>?"));
    assert_eq!(std::fs::read(&image).unwrap(), before);
    let accepted = at_a_terminal(&folder, "-f", &image, "y\\n");
    assert_eq!(code(&accepted), 1, "{}", stdout(&accepted));
    let clean = at_a_terminal(&folder, "", &image, "");
    assert_eq!(code(&clean), 0);
    assert!(stdout(&clean).contains(": clean, "));
}

#[test]
fn what_is_declined_is_left_alone() {
    if !have("e2fsck_compat: declined in part", &["mke2fs", "debugfs", "e2fsck", "script"]) {
        return;
    }
    let folder = Folder::new("compat-declined");
    let image = folder.image("x.img", &[]);
    debugfs(&image, "sif a/one links_count 7");
    debugfs(&image, "sif a/two links_count 9");
    let partly = at_a_terminal(&folder, "-f", &image, "n\\ny\\n");
    assert_eq!(code(&partly), 4, "{}", stdout(&partly));
    assert!(stdout(&partly).contains("FILE SYSTEM WAS MODIFIED"), "{}", stdout(&partly));
    let left = stdout(&compat("-fn", &image));
    assert!(left.contains("/a/one") && !left.contains("/a/two"), "{left}");
    let forced = compat("-p", &image);
    assert_eq!(code(&forced), 1, "it is not called clean: {}", stdout(&forced));
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
}

#[test]
fn a_mounted_file_system_is_only_looked_at() {
    if !have_root("e2fsck_compat: mounted", &["mke2fs", "debugfs", "mount"]) {
        return;
    }
    let folder = Folder::new("compat-mounted");
    let image = folder.image("x.img", &[]);
    let Ok(mount) = host::LoopMount::new(&image, &folder.path("mnt"), "ext4", "") else {
        return host::skip("e2fsck_compat: mounted", "loop mounts are not possible");
    };
    for options in ["-p", "-y", "-fy"] {
        let output = compat(options, &image);
        assert_eq!(code(&output), 8, "{options}");
        assert!(stderr(&output).contains("is mounted"), "{}", stderr(&output));
    }
    let looked = compat("-n", &image);
    assert_eq!(code(&looked), 0, "{}", stdout(&looked));
    assert!(stderr(&looked).contains("is mounted"));
    mount.unmount().unwrap();
}

#[test]
fn a_dirty_journal_is_recovered_in_passing() {
    if !have_root("e2fsck_compat: journal", &["mke2fs", "debugfs", "e2fsck", "mount"]) {
        return;
    }
    let folder = Folder::new("compat-journal");
    let image = folder.image("x.img", &[]);
    let dirty = folder.path("dirty.img");
    let Ok(mount) = host::LoopMount::new(&image, &folder.path("mnt"), "ext4", "") else {
        return host::skip("e2fsck_compat: journal", "loop mounts are not possible");
    };
    std::fs::write(mount.path().join("new"), "contents").unwrap();
    rustix_sync(&mount.path().join("new"));
    std::fs::copy(&image, &dirty).unwrap();
    mount.unmount().unwrap();
    let preened = compat("-a", &dirty);
    assert_eq!(code(&preened), 0, "{}", stderr(&preened));
    let text = stdout(&preened);
    assert!(text.contains("recovering journal") && text.contains(": clean, "), "{text}");
    assert_eq!(code(&e2fsck("-n", &dirty)), 0);
    let whole = e2fsck("-fn", &dirty);
    assert_eq!(code(&whole), 0, "{}", stdout(&whole));
}

fn rustix_sync(path: &Path) {
    std::fs::File::open(path).unwrap().sync_all().unwrap();
}

#[test]
fn relations_of_the_configuration_are_followed() {
    if !have("e2fsck_compat: e2fsck.conf", &["mke2fs", "debugfs", "tune2fs"]) {
        return;
    }
    let folder = Folder::new("compat-conf");
    let image = folder.image("x.img", &[]);
    let path = image.to_str().unwrap();
    host::run("tune2fs", ["-i", "1d", "-T", "20200101", path]).unwrap();
    let conf = folder.path("e2fsck.conf");
    let log = folder.path("log");
    std::fs::create_dir(&log).unwrap();
    let text = format!(
        "[options]\nbroken_system_clock = true\nlog_dir = {}\nlog_filename = \"%N log\"\nreport_time = true\n",
        log.display()
    );
    std::fs::write(&conf, text).unwrap();
    let run = |options: &[&str]| {
        let mut command = prepared(env!("CARGO_BIN_EXE_fsmend"));
        command.env("E2FSCK_CONFIG", &conf).arg("e2fsck").args(options).arg(path).output().unwrap()
    };
    let clean = run(&["-p"]);
    assert!(stdout(&clean).contains(": clean, "), "{}", stdout(&clean));
    let whole = run(&["-fn"]);
    assert!(stdout(&whole).contains("Pass 5: Memory used"), "{}", stdout(&whole));
    let logged = std::fs::read_to_string(log.join("x.img log")).unwrap();
    assert!(logged.contains(": clean, ") && logged.contains("Pass 5"), "{logged}");
}

#[test]
fn the_counts_of_verbose_runs() {
    if !have("e2fsck_compat: -v", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-verbose");
    let image = folder.image("x.img", &[]);
    for request in
        ["symlink s a/one", "mknod p p", "mknod c c 1 3", "link a/one h", "sif a/one links_count 2"]
    {
        debugfs(&image, request);
    }
    let (theirs, ours) = (stdout(&e2fsck("-fnv", &image)), stdout(&compat("-fnv", &image)));
    for line in theirs.lines().filter(|line| line.starts_with("   ") && !line.contains("non-contiguous dir"))
    {
        assert!(ours.lines().any(|own| own == line), "{line} is not in {ours}");
    }
}

#[test]
fn free_blocks_are_discarded_when_that_is_asked_for() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    if !have("e2fsck_compat: -E discard", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-discard");
    let image = folder.image("x.img", &["-b", "1024"]);
    let file = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
    // The last MiB holds nothing: the file that was here has been deleted.
    file.write_all_at(&[7; 1 << 19], 7 << 20).unwrap();
    file.sync_all().unwrap();
    let before = std::fs::metadata(&image).unwrap().blocks();
    assert_eq!(code(&compat("-fp", &image)), 0);
    assert_eq!(std::fs::metadata(&image).unwrap().blocks(), before, "not unasked");
    let output = compat("-fp -E discard", &image);
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    let after = std::fs::metadata(&image).unwrap().blocks();
    assert!(after + 1000 <= before, "{before} {after}");
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
    let one = host::run("debugfs", ["-R", "cat a/one", image.to_str().unwrap()]).unwrap();
    assert_eq!(one.stdout, std::fs::read("/etc/passwd").unwrap(), "files are as they were");
}

#[test]
fn directories_and_maps_are_made_better() {
    if !have("e2fsck_compat: improvements", &["mke2fs", "debugfs", "e2fsck", "tune2fs"]) {
        return;
    }
    let folder = Folder::new("compat-better");
    let image = folder.image("old.img", &["-b", "1024", "-O", "^extents,^64bit"]);
    let path = image.to_str().unwrap();
    let requests = folder.path("requests");
    let names = |from: usize, step: usize| (from..400).step_by(step);
    let made = names(0, 1).map(|at| format!("symlink a/a_long_name_for_the_link_{at} x\n"));
    let gone = names(1, 2).map(|at| format!("rm a/a_long_name_for_the_link_{at}\n"));
    let big = folder.path("big");
    std::fs::write(&big, vec![7; 400 << 10]).unwrap();
    let text: String = made.chain(gone).collect();
    std::fs::write(&requests, format!("write {} big\n{text}", big.display())).unwrap();
    host::run("debugfs", ["-w", "-f", requests.to_str().unwrap(), path]).unwrap();
    host::run("tune2fs", ["-O", "extents", path]).unwrap();
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
    let size_of = |name: &str| {
        let stat = asked(&image, &format!("stat {name}"));
        stat.split("Size: ").nth(1).and_then(|rest| rest.lines().next()?.trim().parse::<u64>().ok()).unwrap()
    };
    let (before, room) = (size_of("a"), size_of("lost+found"));
    assert!(room > 1024, "there is something to lose");
    for options in
        ["-fyD", "-fy -E bmap2extent", "-fy -E optimize_extents", "-fyD -E bmap2extent,optimize_extents"]
    {
        let output = compat(options, &image);
        assert!(code(&output) < 2, "{options}: {}{}", stdout(&output), stderr(&output));
        assert_eq!(code(&e2fsck("-fn", &image)), 0, "{options}");
    }
    assert!(size_of("a") < before, "{} {before}", size_of("a"));
    assert_eq!(size_of("lost+found"), room, "it keeps its room, as with e2fsck");
    let listed = asked(&image, "ls -p a");
    assert_eq!(listed.matches("a_long_name").count(), 200);
    assert!(asked(&image, "stat big").contains("EXTENTS"));
    assert_eq!(code(&compat("-fyD -E bmap2extent,optimize_extents", &image)), 0, "twice changes nothing");
    let told = compat("-fn -E fragcheck", &image);
    assert!(stdout(&told).contains("are fragmented"), "{}", stdout(&told));
}

/// `-E journal_only` on a journal that cannot be replayed goes on to the whole check, as e2fsck does. It ended with 0.
#[test]
fn journal_only_with_a_journal_that_is_none() {
    if !have("e2fsck_compat: journal_only", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("compat-journal-only");
    let sound = folder.image("x.img", &["-O", "^metadata_csum,^has_journal"]);
    debugfs(&sound, "feature needs_recovery");
    for (options, expected) in [("-n", 12), ("-p", 1), ("-y", 1)] {
        let (theirs, ours) = (folder.path("theirs"), folder.path("ours"));
        std::fs::copy(&sound, &theirs).unwrap();
        std::fs::copy(&sound, &ours).unwrap();
        let options = format!("{options} -E journal_only");
        assert_eq!(code(&e2fsck(&options, &theirs)), expected, "{options}");
        let output = compat(&options, &ours);
        assert_eq!(code(&output), expected, "{options}: {}", stdout(&output));
    }
}
