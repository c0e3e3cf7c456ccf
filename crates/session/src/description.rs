// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file system is and how full it is, without a check: lines for people, members for programs.

use fsmend_engine::Value;
use fsmend_engine::detail::{Detail, TableRow};
use serde_json::{Map, Value as Json, json};

use crate::numbers::thousands;
use crate::text::printable;

/// What a file system is and how full it is.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// What follows the name of the target; may be empty.
    pub title: String,
    /// The lines below it.
    pub lines: Vec<String>,
    /// The same for programs.
    pub members: Map<String, Json>,
}

impl Description {
    /// A line and a member for each value.
    pub fn of_values(values: Vec<(&'static str, Detail)>) -> Self {
        let mut description = Description::default();
        for (name, value) in values {
            let (shown, member) = match value {
                Detail::Value(Value::Number(number)) => (thousands(number), json!(number)),
                Detail::Value(other) => (printable(&other.to_string()), json!(other.to_string())),
                Detail::Table(rows) => {
                    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
                    (texts.join(", "), rows.iter().map(members).collect())
                }
            };
            if !shown.is_empty() {
                description.lines.push(format!("{}: {shown}", name.replace('-', " ")));
            }
            description.members.insert(name.replace('-', "_"), member);
        }
        description
    }
}

fn members(row: &TableRow) -> Json {
    row.members.iter().map(|(name, number)| ((*name).to_owned(), json!(number))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_and_written() {
        let row = |segment| TableRow {
            text: format!("{segment}: 5"),
            members: vec![("segment", segment), ("len", 5)],
        };
        let values = vec![
            ("free-blocks", 1234u64.into()),
            ("label", Value::Text(String::new()).into()),
            ("last-segments", Detail::Table(vec![row(7), row(8)])),
        ];
        let description = Description::of_values(values);
        let lines = ["free blocks: 1,234", "last segments: 7: 5, 8: 5"];
        assert_eq!(description.lines, lines, "what is empty is not shown");
        let segments = json!([{"segment": 7, "len": 5}, {"segment": 8, "len": 5}]);
        let all = json!({"free_blocks": 1234, "label": "", "last_segments": segments});
        assert_eq!(Json::Object(description.members), all);
    }
}
