// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the machine runs on battery.

use std::fs;
use std::path::Path;

/// Whether there are mains and none of them is connected.
pub fn on_battery() -> bool {
    battery_only(Path::new("/sys/class/power_supply"))
}

fn battery_only(folder: &Path) -> bool {
    let Ok(supplies) = fs::read_dir(folder) else { return false };
    let mut mains =
        supplies.flatten().map(|supply| supply.path()).filter(|path| word(path, "type") == "Mains");
    let Some(first) = mains.next() else { return false };
    std::iter::once(first).chain(mains).all(|path| word(&path, "online") == "0")
}

fn word(supply: &Path, file: &str) -> String {
    fs::read_to_string(supply.join(file)).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_unplugged_mains_mean_battery() {
        let folder = std::env::temp_dir().join(format!("fsmend-power-{}", std::process::id()));
        assert!(!battery_only(&folder), "a machine that says nothing is plugged in");
        for (name, kind, online) in [("AC", "Mains\n", "0\n"), ("BAT0", "Battery\n", "1\n")] {
            fs::create_dir_all(folder.join(name)).unwrap();
            fs::write(folder.join(name).join("type"), kind).unwrap();
            fs::write(folder.join(name).join("online"), online).unwrap();
        }
        assert!(battery_only(&folder));
        fs::write(folder.join("AC/online"), "1\n").unwrap();
        assert!(!battery_only(&folder));
        fs::remove_dir_all(&folder).unwrap();
    }
}
