// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeded damage, with e2fsck as the oracle: what it calls damaged we call damaged, what it calls sound we call sound. And the report is
//! the same at any number of threads and with every way of reading.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsmend_testkit::damage::{Damage, Survey};
use fsmend_testkit::host::skip;
use fsmend_testkit::image::{Built, build, matrix};
use fsmend_testkit::oracle::Verdict;
use fsmend_testkit::process::{Ended, Limits};
use fsmend_testkit::{fsmend, oracle, target_folder};

/// Sound images to be damaged: each format, each way to store each thing.
const BASES: &[&str] = &[
    "ext4-defaults",
    "ext4-4k",
    "ext2-1k",
    "ext3-1k",
    "inline-data-1k",
    "deep-htree-1k",
    "extents-deep-1k",
    "bigalloc-16k",
    "quota-1k",
    "uninit-bg",
    "mmp",
    "orphan-file-1k",
    "ea-inode",
    "casefold-indexed",
    "indirect-1k",
    "revision-0",
];

/// Seeds per base image, as many as take about a minute; `FSMEND_DAMAGE_CASES` asks for more.
fn cases() -> u64 {
    std::env::var("FSMEND_DAMAGE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(26)
}

fn first_seed() -> u64 {
    std::env::var("FSMEND_DAMAGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

fn wanted_bases() -> Vec<&'static str> {
    let word = std::env::var("FSMEND_DAMAGE_BASE").unwrap_or_default();
    BASES.iter().copied().filter(|base| base.contains(&word)).collect()
}

/// A private copy of a sound image that can be damaged and mended again.
struct Victim {
    survey: Survey,
    path: PathBuf,
    file: File,
}

impl Victim {
    fn of(base: &str, purpose: &str) -> Option<Victim> {
        let recipe = matrix::all().into_iter().find(|recipe| recipe.name == base).unwrap();
        let image = match build(&recipe).unwrap() {
            Built::Image(image) => image,
            Built::Skipped(reason) => {
                skip(&format!("damage to {base}"), &reason);
                return None;
            }
        };
        let path = target_folder().join(format!("damage-{purpose}-{base}-{}.img", std::process::id()));
        fs::copy(&image, &path).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        Some(Victim { survey: Survey::of(&image).unwrap(), path, file })
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if std::env::var_os("FSMEND_DAMAGE_KEEP").is_some() {
            return;
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// The name of the image goes into the seed: else one seed would do much the same to all of them.
fn damage(survey: &Survey, seed: u64, base: &str) -> Damage {
    let seed = base.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    if seed % 6 == 5 { Damage::of_bytes(survey, seed) } else { Damage::of_a_field(survey, seed) }
}

/// Where we are stricter than e2fsck 1.47 on purpose: class of damage, our code, and what an experiment showed.
const STRICTER_ON_PURPOSE: &[(&str, &str, &str)] = &[
    (
        "special inode.i_extra_isize",
        "ext.inode.extra-size-wrong",
        "inode 8: the kernel refuses to mount; e2fsck does not look at the extra fields of the journal's inode",
    ),
    (
        "special inode.i_file_acl_lo",
        "ext.xattr.pointer-outside",
        "inode 8: the kernel refuses to mount; e2fsck notes it, but comes back to inodes with names only",
    ),
    (
        "indirect pointer.block",
        "ext.resize.invalid",
        "e2fsck compares the first quarter of the reserved pointers (63 of 255 when tried); the kernel all when it grows the file system",
    ),
    (
        "attribute in inode.e_value_offs",
        "ext.xattr.acl-astray",
        "the entry leads into the list, not to its start: the kernel answers EINVAL for the list; e2fsck does not read lists",
    ),
    (
        "superblock.s_last_orphan",
        "ext.orphan.",
        "the number is impossible; -n does not look at orphans, -p and -y call it illegal and clear it",
    ),
    (
        "special inode.i_size_lo",
        "ext.journal.inode-from-backup",
        "the journal claims blocks that it does not have; with -n e2fsck says nothing, with -y it writes the copy of its list, but lets sizes from 2 GiB stand",
    ),
    (
        "block bitmap.bits",
        "ext.allocation.block-bitmap-checksum",
        "blocks in use are marked free; e2fsck passes over it in some images, and debugfs then refuses the bitmap",
    ),
    (
        "journal superblock.s_first",
        "ext.journal.superblock-bad",
        "the log begins outside the journal: the kernel refuses to mount; e2fsck looks only where there is something to replay",
    ),
    (
        "attribute in inode.e_name",
        "ext.xattr.name-",
        "letters that are zeroes: the kernel refuses to read the attributes, or an inline file; e2fsck reads names up to the zero",
    ),
    (
        "attribute in inode.e_name_len",
        "ext.xattr.name-",
        "a zero within a name: the kernel refuses to read the file (inline data) or its attributes; e2fsck reads names up to it",
    ),
    (
        "attribute in block.e_name_len",
        "ext.xattr.name-",
        "the same in a block of attributes, where the hash does not tell",
    ),
    (
        "superblock.s_journal_dev",
        "ext.journal.external-hint",
        "beside a journal in an inode: the kernel refuses to mount; e2fsck does not look at the number",
    ),
    (
        "superblock.s_feature_compat",
        "ext.journal.no-room-for-fast-commits",
        "fast_commit on a journal that is too short: the kernel refuses to mount; e2fsck does not compare the two",
    ),
    (
        "extent header.eh_depth",
        "ext.extent.too-deep",
        "levels of a tree without entries: the kernel refuses to open the file; e2fsck does not look at an empty tree",
    ),
    (
        "inode of a file.i_flags",
        "ext.inode.verity-without-feature",
        "the kernel refuses to open the file; e2fsck does not compare flag and feature",
    ),
    (
        "directory entry.name",
        "ext.htree.hash-too-",
        "a folded name that is not UTF-8: the kernel hashes its bytes as they are, libext2fs gives up and compares nothing",
    ),
];

/// Whether a disagreement is one of [`STRICTER_ON_PURPOSE`].
fn is_on_purpose(class: &str, said: &str) -> bool {
    let in_class = |wanted: &str| class == wanted || class == "random bytes";
    STRICTER_ON_PURPOSE.iter().any(|(wanted, code, _)| in_class(wanted) && said.contains(code))
}

/// One case in which the two checkers differ.
struct Disagreement {
    kind: &'static str,
    class: String,
    line: String,
}

#[test]
fn damage_is_judged_as_e2fsck_judges_it() {
    let mut disagreements = Vec::new();
    std::thread::scope(|scope| {
        let bases = wanted_bases();
        let half = bases.len().div_ceil(2).max(1);
        let workers: Vec<_> = bases
            .chunks(half)
            .map(|bases| bases.to_vec())
            .map(|bases| {
                scope.spawn(move || bases.iter().flat_map(|base| judge_base(base)).collect::<Vec<_>>())
            })
            .collect();
        for worker in workers {
            disagreements.extend(worker.join().unwrap());
        }
    });
    let table = tabulate(&disagreements);
    let listing = target_folder().join("damage-disagreements.txt");
    File::create(&listing).unwrap().write_all(table.as_bytes()).unwrap();
    assert!(disagreements.is_empty(), "{} disagreements:\n{table}", disagreements.len());
}

fn judge_base(base: &str) -> Vec<Disagreement> {
    let Some(victim) = Victim::of(base, "oracle") else { return Vec::new() };
    let mut disagreements = Vec::new();
    for seed in first_seed()..first_seed() + cases() {
        let damage = damage(&victim.survey, seed, base);
        if damage.is_nothing() {
            continue;
        }
        damage.apply(&victim.file).unwrap();
        let on_purpose = |kind, what: &str| kind == "too strict" && is_on_purpose(&damage.class, what);
        if let Some((kind, what)) = judge(&victim.path).filter(|(kind, what)| !on_purpose(*kind, what)) {
            let line = format!("{base} seed {seed}: {}: {what}", damage.label);
            disagreements.push(Disagreement { kind, class: damage.class.clone(), line });
        }
        if std::env::var_os("FSMEND_DAMAGE_KEEP").is_none() {
            damage.undo(&victim.file).unwrap();
        }
    }
    disagreements
}

fn judge(image: &Path) -> Option<(&'static str, String)> {
    let report = fsmend::check(image, &[]).unwrap();
    let ours = match report.run.ended {
        Ended::Code(0) => Verdict::Sound,
        Ended::Code(4) => Verdict::Damaged,
        Ended::Code(8) => Verdict::None("refused".to_owned()),
        _ => return Some(("crashed", report.summary())),
    };
    let (theirs, said) = oracle::e2fsck(image, Duration::from_secs(20)).unwrap();
    match (&ours, &theirs) {
        (Verdict::Sound, Verdict::Damaged) => Some(("missed", first_complaint(&said))),
        (Verdict::Damaged, Verdict::Sound) => Some(("too strict", report.summary())),
        // A journal that cannot be understood, or is elsewhere: e2fsck gives up, too, but for `-n`.
        (Verdict::None(_), Verdict::Damaged)
            if said.contains("Abort?") || said.contains("external journal") =>
        {
            None
        }
        (Verdict::None(_), Verdict::Sound | Verdict::Damaged) => Some(("refused", report.summary())),
        _ => None,
    }
}

fn first_complaint(said: &str) -> String {
    let complaints = said
        .lines()
        .filter(|line| !line.starts_with("Pass ") && !line.starts_with("e2fsck") && !line.trim().is_empty());
    complaints.take(3).map(|line| line.chars().take(160).collect::<String>()).collect::<Vec<_>>().join(" | ")
}

/// By kind and class, with the first examples of each.
fn tabulate(disagreements: &[Disagreement]) -> String {
    let mut classes: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for case in disagreements {
        classes.entry((case.kind, &case.class)).or_default().push(&case.line);
    }
    let mut table = String::new();
    for ((kind, class), lines) in classes {
        table.push_str(&format!("{kind}: {class}: {} cases\n", lines.len()));
        for line in lines.iter().take(4) {
            table.push_str(&format!("    {line}\n"));
        }
    }
    table
}

#[test]
fn the_report_is_the_same_at_any_number_of_threads_and_with_every_backend() {
    let mut failures = Vec::new();
    for base in ["ext4-defaults", "ext2-1k", "deep-htree-1k"] {
        let Some(victim) = Victim::of(base, "threads") else { continue };
        for seed in 1..=6 {
            let damage = Damage::of_bytes(&victim.survey, seed);
            damage.apply(&victim.file).unwrap();
            let reference = fsmend::check(&victim.path, &["--all", "--threads", "1"]).unwrap();
            let others: [&[&str]; 5] = [
                &["--threads", "2"],
                &["--threads", "7"],
                &["--threads", "64"],
                &["--backend", "pread"],
                &["--backend", "uring"],
            ];
            for options in others {
                let report = fsmend::check(&victim.path, &[&["--all"], options].concat()).unwrap();
                let refused_backend = report.code() == Some(8) && options[0] == "--backend";
                if report.run.stdout != reference.run.stdout && !refused_backend {
                    failures.push(format!(
                        "{base} seed {seed} {options:?}: {}",
                        first_difference(&reference, &report)
                    ));
                }
            }
            damage.undo(&victim.file).unwrap();
        }
    }
    assert!(failures.is_empty(), "different reports:\n{}", failures.join("\n"));
}

/// The first line that differs, with the code of its problem; both reports are kept for a closer look.
fn first_difference(one: &fsmend::Report, other: &fsmend::Report) -> String {
    for (name, report) in [("one", one), ("other", other)] {
        let _ = fs::write(target_folder().join(format!("different-report-{name}.json")), &report.run.stdout);
    }
    let (one, other) = (String::from_utf8_lossy(&one.run.stdout), String::from_utf8_lossy(&other.run.stdout));
    let mut code = "";
    for (one, other) in one.lines().zip(other.lines()) {
        if one.contains("\"code\"") {
            code = one.trim();
        }
        if one != other {
            return format!("{} or {} behind {code}", one.trim(), other.trim());
        }
    }
    "one report is longer".to_owned()
}

#[test]
fn no_damage_takes_more_than_seconds() {
    let Some(victim) = Victim::of("ext4-1k", "patience") else { return };
    for seed in 1000..1020 {
        let damage = Damage::of_bytes(&victim.survey, seed);
        damage.apply(&victim.file).unwrap();
        let limits = Limits { patience: Duration::from_secs(10), address_space: Some(4 << 30) };
        let report = fsmend::check_within(&victim.path, &["--threads", "2"], limits).unwrap();
        assert!(matches!(report.code(), Some(0 | 4 | 8)), "seed {seed}: {}", report.summary());
        damage.undo(&victim.file).unwrap();
    }
}

#[test]
fn every_kind_of_structure_is_there_to_be_damaged() {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for base in BASES {
        let Some(victim) = Victim::of(base, "kinds") else { return };
        for structure in &victim.survey.structures {
            *kinds.entry(structure.kind).or_default() += 1;
        }
    }
    assert!(kinds.len() >= 26, "{} kinds: {kinds:#?}", kinds.len());
    assert!(kinds.values().all(|count| *count > 0));
}
