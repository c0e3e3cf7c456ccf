// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicU64;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, any, prop_oneof, proptest};

use super::*;
use crate::testing::TempFile;
use crate::{BatchReader, FileDevice, MemoryDevice, Overlay, ReadBackend, Request, Slice};

/// Time that passes only while a reader waits.
#[derive(Clone, Default)]
struct Script(Arc<AtomicU64>);

impl Pace for Script {
    fn now_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn wait(&self, span: Duration) {
        self.0.fetch_add(span.as_nanos() as u64, Relaxed);
    }
}

/// Seconds that reading `bytes` must take after a full bucket was used up.
fn seconds(bytes: u64, rate: u64) -> f64 {
    bytes as f64 / rate as f64
}

fn gone(script: &Script) -> f64 {
    script.now_ns() as f64 / 1e9
}

proptest! {
    #[test]
    fn no_span_of_time_sees_more_than_the_rate_and_one_bucket(
        rate in 1u64..1 << 36, reads in vec((0u64..8 << 20, 0u64..400_000_000), 1..60),
    ) {
        let script = Script::default();
        let limit = ReadLimit::new(rate, script.clone());
        let bucket = rate as f64 * BURST_NS as f64 / 1e9;
        let mut log: Vec<(f64, u64)> = Vec::new();
        for (bytes, pause) in reads {
            script.wait(Duration::from_nanos(pause));
            limit.take(bytes);
            log.push((gone(&script), bytes));
        }
        for from in 0..log.len() {
            let mut sum = 0;
            for (at, bytes) in &log[from..] {
                sum += bytes;
                let allowed = rate as f64 * (at - log[from].0) + bucket + log[from].1 as f64;
                assert!(sum as f64 <= allowed * 1.000_001 + 1.0, "{sum} bytes, {allowed} allowed");
            }
        }
    }

    /// Who always wants more gets all that the limit allows, neither more nor less.
    #[test]
    fn the_rate_is_met_exactly(rate in 1000u64..1 << 34, len in 1u64..4 << 20, count in 1u64..300) {
        let script = Script::default();
        let limit = ReadLimit::new(rate, script.clone());
        (0..count).for_each(|_| limit.take(len));
        let expected = (seconds(len * count, rate) - BURST_NS as f64 / 1e9).max(0.0);
        // Each read is rounded up to a nanosecond.
        assert!((gone(&script) - expected).abs() <= 1e-9 * (count + 1) as f64 + expected * 1e-9, "{} {expected}", gone(&script));
    }
}

const FILE_BYTES: usize = 3 << 20;

fn batch(lens: &[u32]) -> Vec<Request> {
    let mut at = 0;
    let next = |len: &u32| {
        let request = Request { offset: at, len: *len };
        at = (at + u64::from(*len) + 4096) % (FILE_BYTES as u64 - (300 << 10));
        request
    };
    let mut requests: Vec<Request> = lens.iter().map(next).collect();
    requests.sort_unstable();
    requests
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Batches through the page cache, io_uring and plain reads, on files and on what has no file, through an overlay and a
    /// window: every byte is paid for, once.
    #[test]
    fn batches_keep_to_the_limit(
        backend in prop_oneof![Just(ReadBackend::Auto), Just(ReadBackend::Uring), Just(ReadBackend::Pread)],
        in_file in any::<bool>(), lens in vec(prop_oneof![Just(4096u32), 1u32..(256 << 10)], 1..40), depth in 1usize..40,
    ) {
        let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at / 4096) as u8).collect();
        let file = TempFile::new("limit", &bytes);
        let below: Arc<dyn Device> = match in_file {
            true => Arc::new(FileDevice::open(file.path()).unwrap()),
            false => Arc::new(MemoryDevice::new("m", bytes.clone())),
        };
        let (script, rate) = (Script::default(), 1 << 20);
        let limit = Arc::new(ReadLimit::new(rate, script.clone()));
        let limited: Arc<dyn Device> = Arc::new(Limited::new(below, limit));
        let overlay = Overlay::new(Slice::new("s", limited, 0, u64::MAX));
        let requests = batch(&lens);
        let mut delivered = 0;
        BatchReader::new(&overlay, backend, depth).read(&requests, &mut |index, result| {
            let (request, read) = (requests[index], result.unwrap());
            assert!(*read == bytes[request.offset as usize..request.end() as usize]);
            delivered += read.len() as u64;
        });
        let expected = (seconds(delivered, rate) - BURST_NS as f64 / 1e9).max(0.0);
        assert!((gone(&script) - expected).abs() < 1e-6, "{} for {expected}", gone(&script));
    }
}

#[test]
fn devices_share_one_limit() {
    let script = Script::default();
    let limit = Arc::new(ReadLimit::new(1000, script.clone()));
    let device = |name| Limited::new(MemoryDevice::new(name, vec![0; 5000]), Arc::clone(&limit));
    let (left, right) = (device("left"), device("right"));
    for _ in 0..5 {
        left.read_at(0, &mut [0; 1000]).unwrap();
        right.read_at(0, &mut [0; 1000]).unwrap();
    }
    assert!((gone(&script) - 9.9).abs() < 1e-6, "{}", gone(&script));
    assert_eq!((left.name(), right.len(), limit.bytes_per_second()), ("left", 5000, 1000));
}

#[test]
fn who_is_told_to_stop_waits_no_longer() {
    let (script, stop) = (Script::default(), Arc::new(AtomicBool::new(true)));
    let limit = ReadLimit::new(1, script.clone()).until(&stop);
    limit.take(1 << 40);
    assert_eq!(script.now_ns(), 0);
}

#[test]
fn absurd_numbers_do_not_wrap() {
    let script = Script(Arc::new(AtomicU64::new(u64::MAX - 5)));
    let limit = ReadLimit::new(0, script);
    assert_eq!(limit.bytes_per_second(), 1);
    assert_eq!(limit.book(u64::MAX), u64::MAX - BURST_NS);
}
