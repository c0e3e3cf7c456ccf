// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something was not written, and what the user can do about it on the command line.

use fsmend_session::Failure;

/// It, in text.
pub fn told(failure: &Failure) -> String {
    match failure {
        Failure::Journal(_) => format!("{failure} (-j names another place for it)"),
        Failure::Unrestored(..) => format!("{failure}. \"fsmend e2fsck -fy\" finds other places for it"),
        _ => failure.to_string(),
    }
}
