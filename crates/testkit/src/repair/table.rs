// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures by class, most frequent first, with an example of each that can be replayed.

use std::collections::BTreeMap;

/// One failure of one case.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Number of the case.
    pub number: u64,
    /// What was damaged: a kind of structure and a field.
    pub class: String,
    /// What was done to it, in words.
    pub label: String,
    /// What kind of failure.
    pub kind: String,
    /// The particulars.
    pub detail: String,
}

/// How many classes of damage are named in a row.
const CLASSES_SHOWN: usize = 12;

/// The table, as text.
pub fn table(findings: &[Finding]) -> String {
    let mut kinds: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        kinds.entry(&finding.kind).or_default().push(finding);
    }
    let mut rows: Vec<(&str, Vec<&Finding>)> = kinds.into_iter().collect();
    rows.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    rows.iter().map(|(kind, cases)| row(kind, cases)).collect()
}

fn row(kind: &str, cases: &[&Finding]) -> String {
    let mut classes: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for case in cases {
        classes.entry(&case.class).or_default().push(case);
    }
    let mut classes: Vec<(&str, Vec<&Finding>)> = classes.into_iter().collect();
    classes.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    let mut text = format!("{:5}  {kind}\n", cases.len());
    for (class, cases) in classes.iter().take(CLASSES_SHOWN) {
        text.push_str(&format!("       {:5}  {class}\n", cases.len()));
        if let Some(case) = cases.first() {
            text.push_str(&format!(
                "              case {}: {}\n              {}\n",
                case.number, case.label, case.detail
            ));
        }
    }
    if classes.len() > CLASSES_SHOWN {
        text.push_str(&format!(
            "              and {} more classes of damage\n",
            classes.len() - CLASSES_SHOWN
        ));
    }
    text
}
