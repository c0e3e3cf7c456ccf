//! Crates that serve all families of file systems name none.

use super::{Remarks, Source};

/// Crates whose sources name no family.
const NEUTRAL: &[&str] = &["blockcache", "session"];
/// Words that name one, as parts of identifiers or of sentences.
const FAMILIES: &[&str] = &["ext2", "ext3", "ext4", "rext3", "ufs", "ffs", "hybridfs"];

/// Checks every source of those crates, tests and comments included.
pub fn check(sources: &[Source], remarks: &mut Remarks) {
    for source in sources.iter().filter(|source| is_neutral(&source.path)) {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(family) = family_in(line) {
                remarks.error(
                    &format!("{}:{}", source.path, number + 1),
                    format!("names {family}; this crate serves all families"),
                );
            }
        }
    }
}

fn is_neutral(path: &str) -> bool {
    NEUTRAL.iter().any(|name| path.starts_with(&format!("crates/{name}/")))
}

/// A family that the line names as a word, or as a word of an identifier.
fn family_in(line: &str) -> Option<String> {
    let words = line.split(|character: char| !character.is_ascii_alphanumeric());
    words.flat_map(humps).find(|word| FAMILIES.contains(&word.as_str()))
}

/// The words of `Ext3Policy`, in small letters.
fn humps(word: &str) -> Vec<String> {
    let mut humps: Vec<String> = Vec::new();
    let mut was_small = false;
    for character in word.chars() {
        match humps.last_mut() {
            Some(hump) if !(was_small && character.is_uppercase()) => {
                hump.push(character.to_ascii_lowercase())
            }
            _ => humps.push(character.to_ascii_lowercase().to_string()),
        }
        was_small = !character.is_uppercase();
    }
    humps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_found_in_words_and_identifiers() {
        assert_eq!(family_in("/// The way of ext3:").as_deref(), Some("ext3"));
        assert_eq!(family_in("pub struct Ext3Policy;").as_deref(), Some("ext3"));
        assert_eq!(family_in("fn mount_ufs()").as_deref(), Some("ufs"));
        assert_eq!(family_in("let next = buffer.extend(extent);"), None);
    }
}
