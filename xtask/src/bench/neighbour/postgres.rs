// SPDX-License-Identifier: MIT OR Apache-2.0
//! An application beside which is checked: a PostgreSQL server of our own in a temporary folder, and pgbench as its users.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use fsmend_testkit::host::{command, find_program, is_root};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::application::Speed;

/// Accounts are 100 000 for each; the tables stay in memory.
const SCALE: &str = "10";

/// Settings of the server: all in memory but the log of changes, which is flushed all the time but never waited for, so that
/// what is measured is not the disk's latency; nothing runs by its own clock.
const SETTINGS: [&str; 8] = [
    "listen_addresses=",
    "shared_buffers=256MB",
    "synchronous_commit=off",
    "autovacuum=off",
    "checkpoint_timeout=30min",
    "max_wal_size=4GB",
    "jit=off",
    "log_min_messages=fatal",
];

/// A running server; stopped, and its folder removed, when dropped.
pub struct Postgres {
    folder: PathBuf,
    programs: PathBuf,
    user: User,
    server: Child,
}

/// Who the server runs as: it refuses the superuser.
#[derive(Clone, Copy)]
struct User(Option<(u32, u32)>);

impl Postgres {
    /// Makes a database and starts its server.
    pub fn start() -> io::Result<Postgres> {
        let programs = programs()?;
        let user = User::find()?;
        let folder = std::env::temp_dir().join(format!("fsmend-neighbour-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        if let User(Some((uid, gid))) = user {
            chown(&folder, Some(uid), Some(gid))?;
        }
        let data = folder.join("data");
        let mut initdb = user.command(&programs.join("initdb"));
        initdb.args(["--auth=trust", "--username=postgres", "--no-sync", "-D"]).arg(&data);
        run(initdb).inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        let mut server = user.command(&programs.join("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(&folder);
        for setting in SETTINGS {
            server.args(["-c", setting]);
        }
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let postgres = Postgres { folder, programs, user, server };
        postgres.wait_until_ready()?;
        let mut fill = postgres.client("pgbench");
        fill.args(["--initialize", "--quiet", "--scale", SCALE]);
        run(fill)?;
        Ok(postgres)
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        for _ in 0..300 {
            if run(self.client("pg_isready")).is_ok() {
                return Ok(());
            }
            sleep(Duration::from_millis(100));
        }
        Err(io::Error::other("the PostgreSQL server does not come up"))
    }

    /// A client program that knows where the server is.
    fn client(&self, program: &str) -> Command {
        let mut client = self.user.command(&self.programs.join(program));
        client.env("PGHOST", &self.folder).env("PGUSER", "postgres").env("PGDATABASE", "postgres");
        client
    }

    /// Lets `clients` work for so many seconds on `cores` (all, when none is named): nine look-ups for each change.
    pub fn work(&self, clients: usize, seconds: u64, cores: &[usize]) -> io::Result<Speed> {
        self.stay_on(cores)?;
        let mut pgbench = self.client("pgbench");
        pgbench.args(["--no-vacuum", "--protocol=prepared", "-b", "tpcb-like@1", "-b", "select-only@9"]);
        pgbench.args(["--client", &clients.to_string(), "--time", &seconds.to_string()]);
        let child = pgbench.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        if !cores.is_empty() {
            sched_setaffinity(Pid::from_raw(child.id() as i32), &set_of(cores))?;
        }
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let number = |name: &str| -> Option<f64> {
            let line = said.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        };
        let speed = number("tps = ").zip(number("latency average = "));
        let speed = speed.ok_or_else(|| io::Error::other(format!("pgbench: {}: {said}", output.status)))?;
        Ok(Speed { transactions: speed.0, latency_ms: speed.1 })
    }

    /// New connections are served on these cores.
    fn stay_on(&self, cores: &[usize]) -> io::Result<()> {
        let all: Vec<usize> = (0..super::cores()).collect();
        let set = set_of(if cores.is_empty() { &all } else { cores });
        Ok(sched_setaffinity(Pid::from_raw(self.server.id() as i32), &set)?)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(process) = Pid::from_raw(self.server.id() as i32) {
            // Its "fast" way to stop.
            let _ = kill_process(process, Signal::INT);
        }
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl User {
    fn find() -> io::Result<User> {
        if !is_root() {
            return Ok(User(None));
        }
        let users = fs::read_to_string("/etc/passwd")?;
        let line = users.lines().find_map(|line| line.strip_prefix("postgres:"));
        let mut words = line.unwrap_or_default().split(':').skip(1).map(|word| word.parse::<u32>().ok());
        match (words.next().flatten(), words.next().flatten()) {
            (Some(uid), Some(gid)) => Ok(User(Some((uid, gid)))),
            _ => Err(io::Error::other("there is no user postgres (Debian package postgresql)")),
        }
    }

    fn command(self, program: &Path) -> Command {
        let mut command = command(&program.to_string_lossy());
        command.current_dir("/");
        if let User(Some((uid, gid))) = self {
            command.uid(uid).gid(gid);
        }
        command
    }
}

/// The folder of the newest server that is installed.
fn programs() -> io::Result<PathBuf> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = installed.map(|entry| entry.path().join("bin"));
    let newest = folders.filter(|folder| folder.join("postgres").is_file()).max();
    let on_path = || find_program("postgres").and_then(|program| program.parent().map(Path::to_owned));
    newest.or_else(on_path).filter(|folder| folder.join("pgbench").is_file()).ok_or_else(|| {
        io::Error::other("PostgreSQL with pgbench is not installed (Debian package postgresql)")
    })
}

fn run(mut command: Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{command:?}: {}: {said}", output.status)))
}

fn set_of(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    set
}
