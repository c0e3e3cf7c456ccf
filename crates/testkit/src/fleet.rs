// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of fleets of any size, with records as workers write them and no volume behind them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use fsmend_base::SeededRandom;
use serde_json::{Value, json};

/// Writes a list of so many volumes.
pub fn write_list(path: &Path, volumes: usize) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for number in 0..volumes {
        let size = (number as u64 % 97 + 1) << 30;
        writeln!(
            out,
            r#"{{"id":"store-{number:06}","target":"/images/store-{number:06}.qcow2","size":{size}}}"#
        )?;
    }
    out.flush()
}

/// What records tell.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// One volume in so many is damaged.
    pub damaged_one_in: u64,
    /// Problems that the record of a damaged one lists.
    pub problems: usize,
    /// One volume in so many has a second record.
    pub twice_one_in: u64,
}

/// Writes records of all volumes of the run in `folder`. Returns their bytes.
pub fn write_records(folder: &Path, shape: Shape, seed: u64) -> io::Result<u64> {
    let run: Value = serde_json::from_slice(&fs::read(folder.join("run.json"))?)?;
    let shards = run["shards"].as_array().map_or(0, Vec::len);
    let mut random = SeededRandom::new(seed);
    let mut bytes = 0;
    for shard in 0..shards {
        let list = BufReader::new(File::open(folder.join(format!("shards/{shard:05}.jsonl")))?);
        let header = json!({"worker": {"run": run["id"], "shard": shard, "attempt": 1, "node": "n1", "process": 1, "started": 1_800_000_000}});
        let (mut first, mut second) = (format!("{header}\n"), format!("{header}\n"));
        for line in list.lines() {
            let item: Value = serde_json::from_str(&line?)?;
            let record = record(&item, shape, &mut random).to_string();
            for text in [&mut first, &mut second] {
                text.push_str(&format!("{{\"begin\":{}}}\n{record}\n", item["id"]));
                if !random.next_u64().is_multiple_of(shape.twice_one_in.max(1)) {
                    break;
                }
            }
        }
        for (number, text) in [(1, first), (2, second)] {
            bytes += text.len() as u64;
            fs::write(folder.join(format!("records/{shard:05}/{number:04}.jsonl")), text)?;
        }
    }
    Ok(bytes)
}

fn record(item: &Value, shape: Shape, random: &mut SeededRandom) -> Value {
    let is_damaged = random.next_u64().is_multiple_of(shape.damaged_one_in.max(1));
    let seconds = (random.next_u64() % 100_000) as f64 / 1000.0;
    let (verdict, exit) = if is_damaged { ("damaged", 4) } else { ("sound", 0) };
    let count = if is_damaged { shape.problems } else { 0 };
    let problems: Vec<Value> = (0..count).map(|number| problem(number, random)).collect();
    let counts = if is_damaged { json!({"ext.inode.links-mismatch": count}) } else { json!({}) };
    json!({
        "id": item["id"], "node": format!("n{}", random.next_u64() % 40), "attempt": 1,
        "started": 1_800_000_000 + random.next_u64() % 36_000, "seconds": seconds, "exit": exit, "verdict": verdict,
        "version": 1, "tool": {"name": "fsmend", "version": "0.1.0"}, "target": item["target"],
        "problems": problems, "counts": counts,
        "summary": {
            "kind": "ext4", "label": "", "uuid": "5eed0000-f5ed-4e1d-8000-000000000001",
            "features": ["has_journal", "ext_attr", "resize_inode", "dir_index", "filetype", "extent", "64bit", "flex_bg", "sparse_super",
                         "large_file", "huge_file", "dir_nlink", "extra_isize", "metadata_csum"],
            "block_size": 4096, "files_used": 1_000_026, "files_total": 1_310_720, "directories": 12_001, "non_contiguous": 77,
            "blocks_used": 1_618_000, "blocks_total": 5_242_880, "journal": "clean", "superblock": {"block": 0, "backup": false},
        },
    })
}

fn problem(number: usize, random: &mut SeededRandom) -> Value {
    let inode = random.next_u64() % 1_000_000;
    let path = format!("/srv/data/{number}/file-{inode}");
    json!({
        "code": "ext.inode.links-mismatch", "severity": "minor", "evidence": "cross-check", "preen": true,
        "message": format!("{path} (inode {inode}) has link count 9, but 2 names point to it"),
        "object": {"inode": inode, "path": path}, "stored": 9, "observed": 2, "e2fsck": ["0x040003"],
    })
}
