// SPDX-License-Identifier: MIT OR Apache-2.0
//! A second process that thaws a file system should this one die, hang or be stopped while it is frozen.
//!
//! It is this very program, started with the hidden command `thaw-watchdog` before anything is frozen, in a process group of its own (an
//! interrupt from the terminal does not reach it), deaf to the signals that end programs politely. One byte on its standard input arms it, another
//! one disarms it. Armed, it thaws when its time is over or when the other end of the pipe is closed, however that came about.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use fsmend_device::{MountPoint, Mounted};

use super::args::WatchdogArgs;
use crate::exit;

const READY: u8 = b'r';
const ARM: u8 = b'a';
const DISARM: u8 = b'd';

/// A freeze may still be under way when the time is over: it is tried again so often.
const AGAIN_AFTER: Duration = Duration::from_millis(10);
const TRIES_MAX: u32 = 60_000;

/// The other process.
pub struct Watchdog {
    child: Child,
    /// Taken when it is dismissed.
    orders: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts it for `mounted`, and waits until it is ready. It thaws `limit` after it was armed.
    pub fn start(mounted: &Mounted, limit: Duration) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("thaw-watchdog").arg(&mounted.at);
        command.args([mounted.number.0.to_string(), mounted.number.1.to_string()]);
        command.arg(limit.as_millis().to_string());
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let orders = child.stdin.take();
        let mut answer = [0];
        let mut answers = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let watchdog = Watchdog { child, orders };
        answers.read_exact(&mut answer)?;
        match answer {
            [READY] => Ok(watchdog),
            _ => Err(io::Error::other("the watchdog did not start")),
        }
    }

    /// From now on it thaws when its time is over, or when we are gone.
    pub fn arm(&mut self) -> io::Result<()> {
        self.order(ARM)
    }

    /// The file system has been thawed.
    pub fn disarm(&mut self) -> io::Result<()> {
        self.order(DISARM)
    }

    fn order(&mut self, order: u8) -> io::Result<()> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        orders.write_all(&[order])?;
        orders.flush()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // It ends when the pipe is closed, and thaws before if it was left armed.
        self.orders = None;
        let _ = self.child.wait();
    }
}

/// The other process's own work.
pub fn run(arguments: &WatchdogArgs) -> u8 {
    match watch(arguments) {
        Ok(()) => exit::CLEAN,
        Err(_) => exit::OPERATIONAL,
    }
}

fn watch(arguments: &WatchdogArgs) -> io::Result<()> {
    let mount = MountPoint::open(&arguments.at, (arguments.major, arguments.minor))?;
    let deaf = Arc::new(AtomicBool::new(false));
    use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};
    for signal in [SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&deaf))?;
    }
    let (sender, orders) = channel();
    // It stays behind when this process ends.
    std::thread::spawn(move || {
        for order in io::stdin().lock().bytes().map_while(Result::ok) {
            if sender.send(order).is_err() {
                break;
            }
        }
    });
    io::stdout().write_all(&[READY])?;
    io::stdout().flush()?;
    let limit = Duration::from_millis(arguments.limit);
    while let Ok(order) = orders.recv() {
        if order == ARM {
            guard(&mount, limit, &orders);
        }
    }
    Ok(())
}

/// Waits for the order to be quiet; thaws if it does not come in time.
fn guard(mount: &MountPoint, limit: Duration, orders: &Receiver<u8>) {
    let mut wait = limit;
    for _ in 0..TRIES_MAX {
        match orders.recv_timeout(wait) {
            Ok(DISARM) => return,
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if mount.thaw().is_err() => wait = AGAIN_AFTER,
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => {
                // The process that froze it is gone, and with it every freeze that was under way.
                let _ = mount.thaw();
                return;
            }
        }
    }
}
