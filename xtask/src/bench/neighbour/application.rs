// SPDX-License-Identifier: MIT OR Apache-2.0
//! The applications beside which is checked.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use fsmend_testkit::host::{command, find_program};

use super::postgres::Postgres;

/// What an application reached.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Transactions or reads a second.
    pub transactions: f64,
    /// Mean latency in milliseconds.
    pub latency_ms: f64,
}

/// An application that is ready to work.
pub enum Application {
    /// The paper's: RocksDB, whose db_bench reads at random from a database of its own in memory.
    RocksDb(RocksDb),
    /// A server and its clients, which wake each other all the time.
    Postgres(Postgres),
}

impl Application {
    /// Prepares the one called `name`; without, the paper's if it is installed, else PostgreSQL.
    pub fn start(name: Option<&str>) -> io::Result<Application> {
        match name {
            Some("rocksdb") => RocksDb::make().map(Application::RocksDb),
            Some("postgres") => Postgres::start().map(Application::Postgres),
            None if find_program("db_bench").is_some() => RocksDb::make().map(Application::RocksDb),
            None => Postgres::start().map(Application::Postgres),
            Some(other) => Err(io::Error::other(format!("{other} is neither rocksdb nor postgres"))),
        }
    }

    /// What it does, with so many clients.
    pub fn description(&self, clients: usize) -> String {
        match self {
            Application::RocksDb(_) => {
                format!("RocksDB's db_bench, readrandom, {clients} thread(s), all in memory")
            }
            Application::Postgres(_) => {
                format!(
                    "PostgreSQL with pgbench, {clients} client(s), nine look-ups for each change, all in memory"
                )
            }
        }
    }

    /// Lets `clients` work for so many seconds on `cores` (all, when none is named).
    pub fn work(&self, clients: usize, seconds: u64, cores: &[usize]) -> io::Result<Speed> {
        match self {
            Application::RocksDb(rocksdb) => rocksdb.work(clients, seconds, cores),
            Application::Postgres(postgres) => postgres.work(clients, seconds, cores),
        }
    }
}

/// A database of db_bench; removed when dropped.
pub struct RocksDb {
    program: PathBuf,
    folder: PathBuf,
}

impl RocksDb {
    /// A million entries.
    fn make() -> io::Result<RocksDb> {
        let program = find_program("db_bench")
            .ok_or_else(|| io::Error::other("db_bench is not installed (Debian package rocksdb-tools)"))?;
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = folder.join(format!("fsmend-neighbour-{}", std::process::id()));
        let rocksdb = RocksDb { program, folder };
        let mut fill = rocksdb.bench(&[]);
        fill.arg("--benchmarks=fillseq");
        said(fill)?;
        Ok(rocksdb)
    }

    fn work(&self, threads: usize, seconds: u64, cores: &[usize]) -> io::Result<Speed> {
        let mut bench = self.bench(cores);
        bench.args(["--use_existing_db=1", "--benchmarks=readrandom"]);
        bench.args([format!("--threads={threads}"), format!("--duration={seconds}")]);
        let said = said(bench)?;
        let reads = reads(&said).ok_or_else(|| io::Error::other(format!("db_bench: {said}")))?;
        Ok(Speed { transactions: reads, latency_ms: 1e3 * threads as f64 / reads })
    }

    fn bench(&self, cores: &[usize]) -> Command {
        let mut bench = if cores.is_empty() {
            command(&self.program.to_string_lossy())
        } else {
            let list: Vec<String> = cores.iter().map(usize::to_string).collect();
            let mut bound = command("taskset");
            bound.args(["-c", &list.join(",")]).arg(&self.program);
            bound
        };
        bench.arg(format!("--db={}", self.folder.display()));
        bench.args([
            "--num=1000000",
            "--value_size=100",
            "--compression_type=none",
            "--cache_size=268435456",
        ]);
        bench
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn said(mut command: Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{command:?}: {}: {said}", output.status)))
}

/// Reads a second, as db_bench says: `readrandom : 9.296 micros/op 107559 ops/sec ...`.
fn reads(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("readrandom"))?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let unit = words.iter().position(|word| *word == "ops/sec")?;
    words.get(unit.checked_sub(1)?)?.parse().ok().filter(|reads| *reads > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_db_bench_says_is_understood() {
        let said = "Entries:    1000000\nreadrandom   :       9.296 micros/op 107559 ops/sec 3.000 seconds 322999 operations;\n";
        assert_eq!(reads(said), Some(107_559.0));
        assert_eq!(reads("readrandom : ops/sec"), None);
        assert_eq!(reads("fillseq : 1 micros/op 5 ops/sec"), None);
    }
}
