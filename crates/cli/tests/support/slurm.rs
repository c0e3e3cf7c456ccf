// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Slurm of the test's own: munged, a controller and two nodes on this machine, with ports, keys and state in a folder.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fsmend_testkit::host;

use super::fleets::kill;
use super::images::{Folder, prepared, stdout};

/// What it consists of.
pub const PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "sbatch", "sinfo"];

/// The longest wait for it to be up.
const PATIENCE: Duration = Duration::from_secs(20);

/// It ends with this.
pub struct Slurm {
    folder: Folder,
    munged: Child,
    controller: Child,
    nodes: [Child; 2],
}

impl Slurm {
    /// Starts it; when this returns both nodes take jobs. If it cannot be had on this machine: why.
    pub fn start(name: &str) -> Result<Slurm, String> {
        let folder = Folder::new(name);
        for part in ["munge", "state", "spool", "log"] {
            fs::create_dir(folder.path(part)).unwrap();
        }
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(folder.path("munge"), fs::Permissions::from_mode(0o711)).unwrap();
        let key = folder.path("munge/key");
        let mut random = [0; 1024];
        fs::File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
        fs::write(&key, random).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(folder.path("slurm.conf"), configuration(&folder.0)).unwrap();
        let at = |file: &str| folder.path(file).display().to_string();
        let munged = spawned(
            &folder,
            "munged",
            &[
                "-F".to_owned(),
                "--num-threads=2".to_owned(),
                format!("--key-file={}", at("munge/key")),
                format!("--socket={}", at("munge/socket")),
                format!("--pid-file={}", at("munge/pid")),
                format!("--log-file={}", at("munge/log")),
                format!("--seed-file={}", at("munge/seed")),
            ],
        );
        let started = Instant::now();
        while !folder.path("munge/socket").exists() && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let controller = spawned(&folder, "slurmctld", &words(&["-D", "-c"]));
        let nodes = ["n1", "n2"].map(|node| spawned(&folder, "slurmd", &words(&["-D", "-N", node])));
        let slurm = Slurm { folder, munged, controller, nodes };
        match slurm.wait_until_idle() {
            true => Ok(slurm),
            false => Err(format!("Slurm does not start: {}", slurm.complaints())),
        }
    }

    /// Whether both nodes take jobs, within a while.
    fn wait_until_idle(&self) -> bool {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let told = self.run("sinfo", &["-h", "-o", "%D %t"]);
            if told.trim() == "2 idle" {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }

    fn complaints(&self) -> String {
        let text = |file: &str| fs::read_to_string(self.folder.path(file)).unwrap_or_default();
        let all = ["log/munged.out", "log/slurmctld.out", "log/slurmd.out"].map(text).concat();
        let lines: Vec<&str> = all.lines().filter(|line| line.contains("rror")).collect();
        lines.join("; ")
    }

    /// What a program of Slurm says.
    pub fn run(&self, program: &str, words: &[&str]) -> String {
        let mut command = prepared(host::find_program(program).unwrap());
        stdout(&self.of(&mut command).args(words).output().unwrap())
    }

    /// `command` as a user of this Slurm runs it.
    pub fn of<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("SLURM_CONF", self.folder.path("slurm.conf")).current_dir(&self.folder.0)
    }

    /// Takes a node away as a power cut does: its daemon, and all that runs on it.
    pub fn lose_node(&mut self, number: usize) {
        self.nodes[number].kill().unwrap();
        self.nodes[number].wait().unwrap();
        self.kill_jobs(&format!("n{}", number + 1));
    }

    /// Kills the controller and takes its memory away, and starts another one.
    pub fn lose_controller(&mut self) {
        self.controller.kill().unwrap();
        self.controller.wait().unwrap();
        let state = self.folder.path("state");
        fs::remove_dir_all(&state).unwrap();
        fs::create_dir(&state).unwrap();
        self.controller = spawned(&self.folder, "slurmctld", &["-D".to_owned(), "-c".to_owned()]);
        assert!(self.wait_until_idle(), "{}", self.complaints());
    }

    /// Kills what jobs run on a node, and the daemons that look after them.
    fn kill_jobs(&self, node: &str) {
        for process in self.processes(&format!("SLURMD_NODENAME={node}\0")) {
            if let Some(parent) = parent(process).filter(|parent| comm(*parent) == "slurmstepd") {
                kill(parent, "-KILL");
            }
            kill(process, "-KILL");
        }
    }

    /// Processes of this Slurm that have `variable` in their environment, daemons and jobs alike.
    fn processes(&self, variable: &str) -> Vec<u32> {
        let of_ours = format!("SLURM_CONF={}\0", self.folder.path("slurm.conf").display());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment);
            found.extend(
                (environment.contains(&of_ours) && environment.contains(variable)).then_some(process),
            );
        }
        found
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().chain([&mut self.controller, &mut self.munged]) {
            let _ = child.kill();
            let _ = child.wait();
        }
        // What the daemons have started, and what that may have started meanwhile.
        for _ in 0..10 {
            let left = self.processes("");
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(|process| kill(process, "-KILL"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn parent(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn comm(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned()
}

fn spawned(folder: &Folder, program: &str, words: &[String]) -> Child {
    let log = folder.path(&format!("log/{program}.out"));
    let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    let mut command = prepared(host::find_program(program).unwrap());
    command.args(words).env("SLURM_CONF", folder.path("slurm.conf")).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

fn free_ports() -> [u16; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn configuration(folder: &Path) -> String {
    let at = |file: &str| -> PathBuf { folder.join(file) };
    let [controller, first, second] = free_ports();
    let node = |name: &str, port: u16| {
        format!(
            "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000\n"
        )
    };
    [
        "ClusterName=fsmend\nSlurmctldHost=localhost\nSlurmUser=root\nSlurmdUser=root\n".to_owned(),
        format!("SlurmctldPort={controller}\nAuthType=auth/munge\nCredType=cred/munge\n"),
        format!("AuthInfo=socket={}\n", at("munge/socket").display()),
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nSwitchType=switch/none\n"
            .to_owned(),
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU_Memory\nDefMemPerCPU=100\n".to_owned(),
        "AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n".to_owned(),
        "SlurmdTimeout=10\nReturnToService=2\nKillWait=2\nSlurmdParameters=config_overrides\n".to_owned(),
        "SchedulerParameters=sched_interval=1,batch_sched_delay=0\n".to_owned(),
        format!("StateSaveLocation={}\n", at("state").display()),
        format!(
            "SlurmctldPidFile={}\nSlurmdPidFile={}\n",
            at("controller.pid").display(),
            at("%n.pid").display()
        ),
        format!(
            "SlurmctldLogFile={}\nSlurmdLogFile={}\n",
            at("log/c.log").display(),
            at("log/%n.log").display()
        ),
        format!("SlurmdSpoolDir={}\n", at("spool/%n").display()),
        node("n1", first),
        node("n2", second),
        "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n".to_owned(),
    ]
    .concat()
}
