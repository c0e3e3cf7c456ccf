// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file system is and how full it is, without a check: lines for people, members for programs.

use fsmend_engine::Value;
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
    pub fn of_values(values: Vec<(&'static str, Value)>) -> Self {
        let mut description = Description::default();
        for (name, value) in values {
            let (shown, member) = match value {
                Value::Number(number) => (thousands(number), json!(number)),
                other => (printable(&other.to_string()), json!(other.to_string())),
            };
            if !shown.is_empty() {
                description.lines.push(format!("{}: {shown}", name.replace('-', " ")));
            }
            description.members.insert(name.replace('-', "_"), member);
        }
        description
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_and_written() {
        let values = vec![("free-blocks", Value::Number(1234)), ("label", Value::Text(String::new()))];
        let description = Description::of_values(values);
        assert_eq!(description.lines, ["free blocks: 1,234"], "what is empty is not shown");
        assert_eq!(Json::Object(description.members), json!({"free_blocks": 1234, "label": ""}));
    }
}
