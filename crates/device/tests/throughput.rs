// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the ways to read, warm and cold: `cargo test --release -p fsmend-device --test throughput -- --ignored
//! --nocapture --test-threads 1`. Dropping caches needs root; without it only warm numbers are told.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use fsmend_base::SeededRandom;
use fsmend_device::{BatchReader, FileDevice, Qcow2Device, ReadBackend, Request};

const FILE_BYTES: u64 = 512 << 20;

/// Requests of one kind, in disk order.
fn sequential(len: u32) -> Vec<Request> {
    (0..FILE_BYTES / u64::from(len)).map(|i| Request { offset: i * u64::from(len), len }).collect()
}

fn scattered(len: u32, count: usize) -> Vec<Request> {
    let mut random = SeededRandom::new(1);
    let blocks = FILE_BYTES / u64::from(len);
    let mut requests: Vec<Request> =
        (0..count).map(|_| Request { offset: random.below(blocks) * u64::from(len), len }).collect();
    requests.sort();
    requests.dedup();
    requests
}

fn drop_caches(file: &File) -> bool {
    file.sync_all().unwrap();
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// One pass with plain reads into one buffer, the measure of all others.
fn plain(file: &File, requests: &[Request]) -> u64 {
    let mut buf = vec![0; requests.iter().map(|r| r.len as usize).max().unwrap()];
    let mut sum = 0;
    for request in requests {
        let bytes = &mut buf[..request.len as usize];
        file.read_exact_at(bytes, request.offset).unwrap();
        sum += look_at(bytes);
    }
    sum
}

fn batched(reader: &mut BatchReader<'_>, requests: &[Request]) -> u64 {
    let mut sum = 0;
    reader.read(requests, &mut |_, bytes| sum += look_at(bytes.unwrap()));
    sum
}

/// Touches each cache line, as a checker would.
fn look_at(bytes: &[u8]) -> u64 {
    bytes.chunks(64).map(|line| u64::from(line[0])).sum()
}

fn best_of(times: usize, mut run: impl FnMut() -> Duration) -> Duration {
    (0..times).map(|_| run()).min().unwrap()
}

fn report(label: &str, requests: &[Request], time: Duration) {
    let bytes: u64 = requests.iter().map(|request| u64::from(request.len)).sum();
    println!(
        "  {label:<24} {:>9.2} ms  {:>7.2} GB/s  {:>8.0} requests/s",
        time.as_secs_f64() * 1e3,
        bytes as f64 / time.as_secs_f64() / 1e9,
        requests.len() as f64 / time.as_secs_f64()
    );
}

fn measure(path: &Path, requests: &[Request], cold: bool) {
    let file = File::open(path).unwrap();
    let device = FileDevice::open(path).unwrap();
    let passes = if cold { 3 } else { 7 };
    let prepare = || !cold || drop_caches(&file);
    if !prepare() {
        return println!("  caches cannot be dropped");
    }
    let expected = plain(&file, requests);
    let time = best_of(passes, || {
        prepare();
        let start = Instant::now();
        assert_eq!(plain(&file, requests), expected);
        start.elapsed()
    });
    report("plain", requests, time);
    for (backend, depth) in [
        (ReadBackend::Pread, 32),
        (ReadBackend::Uring, 8),
        (ReadBackend::Uring, 32),
        (ReadBackend::Auto, 8),
        (ReadBackend::Auto, 32),
    ] {
        let mut reader = BatchReader::new(&device, backend, depth);
        let time = best_of(passes, || {
            prepare();
            let start = Instant::now();
            assert_eq!(batched(&mut reader, requests), expected);
            start.elapsed()
        });
        report(&format!("{backend:?} depth {depth}"), requests, time);
    }
}

/// A qcow2 image of the same size, with clusters of 64 KiB, every second pair of them swapped.
fn write_qcow2(path: &Path, chunk: &[u8]) {
    const CLUSTER: u64 = 64 << 10;
    let clusters = FILE_BYTES / CLUSTER;
    let mut header = vec![0; 3 * CLUSTER as usize];
    let mut put =
        |at: u64, bytes: &[u8]| header[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb\0\0\0\x03");
    put(20, &16u32.to_be_bytes());
    put(24, &FILE_BYTES.to_be_bytes());
    put(36, &1u32.to_be_bytes());
    put(40, &CLUSTER.to_be_bytes());
    put(96, &4u32.to_be_bytes());
    put(100, &104u32.to_be_bytes());
    put(CLUSTER, &((2 * CLUSTER) | (1 << 63)).to_be_bytes());
    for cluster in 0..clusters {
        let host = if cluster % 4 < 2 { cluster } else { cluster ^ 1 };
        put(2 * CLUSTER + 8 * cluster, &(((3 + host) * CLUSTER) | (1 << 63)).to_be_bytes());
    }
    let mut file = File::create(path).unwrap();
    file.write_all(&header).unwrap();
    (0..FILE_BYTES >> 20).for_each(|_| file.write_all(chunk).unwrap());
}

#[test]
#[ignore = "a measurement, not a check"]
fn qcow2_throughput() {
    let path = std::env::temp_dir().join(format!("fsmend-throughput-{}.qcow2", std::process::id()));
    write_qcow2(&path, &vec![7; 1 << 20]);
    let device = Qcow2Device::open(&path).unwrap();
    let file = File::open(&path).unwrap();
    for (what, requests) in [
        ("256 KiB, all", sequential(256 << 10)),
        ("64 KiB, all", sequential(64 << 10)),
        ("4 KiB, scattered", scattered(4096, 30_000)),
    ] {
        for cold in [false, true] {
            println!("qcow2, {what}, {}", if cold { "cold" } else { "warm" });
            let mut reader = BatchReader::new(&device, ReadBackend::Auto, BatchReader::DEPTH_DEFAULT);
            let time = best_of(3, || {
                let _ = cold && drop_caches(&file);
                let start = Instant::now();
                batched(&mut reader, &requests);
                start.elapsed()
            });
            report("Auto", &requests, time);
        }
    }
    fs::remove_file(path).unwrap();
}

#[test]
#[ignore = "a measurement, not a check"]
fn throughput() {
    let directory = std::env::var_os("FSMEND_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let path = directory.join(format!("fsmend-throughput-{}", std::process::id()));
    let mut random = SeededRandom::new(7);
    let chunk: Vec<u8> = (0..1 << 20).map(|_| random.next_u64() as u8).collect();
    let mut file = File::create(&path).unwrap();
    (0..FILE_BYTES >> 20).for_each(|_| file.write_all(&chunk).unwrap());
    drop(file);
    for (what, requests) in [
        ("256 KiB, all", sequential(256 << 10)),
        ("256 KiB, one in four", sequential(256 << 10).into_iter().step_by(4).collect()),
        ("4 KiB, scattered", scattered(4096, 30_000)),
        ("4 KiB, sparse", scattered(4096, 4_000)),
    ] {
        for cold in [false, true] {
            println!("{what}, {}", if cold { "cold" } else { "warm" });
            measure(&path, &requests, cold);
        }
    }
    fs::remove_file(path).unwrap();
}
