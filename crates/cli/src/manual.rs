// SPDX-License-Identifier: MIT OR Apache-2.0
//! The man pages: names, options and headings come from the definitions that read the command line. Exit status, examples, files and
//! variables of the environment have sections of their own here.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, italic, roman};

/// The section of commands for administrators.
const SECTION: &str = "8";

/// Where the exit status begins in the text behind the options.
const EXIT_STATUS: &str = "Exit status";

/// A page.
pub struct Page {
    /// The name of its file: `fsmend-check.8`.
    pub file: String,
    /// The page in the language of man(7).
    pub text: Vec<u8>,
}

/// The page of `root`, and one for each command below it that is not hidden.
pub fn pages(root: &Command) -> Vec<Page> {
    let mut root = root.clone().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add(&root, "fsmend", &mut pages);
    pages
}

/// Adds the page of a command that is called `name`, and those of its commands.
fn add(command: &Command, name: &str, pages: &mut Vec<Page>) {
    let mut text = Vec::new();
    write(command, name, &mut text).expect("memory takes what is written to it");
    pages.push(Page { file: format!("{}.{SECTION}", dashed(name)), text });
    for shown in shown_below(command) {
        add(shown, &format!("{name} {}", shown.get_name()), pages);
    }
}

fn dashed(name: &str) -> String {
    name.replace(' ', "-")
}

fn shown_below(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

fn write(command: &Command, name: &str, out: &mut Vec<u8>) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let mut named = command.clone().display_name(dashed(name)).bin_name(name.to_owned());
    let usage = named.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim().to_owned();
    let named = named.override_usage(usage).disable_help_subcommand(true).version(version);
    let man =
        Man::new(named).section(SECTION).source(format!("fsmend {version}")).manual("System Administration");
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    let behind = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (notes, status) = behind.split_at(behind.find(EXIT_STATUS).unwrap_or(behind.len()));
    // How one begins stands under the examples.
    let notes = if command.get_name() == "fsmend" { "" } else { notes.trim() };
    if !notes.is_empty() {
        let mut roff = Roff::new();
        roff.control("PP", []).text([roman(notes)]);
        roff.to_writer(out)?;
    }
    man.render_options_section(out)?;
    if shown_below(command).next().is_some() {
        man.render_subcommands_section(out)?;
    }
    let mut roff = Roff::new();
    exit_status(status, &mut roff);
    example_section(examples(name), &mut roff);
    table("FILES", files(name), &mut roff);
    table("ENVIRONMENT", environment(name), &mut roff);
    see_also(command, name, &mut roff);
    roff.to_writer(out)?;
    out.flush()
}

/// `Exit status (of what): 0 clean, 4 problems found.` as a list.
fn exit_status(text: &str, roff: &mut Roff) {
    let Some((head, list)) = text.split_once(": ") else { return };
    roff.control("SH", ["EXIT STATUS"]);
    if let Some(remark) = head.strip_prefix(EXIT_STATUS).map(str::trim).filter(|remark| !remark.is_empty()) {
        let remark = remark.trim_start_matches('(').trim_end_matches(')');
        let mut letters = remark.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        roff.text([roman(format!("{}{}.", first.into_iter().collect::<String>(), letters.as_str()))]);
    }
    for (status, meaning) in statuses(list) {
        roff.control("TP", []).text([bold(status)]).text([roman(meaning)]);
    }
}

/// The numbers of such a list and what they mean: a number begins an entry where it stands at the beginning or behind a comma.
fn statuses(list: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for part in list.trim().trim_end_matches('.').split(", ") {
        let number = part.split(' ').next().unwrap_or_default();
        match found.last_mut() {
            Some((_, meaning)) if number.parse::<u8>().is_err() => {
                meaning.push_str(", ");
                meaning.push_str(part);
            }
            _ => found.push((number.to_owned(), part[number.len()..].trim().to_owned())),
        }
    }
    found
}

fn example_section(examples: &[(&str, &str)], roff: &mut Roff) {
    if examples.is_empty() {
        return;
    }
    roff.control("SH", ["EXAMPLES"]);
    for (command, what) in examples {
        roff.control("TP", []).text([bold(*command)]).text([roman(*what)]);
    }
}

/// A section of names and what they are.
fn table(title: &str, rows: &[(&str, &str)], roff: &mut Roff) {
    if rows.is_empty() {
        return;
    }
    roff.control("SH", [title]);
    for (name, what) in rows {
        roff.control("TP", []).text([italic(*name)]).text([roman(*what)]);
    }
}

fn see_also(command: &Command, name: &str, roff: &mut Roff) {
    let above = name.rsplit_once(' ').map(|(above, _)| dashed(above));
    let below = shown_below(command).map(|below| format!("{}-{}", dashed(name), below.get_name()));
    let others = related(name).iter().map(|&other| other.to_owned());
    let pages: Vec<String> = above.into_iter().chain(others).chain(below).collect();
    let last = pages.len().saturating_sub(1);
    roff.control("SH", ["SEE ALSO"]);
    for (at, page) in pages.iter().enumerate() {
        // Pages of other packages bring their section along.
        let (page, section) = page.split_once('(').unwrap_or((page, "8)"));
        roff.text([bold(page), roman(format!("({section}{}", if at < last { "," } else { "" }))]);
    }
}

fn related(name: &str) -> &'static [&'static str] {
    match name {
        "fsmend" => &["fsck.rext3", "mount.fuse.fsmend", "e2fsck", "fsck"],
        "fsmend check" => &["fsmend-repair", "fsmend-explain", "fsmend-fleet"],
        "fsmend repair" => &["fsmend-check", "fsmend-plan", "fsmend-apply", "fsmend-undo"],
        "fsmend apply" | "fsmend plan" => &["fsmend-repair", "fsmend-undo"],
        "fsmend undo" => &["fsmend-repair"],
        "fsmend mount" => &["mount.fuse.fsmend", "umount"],
        "fsmend mkfs" => &["fsmend-mount", "mkfs"],
        _ => &[],
    }
}

fn files(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "fsmend repair" | "fsmend undo" => &[
            ("IMAGE.fsmend-undo", "what takes the repair of an image back"),
            ("IMAGE.fsmend-names.txt", "former names of what a repair put into lost+found"),
            ("/var/lib/fsmend", "the same of block devices"),
        ],
        "fsmend" => &[("/usr/share/doc/fsmend/docs", "guides, and the description of the JSON document")],
        _ => &[],
    }
}

fn environment(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "fsmend" | "fsmend repair" | "fsmend undo" => {
            &[("FSMEND_STATE_DIR", "where undo files of block devices are kept, in place of /var/lib/fsmend")]
        }
        _ => &[],
    }
}

/// Commands with what they do, the usual ones first.
fn examples(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "fsmend" => &[
            (
                "fsmend check /dev/sdb1",
                "What is wrong, with which file, and what a repair would do. Never writes.",
            ),
            ("fsmend repair /dev/sdb1", "Shows the repair and what may be lost, then asks once."),
            ("fsmend explain ext.inode.links-mismatch", "What a problem means."),
        ],
        "fsmend check" => &[
            ("fsmend check /dev/sdb1", "Checks a device that is not mounted."),
            ("fsmend check --online /srv", "Checks a mounted file system."),
            (
                "fsmend check disk.qcow2 --partition 2",
                "Checks a partition in an image. Without the option, all of a known type.",
            ),
            (
                "fsmend check -b 32768 disk.img",
                "Starts from a backup superblock. Usually one is found without this.",
            ),
            ("fsmend check --format html disk.img > disk.html", "Writes a page for a browser."),
            ("fsmend check --estimate /dev/sdb1", "Estimates how long a check would take."),
        ],
        "fsmend repair" => &[
            ("fsmend repair /dev/sdb1", "Shows the repair and what may be lost, then asks once."),
            ("fsmend repair -n disk.img", "Shows the repair and writes nothing."),
            ("fsmend repair -p /dev/sdb1", "Repairs if everything is safe to repair, without asking."),
            (
                "fsmend repair --plan p.fsmend disk.img",
                "Saves the repair, for fsmend plan show and fsmend apply.",
            ),
            (
                "fsmend repair --step disk.img",
                "Asks about every problem: y, n, a for all, q to quit with nothing written, ? for an explanation.",
            ),
        ],
        "fsmend apply" => &[
            ("fsmend apply -n p.fsmend", "Compares the target with the plan."),
            ("fsmend apply p.fsmend", "Writes the plan."),
        ],
        "fsmend plan" | "fsmend plan show" => &[
            (
                "fsmend plan show p.fsmend",
                "What the plan does to which file, to the tree and to which structures.",
            ),
            ("fsmend plan show --format html p.fsmend > p.html", "The same as a page for a browser."),
        ],
        "fsmend plan verify" => &[(
            "fsmend plan verify p.fsmend",
            "Shows whether the target has changed since the plan was made.",
        )],
        "fsmend undo" => &[("fsmend undo disk.img.fsmend-undo", "Takes the repair of disk.img back.")],
        "fsmend mount" => &[
            ("fsmend mount disk.img /mnt", "Serves the file system until it is unmounted."),
            ("fsmend mount -o ro --background disk.img /mnt", "Read-only, and returns when it is mounted."),
        ],
        "fsmend mkfs" => &[
            ("fsmend mkfs disk.img 2G", "Creates an image with ext4."),
            ("fsmend mkfs --type ufs2 disk.img 2G", "Creates an image with UFS2."),
        ],
        "fsmend inspect" => &[("fsmend inspect disk.img", "Type, size and usage.")],
        "fsmend explain" => &[
            ("fsmend explain ext.inode.links-mismatch", "One problem."),
            ("fsmend explain ext.inode", "All problems of inodes."),
            ("fsmend explain 0x010007", "What fsmend reports where e2fsck has this code."),
        ],
        "fsmend fleet" | "fsmend fleet plan" => &[
            ("fsmend fleet plan volumes.jsonl --run /shared/run-47 --shards 50", "Divides the list."),
            ("fsmend fleet submit --run /shared/run-47 --engine slurm", "Submits what has no record yet."),
            ("fsmend fleet status --run /shared/run-47", "How far it is."),
            ("fsmend fleet merge --run /shared/run-47", "One report over all volumes."),
        ],
        "fsmend fleet work" => {
            &[("fsmend fleet work --run /shared/run-47", "Works on any shards, beside other workers.")]
        }
        "fsmend generate man" => &[("fsmend generate man /usr/local/share/man/man8", "Installs the pages.")],
        "fsmend generate completions" => &[("fsmend generate completions bash > fsmend.bash", "For bash.")],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Cli;

    fn text(file: &str) -> String {
        let pages = pages(&Cli::command());
        let page = pages.iter().find(|page| page.file == file).map(|page| page.text.clone());
        String::from_utf8_lossy(&page.unwrap_or_default()).into_owned()
    }

    #[test]
    fn every_example_is_understood() {
        let mut names = vec!["fsmend".to_owned()];
        names.extend(
            pages(&Cli::command()).iter().map(|page| page.file.trim_end_matches(".8").replace('-', " ")),
        );
        let lines: Vec<&str> = names.iter().flat_map(|name| examples(name)).map(|(line, _)| *line).collect();
        assert!(lines.len() > 30, "{lines:?}");
        for line in lines {
            let words = line.split(" > ").next().unwrap_or_default().split(' ');
            let understood = Cli::try_parse_from(words);
            assert!(
                understood.is_ok(),
                "{line}: {}",
                understood.err().map(|error| error.to_string()).unwrap_or_default()
            );
        }
    }

    #[test]
    fn the_exit_status_is_a_list() {
        let told = statuses("0 clean (or saved), 4 problems found, or left, 8 operational error.");
        let told: Vec<(&str, &str)> = told.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(
            told,
            [("0", "clean (or saved)"), ("4", "problems found, or left"), ("8", "operational error")]
        );
        let page = text("fsmend-check.8");
        assert!(
            page.contains(".SH \"EXIT STATUS\"\nBits, combined over all targets.\n.TP\n\\fB0\\fR\nclean\n"),
            "{page}"
        );
        assert!(!page.contains("EXTRA"), "{page}");
    }

    #[test]
    fn every_page_says_where_it_belongs() {
        for page in pages(&Cli::command()) {
            let text = String::from_utf8_lossy(&page.text).into_owned();
            let name = page.file.trim_end_matches(".8").replace('-', " ");
            let synopsis = text.split("SH SYNOPSIS\n").nth(1).unwrap_or_default();
            let synopsis = synopsis.split(".SH").next().unwrap_or_default();
            let plain = synopsis.replace("\\fB", "").replace("\\fR", "");
            assert!(plain.starts_with(&name), "{}: {synopsis}", page.file);
            for section in ["SH NAME", "SH SYNOPSIS", "SH DESCRIPTION", "SH \"SEE ALSO\""] {
                assert!(text.contains(section), "{}: {section}: {text}", page.file);
            }
        }
        assert!(
            text("fsmend-fleet-plan.8").contains("\\fBfsmend\\-fleet\\fR(8)"),
            "{}",
            text("fsmend-fleet-plan.8")
        );
    }
}
