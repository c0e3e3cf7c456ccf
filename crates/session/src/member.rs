// SPDX-License-Identifier: MIT OR Apache-2.0
//! One member of a JSON object, without the rest of it in memory: the text of a plan tells of thousands of files, and who carries the
//! plan out wants to know of the journal alone.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value as Json;

/// The member `name` of the object that `text` is; null if it has none, or is no object. Of several, the last. An error if `text` is not
/// JSON from its beginning to its end.
pub fn member(text: &str, name: &str) -> serde_json::Result<Json> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = if text.trim_start().starts_with('{') {
        reader.deserialize_map(Member(name))?
    } else {
        serde::de::Deserialize::deserialize(&mut reader).map(|_: IgnoredAny| Json::Null)?
    };
    reader.end()?;
    Ok(found)
}

struct Member<'n>(&'n str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut found = Json::Null;
        while let Some(key) = map.next_key::<String>()? {
            if key == self.0 {
                found = map.next_value()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_is_what_the_whole_document_has() {
        let text = r#" {"a": {"b": [1, {"b": 2}]}, "b": [true, null], "c": "x\"}", "d": 1, "d": 2}"#;
        let whole: Json = serde_json::from_str(text).unwrap();
        for name in ["a", "b", "c", "d"] {
            assert_eq!(member(text, name).unwrap(), whole[name]);
        }
        assert_eq!(member(text, "d").unwrap(), json!(2));
        for (text, name) in [(text, "e"), ("{}", "a"), ("[{\"a\": 1}]", "a"), ("null", "a"), ("\"a\"", "a")] {
            assert_eq!(member(text, name).unwrap(), Json::Null, "{text}");
        }
    }

    #[test]
    fn what_is_not_json_to_its_end_is_refused() {
        for text in
            ["", "{", "{\"a\": 1", "{\"a\": 1} x", "{\"a\": 1, \"b\": }", "[1", "{\"a\": 1, \"b\": \"\\q\"}"]
        {
            assert!(member(text, "a").is_err(), "{text}");
        }
    }
}
