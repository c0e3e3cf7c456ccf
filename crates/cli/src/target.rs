//! From what the user named to file systems that can be checked.

use std::path::Path;
use std::sync::Arc;

use fsmend_device::{Device, OpenError, OpenOptions, Opened, Usage};
use fsmend_ext_check::Refusal;

use crate::args::CheckArgs;

/// One file system to check.
pub struct Volume {
    /// The target as the user named it.
    pub target: String,
    /// The partition of the target, when it is one.
    pub partition: Option<u32>,
    /// Things the user should know, in sentences.
    pub warnings: Vec<String>,
    /// The device, or why there is none.
    pub device: Result<Arc<dyn Device>, Refusal>,
}

/// Opens everything that `arguments` name. Every target gives at least one volume, if only to say why it cannot be
/// opened.
pub fn volumes(arguments: &CheckArgs) -> Vec<Volume> {
    let options = OpenOptions { offset: arguments.offset, partition: arguments.partition };
    arguments.targets.iter().flat_map(|path| volumes_of(path, &options)).collect()
}

fn volumes_of(path: &Path, options: &OpenOptions) -> Vec<Volume> {
    let target = path.display().to_string();
    let opened = match fsmend_device::open(path, options) {
        Ok(opened) => opened,
        Err(error) => {
            let device = Err(refusal(&target, &error));
            return vec![Volume { target, partition: options.partition, warnings: Vec::new(), device }];
        }
    };
    let mut warnings = warnings(&opened);
    let volume = |found: fsmend_device::Target| Volume {
        partition: partition_of(&found.label, &target).or(options.partition),
        target: target.clone(),
        // What concerns the whole disk is said once.
        warnings: std::mem::take(&mut warnings),
        device: Ok(found.device),
    };
    opened.targets.into_iter().map(volume).collect()
}

/// The number in a label like `disk.img partition 3`.
fn partition_of(label: &str, target: &str) -> Option<u32> {
    label.strip_prefix(target)?.strip_prefix(" partition ")?.split(' ').next()?.parse().ok()
}

fn warnings(opened: &Opened) -> Vec<String> {
    let in_use =
        opened.usage.iter().filter(|usage| matters(usage)).map(|usage| {
            format!("{usage}: what changes while it is read may show as problems that are none.")
        });
    let skipped = opened
        .skipped
        .iter()
        .map(|skipped| format!("partition {} is not checked: {}.", skipped.partition.number, skipped.why));
    in_use.chain(skipped).collect()
}

/// A loop device that shows an image changes nothing by itself; a mount that may write does.
fn matters(usage: &Usage) -> bool {
    usage.may_write() && matches!(usage, Usage::Mounted { .. })
}

/// Opens a device that holds no file system to look for (an external journal).
pub fn open_plain(path: &Path) -> Result<Arc<dyn Device>, Refusal> {
    let whole = OpenOptions { offset: Some(0), partition: None };
    let target = path.display().to_string();
    let refused = |error: OpenError| refusal(&target, &error);
    let opened = fsmend_device::open(path, &whole).map_err(refused)?;
    opened.targets.into_iter().next().map(|found| found.device).ok_or_else(|| Refusal {
        code: "cannot-open",
        message: "nothing was found in it".to_owned(),
        way_out: "Check the name".to_owned(),
    })
}

/// The error's own text names the path, what was expected and the way out; the path is said elsewhere.
fn refusal(target: &str, error: &OpenError) -> Refusal {
    let text = error.to_string();
    let text = text.strip_prefix(&format!("{target}: ")).unwrap_or(&text);
    let (message, way_out) = text.split_once("; ").unwrap_or((text, "Check the name and what it leads to"));
    Refusal { code: "cannot-open", message: message.to_owned(), way_out: sentence(way_out) }
}

/// `text` with a capital at its beginning.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_told_from_labels() {
        assert_eq!(partition_of("a disk partition 3", "a disk"), Some(3));
        assert_eq!(partition_of("a disk partition 3 at byte 4096", "a disk"), Some(3));
        assert_eq!(partition_of("a disk", "a disk"), None);
    }

    #[test]
    fn what_cannot_be_opened_says_why_and_what_to_do() {
        let error = open_plain(Path::new("/no/such/file")).err().map(|refusal| refusal.to_string());
        let error = error.unwrap_or_default();
        assert!(error.starts_with("there is no such file. Expected"), "{error}");
    }
}
