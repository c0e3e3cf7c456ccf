// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repair, proved: thousands of damaged images, one repair each, and an oracle that has been seen to catch wrong repairs.
//!
//! A failure names a number; `FSMEND_REPAIR_CASE=NUMBER` runs that case alone, `FSMEND_REPAIR_KEEP=FOLDER` keeps its images.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fsmend_base::SeededRandom;
use fsmend_testkit::damage::{Damage, Patch};
use fsmend_testkit::host::{command, skip};
use fsmend_testkit::repair::{
    Case, Depth, E2fsck, Finding, Fsmend, Image, Outcome, Scratch, Subject, bases, bytes_case, field_cases,
    findings_of, judge_subject, table,
};
use fsmend_testkit::target_folder;

/// Cases of the field fuzzer; `FSMEND_REPAIR_CASES` asks for more.
fn cases() -> usize {
    std::env::var("FSMEND_REPAIR_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000)
}

/// Every so many cases the plan is made at other numbers of threads too, and the kernel mounts the result.
const DEEPER_EVERY: usize = 64;

/// The same for broken bytes: a number that has no factor in common with the number of magnitudes, so that all of them come.
const BYTES_DEEPER_EVERY: usize = 3;

/// The seed of the sample.
const SEED: u64 = 2026;

/// Cases that went wrong when only the kernel was asked as well: these are judged in full.
const MENDED_FOR_THE_KERNEL: &[u64] =
    &[16492807195138, 8796093031951, 15393162796047, 16492674426883, 1099511638530];

/// Cases outside of the sample that went wrong once, one of each kind.
const MENDED: &[u64] = &[
    // s_journal_inum that no inode has, beside a good copy of the journal's block list.
    8796093031685,
    13194139542799,
    // ee_len of an extent with holes and others behind it; of the last one, which swallows half of the file system.
    13194216669450,
    2199091740943,
    // s_first of a journal at rest, where no log can begin; an unknown feature of it.
    2199027778821,
    15393167378948,
    // INDEX_FL on the resize inode; the feature of that inode without one.
    1099513334286,
    12094627912717,
    // s_first_ino, which the backups contradict, or the directory in the usual first one.
    6597069773067,
    16492674423051,
    // A name of an attribute that ends before its length.
    6597089689611,
    // Broken bytes: a link count of an inode that holds a value; extents that are too long, of files in pieces.
    74312692386496514,
    73466068433108992,
    74311592874868737,
    74593067851579394,
    // The place of the value with an inline file's data; names of attributes that are zeroes, or that swallow the next entry.
    6597089690120,
    12094633543168,
    6597077368845,
    // Broken bytes: metadata taken for an indirect block; an extent that is too long beside one in the wrong place.
    75718967758422019,
    73186792479653891,
    // Broken bytes: the flag of an index on a reserved inode; the last extent of a leaf that is too long.
    72063091596066828,
    73186792479653908,
    // A feature word without checksum that forgets flexible groups.
    4398046518528,
    // More reserved descriptor blocks than there is room for, with a right checksum and without one.
    3298534892295,
    8970,
    // lost+found with a mode of ones, and with any; a flag of verity, which the file system does not have.
    10995119685634,
    10995119685646,
    16492807195138,
    // A journal that waits for a replay and holds nothing; a device number beside it; fast commits that it has no room for.
    13194144057088,
    8796093031951,
    15393162796047,
    // The first extent of a directory, somewhere else.
    3298577088518,
    // The number of a user's file for project quota.
    7696581411597,
    // What the kernel refuses or does not see: attributes of a block out of order, access lists with a name, at another place, of another length, an empty
    // attribute behind the end, a journal that begins too close to its end.
    1099527749900,
    9895622606857,
    9895622607372,
    9895622607885,
    12094642848768,
    16492816826890,
    1099520148742,
    // A link that is too long for its inode, with a count of no blocks.
    14293703592192,
    // Broken bytes: two wrong lengths in one directory block; a pointer of a file into a directory; a pipe with a flag of indexes.
    75437492781711369,
    75718967758422022,
    75720067270049798,
    // What e2fsck spoils, renames, renumbers or makes longer.
    75718967758422016,
    73748642921447424,
    75720067270049794,
    75720067270049792,
    75720067270049795,
    72342367549521922,
    // Broken bytes: several extents astray, one of them behind the end; a leaf of a directory in which more than its depth is wrong; a sparse
    // map with wrong pointers in its holes.
    73186792479653902,
    73186792479653905,
    73186792479653904,
    72060892572811279,
    // Broken bytes: the length of a value in an inode of its own; a UUID with which no checksum goes; flags of reserved inodes.
    74310493363240968,
    73187891991281675,
    72344566572777480,
    // Broken bytes: two wrong lengths in the root directory, the last record's among them; the length of an extent with bigalloc; the type of a link
    // in its inode; an attribute under the prefix of access lists; the number of blocks of attributes.
    72622743014604837,
    73467167944736806,
    73747543409819681,
    72342367549521957,
    74594167363207201,
    72342367549521954,
];

fn sample() -> Vec<u64> {
    let mut random = SeededRandom::new(SEED);
    let mut of_base: Vec<Vec<u64>> =
        (0..bases::count()).map(|base| field_cases(base, None).unwrap()).collect();
    of_base.retain(|cases| !cases.is_empty());
    if of_base.is_empty() {
        return Vec::new();
    }
    let drawn = (0..cases()).map(|turn| {
        let cases = &of_base[turn % of_base.len()];
        cases[random.below(cases.len() as u64) as usize]
    });
    drawn.chain(MENDED.iter().copied()).collect()
}

fn wanted() -> Vec<u64> {
    match std::env::var("FSMEND_REPAIR_CASE").ok().and_then(|number| number.parse().ok()) {
        Some(number) => vec![number],
        None => sample(),
    }
}

/// How many cases failed, each perhaps in several ways.
fn failing(findings: &[Finding]) -> usize {
    findings.iter().map(|finding| finding.number).collect::<BTreeSet<_>>().len()
}

/// Judges all cases on two threads.
fn run(numbers: &[u64], depth_of: impl Fn(usize) -> Depth + Sync) -> Vec<Finding> {
    let keep = std::env::var_os("FSMEND_REPAIR_KEEP").map(PathBuf::from);
    let (next, findings) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((at, number)) = numbers.iter().enumerate().nth(next.fetch_add(1, Relaxed)) {
            let found = findings_of(*number, depth_of(at), keep.as_deref()).unwrap();
            findings.lock().unwrap().extend(found);
        }
    };
    // A scope does not wait until a thread has given back its loop device; joining does.
    std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    findings.into_inner().unwrap()
}

#[test]
fn every_damaged_field_is_repaired() {
    let numbers = wanted();
    if numbers.is_empty() {
        skip("repair of damaged fields", "none of the images can be made here");
        return;
    }
    let is_deeper =
        |at: usize| at.is_multiple_of(DEEPER_EVERY) || MENDED_FOR_THE_KERNEL.contains(&numbers[at]);
    let depth_of = |at: usize| if is_deeper(at) { Depth::FULL } else { Depth::USUAL };
    let findings = run(&numbers, depth_of);
    let text = table(&findings);
    std::fs::write(target_folder().join("repair-failures.txt"), &text).unwrap();
    assert!(findings.is_empty(), "{} failures in {} cases:\n{text}", failing(&findings), numbers.len());
}

/// Cases of the block fuzzer: ten to a hundred thousand broken bytes on two bases. `FSMEND_REPAIR_SEEDS=N` takes so many seeds of every
/// magnitude on all bases.
fn bytes_cases() -> Vec<u64> {
    let asked = std::env::var("FSMEND_REPAIR_SEEDS").ok().and_then(|seeds| seeds.parse::<u64>().ok());
    let (seeds, bases) = asked.map_or((4, 2..4), |seeds| (seeds, 0..bases::count()));
    let on_base = |base| {
        (0..seeds).flat_map(move |seed| (1..=5).map(move |magnitude| bytes_case(base, magnitude, seed)))
    };
    bases.flat_map(on_base).collect()
}

#[test]
fn broken_bytes_are_repaired() {
    let numbers = bytes_cases();
    let depth_of = |at: usize| if at.is_multiple_of(BYTES_DEEPER_EVERY) { Depth::FULL } else { Depth::USUAL };
    let findings = run(&numbers, depth_of);
    let text = table(&findings);
    std::fs::write(target_folder().join("repair-bytes-failures.txt"), &text).unwrap();
    assert!(findings.is_empty(), "{} failures:\n{text}", failing(&findings));
}

/// `image` with some bytes at an offset changed.
fn patch(image: &[u8], offset: u64, new: &[u8]) -> Patch {
    let at = offset as usize;
    Patch { offset, old: image[at..at + new.len()].to_vec(), new: new.to_vec() }
}

fn number_at(image: &[u8], at: u64) -> u32 {
    let at = at as usize;
    u32::from_le_bytes(image[at..at + 4].try_into().unwrap())
}

/// Maps of files that reach over the blocks of all others, together further than there is room for copies; their space in use is wrong as well, so
/// that inspection cannot tell how far they go. And lost+found is gone, so that the repair needs blocks of its own.
fn overreaching(base: &'static bases::Base) -> Option<Case> {
    let image = &base.survey.image;
    let blocks = number_at(image, 1024 + 4);
    let (mut patches, mut claimed) = (Vec::new(), 0);
    for structure in &base.survey.structures {
        let record = structure.record();
        let first = record + 40 + 12;
        let head = &image[record as usize + 40..record as usize + 48];
        let is_leaf = head[..2] == [0x0A, 0xF3] && head[2] == 1 && head[6..8] == [0, 0];
        match structure.kind {
            "inode of a file" if is_leaf && number_at(image, record + 4) > 0 => {
                let length = (blocks - 1).saturating_sub(number_at(image, first + 8)).min(1500);
                if length < 300 {
                    continue;
                }
                claimed += length;
                patches.push(patch(image, first + 4, &(length as u16).to_le_bytes()));
                patches.push(patch(image, record + 0x1C, &[0, 0x40, 0]));
            }
            "inode of a directory" if structure.name == "inode 11" => {
                patches.push(patch(image, record, &[0; 128]));
            }
            _ => {}
        }
    }
    let free = number_at(image, 1024 + 12);
    let damage = Damage { label: "maps that reach too far".to_owned(), class: String::new(), patches };
    (claimed > free).then_some(Case { number: 0, base, damage })
}

#[test]
fn maps_that_reach_over_all_others_do_not_use_up_the_room() {
    let mut judged = 0;
    for number in 0..bases::count() {
        let Ok(base) = bases::base(number).unwrap() else { continue };
        let Some(case) = overreaching(base) else { continue };
        let judgement = judge_subject(&case, &Fsmend { now: base.now }, Depth::FULL).unwrap();
        let failures: Vec<_> = judgement.failures.iter().map(|found| (&found.kind, &found.detail)).collect();
        assert!(failures.is_empty(), "{}: {failures:?}", base.name);
        judged += 1;
    }
    if judged == 0 {
        skip("maps that reach too far", "none of the images can be made here");
    }
}

/// e2fsck, followed by something that no repair may do.
struct Vandal {
    e2fsck: E2fsck,
    commands: &'static str,
    fsck_again: bool,
}

impl Subject for Vandal {
    fn repair(&self, image: &Image, threads: usize) -> Outcome {
        let Outcome::Repaired(repaired) = self.e2fsck.repair(image, threads) else {
            return Outcome::GaveUp("e2fsck".to_owned(), String::new());
        };
        let (file, script) =
            (Scratch::with(&repaired.bytes()).unwrap(), Scratch::with(self.commands.as_bytes()).unwrap());
        let mut debugfs = command("debugfs");
        debugfs.env("E2FSPROGS_FAKE_TIME", self.e2fsck.now.to_string()).arg("-w").arg("-f");
        let done = debugfs.arg(script.path()).arg(file.path()).output().unwrap();
        assert!(done.status.success());
        let vandalised = Image::of(image.base(), &std::fs::read(file.path()).unwrap()).unwrap();
        if self.fsck_again { self.e2fsck.repair(&vandalised, threads) } else { Outcome::Repaired(vandalised) }
    }
}

/// Some case that needs a repair.
fn some_case() -> Option<Case> {
    let cases = field_cases(2, None).unwrap();
    cases
        .into_iter()
        .filter_map(|number| Case::of(number).unwrap())
        .find(|case| case.damage.class == "inode of a file.i_blocks_lo")
}

fn kinds_of_failure(case: &Case, subject: &dyn Subject) -> Vec<String> {
    let kinds = |depth| {
        let judgement = judge_subject(case, subject, depth).unwrap();
        judgement.failures.into_iter().map(|failure| failure.kind).collect::<Vec<_>>()
    };
    let quick = kinds(Depth::USUAL);
    assert_eq!(
        quick,
        kinds(Depth { thorough: true, ..Depth::USUAL }),
        "what is left out makes no difference"
    );
    quick
}

#[test]
fn the_oracle_catches_wrong_repairs() {
    let Some(case) = some_case() else { return };
    let vandal =
        |commands, fsck_again| Vandal { e2fsck: E2fsck { now: case.base.now }, commands, fsck_again };
    assert_eq!(kinds_of_failure(&case, &vandal("", false)), [""; 0], "e2fsck's own repair is right");
    for (commands, fsck_again, expected) in [
        ("clri <2>\n", false, "no root directory"),
        ("clri <2>\n", true, "directory lost"),
        ("rm /tiny/tiny-20\n", true, "file lost"),
        ("sif /tiny/tiny-400 size 300\n", true, "length of intact file differs"),
        ("sif /tiny/tiny-400 uid 7\n", true, "owner of intact file differs"),
        ("punch /tiny/tiny-400 0 0\n", true, "content of intact file differs"),
        ("ssv free_blocks_count 1\n", false, "e2fsck -fn: exit code N: Free blocks count wrong"),
        ("kill_file /tiny/tiny-20\n", false, "e2fsck -fn"),
    ] {
        let kinds = kinds_of_failure(&case, &vandal(commands, fsck_again));
        assert!(kinds.iter().any(|kind| kind.starts_with(expected)), "{commands:?}: {kinds:?}");
    }
}

/// Does nothing.
struct Idler;

impl Subject for Idler {
    fn repair(&self, image: &Image, _threads: usize) -> Outcome {
        Outcome::Repaired(image.clone())
    }
}

/// Crashes.
struct Faller;

impl Subject for Faller {
    fn repair(&self, _image: &Image, _threads: usize) -> Outcome {
        Outcome::Fell("panic: index 7 out of range".to_owned())
    }
}

#[test]
fn the_oracle_catches_repairs_that_do_nothing_or_crash() {
    let Some(case) = some_case() else { return };
    assert!(kinds_of_failure(&case, &Idler).iter().any(|kind| kind.starts_with("e2fsck -fn")));
    assert_eq!(kinds_of_failure(&case, &Faller), ["fell: panic: index N out of range"]);
}

#[test]
fn there_are_enough_feature_sets_and_all_of_them_are_sound() {
    let mut made = 0;
    for number in 0..bases::count() {
        match bases::base(number).unwrap() {
            Ok(base) => {
                let e2fsck = E2fsck { now: base.now };
                let complaint = e2fsck.complaint(&Image::sound(&base.survey.image)).unwrap();
                let waits = |said: &String| said.contains("skipping journal recovery");
                assert_eq!(complaint.filter(|said| !waits(said)), None, "{}", base.name);
                assert!(base.tree.nodes.len() > 100, "{}: {} names", base.name, base.tree.nodes.len());
                made += 1;
            }
            Err(reason) => skip(&format!("repair of base {number}"), &reason),
        }
    }
    assert!(made == 0 || made >= 8, "only {made} feature sets");
}
