// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a list, to be checked in turn.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::digest;

/// One of so many parts of a list. Which part a volume belongs to follows from its id alone: each is in exactly one, whatever else is in the list.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(into = "String", try_from = "String")]
pub struct Part {
    number: u64,
    of: u64,
}

impl Part {
    /// Whether the volume with this id is in it.
    pub fn holds(self, id: &str) -> bool {
        digest(id.as_bytes()) % self.of == self.number - 1
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let numbers =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if number >= 1 && number <= of => Ok(Part { number, of }),
            _ => Err("expected a part such as 3/28: its number, and how many there are".to_owned()),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl From<Part> for String {
    fn from(part: Part) -> String {
        part.to_string()
    }
}

impl TryFrom<String> for Part {
    type Error = String;

    fn try_from(text: String) -> Result<Part, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_id_is_in_one_part() {
        let parts: Vec<Part> = (1..=28).map(|number| format!("{number}/28").parse().unwrap()).collect();
        let mut sizes = [0; 28];
        for number in 0..2800 {
            let id = format!("volume-{number}");
            let holding: Vec<usize> = (0..28).filter(|at| parts[*at].holds(&id)).collect();
            assert_eq!(holding.len(), 1, "{id}");
            sizes[holding[0]] += 1;
        }
        assert!(sizes.iter().all(|size| (50..200).contains(size)), "{sizes:?}");
        for wrong in ["0/2", "3/2", "1", "1/0", "a/b", "-1/2"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }
}
