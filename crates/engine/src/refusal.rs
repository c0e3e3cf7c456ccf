// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a run came to no end.

use std::fmt;

use crate::Findings;

/// Why a target cannot be checked at all (exit code 8). Every text says what was expected and names a way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A stable word for programs, e.g. `unknown-feature`, `external-journal-missing`.
    pub code: &'static str,
    /// What is the matter, in a sentence.
    pub message: String,
    /// What can be done, in a sentence.
    pub hint: String,
}

impl Refusal {
    /// That of a run which the user has stopped.
    pub fn stopped() -> Refusal {
        Refusal {
            code: "cancelled",
            message: "The check was stopped before it was complete".to_owned(),
            hint: "Run it again".to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. {}", self.message, self.hint)
    }
}

impl std::error::Error for Refusal {}

/// Why a check came to no end, with the problems that were found on the way.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub refusal: Refusal,
    /// What led to it.
    pub findings: Box<Findings>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl std::error::Error for Refused {}
