// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench page`: how long a browser takes to show the page of a report, and to sort its table: the bundled image, and the same report with a hundred thousand problems.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use fsmend_testkit::target_folder;
use serde_json::{Value as Json, json};

use super::Options;
use super::check::build;
use crate::workspace;

const PROBLEMS: u32 = 100_000;

/// A page is shown within so many milliseconds.
const SHOWN_MAX: f64 = 1000.0;

/// Sorts the table of problems, and leaves what it measured in the document.
const BEHIND: &str = "<script>{ const start = performance.now(); \
     [...document.querySelectorAll('#problems th button')].find((button) => button.textContent === 'Place').click(); \
     document.documentElement.dataset.sorted = String(performance.now() - start); }</script></body>";

/// Measures, prints, and fails where a page is slow.
pub fn run(options: &Options) -> io::Result<()> {
    if options.build {
        build()?;
    }
    let fsmend = target_folder().join("release/fsmend");
    let image = workspace()?.join("examples/damaged.qcow2");
    let report = Command::new(fsmend).args(["check", "--format", "html"]).arg(image).output()?;
    let page = String::from_utf8_lossy(&report.stdout).into_owned();
    let folder = std::env::temp_dir().join(format!("fsmend-bench-page-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let done = measured(&page, &folder, options.runs);
    fs::remove_dir_all(&folder)?;
    done
}

fn measured(page: &str, folder: &Path, runs: usize) -> io::Result<()> {
    println!(
        "medians of {runs} runs, milliseconds\n\n| page | MB | shown after | sorted in |\n|---|---|---|---|"
    );
    let mut within = true;
    for (name, page) in [("the bundled image", page.to_owned()), ("100 000 problems", with_many(page)?)] {
        let file = folder.join("page.html");
        fs::write(&file, page.replacen("</body>", BEHIND, 1))?;
        let mut samples = (0..runs).map(|_| load(&file, folder)).collect::<io::Result<Vec<_>>>()?;
        samples.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (shown, sorted) = samples[samples.len() / 2];
        println!("| {name} | {:.1} | {shown:.0} | {sorted:.0} |", page.len() as f64 / 1e6);
        within &= shown <= SHOWN_MAX;
    }
    match within {
        true => Ok(()),
        false => Err(io::Error::other(format!("a page takes more than {SHOWN_MAX} ms"))),
    }
}

/// The page with a hundred thousand problems more.
fn with_many(page: &str) -> io::Result<String> {
    let no_data = || io::Error::other("the page holds no report");
    let (front, rest) = page.split_once("id=\"data\">").ok_or_else(no_data)?;
    let (data, behind) = rest.split_once("</script>").ok_or_else(no_data)?;
    let mut document: Json = serde_json::from_str(data)?;
    let problems = document["problems"].as_array_mut().ok_or_else(no_data)?;
    let first = problems.first().cloned().ok_or_else(no_data)?;
    for number in 0..PROBLEMS {
        let mut problem = first.clone();
        problem["message"] = format!("/many/file {number} is wrong").into();
        problem["object"] = json!({"inode": 1000 + number % 5000, "block": PROBLEMS - number});
        problems.push(problem);
    }
    Ok(format!("{front}id=\"data\">{}</script>{behind}", document.to_string().replace('<', "\\u003c")))
}

/// Milliseconds from the start of the navigation until the page was shown, and those that sorting took.
fn load(page: &Path, folder: &Path) -> io::Result<(f64, f64)> {
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    browser.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    let output = browser.arg(format!("file://{}", page.display())).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |name: &str| {
        let value = text.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        value.and_then(|value| value.parse().ok())
    };
    number("data-shown").zip(number("data-sorted")).ok_or_else(|| {
        io::Error::other(format!("the page does not run: {}", String::from_utf8_lossy(&output.stderr)))
    })
}
