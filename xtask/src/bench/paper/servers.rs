// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures 18 and 19: PostMark and the servers of Filebench, by the same driver on the same disk.

use std::io;
use std::path::Path;

use fsmend_lab::personality::{self, Personality};
use fsmend_lab::postmark::{self, PostmarkOptions};

use super::figure::{Figure, Table};
use super::images::{SEED, WRITERS};
use super::site::Site;

/// Bytes read and written at a time: there is no page cache below that would gather smaller ones.
const PIECE: usize = 128 << 10;
/// Rounds of the servers.
const ROUNDS: u32 = 1000;

fn against(value: f64, than: f64) -> String {
    format!("{:+.1} %", (value / than.max(1e-9) - 1.0) * 100.0)
}

/// Figure 18.
pub fn postmark(image: &Path, gib: u64) -> io::Result<Figure> {
    // The paper's 5000 files take 10 GB of 750; here the share is larger.
    let files = (gib * 64).min(5000) as u32;
    let options =
        PostmarkOptions { files, transactions: 4 * files, piece: PIECE, ..PostmarkOptions::default() };
    let mut table = Table::new(&[
        "file system",
        "all of it",
        "transactions a second",
        "read",
        "written",
        "speed against ext3",
        "the paper's rext3",
    ]);
    let mut base = None;
    for contestant in WRITERS {
        let site = Site::new(image, gib, contestant)?;
        let (report, time, home) =
            site.mounted(SEED, |bench, clock| postmark::run(bench, clock, &options))?;
        let seconds = (time + home).as_secs_f64();
        let speed = 1.0 / seconds.max(1e-9);
        println!("{}: PostMark {seconds:.1} s", contestant.name);
        table.push(vec![
            contestant.name.to_owned(),
            format!("{seconds:.1} s"),
            format!("{:.1}", f64::from(options.transactions) / report.transacting.as_secs_f64().max(1e-9)),
            format!("{:.2} MB/s", report.bytes_read as f64 / seconds / 1e6),
            format!("{:.2} MB/s", report.bytes_written as f64 / seconds / 1e6),
            against(speed, *base.get_or_insert(speed)),
            "nearly the same".to_owned(),
        ]);
    }
    Ok(Figure {
        number: "18",
        title: "PostMark",
        paper: "nearly the same; 5 % slower where there are many small files",
        table,
        ours: "Files of 4 KB to 4 MB in 50 folders, half of the transactions read and half append, half make and half delete: as in the paper, but 64 files for each GiB, and four \
               transactions for each file.",
        plot: None,
    })
}

/// Figure 19.
pub fn servers(image: &Path, gib: u64) -> io::Result<Figure> {
    let mut table = Table::new(&[
        "server",
        "file system",
        "operations a second",
        "speed against ext3",
        "the paper's rext3",
    ]);
    let all = [
        (Personality::file_server(), "nearly the same"),
        (Personality::web_proxy(), "nearly the same"),
        (Personality::mail_server(), "-5 %"),
    ];
    for (server, paper) in all {
        let files = server.files.min(gib as u32 * 500);
        let server = Personality { files, ..server };
        let mut base = None;
        for contestant in WRITERS {
            let site = Site::new(image, gib, contestant)?;
            let (report, ..) =
                site.mounted(SEED, |bench, clock| personality::run(bench, clock, &server, ROUNDS))?;
            let rate = report.rate();
            println!("{}: {} {rate:.1} a second", contestant.name, server.name);
            table.push(vec![
                server.name.to_owned(),
                contestant.name.to_owned(),
                format!("{rate:.1}"),
                against(rate, *base.get_or_insert(rate)),
                paper.to_owned(),
            ]);
        }
    }
    Ok(Figure {
        number: "19",
        title: "The servers of Filebench",
        paper: "nearly the same; 5 % slower where there are many small files",
        table,
        ours: "One thread does one operation after the other, as the disk is what is looked at; up to 500 files for each GiB.",
        plot: None,
    })
}
