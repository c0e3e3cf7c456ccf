// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines with which a run ends.

use fsmend_engine::report::Summary;
use fsmend_ext_check::file_types::FileTypeCounts;

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

/// `-v`: the counts, one in a line, numbers first.
pub fn file_type_lines(summary: &Summary, file_types: &FileTypeCounts) -> String {
    let share = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let Summary { files_used, files_total, blocks_used, blocks_total, non_contiguous, .. } = *summary;
    let (files, blocks) = (share(files_used, files_total), share(blocks_used, blocks_total));
    let scattered = tenths_of_percent(non_contiguous, files_used);
    let mut text = format!("\n{files_used:12} inodes used ({files:.2}%, out of {files_total})\n");
    let scattered = format!("({}.{}%)", scattered / 10, scattered % 10);
    text.push_str(&format!("{} {scattered}\n", line(non_contiguous, "non-contiguous file").trim_end()));
    let [single, double, triple] = file_types.indirect;
    text.push_str(&format!("{:12} # of inodes with ind/dind/tind blocks: {single}/{double}/{triple}\n", ""));
    if !file_types.extent_depths.is_empty() {
        let depths: Vec<String> = file_types.extent_depths.iter().map(u64::to_string).collect();
        text.push_str(&format!("{:12} Extent depth histogram: {}\n", "", depths.join("/")));
    }
    text.push_str(&format!("{blocks_used:12} blocks used ({blocks:.2}%, out of {blocks_total})\n"));
    text.push_str(&line(file_types.bad_blocks, "bad block"));
    text.push_str(&line(file_types.large, "large file"));
    text.push('\n');
    text.push_str(&line(file_types.regular, "regular file"));
    let directories = if file_types.directories == 1 { "directory" } else { "directories" };
    text.push_str(&format!("{:12} {directories}\n", file_types.directories));
    text.push_str(&line(file_types.char_devices, "character device file"));
    text.push_str(&line(file_types.block_devices, "block device file"));
    text.push_str(&line(file_types.fifos, "fifo"));
    text.push_str(&line(file_types.links, "link"));
    let (symlinks, fast) =
        (line(file_types.symlinks, "symbolic link"), line(file_types.fast_symlinks, "fast symbolic link"));
    text.push_str(&format!("{} ({})\n", symlinks.trim_end(), fast.trim()));
    text.push_str(&line(file_types.sockets, "socket"));
    text.push_str("------------\n");
    text.push_str(&line(file_types.names(), "file"));
    text
}

fn line(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count:12} {what}{plural}\n")
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
    fn counts_stand_before_their_names() {
        let file_types = FileTypeCounts {
            regular: 3,
            fifos: 1,
            symlinks: 2,
            fast_symlinks: 1,
            ..FileTypeCounts::default()
        };
        let text = file_type_lines(
            &Summary { files_used: 11, files_total: 4096, ..Summary::default() },
            &file_types,
        );
        for expected in [
            "          11 inodes used (0.27%, out of 4096)\n",
            "           3 regular files\n",
            "           1 fifo\n",
            "           2 symbolic links (1 fast symbolic link)\n",
            "           6 files\n",
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn shares_are_rounded() {
        assert_eq!(tenths_of_percent(0, 0), 0);
        assert_eq!(tenths_of_percent(3, 3), 1000);
        assert_eq!(tenths_of_percent(1, 3), 333);
        assert_eq!(tenths_of_percent(2, 3), 667);
    }
}
