//! From what the user named to file systems that can be checked.

use std::path::Path;
use std::sync::Arc;

use fsmend_device::Device;
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
    arguments.targets.iter().flat_map(|path| volumes_of(path, arguments)).collect()
}

fn volumes_of(path: &Path, _arguments: &CheckArgs) -> Vec<Volume> {
    let device = open_plain(path);
    vec![Volume { target: path.display().to_string(), partition: None, warnings: Vec::new(), device }]
}

/// Opens a device that is not looked into (an external journal).
pub fn open_plain(path: &Path) -> Result<Arc<dyn Device>, Refusal> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Arc::new(fsmend_device::MemoryDevice::new(path.display().to_string(), bytes))),
        Err(error) => Err(Refusal {
            code: "cannot-open",
            message: format!("it cannot be opened: {error}"),
            way_out: "Check the name and the permissions".to_owned(),
        }),
    }
}
