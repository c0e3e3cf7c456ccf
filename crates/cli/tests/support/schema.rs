// SPDX-License-Identifier: MIT OR Apache-2.0
//! Validates JSON against the part of JSON Schema that docs/report.schema.json uses.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Map, Value};

const SCHEMA: &str = include_str!("../../../../docs/report.schema.json");

/// Panics when `text` is not one valid report; returns it parsed.
pub fn valid_report(text: &str) -> Value {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let document: Value = serde_json::from_str(text).unwrap();
    let mut errors = Vec::new();
    Validator { root: &schema }.check(&schema, &document, "$", &mut errors);
    assert!(errors.is_empty(), "{errors:#?}\n{text}");
    document
}

struct Validator<'s> {
    root: &'s Value,
}

impl Validator<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str, errors: &mut Vec<String>) {
        if let Some(path) = schema["$ref"].as_str() {
            let target = self.root.pointer(path.trim_start_matches('#')).unwrap();
            return self.check(target, value, at, errors);
        }
        for (key, rule) in schema.as_object().unwrap() {
            let fine = match key.as_str() {
                "type" => is_of_type(rule, value),
                "const" => rule == value,
                "enum" => rule.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().unwrap() >= rule.as_f64().unwrap(),
                "pattern" => matches(rule.as_str().unwrap(), value.as_str().unwrap()),
                "required" => {
                    rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some())
                }
                "items" => {
                    let items = value.as_array().into_iter().flatten().enumerate();
                    items.for_each(|(number, item)| {
                        self.check(rule, item, &format!("{at}[{number}]"), errors)
                    });
                    true
                }
                "properties" | "additionalProperties" => true,
                "$schema" | "title" | "$defs" => true,
                other => panic!("the validator does not know {other}"),
            };
            if !fine {
                errors.push(format!("{at}: {key} {rule} does not hold for {value}"));
            }
        }
        if let Some(members) = value.as_object() {
            self.check_members(schema, members, at, errors);
        }
    }

    fn check_members(
        &self,
        schema: &Value,
        members: &Map<String, Value>,
        at: &str,
        errors: &mut Vec<String>,
    ) {
        for (name, member) in members {
            let at = format!("{at}.{name}");
            match (schema["properties"].get(name), &schema["additionalProperties"]) {
                (Some(rule), _) => self.check(rule, member, &at, errors),
                (None, Value::Bool(false)) => errors.push(format!("{at}: not in the schema")),
                (None, rule @ Value::Object(_)) => self.check(rule, member, &at, errors),
                (None, _) => {}
            }
        }
    }
}

fn is_of_type(rule: &Value, value: &Value) -> bool {
    if let Some(rules) = rule.as_array() {
        return rules.iter().any(|rule| is_of_type(rule, value));
    }
    match rule.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("the validator does not know the type {other}"),
    }
}

/// The two patterns of the schema.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^0x[0-9a-f]{6}$" => {
            let digits = text.strip_prefix("0x").unwrap_or("");
            digits.len() == 6 && digits.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
        }
        r"^[a-z]+\.[a-z]+\.[a-z0-9-]+$" => {
            let words: Vec<&str> = text.split('.').collect();
            let letter = |c: char| c.is_ascii_lowercase();
            words.len() == 3
                && words.iter().all(|word| !word.is_empty())
                && words[..2].iter().all(|word| word.chars().all(letter))
                && words[2].chars().all(|c| letter(c) || c.is_ascii_digit() || c == '-')
        }
        other => panic!("the validator does not know the pattern {other}"),
    }
}
