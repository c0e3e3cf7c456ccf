// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which rows of the catalogue were raised while tests ran, so that a row without a test is found by running the tests. Builds with debug assertions only.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Environment variable that names the file to which each process appends the codes that it raises, a line each.
pub const LOG: &str = "FSMEND_RAISED_LOG";

/// The open file, and what was written to it.
type Log = Option<(File, BTreeSet<&'static str>)>;

static RAISED: LazyLock<Mutex<Log>> = LazyLock::new(|| {
    let open = |path| OpenOptions::new().create(true).append(true).open(path).ok();
    Mutex::new(std::env::var_os(LOG).and_then(open).map(|file| (file, BTreeSet::new())))
});

/// Notes that a row was raised, where the environment asks for that.
pub(super) fn note(code: &'static str) {
    let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((file, seen)) = &mut *raised
        && seen.insert(code)
    {
        // A line that is not written shows as a row without a test.
        let _ = file.write_all(format!("{code}\n").as_bytes());
    }
}
