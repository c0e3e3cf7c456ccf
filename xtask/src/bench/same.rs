// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench same`: whether another build of fsmend says and writes the same, byte for byte: reports, plans, undo files and repaired images of field cases,
//! at several numbers of threads. Cases are taken in the order of `bench repair-fields`.
//!
//! Plans and undo files hold the time of the run, so a pair of runs counts as different only if it still is after several attempts, one of which will begin and
//! end within one second.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fsmend_testkit::repair::{Case, write_sparse};

use super::repair_fields::shuffled;

/// Threads of the new build; the old one has one.
const THREADS: [&str; 3] = ["1", "2", "64"];
/// Pairs of runs before a difference counts.
const ATTEMPTS: usize = 5;
/// Every so many cases is repaired, too, not only planned.
const REPAIRED_EVERY: usize = 10;

/// What one build made of a case: a name for each part, and its bytes.
type Outcome = Vec<(&'static str, Vec<u8>)>;

struct Wanted {
    old: PathBuf,
    new: PathBuf,
    from: usize,
    cases: usize,
}

/// Runs `bench same --old PROGRAM --new PROGRAM [--from PLACE] [--cases N]`.
pub fn run(words: &[&str]) -> io::Result<()> {
    let wanted = parse(words)?;
    let numbers = shuffled(None, None)?;
    let numbers: Vec<u64> = numbers.into_iter().skip(wanted.from).take(wanted.cases).collect();
    let (next, compared, differences) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = |worker: usize| -> io::Result<()> {
        let folder = std::env::temp_dir().join(format!("fsmend-same-{}-{worker}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let result = (|| {
            loop {
                let at = next.fetch_add(1, Relaxed);
                let Some(number) = numbers.get(at) else { return Ok(()) };
                let Some(case) = Case::of(*number)? else { continue };
                let found = differing(&wanted, &case, &folder, at.is_multiple_of(REPAIRED_EVERY))?;
                compared.fetch_add(1, Relaxed);
                for line in found {
                    println!("case {number}: {}: {line}", case.damage.label);
                    differences.lock().map_err(|_| io::Error::other("another worker fell"))?.push(line);
                }
            }
        })();
        fs::remove_dir_all(&folder)?;
        result
    };
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let work = &work;
        let workers: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| io::Error::other("a worker fell"))?)
    })?;
    let differences = differences.into_inner().map_err(|_| io::Error::other("a worker fell"))?.len();
    println!("{} cases, {} of them damaged: {differences} differences", numbers.len(), compared.into_inner());
    if differences == 0 { Ok(()) } else { Err(io::Error::other("the builds differ")) }
}

fn parse(words: &[&str]) -> io::Result<Wanted> {
    let (mut old, mut new, mut from, mut cases) = (None, None, 0, usize::MAX);
    for pair in words.chunks(2) {
        let number = |word: &str| word.parse().map_err(|_| io::Error::other(format!("{word} is no number")));
        match pair {
            ["--old", path] => old = Some(program(path)?),
            ["--new", path] => new = Some(program(path)?),
            ["--from", place] => from = number(place)?,
            ["--cases", count] => cases = number(count)?,
            other => return Err(io::Error::other(format!("what is {}?", other.join(" ")))),
        }
    }
    let missing = || io::Error::other("--old and --new say which programs are compared");
    Ok(Wanted { old: old.ok_or_else(missing)?, new: new.ok_or_else(missing)?, from, cases })
}

/// A program that can be started from any folder.
fn program(path: &str) -> io::Result<PathBuf> {
    fs::canonicalize(path).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// In what the new build differs from the old one.
fn differing(wanted: &Wanted, case: &Case, folder: &Path, is_repaired: bool) -> io::Result<Vec<String>> {
    let image = folder.join("image");
    let bytes = case.image().bytes();
    let make = || {
        // A file that is written over keeps blocks that the new one does not have.
        match fs::remove_file(&image) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => write_sparse(&image, &bytes),
        }
    };
    let mut found = compare(
        &THREADS,
        |program, threads| {
            if !image.exists() {
                make()?;
            }
            planned(program, threads, folder)
        },
        wanted,
    )?;
    if is_repaired {
        found.extend(compare(
            &THREADS[2..],
            |program, threads| {
                make()?;
                repaired(program, threads, folder)
            },
            wanted,
        )?);
    }
    match fs::remove_file(&image) {
        Ok(()) => Ok(found),
        Err(error) => Err(error),
    }
}

/// Runs both builds until they agree, or have had their attempts.
fn compare(
    threads: &[&str],
    mut outcome: impl FnMut(&Path, &str) -> io::Result<Outcome>,
    wanted: &Wanted,
) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for threads in threads {
        let mut differing = Vec::new();
        for _ in 0..ATTEMPTS {
            let (old, new) = (outcome(&wanted.old, "1")?, outcome(&wanted.new, threads)?);
            let pairs = old.iter().zip(&new).filter(|(old, new)| old != new);
            differing = pairs.map(|(old, _)| format!("{} with {threads} threads", old.0)).collect();
            if differing.is_empty() {
                break;
            }
        }
        found.extend(differing);
    }
    Ok(found)
}

/// The report of a check, that of a repair, and its plan.
fn planned(program: &Path, threads: &str, folder: &Path) -> io::Result<Outcome> {
    let check = said(program, &["check", "--format", "json"], threads, folder)?;
    let report = said(program, &["repair", "--format", "json", "--plan", "plan"], threads, folder)?;
    Ok(vec![("check", check), ("repair", report), ("plan", taken(&folder.join("plan"))?)])
}

/// The report of a repair, what can undo it, and the image afterwards.
fn repaired(program: &Path, threads: &str, folder: &Path) -> io::Result<Outcome> {
    let report = said(program, &["repair", "-y", "--format", "json", "--undo", "undo"], threads, folder)?;
    let image = fs::read(folder.join("image"))?;
    Ok(vec![("repair -y", report), ("undo file", taken(&folder.join("undo"))?), ("repaired image", image)])
}

/// What a run prints, and how it ends.
fn said(program: &Path, words: &[&str], threads: &str, folder: &Path) -> io::Result<Vec<u8>> {
    let mut command = Command::new(program);
    let output = command.args(words).args(["--threads", threads, "image"]).current_dir(folder).output()?;
    Ok([output.stdout, output.stderr, format!("{:?}", output.status.code()).into_bytes()].concat())
}

/// The bytes of a file, which is removed; none where there is none.
fn taken(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Ok(bytes) => fs::remove_file(path).map(|()| bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
