// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built binary, as a user meets it: exit codes, streams, documents.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;
#[path = "support/schema.rs"]
mod schema;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

use fsmend_testkit::host::{self, skip};
use fsmend_testkit::process::{Ended, Limits, run_limited};
use images::Folder;
use schema::valid_report;
use serde_json::Value;

fn fsmend(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fsmend")).args(arguments).env_remove("NO_COLOR").output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A file of the test's own that goes away with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("fsmend-cli-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Scratch(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn usage_errors_exit_16() {
    let wrong: [&[&str]; 17] = [
        &[],
        &["frobnicate"],
        &["check"],
        &["check", "--threads", "0", "x"],
        &["check", "--threads", "many", "x"],
        &["check", "--schedule", "pipeline", "x"],
        &["check", "--memory", "lots", "x"],
        &["check", "--read-limit", "0", "x"],
        &["repair", "--read-limit", "fast", "x"],
        &["check", "--format", "xml", "x"],
        &["check", "--no-such-option", "x"],
        &["check", "--block-size", "4096", "x"],
        &["check", "-b", "32768", "-B", "3000", "x"],
        &["check", "--partition", "1", "--offset", "1M", "x"],
        &["check", "--online", "--trace", "t.json", "/"],
        &["check", "--online", "--background", "/"],
        &["explain"],
    ];
    for arguments in wrong {
        let output = fsmend(arguments);
        assert_eq!(code(&output), 16, "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty() && !stderr(&output).is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_and_version_exit_0() {
    for arguments in
        [&["--help"] as &[&str], &["help"], &["help", "check"], &["check", "--help"], &["--version"]]
    {
        let output = fsmend(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}");
        assert!(!stdout(&output).is_empty() && stderr(&output).is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_missing_target_exits_8_and_says_so() {
    let output = fsmend(&["check", "/no/such/image"]);
    assert_eq!(code(&output), 8);
    assert!(stdout(&output).is_empty());
    assert!(stderr(&output).contains("/no/such/image"), "{}", stderr(&output));
}

#[test]
fn a_refusal_is_a_valid_document() {
    let output = fsmend(&["check", "--format", "json", "/no/such/image"]);
    assert_eq!(code(&output), 8);
    let document = valid_report(stdout(&output));
    assert_eq!(document["verdict"], "refused");
    assert_eq!(document["target"], "/no/such/image");
    assert!(document["problems"].as_array().unwrap().is_empty());
    assert!(!document["error"]["message"].as_str().unwrap().is_empty());
}

#[test]
fn what_is_no_file_system_is_refused() {
    let noise: Vec<u8> = (0..200_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (name, bytes) in
        [("empty", &[] as &[u8]), ("short", &[1; 100]), ("zeroes", &[0; 100_000]), ("noise", &noise)]
    {
        let file = Scratch::new(name, bytes);
        let output = fsmend(&["check", "--format", "json", file.path()]);
        assert_eq!(code(&output), 8, "{name}");
        assert_eq!(valid_report(stdout(&output))["verdict"], "refused", "{name}");
    }
}

/// The bundled image, from the folder of this crate.
const EXAMPLE: &str = "../../examples/damaged.qcow2";

#[test]
fn the_example_is_damaged_in_a_dozen_ways() {
    let output = fsmend(&["check", EXAMPLE]);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let report = stdout(&output);
    assert!(report.starts_with("../../examples/damaged.qcow2: damaged. "), "{report}");
    assert!(report.contains("fsmend explain ext."), "{report}");
    let document = fsmend(&["check", "--format", "json", EXAMPLE]);
    assert_eq!(code(&document), 4);
    let document = valid_report(stdout(&document));
    assert_eq!(document["verdict"], "damaged");
    let counts = document["counts"].as_object().unwrap();
    assert!(counts.len() >= 12, "{counts:?}");
    for code in counts.keys() {
        assert!(report.contains(code.as_str()), "{code}");
        assert_eq!(fsmend(&["explain", code]).status.code(), Some(0), "{code}");
    }
    assert_eq!(document["summary"]["label"], "examples");
}

#[test]
fn the_document_is_the_same_at_any_number_of_threads() {
    // The same budget for all of them, large enough for many workers: what had to be made poorer is in the document.
    let options = ["check", "--format", "json", "--memory", "8G", "--threads"];
    let document = |threads| fsmend(&[&options[..], &[threads, EXAMPLE]].concat()).stdout;
    let one = document("1");
    for threads in ["2", "7", "64"] {
        assert_eq!(document(threads), one, "{threads} threads");
    }
}

#[test]
fn the_document_is_the_same_in_every_mode() {
    let options = ["check", "--format", "json", "--memory", "8G", "--threads", "3", "--schedule"];
    let document = |mode| fsmend(&[&options[..], &[mode, EXAMPLE]].concat()).stdout;
    let one = document("serial");
    valid_report(std::str::from_utf8(&one).unwrap());
    for mode in ["data", "pipeline-equal", "pipeline=1:2", "pipeline=2:1", "dynamic", "resource-aware"] {
        assert_eq!(document(mode), one, "{mode}");
    }
}

#[test]
fn a_trace_holds_every_batch_of_every_phase() {
    let trace = Scratch::new("trace.json", b"");
    let plain = fsmend(&["check", "--threads", "2", EXAMPLE]);
    let output = fsmend(&["check", "--threads", "2", "--trace", trace.path(), EXAMPLE]);
    assert_eq!((output.status, stderr(&output)), (plain.status, ""));
    let document: Value = serde_json::from_slice(&std::fs::read(trace.path()).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let of = |category: &str| events.iter().filter(|event| event["cat"] == category).collect::<Vec<_>>();
    for event in events {
        let is_complete = event["ts"].is_number() && event["dur"].is_number() && event["tid"].is_u64();
        let is_name = event["ph"] == "M" && event["args"]["name"].is_string();
        assert!(event["pid"].is_u64() && (is_name || event["ph"] == "X" && is_complete), "{event}");
    }
    let names = |events: &[&Value]| {
        events.iter().map(|event| event["name"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    for phase in ["opening", "scan", "suspects", "links", "bitmaps", "names"] {
        assert!(names(&of("phase")).contains(phase), "{phase}");
    }
    for stage in ["inode tables", "directories", "bitmaps"] {
        assert!(names(&of("batch")).contains(stage), "{stage}");
    }
    let read = |event: &&Value| event["args"]["bytes"].as_u64().unwrap();
    assert!(of("batch").iter().map(read).sum::<u64>() > 50_000, "inode tables and directories were read");
    assert!(of("batch").iter().all(|batch| inside_a_phase(batch, &of("phase"))));
    let fraction = document["otherData"]["targets"][0]["serial_fraction"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&fraction));
}

/// Whether an event lies within a phase, rounding aside.
fn inside_a_phase(event: &Value, phases: &[&Value]) -> bool {
    let span = |event: &Value| {
        let (start, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
        (start, start + length)
    };
    let (start, end) = span(event);
    phases.iter().map(|phase| span(phase)).any(|(from, to)| from <= start + 0.01 && end <= to + 0.01)
}

#[test]
fn a_trace_that_cannot_be_written_spoils_no_check() {
    let output = fsmend(&["check", "--trace", "/no/such/folder/trace.json", EXAMPLE]);
    assert_eq!(code(&output), 4);
    assert!(stderr(&output).contains("cannot write the trace /no/such/folder/trace.json"));
}

#[test]
fn every_way_of_asking_is_a_valid_document() {
    for option in
        ["--stats", "--all", "--estimate", "--no-replay", "--backend=pread", "--memory=64M", "--quiet"]
    {
        let output = fsmend(&["check", "--format", "json", option, EXAMPLE]);
        let verdict = valid_report(stdout(&output))["verdict"].clone();
        let (wanted, exit) = if option == "--estimate" { ("estimated", 0) } else { ("damaged", 4) };
        assert_eq!((verdict.as_str(), code(&output)), (Some(wanted), exit), "{option}");
    }
}

#[test]
fn a_target_beside_a_refused_one_is_still_checked() {
    let output = fsmend(&["check", "--quiet", EXAMPLE, "/no/such/image"]);
    assert_eq!(code(&output), 12);
    assert_eq!(stdout(&output).lines().count(), 1);
    assert_eq!(stderr(&output).lines().count(), 1);
}

/// What a backup describes is sound, as with e2fsck; but the first line has to say that the system may not boot with it.
#[test]
fn a_lost_primary_superblock_is_told_first() {
    let folder = Folder::new("primary-lost");
    let image = folder.path("image");
    let name = image.to_str().unwrap();
    // As it was made: once it is used, the totals that the backup keeps lag behind, and that is damage enough.
    host::run("mke2fs", ["-q", "-F", "-b", "1024", "-g", "2048", name, "8M"]).unwrap();
    assert_eq!(stdout(&fsmend(&["check", "--quiet", name])).matches(": sound.").count(), 1);
    let mut bytes = std::fs::read(&image).unwrap();
    bytes[1024 + 0x18..1024 + 0x2c].fill(0xa5);
    std::fs::write(&image, bytes).unwrap();
    let output = fsmend(&["check", "--quiet", name]);
    assert!(stdout(&output).contains(": sound but for its superblock. "), "{}", stdout(&output));
    assert_eq!((code(&output), stdout(&output).lines().count()), (0, 1));
    assert_eq!(code(&fsmend(&["repair", "-y", "--no-undo", name])), 1);
    assert!(stdout(&fsmend(&["check", "--quiet", name])).contains(": sound. "));
}

#[test]
fn a_check_within_a_read_limit_finds_the_same() {
    let plain = fsmend(&["check", "--format", "json", EXAMPLE]);
    let limits: [&[&str]; 2] = [&["--read-limit", "20M"], &["--read-limit", "20MiB/s", "--backend", "pread"]];
    for options in limits {
        let output = fsmend(&[&["check", "--format", "json", EXAMPLE], options].concat());
        assert_eq!((code(&output), stdout(&output)), (4, stdout(&plain)), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).is_empty(), "{options:?}: {}", stderr(&output));
    }
}

/// On a machine that has no core to spare, a check in the background makes no progress, which is no error: then it is skipped.
#[test]
fn a_check_in_the_background_finds_the_same() {
    let plain = fsmend(&["check", "--format", "json", EXAMPLE]);
    for options in [&["--background", "--threads", "1"], &["--background", "--threads", "7"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsmend"));
        command.args(["check", "--format", "json", EXAMPLE]).args(options);
        let run = run_limited(command, Limits::default()).unwrap();
        if run.ended == Ended::TimedOut {
            return skip("a check in the background", "no core was idle for a minute");
        }
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!((run.ended, run.stdout.as_slice()), (Ended::Code(4), plain.stdout.as_slice()), "{said}");
        assert!(said.is_empty(), "{options:?}: {said}");
    }
}

/// A control group of its own for one process, where we may make one: its folder, the file of its limit of memory.
fn memory_group() -> Option<(PathBuf, &'static str)> {
    let places = [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];
    places.into_iter().find_map(|(root, limit)| {
        let folder = PathBuf::from(root).join(format!("fsmend-test-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        match folder.join(limit).exists() {
            true => Some((folder, limit)),
            false => std::fs::remove_dir(&folder).ok().and(None),
        }
    })
}

#[test]
fn the_memory_of_a_real_control_group_is_kept_to() {
    let Some((group, limit)) = memory_group() else {
        return host::skip("the memory of a real control group", "no control group can be made");
    };
    std::fs::write(group.join(limit), "16777216").unwrap();
    // The shell goes into the group and becomes the program.
    let script = "echo $$ > \"$1/cgroup.procs\" && exec \"$2\" check --quiet \"$3\"";
    let inside = Command::new("sh")
        .args(["-c", script, "sh", group.to_str().unwrap(), env!("CARGO_BIN_EXE_fsmend"), EXAMPLE])
        .output()
        .unwrap();
    // The group is free once the kernel has put the process away.
    while std::fs::remove_dir(&group).is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(code(&inside), 8, "{}", stderr(&inside));
    assert!(
        stderr(&inside).contains("8 MiB of memory are too little"),
        "half of the group's: {}",
        stderr(&inside)
    );
}

#[test]
fn checking_changes_nothing() {
    let before = std::fs::read(EXAMPLE).unwrap();
    fsmend(&["check", EXAMPLE]);
    assert_eq!(std::fs::read(EXAMPLE).unwrap(), before);
}

#[test]
fn several_targets_are_told_in_order_and_their_bits_are_joined() {
    let (first, second) = (Scratch::new("first", &[0; 50_000]), Scratch::new("second", &[0; 50_000]));
    let output =
        fsmend(&["check", "--format", "json", "--threads", "1", first.path(), "/no/such", second.path()]);
    assert_eq!(code(&output), 8);
    let document = valid_report(stdout(&output));
    let named: Vec<_> =
        document["targets"].as_array().unwrap().iter().map(|one| one["target"].clone()).collect();
    assert_eq!(named, [first.path(), "/no/such", second.path()]);
}

#[test]
fn a_missing_external_journal_refuses_every_target() {
    let file = Scratch::new("journal", &[0; 50_000]);
    let output = fsmend(&["check", "--format", "json", "-j", "/no/such/journal", file.path()]);
    assert_eq!(code(&output), 8);
    let document = valid_report(stdout(&output));
    assert!(document["error"]["message"].as_str().unwrap().contains("/no/such/journal"));
}

#[test]
fn unknown_codes_exit_16_and_offer_others() {
    for wanted in ["ext.no.such-thing", "0xffffff", "links"] {
        let output = fsmend(&["explain", wanted]);
        assert_eq!(code(&output), 16, "{wanted}");
        assert!(stderr(&output).contains("fsmend explain --list"), "{wanted}");
    }
}

#[test]
fn every_listed_code_can_be_explained() {
    let list = fsmend(&["explain", "--list"]);
    assert_eq!(code(&list), 0);
    let codes: Vec<&str> = stdout(&list).lines().filter_map(|line| line.split_whitespace().next()).collect();
    for some in codes.chunks(50) {
        let output = fsmend(&[&["explain"], some].concat());
        assert_eq!(code(&output), 0);
        some.iter().for_each(|code| assert!(stdout(&output).contains(code), "{code}"));
    }
}

#[test]
fn colours_stay_out_of_pipes() {
    let output = fsmend(&["explain", "--list"]);
    assert!(!stdout(&output).contains('\x1b'));
}
