// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking problems up in a catalogue: by code, by the beginning of a code, by the number that another checker gives them, by what that checker prints.

use fsmend_engine::Row;

/// The rows that `wanted` stands for: a code; `0x` and a number of the family's established checker; a line that it has printed; or the beginning of codes, up to a dot.
pub fn rows_for(catalogue: &[&'static Row], wanted: &str) -> Vec<&'static Row> {
    if let Some(number) = peer_number(wanted) {
        return matching(catalogue, |row| row.peers.contains(&number));
    }
    if let Some(row) = catalogue.iter().find(|row| row.code == wanted) {
        return vec![*row];
    }
    let said =
        matching(catalogue, |row| row.messages.iter().any(|said| said.len() > 3 && wanted.contains(said)));
    if !said.is_empty() {
        return said;
    }
    let prefix = format!("{}.", wanted.trim_end_matches(['.', '*']));
    matching(catalogue, |row| row.code.starts_with(&prefix))
}

fn matching(catalogue: &[&'static Row], is_wanted: impl Fn(&Row) -> bool) -> Vec<&'static Row> {
    catalogue.iter().copied().filter(|row| is_wanted(row)).collect()
}

/// `0x010007`: a number of another checker, as its sources write it.
pub fn peer_number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fsmend_engine::problem_rows! {
        /// One.
        ONE = "demo.inode.one" {
            severity: Minor, evidence: Local, preen: true, message: "{inode} is off",
            meaning: "m", repair: "r", loss: nothing, peers: [0x010007], messages: ["IS OFF"],
        }
        /// Another.
        OTHER = "demo.inode.other" {
            severity: Minor, evidence: Local, preen: true, message: "{inode} is wrong",
            meaning: "m", repair: "r", loss: nothing, peers: [],
        }
    }

    #[test]
    fn rows_are_found_by_code_beginning_number_and_line() {
        let codes = |wanted: &str| rows_for(ROWS, wanted).iter().map(|row| row.code).collect::<Vec<_>>();
        assert_eq!(codes("demo.inode.other"), [OTHER.code]);
        assert_eq!(codes("0x010007"), [ONE.code]);
        assert_eq!(codes("INODE 12 IS OFF"), [ONE.code]);
        assert_eq!(codes("demo.inode.*"), [ONE.code, OTHER.code]);
        assert_eq!(codes("demo.inode.on"), [""; 0]);
        assert_eq!(codes("0x010008"), [""; 0]);
    }
}
