// SPDX-License-Identifier: MIT OR Apache-2.0
//! Printing. The macros of std with these names panic if standard output or standard error cannot be written. Here a closed pipe is ignored, and any
//! other error on standard output is reported at the end and adds a bit to the exit code.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::Mutex;

use crate::exit;

/// Why something could not be written to standard output.
static LOST: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints to standard output.
macro_rules! print {
    ($($words:tt)*) => { $crate::say::put(format_args!($($words)*)) };
}

/// Prints a line to standard output.
macro_rules! println {
    ($($words:tt)*) => { $crate::say::put(format_args!("{}\n", format_args!($($words)*))) };
}

/// Prints a line to standard error.
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::say::complain(format_args!($($words)*)) };
}

/// Writes to standard output, at once.
pub fn put(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    note(out.write_fmt(text).and_then(|()| out.flush()));
}

/// Notes what became of an attempt to write to standard output.
pub fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
        && let Ok(mut lost) = LOST.lock()
    {
        lost.get_or_insert(error);
    }
}

/// Writes a line to standard error; where that is impossible there is no place left to say so.
pub fn complain(text: Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// The exit code of a run that ended with this one: it tells, too, whether all could be said.
pub fn settled(code: u8) -> u8 {
    match LOST.lock().ok().and_then(|mut lost| lost.take()) {
        Some(error) => {
            eprintln!("fsmend: cannot write to standard output: {error}");
            code | exit::OPERATIONAL
        }
        None => code,
    }
}
