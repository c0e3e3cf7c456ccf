// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rare things that e2fsck knows about, made with debugfs: are they judged alike?
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fsmend_testkit::host::{find_program, run, skip};
use fsmend_testkit::oracle::Verdict;
use fsmend_testkit::{fsmend, oracle, target_folder};

/// An image with a file `f`; `commands` for debugfs are carried out on it, in which `CONTENTS` stands for a file outside with what `f` has.
fn image(name: &str, mke2fs: &str, commands: &str) -> Option<PathBuf> {
    if find_program("mke2fs").is_none() || find_program("debugfs").is_none() {
        skip(name, "needs mke2fs and debugfs");
        return None;
    }
    let path = target_folder().join(format!("oddity-{name}-{}.img", std::process::id()));
    File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let target = path.to_str().unwrap();
    run("mke2fs", ["-q", "-F"].into_iter().chain(mke2fs.split_whitespace()).chain([target])).unwrap();
    let (script, contents) = (path.with_extension("commands"), path.with_extension("contents"));
    fs::write(&contents, [7; 9000]).unwrap();
    let commands = commands.replace("CONTENTS", contents.to_str().unwrap());
    fs::write(&script, format!("write {} f\n{commands}\n", contents.display())).unwrap();
    run("debugfs", ["-w", "-f", script.to_str().unwrap(), target]).unwrap();
    fs::remove_file(&script).unwrap();
    fs::remove_file(&contents).unwrap();
    Some(path)
}

/// Compares the verdicts; returns the codes that are found.
fn judged(image: &Path) -> Vec<String> {
    let (theirs, said) = oracle::e2fsck(image, Duration::from_secs(20)).unwrap();
    let report = fsmend::check(image, &[]).unwrap();
    let ours = match report.code() {
        Some(0) => Verdict::Sound,
        Some(4) => Verdict::Damaged,
        other => panic!("ended with {other:?}"),
    };
    assert_eq!(ours, theirs, "e2fsck: {said}\nfsmend: {}", report.summary());
    fs::remove_file(image).unwrap();
    report.codes()
}

/// Repairs `image`, in one run.
#[track_caller]
fn repair(image: &Path) {
    let mut command = Command::new(fsmend::binary().unwrap());
    let repaired = command.args(["repair", "-y", "--no-undo"]).arg(image).output().unwrap();
    let said = String::from_utf8_lossy(&repaired.stdout);
    assert_eq!(repaired.status.code(), Some(1), "{}: {said}", image.display());
}

/// What stands in `codes` for image `name` made so.
#[track_caller]
fn expect(name: &str, mke2fs: &str, commands: &str, codes: &[&str]) {
    let Some(image) = image(name, mke2fs, commands) else { return };
    let found = judged(&image);
    assert!(codes.iter().all(|code| found.iter().any(|other| other == code)), "{name}: {found:?}");
    assert_eq!(codes.is_empty(), found.is_empty(), "{name}: {found:?}");
}

const HURD: &str = "-o hurd -t ext2 -O none,sparse_super -b 1024";

#[test]
fn translators_of_the_hurd() {
    let counts = "freeb 900\nsetb 900";
    expect(
        "translator",
        HURD,
        &format!("sif f translator 900\n{counts}"),
        &["ext.allocation.group-free-blocks"],
    );
    expect("translator-unmarked", HURD, "sif f translator 900", &["ext.allocation.blocks-used-but-unmarked"]);
    expect("translator-outside", HURD, "sif f translator 99999", &["ext.inode.translator-outside"]);
    let both = format!("write /dev/null e\nsif f translator 900\nsif e translator 900\n{counts}");
    expect("translator-shared", HURD, &both, &["ext.block.multiply-claimed"]);
    expect("translator-of-a-device", HURD, "mknod c c 1 2\nsif c translator 900", &[]);
}

#[test]
fn attribute_block_of_the_resize_inode() {
    let ext4 = "-t ext4 -b 1024";
    expect("resize-plain", ext4, "", &[]);
    expect("resize-garbage", ext4, "sif <7> file_acl 5000", &["ext.resize.invalid"]);
}

#[test]
fn quota_number_of_a_file_without_quota() {
    expect("quota-number", "-t ext4 -O ^quota", "ssv usr_quota_inum 12", &["ext.quota.inode-number"]);
    expect("quota-number-unused", "-t ext4 -O ^quota", "ssv usr_quota_inum 99", &[]);
}

/// Files of the file system's own that stand among those of users have no names.
#[test]
fn names_of_system_files() {
    let name = "link <12> name";
    let is_named = &["ext.directory.entry-inode-invalid"];
    expect("orphan-file-named", "-t ext4 -b 1024 -O orphan_file", name, is_named);
    expect(
        "project-quota-named",
        "-t ext4 -b 1024 -I 256 -O quota,project -E quotatype=usrquota:grpquota:prjquota",
        name,
        is_named,
    );
}

/// What holds an attribute's value is a regular file. Where it says that it is something else, its contents tell; if they do not either, the
/// attribute goes, and nothing else.
#[test]
fn the_type_of_what_holds_a_value() {
    for (spoil, found, kept) in [
        ("", "ext.inode.value-holder-type", true),
        ("zap_block -f <13> -p 170 0", "ext.xattr.value-inode", false),
    ] {
        for mode in ["040600", "020600", "0600"] {
            let commands = format!("ea_set -f CONTENTS f user.big\n{spoil}\nsif <13> mode {mode}");
            let Some(image) = image("value-type", "-t ext4 -b 1024 -O ea_inode", &commands) else { return };
            let report = fsmend::check(&image, &[]).unwrap();
            assert!(report.codes().iter().any(|code| code == found), "{mode} {spoil}: {}", report.summary());
            repair(&image);
            let target = image.to_str().unwrap();
            let attributes = run("debugfs", ["-R", "ea_list f", target]).unwrap();
            let attributes = String::from_utf8_lossy(&attributes.stdout);
            assert_eq!(attributes.contains("user.big ("), kept, "{mode} {spoil}: {attributes}");
            let contents = run("debugfs", ["-R", "cat f", target]).unwrap();
            assert_eq!(contents.stdout, [7; 9000], "{mode} {spoil}");
            assert_eq!(judged(&image), [""; 0], "{mode} {spoil}");
        }
    }
}

/// A file system of one group has no backup that tells how large its descriptors are.
#[test]
fn a_size_of_descriptors_that_other_programs_do_not_know() {
    for (features, size) in [("64bit,^metadata_csum", 32_u16), ("64bit,^metadata_csum,^uninit_bg", 65)] {
        let Some(image) = image("desc-size", &format!("-t ext4 -b 4096 -O {features}"), "") else { return };
        let file = File::options().write(true).open(&image).unwrap();
        file.write_all_at(&size.to_le_bytes(), 1024 + 0xFE).unwrap();
        let report = fsmend::check(&image, &[]).unwrap();
        assert_eq!(report.codes().first().map(String::as_str), Some("ext.superblock.descriptor-size"));
        repair(&image);
        let contents = run("debugfs", ["-R", "cat f", image.to_str().unwrap()]).unwrap();
        assert_eq!(contents.stdout, [7; 9000], "{features}");
        assert_eq!(judged(&image), [""; 0], "{features}");
    }
}

/// The power failed while a superblock of two sectors was written outside of the journal. The kernel refuses to mount that, so it is damage.
#[test]
fn a_torn_superblock_gets_its_checksum() {
    let Some(image) = image("torn-superblock", "-t ext4", "") else { return };
    let before = fs::read(&image).unwrap();
    run("debugfs", ["-w", "-R", "ssv max_mnt_count 77", image.to_str().unwrap()]).unwrap();
    let after = fs::read(&image).unwrap();
    for written in [1024..1536, 1536..2048] {
        let mut torn = before.clone();
        torn[written.clone()].copy_from_slice(&after[written]);
        assert_ne!(torn, before);
        fs::write(&image, &torn).unwrap();
        assert_eq!(fsmend::check(&image, &[]).unwrap().codes(), ["ext.superblock.checksum"]);
        repair(&image);
        // The image goes.
        assert_eq!(judged(&image), [""; 0]);
    }
}

/// One flipped bit in the upper half of the size of an empty file in its inode: the repair gave it 60 bytes of zeroes, all that an inode has room for.
#[test]
fn an_empty_file_in_its_inode_that_says_it_has_terabytes_stays_empty() {
    let inline = "-t ext4 -b 1024 -I 256 -O inline_data";
    let commands = "write /dev/null empty\nsif empty size 0xee000000000000";
    let Some(image) = image("inline-empty", inline, commands) else { return };
    let stat = || {
        let said = run("debugfs", ["-R", "stat empty", image.to_str().unwrap()]).unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    assert!(stat().contains("Flags: 0x10000000"), "it lies in its inode: {}", stat());
    assert_eq!(fsmend::check(&image, &[]).unwrap().codes(), ["ext.inode.size-wrong"]);
    repair(&image);
    assert!(stat().contains("Size: 0"), "{}", stat());
    fs::remove_file(&image).unwrap();
}

/// A file of a few bytes in its inode that says it has 16 GiB: e2fsck lets that pass, and the kernel reads gigabytes of zeroes behind the contents.
#[test]
fn a_file_in_its_inode_that_says_it_has_gigabytes() {
    let inline = "-t ext4 -b 1024 -I 256 -O inline_data";
    let name =
        |size: &str| format!("symlink long {}\nsif long mode 0100644\nsif long size {size}", "x".repeat(79));
    for (size, codes) in [("79", &[][..]), ("5000", &[]), ("0x400000000", &["ext.inode.size-wrong"])] {
        let Some(image) = image("inline-size", inline, &name(size)) else { return };
        let found = fsmend::check(&image, &[]).unwrap().codes();
        // The name of a link leads to a file now.
        let found: Vec<&String> =
            found.iter().filter(|code| code.as_str() != "ext.directory.file-type-wrong").collect();
        assert_eq!(found, codes, "{size}");
        if !codes.is_empty() {
            repair(&image);
            let said = run("debugfs", ["-R", "stat long", image.to_str().unwrap()]).unwrap();
            assert!(String::from_utf8_lossy(&said.stdout).contains("Size: 79"), "the whole of the contents");
        }
        fs::remove_file(&image).unwrap();
    }
}
