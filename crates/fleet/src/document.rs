// SPDX-License-Identifier: MIT OR Apache-2.0
//! The document that `fsmend check --format json` prints, read while it is written, with no more of its problems kept than a record holds.

use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::verdict;

/// Members that are lists as long as the damage.
const LISTS: [&str; 3] = ["problems", "files", "blocks"];

/// Objects within objects, at most: of targets and of a repair.
const DEPTH_MAX: u32 = 4;

/// Reads one document. Of each list of problems, files and blocks the first `most` elements are kept.
pub fn read(input: impl Read, most: usize) -> Result<Map<String, Value>, serde_json::Error> {
    let mut source = serde_json::Deserializer::from_reader(input);
    let document = Object { most, depth: 0 }.deserialize(&mut source)?;
    source.end()?;
    Ok(document)
}

/// The verdict of a document: that of its target, or the worst of its targets.
pub fn verdict(document: &Map<String, Value>) -> Option<&str> {
    if let Some(Value::String(verdict)) = document.get("verdict") {
        return Some(verdict);
    }
    let targets = document.get("targets")?.as_array()?.iter();
    targets.filter_map(|target| target.get("verdict")?.as_str()).max_by_key(|verdict| verdict::rank(verdict))
}

#[derive(Clone, Copy)]
struct Object {
    most: usize,
    depth: u32,
}

impl<'de> DeserializeSeed<'de> for Object {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a report")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        if self.depth > DEPTH_MAX {
            return Err(A::Error::custom("objects are nested too deep"));
        }
        let inner = Object { depth: self.depth + 1, ..self };
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = match name.as_str() {
                "targets" => members.next_value_seed(Targets(inner))?,
                "repair" => Value::Object(members.next_value_seed(inner)?),
                list if LISTS.contains(&list) => members.next_value_seed(First(self.most))?,
                _ => members.next_value()?,
            };
            object.insert(name, value);
        }
        Ok(object)
    }
}

struct Targets(Object);

impl<'de> DeserializeSeed<'de> for Targets {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Targets {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of targets")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut targets = Vec::new();
        while let Some(target) = elements.next_element_seed(self.0)? {
            targets.push(Value::Object(target));
        }
        Ok(Value::Array(targets))
    }
}

/// The first elements of a list.
struct First(usize);

impl<'de> DeserializeSeed<'de> for First {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for First {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut first = Vec::new();
        while first.len() < self.0 {
            let Some(element) = elements.next_element()? else { return Ok(Value::Array(first)) };
            first.push(element);
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Array(first))
    }
}

/// The first element of a list, for reports that need no more.
pub fn first_only<'de, D: Deserializer<'de>, T: Deserialize<'de>>(source: D) -> Result<Option<T>, D::Error> {
    struct Only<T>(std::marker::PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Only<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Option<T>, A::Error> {
            let first = elements.next_element()?;
            while elements.next_element::<IgnoredAny>()?.is_some() {}
            Ok(first)
        }
    }
    source.deserialize_seq(Only(std::marker::PhantomData))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn problems_are_capped_and_counts_are_whole() {
        let problems = vec![r#"{"code":"a.b.c"}"#; 500].join(",");
        let text = format!(
            r#"{{"verdict":"damaged","problems":[{problems}],"counts":{{"a.b.c":500}},"z":[1,2,3]}}"#
        );
        let document = read(text.as_bytes(), 2).unwrap();
        assert_eq!(document["problems"].as_array().unwrap().len(), 2);
        assert_eq!((&document["counts"]["a.b.c"], document["z"].as_array().unwrap().len()), (&500.into(), 3));
        let members: Vec<&String> = document.keys().collect();
        assert_eq!(members, ["verdict", "problems", "counts", "z"]);
    }

    #[test]
    fn the_worst_partition_gives_the_verdict() {
        let text = r#"{"targets":[{"verdict":"sound","problems":[1,2]},{"verdict":"damaged"},{"verdict":"refused"}]}"#;
        let document = read(text.as_bytes(), 1).unwrap();
        assert_eq!(verdict(&document), Some("damaged"));
        assert_eq!(document["targets"][0]["problems"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn half_a_document_is_none() {
        for text in ["", "{", r#"{"verdict":"sound""#, r#"{"verdict":"sound"} x"#, "[]"] {
            assert!(read(text.as_bytes(), 1).is_err(), "{text}");
        }
        let deep = format!("{}1{}", r#"{"repair":"#.repeat(100), "}".repeat(100));
        assert!(read(deep.as_bytes(), 1).is_err());
    }
}
