// SPDX-License-Identifier: MIT OR Apache-2.0
//! The property that ARCHITECTURE.md asks for: whatever the fast path calls clean, inspection finds nothing wrong with, and both
//! yield the same facts. Held against records and blocks of real images, mutated by seed.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{InodeNo, SeededRandom};
use fsmend_device::{BatchReader, MemoryDevice, Overlay, ReadBackend};
use fsmend_engine::Findings;
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::{ChunkFacts, InodeFact, InodeTable, Kind};
use fsmend_engine::origins::Origin;
use fsmend_engine::scan::certification::{Certainty, DirectorySummary};
use fsmend_ext_check::directory::{self, Directory};
use fsmend_ext_check::fast::directory::{DirectoryFastPath, summarize_large};
use fsmend_ext_check::fast::inode::{InodeFastPath, InodeSummary, Verdict, push_block};
use fsmend_ext_check::fast::map::{Walk, WalkItem, WalkMode, join, verdicts};
use fsmend_ext_check::inode::inspection::units_of;
use fsmend_ext_check::inode::{Inspection, MapRun, inspect};
use fsmend_ext_check::superblock::{SuperblockOptions, settle};
use fsmend_ext_check::{Fs, run, xattr};
use fsmend_ext_format::inode::{InodeFlags, RawInode};
use fsmend_testkit::damage::{MUTATIONS, Patch, Structure, Survey};
use fsmend_testkit::host::skip;
use fsmend_testkit::image::{Built, build, matrix};

const BASES: &[&str] = &[
    "ext4-1k",
    "ext2-1k",
    "ext4-4k",
    "inline-data-1k",
    "deep-htree-1k",
    "extents-deep-1k",
    "indirect-1k",
    "uninit-bg",
];
const NOW: u64 = 1_800_000_000;

fn cases() -> u64 {
    std::env::var("FSMEND_FAST_PATH_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(500)
}

/// A sound image, and what it consists of.
struct Base {
    name: &'static str,
    survey: Survey,
    device: Arc<MemoryDevice>,
}

impl Base {
    fn new(name: &'static str) -> Option<Base> {
        let recipe = matrix::all().into_iter().find(|recipe| recipe.name == name).unwrap();
        match build(&recipe).unwrap() {
            Built::Image(image) => {
                let survey = Survey::of(&image).unwrap();
                let device = Arc::new(MemoryDevice::new(name, survey.image.clone()));
                Some(Base { name, survey, device })
            }
            Built::Skipped(reason) => {
                skip(&format!("fast path of {name}"), &reason);
                None
            }
        }
    }

    /// Runs `body` on the image with `patches` laid over it.
    fn with<R>(&self, patches: &[Patch], body: impl FnOnce(&Fs<'_>) -> R) -> R {
        let mut overlay = Overlay::new(Arc::clone(&self.device));
        for patch in patches {
            overlay.write(patch.offset, &patch.new).unwrap();
        }
        let mut findings = Findings::new();
        let settled = settle(&overlay, SuperblockOptions::default(), NOW, &mut findings).unwrap();
        let fs = run::open(&overlay, settled, NOW, &mut findings);
        body(&fs)
    }

    fn structures(&self, wanted: &[&str]) -> Vec<&Structure> {
        let of_kind = |structure: &&Structure| wanted.iter().any(|word| structure.kind.contains(word));
        self.survey.structures.iter().filter(of_kind).collect()
    }
}

/// Mutates one or two places of a structure and makes its checksum right again: a wrong one would end the fast path.
fn mutate(base: &Base, structure: &Structure, random: &mut SeededRandom) -> Vec<Patch> {
    let mut record = base.survey.bytes(structure).to_vec();
    for _ in 0..1 + random.below(2) {
        if random.below(4) == 0 {
            let at = random.below(record.len() as u64) as usize;
            record[at] = random.next_u64() as u8;
            continue;
        }
        let field = structure.fields[random.below(structure.fields.len() as u64) as usize];
        let mutation = MUTATIONS[random.below(MUTATIONS.len() as u64) as usize];
        let at = structure.at + field.offset;
        if let Some(bytes) = record.get_mut(at..at + field.size) {
            mutation.apply(bytes, random);
        }
    }
    structure.patches(&base.survey, record, true)
}

/// The number after `word` in a structure's name.
fn number_after(structure: &Structure, word: &str) -> Option<InodeNo> {
    let (_, rest) = structure.name.split_once(word)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok().map(InodeNo)
}

fn same<T: PartialEq + Debug>(what: &str, fast: T, inspected: T) -> Result<(), String> {
    if fast == inspected {
        Ok(())
    } else {
        Err(format!("{what}: {fast:?} by the fast path, {inspected:?} by inspection"))
    }
}

fn found_nothing(findings: &Findings) -> Result<(), String> {
    if findings.is_empty() { Ok(()) } else { Err(format!("inspection finds {:?}", findings.counts())) }
}

/// Neighbouring runs joined, so that only what is mapped counts.
fn joined(runs: &[MapRun]) -> Vec<MapRun> {
    let mut joined: Vec<MapRun> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last)
                if last.logical + u64::from(last.count) == run.logical
                    && last.physical + u64::from(last.count) == run.physical
                    && last.unwritten == run.unwritten =>
            {
                last.count += run.count;
            }
            _ => joined.push(*run),
        }
    }
    joined
}

/// Blocks with the number of claims on them (two for more than one).
fn claimed(claims: &Claims) -> Vec<(u64, u32)> {
    claims.claimed().ones().map(|unit| (unit, 1 + u32::from(claims.contested().get(unit)))).collect()
}

/// Compares both ways through an inode; `Ok(false)` when the fast path called it a suspect.
fn compare_inode(fs: &Fs<'_>, inode: InodeNo) -> Result<bool, String> {
    let record = fs.read_inode(inode).unwrap().unwrap();
    let fast_path = InodeFastPath::new(fs);
    let mut summary = InodeSummary::default();
    let verdict = fast_path.summarize(inode, &record, &mut summary);
    if verdict == Verdict::Suspect {
        return Ok(false);
    }
    let mut findings = Findings::new();
    let inspection = inspect(fs, inode, &record, &mut findings);
    if verdict == Verdict::Free {
        found_nothing(&findings)?;
        same("kind", Kind::Unused, inspection.kind)?;
        return Ok(true);
    }
    if summary.xattr_block != 0 {
        let block = fsmend_base::BlockNo(summary.xattr_block);
        if !xattr::read_and_inspect_block(fs, inode, block, &mut Findings::new()).plausible {
            return Ok(false); // The scan inspects such inodes later, when the block has turned out to be none.
        }
    }
    let claims = Claims::new(fs.geometry.clusters_count());
    let mut runs = summary.runs.clone();
    if summary.needs_walk {
        let item = [WalkItem::new(inode, &summary, &RawInode::from_record(&record))];
        let (walk, mut nodes) =
            Walk::start(&item, WalkMode::Claim, &fs.geometry, &fast_path, &fs.metadata, &claims);
        let other = Walk::part(&item, WalkMode::Claim, &fs.geometry, &fast_path, &fs.metadata, &claims);
        // In two parts, as two workers would.
        let mut walks = [walk, other];
        while let Some(node) = nodes.pop() {
            let walk = &mut walks[(node.block % 2) as usize];
            match fs.read_block(fsmend_base::BlockNo(node.block)) {
                Ok(contents) => walk.visit(node, &contents, &mut nodes),
                Err(_) => walk.unreadable(node),
            }
        }
        let mut tallies = Vec::new();
        walks.into_iter().for_each(|walk| join(&mut tallies, walk.finish()));
        let walked = verdicts(&item, tallies, &fast_path).pop().unwrap();
        if !walked.clean {
            return Ok(false);
        }
        runs = walked.runs;
    } else {
        for run in &runs {
            claims.claim(run.physical, u64::from(run.count), Origin::KNOWN);
        }
    }
    // A tree that uses a block twice is clean by itself: the block is contested.
    if claims.contested().count() == 0 {
        found_nothing(&findings)?;
        same_facts(fs, &summary, &runs, &claims, &inspection)?;
    }
    Ok(true)
}

fn same_facts(
    fs: &Fs<'_>,
    summary: &InodeSummary,
    runs: &[MapRun],
    claims: &Claims,
    inspection: &Inspection,
) -> Result<(), String> {
    same("kind", summary.kind, inspection.kind)?;
    same("marks", 0, inspection.marks)?;
    same("links", summary.links, inspection.raw().i_links_count.get())?;
    same("attribute block", Some(summary.xattr_block).filter(|block| *block != 0), inspection.xattr_block)?;
    same(
        "sectors",
        summary.charged_blocks * u64::from(fs.geometry.block_size / 512),
        inspection.charged_sectors,
    )?;
    same("inline", false, inspection.inline)?;
    same("value inodes", 0, inspection.value_inodes.len())?;
    if !summary.needs_walk || summary.kind == Kind::Directory {
        same("map", joined(runs), joined(&inspection.runs))?;
    }
    let theirs = Claims::new(fs.geometry.clusters_count());
    for (start, count) in units_of(inspection, &fs.geometry) {
        theirs.claim(start, count, Origin::KNOWN);
    }
    same("claims", claimed(claims), claimed(&theirs))
}

fn hold(wanted: &[&str], word: &str, compare: impl Fn(&Base, &Fs<'_>, InodeNo) -> Result<bool, String>) {
    let (mut failures, mut cleared) = (Vec::new(), 0);
    for base in BASES.iter().filter_map(|name| Base::new(name)) {
        let structures = base.structures(wanted);
        if structures.is_empty() {
            continue;
        }
        for seed in 0..cases() {
            let mut random = SeededRandom::new(seed);
            let structure = structures[random.below(structures.len() as u64) as usize];
            let Some(inode) = number_after(structure, word) else { continue };
            let patches = mutate(&base, structure, &mut random);
            match base.with(&patches, |fs| compare(&base, fs, inode)) {
                Ok(clean) => cleared += u64::from(clean),
                Err(why) => failures.push(format!("{} seed {seed}, {}: {why}", base.name, structure.name)),
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(cleared > 0 || BASES.iter().all(|name| Base::new(name).is_none()), "nothing was cleared");
}

#[test]
fn clean_inodes_pass_inspection_with_the_same_facts() {
    hold(&["inode of a", "attribute magic"], "inode ", |_, fs, inode| compare_inode(fs, inode));
}

#[test]
fn clean_maps_pass_inspection_with_the_same_facts() {
    hold(&["extent", "pointer"], "inode ", |_, fs, inode| compare_inode(fs, inode));
}

/// A table with the facts of a sound image, as they are after the scan and before directories are read.
fn facts(fs: &Fs<'_>) -> InodeTable {
    let table = InodeTable::new(fs.geometry.inodes_count, fs.geometry.inodes_per_group);
    for (index, group) in fs.groups.iter().enumerate() {
        let scanned = group.scan_inodes as usize;
        let mut chunk = ChunkFacts::new(scanned);
        for at in 0..scanned {
            let inode = InodeNo(index as u32 * fs.geometry.inodes_per_group + at as u32 + 1);
            let record = fs.read_inode(inode).unwrap().unwrap();
            if record.iter().all(|byte| *byte == 0) {
                continue;
            }
            let inspection = inspect(fs, inode, &record, &mut Findings::new());
            let fact = InodeFact::new(inspection.kind, inspection.marks);
            if inspection.kind != Kind::Unused {
                chunk.record(at, inode, fact, inspection.raw().i_links_count.get());
            }
        }
        table.publish(index as u32, chunk);
    }
    table
}

/// The same facts, with nothing counted.
fn fresh(facts: &InodeTable) -> InodeTable {
    let table = InodeTable::new(facts.inodes_count(), facts.per_chunk());
    for chunk in 0..facts.chunk_count() {
        let first = chunk * facts.per_chunk() + 1;
        let scanned = (0..facts.per_chunk()).take_while(|at| facts.is_scanned(InodeNo(first + at))).count();
        let mut copy = ChunkFacts::new(scanned);
        facts.visit_chunk(chunk, |inode, fact, links, _| {
            copy.record((inode.0 - first) as usize, inode, fact, links);
        });
        table.publish(chunk, copy);
    }
    table
}

/// Compares both ways through a directory whose inode is sound.
fn compare_directory(fs: &Fs<'_>, table: &InodeTable, inode: InodeNo) -> Result<bool, String> {
    let Some(opened) = Directory::open(fs, inode) else { return Ok(false) };
    let raw = RawInode::from_record(&opened.record);
    let filled = opened.runs.iter().try_fold(0, |next, run| {
        (run.logical == next && !run.unwritten).then(|| next + u64::from(run.count))
    });
    let unusual = InodeFlags::CASEFOLD | InodeFlags::ENCRYPT | InodeFlags::INLINE_DATA;
    if opened.inline || filled.is_none() || raw.flags().intersects(unusual) {
        return Ok(false);
    }
    let fast_path = DirectoryFastPath::new(&fs.geometry, table);
    let mut summary = DirectorySummary::default();
    let mut reader = BatchReader::new(fs.device, ReadBackend::Pread, 8);
    let indexed = raw.flags().intersects(InodeFlags::INDEX);
    let what = (inode, raw.i_generation.get(), indexed);
    let clean = summarize_large(&fast_path, fs, &mut reader, what, &opened.runs, &mut summary).clean;
    let right = |certainty| certainty == Certainty::Right;
    let certain = summary.targets.iter().all(|target| right(fast_path.certifier.certify(*target).0));
    if !clean || !certain || !right(fast_path.certifier.certify_parent(summary.parent_entry)) {
        return Ok(false);
    }
    let mut children: Vec<u32> = summary
        .targets
        .iter()
        .filter(|target| target.kind == Kind::Directory)
        .map(|target| target.inode.0)
        .collect();
    children.sort_unstable();
    if children.windows(2).any(|pair| pair[0] == pair[1]) {
        return Ok(false); // Two names for one directory: the scan notices when it counts them.
    }
    let counted = fresh(table);
    let mut findings = Findings::new();
    directory::inspect(fs, &counted, &opened, &mut findings);
    found_nothing(&findings)?;
    let mut expected: BTreeMap<u32, u32> = BTreeMap::new();
    for target in summary.targets.iter().map(|target| target.inode).chain([inode, summary.parent_entry]) {
        *expected.entry(target.0).or_default() += 1;
    }
    let mut found = BTreeMap::new();
    for chunk in 0..counted.chunk_count() {
        counted.visit_chunk(chunk, |inode, _, _, links| {
            if links > 0 {
                found.insert(inode.0, links);
            }
        });
    }
    same("names", expected, found)?;
    let parent = counted.directory(inode).unwrap().parent_entry.load(Relaxed);
    same("parent", summary.parent_entry.0, parent)?;
    Ok(true)
}

#[test]
fn clean_directories_pass_inspection_with_the_same_facts() {
    let mut tables: BTreeMap<&str, InodeTable> = BTreeMap::new();
    for base in BASES.iter().filter_map(|name| Base::new(name)) {
        tables.insert(base.name, base.with(&[], facts));
    }
    hold(&["directory entry", "dot entries", "directory tail", "htree"], "directory ", |base, fs, inode| {
        compare_directory(fs, &tables[base.name], inode)
    });
}

#[test]
fn runs_of_single_blocks_are_the_runs_of_the_map() {
    let mut runs = Vec::new();
    for (logical, physical) in [(0, 10), (1, 11), (3, 12)] {
        push_block(&mut runs, logical, physical);
    }
    assert_eq!(joined(&runs), runs);
}
