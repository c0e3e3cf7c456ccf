// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of a report in a real browser: headless Chromium loads it without a network, sorts, searches and opens lines; nothing is an error.
//!
//! The browser runs the page as it was written, with a script in front that notes errors and one behind that uses the page and leaves what it saw in
//! the document, which the browser prints at the end.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::path::{Path, PathBuf};
use std::process::Command;

use images::{Folder, code, debugfs, fsmend, have, stderr, stdout};
use serde_json::Value as Json;

/// Milliseconds after which a page hangs. (How fast it is: `cargo xtask bench page`.)
const HANGS_AFTER: f64 = 20_000.0;

/// Notes every error from the first moment on.
const BEFORE: &str = "<script>window.noted = []; addEventListener('error', (e) => noted.push(e.message)); \
     for (const kind of ['error', 'warn']) console[kind] = (...what) => noted.push(what.join(' ')); \
     addEventListener('securitypolicyviolation', (e) => noted.push('refused: ' + e.blockedURI));</script>";

/// Uses the page: the tables are sorted and searched, a line is opened, the map is pointed at.
const BEHIND: &str = r#"<script>
const seen = {shown: Number(document.documentElement.dataset.shown), loaded: performance.now()};
const rows = (id) => [...document.querySelectorAll(`#${id} tbody tr`)].map((row) => [...row.cells].map((cell) => cell.textContent));
const click = (id, name) => [...document.querySelectorAll(`#${id} th button`)].find((button) => button.textContent === name).click();
const type = (id, text) => { const box = document.querySelector(`#${id} input`); box.value = text; box.dispatchEvent(new Event('input')); };
seen.verdict = document.getElementById('verdict').textContent;
seen.losses = document.getElementById('losses').textContent;
seen.sections = [...document.querySelectorAll('h2')].map((head) => head.textContent);
if (document.getElementById('files')) {
  seen.files = rows('files');
  click('files', 'Inode'); seen.up = rows('files').map((row) => row[1]);
  click('files', 'Inode'); seen.down = rows('files').map((row) => row[1]);
}
if (document.getElementById('problems')) {
  const start = performance.now();
  seen.problems = rows('problems').length;
  seen.status = document.querySelector('#problems .pager span').textContent;
  click('problems', 'Place'); click('problems', 'Place');
  type('problems', '/a/two'); seen.found = rows('problems');
  seen.worked = performance.now() - start;
  const line = document.querySelector('#problems tbody tr'); if (line) line.click();
  seen.opened = document.querySelectorAll('#problems tr[data-detail]').length;
  seen.explanation = (document.querySelector('#problems tr[data-detail]') || {}).textContent;
}
const canvas = document.querySelector('#map canvas');
if (canvas) {
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + 2, clientY: box.top + 2}));
  seen.cell = document.querySelector('.told').textContent;
  canvas.dispatchEvent(new MouseEvent('click', {clientX: box.left + 2, clientY: box.top + 2}));
  seen.zoomed = !document.querySelector('#map').parentNode.querySelectorAll('.controls button')[0].disabled;
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  seen.violet = 0;
  for (let at = 0; at < pixels.length; at += 28) if (pixels[at] > pixels[at + 1] + 8 && pixels[at + 2] > pixels[at + 1] + 8) seen.violet += 1;
  seen.colours = new Set(Array.from({length: 4000}, (_, at) => pixels.slice(at * 64, at * 64 + 3).join())).size;
}
seen.images = document.images.length;
seen.scripts = document.scripts.length;
seen.noted = noted;
document.body.replaceChildren();
const left = document.createElement('pre'); left.id = 'seen'; left.textContent = encodeURIComponent(JSON.stringify(seen)); document.body.append(left);
</script>"#;

/// What the browser sees of a page.
fn seen(folder: &Folder, page: &str) -> Json {
    let path = folder.path("page.html");
    let instrumented = page.replacen("<head>", &format!("<head>{BEFORE}"), 1);
    let (front, end) = instrumented.rsplit_once("</body>").unwrap();
    std::fs::write(&path, format!("{front}{BEHIND}</body>{end}")).unwrap();
    let told = browser(folder, &path, &["--dump-dom"]);
    let text = told.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let text = text.unwrap_or_else(|| panic!("the page does not run: {told}"));
    serde_json::from_str(&decoded(text)).unwrap()
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let number =
            tail.get(..2).and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match (first, number) {
            (b'%', Some(number)) => {
                bytes.push(number);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn browser(folder: &Folder, page: &Path, arguments: &[&str]) -> String {
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1200,2400",
        ])
        .args(["--proxy-server=127.0.0.1:9"])
        .arg(format!("--user-data-dir={}", folder.path("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ready(test: &str) -> bool {
    have(test, &["chromium", "mke2fs", "debugfs"])
}

const HOSTILE: &str = "<img src=x onerror=alert(1)>";

/// An image with several problems, among them files with hostile names.
fn damaged(folder: &Folder) -> PathBuf {
    let image = folder.image("x.img", &[]);
    debugfs(&image, &format!("write /etc/passwd \"a/{HOSTILE}\""));
    debugfs(&image, "mkdir \"a/<script>\"");
    debugfs(&image, "write /etc/passwd \"a/<script>/x\"");
    for request in [
        format!("sif \"a/{HOSTILE}\" links_count 7"),
        "sif a/two links_count 9".to_owned(),
        "sif \"a/<script>/x\" links_count 9".to_owned(),
        "unlink a/one".to_owned(),
    ] {
        debugfs(&image, &request);
    }
    image
}

fn texts(json: &Json) -> Vec<&str> {
    json.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// What holds for every page.
fn is_well(seen: &Json) {
    assert_eq!(seen["noted"], serde_json::json!([]), "nothing on the console: {seen:#}");
    assert_eq!(seen["images"], 0, "a name became markup");
    assert_eq!(seen["scripts"], 4, "the data, the script, and the two of the test");
    assert!(seen["shown"].as_f64().unwrap() < HANGS_AFTER, "it is shown: {}", seen["shown"]);
    assert!(seen["colours"].as_u64().unwrap_or(9) >= 2, "the map has cells: {seen:#}");
    let numbers =
        |name: &str| texts(&seen[name]).iter().map(|text| text.parse().unwrap()).collect::<Vec<u64>>();
    let (up, mut down) = (numbers("up"), numbers("down"));
    assert!(up.len() > 1 && up.is_sorted(), "{up:?}");
    down.reverse();
    assert!(
        down.is_sorted() && up[0] < down[down.len() - 1],
        "a second click turns the order around: {down:?}"
    );
}

#[test]
fn a_check_in_a_browser() {
    if !ready("page: check") {
        return;
    }
    let folder = Folder::new("page-check");
    let image = damaged(&folder);
    let output = fsmend(&["check", "--format", "html", image.to_str().unwrap()]);
    assert_eq!(code(&output), 4);
    let seen = seen(&folder, &stdout(&output));
    is_well(&seen);
    assert_eq!(seen["verdict"], "Damaged");
    let sections = texts(&seen["sections"]);
    for section in ["Files with problems", "Problems", "Layout map", "Files", "Time and I/O by stage"] {
        assert!(sections.contains(&section), "{section}: {sections:?}");
    }
    let files: Vec<&str> =
        seen["files"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap()).collect();
    assert!(files.contains(&format!("/a/{HOSTILE}").as_str()), "{files:?}");
    assert_eq!(seen["found"].as_array().unwrap().len(), 1, "{}", seen["found"]);
    assert_eq!(seen["opened"], 1);
    assert!(seen["explanation"].as_str().unwrap().contains("Repair: "), "{}", seen["explanation"]);
    assert!(seen["cell"].as_str().unwrap().contains("superblock"), "{}", seen["cell"]);
    assert_eq!(seen["zoomed"], true);
}

#[test]
fn a_plan_in_a_browser_tells_what_happens_to_which_file() {
    if !ready("page: plan") {
        return;
    }
    let folder = Folder::new("page-plan");
    let image = damaged(&folder);
    let plan = folder.path("plan");
    let (plan, image) = (plan.to_str().unwrap(), image.to_str().unwrap());
    let saved = fsmend(&["repair", "--plan", plan, "--format", "html", image]);
    assert_eq!(code(&saved), 0);
    for page in [stdout(&saved), stdout(&fsmend(&["plan", "show", "--format", "html", plan]))] {
        let seen = seen(&folder, &page);
        is_well(&seen);
        let files = seen["files"].as_array().unwrap();
        let happens = |name: &str| {
            let row = files.iter().find(|row| row[0].as_str().unwrap().ends_with(name));
            row.unwrap_or_else(|| panic!("{name}: {files:?}"))[4].as_str().unwrap()
        };
        assert_eq!(happens(HOSTILE), "metadata corrected");
        assert!(happens("/a/one").starts_with("moved to lost+found as #"), "{}", happens("/a/one"));
        let sections = texts(&seen["sections"]);
        for section in
            ["What happens to which file", "The tree, before and after", "Changed bytes by structure"]
        {
            assert!(sections.contains(&section), "{section}: {sections:?}");
        }
        assert!(seen["losses"].as_str().unwrap().contains("may lose something"), "{}", seen["losses"]);
    }
}

#[test]
fn a_hundred_thousand_problems_can_be_leafed_through() {
    if !ready("page: many problems") {
        return;
    }
    let folder = Folder::new("page-many");
    let image = damaged(&folder);
    let page = stdout(&fsmend(&["check", "--format", "html", image.to_str().unwrap()]));
    let (front, rest) = page.split_once("id=\"data\">").unwrap();
    let (data, behind) = rest.split_once("</script>").unwrap();
    let mut document: Json = serde_json::from_str(data).unwrap();
    let first = document["problems"][0].clone();
    let problems = document["problems"].as_array_mut().unwrap();
    for number in 0..100_000u32 {
        let mut problem = first.clone();
        problem["message"] = format!("/many/file {number} is wrong").into();
        problem["object"] = serde_json::json!({"inode": 1000 + number % 5000, "block": number});
        problems.push(problem);
    }
    let page =
        format!("{front}id=\"data\">{}</script>{behind}", document.to_string().replace('<', "\\u003c"));
    let seen = seen(&folder, &page);
    is_well(&seen);
    assert_eq!(seen["problems"], 50, "one page of them is in the document");
    assert!(seen["status"].as_str().unwrap().contains("of 100,0"), "{}", seen["status"]);
    assert!(seen["worked"].as_f64().unwrap() < 60_000.0, "{}", seen["worked"]);
}

/// What a map knows: names of structures, and of what kind they are.
fn kinds_of(image: &Path) -> Vec<String> {
    let page = stdout(&fsmend(&["check", "--format", "html", image.to_str().unwrap()]));
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let json: Json = serde_json::from_str(data).unwrap();
    let map = &json["map"];
    let (mut end, mut seen) = (0, Vec::new());
    for stretch in map["stretches"].as_array().unwrap() {
        let number = |at: usize| stretch[at].as_u64().unwrap();
        assert!(number(0) >= end && number(1) > 0, "in order and without overlaps: {stretch}");
        end = number(0) + number(1);
        seen.push(format!(
            "{}: {}",
            map["kinds"][number(2) as usize][1],
            map["kinds"][number(2) as usize][0]
        ));
    }
    assert!(end <= std::fs::metadata(image).unwrap().len());
    seen.sort();
    seen.dedup();
    seen
}

#[test]
fn a_map_shows_what_each_family_has() {
    let folder = Folder::new("page-maps");
    for (kind, options, wanted) in [
        ("ext4", &[][..], ["metadata: inode tables", "journal: journal", "directory: directories"]),
        ("rext3", &[], ["metadata: inode tables", "region: indirect regions", "journal: journal"]),
        ("ufs2", &[], ["metadata: inodes", "region: metadata area", "metadata: cylinder groups"]),
        ("hybridfs", &[], ["metadata: anchors", "journal: log", "metadata: superblock and its copies"]),
    ] {
        let image = folder.path(kind);
        let words = [&["mkfs", "--type", kind], options, &[image.to_str().unwrap(), "64M"]].concat();
        let made = fsmend(&words);
        assert_eq!(code(&made), 0, "{}", stderr(&made));
        let seen = kinds_of(&image).join(", ").replace('"', "");
        for wanted in wanted {
            assert!(seen.contains(wanted), "{kind}: {seen}");
        }
    }
}

#[test]
fn a_metadata_area_that_is_free_is_not_drawn_as_free_space() {
    if !ready("page: metadata area") {
        return;
    }
    let folder = Folder::new("page-area");
    let violet = |area: &str| {
        let image = folder.path("ufs2.img");
        let words = ["mkfs", "--force", "--type", "ufs2", "-k", area, image.to_str().unwrap(), "64M"];
        let made = fsmend(&words);
        assert_eq!(code(&made), 0, "{}", stderr(&made));
        let page = stdout(&fsmend(&["check", "--format", "html", image.to_str().unwrap()]));
        let seen = seen(&folder, &page);
        assert_eq!(seen["noted"], serde_json::json!([]), "nothing on the console: {seen:#}");
        seen["violet"].as_u64().unwrap()
    };
    let (without, with) = (violet("0"), violet("512"));
    assert!(without == 0 && with > 500, "{without} {with}");
}
