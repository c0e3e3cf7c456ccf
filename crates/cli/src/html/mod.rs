// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as one page for a browser: template, style and script stand in this folder, the data is the JSON document, embedded once. The page loads
//! nothing and asks no network. Names in it are hostile: the template escapes what it prints, the script puts text only where it cannot become markup,
//! and the data holds no `<` at all.

use fsmend_engine::layout::Layout;
use fsmend_engine::shapes::FileShapes;
use minijinja::{Environment, context};
use serde_json::{Value as Json, json};

use crate::numbers::{bytes, thousands};
use crate::outcome::{Answer, Outcome};
use crate::target;

/// The name ends as it must for the template engine to escape what it prints.
const TEMPLATE: (&str, &str) = ("page.html", include_str!("page.html"));
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page on `document`: a report, or a plan.
pub fn page(title: &str, document: &Json) -> String {
    let mut environment = Environment::new();
    let (name, source) = TEMPLATE;
    environment.add_template(name, source).expect("the template is a constant, and tests render it");
    let template = environment.get_template(name).expect("it was added just now");
    let data = embedded(document);
    let told = context! { title => title, style => STYLE, script => SCRIPT, data => data };
    template.render(told).expect("all that the template names is given")
}

/// JSON that can stand inside of a `script` element: nothing in it ends the element or begins another one.
fn embedded(document: &Json) -> String {
    let text = document.to_string();
    let mut safe = String::with_capacity(text.len() + text.len() / 16);
    for character in text.chars() {
        match character {
            // All of these stand within strings only.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                safe.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => safe.push(other),
        }
    }
    safe
}

/// Adds what a page shows beyond the report of `outcomes`: explanations of the codes, and maps.
pub fn describe(document: &mut Json, outcomes: &[Outcome]) {
    let mut codes: Vec<&str> = Vec::new();
    for outcome in outcomes {
        let Ok(Answer::Checked(checked)) = &outcome.result else { continue };
        codes.extend(checked.report.groups.iter().map(|group| group.row.code));
    }
    for (at, outcome) in outcomes.iter().enumerate() {
        let Ok(Answer::Checked(checked)) = &outcome.result else { continue };
        let target = match document.get_mut("targets") {
            Some(targets) => &mut targets[at],
            None => &mut *document,
        };
        if let Some(layout) = &checked.layout {
            target["map"] = map(layout);
        }
        if let Some(shapes) = &checked.shapes {
            target["histograms"] = histograms(shapes);
        }
    }
    explain(document, &codes);
}

/// Adds what the catalogue says of `codes`.
pub fn explain(document: &mut Json, codes: &[&str]) {
    let mut told = serde_json::Map::new();
    for row in target::FAMILIES.catalogue().iter().filter(|row| codes.contains(&row.code)) {
        let text = json!({
            "meaning": row.meaning, "repair": row.repair, "loss": row.loss, "severity": row.severity.word(), "preen": row.preen,
        });
        told.insert(row.code.to_owned(), text);
    }
    document["explanations"] = Json::Object(told);
}

/// A layout in few bytes: structures and free space as lists of numbers.
fn map(layout: &Layout) -> Json {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    let mut stretches: Vec<[u64; 3]> = Vec::new();
    for stretch in layout.stretches() {
        let kind = (stretch.what, stretch.class.word());
        let at = kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
            kinds.push(kind);
            kinds.len() - 1
        });
        stretches.push([stretch.offset, stretch.len, at as u64]);
    }
    json!({
        "area": layout.area_word,
        "block_size": layout.block_size,
        "areas": layout.areas.iter().map(|area| [area.offset, area.len, area.free]).collect::<Vec<_>>(),
        "kinds": kinds,
        "stretches": stretches,
        "free": layout.free,
        "free_is_cut": layout.free_is_cut,
    })
}

/// Histograms of files, their buckets named.
fn histograms(shapes: &FileShapes) -> Json {
    let named = |buckets: Vec<(u64, u64)>, name: fn(u64) -> String| -> Vec<(String, u64)> {
        buckets.into_iter().map(|(least, count)| (format!("from {}", name(least)), count)).collect()
    };
    let mut told = Vec::new();
    for (title, buckets) in [
        ("Files by size", named(shapes.sizes(), bytes)),
        ("Files by number of pieces", named(shapes.pieces(), thousands)),
        ("Files by average length of a piece", named(shapes.piece_bytes(), bytes)),
    ] {
        if !buckets.is_empty() {
            told.push(json!({"title": title, "buckets": buckets}));
        }
    }
    Json::Array(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_stays_text() {
        let name = "</script><img src=x onerror=alert(1)>\u{2028}&\"'";
        let page = page(name, &json!({"target": name}));
        assert!(!page.contains("<img"), "{page}");
        let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next());
        let read: Json = serde_json::from_str(data.unwrap_or_default()).unwrap_or_default();
        assert_eq!(read["target"], name);
    }

    #[test]
    fn the_page_asks_no_network() {
        let page = page("x", &json!({}));
        for word in ["http:", "https:", "//cdn", "src=", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
