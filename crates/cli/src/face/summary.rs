//! The lines with which a run ends.

use fsmend_engine::report::Summary;

/// The one line about a file system that was not checked because it is clean.
pub fn clean_line(
    name: &str,
    (files, files_total): (u64, u64),
    (blocks, blocks_total): (u64, u64),
    suffix: &str,
) -> String {
    format!("{name}: clean, {files}/{files_total} files, {blocks}/{blocks_total} blocks{suffix}\n")
}

/// The last line of a whole check.
pub fn closing_line(name: &str, summary: &Summary) -> String {
    let Summary { files_used, files_total, blocks_used, blocks_total, non_contiguous, .. } = summary;
    let percent = tenths_of_percent(*non_contiguous, *files_used);
    format!(
        "{name}: {files_used}/{files_total} files ({}.{}% non-contiguous), {blocks_used}/{blocks_total} blocks\n",
        percent / 10,
        percent % 10
    )
}

/// `part` of `whole`, rounded.
fn tenths_of_percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(10_000).checked_div(whole).map_or(0, |share| (share + 5) / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_scripts_read_them() {
        assert_eq!(
            clean_line("x", (11, 4096), (2325, 16384), ""),
            "x: clean, 11/4096 files, 2325/16384 blocks\n"
        );
        let summary = Summary {
            files_used: 11,
            files_total: 4096,
            blocks_used: 2325,
            blocks_total: 16384,
            non_contiguous: 1,
            ..Summary::default()
        };
        assert_eq!(
            closing_line("x", &summary),
            "x: 11/4096 files (9.1% non-contiguous), 2325/16384 blocks\n"
        );
    }

    #[test]
    fn shares_are_rounded() {
        assert_eq!(tenths_of_percent(0, 0), 0);
        assert_eq!(tenths_of_percent(3, 3), 1000);
        assert_eq!(tenths_of_percent(1, 3), 333);
        assert_eq!(tenths_of_percent(2, 3), 667);
    }
}
